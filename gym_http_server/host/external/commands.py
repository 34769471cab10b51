"""External environments that are commands: a host starts them, and ends with them.

The command speaks the protocol on its standard input and output, as others do by plain
TCP. Its standard error is the instance's log. It cannot reconnect, so that its end is
the end of the instance, with the same exit status.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import socket
import subprocess
import time
from typing import NoReturn

import msgspec

from gym_http_server.config.env_commands import EXTERNAL, EnvCommand
from gym_http_server.external.connection import ConnectionDetails
from gym_http_server.external.handshakes import read_hello
from gym_http_server.host.dead_workers import end_alike
from gym_http_server.host.external.connections import ExternalConnections
from gym_http_server.host.external.leased_connection import (
    RECEIVE_BYTES,
    ExternalSettings,
    LeasedConnection,
)
from gym_http_server.linux import prctl
from gym_http_wire.external.framing import COUNTED, FramingError, framing_of
from gym_http_wire.external.handshake import (
    MAX_HELLO_BYTES,
    PROTOCOL,
    BadHello,
    Limits,
    Welcome,
)
from gym_http_wire.problems import ExternalAway

__all__ = ["CommandConnections"]

#: Seconds for a command to end after its input or output has ended.
ENDING_SECONDS = 1.0
#: Seconds for the kernel to end a process whose descriptors are closed already.
REAPING_SECONDS = 0.2
#: Bytes shown of an output that is no message.
SHOWN_BYTES = 80
_PRINTS = "prints must go to standard error"


class CommandConnections(ExternalConnections):
    """Connections to processes of one command, which this host starts.

    Args:
        settings: Limits.
        command: The command.
        folder: The working directory of its processes.
        blocks: As for `ExternalConnections`.
    """

    def __init__(
        self,
        settings: ExternalSettings,
        command: EnvCommand,
        folder: str,
        *,
        blocks: bool = True,
    ) -> None:
        super().__init__(settings, _no_broker, blocks=blocks)
        self._start = functools.partial(_CommandProcess, command, folder, settings)
        self._processes: list[_CommandProcess] = []

    def lease(self, name: str, count: int, wait_s: float) -> list[LeasedConnection]:
        """Start processes of the command, side by side, and wait for their hellos.

        The supervisor limits the wait by the create deadline.

        Args:
            name: Name of the environment: the command's, and maybe an ID after it.
            count: Number of processes.
            wait_s: Ignored, since nothing has to connect.

        Raises:
            ExternalAway: The command cannot be started, or its hello is refused.
        """
        for _ in range(count):
            self._processes.append(self._start(name))
        waiting = {each.output.fileno(): each for each in self._processes}
        poller = select.poll()
        for descriptor in waiting:
            poller.register(descriptor, select.POLLIN)
        while waiting:
            for descriptor, _ in poller.poll():
                if waiting[descriptor].receive_hello():
                    poller.unregister(descriptor)
                    del waiting[descriptor]
        for process in self._processes:
            self.add(process.details, process.output, process.input)
        return self.leased

    def _report_lost(self, connection: LeasedConnection) -> None:
        """End this host as the command has ended."""
        why = connection.protocol.lost_because
        if connection.protocol.malformed:
            why += f"; its standard output is for messages alone, and {_PRINTS}"
        self._processes[self.leased.index(connection)].follow(why)

    def release(self) -> None:
        """End the input of all processes, and kill those that do not end then."""
        self.leased = []
        deadline = time.monotonic() + ENDING_SECONDS
        for process in self._processes:
            process.close()
        for process in self._processes:
            process.end(deadline)
        self._processes = []


class _CommandProcess:
    """A process of a command.

    Args:
        command: The command.
        folder: Its working directory.
        settings: Limits.
        name: Name of the environment, which replaces the one in the hello.

    Attributes:
        input: The other end of its standard input.
        output: The other end of its standard output.
        details: The record of the connection, once there was a hello.

    Raises:
        ExternalAway: The command cannot be started.
    """

    details: ConnectionDetails

    def __init__(
        self, command: EnvCommand, folder: str, settings: ExternalSettings, name: str
    ) -> None:
        self._settings = settings
        self._name = name
        self._framing = framing_of(COUNTED, MAX_HELLO_BYTES)
        self._first = b""
        self.input, standard_input = socket.socketpair()
        self.output, standard_output = socket.socketpair()
        environ = {
            "GYM_EXTERNAL_NAME": command.name,
            "GYM_EXTERNAL_ENV_ID": name.partition("/")[2],
            "GYM_EXTERNAL_STDIO": "1",
        }
        with standard_input, standard_output:
            try:
                self._process = subprocess.Popen(
                    command.words,
                    stdin=standard_input.fileno(),
                    stdout=standard_output.fileno(),
                    cwd=folder,
                    env=os.environ | environ,
                    preexec_fn=functools.partial(
                        prctl.die_with_parent, os.getpid(), signal.SIGKILL
                    ),
                )
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                self.close()
                raise ExternalAway(
                    f"{EXTERNAL}{name} is the command {command.words[0]!r:.200}, which "
                    f"cannot be started: {error}"
                ) from None

    def receive_hello(self) -> bool:
        """Read output of the process; return whether its hello is complete.

        Raises:
            ExternalAway: It is no hello, or it is refused.
        """
        data = self.output.recv(RECEIVE_BYTES)
        if not data:
            self.follow("it closed its output before its hello")
        self._first = (self._first + data)[:SHOWN_BYTES]
        framing, settings = self._framing, self._settings
        try:
            messages = framing.feed(data)
            if not messages:
                return False
            hello = read_hello(messages[0].payload, settings.max_observation)
        except FramingError as error:
            raise self._refused(
                f"its output begins with {self._first!r}, which is no message "
                f"({error}); {_PRINTS}"
            ) from None
        except BadHello as error:
            raise self._refused(f"its hello is refused: {error}") from None
        if len(messages) > 1 or not framing.between:
            raise self._refused("it sent more than its hello before the welcome")
        number = str(self._process.pid)
        hello = msgspec.structs.replace(hello.public(), name=self._name, replace=False)
        self.details = ConnectionDetails(COUNTED, number, hello, 1, "")
        limits = Limits(settings.max_message)
        welcome = Welcome(
            PROTOCOL, number, "", False, settings.heartbeat_s, 0.0, limits
        )
        with contextlib.suppress(OSError):
            # If it has ended, its output ends, too.
            payload = msgspec.json.encode(welcome)
            self.input.sendall(framing.message(payload, text=True))
        return True

    def _refused(self, why: str) -> ExternalAway:
        return ExternalAway(f"{EXTERNAL}{self._name} cannot be used: {why}")

    def follow(self, why: str) -> NoReturn:
        """End this host as the process has ended, or kill both and print why.

        Args:
            why: Why it is of no use any more.
        """
        if self._closed_an_end():
            with contextlib.suppress(subprocess.TimeoutExpired):
                end_alike(self._process.wait(REAPING_SECONDS))
        # At once: whatever it printed when it lost its host would hide the reason.
        self._process.kill()
        print(f"{EXTERNAL}{self._name}: {why}", flush=True)
        end_alike(self._process.wait())

    def _closed_an_end(self) -> bool:
        """Whether the process has closed its input or output, as by its end."""
        poller = select.poll()
        for each in (self.input, self.output):
            poller.register(each, select.POLLRDHUP)
        return bool(poller.poll(0))

    def close(self) -> None:
        """Close both ends."""
        self.input.close()
        self.output.close()

    def end(self, deadline: float) -> None:
        """Wait for the end of the process, and kill it at the deadline."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _no_broker() -> socket.socket:
    raise OSError("a command has no broker")
