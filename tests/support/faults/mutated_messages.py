"""Messages with small mutations, and the outcomes that they may have."""

import tracemalloc
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from gym_http_wire.values import BadValue


@st.composite
def mutated(draw: st.DrawFn, messages: st.SearchStrategy[bytes]) -> bytes:
    """A message with flipped bits, removed or inserted bytes, or another one inside."""
    message = bytearray(draw(messages))
    for _ in range(draw(st.integers(1, 4))):
        if not message:
            break
        start = draw(st.integers(0, len(message) - 1))
        end = min(len(message), start + draw(st.integers(1, 9)))
        match draw(st.sampled_from(["flip", "set", "cut", "end", "insert", "other"])):
            case "flip":
                message[start] ^= 1 << draw(st.integers(0, 7))
            case "set":
                message[start] = draw(st.integers(0, 255))
            case "cut":
                del message[start:end]
            case "end":
                del message[start:]
            case "insert":
                message[start:start] = draw(st.binary(min_size=1, max_size=9))
            case "other":
                message[start:end] = draw(messages)[: draw(st.integers(0, 40))]
    return bytes(message)


def answered(decode: Callable[[bytes], Any], data: bytes) -> tuple[bool, Any]:
    """Decode bytes, which must return a value or raise `BadValue`.

    Returns:
        Whether there is a value, and that value.
    """
    try:
        return True, decode(data)
    except BadValue as error:
        message = str(error)
        assert message.startswith("value")
        # Logs and answers contain it.
        assert len(message.encode()) < 20_000
        return False, None


def peak(call: Callable[[], object]) -> int:
    """Return the peak memory that a call allocates, in bytes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
