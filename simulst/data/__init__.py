"""Data directories, and what is known of their recordings."""
