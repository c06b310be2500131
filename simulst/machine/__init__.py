"""The machine: processors, clusters, and quick imports."""
