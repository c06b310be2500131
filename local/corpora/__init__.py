"""From corpora to data directories: what local/prepare_data.py does."""
