"""Worlds whose agents are seats, and the programs that hold them."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from gym_http_client import serve_agents


@contextlib.contextmanager
def served_agents(
    factory: Callable[[], Any], url: str, **options: Any
) -> Iterator[threading.Event]:
    """Provide worlds from a thread of this process; yield the event that ends it."""
    stop = threading.Event()
    errors: list[Exception] = []

    def serve() -> None:
        try:
            serve_agents(factory, url, stop=stop, **options)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(20)
        assert not thread.is_alive()
    assert not errors, errors
