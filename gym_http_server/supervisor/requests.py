"""Requests to the supervisor, from web workers, the launcher and the gateway.

The supervisor answers requests that concern all instances: create, list and end them,
read their logs, return their tombstones, survey the registry. Calls of one instance go
directly to its host.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec

from gym_http_core.idempotency import IdempotencyStore, as_replay, request_fingerprint
from gym_http_server.acceptor import Acceptor
from gym_http_server.envhost.create_request import read_request
from gym_http_server.errors import (
    Draining,
    ServerRestarted,
    ShutdownDisabled,
    SurveyFailed,
    TooManyInstances,
    UnknownInstance,
)
from gym_http_server.frame_socket import FrameSocket
from gym_http_server.inherited_settings import Replaced
from gym_http_server.log_lines import SUPERVISOR
from gym_http_server.peer_credentials import PeerCredentials
from gym_http_server.poller import READ, WRITE, Poller
from gym_http_server.rundir.directory import RunDir
from gym_http_server.rundir.sockets import listen, refuse_descriptors
from gym_http_server.settings import Settings
from gym_http_server.supervisor.figures import Wanted, listed
from gym_http_server.supervisor.hosts import Hosts
from gym_http_server.supervisor.instance import Instance, Tombstone
from gym_http_server.supervisor.issued_ids import IssuedIDs
from gym_http_server.supervisor.output import LogPart
from gym_http_server.supervisor.owners import Owners
from gym_http_server.supervisor.prefork import Modules
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
from gym_http_wire.problems import DiskFull, ExternalAway, Problem

__all__ = ["CreateKeys", "RequestSocket", "Requests"]

BACKLOG = 512

log = logging.getLogger(SUPERVISOR)


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
        start_broker: Starts the broker, unless it runs.
        start_relay: Starts the relay, unless it runs.
        watch: Called with an instance that has been started.
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
        start_broker: Callable[[], None],
        start_relay: Callable[[], None],
        watch: Callable[[Instance], None],
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
        self._watch = watch
        self._begin_reload = reload
        self._create_keys = CreateKeys()
        self._envs: bytes | None = None
        self._survey: Survey | None = None
        self._survey_waiters: list[RequestSocket] = []
        self._stopping = False
        listener = listen(run.supervisor_socket, BACKLOG)
        # Accepted connections inherit it.
        refuse_descriptors(listener)
        peers = PeerCredentials(os.getpid())
        self._acceptor = Acceptor(listener, poller, self._add, log, "supervisor", peers)
        self._operations: dict[int, Callable[[RequestSocket, Frame], None]] = {
            Op.CREATE: self._create,
            Op.LIST: self._list,
            Op.FIGURES: self._send_figures,
            Op.INSTANCES: self._list_instances,
            Op.LOG: self._read_log,
            Op.END: self._end,
            Op.TOMBSTONE: self._tombstone,
            Op.REGISTRY: self._registry,
            Op.STATUS: self._status,
            Op.SHUTDOWN: self._shutdown,
            Op.RELOAD: self._reload,
            Op.BROKER: self._open_broker,
            Op.RELAY: self._open_relay,
        }
        poller.add(listener, self._acceptor.accept)

    def stop(self) -> None:
        """Refuse creates from now on."""
        self._stopping = True

    def tick(self) -> None:
        """Accept again where descriptors ran out, and check the survey's deadline."""
        self._acceptor.resume()
        if self._survey is not None:
            try:
                self._survey.check_deadline(time.monotonic())
            except SurveyFailed as failed:
                self._end_survey(self._survey, failed)

    def _add(self, sock: socket.socket) -> None:
        connection = RequestSocket(sock)
        self._poller.add(sock, lambda events: self._serve(connection, events))

    def _serve(self, connection: RequestSocket, events: int) -> None:
        if events & WRITE:
            connection.flush()
        try:
            frames = connection.receive() if events & READ else []
        except FrameError as error:
            log.warning("a request to the supervisor is malformed: %s", error)
            frames = None
        if frames is None:
            self._disconnect(connection)
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

    def _disconnect(self, connection: RequestSocket) -> None:
        self._poller.remove(connection)
        connection.close()
        instance = connection.instance
        if instance is not None and not instance.live and not instance.create_key:
            # The client of the create has disconnected; no other client has the ID.
            self._hosts.kill(instance, "abandoned")

    def _create(self, connection: RequestSocket, frame: Frame) -> None:
        if self._stopping or os.path.exists(self._run.draining):
            raise Draining("the server is stopping and makes no new instances")
        head = request_head(frame)
        # Keys of different tokens are different; no key contains a blank.
        key = f"{head.creator} {head.key}" if head.key else ""
        if key and self._create_keys.join(key, frame, connection):
            return
        request = read_request(frame.body, self._settings, frame.form >> 4)
        owner = self._owners.choose(request.for_, head)
        if request.external:
            self._start_broker()
        quota_reached = self._owners.quota_reached(owner)
        full = quota_reached or self._hosts.full()
        if full is not None:
            orphan = self._hosts.oldest_orphan(owner if quota_reached else None)
            if orphan is None:
                raise self._explained(full, head)
            orphan.successors.append((connection, frame))
            orphan.end_request_id = orphan.end_request_id or head.request_id
            self._hosts.close(orphan, "orphaned")
            return
        instance = self._hosts.start(request)
        if key:
            self._create_keys.begin(key, frame, instance)
        instance.owner = owner
        instance.request_id = head.request_id
        instance.creators.append(connection)
        connection.instance = instance
        self._watch(instance)

    def _explained(self, full: TooManyInstances, head: RequestHead) -> TooManyInstances:
        """Add the instance to close or wait for, of those that the caller may see."""
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
        wanted = Wanted(*msgspec.json.decode(frame.body)) if frame.body else Wanted()
        hosts = self._hosts
        slots = len(hosts.serving()), self._settings.max_instances
        logs = hosts.kept_logs
        self._reply(connection, listed(owned(hosts, head), ended, wanted, slots, logs))

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

    def _tombstone(self, connection: RequestSocket, frame: Frame) -> None:
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
        if head.request_id:
            self._hosts.log_end(instance_id, head.request_id)
        self._reply(connection, ended.as_json())

    def _registry(self, connection: RequestSocket, frame: Frame) -> None:
        if self._envs is not None:
            self._reply(connection, self._envs)
            return
        if self._survey is None:
            deadline = self._settings.create_deadline
            survey = self._survey = Survey(self._modules.apart, deadline)
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
                self._listen_to(connection)
            else:
                self._reply(connection, self._envs)

    def _status(self, connection: RequestSocket, frame: Frame) -> None:
        if os.path.exists(self._run.draining):
            # The launcher requests the status until no call is in flight.
            self._hosts.drain()
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

    def on_made(self, instance: Instance, frame: Frame) -> None:
        """Answer the creators of an instance that was made, or could not be."""
        if instance.live:
            # Before any client has it.
            self._issued_ids.add(instance.instance_id)
        self._create_keys.keep(instance, frame)
        self._answer_creators(instance, frame)

    def _answer_creators(self, instance: Instance, frame: Frame) -> None:
        creators, instance.creators = instance.creators, []
        for creator in creators:
            creator.instance = None
            creator.answer(frame)
            self._listen_to(creator)

    def on_end(self, instance: Instance, ended: Tombstone) -> None:
        """Answer the requests that waited for the end of an instance."""
        for connection in instance.waiters:
            self._reply(connection, {"replayed": False})
        for connection, frame in instance.successors:
            # A client that has left meanwhile would never learn the ID.
            if not connection.closed:
                self._dispatch(connection, frame)
                self._listen_to(connection)
        if not instance.live:
            failure = problem_answer(ended.why_not_made(self._settings))
            self._create_keys.keep(instance, failure)
            self._answer_creators(instance, failure)


