"""The supervisor: starts, watches, limits and ends hosts."""
