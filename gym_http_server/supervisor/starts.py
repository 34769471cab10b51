"""Starting a host: a fork of the supervisor, or a fresh interpreter."""

from __future__ import annotations

import os
import socket
import sys
import time
import traceback

import msgspec

from gym_http_server.envhost import process
from gym_http_server.envhost.create_request import CreateRequest
from gym_http_server.envhost.external.outside import Terms
from gym_http_server.rundir import RunDir, StatusReader
from gym_http_server.sandbox import Sandbox
from gym_http_server.settings import Settings
from gym_http_server.supervisor.instance import Instance
from gym_http_server.supervisor.modules import Modules, threads

__all__ = ["start_host"]

BACKLOG = 512


def start_host(
    instance_id: str,
    request: CreateRequest,
    *,
    run: RunDir,
    settings: Settings,
    modules: Modules,
    importable: tuple[str, ...],
    sandbox: Sandbox,
) -> Instance:
    """Start a host that will make the environment.

    Args:
        instance_id: Its ID, not in use.
        request: What to make.
        run: The run directory.
        settings: Limits and places.
        modules: What has been imported here.
        importable: Directories to look for modules in.
        sandbox: What it confines itself to.

    Returns:
        The instance; its host will say over the channel how the making went.

    Raises:
        OSError: The system has no room for another process, file or folder.
    """
    apart = request.env_id in modules.apart_ids
    start = process.HostStart(
        instance_id=instance_id,
        run_path=run.path,
        parent_pid=os.getpid(),
        request=request,
        terms=Terms(
            # A call that takes longer would cost the host its life.
            min(settings.external_deadline, 0.8 * settings.step_deadline),
            settings.external_grace,
            settings.external_heartbeat,
            settings.max_answer,
        ),
        max_body=settings.max_body,
        max_answer=settings.max_answer,
        strict_actions=settings.strict_actions,
        spin_us=settings.spin_us,
        modules=modules.imported + modules.apart if apart else (),
        importable=importable,
        sandbox=sandbox,
    )
    os.mkdir(run.instance(instance_id), 0o700)
    sandbox.open(run.instance(instance_id))
    for folder in run.own(instance_id):
        os.mkdir(folder, 0o700)
        sandbox.own(folder)
    page = StatusReader(run.status(instance_id))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(run.host_socket(instance_id))
    listener.listen(BACKLOG)
    ours, theirs = socket.socketpair()
    try:
        pid = _fork(start, theirs, listener, fresh=apart)
    except OSError:
        ours.close()
        page.close()
        raise
    finally:
        listener.close()
        theirs.close()
    ours.setblocking(False)
    return Instance(
        instance_id, request.env_id, pid, ours, page, started=time.monotonic()
    )


def _fork(
    start: process.HostStart,
    channel: socket.socket,
    listener: socket.socket,
    *,
    fresh: bool,
) -> int:
    if not fresh and threads() != 1:
        # A fork would copy the locks that other threads hold.
        raise RuntimeError("the supervisor has started threads and must not fork")
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        if fresh:
            _execute(start, channel, listener)
        status = process.run(start, channel, listener)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _execute(
    start: process.HostStart, channel: socket.socket, listener: socket.socket
) -> None:
    for end in (channel.fileno(), listener.fileno(), *start.sandbox.descriptors):
        os.set_inheritable(end, True)
    arguments = [str(channel.fileno()), str(listener.fileno())]
    arguments.append(msgspec.json.encode(start).decode())
    command = [sys.executable, "-m", "gym_http_server.envhost", *arguments]
    os.execv(sys.executable, command)
