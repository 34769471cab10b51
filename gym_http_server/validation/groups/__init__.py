"""What is checked, a topic in each module, in the order in which it is done."""

from gym_http_server.validation.groups import (
    batches,
    document,
    elements,
    errors,
    external,
    frames,
    handshakes,
    http,
    keys,
    legacy,
    malformed,
    numbers,
    server,
    spaces,
    streams,
    tickets,
    transcripts,
    values,
    vectors,
)

__all__ = ["GROUPS"]

GROUPS = (
    server.GROUP,
    document.GROUP,
    legacy.GROUP,
    errors.GROUP,
    http.GROUP,
    keys.GROUP,
    values.GROUP,
    numbers.GROUP,
    spaces.GROUP,
    elements.GROUP,
    malformed.GROUP,
    *transcripts.GROUPS,
    handshakes.GROUP,
    streams.GROUP,
    *frames.GROUPS,
    batches.GROUP,
    vectors.GROUP,
    tickets.GROUP,
    external.GROUP,
)
