"""Answers of web workers."""

import functools
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gevent  # type: ignore[import-untyped]
import pytest

from gym_http_server.config.settings import Settings
from gym_http_server.operations.table import OPERATIONS
from gym_http_server.rundir.directory import RunDir
from gym_http_server.web.api.web import Route, Web
from gym_http_server.web.backends.transfers import in_thread
from gym_http_wire.problems import BadJSON, BadParameter

ENVIRON = {
    "HTTP_HOST": "127.0.0.1:5000",
    "PATH_INFO": "/v1/envs/",
    "QUERY_STRING": "",
    "REMOTE_ADDR": "127.0.0.1",
    "REQUEST_METHOD": "POST",
}


class Body(bytearray):
    """A body whose end can be seen."""


def refuse(body: Body) -> None:
    """Refuse a body."""
    raise BadJSON(f"{len(body)} bytes are no JSON")


def refuse_after_another_error(body: Body) -> None:
    """Refuse a body because of an error."""
    try:
        refuse(body)
    except BadJSON as error:
        problem = BadParameter(str(error))
        raise problem from None


@pytest.fixture
def gevent_hub() -> Iterator[None]:
    """gevent's loop, whose descriptors are closed afterwards."""
    yield
    gevent.get_hub().destroy(destroy_loop=True)


@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize("refusal", [refuse, refuse_after_another_error])
def test_the_body_of_a_refused_request_is_freed_at_once(
    tmp_path: Path, gevent_hub: None, refusal: Any, threaded: bool
) -> None:
    web = Web(Settings(), RunDir(str(tmp_path)))
    bodies: list[weakref.ref[Body]] = []

    def view(environ: Any) -> Any:
        body = Body(b"large")
        bodies.append(weakref.ref(body))
        in_thread(refusal, body) if threaded else refusal(body)

    gc.collect()
    gc.disable()
    try:
        answer = web.answer(dict(ENVIRON), Route(view, OPERATIONS["env_create"]))
        assert answer.status == 400, answer
        assert bodies[0]() is None
    finally:
        gc.enable()


def test_the_log_names_an_operation_that_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def view(environ: Any) -> Any:
        raise ArithmeticError("a defect")

    web = Web(Settings(), RunDir(str(tmp_path)))
    for wrapped in (view, functools.partial(view)):
        answer = web.answer(dict(ENVIRON), Route(wrapped, OPERATIONS["env_create"]))
        assert answer.status == 500
    assert caplog.messages == ["POST env_create failed"] * 2
