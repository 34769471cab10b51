"""Servers that engines start, for real: ``make engines``."""