_NOT_BEGUN = (ExternalAway.default_status, DiskFull.default_status)


class CreateKeys:
    """The idempotency keys of create requests, and their answers.

    Requests with one key make one instance, however often they are sent.
    """

    def __init__(self) -> None:
        self._done = IdempotencyStore(max_answers=1024)
        self._making: dict[str, tuple[bytes, Instance]] = {}

    def join(self, key: str, frame: Frame, connection: RequestSocket) -> bool:
        """Answer a repeated request, at once or when its instance is made.

        Returns:
            Whether the request is repeated.

        Raises:
            KeyReused: A different request had this key.
        """
        fingerprint = _fingerprint(frame)
        if key in self._making:
            first, instance = self._making[key]
            self._done.compare(key, first, fingerprint)
            instance.creators.append(connection)
            return True
        if key in self._done:
            connection.answer(as_replay(self._done.recall(key, fingerprint)))
            return True
        return False

    def begin(self, key: str, frame: Frame, instance: Instance) -> None:
        """Record that an instance is being made for a request."""
        instance.create_key = key
        self._making[key] = (_fingerprint(frame), instance)

    def keep(self, instance: Instance, frame: Frame) -> None:
        """Keep the answer to a create: the host's report, or how the host ended.

        The answer is final, and clients rely on it: a late duplicate must not make an
        instance that no client waits for. A create that failed because the disk was
        full, or because no environment was connected, is not kept. Sent again under
        the same key, it may succeed.
        """
        fingerprint, making = self._making.get(instance.create_key, (b"", None))
        if making is not instance:
            return
        del self._making[instance.create_key]
        if frame.status in _NOT_BEGUN:
            return
        self._done.keep(instance.create_key, fingerprint, frame)


def _fingerprint(frame: Frame) -> bytes:
    return request_fingerprint(frame._replace(kind=Op.CREATE), RequestHead())


def _log_answer(part: LogPart, offset: int, *, ended: bool) -> Frame:
    headers = {
        "Gym-Log-Cut": str(max(0, part.start - offset)),
        "Gym-Log-Ended": "true" if ended else "false",
        "Gym-Log-Next": str(part.next),
    }
    head = AnswerHead("text/plain; charset=utf-8", headers)
    return answer(200, part.data, head, form=Form.OTHER)


MAX_REQUEST_BYTES = 1024 * 1024


class RequestSocket(FrameSocket):
    """The supervisor's end of a connection, which carries one request at a time.

    Args:
        end: The socket.

    Attributes:
        instance: The instance that its create request is making, or ``None``.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        super().__init__(end, MAX_REQUEST_BYTES)
        self.instance: Any = None
        self._number = 0

    def receive(self) -> list[Frame] | None:
        """Read once, and keep the number of the request for its answer."""
        frames = super().receive()
        if frames:
            self._number = frames[-1].number
        return frames

    def answer(self, frame: Frame) -> None:
        """Send an answer, or queue the bytes that the socket cannot take at once."""
        self.queue(frame._replace(number=self._number))

    def refuse(self, problem: Problem) -> None:
        """Answer with a problem."""
        self.answer(problem_answer(problem))
