"""Runs both ends of a stream in one process: a step without process switches.

Client and host use their real components, and exchange messages over TCP. They run
alternately, and the clock is read between two stages.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

from gym_http_core.lossless_calls import LosslessCalls
from gym_http_core.vectors import operations_of
from gym_http_server.host.activity import Activity
from gym_http_server.host.dispatch import Dispatch
from gym_http_server.host.fast_step import FastStepper, frame_of
from gym_http_server.host.inspection import Inspection
from gym_http_server.host.streams import Stream
from gym_http_server.rundir.status import StatusPage, StatusReader
from gym_http_wire.fast_frames import MISSED, FastClientFrames
from gym_http_wire.frames import HEADER
from gym_http_wire.handshakes import BINARY_PROTOCOL, StreamHandshake
from gym_http_wire.messages import Form, Op
from gym_http_wire.signatures import ReceivedSignatures, SentSignatures
from gym_http_wire.streams import ACKNOWLEDGED
from gym_http_wire.values.writing import Writing
from gym_http_wire.websocket import Masks, MessageReader, Opcode, encode

__all__ = ["STAGES", "OneProcess", "bouncing", "one_process"]

#: The stages of a step, in order.
STAGES = (
    "the client writes the request",
    "the client sends it (a system call)",
    "the host learns that it is there (a system call)",
    "the host receives it (a system call)",
    "the host reads it",
    "the host steps, writes the answer and sends it (a system call)",
    "the client receives it (a system call)",
    "the client reads it",
)
_STEP = int(Op.STEP)
_BOTH_BINARY = int(Form.BINARY) | int(Form.BINARY) << 4
_MAX_BYTES = 1 << 26
_RECEIVE_BYTES = 64 * 1024
_SESSION = "profile"


class OneProcess:
    """A client's end and a host's, with an environment or a vector of them.

    Args:
        env: The environment; the caller resets it.
        page: The host's status page.
        ours: The client's socket.
        theirs: The host's.
    """

    def __init__(
        self,
        env: Any,
        page: StatusPage,
        ours: socket.socket,
        theirs: socket.socket,
    ) -> None:
        operations = operations_of(env)
        exact = LosslessCalls(operations)
        activity = Activity(page, operations)
        self._dispatch = Dispatch(
            operations,
            exact,
            Inspection(operations, exact, activity, "00000000", "profile"),
            activity,
            open_file=lambda request: -1,
            max_answer=_MAX_BYTES,
        )
        self._stepping = FastStepper(self._dispatch, activity)
        theirs.setblocking(False)
        hello = StreamHandshake("", BINARY_PROTOCOL, _SESSION)
        self._host = Stream(theirs, hello, _MAX_BYTES, time.monotonic)
        self._poll = select.poll()
        self._poll.register(theirs, select.POLLIN)
        self._socket = ours
        ours.recv(_RECEIVE_BYTES)  # The end of the handshake.
        self._writing = Writing()
        self._masks = Masks()
        self._announcing, self._announced = SentSignatures(), ReceivedSignatures()
        self._lane = FastClientFrames(self._announcing, self._announced)
        self._reader = MessageReader(masked=False, max_message=_MAX_BYTES)
        self._number = 0

    def step(self, action: Any) -> tuple[dict[str, Any], list[int]]:
        """Take a step from end to end.

        Returns:
            The result, and the times in ns before each stage and after the last.
        """
        clock = time.perf_counter_ns
        self._number += 1
        begun = clock()
        message = self._request({"action": action})
        written = clock()
        self._socket.sendall(message)
        sent = clock()
        self._poll.poll()
        noticed = clock()
        lane = self._host.fast_frames
        data = self._host.read()
        received = clock()
        request = lane.decode_request(data) if lane is not None else None
        read = clock()
        if request is None or lane is None:
            self._host.feed(data)
            self._answer_at_length()
        elif not self._stepping.execute(self._host, lane, request):
            self._host.inbox.append(frame_of(request))
            self._answer_at_length()
        stepped = clock()
        answer = self._socket.recv(_RECEIVE_BYTES)
        arrived = clock()
        result = self._lane.value(answer, self._number)
        if result is MISSED:
            result = self._read_at_length(answer)
        over = clock()
        times = [begun, written, sent, noticed, received, read, stepped, arrived, over]
        return result, times

    def _request(self, given: Any) -> bytes:
        message = self._lane.message(_STEP, self._number, ACKNOWLEDGED, given)
        if message is not MISSED:
            return bytes(message)
        signature, parts = self._writing.split(given)
        value = self._announcing.header(signature) + b"".join(parts)
        header = HEADER.pack(
            len(value), 0, ACKNOWLEDGED, _STEP, _BOTH_BINARY, self._number
        )
        self._lane.learn(_STEP, signature)
        return encode(Opcode.BINARY, header + value, self._masks.next())

    def _answer_at_length(self) -> None:
        frame: Any = self._host.inbox.popleft()
        dispatch = self._dispatch
        self._host.answer(dispatch.answer(frame, _SESSION))

    def _read_at_length(self, data: bytes) -> Any:
        messages = self._reader.feed(data)
        while not messages:
            messages = self._reader.feed(self._socket.recv(_RECEIVE_BYTES))
        payload = messages[0].payload
        _, head, status, *_ = HEADER.unpack_from(payload)
        if status != 200:
            raise RuntimeError(f"a step was refused: {bytes(payload)!r}")
        return self._announced.read(payload, HEADER.size + head)


@contextlib.contextmanager
def one_process(env: Any) -> Iterator[OneProcess]:
    """Connect both ends of a stream, for an environment or a vector."""
    with contextlib.closing(StatusReader()) as reader, _pair() as pair:
        page = StatusPage(reader.file)
        with contextlib.closing(page):
            yield OneProcess(env, page, *pair)


@contextlib.contextmanager
def bouncing(ball: bytes) -> Iterator[Callable[[], int]]:
    """Yield a function that plays one ping-pong in one process: four system calls.

    It returns the duration in nanoseconds.
    """
    with _pair() as (ours, theirs):

        def bounce() -> int:
            begun = time.perf_counter_ns()
            ours.send(ball)
            theirs.send(theirs.recv(len(ball)))
            ours.recv(len(ball))
            return time.perf_counter_ns() - begun

        yield bounce


@contextlib.contextmanager
def _pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    with ours, theirs:
        for end in (ours, theirs):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield ours, theirs
