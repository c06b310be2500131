"""Quality and latency of an emission log."""
