"""Watchers of an instance that read at once or slowly."""

import json
import socket
import struct
from typing import Any

from gym_http_wire.values import binary as values
from tests.support.api import Instance
from tests.support.websocket import TEXT, WebSocket, handshake

HEADER = struct.Struct("<IIHBBI")


class Watcher(WebSocket):
    """A watcher, in either dialect."""

    signatures: dict[int, bytes]

    def copy(self) -> dict[str, Any]:
        """Read a copy in the text dialect, without the members that all copies have."""
        answer: dict[str, Any] = self.receive()
        assert answer.pop("watch") is True
        return answer

    def copy_binary(self) -> tuple[int, int, int, int, Any]:
        """Read a binary copy: operation, number, dropped, status, value."""
        opcode, payload = self.read_frame()
        assert opcode == 2, (opcode, payload)
        body_size, head_size, status, op, form, number = HEADER.unpack_from(payload)
        assert len(payload) == 16 + head_size + body_size
        head = json.loads(payload[16 : 16 + head_size] or b"{}")
        dropped = head.pop("dropped", 0)
        assert not head
        body = payload[16 + head_size :]
        if form != 3:
            return op, number, dropped, status, json.loads(body)
        size, name = struct.unpack_from("<II", body)
        if size:
            assert name not in self.signatures
            self.signatures[name] = body[8 : 8 + size]
        signature = self.signatures[name]
        whole = struct.pack("<II", len(signature), 0) + signature + body[8 + size :]
        return op, number, dropped, status, values.decode(whole)


def open_watcher(instance: Instance, protocol: str = TEXT, more: str = "") -> Watcher:
    """Open a watcher."""
    path = instance.path(f"stream?watch=1{more}")
    watcher = Watcher.to(instance, path=path, sec_websocket_protocol=protocol)
    watcher.signatures = {}
    assert watcher.response.status == 101, watcher.response
    return watcher


def open_stream(instance: Instance, protocol: str = TEXT) -> WebSocket:
    """Open a stream that sends requests."""
    opened = WebSocket.to(instance, sec_websocket_protocol=protocol)
    assert opened.response.status == 101
    return opened


def open_slow_watcher(instance: Instance, protocol: str) -> Watcher:
    """Open a watcher with a buffer so small that the host soon finds it full."""
    port = instance.api.server.port
    watcher = Watcher.__new__(Watcher)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(20.0)
    sock.connect(("127.0.0.1", port))
    watcher._socket = sock
    watcher._buffer = b""
    watcher.signatures = {}
    path = instance.path("stream?watch=1")
    watcher.send(handshake(instance, path=path, sec_websocket_protocol=protocol))
    watcher.response = watcher.read_response()
    assert watcher.response.status == 101
    return watcher
