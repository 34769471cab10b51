"""The reader of a WebSocket: received bytes in, whole messages out."""

from __future__ import annotations

from gym_http_wire.websocket.frames import (
    FIN,
    MASKED,
    MAX_CONTROL,
    U16,
    U64,
    Close,
    Message,
    Opcode,
    WebSocketError,
    check_close,
    masked,
)

__all__ = ["MessageReader"]

_WHOLE_BINARY = 0x82
_WHOLE_TEXT = 0x81
_WHOLE = (_WHOLE_BINARY, _WHOLE_TEXT)
# Memory for more than this is allocated only when the bytes arrive.
_GRANTED_AT_ONCE = 1024 * 1024


class MessageReader:
    """Decodes messages from the bytes of one connection.

    Args:
        masked: The other side is a client, whose frames have to be masked.
        max_message: Bytes that a message may have.

    Attributes:
        between: Whether the next byte begins a message.
    """

    def __init__(self, *, masked: bool, max_message: int) -> None:
        self._masked = masked
        self._max_message = max_message
        self._grant = _GRANTED_AT_ONCE if masked else max_message
        self._buffer = bytearray()
        self._wanted = 2
        # Of a message in fragments.
        self._opcode = 0
        self._parts: list[bytes] = []
        self._size = 0
        self._closed = False
        # Of a large frame: the memory of its payload so far, the bytes received, the
        # view that `space` returned, and its head.
        self._large: bytearray | None = None
        self._filled = 0
        self._view: memoryview | None = None
        self._head = (0, 0, b"")
        self.between = True

    def feed(self, data: bytes) -> list[Message]:
        """Add received bytes; returns the messages that are now complete.

        Raises:
            WebSocketError: The bytes violate the protocol.
        """
        size = len(data)
        if self.between and 6 < size < 132 and data[0] == _WHOLE_BINARY:
            # Nearly always one whole message.
            if self._masked:
                if data[1] == size + 122:
                    return [Message(2, masked(data[6:], data[2:6]))]
            elif data[1] == size - 2 < 126:
                return [Message(2, data[2:])]
        if size > 6 and data[0] in _WHOLE:
            payload = self.whole(data, data[0])
            if payload is not None:
                return [_whole(data[0] & 15, payload)]
        messages = self._feed(data)
        self.between = not (
            self._buffer or self._opcode or self._closed or self._large is not None
        )
        return messages

    def whole(self, data: bytes, first: int = _WHOLE_TEXT) -> bytes | None:
        """Return the payload if the bytes are exactly one message of up to 64 KiB.

        The caller checks whether text is UTF-8. Otherwise nothing changes, and the
        caller has to `feed` the bytes.

        Args:
            data: The bytes.
            first: The first byte of such a message; by default that of a text.
        """
        size = len(data)
        if size <= 6 or data[0] != first or not self.between:
            return None
        second = data[1]
        if bool(second & MASKED) != self._masked:
            return None
        length, start = second & 127, 2
        if length == 126:
            length, start = U16.unpack_from(data, 2)[0], 4
            if length < 126:
                return None
        elif length == 127:
            return None
        head = start + 4 if self._masked else start
        if length != size - head or length > self._max_message:
            return None
        payload = data[head:]
        return masked(payload, data[start:head]) if self._masked else payload

    def space(self) -> memoryview | None:
        """Return the memory to receive the next bytes into, within a large frame.

        Returns:
            The memory for further bytes of the frame, until `received` is called;
            ``None`` if received bytes have to go to `feed`.
        """
        if self._large is None:
            return None
        self._view = memoryview(self._large)[self._filled :]
        return self._view

    def received(self, size: int) -> list[Message]:
        """Add bytes that were received into `space`."""
        payload = self._large
        self._filled += size
        if payload is None or self._view is None or self._filled < len(payload):
            return []
        first, length, mask = self._head
        if len(payload) < length:
            self._view.release()
            payload += bytes(min(len(payload), length - len(payload)))
            return []
        self._large = self._view = None
        whole: bytes | memoryview = memoryview(payload)
        if mask:
            whole = masked(whole, mask)
        message = self._frame(first, whole)
        self.between = not self._opcode
        return [] if message is None else [message]

    def _feed(self, data: bytes) -> list[Message]:
        messages = []
        while data and (space := self.space()) is not None:
            taken = data[: len(space)]
            space[: len(taken)] = taken
            messages += self.received(len(taken))
            data = data[len(taken) :]
        buffer = self._buffer
        buffer += data
        at = 0
        while not self._closed and len(buffer) - at >= self._wanted:
            end = self._cut(at, messages)
            if end is None:
                break
            at = end
        if self._closed:
            # Bytes after a close are ignored.
            buffer.clear()
        else:
            del buffer[:at]
        return messages

    def _cut(self, at: int, messages: list[Message]) -> int | None:
        """Decode the next frame in the buffer; returns its end, if it is complete."""
        buffer = self._buffer
        first, second = buffer[at], buffer[at + 1]
        length = second & 127
        head = 2 + (0 if length < 126 else 2 if length == 126 else 8)
        mask_at = at + head
        head += 4 if self._masked else 0
        if bool(second & MASKED) != self._masked:
            words = "is not masked" if self._masked else "is masked"
            raise WebSocketError(Close.PROTOCOL_ERROR, f"a frame {words}")
        if len(buffer) - at < head:
            self._wanted = head
            return None
        if length == 126:
            length = U16.unpack_from(buffer, at + 2)[0]
            self._check_short(length < 126)
        elif length == 127:
            length = U64.unpack_from(buffer, at + 2)[0]
            self._check_short(length < 65536)
        self._check(first, length)
        mask = bytes(buffer[mask_at : at + head]) if self._masked else b""
        start, end = at + head, at + head + length
        if len(buffer) < end:
            if length < 65536:
                self._wanted = head + length
                return None
            self._begin_large(first, mask, length, start)
            return len(buffer)
        payload = bytes(buffer[start:end])
        message = self._frame(first, masked(payload, mask) if mask else payload)
        if message is not None:
            messages.append(message)
        self._wanted = 2
        return end

    def _begin_large(self, first: int, mask: bytes, length: int, start: int) -> None:
        early = memoryview(self._buffer)[start:]
        self._filled = len(early)
        # More than was received, so that there is always space.
        granted = max(self._grant, 2 * self._filled)
        self._large = bytearray(min(length, granted))
        self._large[: self._filled] = early
        early.release()
        self._head = (first, length, mask)
        self._wanted = 2

    @staticmethod
    def _check_short(too_long: bool) -> None:
        if too_long:
            raise WebSocketError(Close.PROTOCOL_ERROR, "a length is not the shortest")

    def _check(self, first: int, length: int) -> None:
        """Refuse a frame by its head, before anything is kept for it."""
        if first & 0x70:
            raise WebSocketError(Close.PROTOCOL_ERROR, "a reserved bit is set")
        opcode = first & 15
        if opcode >= 8:
            if opcode > 10:
                raise WebSocketError(
                    Close.PROTOCOL_ERROR, f"opcode {opcode} is unknown"
                )
            if length > MAX_CONTROL or not first & FIN:
                words = "a control frame is too long or in fragments"
                raise WebSocketError(Close.PROTOCOL_ERROR, words)
            return
        if opcode > 2:
            raise WebSocketError(Close.PROTOCOL_ERROR, f"opcode {opcode} is unknown")
        if bool(opcode) == bool(self._opcode):
            words = "a message begins within another, or goes on without one"
            raise WebSocketError(Close.PROTOCOL_ERROR, words)
        if self._size + length > self._max_message:
            words = f"a message has more than {self._max_message} bytes"
            raise WebSocketError(Close.TOO_LARGE, words)

    def _frame(self, first: int, payload: bytes | memoryview) -> Message | None:
        opcode = first & 15
        if opcode >= 8:
            if opcode == Opcode.CLOSE:
                self._closed = True
                check_close(bytes(payload))
            return Message(opcode, payload)
        if first & FIN and opcode:
            return _whole(opcode, payload)
        self._parts.append(bytes(payload))
        self._size += len(payload)
        self._opcode = self._opcode or opcode
        if len(self._parts) > 65536:
            raise WebSocketError(Close.POLICY, "a message has too many fragments")
        if not first & FIN:
            return None
        whole, opcode = b"".join(self._parts), self._opcode
        self._parts, self._size, self._opcode = [], 0, 0
        return _whole(opcode, whole)


def _whole(opcode: int, payload: bytes | memoryview) -> Message:
    if opcode == Opcode.TEXT:
        try:
            str(payload, "utf-8")
        except UnicodeDecodeError as error:
            raise WebSocketError(Close.INVALID_TEXT, f"a text is {error}") from None
    return Message(opcode, payload)
