"""Agents: what is asked of a server while the test does something else."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from tests.support.api import Api, Instance, ok
from tests.support.far import Far
from tests.support.raw import Response

_POOL = ThreadPoolExecutor(32)
PATIENCE = 30.0


class Answering(Protocol):
    """A far side, however it is connected."""

    def answer(self, kind: str, **result: Any) -> Any:
        """Hear a request of a kind, and answer it; give the request."""


def asking(call: Callable[..., Response], *args: Any, **kw: Any) -> Future[Response]:
    """Ask in the background."""
    return _POOL.submit(call, *args, **kw)


def insisting(call: Callable[..., Response], *args: Any, **kw: Any) -> Future[Response]:
    """Ask in the background, and again as long as the answer is 503."""

    def insist() -> Response:
        end = time.monotonic() + PATIENCE
        while True:
            answer = call(*args, **kw)
            if answer.status != 503 or time.monotonic() > end:
                return answer

    return _POOL.submit(insist)


def heard(future: Future[Response]) -> Response:
    """Give what was answered."""
    return future.result(PATIENCE)


def created(api: Api, far: Answering, **options: Any) -> Instance:
    """Create an instance of a far side's environment."""
    body = {"env_id": "external/game", "wait_s": 5, **options}
    future = asking(api.post, "/v1/envs/", body)
    far.answer("init")
    return Instance(api, ok(heard(future))["instance_id"])


def began(api: Api, far: Answering, **options: Any) -> Instance:
    """Create an instance, and reset it."""
    instance = created(api, far, **options)
    reset(instance, far)
    return instance


def reset(instance: Instance, far: Answering) -> None:
    """Reset an instance."""
    future = asking(instance.post, "reset/", {})
    far.answer("reset", observation=[0, 0])
    ok(heard(future))


def ended(instance: Instance, far: Answering) -> None:
    """Close an instance."""
    future = asking(instance.close)
    far.answer("close")
    assert heard(future).status == 204


def back(api: Api, far: Far, **hello: Any) -> Far:
    """Connect a far side anew, which goes on."""
    again = Far.to(api, resume=far.welcome["resume"], **hello)
    assert again.welcome["resumed"] is True
    assert again.welcome["connection"] == far.welcome["connection"]
    return again
