"""Data directories."""
