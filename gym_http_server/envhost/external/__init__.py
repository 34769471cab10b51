"""External environments as environments of a host.

A host leases connections from the broker, sends requests over them, and returns them.
Around each is a `gymnasium.Env` whose step is a round trip, so that wrappers, vectors
and monitors work as with any other environment.
"""
