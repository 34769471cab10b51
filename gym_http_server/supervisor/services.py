"""Services: the processes besides hosts that the supervisor starts.

Each is a `ServiceProcess`: fork server (`supervisor/fork_server`), archiver
(`supervisor/archiver`), remover, broker, gateway, member and relay. `Services` starts
and stops them, and starts a new process when one ends. A new service is a subclass,
added to the list in `supervisor/supervisor`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence

from gym_http_server.config.inherited_settings import Replaced
from gym_http_server.config.settings import Settings
from gym_http_server.datadir.own_paths import DATABASE
from gym_http_server.errors import ForkFailed, StartError
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.processes.log_lines import SUPERVISOR
from gym_http_server.processes.service_process import isolate
from gym_http_server.rundir.directory import RunDir
from gym_http_server.rundir.removal import empty, move
from gym_http_server.rundir.sockets import listen
from gym_http_server.services.broker.messages import BrokerSettings
from gym_http_server.services.gateway import check_installed
from gym_http_server.services.relay.messages import RelaySettings
from gym_http_server.supervisor.forks import start_child
from gym_http_wire.external.handshake import MAX_HELLO_BYTES
from gym_http_wire.messages import Op, request

__all__ = [
    "BrokerProcess",
    "GatewayProcess",
    "MemberProcess",
    "PeerService",
    "RelayProcess",
    "RemoverProcess",
    "ServiceProcess",
    "Services",
]

#: Seconds between two starts of a service, so that one that fails at once does not
#: occupy the supervisor.
PAUSE_SECONDS = 1.0
#: Seconds that services have to close their connections before the server ends.
CLOSING_SECONDS = 1.0
BACKLOG = 512
# A tenth of another process's share if all processors are busy. At 19 it would be a
# hundredth, and environments could make files faster than they are removed.
NICENESS = 10
#: Agents that the gateway accepts, besides external environments.
MAX_AGENTS = 4096
#: Connections without an accepted first message, or --max-external if that is more.
MAX_UNAUTHENTICATED = 64

log = logging.getLogger(SUPERVISOR)


class ServiceProcess:
    """The supervisor's handle of a service.

    Attributes:
        name: The service's name in the log, and the title of its process.
        pid: ID of its process; 0 if none runs.
        wanted: Whether a process of it should run.
    """

    name = ""

    def __init__(self) -> None:
        self.pid = 0
        self.wanted = False
        self._started = float("-inf")

    @property
    def due(self) -> bool:
        """Whether a process should be started now."""
        paused = time.monotonic() - self._started >= PAUSE_SECONDS
        return self.wanted and not self.pid and paused

    def start(self) -> None:
        """Start its process, unless one runs.

        Raises:
            ForkFailed: No process can be started.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """Order its process to close its connections and end."""
        self.wanted = False
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def _fork(self, keep: Sequence[int], run: Callable[[int], int]) -> None:
        """Start its process.

        Args:
            keep: Descriptors that the process keeps open.
            run: The main function: takes the ID of this process, returns the exit
                status. Hosts do not share the modules that it imports.

        Raises:
            ForkFailed: No process can be started.
        """
        self._started = time.monotonic()
        self.pid = start_child(keep, run, self.name)


class PeerService(ServiceProcess):
    """The supervisor's handle of a service with connections, and with tokens to check.

    Attributes:
        control: The connection to its process, and to those that replace it.
    """

    def __init__(self) -> None:
        super().__init__()
        ours, self._control_end = socket.socketpair()
        ours.setblocking(False)
        self.control = FrameSocket(ours)

    def send_reload(self, replaced: Replaced, number: int) -> bool:
        """Send its process what a reload has changed; return whether there is one.

        A process that is started later has the new state.

        Args:
            replaced: What has changed.
            number: Number of the reload, for the confirmation.
        """
        if not self.pid:
            return False
        with contextlib.suppress(OSError), replaced.memory() as memory:
            frame = request(Op.RELOAD)._replace(number=number)
            self.control.send(frame, memory.fileno())
        return True


class _StandingService(PeerService):
    """The supervisor's handle of a service that runs as long as the server.

    Args:
        descriptors: What its process keeps open; empty: the server has no such service.
    """

    def __init__(self, descriptors: tuple[int, ...]) -> None:
        super().__init__()
        self._descriptors = descriptors
        self.wanted = bool(descriptors)

    def start(self) -> None:
        """Start its process, if the server has such a service.

        Raises:
            ForkFailed: No process can be started.
        """
        if self.wanted:
            self._fork([*self._descriptors, self._control_end.fileno()], self._run)

    def _run(self, parent: int) -> int:
        raise NotImplementedError


