"""Create requests: their queue, their idempotency keys, and their answers.

A create request waits until a spare host is ready, at most until the create deadline.
It is dropped if its client leaves. Tokens take turns, so that many requests of one
delay no other.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from gym_http_core.idempotency import IdempotencyStore, as_replay, request_fingerprint
from gym_http_server.access.shares import share_used_up
from gym_http_server.config.env_commands import command_of
from gym_http_server.config.settings import Settings
from gym_http_server.errors import (
    CreateDeadline,
    Draining,
    ForkFailed,
    ShareUsedUp,
    TooManyInstances,
    UnknownInstance,
)
from gym_http_server.host.create_request import (
    Arguments,
    CreateRequest,
    read_request,
)
from gym_http_server.rundir.directory import RunDir
from gym_http_server.supervisor.fork_server import ForkServer
from gym_http_server.supervisor.hosts import Hosts
from gym_http_server.supervisor.instance import Instance, Tombstone
from gym_http_server.supervisor.issued_ids import IssuedIDs
from gym_http_server.supervisor.owners import Owners
from gym_http_server.supervisor.request_socket import RequestSocket
from gym_http_wire.frames import Frame
from gym_http_wire.messages import (
    NODE_KEY,
    Form,
    Op,
    RequestHead,
    problem_answer,
    problem_of,
    request_head,
)
from gym_http_wire.problems import DiskFull, ExternalAway, Problem

__all__ = ["Creates"]

#: Hosts that may make their environments at the same time, for each processor. More
#: would not be made sooner, and would delay the steps of other instances.
MAKING_PER_PROCESSOR = 4
#: So many times the size of a body may wait for hosts, in arguments.
WAITING_BODIES = 8
#: Seconds after which a host counts no more: it waits for something, or takes long.
YOUNG_SECONDS = 0.25
#: Seconds in which a node repeats a create whose connection it has lost.
REPEAT_SECONDS = 2.0


@dataclass(eq=False)
class Create:
    """A create request that waits.

    Attributes:
        connection: The connection to answer.
        frame: The request.
        head: Its head.
        key: Its idempotency key, together with the name of its token; "" without one.
        request: Its parameters.
        owner: Name of the token that is to own the instance; "" if there is none.
        since: When it arrived, in monotonic seconds.
        succeeds: Whether it has waited for the slot of an instance that has ended.
    """

    connection: RequestSocket
    frame: Frame
    head: RequestHead
    key: str
    request: CreateRequest
    owner: str
    since: float = field(default_factory=time.monotonic)
    succeeds: bool = False


class Creates:
    """Queues create requests, and starts a host for each.

    Args:
        run: The run directory.
        settings: Limits; the token is not among them.
        hosts: The instances.
        owners: The token that owns each instance.
        issued_ids: IDs of instances, of this server and of earlier ones.
        fork_server: Has the spare hosts.
        start_broker: Starts the broker, unless it runs.
        start_fork_server: Starts the fork server, unless it runs or started just now.
        watch: Called with an instance that has been started.
    """

    def __init__(
        self,
        run: RunDir,
        settings: Settings,
        *,
        hosts: Hosts,
        owners: Owners,
        issued_ids: IssuedIDs,
        fork_server: ForkServer,
        start_broker: Callable[[], None],
        start_fork_server: Callable[[], None],
        watch: Callable[[Instance], None],
    ) -> None:
        self._run = run
        self._settings = settings
        self._hosts = hosts
        self._owners = owners
        self._issued_ids = issued_ids
        self._fork_server = fork_server
        self._start_broker = start_broker
        self._start_fork_server = start_fork_server
        self._watch = watch
        self._keys = CreateKeys()
        self._queue: deque[Create] = deque()
        # By ID of an instance that no client waits for or has, until when a node may
        # repeat its create, in monotonic seconds.
        self._left: dict[str, float] = {}
        # By token, the number of its last turn.
        self._turns: dict[str, int] = {}
        self._turn = 0
        self._most_making = MAKING_PER_PROCESSOR * len(os.sched_getaffinity(0))
        self._stopping = False

    def stop(self) -> None:
        """Refuse creates from now on."""
        self._stopping = True
        while self.serve():
            pass

    def add(self, connection: RequestSocket, frame: Frame) -> None:
        """Queue a request, unless it repeats an earlier one; `serve` starts its host.

        If its head names an instance, that one ends, and the request gets its slot.

        Raises:
            UnknownInstance: There is no such instance, or it is about to end.
            Problem: The request is malformed, or not permitted.
        """
        head = request_head(frame)
        # Keys of different tokens are different: no name contains a blank.
        key = f"{head.creator} {head.key}" if head.key else ""
        # Also while the server is stopping, since it is the only way to the instance.
        if key and self._join(key, frame, connection):
            return
        self._check_open()
        arguments = _arguments_of(connection, frame, head)
        request = read_request(
            frame.body,
            self._settings,
            form=frame.form >> 4,
            typed=frame.form & 0xF in (Form.TYPED, Form.BINARY),
            arguments=arguments,
            resumed=head.resumed,
        )
        owner = self._owners.choose(request.for_, head)
        if arguments is not None:
            self._check_memory(owner, arguments.size)
        commands = self._settings.env_commands
        if request.external and command_of(commands, request.env_id) is None:
            self._start_broker()
        create = Create(connection, frame, head, key, request, owner)
        if not head.instance_id:
            self._queue.append(create)
            return
        replaced = self._hosts.get(head.instance_id)
        if replaced is None or replaced.reason:
            raise UnknownInstance(head.instance_id)
        self._replace(replaced, "closed", create)

    def _join(self, key: str, frame: Frame, connection: RequestSocket) -> bool:
        """Answer a request, now or later, if an earlier one had its key.

        Returns:
            Whether one had it.

        Raises:
            KeyReused: It was a different request.
        """
        if not self._keys.join(key, frame, connection):
            return False
        for instance in self._hosts:
            if instance.create_key == key and not instance.reason:
                instance.claims += 1
                connection.instance = instance
        return True

    def _check_memory(self, owner: str, size: int) -> None:
        """Check that there is memory for arguments, until a host has read them.

        Raises:
            ShareUsedUp: The token, or all of them together, have too many that wait.
        """
        waiting = [(each.owner, each.request.arguments) for each in self._queue]
        for each in self._hosts:
            waiting += [(one.owner, one.request.arguments) for one in each.successors]
            if not each.reported:
                waiting.append((each.owner, each.arguments))
        taken = sum(one.size for _, one in waiting if one)
        held = sum(one.size for name, one in waiting if one and name == owner)
        most = WAITING_BODIES * self._settings.max_body
        why = share_used_up(
            owner,
            "bytes of waiting create requests",
            held=held,
            taken=taken,
            most=most,
        )
        if taken + size > most:
            why = why or (
                f"create requests that wait have {taken} bytes, and this one {size}: "
                f"expected {most} at most, {WAITING_BODIES} times --max-body"
            )
        if why:
            raise ShareUsedUp(why, headers={"Retry-After": "1"})

    def _check_open(self) -> None:
        if self._stopping or os.path.exists(self._run.draining):
            raise Draining("the server is stopping and makes no new instances")

    def serve(self) -> bool:
        """Start a host for the next request that waits; return whether it had a turn.

        Tokens take turns. Without a spare host, order one, and return False.
        """
        begun = bool(self._queue) and self._begin_next()
        self._fork_server.keep(min(len(self._queue), self._free_places()))
        return begun

    def _begin_next(self) -> bool:
        create = min(self._queue, key=self._turn_of)
        try:
            if not self._begin(create):
                return False
        except Problem as problem:
            self._refuse(create, problem)
        except Exception as error:
            create.connection.fail(error)
        self._queue.remove(create)
        self._turn += 1
        self._turns[create.head.creator] = self._turn
        return True

    def _turn_of(self, create: Create) -> int:
        """Return a number by which requests have their turns, the lowest first."""
        return -1 if create.succeeds else self._turns.get(create.head.creator, 0)

    def _free_places(self) -> int:
        young = self._hosts.making(time.monotonic() - YOUNG_SECONDS)
        return max(0, self._most_making - young)

    def tick(self) -> None:
        """Refuse what has waited too long, and end what no node has asked for again."""
        limit = self._settings.create_deadline
        now = time.monotonic()
        for instance_id in [each for each, end in self._left.items() if now > end]:
            del self._left[instance_id]
            instance = self._hosts.find(instance_id)
            if instance and not instance.claims and not instance.reason:
                self._abandon(instance)
        for create in [each for each in self._queue if now - each.since > limit]:
            self._queue.remove(create)
            self._refuse(
                create,
                CreateDeadline(
                    f"no process for {create.request.env_id} was free within the "
                    f"{limit:g} s allowed; raise --create-deadline, or create fewer "
                    "instances at a time"
                ),
            )

    def _refuse(self, create: Create, problem: Problem) -> None:
        request = create.request
        self._hosts.events.add(
            "refused",
            request.env_id,
            create.owner,
            label=request.label,
            reason=problem.message,
        )
        create.connection.refuse(problem)

    def _begin(self, create: Create) -> bool:
        """Start a host for a request; return False if no spare host is ready.

        Raises:
            Problem: There is no slot for it.
        """
        if create.key and self._join(create.key, create.frame, create.connection):
            return True
        self._check_open()
        quota_reached = self._owners.quota_reached(create.owner)
        full = quota_reached or self._hosts.full()
        if full is not None:
            orphan = self._hosts.oldest_orphan(create.owner if quota_reached else None)
            if orphan is None:
                raise self._explained(full, create.head)
            self._replace(orphan, "orphaned", create)
            return True
        if not self._free_places():
            return False
        memory = None if create.request.arguments is None else create.connection.memory
        instance = self._hosts.start(create.request, memory)
        if instance is None:
            self._check_fork_server(create.since)
            return False
        if create.key:
            self._keys.begin(create.key, create.frame, instance)
        if memory is not None:
            # The host has it now.
            create.connection.close_descriptors()
        instance.owner = create.owner
        instance.request_id = create.head.request_id
        instance.creators.append(create.connection)
        instance.claims = 1
        create.connection.instance = instance
        create.connection.held = create.head.held
        self._watch(instance)
        return True

    def _replace(self, instance: Instance, reason: str, create: Create) -> None:
        """End an instance whose slot a request is to have, before any other one."""
        instance.successors.append(create)
        instance.end_request_id = instance.end_request_id or create.head.request_id
        self._hosts.close(instance, reason)

    def _check_fork_server(self, since: float) -> None:
        """Check that the fork server has worked since a create request arrived.

        Raises:
            ForkFailed: It cannot be started, or cannot fork.
        """
        self._start_fork_server()
        if failed := self._fork_server.failure(since):
            raise failed

    def _explained(self, full: TooManyInstances, head: RequestHead) -> TooManyInstances:
        """Add the instance to close or wait for, of those that the caller may see."""
        idle = self._hosts.longest_idle(self._owners.owned(self._hosts.serving(), head))
        return full if idle is None else idle.added_to(full)

    def on_made(self, instance: Instance, frame: Frame) -> None:
        """Answer the creators of an instance that was made, or could not be."""
        if instance.live:
            # Before any client has it.
            self._issued_ids.add(instance.instance_id)
        else:
            self._note_refused(instance, _message_of(frame))
        self._keys.keep(instance, frame)
        self._answer_creators(instance, frame)

    def _note_refused(self, instance: Instance, reason: str) -> None:
        self._hosts.events.add(
            "refused",
            instance.env_id,
            instance.owner,
            label=instance.label,
            reason=reason,
        )

    def _answer_creators(self, instance: Instance, frame: Frame) -> None:
        creators, instance.creators = instance.creators, []
        for creator in creators:
            if not instance.live:
                creator.instance = None
            creator.answer(frame)

    def on_end(self, instance: Instance, ended: Tombstone) -> None:
        """Give the slot of an ended instance to the requests that wait for it."""
        for create in reversed(instance.successors):
            # Its client may have left while the instance ended.
            if not create.connection.closed:
                create.succeeds = True
                self._queue.appendleft(create)
        if not instance.live:
            problem = ended.why_not_made(self._settings)
            if not instance.reported:
                self._note_refused(instance, problem.message)
            failure = problem_answer(problem)
            self._keys.keep(instance, failure)
            self._answer_creators(instance, failure)

    def on_left(self, connection: RequestSocket) -> None:
        """Drop the request of a closed connection, or end the instance it has made.

        It ends if the connection holds it, or if no client could know its ID: the
        create was not answered, and has no key with which the client would repeat it. A
        node repeats a create that it has forwarded, but only at once.
        """
        instance = connection.instance
        if instance is None:
            waiting = [e for e in self._queue if e.connection is not connection]
            self._queue = deque(waiting)
            return
        if instance.live and not connection.left_unread:
            if connection.held:
                self._hosts.close(instance, "closed")
            return
        instance.claims -= 1
        if not instance.create_key:
            self._abandon(instance)
        elif not instance.claims and _is_of_node(instance.create_key):
            self._left[instance.instance_id] = time.monotonic() + REPEAT_SECONDS

    def _abandon(self, instance: Instance) -> None:
        """End an instance whose ID no client has; a repeated create makes another."""
        self._keys.forget(instance)
        if instance.live:
            self._hosts.close(instance, "abandoned")
        else:
            self._hosts.kill(instance, "abandoned")


_NOT_BEGUN = (ExternalAway.default_status, DiskFull.default_status)


class CreateKeys:
    """The idempotency keys of create requests, and their answers.

    Requests with one key make one instance, however often they are sent. A key begins
    with the name of its token and a blank. Each token has as many answers kept.
    """

    def __init__(self) -> None:
        self._done: dict[str, IdempotencyStore] = {}
        self._making: dict[str, tuple[bytes, Instance]] = {}

    def join(self, key: str, frame: Frame, connection: RequestSocket) -> bool:
        """Answer a repeated request, at once or when its instance is made.

        Returns:
            Whether the request is repeated.

        Raises:
            KeyReused: A different request had this key.
        """
        fingerprint = _fingerprint(frame)
        done = self._done_of(key)
        if key in self._making:
            first, instance = self._making[key]
            done.compare(key, first, fingerprint)
            instance.creators.append(connection)
            # The host has the arguments of the first request.
            connection.close_descriptors()
            return True
        if key in done:
            connection.answer(as_replay(done.recall(key, fingerprint)))
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
        key = instance.create_key
        self._done_of(key).keep(key, fingerprint, frame)

    def forget(self, instance: Instance) -> None:
        """Forget the key of an instance, and the answer to its create."""
        key, instance.create_key = instance.create_key, ""
        if key:
            self._making.pop(key, None)
            self._done_of(key).forget(key)

    def _done_of(self, key: str) -> IdempotencyStore:
        """Return the keys and answers of the token of a key."""
        token = key.partition(" ")[0]
        if token not in self._done:
            self._done[token] = IdempotencyStore(max_answers=1024)
        return self._done[token]


def _is_of_node(key: str) -> bool:
    """Whether a node of a fleet has made a key, which follows a token's name."""
    return key.partition(" ")[2].startswith(NODE_KEY)


def _message_of(frame: Frame) -> str:
    # An environment can write anything to its host's connection.
    with contextlib.suppress(msgspec.MsgspecError, ValueError):
        return problem_of(frame).message
    return ""


def _fingerprint(frame: Frame) -> bytes:
    digest = request_head(frame).digest
    return request_fingerprint(
        frame._replace(kind=Op.CREATE), RequestHead(value=digest or None)
    )


def _arguments_of(
    connection: RequestSocket, frame: Frame, head: RequestHead
) -> Arguments | None:
    """Return what is known of the arguments that came by descriptor, if they did.

    Raises:
        ForkFailed: This process could not open another descriptor.
    """
    if not head.digest:
        return None
    if connection.memory is None:
        raise ForkFailed(
            "the server has no descriptor left for the arguments: close instances, or "
            "raise the limit of files of the server"
        )
    size = os.fstat(connection.memory).st_size
    return Arguments(frame.form & 0xF, size, head.digest)
