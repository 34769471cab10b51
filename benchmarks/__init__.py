"""Measures this server against the arrangement that it succeeds."""