class _ListeningService(PeerService):
    """The supervisor's handle of a service that starts when it is first needed.

    Its socket stays open in the supervisor, so connections that arrive while no process
    runs wait for the next one.

    Args:
        path: Path of its socket.
        descriptors: What else its process keeps open.
    """

    def __init__(self, path: str, descriptors: tuple[int, ...] = ()) -> None:
        super().__init__()
        self._path = path
        self._descriptors = descriptors
        self._listener: socket.socket | None = None

    def start(self) -> None:
        """Start its process unless it runs; from now on it is wanted.

        Raises:
            OSError: Its socket cannot be made.
            ForkFailed: No process can be started.
        """
        self.wanted = True
        if self.pid:
            return
        if self._listener is None:
            self._listener = listen(self._path, BACKLOG)
        listener = self._listener
        keep = [listener.fileno(), self._control_end.fileno(), *self._descriptors]
        self._fork(keep, lambda parent: self._run(listener, parent))

    def _run(self, listener: socket.socket, parent: int) -> int:
        raise NotImplementedError


class Services:
    """The services of one supervisor.

    Args:
        services: All of them, in the order of their start; they stop in reverse.
        exempt: Set of child processes that no host started; running services are kept
            in it.
    """

    def __init__(self, services: Sequence[ServiceProcess], exempt: set[int]) -> None:
        self._services = services
        self._exempt = exempt
        self._stopping = False
        self._closing_until = 0.0

    def start(self, service: ServiceProcess) -> None:
        """Start a service, unless it runs.

        Raises:
            ForkFailed: No process can be started.
            OSError: It cannot listen.
        """
        service.start()
        self._exempt.add(service.pid)

    def start_due(self) -> None:
        """Start the services that should run and do not; log a failure."""
        for service in self._services:
            if service.due and not self._stopping:
                try:
                    self.start(service)
                except (ForkFailed, OSError) as failed:
                    log.warning("cannot start the %s yet: %s", service.name, failed)

    def on_ended(self, pid: int) -> None:
        """Handle the end of a child process; start a new one if it was a service.

        Args:
            pid: Its process ID.
        """
        for service in self._services:
            if service.pid == pid:
                service.pid = 0
                if not self._stopping:
                    log.warning("the %s ended; starting another one", service.name)
        self.start_due()

    def stop(self) -> None:
        """Order services to close their connections and end; start no more."""
        self._stopping = True
        self._closing_until = time.monotonic() + CLOSING_SECONDS
        for service in reversed(self._services):
            if isinstance(service, PeerService):
                service.stop()

    @property
    def closing(self) -> bool:
        """Whether services that were stopped still close connections, in time."""
        peers = (each for each in self._services if isinstance(each, PeerService))
        running = any(each.pid for each in peers)
        return running and time.monotonic() < self._closing_until


class RemoverProcess(ServiceProcess):
    """Removes the directories of ended instances in a process of low priority.

    An environment may leave hundreds of thousands of files, which take seconds to
    remove. The supervisor only renames a directory into the trash, and wakes the
    process. The trash itself is the list of work, so no work is lost if the process
    ends, or cannot be started for a while.

    Args:
        run: The run directory.
    """

    name = "remover"

    def __init__(self, run: RunDir) -> None:
        super().__init__()
        self.wanted = True
        self._trash = run.trash
        self._moved = 0
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def remove(self, folder: str) -> None:
        """Rename a directory into the trash, and wake the process that removes it."""
        self._moved += 1
        target = f"{self._trash}/{os.path.basename(folder)}.{self._moved}"
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._trash, 0o700)
            move(folder, target)
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning("cannot remove %s before the server ends: %s", folder, error)
            return
        # A full pipe wakes the process as well.
        with contextlib.suppress(BlockingIOError):
            os.write(self._writer, b"\n")

    def start(self) -> None:
        """Start the process.

        Raises:
            ForkFailed: No process can be started.
        """
        self._fork([self._reader], self._run)

    def _run(self, parent: int) -> int:
        # Where the kernel groups processes by session, niceness acts inside a group,
        # and the group's niceness on all of it.
        isolate(parent, own_session=True)
        os.nice(NICENESS)
        with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as file:
            file.write(str(NICENESS))
        while True:
            with contextlib.suppress(OSError):
                empty(self._trash)
            if not os.read(self._reader, 1 << 16):
                return 0


