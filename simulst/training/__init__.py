"""The steps of a recipe around ESPnet's trainer: segment audio, tokens, statistics, training, averaging."""
