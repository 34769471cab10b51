"""Repeats a call in another thread, while a test does something else."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeating(call: Callable[[], None], pause_s: float) -> Iterator[None]:
    """Repeat a call until the block ends; its first error ends it, and is raised then.

    Args:
        call: The call.
        pause_s: Seconds before each call.
    """
    over = threading.Event()
    errors: list[BaseException] = []

    def repeat() -> None:
        while not errors and not over.wait(pause_s):
            try:
                call()
            except BaseException as error:
                errors.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    for error in errors:
        raise error
