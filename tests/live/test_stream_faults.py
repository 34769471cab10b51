"""Faults of one stream do not affect other streams."""

import contextlib
import json
import os
import random
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from gym_http_server.config.settings import Settings
from gym_http_server.host.streams import SEND_SECONDS
from gym_http_server.rundir.directory import RunDir
from gym_http_server.web.app import create_app
from tests.support import api as calls
from tests.support import processes
from tests.support.api import Api, Instance
from tests.support.server import Server
from tests.support.wait import wait_until
from tests.support.websocket import KEY, PING, TEXT, WebSocket, frame, handshake

MakeServer = Callable[..., Server]


@pytest.fixture
def instance(create_either: Callable[..., Instance]) -> Instance:
    """A CartPole on either kind of server."""
    return create_either()


def text(instance: Instance, session: str = "", **more: Any) -> WebSocket:
    """Open a stream in the text dialect."""
    stream = WebSocket.to(instance, session, sec_websocket_protocol=TEXT, **more)
    assert stream.response.status == 101, stream.response
    return stream


def open_streams(instance: Instance) -> int:
    """Return the number of open streams."""
    return int(calls.ok(instance.get(""))["streams"])


def web_workers(server: Server) -> set[psutil.Process]:
    """Return the web workers."""
    return processes.gunicorn(server.pid)[1]


GARBAGE = {
    "not masked": (frame(1, b'{"op": "step", "action": 0}', mask=b""), 1002),
    "opcode": (frame(5, b"x"), 1002),
    "reserved bit": (b"\xc1\x80mask", 1002),
    "too long": (b"\x81\xff" + struct.pack(">Q", 9 * 1024 * 1024) + b"mask", 1009),
    "endless": (b"\x81\xff" + b"\xff" * 8 + b"mask", 1009),
    "not UTF-8": (frame(1, b'{"op": "\xff"}'), 1007),
    "goes on with nothing": (frame(0, b"x"), 1002),
    "long ping": (frame(PING, bytes(126)), 1002),
    "half a status": (frame(8, b"\3"), 1002),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 1002),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 1002),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_closes_its_stream_and_no_other(instance: Instance, name: str) -> None:
    data, code = GARBAGE[name]
    with text(instance) as other, text(instance) as stream:
        other.call(op="reset", seed=0)
        stream.send(data)
        answer, reason = stream.read_close()
        assert answer == code, reason
        assert reason
        assert other.call(op="step", action=0)["status"] == 200
        instance.step(1)
        wait_until(lambda: open_streams(instance) == 1)


def test_an_instance_survives_any_message(instance: Instance) -> None:
    dice = random.Random(3)
    instance.reset()
    for _ in range(60):
        binary = dice.random() < 0.5
        more: dict[str, Any] = {} if binary else {"sec_websocket_protocol": TEXT}
        with WebSocket.to(instance, **more) as stream:
            for _ in range(dice.randrange(1, 5)):
                payload = dice.randbytes(dice.choice([0, 1, 15, 16, 17, 40, 200]))
                if dice.random() < 0.5:
                    # A header with a valid form and invalid content.
                    op, form = dice.randrange(0, 40), dice.choice([0x33, 0x11, 0x22])
                    sizes = len(payload) - len(payload) % 8, len(payload) % 8
                    head, rest = payload[: sizes[0]], payload[sizes[0] :]
                    payload = struct.pack(
                        "<IIHBBI", len(rest), len(head), 0, op, form, 7
                    )
                    payload += head + rest
                if dice.random() < 0.8:
                    payload = frame(2 if binary else 1, payload)
                stream.send(payload)
            # The server may have closed it long since.
            with contextlib.suppress(OSError):
                stream.finish_sending()
            stream.read_to_end()
    assert calls.ok(instance.get(""))["env_id"] == "CartPole-v1"
    instance.reset()
    wait_until(lambda: open_streams(instance) == 0)


def test_a_client_that_reads_nothing_loses_its_stream(
    create_toy: Callable[..., Instance],
) -> None:
    instance = create_toy("toys/Big-v0")
    with text(instance) as busy, WebSocket.to(instance) as stuck:
        began = time.monotonic()
        busy.call(op="attribute", name="steps")
        stuck.send_binary(1, 1)
        for number in range(2, 20):
            stuck.send_binary(2, number, b'{"action":0}', form=0x31)
        longest = 0.0
        while open_streams(instance) == 2:
            # Other streams have their turns, and so has REST.
            request = time.monotonic()
            assert busy.call(op="attribute", name="steps")["status"] == 200
            instance.get("action_space/")
            longest = max(longest, time.monotonic() - request)
            assert time.monotonic() < began + 30, "the stream is never dropped"
        took = time.monotonic() - began
    assert took > SEND_SECONDS - 0.5
    assert longest < SEND_SECONDS / 2
    # No requests are executed for a client that does not read the answers.
    assert calls.ok(instance.get(""))["steps"] == 0


# A client that reads nothing for five seconds loses its stream.
@pytest.mark.alone
def test_a_slow_reader_keeps_its_stream(create_toy: Callable[..., Instance]) -> None:
    instance = create_toy("toys/Big-v0", kwargs={"size": 3_000_000})
    with WebSocket.to(instance, timeout=60) as stream:
        for number in range(1, 4):
            stream.send_binary(1, number)
            # Another's steps go on meanwhile, and change the array.
            instance.reset()
            instance.post("step/", {"action": 1})
        for number in range(1, 4):
            answer = stream.receive_binary()
            assert (answer.number, answer.status) == (number, 200)
            assert set(answer.body[-3_000_000:]) == {0}


