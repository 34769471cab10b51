"""Requests to the supervisor, from web workers, the launcher and the gateway.

The supervisor answers requests that concern all instances: create, list and end them,
read their logs, return their tombstones, survey the registry. Calls of one instance go
directly to its host.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec

from gym_http_server.config.inherited_settings import Replaced
from gym_http_server.config.settings import Settings
from gym_http_server.errors import (
    ServerRestarted,
    ShutdownDisabled,
    SurveyFailed,
    UnknownInstance,
)
from gym_http_server.processes.acceptor import Acceptor
from gym_http_server.processes.frame_server import FrameServer
from gym_http_server.processes.peer_credentials import PeerCredentials
from gym_http_server.processes.poller import Poller
from gym_http_server.rundir.directory import RunDir
from gym_http_server.rundir.sockets import listen
from gym_http_server.supervisor.archiver import ArchiverProcess
from gym_http_server.supervisor.creates import Creates
from gym_http_server.supervisor.figures import Wanted, listed
from gym_http_server.supervisor.hosts import Hosts
from gym_http_server.supervisor.instance import Instance
from gym_http_server.supervisor.issued_ids import IssuedIDs
from gym_http_server.supervisor.output import LogPart
from gym_http_server.supervisor.owners import Owners
from gym_http_server.supervisor.prefork import Modules
from gym_http_server.supervisor.request_socket import RequestSocket
from gym_http_server.supervisor.survey import Survey
from gym_http_server.supervisor.thumbnails import Thumbnails
from gym_http_wire.frames import Frame
from gym_http_wire.messages import (
    AnswerHead,
    Form,
    Op,
    answer,
    request_head,
)
from gym_http_wire.problems import Problem

__all__ = ["Requests"]

#: Clients that start together connect together.
BACKLOG = 4096


class Requests:
    """Accepts connections to the supervisor, and answers their requests.

    Args:
        run: The run directory.
        settings: Limits; the token is not among them.
        modules: The modules that hosts have, for the survey of the registry.
        hosts: The instances.
        owners: The token that owns each instance.
        issued_ids: IDs of instances, of this server and of earlier ones.
        poller: The supervisor's poller.
        creates: Queues create requests.
        archiver: Writes ended instances to the archive.
        thumbnails: Draws environments.
        start_broker: Starts the broker, unless it runs.
        start_relay: Starts the relay, unless it runs.
        reload: Has all processes apply a reload; calls its second argument with the
            names of those that are busy.
    """

    def __init__(
        self,
        run: RunDir,
        settings: Settings,
        modules: Modules,
        *,
        hosts: Hosts,
        owners: Owners,
        issued_ids: IssuedIDs,
        poller: Poller,
        creates: Creates,
        archiver: ArchiverProcess,
        thumbnails: Thumbnails,
        start_broker: Callable[[], None],
        start_relay: Callable[[], None],
        reload: Callable[[Replaced, Callable[[list[str]], None]], None],
    ) -> None:
        self._run = run
        self._settings = settings
        self._modules = modules
        self._hosts = hosts
        self._owners = owners
        self._issued_ids = issued_ids
        self._poller = poller
        self._start_broker = start_broker
        self._start_relay = start_relay
        self._begin_reload = reload
        self._creates = creates
        self._archiver = archiver
        self._thumbnails = thumbnails
        self._envs: bytes | None = None
        self._survey: Survey | None = None
        self._survey_waiters: list[RequestSocket] = []
        listener = listen(run.supervisor_socket, BACKLOG)
        peers = PeerCredentials(os.getpid())
        self._acceptor = Acceptor(listener, poller, self._connect, "supervisor", peers)
        poller.add(listener, self._acceptor.accept)
        self._server = FrameServer[RequestSocket](poller, "supervisor", creates.on_left)
        self._operations: dict[int, Callable[[RequestSocket, Frame], None]] = {
            Op.CREATE: creates.add,
            Op.LIST: self._list,
            Op.EVENTS: self._send_events,
            Op.FIGURES: self._send_figures,
            Op.INSTANCES: self._list_instances,
            Op.LOG: self._read_log,
            Op.END: self._end,
            Op.END_ALL: self._end_all,
            Op.TOMBSTONE: self._tombstone,
            Op.REGISTRY: self._registry,
            Op.THUMBNAIL: self._draw,
            Op.STATUS: self._status,
            Op.SHUTDOWN: self._shutdown,
            Op.RELOAD: self._reload,
            Op.BROKER: self._open_broker,
            Op.RELAY: self._open_relay,
        }

    @property
    def accepts(self) -> bool:
        """Whether connections are accepted: there are descriptors for them."""
        return not self._acceptor.paused

    def tick(self) -> None:
        """Accept again where descriptors ran out, and check deadlines of children."""
        self._acceptor.resume()
        self._thumbnails.tick()
        if self._survey is not None:
            try:
                self._survey.check_deadline(time.monotonic())
            except SurveyFailed as failed:
                self._end_survey(self._survey, failed)

    def _connect(self, sock: socket.socket) -> None:
        self._server.add(RequestSocket(sock, self._server), self._dispatch)

    def _dispatch(self, connection: RequestSocket, frame: Frame) -> None:
        connection.number = frame.number
        try:
            self._operations[frame.kind](connection, frame)
        except Problem as problem:
            connection.refuse(problem)
        except Exception as error:
            connection.fail(error)

    def _reply(self, connection: RequestSocket, value: Any) -> None:
        body = value if isinstance(value, bytes) else msgspec.json.encode(value)
        connection.answer(answer(200, body))

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
        wanted = Wanted(*msgspec.json.decode(frame.body)) if frame.body else Wanted()
        hosts = self._hosts
        slots = len(hosts.serving()), self._settings.max_instances
        # A path that is refused is not offered.
        shown = not self._settings.no_tracebacks
        logs = (hosts.kept_logs, self._archiver.kept) if shown else ()
        hosts.usages.ask(hosts)
        deadline = self._settings.step_deadline
        found = listed(owned(hosts, head), ended, wanted, slots, logs, deadline)
        self._reply(connection, found)

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
        instance.end_request_id = instance.end_request_id or head.request_id
        instance.waiters.append(connection)
        self._hosts.close(instance, "closed")

    def _end_all(self, connection: RequestSocket, frame: Frame) -> None:
        """End all instances, for the reason in the head."""
        reason = request_head(frame).value or ""
        for instance in self._hosts:
            if instance.live:
                self._hosts.close(instance, reason)
            else:
                self._hosts.kill(instance, reason)
        self._status(connection, frame)

    def _tombstone(self, connection: RequestSocket, frame: Frame) -> None:
        head = request_head(frame)
        instance_id = head.instance_id
        self._hosts.reap()
        self._owners.check(head)
        if self._hosts.get(instance_id) is not None:
            self._reply(connection, {"alive": True})
            return
        ended = self._hosts.tombstones.get(instance_id)
        if (ended is None or ended.restored) and instance_id in self._issued_ids:
            raise ServerRestarted(instance_id)
        if ended is None:
            raise UnknownInstance(instance_id)
        if head.request_id:
            self._hosts.log_end(instance_id, head.request_id)
        archiving = {"archiving": instance_id in self._archiver}
        self._reply(connection, ended.as_json() | archiving)

    def _registry(self, connection: RequestSocket, frame: Frame) -> None:
        if self._envs is not None:
            self._reply(connection, self._envs)
            return
        if self._survey is None:
            deadline = self._settings.create_deadline
            commands = self._settings.env_commands
            survey = self._survey = Survey(self._modules.apart, deadline, commands)
            self._hosts.exempt.add(survey.pid)
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
        """Answer the requests that wait for the survey, and end its processes."""
        self._poller.remove(survey.reader)
        survey.close()
        self._survey = None
        self._hosts.end_spared(survey.pid)
        waiters, self._survey_waiters = self._survey_waiters, []
        for connection in waiters:
            if failed is not None:
                connection.refuse(failed)
            else:
                self._reply(connection, self._envs)

    def _draw(self, connection: RequestSocket, frame: Frame) -> None:
        owner = request_head(frame).owner
        self._thumbnails.add(bytes(frame.body).decode(), owner, connection)

    def _status(self, connection: RequestSocket, frame: Frame) -> None:
        if os.path.exists(self._run.stopping):
            # The launcher requests the status until no call is in flight.
            self._hosts.drain()
        read = [each.page.read_busy_and_steps() for each in self._hosts.serving()]
        owned = self._owners.owned(self._hosts, request_head(frame))
        status = {
            "instances": len(owned),
            "making": sum(not each.live for each in self._hosts),
            "busy_since_ns": min((busy for busy, _ in read if busy), default=0),
            "steps": sum(steps for _, steps in read),
            "slots": {
                "of": self._settings.max_instances,
                "owners": self._owners.slots(request_head(frame)),
                "taken": len(self._hosts),
            },
        }
        self._reply(connection, status)

    def _send_events(self, connection: RequestSocket, frame: Frame) -> None:
        events = self._hosts.events.since(int(frame.body), request_head(frame).owner)
        self._reply(connection, msgspec.json.encode(events) + b"\n")

    def _send_figures(self, connection: RequestSocket, frame: Frame) -> None:
        hosts = self._hosts
        hosts.usages.ask(hosts)
        head = request_head(frame)
        slots = {
            "of": self._settings.max_instances,
            "owners": self._owners.slots(head),
            "taken": len(hosts.serving()),
        }
        envs = hosts.figures.all(hosts, head.owner)
        self._reply(connection, {"envs": envs, "slots": slots})

    def _open_broker(self, connection: RequestSocket, frame: Frame) -> None:
        self._start_broker()
        self._reply(connection, {})

    def _open_relay(self, connection: RequestSocket, frame: Frame) -> None:
        self._start_relay()
        self._reply(connection, {})

    def _reload(self, connection: RequestSocket, frame: Frame) -> None:
        """Have all processes apply a reload, and answer with those that are busy."""
        replaced = msgspec.json.decode(frame.body, type=Replaced)
        self._begin_reload(replaced, lambda late: self._reply(connection, late))

    def _shutdown(self, connection: RequestSocket, frame: Frame) -> None:
        if not self._settings.enable_shutdown:
            raise ShutdownDisabled("this server is not shut down by requests")
        self._reply(connection, {})
        os.kill(os.getppid(), signal.SIGTERM)

    def on_end(self, instance: Instance) -> None:
        """Answer the requests that waited for the end of an instance."""
        for connection in instance.waiters:
            self._reply(connection, {"replayed": False})


def _log_answer(part: LogPart, offset: int, *, ended: bool) -> Frame:
    headers = {
        "Gym-Log-Cut": str(max(0, part.start - offset)),
        "Gym-Log-Ended": "true" if ended else "false",
        "Gym-Log-Next": str(part.next),
    }
    head = AnswerHead("text/plain; charset=utf-8", headers)
    return answer(200, part.data, head, form=Form.OTHER)
