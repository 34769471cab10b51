"""Polls a condition until a deadline: tests never sleep for a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

#: Times are those of a quiet machine. Others are slower, and busy with other things.
PATIENCE = 4.0

_T = TypeVar("_T")


def wait_until(
    condition: Callable[[], _T],
    timeout: float = 5.0,
    message: str = "the condition",
) -> _T:
    """Poll until the condition is true and return its value.

    Args:
        condition: Called repeatedly; any true value ends the wait.
        timeout: Seconds until the wait fails, on a quiet machine.
        message: The awaited event, for the message of the failure.

    Raises:
        AssertionError: The deadline passed.
    """
    patience = timeout * PATIENCE
    deadline = time.monotonic() + patience
    pause = 0.002
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience:g} s in vain for {message}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
    return value
