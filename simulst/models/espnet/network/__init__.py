"""The networks of an ESPnet model, as they are computed here: encoders, decoders and their layers."""
