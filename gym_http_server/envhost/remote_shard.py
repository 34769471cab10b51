"""A part of a vector in a process of its own, as the leading process sees it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

from gym_http_server import prctl
from gym_http_server.envhost import env_warnings, fork_guard
from gym_http_server.envhost.failures import note
from gym_http_server.envhost.isolation import close_descriptors, reseed
from gym_http_server.envhost.shard import Make, serve
from gym_http_server.envhost.shard_channel import ShardChannel
from gym_http_server.titles import extend_title
from gym_http_wire.frames import Frame
from gym_http_wire.problems import Problem

__all__ = ["RemoteShard"]


class RemoteShard:
    """A part in another process, which ends with this one.

    If that process dies, or says what nobody understands, this one dies the same way.

    Args:
        make: Makes a vector of so many environments.
        start: The first environment of the part.
        stop: The first that is none of the part any more.
        num_envs: How many the whole vector has.
    """

    def __init__(self, make: Make, start: int, stop: int, num_envs: int) -> None:
        ours, theirs = socket.socketpair()
        leader = os.getpid()
        self._pid = os.fork()
        if self._pid:
            theirs.close()
            self._channel = ShardChannel(ours)
            return
        status = 1
        try:
            fork_guard.claim()
            env_warnings.take()
            prctl.die_with_parent(leader, signal.SIGKILL)
            close_descriptors([theirs.fileno()])
            reseed()
            extend_title(f"[{start}-{stop - 1}]")
            serve(ShardChannel(theirs), make, start, stop, num_envs)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            _flush()
            os._exit(status)

    def send(self, frame: Frame, descriptor: int | None = None) -> None:
        """Send a request, and a descriptor along with it."""
        try:
            self._channel.send(frame, descriptor)
        except OSError:
            self._follow()

    def answer(self) -> Any:
        """Wait for the value of an answer.

        Raises:
            Problem: What the answer tells of instead.
        """
        try:
            return self._channel.answer()
        except (EOFError, OSError):
            self._follow()
        except Problem:
            raise
        except Exception as error:
            note(error)
            os.kill(self._pid, signal.SIGKILL)
            self._follow()

    def end(self) -> None:
        """Take leave of the process, which is about to end."""
        self._channel.close()
        os.waitpid(self._pid, 0)

    def _follow(self) -> NoReturn:
        try:
            _, status = os.waitpid(self._pid, 0)
        except ChildProcessError:
            # The environment has waited for it.
            os._exit(1)
        _flush()
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number != signal.SIGKILL:
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        os._exit(os.waitstatus_to_exitcode(status))


def _flush() -> None:
    # The environment may have closed them.
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
