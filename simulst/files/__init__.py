"""Folders, locks and YAML: how what is written on disk stays whole."""
