"""Tables and pictures of runs."""
