"""Environments that live elsewhere, as environments of a host.

A host takes connections from the broker, asks over them, and gives them back. Around
each is a `gymnasium.Env` whose step is a round trip, so that wrappers, vectors and
monitors know no difference.
"""