class BrokerProcess(_ListeningService):
    """Starts the broker when it is first needed.

    Args:
        run_dir: The run directory.
        settings: The settings.
        sockets: Descriptors of the socket on which external environments connect by
            plain TCP, and of the memory from which the broker reads the tokens;
            ``None`` if there is no such socket.
    """

    name = "broker"

    def __init__(
        self,
        run_dir: RunDir,
        settings: Settings,
        sockets: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(run_dir.broker_socket, sockets or ())
        # Environments that connect without a web worker need it from the start.
        self.wanted = sockets is not None
        self._sockets = sockets
        self._settings = BrokerSettings(
            heartbeat_s=settings.external_heartbeat,
            grace_s=settings.external_grace,
            max_message=settings.max_answer,
            max_external=settings.max_external,
            max_observation=settings.max_observation,
            commands=tuple(settings.env_commands),
        )

    def connect_host(self, descriptor: int) -> None:
        """Pass the connection of a host to the broker, or to the next broker."""
        if self.wanted:
            with contextlib.suppress(OSError):
                self.control.send(request(Op.EXTERNAL_HOST), descriptor)

    def _run(self, listener: socket.socket, parent: int) -> int:
        from gym_http_server.services.broker.server import run

        control = self._control_end
        return run(listener, control, self._sockets, self._settings, parent)


class GatewayProcess(_StandingService):
    """Starts the ZeroMQ gateway at the start of the server, if the settings have one.

    Its listening socket stays open in the supervisor, so peers that connect while no
    gateway runs wait for the next one.

    Args:
        settings: The settings.
        sockets: Descriptors of the socket on which peers connect by ZeroMQ, and of the
            memory from which the gateway reads the tokens; ``None`` for no gateway.
    """

    name = "gateway"

    def __init__(self, settings: Settings, sockets: tuple[int, int] | None) -> None:
        super().__init__(sockets or ())
        self._settings = settings

    def _run(self, parent: int) -> int:
        try:
            check_installed()
        except StartError as error:
            # It could be loaded when the server started.
            log.error("the gateway cannot start: %s", error)
            return 1
        from gym_http_server.services.gateway.context import GatewaySettings
        from gym_http_server.services.gateway.server import run

        settings = self._settings
        gateway_settings = GatewaySettings(
            place=settings.zmq,
            heartbeat_s=settings.external_heartbeat,
            max_message=max(settings.max_answer, settings.max_body),
            max_request=settings.max_body,
            max_first=max(settings.max_body, MAX_HELLO_BYTES),
            max_peers=settings.max_external + MAX_AGENTS,
            max_unaccepted=max(settings.max_external, MAX_UNAUTHENTICATED),
            tango_name=settings.tango_name,
        )
        listener, tokens = self._descriptors
        return run(listener, tokens, self._control_end, gateway_settings, parent)


class MemberProcess(_StandingService):
    """Starts the member of a fleet at the start of the server, if it is in one.

    Args:
        settings: Descriptor of the memory from which the member reads the settings;
            ``None`` without a fleet.
    """

    name = "member"

    def __init__(self, settings: int | None) -> None:
        super().__init__(() if settings is None else (settings,))

    def _run(self, parent: int) -> int:
        from gym_http_server.fleet.member import run

        (settings,) = self._descriptors
        return run(settings, self._control_end, parent)


class RelayProcess(_ListeningService):
    """Starts the relay when it is first needed, or at start where there are runs.

    Args:
        run_dir: The run directory.
        settings: The settings.
    """

    name = "relay"

    def __init__(self, run_dir: RunDir, settings: Settings) -> None:
        super().__init__(run_dir.relay_socket)
        self._run_dir = run_dir.path
        self._settings = RelaySettings(
            folder=settings.relay_dir,
            disk_limit=settings.relay_disk,
            max_upload=settings.max_upload,
            max_body=settings.max_body,
        )
        self.wanted = os.path.exists(f"{settings.relay_dir}/{DATABASE}")

    def _run(self, listener: socket.socket, parent: int) -> int:
        from gym_http_server.services.relay.server import run

        return run(listener, self._control_end, self._settings, self._run_dir, parent)
