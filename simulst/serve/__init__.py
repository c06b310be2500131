"""What hands our loop to other programs."""
