"""Audio files, data directories, and the corpora that data directories are made from."""
