"""What is checked, a topic in each module, in the order in which it is done."""

from gym_http_server.validation.groups import (
    environments,
    errors,
    external,
    handshakes,
    http,
    legacy,
    server,
    steps,
    streams,
    transcripts,
    values,
)

__all__ = ["GROUPS"]

GROUPS = (
    server.SERVER,
    server.DOCUMENT,
    legacy.GROUP,
    steps.NEWER,
    errors.GROUP,
    http.HTTP,
    steps.KEYS,
    values.VALUES,
    values.NUMBERS,
    values.SPACES,
    values.ELEMENTS,
    values.MALFORMED,
    *transcripts.GROUPS,
    handshakes.HANDSHAKES,
    streams.STREAMS,
    *streams.BINARY_GROUPS,
    steps.BATCHES,
    environments.INTERNALS,
    environments.RENDER,
    environments.VECTORS,
    handshakes.TICKETS,
    *server.INSTANCE_GROUPS,
    external.EXTERNAL,
    external.FAILURES,
    *external.MESSAGE_GROUPS,
)
