"""The supervisor: starts, watches and ends every host. One thread, one poll loop.

It imports libraries, so that the hosts that it forks need not, and never makes an
environment itself. Web workers ask it for what concerns all instances; calls of
one instance go past it.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gym_http_server.envhost.create_request import read_request
from gym_http_server.errors import (
    Draining,
    ForkFailed,
    ServerRestarted,
    ShutdownDisabled,
    SurveyFailed,
    TooManyInstances,
    UnknownInstance,
)
from gym_http_server.log_lines import SUPERVISOR
from gym_http_server.peers import Peers
from gym_http_server.poller import READ, WRITE, Poller
from gym_http_server.rundir.directory import RunDir, is_full
from gym_http_server.rundir.removal import remove
from gym_http_server.rundir.sockets import listen, refuse_descriptors
from gym_http_server.sandbox import Sandbox
from gym_http_server.settings import Settings
from gym_http_server.supervisor import listing, processes
from gym_http_server.supervisor.broker import BrokerProcess
from gym_http_server.supervisor.create_keys import CreateKeys
from gym_http_server.supervisor.forks import ServiceProcess
from gym_http_server.supervisor.gateway import GatewayProcess
from gym_http_server.supervisor.hosts import Hosts
from gym_http_server.supervisor.instance import Ended, Instance
from gym_http_server.supervisor.issued_ids import IssuedIDs
from gym_http_server.supervisor.modules import Modules
from gym_http_server.supervisor.output import LogPart, Outputs
from gym_http_server.supervisor.owners import Owners
from gym_http_server.supervisor.remover import Remover
from gym_http_server.supervisor.request_socket import RequestSocket
from gym_http_server.supervisor.survey import Survey
from gym_http_wire.frames import Frame, FrameError
from gym_http_wire.messages import (
    AnswerHead,
    Form,
    Op,
    RequestHead,
    answer,
    problem_answer,
    request_head,
)
from gym_http_wire.problems import DiskFull, Problem

__all__ = ["Supervisor"]

TICK_SECONDS = 0.2
#: For services to send what they have to send before they end.
GOODBYE_SECONDS = 1.0
BACKLOG = 512

log = logging.getLogger(SUPERVISOR)


class Supervisor:
    """Owns all hosts and answers the questions of web workers and launcher.

    Args:
        run: The run directory.
        settings: Limits; the token is not among them.
        modules: What has been imported for hosts to have.
        sandbox: The sandbox that hosts enter.
        signals: End of a pair of sockets on which signal numbers arrive.
        launcher: Descriptor that ends when the launcher does.
        heartbeat: Descriptor of a pipe to the launcher, which ends a supervisor that
            writes nothing to it.
        addresses: Names of the addresses on which the server listens.
        doors: Descriptors of the socket by which external environments connect in by
            plain TCP, and of the memory from which the broker reads the tokens.
        zmq_doors: The same for peers that connect by ZeroMQ, and for the gateway.
        quotas: Instances that each token may own at a time, by its name.
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
        doors: tuple[int, int] | None = None,
        zmq_doors: tuple[int, int] | None = None,
        quotas: Mapping[str, int | None] | None = None,
    ) -> None:
        self._run = run
        self._settings = settings
        self._modules = modules
        self._signals = signals
        self._heartbeat = heartbeat
        self._remover = Remover(run)
        self._issued_ids = IssuedIDs(settings.data_dir, addresses)
        self._hosts = Hosts(
            run,
            settings,
            modules,
            remove=self._remover.remove,
            earlier_ids=self._issued_ids,
            sandbox=sandbox,
            on_made=self._on_made,
            on_end=self._on_end,
        )
        self._owners = Owners(self._hosts, quotas or {})
        self._creations = CreateKeys()
        self._broker = BrokerProcess(run, settings, sandbox, doors)
        self._gateway = GatewayProcess(settings, zmq_doors)
        self._services = (self._remover, self._broker, self._gateway)
        self._hosts.on_spared = self._on_spared
        self._envs: bytes | None = None
        self._survey: Survey | None = None
        self._survey_waiters: list[RequestSocket] = []
        self._stopping = False
        # Whether permissions have been restored before.
        self._restored = False
        # Whether connections are accepted, as long as there are descriptors for them.
        self._accepts = True
        self._services_until = 0.0
        self._peers = Peers(os.getpid())
        self._poller = Poller()
        self._outputs = Outputs(self._poller)
        self._listener = listen(run.supervisor_socket, BACKLOG)
        # Accepted connections inherit it.
        refuse_descriptors(self._listener)
        self._listener.setblocking(False)
        self._operations: dict[int, Callable[[RequestSocket, Frame], None]] = {
            Op.CREATE: self._create,
            Op.LIST: self._list,
            Op.INSTANCES: self._list_instances,
            Op.LOG: self._read_log,
            Op.END: self._end,
            Op.FATE: self._fate,
            Op.REGISTRY: self._registry,
            Op.STATUS: self._status,
            Op.SHUTDOWN: self._shutdown,
            Op.BROKER: self._open_broker,
        }
        self._poller.add(self._listener, self._accept)
        self._poller.add(signals, self._on_signal)
        self._poller.add(launcher, self._on_launcher_end)

    def run(self) -> None:
        """Work until told to stop and no host is left."""
        # The gateway hands environments over to the broker.
        self._broker.wanted = self._broker.wanted or self._gateway.wanted
        self._start_services()
        next_tick = time.monotonic() + TICK_SECONDS
        while not self._stopping or len(self._hosts) or self._services_say_goodbye():
            due = min(next_tick, self._outputs.resume())
            self._poller.serve(max(0.0, due - time.monotonic()))
            if time.monotonic() >= next_tick:
                self._tick()
                next_tick = time.monotonic() + TICK_SECONDS
        processes.kill_children()

    def _tick(self) -> None:
        # A full pipe: the launcher is stopped.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._heartbeat, b"\n")
        if not self._accepts:
            self._accepts = True
            self._poller.want(self._listener, READ)
        self._hosts.tick()
        self._restore_permissions()
        self._start_services()
        if self._survey is not None:
            try:
                self._survey.check_deadline(time.monotonic())
            except SurveyFailed as failed:
                self._end_survey(self._survey, failed)

    def _restore_permissions(self) -> None:
        """Undo what an environment has done to the run directory, of the same user."""
        if self._settings.host_user:
            return
        serving = (each.instance_id for each in self._hosts.serving())
        path = self._run.restore_permissions(serving)
        if path and not self._restored:
            self._restored = True
            log.warning(
                "restored the permissions of %s, which an environment has changed; "
                "run environments that you do not trust with --host-user",
                path,
            )

    def _accept(self, events: int) -> None:
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:
            # Too many descriptors are open. The connection would be reported again and
            # again; there may be fewer descriptors at the next tick.
            self._poller.want(self._listener, 0)
            self._accepts = False
            return
        if not self._peers.admits(sock):
            log.warning("refused a connection of an environment to the supervisor")
            sock.close()
            return
        connection = RequestSocket(sock)
        self._poller.add(sock, lambda events: self._serve(connection, events))

    def _serve(self, connection: RequestSocket, events: int) -> None:
        if events & WRITE:
            connection.flush()
        try:
            frames = connection.receive() if events & READ else []
        except FrameError as error:
            log.warning("a request to the supervisor is none: %s", error)
            frames = None
        if frames is None:
            self._hang_up(connection)
            return
        for frame in frames:
            self._dispatch(connection, frame)
        self._listen_to(connection)

    def _dispatch(self, connection: RequestSocket, frame: Frame) -> None:
        try:
            self._operations[frame.kind](connection, frame)
        except Problem as problem:
            connection.refuse(problem)
        except Exception as error:
            log.exception("a request to the supervisor failed")
            what = f"the supervisor failed with {type(error).__name__}: {error}"
            connection.refuse(Problem(what[:500]))

    def _listen_to(self, connection: RequestSocket) -> None:
        if connection.closed:
            return
        wanted = READ | WRITE if connection.unsent else READ
        self._poller.want(connection, wanted)

    def _reply(self, connection: RequestSocket, value: Any) -> None:
        body = value if isinstance(value, bytes) else msgspec.json.encode(value)
        connection.answer(answer(200, body))
        self._listen_to(connection)

    def _hang_up(self, connection: RequestSocket) -> None:
        self._poller.remove(connection)
        connection.close()
        instance = connection.instance
        if instance is not None and not instance.live and not instance.create_key:
            # Whoever asked for it is gone; nobody could ever learn its ID.
            self._hosts.kill(instance, "abandoned")

    def _create(self, connection: RequestSocket, frame: Frame) -> None:
        if self._stopping or os.path.exists(self._run.draining):
            raise Draining("the server is stopping and makes no new instances")
        head = request_head(frame)
        # Of another token, the same key is another one: no key has a blank.
        key = f"{head.creator} {head.key}" if head.key else ""
        if key and self._creations.joined(key, frame, connection):
            return
        asked = read_request(frame.body, self._settings, frame.form >> 4)
        owner = self._owners.choose(asked.for_, head)
        if asked.external:
            self._start_broker()
        quota_reached = self._owners.quota_reached(owner)
        full = quota_reached or self._hosts.full()
        if full is not None:
            orphan = self._hosts.oldest_orphan(owner if quota_reached else None)
            if orphan is None:
                raise self._explained(full, head)
            orphan.successors.append((connection, frame))
            self._hosts.close(orphan, "orphaned")
            return
        instance = self._hosts.start(asked)
        if key:
            self._creations.begin(key, frame, instance)
        instance.owner = owner
        instance.request_id = head.request_id
        instance.creators.append(connection)
        connection.instance = instance
        self._poller.add(instance.channel, lambda events: self._hear(instance))
        self._outputs.add(instance.output)

    def _explained(self, full: TooManyInstances, head: RequestHead) -> TooManyInstances:
        """Name the instance to close or wait for, of those that the caller may see."""
        idle = self._hosts.longest_idle(self._owners.owned(self._hosts.serving(), head))
        return full if idle is None else idle.added_to(full)

    def _list(self, connection: RequestSocket, frame: Frame) -> None:
        serving = self._owners.owned(self._hosts.serving(), request_head(frame))
        envs = {each.instance_id: each.env_id for each in serving}
        self._reply(connection, {"all_envs": dict(sorted(envs.items()))})

    def _list_instances(self, connection: RequestSocket, frame: Frame) -> None:
        owned = self._owners.owned
        head = request_head(frame)
        ended = (
            each
            for each in self._hosts.tombstones.newest_first()
            if head.owner in ("", each[1].owner)
        )
        listed = listing.listed(owned(self._hosts, head), ended)
        self._reply(connection, listed)

    def _read_log(self, connection: RequestSocket, frame: Frame) -> None:
        head = request_head(frame)
        self._owners.check(head)
        instance_id = head.instance_id
        instance = self._hosts.find(instance_id)
        kept = self._hosts.kept_logs.get(instance_id)
        output = kept if instance is None else instance.output
        if output is None:
            raise UnknownInstance(instance_id)
        offset = int(frame.body)
        part = output.read_log(offset)
        connection.answer(_log_answer(part, offset, ended=instance is None))

    def _end(self, connection: RequestSocket, frame: Frame) -> None:
        head = request_head(frame)
        self._owners.check(head)
        instance = self._hosts.get(head.instance_id)
        if instance is None:
            ended = self._hosts.tombstones.get(head.instance_id)
            if ended is None or not head.key or ended.end_key != head.key:
                raise UnknownInstance(head.instance_id)
            self._reply(connection, {"replayed": True})
            return
        if instance.reason and not (head.key and instance.end_key == head.key):
            raise UnknownInstance(head.instance_id)
        instance.end_key = head.key
        instance.waiters.append(connection)
        self._hosts.close(instance, "closed")

    def _fate(self, connection: RequestSocket, frame: Frame) -> None:
        head = request_head(frame)
        instance_id = head.instance_id
        self._hosts.reap()
        self._owners.check(head)
        if self._hosts.get(instance_id) is not None:
            self._reply(connection, {"alive": True})
            return
        ended = self._hosts.tombstones.get(instance_id)
        if ended is None:
            if instance_id in self._issued_ids:
                raise ServerRestarted(instance_id)
            raise UnknownInstance(instance_id)
        self._reply(connection, ended.as_json())

    def _registry(self, connection: RequestSocket, frame: Frame) -> None:
        if self._envs is not None:
            self._reply(connection, self._envs)
            return
        if self._survey is None:
            deadline = self._settings.create_deadline
            survey = self._survey = Survey(self._modules.apart, deadline)
            self._hosts.spared.add(survey.pid)
            self._poller.add(survey.reader, lambda events: self._read_survey(survey))
        self._survey_waiters.append(connection)

    def _read_survey(self, survey: Survey) -> None:
        try:
            if not survey.read():
                self._envs = survey.result
                self._end_survey(survey, None)
        except SurveyFailed as failed:
            self._end_survey(survey, failed)

    def _end_survey(self, survey: Survey, failed: SurveyFailed | None) -> None:
        """Answer the connections that wait for it, and end what it has started."""
        self._poller.remove(survey.reader)
        survey.close()
        self._survey = None
        self._hosts.end_spared(survey.pid)
        waiters, self._survey_waiters = self._survey_waiters, []
        for connection in waiters:
            if failed is not None:
                connection.refuse(failed)
                self._listen_to(connection)
            else:
                self._reply(connection, self._envs)

    def _status(self, connection: RequestSocket, frame: Frame) -> None:
        serving = self._hosts.serving()
        statuses = [each.page.read() for each in serving]
        busy = [each.busy_since_ns for each in statuses if each.busy_since_ns]
        owned = self._owners.owned(self._hosts, request_head(frame))
        status = {
            "instances": len(owned),
            "making": sum(not each.live for each in self._hosts),
            "busy_since_ns": min(busy, default=0),
            "steps": sum(each.steps for each in statuses),
        }
        self._reply(connection, status)

    def _open_broker(self, connection: RequestSocket, frame: Frame) -> None:
        self._start_broker()
        self._reply(connection, {})

    def _start_broker(self) -> None:
        if self._stopping:
            raise Draining("the server is stopping and lets no environment in")
        try:
            self._start(self._broker)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise ForkFailed(
                    "the server cannot listen for external environments "
                    f"({error.strerror}): close instances or connections, or raise "
                    "its limit of open files"
                ) from None
            if not is_full(error):
                raise
            raise DiskFull(
                "the server cannot listen for external environments, since the disk "
                f"of its run directory is full: {error.strerror}"
            ) from None

    def _start(self, service: ServiceProcess) -> None:
        service.start()
        self._hosts.spared.add(service.pid)

    def _start_services(self) -> None:
        """Start the services that are to be there and are not, or try to."""
        for service in self._services:
            if service.due and not self._stopping:
                try:
                    self._start(service)
                except (ForkFailed, OSError) as failed:
                    log.warning("cannot start the %s yet: %s", service.name, failed)

    def _on_spared(self, pid: int) -> None:
        for service in self._services:
            if service.pid == pid:
                service.pid = 0
                if not self._stopping:
                    log.warning("the %s ended; starting another one", service.name)
        self._start_services()

    def _shutdown(self, connection: RequestSocket, frame: Frame) -> None:
        if not self._settings.enable_shutdown:
            raise ShutdownDisabled("this server is not shut down by requests")
        self._reply(connection, {})
        os.kill(os.getppid(), signal.SIGTERM)

    def _hear(self, instance: Instance) -> None:
        if not self._hosts.hear(instance):
            # It is ending; how, the wait status will say.
            self._poller.remove(instance.channel)

    def _on_made(self, instance: Instance, frame: Frame) -> None:
        if instance.live:
            # Before anybody knows it.
            self._issued_ids.add(instance.instance_id)
        self._creations.over(instance, frame)
        self._tell_creators(instance, frame)

    def _tell_creators(self, instance: Instance, frame: Frame) -> None:
        creators, instance.creators = instance.creators, []
        for creator in creators:
            creator.instance = None
            creator.answer(frame)
            self._listen_to(creator)

    def _on_end(self, instance: Instance, ended: Ended) -> None:
        self._poller.remove(instance.channel)
        self._outputs.remove(instance.output)
        for connection in instance.waiters:
            self._reply(connection, {"replayed": False})
        for connection, frame in instance.successors:
            # A client that has gone meanwhile could never learn the ID.
            if not connection.closed:
                self._dispatch(connection, frame)
                self._listen_to(connection)
        if not instance.live:
            why = problem_answer(ended.why_not_made(self._settings))
            self._creations.over(instance, why)
            self._tell_creators(instance, why)

    def _on_signal(self, events: int) -> None:
        for number in self._signals.recv(4096):
            if number == signal.SIGCHLD:
                self._hosts.reap()
            elif number == signal.SIGTERM:
                self._stop()

    def _services_say_goodbye(self) -> bool:
        """Whether services still have time to end their connections in order."""
        running = self._gateway.pid or self._broker.pid
        return bool(running) and time.monotonic() < self._services_until

    def _stop(self) -> None:
        self._stopping = True
        self._services_until = time.monotonic() + GOODBYE_SECONDS
        self._gateway.stop()
        self._broker.stop()
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


def _log_answer(part: LogPart, offset: int, *, ended: bool) -> Frame:
    headers = {
        "Gym-Log-Cut": str(max(0, part.start - offset)),
        "Gym-Log-Ended": "true" if ended else "false",
        "Gym-Log-Next": str(part.next),
    }
    head = AnswerHead("text/plain; charset=utf-8", headers)
    return answer(200, part.data, head, form=Form.OTHER)
