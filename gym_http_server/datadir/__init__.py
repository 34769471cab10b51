"""The data directory: where recordings may be, and whose they are."""
