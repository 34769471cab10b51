"""Reload: tokens, certificate and log level are read anew while the server runs.

`gym-http-server reload` connects to the launcher's socket in the run directory. The
launcher reads and checks everything before it changes anything.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import socket
import struct
import tempfile

import msgspec

from gym_http_server.access import tokens
from gym_http_server.access.identities import by_name
from gym_http_server.config.certificates import read_certificate
from gym_http_server.config.inherited_settings import Inherited
from gym_http_server.config.settings import Settings, from_mapping
from gym_http_server.errors import StartError
from gym_http_server.processes.acceptor import Acceptor
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.processes.peer_credentials import PeerCredentials
from gym_http_server.processes.poller import Poller
from gym_http_server.rundir.directory import RunDir
from gym_http_server.rundir.sockets import listen, refuse_descriptors
from gym_http_wire.frames import Frame, FrameError
from gym_http_wire.messages import (
    Op,
    RequestHead,
    answer,
    problem_answer,
    problem_of,
    request,
    request_head,
)
from gym_http_wire.problems import Problem

__all__ = ["ControlSocket", "ReloadRequest", "describe", "read_anew", "request_reload"]

BACKLOG = 512
#: Seconds that a command may take to send its request.
RECEIVE_SECONDS = 1.0
#: Seconds that the launcher may take to answer; while it starts, it does not.
ANSWER_SECONDS = 30.0
MAX_BODY = 1024 * 1024
#: Names of tokens that one message lists.
MAX_NAMES = 20
_CREDENTIALS = struct.Struct("=iII")

log = logging.getLogger("gym_http_server.launcher")


def read_anew(given: Settings, current: Inherited, log_level: str = "") -> Inherited:
    """Read the files anew that settings name, and check them as at the start.

    Args:
        given: The settings as they were given, with the paths of files of tokens.
        current: The present ones, with the content of these files.
        log_level: The level to log from now on; "" is that of the start.

    Returns:
        The present ones with the new content, certificate and level.

    Raises:
        SettingError: A file cannot be read, or has a mistake; the level is unknown.
    """
    level = log_level or given.log_level
    level = from_mapping({}, {"log_level": level}).log_level
    if given.token == tokens.AUTO:
        given = dataclasses.replace(given, token=current.settings.token)
    new = tokens.resolve_tokens(given)
    settings = dataclasses.replace(
        current.settings, token=new.token, tokens=new.tokens, log_level=level
    )
    certificate = read_certificate(settings)
    return msgspec.structs.replace(current, settings=settings, certificate=certificate)


def describe(old: Inherited, new: Inherited) -> str:
    """Return what a reload has changed, in words for the log."""
    was, now = old.settings, new.settings
    before, after = by_name(was), by_name(now)
    both = before.keys() & after.keys()
    parts = [
        _listed("new tokens", after.keys() - before.keys()),
        _listed("removed tokens", before.keys() - after.keys()),
        _listed("changed tokens", {n for n in both if before[n] != after[n]}),
        "a new token" if was.token != now.token else "",
        f"log level {now.log_level}" if was.log_level != now.log_level else "",
    ]
    if new.certificate is not None and new.certificate != old.certificate:
        parts.append(f"a certificate that ends at {new.certificate.ends.isoformat()}")
    return "; ".join(filter(None, parts)) or "nothing has changed"


def _listed(what: str, names: set[str]) -> str:
    if not names:
        return ""
    shown = ", ".join(sorted(names)[:MAX_NAMES])
    more = len(names) - MAX_NAMES
    return f"{what}: {shown}" + (f" and {more} more" if more > 0 else "")


class ReloadRequest:
    """A command that waits for a reload.

    Args:
        connection: The connection to it.
        number: Number of its request.

    Attributes:
        log_level: The level that it requests, or "".
    """

    def __init__(self, connection: FrameSocket, frame: Frame) -> None:
        self.log_level = request_head(frame).value or ""
        self._connection = connection
        self._number = frame.number

    def answer(self, result: str | Problem) -> None:
        """Answer it, and close the connection."""
        if isinstance(result, Problem):
            frame = problem_answer(result, self._number)
        else:
            frame = answer(200, msgspec.json.encode(result), number=self._number)
        with contextlib.suppress(OSError):
            self._connection.send(frame)
        self._connection.close()


class ControlSocket:
    """The launcher's end of the socket to which the command connects.

    Processes of environments and other users are refused: the command is for the user
    of the server, and for root.

    Args:
        run: The run directory.
        peers: Distinguishes processes of environments from others.
    """

    def __init__(self, run: RunDir, peers: PeerCredentials) -> None:
        self._listener = listen(run.control_socket, BACKLOG)
        refuse_descriptors(self._listener)
        self._poller = Poller()
        self._acceptor = Acceptor(
            self._listener, self._poller, self._take, "launcher", peers
        )
        self._poller.add(self._listener, self._acceptor.accept)
        self._requests: list[ReloadRequest] = []

    def fileno(self) -> int:
        """Return the descriptor, which is readable when a command has connected."""
        return self._listener.fileno()

    def receive(self) -> list[ReloadRequest]:
        """Return the requests of the commands that have connected."""
        self._acceptor.resume()
        self._poller.serve(0.0)
        requests, self._requests = self._requests, []
        return requests

    def _take(self, sock: socket.socket) -> None:
        connection = FrameSocket(sock, MAX_BODY)
        sock.settimeout(RECEIVE_SECONDS)
        with contextlib.suppress(FrameError, msgspec.MsgspecError):
            permitted = _peer(sock)[1] in (0, os.geteuid())
            frame = connection.receive_one() if permitted else None
            if frame is not None and frame.kind == Op.RELOAD:
                self._requests.append(ReloadRequest(connection, frame))
                return
        connection.close()


def request_reload(place: str, log_level: str) -> str:
    """Have a server of this machine reload; return what has changed.

    Args:
        place: Directory in which its run directory is, or the run directory; "" is the
            temporary directory.
        log_level: The level from which it logs from now on; "" is that of its start.

    Raises:
        StartError: There is no such server, or there are several; it does not answer;
            or it has found a mistake, and nothing has changed.
    """
    connection = _connect(place)
    try:
        connection.send(request(Op.RELOAD, head=RequestHead(value=log_level)))
        frame = connection.receive_one()
    except (OSError, FrameError):
        frame = None
    finally:
        connection.close()
    if frame is None:
        raise StartError("the server does not answer: it is starting or stopping")
    if frame.status != 200:
        raise StartError(problem_of(frame).message)
    return str(msgspec.json.decode(frame.body))


def _connect(place: str) -> FrameSocket:
    found: list[tuple[RunDir, socket.socket]] = []
    for run in RunDir.found_in(place):
        sock = socket.socket(socket.AF_UNIX)
        try:
            # With a timeout, it would fail if other connections wait.
            sock.connect(run.control_socket)
        except OSError:
            sock.close()
        else:
            sock.settimeout(ANSWER_SECONDS)
            found.append((run, sock))
    if len(found) == 1:
        return FrameSocket(found[0][1], MAX_BODY)
    base = place or tempfile.gettempdir()
    servers = [f"{run.path} (PID {_peer(sock)[0]})" for run, sock in found]
    for _, sock in found:
        sock.close()
    if not servers:
        raise StartError(
            f"no server of this user has its run directory in {base}: name the "
            "directory that it was started with, with --run-dir"
        )
    raise StartError(
        f"several servers have their run directories in {base}: choose one of "
        f"{', '.join(servers)} with --run-dir"
    )


def _peer(sock: socket.socket) -> tuple[int, int]:
    """Return process ID and user ID of the other end of a Unix socket."""
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(data)
    return pid, user
