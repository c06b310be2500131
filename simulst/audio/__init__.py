"""Audio: reading, features, and the detection of speech."""
