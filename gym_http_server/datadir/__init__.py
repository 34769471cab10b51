"""The data directory: recordings and ended instances, and whose they are."""
