"""`serve_env` detects lost servers and agents, and reports both."""

import contextlib
import functools
import json
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_client import RemoteEnv, serve_env
from tests.support.identity import assert_identical
from tests.support.server import Server
from tests.support.wait import wait_until

HEARTBEAT = 0.3
WELCOME = {
    "type": "welcome",
    "protocol": 1,
    "connection": "00000000",
    "resumed": False,
    "heartbeat_s": HEARTBEAT,
    "grace_s": 30.0,
    "limits": {"max_message": 1_000_000},
}
CARTPOLE = functools.partial(gymnasium.make, "CartPole-v1")


@contextlib.contextmanager
def serving(
    factory: Callable[..., Any], url: str, **options: Any
) -> Iterator[threading.Thread]:
    """Provide an environment from a thread."""
    stop = threading.Event()
    thread = threading.Thread(
        target=serve_env, args=(factory, url), kwargs={"stop": stop, **options}
    )
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join(20)
        assert not thread.is_alive()


class ServerConnection:
    """The server's end of a connection by plain TCP, in JSON."""

    def __init__(self, end: socket.socket) -> None:
        end.settimeout(20)
        self._end = end
        self._file = end.makefile("rb")

    def __enter__(self) -> "ServerConnection":
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
        self._end.close()

    def send_message(self, **message: Any) -> None:
        data = json.dumps(message).encode()
        self._end.sendall(struct.pack("<I", len(data)) + data)

    def receive(self) -> Any:
        """Receive a message, or None at the end."""
        count = self._file.read(4)
        if not count:
            return None
        return json.loads(self._file.read(*struct.unpack("<I", count)))


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        yield listener


def url_of(listener: socket.socket) -> str:
    return f"tcp://127.0.0.1:{listener.getsockname()[1]}"


def test_a_silent_server_is_pinged_and_then_given_up(
    listener: socket.socket,
) -> None:
    with serving(CARTPOLE, url_of(listener), name="cart", dialect="typed"):
        with ServerConnection(listener.accept()[0]) as connection:
            assert connection.receive()["type"] == "hello"
            welcomed = time.monotonic()
            connection.send_message(**WELCOME, resume="first")
            assert connection.receive() == {"type": "ping"}
            assert time.monotonic() - welcomed > HEARTBEAT * 0.9
            connection.send_message(type="pong")
            # That was an answer, so it begins anew.
            assert connection.receive() == {"type": "ping"}
            assert connection.receive() is None
            assert time.monotonic() - welcomed > 3 * HEARTBEAT * 0.9
        with ServerConnection(listener.accept()[0]) as connection:
            assert connection.receive()["resume"] == "first"


def test_a_long_step_does_not_count_as_a_lost_server(
    listener: socket.socket,
) -> None:
    class Slow(gymnasium.Env[int, int]):
        observation_space = action_space = gymnasium.spaces.Discrete(2)

        def reset(self, **options: Any) -> tuple[int, dict[str, Any]]:
            time.sleep(4 * HEARTBEAT)
            return 0, {}

    with (
        serving(Slow, url_of(listener), name="slow", dialect="typed"),
        ServerConnection(listener.accept()[0]) as connection,
    ):
        connection.receive()
        connection.send_message(**WELCOME, resume="first")
        connection.send_message(
            type="init", id=1, deadline_s=9, kwargs={}, render_mode=None
        )
        assert connection.receive()["id"] == 1
        connection.send_message(
            type="reset", id=2, deadline_s=9, seed=None, options=None
        )
        assert connection.receive()["result"]["observation"] == 0
        assert connection.receive() == {"type": "ping"}


