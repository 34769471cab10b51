"""Streams of one instance: handshakes, sessions and watching."""
