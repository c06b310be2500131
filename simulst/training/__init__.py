"""What a recipe does around ESPnet's trainer: segment audio, tokens, statistics, the training itself, averaging."""