def test_an_agent_goes_once_though_the_server_forgot_during_a_step(
    listener: socket.socket,
) -> None:
    at_work, end = threading.Event(), threading.Event()

    class Slow(gymnasium.Env[int, int]):
        observation_space = action_space = gymnasium.spaces.Discrete(2)

        def reset(self, **options: Any) -> tuple[int, dict[str, Any]]:
            return 0, {}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            at_work.set()
            assert end.wait(20)
            return 1, 1.0, False, False, {}

    messages: list[str] = []
    handlers = {
        "on_taken": lambda: messages.append("came"),
        "on_free": lambda: messages.append("went"),
    }
    url = url_of(listener)
    with serving(Slow, url, name="slow", dialect="typed", **handlers):
        with ServerConnection(listener.accept()[0]) as connection:
            connection.receive()
            connection.send_message(**WELCOME, resume="first")
            connection.send_message(
                type="init", id=1, deadline_s=9, kwargs={}, render_mode=None
            )
            connection.receive()
            connection.send_message(
                type="reset", id=2, deadline_s=9, seed=None, options=None
            )
            connection.receive()
            connection.send_message(type="step", id=3, deadline_s=9, action=1)
            assert at_work.wait(20)
        end.set()
        with ServerConnection(listener.accept()[0]) as connection:
            connection.receive()
            connection.send_message(**WELCOME, resume="second")
            connection.send_message(
                type="init", id=1, deadline_s=9, kwargs={}, render_mode=None
            )
            assert connection.receive()["id"] == 1
            assert messages == ["came", "went", "came"]
    assert messages == ["came", "went"] * 2


def test_a_refused_resume_ends_the_agent(
    listener: socket.socket,
) -> None:
    def serve() -> None:
        with ServerConnection(listener.accept()[0]) as connection:
            connection.receive()
            connection.send_message(**WELCOME, resume="first")
            connection.send_message(
                type="init", id=1, deadline_s=9, kwargs={}, render_mode=None
            )
            connection.receive()
        with ServerConnection(listener.accept()[0]) as connection:
            connection.receive()
            connection.send_message(type="refused", code="bad-hello", message="no")
            connection.receive()

    messages: list[str] = []
    server = threading.Thread(target=serve)
    server.start()
    with pytest.raises(ConnectionRefusedError, match="bad-hello: no"):
        serve_env(
            CARTPOLE,
            url_of(listener),
            name="cart",
            dialect="typed",
            on_taken=lambda: messages.append("came"),
            on_free=lambda: messages.append("went"),
        )
    server.join(20)
    assert messages == ["came", "went"]


