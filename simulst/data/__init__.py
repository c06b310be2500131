"""Audio files, data directories and the corpora that they are made from."""
