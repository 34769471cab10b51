"""The supervisor's loop: one thread that starts, watches and ends every host.

The supervisor imports libraries, so that the hosts that it forks need not, and never
makes an environment itself.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import signal
import socket
import time
from collections.abc import Mapping

from gym_http_server.config.settings import Settings
from gym_http_server.datadir.own_paths import DataDir
from gym_http_server.errors import (
    Draining,
    ForkFailed,
)
from gym_http_server.fleet.numbers import IDs
from gym_http_server.fleet.page import Page
from gym_http_server.linux.sandbox import Sandbox
from gym_http_server.processes.log_lines import SUPERVISOR
from gym_http_server.processes.poller import Poller
from gym_http_server.rundir.directory import RunDir, is_full
from gym_http_server.rundir.progress import Progress
from gym_http_server.rundir.removal import remove
from gym_http_server.supervisor import processes
from gym_http_server.supervisor.archiver import ArchiverProcess
from gym_http_server.supervisor.creates import Creates
from gym_http_server.supervisor.fork_server import ForkServer
from gym_http_server.supervisor.hosts import Hosts, random_id
from gym_http_server.supervisor.instance import Instance, Tombstone
from gym_http_server.supervisor.issued_ids import IssuedIDs
from gym_http_server.supervisor.output import Outputs
from gym_http_server.supervisor.owners import Owners
from gym_http_server.supervisor.prefork import Modules
from gym_http_server.supervisor.reloads import Reloads
from gym_http_server.supervisor.requests import Requests
from gym_http_server.supervisor.services import (
    BrokerProcess,
    GatewayProcess,
    MemberProcess,
    RelayProcess,
    RemoverProcess,
    ServiceProcess,
    Services,
)
from gym_http_server.supervisor.thumbnails import Thumbnails
from gym_http_wire.frames import Frame
from gym_http_wire.problems import DiskFull

__all__ = ["Supervisor"]

TICK_SECONDS = 0.2
BACKLOG = 512

log = logging.getLogger(SUPERVISOR)


class Supervisor:
    """Owns hosts and services, and answers requests of web workers and the launcher.

    Args:
        run: The run directory.
        settings: Limits; the token is not among them.
        modules: The modules that were imported for hosts.
        sandbox: The sandbox that hosts enter.
        signals: End of a pair of sockets on which signal numbers arrive.
        launcher: Descriptor that ends when the launcher does.
        heartbeat: Descriptor of a pipe to the launcher, which ends a supervisor that
            writes nothing to it.
        addresses: Names of the addresses on which the server listens.
        external_sockets: Descriptors of the socket on which external environments
            connect by plain TCP, and of the memory from which the broker reads the
            tokens; ``None`` if there is no such socket.
        zmq_sockets: The same for peers that connect by ZeroMQ, and for the gateway.
        quotas: Instances that each token may own at a time, by its name.
        fleet: Descriptor of the memory from which the member reads the settings of the
            fleet; ``None`` without one.
    """

    def __init__(
        self,
        run: RunDir,
        settings: Settings,
        modules: Modules,
        *,
        sandbox: Sandbox,
        signals: socket.socket,
        launcher: int,
        heartbeat: int,
        addresses: tuple[str, ...] = (),
        external_sockets: tuple[int, int] | None = None,
        zmq_sockets: tuple[int, int] | None = None,
        quotas: Mapping[str, int | None] | None = None,
        fleet: int | None = None,
    ) -> None:
        self._run = run
        self._settings = settings
        self._modules = modules
        self._signals = signals
        self._heartbeat = heartbeat
        self._progress = Progress(run.progress)
        remover = RemoverProcess(run)
        self._issued_ids = IssuedIDs(settings.data_dir, addresses)
        self._poller = Poller(many=True)
        fork_server = ForkServer(sandbox.descriptors, self._poller)
        self._fork_server = fork_server
        self._ids = None if fleet is None else IDs(Page(run.path), settings.data_dir)
        self._broker = BrokerProcess(run, settings, external_sockets)
        self._hosts = Hosts(
            run,
            settings,
            modules,
            remove=remover.remove,
            earlier_ids=self._issued_ids,
            sandbox=sandbox,
            fork_server=fork_server,
            on_made=self._on_made,
            on_end=self._on_end,
            on_revoked=self._on_revoked,
            on_spared_end=self._on_spared_end,
            pass_to_broker=self._broker.connect_host,
            new_id=random_id if self._ids is None else self._ids.issue,
        )
        self._gateway = GatewayProcess(settings, zmq_sockets)
        self._relay = RelayProcess(run, settings)
        data_dir = DataDir(settings, run.path)
        member = MemberProcess(fleet)
        self._archiver = ArchiverProcess(
            data_dir,
            self._poller,
            no_logs=settings.no_tracebacks,
            on_found=self._hosts.tombstones.restore,
        )
        peers = (self._broker, self._gateway, self._relay, member)
        self._services = Services(
            (fork_server, remover, *peers, self._archiver), self._hosts.exempt
        )
        owners = Owners(self._hosts, quotas or {})
        self._reloads = Reloads(self._hosts, owners, peers, self._poller)
        self._stopping = False
        # Whether permissions were restored before.
        self._restored = False
        self._outputs = Outputs(self._poller)
        self._creates = Creates(
            run,
            settings,
            hosts=self._hosts,
            owners=owners,
            issued_ids=self._issued_ids,
            fork_server=fork_server,
            start_broker=self._start_broker,
            start_fork_server=self._start_fork_server,
            watch=self._watch,
        )
        self._requests = Requests(
            run,
            settings,
            modules,
            hosts=self._hosts,
            owners=owners,
            reload=self._reloads.begin,
            issued_ids=self._issued_ids,
            poller=self._poller,
            creates=self._creates,
            archiver=self._archiver,
            thumbnails=Thumbnails(
                run,
                modules,
                sandbox=sandbox,
                data_dir=data_dir,
                poller=self._poller,
                hosts=self._hosts,
                seconds=settings.create_deadline,
            ),
            start_broker=self._start_broker,
            start_relay=self._start_relay,
        )
        self._poller.add(signals, self._on_signal)
        self._poller.add(launcher, self._on_launcher_end)

    def run(self) -> None:
        """Work until SIGTERM arrives and no host is left."""
        # The gateway passes environments to the broker.
        self._broker.wanted = self._broker.wanted or self._gateway.wanted
        self._services.start_due()
        next_tick = time.monotonic() + TICK_SECONDS
        begun = False
        while not self._stopping or self._ending:
            due = min(next_tick, self._outputs.resume())
            wait_ms = 0.0 if begun else 1000 * max(0.0, due - time.monotonic())
            self._poller.handle(self._poller.poll(wait_ms), self._advance)
            # One host in a turn: other requests are answered before the next one.
            begun = self._creates.serve()
            self._advance()
            if time.monotonic() >= next_tick:
                self._tick()
                next_tick = time.monotonic() + TICK_SECONDS
        self._hosts.log_ends()
        if self._ids is not None:
            self._ids.close()
        processes.kill_children()

    @property
    def _ending(self) -> bool:
        """Whether hosts end, services close connections, or episodes are written."""
        return bool(len(self._hosts) or self._services.closing or self._archiver.busy)

    def _advance(self) -> None:
        if self._requests.accepts:
            self._progress.advance()

    def _tick(self) -> None:
        # The pipe is full if the launcher is stopped.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._heartbeat, b"\n")
        self._hosts.tick()
        self._restore_permissions()
        self._services.start_due()
        self._requests.tick()
        self._reloads.tick()
        self._creates.tick()

    def _restore_permissions(self) -> None:
        """Restore permissions of the run directory that an environment changed."""
        if self._settings.host_user:
            return
        upkeep = self._hosts.upkeep
        serving = (e.instance_id for e in upkeep if e.live and not e.reason)
        path = self._run.restore_permissions(serving)
        if path and not self._restored:
            self._restored = True
            log.warning(
                "restored the permissions of %s, which an environment has changed; "
                "run environments that you do not trust with --host-user",
                path,
            )

    def _on_revoked(self, instance: Instance) -> None:
        self._reloads.confirm(instance)

    def _on_spared_end(self, pid: int) -> None:
        self._services.on_ended(pid)

    def _start_fork_server(self) -> None:
        """Start the fork server, unless it runs, or was started just now.

        Raises:
            ForkFailed: It cannot be started.
        """
        if self._fork_server.due:
            self._start(self._fork_server, "makes no instances", "create requests")

    def _start_broker(self) -> None:
        self._start(self._broker, "lets no environment in", "external environments")

    def _start_relay(self) -> None:
        self._start(self._relay, "accepts no samples", "requests to the relay")

    def _start(self, service: ServiceProcess, refusal: str, peers: str) -> None:
        """Start a service, unless it runs.

        Args:
            service: The service.
            refusal: What a server that is stopping does.
            peers: Those for which the service listens.

        Raises:
            Problem: It cannot be started.
        """
        if self._stopping:
            raise Draining(f"the server is stopping and {refusal}")
        try:
            self._services.start(service)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise ForkFailed(
                    f"the server cannot listen for {peers} ({error.strerror}): close "
                    "instances or connections, or raise its limit of open files"
                ) from None
            if not is_full(error):
                raise
            raise DiskFull(
                f"the server cannot listen for {peers}, since the disk of its run "
                f"directory is full: {error.strerror}"
            ) from None

    def _watch(self, instance: Instance) -> None:
        """Read the messages and the output of a host from now on."""
        self._poller.add(instance.channel, lambda events: self._receive(instance))
        self._outputs.add(instance.output)

    def _receive(self, instance: Instance) -> None:
        if not self._hosts.receive(instance):
            # The host is ending; its wait status will show how.
            self._poller.remove(instance.channel)

    def _on_made(self, instance: Instance, frame: Frame) -> None:
        self._creates.on_made(instance, frame)

    def _on_end(self, instance: Instance, ended: Tombstone) -> None:
        self._poller.remove(instance.channel)
        self._outputs.remove(instance.output)
        self._reloads.confirm(instance)
        if instance.live:
            self._archiver.add(instance, ended)
        self._requests.on_end(instance)
        self._creates.on_end(instance, ended)

    def _on_signal(self, events: int) -> None:
        for number in self._signals.recv(4096):
            if number == signal.SIGCHLD:
                self._hosts.reap()
            elif number == signal.SIGTERM:
                self._stop()

    def _stop(self) -> None:
        self._stopping = True
        # Services are not started any more after that.
        self._archiver.wanted = self._archiver.wanted or bool(self._hosts.serving())
        self._services.start_due()
        self._services.stop()
        self._creates.stop()
        for instance in self._hosts:
            if instance.live:
                self._hosts.close(instance, "shutdown")
            else:
                self._hosts.kill(instance, "shutdown")

    def _on_launcher_end(self, events: int) -> None:
        log.error("the launcher is gone; ending all hosts")
        for instance in self._hosts:
            self._hosts.kill(instance, "shutdown")
        processes.kill_children()
        remove(self._run.path)
        os._exit(1)
