"""External environments as environments of a host.

A host leases connections from the broker, sends requests over them, and returns them. A
`gymnasium.Env` wraps each connection, and its step is a round trip. So wrappers,
vectors and monitors work as with any other environment.
"""
