"""Agents: what is asked of a server while the test does something else."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from tests.support.api import Api, Instance, ok
from tests.support.peers.external_env import ExternalEnv
from tests.support.raw import Response

_POOL = ThreadPoolExecutor(32)
PATIENCE = 30.0


class AnsweringEnv(Protocol):
    """A far side, however it is connected."""

    def answer(self, kind: str, **result: Any) -> Any:
        """Hear a request of a kind, and answer it; give the request."""


def in_background(
    call: Callable[..., Response], *args: Any, **kw: Any
) -> Future[Response]:
    """Ask in the background."""
    return _POOL.submit(call, *args, **kw)


def retry_in_background(
    call: Callable[..., Response], *args: Any, **kw: Any
) -> Future[Response]:
    """Ask in the background, and again as long as the answer is 503."""

    def insist() -> Response:
        end = time.monotonic() + PATIENCE
        while True:
            answer = call(*args, **kw)
            if answer.status != 503 or time.monotonic() > end:
                return answer

    return _POOL.submit(insist)


def answer_of(future: Future[Response]) -> Response:
    """Give what was answered."""
    return future.result(PATIENCE)


def create_external(api: Api, far: AnsweringEnv, **options: Any) -> Instance:
    """Create an instance of a far side's environment."""
    body = {"env_id": "external/game", "wait_s": 5, **options}
    future = in_background(api.post, "/v1/envs/", body)
    far.answer("init")
    return Instance(api, ok(answer_of(future))["instance_id"])


def create_and_reset(api: Api, far: AnsweringEnv, **options: Any) -> Instance:
    """Create an instance, and reset it."""
    instance = create_external(api, far, **options)
    reset_external(instance, far)
    return instance


def reset_external(instance: Instance, far: AnsweringEnv) -> None:
    """Reset an instance."""
    future = in_background(instance.post, "reset/", {})
    far.answer("reset", observation=[0, 0])
    ok(answer_of(future))


def close_external(instance: Instance, far: AnsweringEnv) -> None:
    """Close an instance."""
    future = in_background(instance.close)
    far.answer("close")
    assert answer_of(future).status == 204


def reconnect(api: Api, far: ExternalEnv, **hello: Any) -> ExternalEnv:
    """Connect a far side anew, which goes on."""
    again = ExternalEnv.to(api, resume=far.welcome["resume"], **hello)
    assert again.welcome["resumed"] is True
    assert again.welcome["connection"] == far.welcome["connection"]
    return again
