"""The fork parent: starts, watches, limits and ends hosts."""
