"""Code of single recipes: where their speech and models come from, and how they are made."""
