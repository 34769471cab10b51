"""Connections that read whole HTTP/1.1 messages and keep every byte."""

import asyncio
import contextlib
import re
import socket
import struct
from typing import Self

#: The exceptions of reads and writes when the peer has closed.
BROKEN = (OSError, asyncio.IncompleteReadError)
_LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*(\d+)")
_CHUNKED = re.compile(rb"(?i)\r\ntransfer-encoding:[ \t]*chunked")
_BODYLESS = {101, 204, 304}


class HttpConnection:
    """One TCP connection that reads whole messages."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, port: int) -> Self:
        """Connect to a port of this machine."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    @classmethod
    async def over(cls, connection: socket.socket) -> Self:
        """Use a connected socket."""
        return cls(*await asyncio.open_connection(sock=connection))

    async def request(self) -> bytes:
        """Read a request."""
        head = await self._head()
        return head + await self._body(head, endless=False)

    async def answer(self, method: bytes) -> bytes:
        """Read the answer to a request of this method, and skip interim answers.

        After the head of a 101, the bytes are no longer HTTP.
        """
        status = 100
        while status < 200 and status != 101:
            head = await self._head()
            status = int(head.split(b" ", 2)[1][:3])
        if method == b"HEAD" or status in _BODYLESS:
            return head
        return head + await self._body(head, endless=True)

    async def frame(self) -> bytes:
        """Read a WebSocket frame, and return its bytes."""
        head = await self._reader.readexactly(2)
        length = head[1] & 127
        if length > 125:
            more = await self._reader.readexactly(2 if length == 126 else 8)
            head, length = head + more, int.from_bytes(more)
        mask = 4 if head[1] & 128 else 0
        return head + await self._reader.readexactly(mask + length)

    async def send(self, data: bytes) -> None:
        """Write bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def until_closed(self) -> None:
        """Wait for the peer's end of the stream."""
        while await self._reader.read(65536):
            pass

    def close(self, *, rudely: bool = False) -> None:
        """Close; ``rudely`` resets the connection, so the peer loses unread data."""
        if rudely:
            peer: socket.socket = self._writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                linger = struct.pack("ii", 1, 0)
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.close()

    def abort(self) -> None:
        """Close at once, and discard unsent data."""
        self._writer.transport.abort()

    async def _head(self) -> bytes:
        return await self._reader.readuntil(b"\r\n\r\n")

    async def _body(self, head: bytes, *, endless: bool) -> bytes:
        if _CHUNKED.search(head):
            return await self._chunks()
        if length := _LENGTH.search(head):
            return await self._reader.readexactly(int(length[1]))
        return await self._reader.read() if endless else b""

    async def _chunks(self) -> bytes:
        body = b""
        size = 1
        while size:
            line = await self._reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            body += line + (await self._reader.readexactly(size + 2) if size else b"")
        while line != b"\r\n":
            line = await self._reader.readuntil(b"\r\n")
            body += line
        return body
