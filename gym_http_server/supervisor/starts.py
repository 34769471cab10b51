"""Starting a host: its files and sockets, and a process for it."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time

from gym_http_server.config.env_commands import command_of
from gym_http_server.config.settings import Settings
from gym_http_server.host import process
from gym_http_server.host.branch_limits import BranchLimits
from gym_http_server.host.create_request import CreateRequest
from gym_http_server.host.external.leased_connection import ExternalSettings
from gym_http_server.linux.sandbox import Sandbox
from gym_http_server.processes.frame_socket import MOST_DESCRIPTORS, FrameSocket
from gym_http_server.rundir.directory import RunDir
from gym_http_server.rundir.sockets import listen
from gym_http_server.rundir.status import StatusReader
from gym_http_server.supervisor.fork_server import ForkServer
from gym_http_server.supervisor.heartbeats import Heartbeat
from gym_http_server.supervisor.instance import Instance
from gym_http_server.supervisor.output import Output
from gym_http_server.supervisor.prefork import Modules

__all__ = ["start_host"]

BACKLOG = 512
#: Bytes that the body of a message of a host may have.
MAX_MESSAGE_BYTES = 1024 * 1024


def start_host(
    instance_id: str,
    request: CreateRequest,
    *,
    run: RunDir,
    settings: Settings,
    modules: Modules,
    sandbox: Sandbox,
    fork_server: ForkServer,
    memory: int | None = None,
) -> Instance | None:
    """Make a spare host the host of an instance, which makes the environment.

    Args:
        instance_id: An ID that is not in use.
        request: The create request.
        run: The run directory.
        settings: Limits and directories.
        modules: The modules that this process has imported.
        sandbox: The sandbox that the host enters.
        fork_server: Has the spare hosts.
        memory: Descriptor of the memory with the arguments of the request; ``None`` if
            they are in it.

    Returns:
        The instance, whose host reports over the channel how the making went; ``None``
        if there is no spare host.

    Raises:
        OSError: The system has no room for another file or folder.
    """
    start = _start_of(instance_id, request, run, settings, modules, sandbox)
    os.mkdir(run.instance(instance_id), 0o700)
    sandbox.open(run.instance(instance_id))
    for folder in run.own(instance_id):
        os.mkdir(folder, 0o700)
        sandbox.own(folder)
    if request.clocked:
        # For web workers, which do not read status pages.
        os.close(os.open(run.clock(instance_id), os.O_CREAT | os.O_CLOEXEC, 0o600))
    with contextlib.ExitStack() as stack:
        page = StatusReader()
        stack.callback(page.close)
        output = Output(run.log(instance_id))
        stack.callback(output.close)
        with listen(run.host_socket(instance_id), BACKLOG) as listener:
            host = fork_server.start_host(start, listener, output.writer, memory)
        if host is None:
            return None
        pid, channel = host
        with contextlib.suppress(BrokenPipeError):
            # A host that has ended already is found by its exit status.
            socket.send_fds(channel, [process.PAGE], [page.file])
        output.started()
        stack.pop_all()
    channel.setblocking(False)
    return Instance(
        instance_id,
        request.env_id,
        pid,
        FrameSocket(channel, MAX_MESSAGE_BYTES, max_descriptors=MOST_DESCRIPTORS),
        page,
        output,
        started=time.monotonic(),
        heartbeat=Heartbeat(settings.step_deadline),
        label=request.label,
        render_mode=request.render_mode,
        arguments=request.arguments,
    )


def _start_of(
    instance_id: str,
    request: CreateRequest,
    run: RunDir,
    settings: Settings,
    modules: Modules,
    sandbox: Sandbox,
) -> process.HostStart:
    """Return the parameters of a host."""
    apart = request.env_id in modules.apart_ids
    return process.HostStart(
        instance_id=instance_id,
        run_path=run.path,
        parent_pid=os.getpid(),
        request=request,
        terms=ExternalSettings(
            # The supervisor would end the host during a longer call.
            min(settings.external_deadline, 0.8 * settings.step_deadline),
            settings.external_grace,
            settings.external_heartbeat,
            settings.max_answer,
            settings.max_observation,
        ),
        max_body=settings.max_body,
        max_answer=settings.max_answer,
        strict_actions=settings.strict_actions,
        spin_us=settings.spin_us,
        tracebacks=not settings.no_tracebacks,
        file_bytes=settings.host_file_size,
        modules=modules.imported + modules.apart if apart else (),
        path=tuple(sys.path) if apart else (),
        sandbox=sandbox,
        max_hz=settings.max_hz,
        priority=settings.realtime_priority,
        watch_share=settings.watch_share,
        command=command_of(settings.env_commands, request.env_id),
        folder=os.getcwd(),
        branches=BranchLimits(
            # As for external environments.
            min(BranchLimits().seconds, 0.8 * settings.step_deadline),
            settings.host_memory,
        ),
    )
