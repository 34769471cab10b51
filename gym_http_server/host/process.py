"""The main function of a host: makes the environment, and serves it.

It runs in a process that the supervisor forked, and never returns there. Over a channel
to the supervisor, the host answers the create request, and receives the order to close.
If the channel ends, the supervisor has ended, and the host ends, too.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

import msgspec
from gymnasium.envs.registration import registry

from gym_http_core.env_errors import env_exceptions, expect_interrupts
from gym_http_core.lossless_calls import LosslessCalls
from gym_http_core.operations import Operations
from gym_http_core.vectors import operations_of
from gym_http_server.config.env_commands import EnvCommand
from gym_http_server.host import env_warnings, fork_guard, server_log
from gym_http_server.host.activity import Activity
from gym_http_server.host.branch_limits import BranchLimits
from gym_http_server.host.create_request import CreateRequest, decoded, with_arguments
from gym_http_server.host.dispatch import Dispatch
from gym_http_server.host.external.connections import (
    ExternalConnections,
    connect_broker,
)
from gym_http_server.host.external.leased_connection import ExternalSettings
from gym_http_server.host.failures import problem_frame, refusal_of
from gym_http_server.host.host import Host, WorkerConnection
from gym_http_server.host.inspection import Inspection
from gym_http_server.host.isolation import isolate, reseed_unused
from gym_http_server.host.making import describe_vector, make
from gym_http_server.host.monitor_files import request_file
from gym_http_server.linux.sandbox import Sandbox
from gym_http_server.processes.frame_socket import receive_with_descriptors
from gym_http_server.processes.peer_credentials import PeerCredentials
from gym_http_server.rundir.directory import RunDir, is_full
from gym_http_server.rundir.status import StatusPage, StatusReader
from gym_http_wire.external.steps import PackedStep
from gym_http_wire.frames import Frame, encode
from gym_http_wire.messages import AnswerHead, Form, Op, answer
from gym_http_wire.problems import DiskFull
from gym_http_wire.values import binary, typed

if TYPE_CHECKING:
    from gym_http_server.host.external.fast_step import FastStep

__all__ = ["PAGE", "HostStart", "run", "warm_up"]

_PLAIN = Form.PLAIN | Form.PLAIN << 4
#: The supervisor sends this over the channel, with the descriptor of the status page.
PAGE = b"\n"
# The environment and the requests of a trial.
_TRIED = "CartPole-v1"
_ENTRY_POINT = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
_LARGEST = 1 << 20
_TRIAL = (
    Frame(Op.RESET, form=_PLAIN, body=b"{}"),
    *[Frame(Op.STEP, form=_PLAIN, body=b'{"action": 1}')] * 6,
)


class HostStart(msgspec.Struct, frozen=True):
    """The parameters of a host.

    Attributes:
        modules: Modules to import before the environment is made.
        path: ``sys.path`` of the supervisor, for a fresh interpreter; else empty.
        file_bytes: Bytes that a file may have; 0: any number.
        spin_us: Microseconds to look for a stream's next request before sleeping.
        sandbox: The sandbox to enter.
        tracebacks: Whether clients may see tracebacks of the environment.
        max_hz: The highest rate of a clock.
        priority: The real-time priority of a host with a clock; 0: none.
        watch_share: Part of the host's time that drawing for watchers may take.
        memory: Descriptor of the memory with the arguments of the request; -1 if they
            are in the request.
        terms: Limits of external environments.
        command: The command to start; ``None`` if the environment is none.
        folder: The working directory of the command.
        branches: What the branches of one request may take.
    """

    instance_id: str
    run_path: str
    parent_pid: int
    request: CreateRequest
    terms: ExternalSettings
    max_body: int
    max_answer: int
    strict_actions: bool
    spin_us: int = 0
    tracebacks: bool = True
    file_bytes: int = 0
    modules: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    sandbox: Sandbox = Sandbox()
    max_hz: float = 1000.0
    priority: int = 0
    watch_share: float = 0.1
    memory: int = -1
    command: EnvCommand | None = None
    folder: str = "/"
    branches: BranchLimits = BranchLimits()


def run(start: HostStart, channel: socket.socket, listener: socket.socket) -> int:
    """Isolate this process, make the environment, and serve it until it is closed.

    Returns:
        The exit status for this process.
    """
    run_dir = RunDir(start.run_path)
    _, descriptors = receive_with_descriptors(channel, len(PAGE))
    if not descriptors:
        # The supervisor has ended.
        return 0
    page = StatusPage(descriptors[0])
    # Tools read the page by its descriptor.
    keep = [channel.fileno(), listener.fileno(), descriptors[0]]
    if start.memory >= 0:
        keep.append(start.memory)
    clocked = start.request.clocked
    if clocked and start.priority:
        # After isolation, this may not be permitted.
        from gym_http_server.host.realtime.timer import allow_priority

        allow_priority(start.priority)
    try:
        isolate(
            run_dir,
            start.instance_id,
            start.parent_pid,
            keep,
            file_bytes=start.file_bytes,
            sandbox=start.sandbox,
        )
    except OSError as error:
        if not is_full(error):
            raise
        full = DiskFull(f"the disk of the run directory is full: {error.strerror}")
        channel.sendall(encode(problem_frame(full)))
        return 0
    channel.setblocking(True)
    fork_guard.claim(channel)
    server_log.connect(channel)
    env_warnings.capture()
    expect_interrupts()
    try:
        dispatch, activity = _make(start, channel, page)
        fork_guard.check()
    except env_exceptions() as error:
        fork_guard.check()
        refusal = refusal_of(error, tracebacks=start.tracebacks)
        channel.sendall(encode(env_warnings.with_header(refusal)))
        return 0
    activity.finish()
    if dispatch.external is not None:
        program = dispatch.external.program.encode()
        channel.sendall(encode(Frame(Op.PROGRAM, body=program)))
    channel.sendall(encode(_made(start)))
    host = _host_class(start)(
        dispatch,
        activity,
        channel,
        listener,
        max_body=start.max_body,
        spin_us=start.spin_us,
        peers=None if start.sandbox.user else PeerCredentials(start.parent_pid),
    )
    host.serve()
    return 0


def _host_class(start: HostStart) -> type[Host]:
    """Return the class of this host; modules of clocks are loaded for them only."""
    if not start.request.clocked:
        return Host
    from gym_http_server.host.realtime.host import ClockedHost

    return ClockedHost


class _Trial(Host):
    """A host that ends after the requests of a trial."""

    _left = len(_TRIAL)

    def _take(self, connection: WorkerConnection, frame: Frame) -> None:
        super()._take(connection, frame)
        self._left -= 1
        if not self._left:
            self._server.disconnect(connection)
            self._open = False


def warm_up() -> None:
    """Serve an environment and drop it, in a process that has no instance.

    Python writes to its code while it learns how to execute it, and a host copies each
    page of shared memory that it writes to: this takes as long as the rest of its
    start. Most of these pages are the same for all environments. So the process that
    forks hosts does this several times, for them to share what was learnt; and a host
    that waits for its instance does it once, to copy the rest in advance.
    """
    spec = registry.get(_TRIED)
    if spec is None or spec.entry_point != _ENTRY_POINT:
        # A module replaces it by code that we do not know.
        return
    # Only time is lost if it fails.
    with contextlib.suppress(Exception):
        reseed_unused()
        fork_guard.claim()
        _serve_trial()


def _serve_trial() -> None:
    start = HostStart(
        instance_id="",
        run_path="",
        parent_pid=0,
        request=CreateRequest(_TRIED),
        terms=ExternalSettings(1.0, 1.0, 1.0, 0, 0),
        max_body=_LARGEST,
        max_answer=_LARGEST,
        strict_actions=False,
    )
    with contextlib.ExitStack() as ends:
        _supervisor, channel = map(ends.enter_context, socket.socketpair())
        listener, worker = (
            ends.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)
        )
        # The kernel chooses a name that is no file.
        listener.bind("")
        listener.listen()
        worker.connect(listener.getsockname())
        worker.sendall(b"".join(map(encode, _TRIAL)))
        reader = ends.enter_context(contextlib.closing(StatusReader()))
        page = ends.enter_context(contextlib.closing(StatusPage(reader.file)))
        dispatch, activity = _make(start, channel, page)
        activity.finish()
        _made(start)
        _Trial(
            dispatch,
            activity,
            channel,
            listener,
            max_body=start.max_body,
            spin_us=0,
            peers=None,
        ).serve()
        dispatch.handlers.close()


def _made(start: HostStart) -> Frame:
    """Return the answer to the create request."""
    fields = {"instance_id": start.instance_id}
    if start.request.form == Form.PLAIN:
        # Old clients accept no further member.
        reply = answer(200, msgspec.json.encode(fields) + b"\n")
    else:
        codec = typed if start.request.form == Form.TYPED else binary
        head = AnswerHead(instance_id=start.instance_id)
        reply = answer(200, codec.encode(fields), head, form=Form(start.request.form))
    if env_warnings.pending:
        return env_warnings.attach(reply, Op.CREATE, streamed=False)
    return reply


def _make(
    start: HostStart, channel: socket.socket, page: StatusPage
) -> tuple[Dispatch, Activity]:
    """Make the environment, and the parts that answer its requests."""
    if start.path:
        sys.path[:] = start.path
    for module in start.modules:
        __import__(module)
    for message in start.request.warnings:
        env_warnings.add("UserWarning", message)
    external: ExternalConnections | None = None
    external_step: FastStep[PackedStep] | None = None
    wanted = _wanted(start)
    if wanted.external:
        external = _external_connections(start, channel, blocks=not wanted.clocked)
    if wanted.clocked:
        dispatch, activity = _make_clocked(start, wanted, channel, page, external)
        _begin_recording(wanted, dispatch, activity)
        return dispatch, activity
    if external is not None:
        # Imported late, since other hosts do not need it.
        from gym_http_server.host.external.making import make_external

        env: Any
        env, external_step = make_external(wanted, external)
    else:
        env = make(wanted)
    operations = operations_of(
        env, first_seed=start.request.seed, strict_actions=start.strict_actions
    )
    exact = LosslessCalls(operations)
    activity = Activity(page, operations)
    dispatch = Dispatch(
        operations,
        exact,
        _inspection(
            start,
            operations,
            exact,
            activity,
            external,
            describe_vector(wanted, env),
        ),
        activity,
        open_file=functools.partial(request_file, channel),
        max_answer=start.max_answer,
        tracebacks=start.tracebacks,
        watch_share=start.watch_share,
        external=external,
        external_step=external_step,
        branches=start.branches if external is None else None,
    )
    _begin_recording(wanted, dispatch, activity)
    return dispatch, activity


def _begin_recording(
    wanted: CreateRequest, dispatch: Dispatch, activity: Activity
) -> None:
    """Record an instance from its beginning, or resume a recording, if requested."""
    record, resumed = wanted.record, wanted.resume
    if record is None and resumed is None:
        return
    # Imported late, since few hosts need it.
    from gym_http_server.host.recorded_instance import begin, resume

    try:
        if resumed is not None:
            resume(resumed, wanted, dispatch, activity)
        elif record is not None:
            begin(record, wanted, dispatch)
    except BaseException:
        # It may have leased connections, or processes.
        with contextlib.suppress(*env_exceptions()):
            dispatch.handlers.close()
        raise


def _external_connections(
    start: HostStart, channel: socket.socket, *, blocks: bool
) -> ExternalConnections:
    if start.command is None:
        connect = functools.partial(connect_broker, channel)
        return ExternalConnections(start.terms, connect, blocks=blocks)
    # Imported late, since other hosts do not need it.
    from gym_http_server.host.external.commands import CommandConnections

    return CommandConnections(start.terms, start.command, start.folder, blocks=blocks)


def _wanted(start: HostStart) -> CreateRequest:
    """Return the request with all of its arguments."""
    wanted = decoded(start.request)
    if wanted.arguments is None:
        return wanted
    body = bytearray(wanted.arguments.size)
    # Its position is the writer's.
    os.preadv(start.memory, [body], 0)
    os.close(start.memory)
    return with_arguments(wanted, body)


def _make_clocked(
    start: HostStart,
    wanted: CreateRequest,
    channel: socket.socket,
    page: StatusPage,
    external: ExternalConnections | None,
) -> tuple[Dispatch, Activity]:
    """Make an environment or a world with a clock."""
    # Imported late, since other hosts do not need it.
    from gym_http_server.host.realtime.handlers import (
        ClockedBroadcast,
        ClockedHandlers,
    )
    from gym_http_server.host.realtime.making import make_clocked
    from gym_http_server.host.realtime.operations import ClockedCalls
    from gym_http_server.host.realtime.timer import raise_priority

    def make_env() -> Any:
        if external is None:
            return make(wanted)
        from gym_http_server.host.external.making import make_external

        return make_external(wanted, external).env

    operations = make_clocked(
        wanted,
        make_env,
        page,
        max_hz=start.max_hz,
        max_spin_us=start.spin_us,
        strict_actions=start.strict_actions,
    )
    exact = ClockedCalls(operations)
    activity = Activity(page, operations)
    dispatch = Dispatch(
        operations,
        exact,
        _inspection(start, operations, exact, activity, external),
        activity,
        open_file=functools.partial(request_file, channel),
        max_answer=start.max_answer,
        tracebacks=start.tracebacks,
        watch_share=start.watch_share,
        external=external,
        broadcast=ClockedBroadcast,
        handlers=ClockedHandlers,
    )
    operations.max_hz = start.max_hz
    operations.scheduler = raise_priority(start.priority)
    return dispatch, activity


def _inspection(
    start: HostStart,
    operations: Operations,
    exact: LosslessCalls,
    activity: Activity,
    external: ExternalConnections | None,
    stepped: dict[str, Any] | None = None,
) -> Inspection:
    return Inspection(
        operations,
        exact,
        activity,
        start.instance_id,
        start.request.env_id,
        start.request.label,
        external.program if external is not None else "",
        stepped,
    )
