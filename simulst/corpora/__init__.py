"""What belongs to one recipe: where its speech and its models come from, and how they are made."""
