"""Environments that attack the supervisor at action 1.

A server loads this module with ``--import tests.support.envs.supervisor_attacks``.
"""

import contextlib
import inspect
import mmap
import os
import struct
import threading
import time
from pathlib import Path

import gymnasium

from gym_http_wire.frames import Frame
from tests.support.envs.hostile import Hostile
from tests.support.status_page import page_of

_FOLDER = Path("..")  # a host works in a folder below its own


class CutStatus(Hostile):
    """Tries to cut its status page short, fills it with ones, and sleeps."""

    def misbehave(self) -> None:
        page = page_of(os.getpid())
        with contextlib.suppress(PermissionError):
            os.truncate(page, 0)
        with page.open("r+b") as file:
            file.write(b"\xff" * mmap.PAGESIZE)
        time.sleep(600)


class PipeForLog(Hostile):
    """Replaces its log by a pipe without a writer, and ends."""

    def misbehave(self) -> None:
        (_FOLDER / "log").unlink()
        os.mkfifo(_FOLDER / "log")
        os._exit(3)


class DeepFolders(Hostile):
    """Leaves folders nested deeper than Python recurses."""

    def misbehave(self) -> None:
        for _ in range(1500):
            os.mkdir("d")
            os.chdir("d")
        os._exit(3)


def _write_everywhere(data: bytes) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.write(int(name), data)
            except OSError:
                continue


class WriteEverywhere(Hostile):
    """Writes invalid frames to every descriptor of its process."""

    def misbehave(self) -> None:
        _write_everywhere(b"\xff" * 4096)


class WriteEverywhereInit(Hostile):
    """Writes invalid frames to every descriptor while it is created."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        _write_everywhere(b"\xff" * 4096)


def _forged(status: int, head: bytes = b"", ahead: int = 0, body: bytes = b"") -> bytes:
    head += b" " * (-len(head) % 8)
    number = _last_number() + ahead
    size = len(body)
    return struct.pack("<IIHBBI", size, len(head), status, 0, 1, number) + head + body


def _last_number() -> int:
    """Return the number of the request that the host is answering."""
    for each in inspect.stack(context=0):
        frame = each.frame.f_locals.get("frame")
        if isinstance(frame, Frame):
            return frame.number
    raise LookupError("nothing is being answered")


class ForgeStatus(Hostile):
    """Answers with a status that HTTP does not have."""

    def misbehave(self) -> None:
        _write_everywhere(_forged(999))


class ForgeProblem(Hostile):
    """Answers with status 400 and no problem."""

    def misbehave(self) -> None:
        _write_everywhere(_forged(400))


class ForgeHeader(Hostile):
    """Answers with a header whose value contains another header."""

    def misbehave(self) -> None:
        head = b'{"headers": {"Gym-Shape": "1\\r\\nContent-Length: 5"}}'
        _write_everywhere(_forged(200, head))


class ForgeBody(Hostile):
    """Answers with a body that ends the list of a batch."""

    def misbehave(self) -> None:
        _write_everywhere(_forged(200, body=b'{}}],"results":[{"status":200'))


class ForgeWarnings(Hostile):
    """Answers with warnings that end the list of a batch."""

    def misbehave(self) -> None:
        head = b'{"headers": {"Gym-Warnings": "[]}],\\"results\\":[{\\"status\\":200"}}'
        _write_everywhere(_forged(200, head, body=b"{}"))


class ForgeNumber(Hostile):
    """Answers the next request in advance."""

    def misbehave(self) -> None:
        _write_everywhere(_forged(204, ahead=1))


class ThreadAndRaise(Hostile):
    """Raises on creation, and leaves a thread that its process would wait for."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        threading.Thread(target=time.sleep, args=(600,)).start()
        raise RuntimeError("not today")


for _kind in (
    CutStatus,
    PipeForLog,
    DeepFolders,
    WriteEverywhere,
    WriteEverywhereInit,
    ForgeStatus,
    ForgeProblem,
    ForgeHeader,
    ForgeBody,
    ForgeWarnings,
    ForgeNumber,
    ThreadAndRaise,
):
    gymnasium.register(f"attack/{_kind.__name__}-v0", _kind)
