"""Prefix alignment and the boundary predictor (NAIST at IWSLT 2022)."""
