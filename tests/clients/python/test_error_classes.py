"""Exceptions of environments keep their class and their message."""

import functools
import json
from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest

from gym_http_client import (
    NotRealTime,
    Paused,
    RemoteEnv,
    ServerError,
    UnexpectedAnswer,
    WorldEnded,
)
from gym_http_client import Server as Place
from gym_http_client.http.error_mapping import error_from_problem, error_from_reply
from gym_http_client.http.http1 import Reply
from tests.support.envs.toys import ERRORS
from tests.support.server import Server


@pytest.fixture(params=["stream", "rest"])
def remote(request: pytest.FixtureRequest, toy_server: Server) -> Iterator[RemoteEnv]:
    place = Place(toy_server.url, streams=request.param == "stream")
    with RemoteEnv(place, "toys/Raising-v0", disable_env_checker=True) as env:
        yield env


def content(error: BaseException) -> Any:
    """Return the visible content of an exception."""
    seen: list[Any] = [type(error), str(error)]
    seen += [
        getattr(error, name, None)
        for name in (
            "errno",
            "filename",
            "filename2",
            "encoding",
            "start",
            "end",
            "name",
        )
    ]
    if isinstance(error, BaseExceptionGroup):
        seen.append([content(each) for each in error.exceptions])
    return seen


@pytest.mark.parametrize("env_id", ["MiniGrid-Empty-5x5-v0", "my/Corridor-v0"])
def test_an_environment_of_a_package_that_only_the_client_imports(
    server: Server, env_id: str
) -> None:
    seen = []
    for make in (gymnasium.make, functools.partial(RemoteEnv, server.url)):
        with pytest.raises(gymnasium.error.UnregisteredEnv) as caught:
            make(env_id)
        seen.append(content(caught.value))
    assert seen[0] == seen[1]
    assert "start it with --import" in caught.value.__notes__[-1]
    with pytest.raises(gymnasium.error.VersionNotFound) as version:
        RemoteEnv(server.url, "CartPole-v7")
    assert "--import" not in str(getattr(version.value, "__notes__", ""))


@pytest.mark.parametrize("name", [name for name in ERRORS if name != "group"])
def test_an_exception_is_the_local_one(remote: RemoteEnv, name: str) -> None:
    seen = []
    for env in (remote, gymnasium.make("toys/Raising-v0").unwrapped):
        env.reset()
        with pytest.raises(Exception) as caught:  # noqa: PT011
            env.step(name)
        seen.append(content(caught.value))
    # A path is returned as its name, as in the message.
    seen[1][3] = str(seen[1][3]) if name == "missing path" else seen[1][3]
    assert seen[0] == seen[1]


def test_a_group_keeps_what_is_in_it(remote: RemoteEnv) -> None:
    remote.reset()
    with pytest.raises(ExceptionGroup) as caught:
        remote.step("group")
    with pytest.raises(ExceptionGroup) as local:
        ERRORS["group"]()
    ours, theirs = content(caught.value), content(local.value)
    # The second has a class that is not here, and so is the nearest that is.
    theirs[-1][1][0] = ValueError
    assert ours == theirs
    assert isinstance(caught.value.exceptions[3], FileNotFoundError)


@pytest.mark.parametrize(
    "arguments",
    [
        [{"bytes": "!", "offset": 0}],
        [{"bytes": "AA==", "offset": -1}],
        [{"bytes": "AA==", "offset": 2**60}],
        [{"bytes": 5, "offset": 0}],
        [{"text": "/w==", "offset": 0}],
        [{"error": 5}],
        [{"error": {"mro": 5}}],
        [{"bytes": "AA==", "offset": 2**24}, {"bytes": "AA==", "offset": 1}],
        json.loads("[" * 900 + "]" * 900),
        [{}],
        {},
        5,
    ],
)
def test_malformed_arguments_leave_the_text(arguments: Any) -> None:
    problem = {"message": "m", "text": "said", "arguments": arguments}
    problem["mro"] = ["builtins.ValueError", "builtins.Exception"]
    error = error_from_problem(problem, 502, "http://here")
    assert content(error)[:2] == [ValueError, "said"]


@pytest.mark.parametrize("mro", [5, {}, "builtins.ValueError", [5, None, [[]]]])
def test_malformed_classes_leave_the_servers_error(mro: Any) -> None:
    problem = {"message": "m", "text": "said", "arguments": ["said"], "mro": mro}
    error = error_from_problem(problem, 502, "http://here")
    assert type(error) is ServerError
    assert str(error) == "m (502)"


def test_classes_that_refuse_their_arguments_leave_the_next() -> None:
    problem = {"message": "m", "text": "said", "arguments": ["said", []]}
    problem["mro"] = ["builtins.SyntaxError", "builtins.Exception"]
    assert type(error_from_problem(problem, 502, "http://here")) is Exception


@pytest.mark.parametrize("depth", [900, 100_000])
def test_an_answer_that_is_nested_deep_is_an_error_of_the_client(depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    for body in (nested, b'{"message": %b}' % nested, b'{"code": %b}' % nested):
        error = error_from_reply(Reply(502, {}, body), "http://here")
        assert type(error) is UnexpectedAnswer


@pytest.mark.parametrize(
    ("code", "kind"),
    [("not-real-time", NotRealTime), ("paused", Paused), ("world-ended", WorldEnded)],
)
def test_problems_of_real_time_have_classes(code: str, kind: type[Exception]) -> None:
    problem = {"code": code, "message": "a reason"}
    error = error_from_problem(problem, 409, "http://127.0.0.1")
    assert type(error) is kind
    assert isinstance(error, ServerError)
    assert (error.code, error.status_code, error.message) == (code, 409, "a reason")
