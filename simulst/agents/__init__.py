"""Adapters that let other evaluators drive our loop."""