class Pauses(threading.Event):
    """Records waits, which take no time; becomes set at the last of a number."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.taken: list[float] = []
        self._most = most

    def wait(self, timeout: float | None = None) -> bool:
        self.taken.append(timeout or 0.0)
        if len(self.taken) == self._most:
            self.set()
        return self.is_set()


def test_a_refused_resume_is_retried_with_growing_pauses(
    listener: socket.socket,
) -> None:
    pauses = Pauses(6)
    welcome = {**WELCOME, "resume": "first"}
    full = {"type": "refused", "code": "too-many-external", "message": "full"}
    with serving(
        CARTPOLE, url_of(listener), name="cart", dialect="typed", stop=pauses
    ) as thread:
        for message in (welcome, full, full, full, full, welcome):
            with ServerConnection(listener.accept()[0]) as connection:
                connection.receive()
                connection.send_message(**message)
        thread.join(20)
    bounds = [0.05, 0.1, 0.2, 0.4, 0.8, 0.05]
    assert len(pauses.taken) == len(bounds)
    for pause, bound in zip(pauses.taken, bounds, strict=True):
        assert bound / 2 <= pause <= bound, pauses.taken


@pytest.mark.live
def test_authors_are_notified_of_agents(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gym_http_client.serving")
    events: list[str] = []

    def connect_again() -> None:
        events.append("taken")
        raise RuntimeError("of the author's own")

    handlers = {"on_taken": connect_again, "on_free": lambda: events.append("free")}
    with serving(CARTPOLE, server.url, name="told", **handlers):
        for _ in range(2):
            with RemoteEnv(server.url, "external/told", wait_s=20) as env:
                env.reset(seed=1)
                assert events[-1] == "taken"
            wait_until(lambda: events[-1] == "free")
        env = RemoteEnv(server.url, "external/told", wait_s=20)
    # The provider ended while an agent used the environment.
    assert events == ["taken", "free"] * 3
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith("external/told connected, connection ")
    assert [each for each in lines if each.endswith("an agent arrived")] == [
        "external/told: an agent arrived"
    ] * 3
    assert lines[-1] == "external/told: the agent left"
    assert sum("failed" in each for each in lines) == 3
    env.close()


def test_a_lasting_problem_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with serving(CARTPOLE, url, name="cart"):
            for _ in range(4):
                end, _ = listener.accept()
                with end, end.makefile("rb") as file:
                    while file.readline().strip():
                        pass
                    end.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    found = [record.getMessage() for record in caplog.records]
    assert len(found) == 1, found
    assert found[0].startswith("external/cart: the server refuses: status 404")
    assert found[0].endswith("; trying again")


def test_a_zeromq_port_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        url = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        with serving(CARTPOLE, url, name="cart"):
            for _ in range(4):
                end, _ = listener.accept()
                with end, end.makefile("rb") as file:
                    end.sendall(b"\xff\0\0\0\0\0\0\0\1\x7f")
                    # Until the environment leaves.
                    file.read()
    found = [record.getMessage() for record in caplog.records]
    words = "this port is for ZeroMQ, and its address begins with zmq+tcp://"
    assert found == [f"external/cart: {words}; connecting anew"]


class Judge(gymnasium.Env[int, Any]):
    """Keeps the actions that reach it."""

    observation_space = gymnasium.spaces.Discrete(2)

    def __init__(self, action_space: gymnasium.Space[Any]) -> None:
        self.action_space = action_space
        self.actions: list[Any] = []

    def reset(self, **options: Any) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        return 1, 1.0, False, False, {}


_PAIR = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
_DIAL = gymnasium.spaces.Discrete(3)
_HALVES = np.array([0.5, -0.5], np.float32)


@pytest.mark.live
@pytest.mark.parametrize(
    ("space", "sent", "expected"),
    [
        (_PAIR, [0.5, -0.5], _HALVES),
        (_DIAL, 2, np.int64(2)),
        (
            gymnasium.spaces.Dict(dial=_DIAL, pair=_PAIR),
            {"dial": np.int64(1), "pair": [0.5, -0.5]},
            {"dial": np.int64(1), "pair": _HALVES},
        ),
        (gymnasium.spaces.Tuple([_DIAL, _PAIR]), [1, _HALVES], (np.int64(1), _HALVES)),
        # A dtype was chosen by the agent, and the environment judges what is no action.
        (_PAIR, np.array([0.1, 0.2]), np.array([0.1, 0.2])),
        (_PAIR, [0.5], [0.5]),
        (_DIAL, 7, 7),
    ],
)
@pytest.mark.parametrize("dialect", ["binary", "typed"])
def test_plain_actions_are_cast_to_the_action_space(
    server: Server, dialect: str, space: gymnasium.Space[Any], sent: Any, expected: Any
) -> None:
    judge = Judge(space)
    with (
        serving(lambda: judge, server.url, name="judge", dialect=dialect),
        RemoteEnv(server.url, "external/judge", wait_s=20) as env,
    ):
        env.reset()
        env.step(sent)
    assert_identical(judge.actions, [expected])


@pytest.mark.live
def test_a_program_that_is_started_again_takes_its_place(server: Server) -> None:
    with serving(CARTPOLE, server.url, name="again", replace=True):
        env = RemoteEnv(server.url, "external/again", wait_s=20)
        env.reset(seed=1)
        observation = env.step(1)[0]
    with serving(CARTPOLE, server.url, name="again", replace=True):
        step = env.step(1)
        assert_identical(step, (observation, 0.0, False, True, {"reconnected": True}))
        assert_identical(env.reset(seed=1), CARTPOLE().reset(seed=1))
        env.step(1)
        env.close()
