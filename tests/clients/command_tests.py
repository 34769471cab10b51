"""Tests of the environments that every client provides on standard input and output."""

import contextlib
import os
import pty
import shlex
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import psutil
import pytest

from gym_http_client import RemoteEnv, RemoteVectorEnv
from tests.clients.local_toy import assert_same
from tests.support.api import Api, error
from tests.support.peers.agent_calls import answer_of, in_background
from tests.support.peers.stdio_host import StdioHost
from tests.support.server import Server
from tests.support.wait import wait_until

DIALECTS = ("json", "binary")
DEVICES = ("terminal", "/dev/null")
ASLEEP = {"mood": "asleep"}
TALKATIVE = {"mood": "talkative"}


@dataclass(frozen=True)
class Command:
    """A test program of one client, which a server has as ``external/DIALECT``.

    Attributes:
        words: Returns its command line for a dialect.
        local: Makes the same environment in Python.
        action: An action, in plain JSON.
        said: What it prints in a step after a reset with `TALKATIVE`.
        slow: Keyword arguments of a create with which steps take a third of a second.
        slow_options: Options of a reset after which they do.
    """

    words: Callable[[str], Sequence[str | Path]]
    local: Callable[[], gymnasium.Env[Any, Any]]
    action: Any
    said: tuple[str, ...]
    slow: dict[str, Any] = field(default_factory=dict)
    slow_options: dict[str, Any] = field(default_factory=dict)

    def serve(self) -> Server:
        """Return a server that has it; it is not started yet."""
        flags = ["--external-deadline", "2"]
        for dialect in DIALECTS:
            words = shlex.join(map(str, self.words(dialect)))
            flags += ["--env-command", f"{dialect}={words}"]
        return Server(*flags)


class CommandTests:
    """The tests, for a module that has the fixture ``command``."""

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, command: Command) -> Iterator[Server]:
        """A server that has the command."""
        with command.serve() as server:
            yield server

    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_a_command_equals_the_local_environment(
        self, server: Server, command: Command, dialect: str
    ) -> None:
        reference = command.local()
        with RemoteEnv(server.url, f"external/{dialect}", render_mode="ansi") as env:
            assert env.observation_space == reference.observation_space
            env.action_space.seed(1)
            for seed in (5, None):
                ours, theirs = env.reset(seed=seed), reference.reset(seed=seed)
                assert_same(ours[0], theirs[0])
                for number in range(1, 16):
                    action = env.action_space.sample()
                    step, expected = env.step(action), reference.step(action)
                    assert_same(step[0], expected[0])
                    assert step[1:] == expected[1:]
                    assert env.render() == f"step {number}"

    def test_a_vector_of_commands(self, server: Server, command: Command) -> None:
        references = [command.local() for _ in range(3)]
        env = RemoteVectorEnv(server.url, "external/json", num_envs=3)
        env.reset(seed=[1, 2, 3])
        env.action_space.seed(1)
        for seed, reference in enumerate(references, start=1):
            reference.reset(seed=seed)
        for _ in range(5):
            actions = env.action_space.sample()
            rewards = env.step(actions)[1]
            each = gymnasium.vector.utils.iterate(env.action_space, actions)
            expected = zip(references, each, strict=True)
            assert rewards.tolist() == [one.step(action)[1] for one, action in expected]
        env.close()

    def test_what_it_prints_is_in_the_log(
        self, server: Server, command: Command
    ) -> None:
        instance = Api(server).create("external/json")
        instance.reset(seed=1, options=TALKATIVE)
        for _ in range(2):
            instance.step(command.action)

        def complete() -> bool:
            log = instance.get("log/").body.decode()
            return all(log.count(words) == 2 for words in command.said)

        wait_until(complete)
        instance.close()

    def test_a_killed_command_ends_its_instance(
        self, server: Server, command: Command
    ) -> None:
        instance = Api(server).create("external/json")
        instance.reset(options=ASLEEP)
        (program,) = server.host(instance.id).children()
        step = in_background(instance.post, "step/", {"action": command.action})
        wait_until(lambda: "falls asleep" in instance.get("log/").body.decode())
        program.kill()
        answer = error(answer_of(step), 502, "env-crashed")
        assert "SIGKILL" in answer["message"]
        body = {"action": command.action}
        error(instance.post("step/", body), 410, "instance-ended")

    def test_it_is_gone_with_its_instance_in_the_middle_of_a_step(
        self, server: Server, command: Command
    ) -> None:
        instance = Api(server).create("external/json")
        instance.reset(options=ASLEEP)
        (program,) = server.host(instance.id).children()
        body = {"action": command.action}
        error(instance.post("step/", body), 504, "external-deadline")
        instance.close()
        wait_until(lambda: not psutil.pid_exists(program.pid))

    def test_it_ends_with_its_input(self, command: Command) -> None:
        with StdioHost(command.words("json")) as host:
            host.welcome()
            host.request("init", kwargs={})
            host.end_input()
            status, output, _ = host.wait_exit()
        assert (status, output) == (0, b"")

    def test_it_sends_no_pings(self, command: Command) -> None:
        """The server's end is the end of its input."""
        with StdioHost(command.words("json")) as host:
            host.welcome(heartbeat_s=0.02)
            host.request("init", kwargs=command.slow)
            host.request("reset", seed=1, options=command.slow_options)
            host.request("step", action=command.action)
            host.send_message(type="ping")
            assert host.receive() == {"type": "pong"}

    def test_it_ends_after_a_malformed_message(self, command: Command) -> None:
        with StdioHost(command.words("json")) as host:
            host.welcome()
            host.send(struct.pack("<I", 300 << 20))
            _, output, printed = host.wait_exit()
        assert output == b""
        assert "a message announces 314572800 bytes" in printed

    @pytest.mark.parametrize("device", DEVICES)
    def test_a_device_is_no_server(self, command: Command, device: str) -> None:
        assert_refused(command.words("json"), device)


def assert_refused(words: Sequence[str | Path], device: str, **options: Any) -> None:
    """Check that a program says who has to start it, if its input is a device."""
    with contextlib.ExitStack() as stack:
        if device == "terminal":
            ours, given = pty.openpty()
            stack.callback(os.close, ours)
        else:
            given = os.open(device, os.O_RDONLY)
        stack.callback(os.close, given)
        done = subprocess.run(
            words, stdin=given, capture_output=True, timeout=20, **options
        )
    assert done.returncode != 0
    assert done.stdout == b""
    assert b"standard input" in done.stderr
    assert b"a terminal or /dev/null" in done.stderr
    assert b"--env-command NAME=COMMAND" in done.stderr
