"""Runs calls of agents in the background, while the test acts as the environment."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from tests.support.api import Api, Instance, error, ok
from tests.support.peers.external_env import RESULT, ExternalEnv
from tests.support.raw import Response

_POOL = ThreadPoolExecutor(32)
PATIENCE = 30.0
#: The capabilities of an environment that answers a repeated request again.
REPLAY = ["reset", "seed", "replay"]


class AnsweringEnv(Protocol):
    """An external environment, over any transport."""

    def answer(self, kind: str, **result: Any) -> Any:
        """Answer the next request, which must be of this type; return the request."""


def in_background(
    call: Callable[..., Response], *args: Any, **kw: Any
) -> Future[Response]:
    """Make a call in another thread."""
    return _POOL.submit(call, *args, **kw)


def retry_in_background(
    call: Callable[..., Response], *args: Any, **kw: Any
) -> Future[Response]:
    """Make a call in another thread, and repeat it while the answer is 503."""

    def insist() -> Response:
        end = time.monotonic() + PATIENCE
        while True:
            answer = call(*args, **kw)
            if answer.status != 503 or time.monotonic() > end:
                return answer

    return _POOL.submit(insist)


def answer_of(future: Future[Response]) -> Response:
    """Wait for the answer of a call in the background."""
    return future.result(PATIENCE)


def create_external(api: Api, external: AnsweringEnv, **options: Any) -> Instance:
    """Create an instance of an external environment, which answers init."""
    body = {"env_id": "external/game", "wait_s": 5, **options}
    future = in_background(api.post, "/v1/envs/", body)
    external.answer("init")
    return Instance(api, ok(answer_of(future))["instance_id"])


def create_and_reset(api: Api, external: AnsweringEnv, **options: Any) -> Instance:
    """Create an instance of an external environment, and reset it."""
    instance = create_external(api, external, **options)
    reset_external(instance, external)
    return instance


def reset_external(instance: Instance, external: AnsweringEnv) -> None:
    """Reset an instance of an external environment."""
    future = in_background(instance.post, "reset/", {})
    external.answer("reset", observation=[0, 0])
    ok(answer_of(future))


def begin_step(
    instance: Instance, action: int = 1, *, key: str = "", again: bool = False
) -> Future[Response]:
    """Step in the background; with ``again``, repeat it while the answer is 503."""
    headers = {"Idempotency-Key": key} if key else {}
    call = retry_in_background if again else in_background
    return call(instance.post, "step/", {"action": action}, headers=headers)


def take_step(instance: Instance, external: AnsweringEnv) -> None:
    """Take a step that succeeds, once the environment is connected."""
    future = begin_step(instance, again=True)
    external.answer("step", **RESULT)
    ok(answer_of(future))


def lose_in_step(instance: Instance, external: ExternalEnv, key: str = "") -> Any:
    """Disconnect the environment in a step; return the request."""
    future = begin_step(instance, key=key)
    request = external.expect("step")
    external.drop()
    error(answer_of(future), 503, "external-away")
    return request


def close_external(instance: Instance, external: AnsweringEnv) -> None:
    """Close an instance of an external environment."""
    future = in_background(instance.close)
    external.answer("close")
    assert answer_of(future).status == 204


def reconnect(api: Api, external: ExternalEnv, **hello: Any) -> ExternalEnv:
    """Connect an environment again, which resumes its connection."""
    again = ExternalEnv.to(api, resume=external.welcome["resume"], **hello)
    assert again.welcome["resumed"] is True
    assert again.welcome["connection"] == external.welcome["connection"]
    return again
