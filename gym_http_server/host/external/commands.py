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
from gym_http_server.external.connection import ConnectionDetails, ExternalConnection
from gym_http_server.external.handshakes import read_hello
from gym_http_server.host.dead_workers import end_alike
from gym_http_server.host.external.connections import ExternalConnections
from gym_http_server.host.external.leased_connection import (
    RECEIVE_BYTES,
    ExternalSettings,
    LeasedConnection,
    dialect_of,
)
from gym_http_server.linux import prctl
from gym_http_wire.external.framing import COUNTED
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


class CommandConnections(ExternalConnections):
    """Connections to processes of one command, which this host starts.

    Args:
        settings: Limits.
        command: The command.
        folder: The working directory of its processes.
        env_id: ID of the environment; what follows the command's name is passed to it.
        blocks: As for `ExternalConnections`.
    """

    def __init__(
        self,
        settings: ExternalSettings,
        command: EnvCommand,
        folder: str,
        env_id: str,
        *,
        blocks: bool = True,
    ) -> None:
        super().__init__(settings, _no_broker, blocks=blocks)
        self._command = command
        self._folder = folder
        self._name = env_id.removeprefix(EXTERNAL)
        self._processes: list[_CommandProcess] = []

    def lease(self, name: str, count: int, wait_s: float) -> list[LeasedConnection]:
        """Start processes of the command, side by side, and wait for their hellos.

        The supervisor limits the wait by the create deadline.

        Args:
            name: Name of the environment.
            count: Number of processes.
            wait_s: Ignored, since nothing has to connect.

        Raises:
            ExternalAway: The command cannot be started, or its hello is refused.
        """
        for index in range(count):
            self._processes.append(self._start(index))
        waiting = {each.output.fileno(): each for each in self._processes}
        poller = select.poll()
        for descriptor in waiting:
            poller.register(descriptor, select.POLLIN)
        while waiting:
            for descriptor, _ in poller.poll():
                process = waiting[descriptor]
                if process.receive_hello():
                    poller.unregister(descriptor)
                    del waiting[descriptor]
        for process in self._processes:
            self.add(process.details, process.output, process.input)
        return self.leased

    def _start(self, index: int) -> _CommandProcess:
        environ = {
            **os.environ,
            "GYM_EXTERNAL_NAME": self._command.name,
            "GYM_EXTERNAL_ENV_ID": self._name.partition("/")[2],
            "GYM_EXTERNAL_STDIO": "1",
        }
        words = self._command.words
        parent = functools.partial(prctl.die_with_parent, os.getpid(), signal.SIGKILL)
        ours_in, their_in = socket.socketpair()
        ours_out, their_out = socket.socketpair()
        with their_in, their_out:
            try:
                process = subprocess.Popen(
                    words,
                    stdin=their_in.fileno(),
                    stdout=their_out.fileno(),
                    cwd=self._folder,
                    env=environ,
                    preexec_fn=parent,
                )
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                ours_in.close()
                ours_out.close()
                raise ExternalAway(
                    f"{EXTERNAL}{self._name} is the command {words[0]!r:.200}, which "
                    f"cannot be started: {error}"
                ) from None
        return _CommandProcess(
            process, ours_in, ours_out, self.settings, self._name, str(index + 1)
        )

    def _report_lost(self, connection: LeasedConnection) -> None:
        """End this host as the command has ended."""
        index = self.leased.index(connection)
        why = connection.protocol.lost_because
        if connection.protocol.malformed:
            why += (
                "; its standard output is for messages alone, and prints must go to "
                "standard error"
            )
        self._processes[index].follow(why)

    def _rejoin_broker(self) -> None:
        """Do nothing: no broker is involved."""

    def release(self) -> None:
        """End the input of all processes, and kill those that do not end then."""
        leased, self.leased = self.leased, []
        for connection in leased:
            connection.close()
        deadline = time.monotonic() + ENDING_SECONDS
        for process in self._processes:
            process.close()
        for process in self._processes:
            process.end(deadline)
        self._processes = []


class _CommandProcess:
    """A process of a command.

    Args:
        process: The process.
        input: The other end of its standard input.
        output: The other end of its standard output.
        settings: Limits.
        name: Name of the environment, which replaces the one in the hello.
        number: ID of the connection, for logs.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        input: socket.socket,
        output: socket.socket,
        settings: ExternalSettings,
        name: str,
        number: str,
    ) -> None:
        self._process = process
        self.input = input
        self.output = output
        self._settings = settings
        self._name = name
        self._number = number
        self._first = b""
        self._protocol = ExternalConnection(
            COUNTED,
            dialect_of,
            max_message=MAX_HELLO_BYTES,
            heartbeat_s=settings.heartbeat_s,
            now=time.monotonic(),
        )

    @property
    def details(self) -> ConnectionDetails:
        """The record of the connection, once there was a hello."""
        return self._protocol.details

    def receive_hello(self) -> bool:
        """Read output of the process; return whether its hello is complete.

        Raises:
            ExternalAway: It is no hello, or it is refused.
        """
        data = self.output.recv(RECEIVE_BYTES)
        if not data:
            self.follow("it closed its output before its hello")
        self._first = (self._first + data)[:SHOWN_BYTES]
        protocol, now = self._protocol, time.monotonic()
        payload = protocol.receive(data, now)
        if payload is None:
            if protocol.lost_because:
                raise self._refused(
                    f"its output begins with {self._first!r}, which is no message "
                    f"({protocol.lost_because}); prints must go to standard error"
                )
            return False
        settings = self._settings
        try:
            hello = read_hello(payload, settings.max_observation)
        except BadHello as error:
            raise self._refused(f"its hello is refused: {error}") from None
        hello = msgspec.structs.replace(hello.public(), name=self._name, replace=False)
        details = ConnectionDetails(COUNTED, self._number, hello, 1, "")
        limits = Limits(settings.max_message)
        welcome = Welcome(
            PROTOCOL, self._number, "", False, settings.heartbeat_s, 0.0, limits
        )
        protocol.accept(details, welcome, now)
        if not protocol.transferable:
            raise self._refused("it sent more than its hello before the welcome")
        with contextlib.suppress(OSError):
            # If it has ended, its output ends, too.
            self.input.sendall(protocol.take_outgoing())
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