def test_closing_the_instance_closes_streams_with_a_reason(instance: Instance) -> None:
    with text(instance) as one, text(instance) as other:
        one.call(op="reset")
        calls.no_content(instance.close())
        assert one.read_close() == (1001, "the instance was closed")
        assert other.read_close()[0] == 1001
    with WebSocket.to(instance) as stream:
        calls.error(stream.response, 400, "unknown-instance")


def test_a_host_that_is_killed_ends_its_streams(server: Server) -> None:
    instance = Api(server).create()
    neighbour = Api(server).create()
    with text(instance) as stream, text(neighbour) as other:
        stream.call(op="reset")
        server.host(instance.id).kill()
        assert stream.read_to_end() == b""
        assert other.call(op="reset")["status"] == 200
    with WebSocket.to(instance) as stream:
        error = calls.error(stream.response, 410, "instance-ended")
    assert error["reason"] == "crashed"
    neighbour.close()


def test_streams_outlive_web_workers(make_server: MakeServer) -> None:
    server = make_server("--workers", "2")
    instance = Api(server).create()
    with text(instance, "mine") as stream:
        stream.call(op="reset", seed=1)
        killed = web_workers(server)
        for worker in killed:
            worker.kill()
        for _ in range(20):
            assert stream.call(op="step", action=1)["status"] == 200
        wait_until(lambda: new_workers(server, killed) >= 2, 20, "other workers")
        arbiter, before = processes.gunicorn(server.pid)
        os.kill(arbiter.pid, signal.SIGHUP)
        wait_until(lambda: new_workers(server, before) >= 2, 20, "newer workers")
        wait_until(lambda: not processes.alive(before), 20, "their end")
        answer = stream.call(op="step", action=1)
        assert answer["number"] == 22
        key = {"Idempotency-Key": "mine-22"}
        again = instance.post("step/", data=b'{"action":1}', headers=key)
        assert calls.ok(again) == answer["body"]
    instance.close()


def new_workers(server: Server, old: set[psutil.Process]) -> int:
    """Count the workers that were not there before."""
    return len(web_workers(server) - old)


def test_web_workers_hold_nothing_of_a_stream(make_server: MakeServer) -> None:
    server = make_server("--workers", "1")
    instance = Api(server).create()
    with text(instance) as first:
        first.call(op="reset")
        (worker,) = web_workers(server)
        before = worker.num_fds()
        streams = [text(instance) for _ in range(50)]
        try:
            for stream in streams:
                assert stream.call(op="step", action=0)["status"] in (200, 409)
            wait_until(lambda: worker.num_fds() <= before + 2, message="descriptors")
            threads = worker.num_threads()
            assert threads < 20
        finally:
            for stream in streams:
                stream.close()
    instance.close()


class WithoutTLS(socket.socket):
    """A client's connection that no relay decrypts."""

    at_relay_end = None


@pytest.mark.parametrize("fast", [True, False])
def test_streams_open_without_fast_routes_too(instance: Instance, fast: bool) -> None:
    (path,) = instance.api.server.run_dir.iterdir()
    app = create_app(Settings(), RunDir(str(path)), fast_routes=fast)
    ours, end = socket.socketpair()
    theirs = WithoutTLS(fileno=end.detach())
    unreader = SimpleNamespace(take_buffered=lambda: frame(1, b'{"op": "reset"}'))
    body = SimpleNamespace(reader=SimpleNamespace(unreader=unreader))
    with ours, theirs:
        with pytest.raises(StopIteration):
            app.test_client().get(
                instance.path("stream"),
                headers={
                    "Connection": "Upgrade",
                    "Upgrade": "websocket",
                    "Sec-WebSocket-Version": "13",
                    "Sec-WebSocket-Key": KEY,
                },
                environ_overrides={"gunicorn.socket": theirs, "wsgi.input": body},
            )
        ours.settimeout(10)
        data = b""
        while b'"number":1' not in data:
            piece = ours.recv(65536)
            assert piece, data
            data += piece
    app.extensions["gym_http_server"].requests.close()
    assert data.startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize("cut", [1, 5, 30, 60])
def test_a_truncated_request_is_not_executed(instance: Instance, cut: int) -> None:
    instance.reset()
    whole = frame(1, json.dumps({"op": "step", "action": 0, "x": "y" * 80}).encode())
    with text(instance) as stream:
        stream.send(whole[:cut])
    wait_until(lambda: open_streams(instance) == 0)
    assert calls.ok(instance.get(""))["steps"] == 0


@pytest.mark.parametrize("query", ["", "?watch=1"])
def test_a_client_that_leaves_in_the_handshake_ends_nothing(
    instance: Instance, query: str
) -> None:
    address = "127.0.0.1", instance.api.server.port
    reset_at_once = struct.pack("ii", 1, 0)
    for count in range(60):
        with socket.create_connection(address) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset_at_once)
            sock.sendall(handshake(instance, path=instance.path(f"stream{query}")))
            # By now it may be with the web worker, or the host, or neither.
            sock.settimeout(1e-4 * (count % 12) + 1e-6)
            with contextlib.suppress(TimeoutError, BlockingIOError):
                sock.recv(1)
    wait_until(lambda: open_streams(instance) == 0)
    wait_until(lambda: calls.ok(instance.get(""))["watchers"] == 0)
    assert "ConnectionResetError" not in instance.api.server.stderr


def test_many_pings_without_reading_pongs(instance: Instance) -> None:
    instance.reset()
    ping = frame(PING, bytes(125), mask=b"mask") * 20_000
    with text(instance, timeout=30) as stream:
        sender = threading.Thread(target=stream.send, args=(ping,))
        sender.start()
        try:
            for _ in range(30):
                instance.step(0)
                calls.ok(instance.get(""))
        finally:
            stream.finish_sending()
            sender.join()
