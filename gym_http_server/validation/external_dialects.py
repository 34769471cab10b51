"""How a far side talks in each dialect, as far as checks of bad answers need it."""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

from gym_http_server.validation.checks import Mismatch
from gym_http_server.validation.external_env import OBSERVATION, ExternalEnv
from gym_http_server.validation.websocket import BINARY, frame

__all__ = ["BinaryTalk", "Fault", "TextTalk"]

_HEADER = struct.Struct("<IIHBBI")
_FAULT = 52
_NOTHING = b'{"dict":[]}'.ljust(16)
_RESET = b'{"dict":[["observation",{"nd":["<f4",[2]]}]]}'.ljust(48)
_LEAF = struct.pack("<2f", *OBSERVATION)


class Fault(NamedTuple):
    """What the server found wrong."""

    message: str
    field: str


class TextTalk:
    """In JSON.

    Args:
        far: The connection.
    """

    def __init__(self, far: ExternalEnv) -> None:
        self._far = far

    def answer(self, kind: str) -> None:
        """Answer init, reset or close."""
        result = {"observation": OBSERVATION} if kind == "reset" else {}
        self._far.answer(kind, **result)

    def answer_badly(self, case: dict[str, Any]) -> None:
        """Answer a step as a case of the vectors says."""
        request, text = self._far.asked("step"), case["text"]
        # A case answers a request of a number, which is another one here.
        known = f'"id":{case["number"]},'
        self._far.write(text.replace(known, f'"id":{request["id"]},', 1))

    def fault(self) -> Fault:
        """Hear what was wrong."""
        told = self._far.asked("fault")
        return Fault(str(told.get("message", "")), str(told.get("field", "")))


class BinaryTalk:
    """In frames.

    Args:
        far: The connection.
    """

    def __init__(self, far: ExternalEnv) -> None:
        self._far = far

    def _heard(self) -> tuple[int, int, bytes]:
        message = self._far.heard(BINARY)
        if len(message) < _HEADER.size:
            raise Mismatch("a header of 16 bytes", message.hex())
        _, head, _, operation, _, number = _HEADER.unpack_from(message)
        return operation, number, message[_HEADER.size + head :]

    def answer(self, kind: str) -> None:
        """Answer init, reset or close."""
        _, number, _ = self._heard()
        signature, leaves = (_RESET, _LEAF) if kind == "reset" else (_NOTHING, b"")
        body = struct.pack("<II", len(signature), 0) + signature + leaves
        header = _HEADER.pack(len(body), 0, 200, 0, 3, number)
        self._say(header + body)

    def answer_badly(self, case: dict[str, Any]) -> None:
        """Answer a step as a case of the vectors says."""
        _, number, _ = self._heard()
        data = bytes.fromhex(case["hex"])
        if data[12:16] == struct.pack("<I", case["number"]):
            data = data[:12] + struct.pack("<I", number) + data[16:]
        self._say(data)

    def fault(self) -> Fault:
        """Hear what was wrong."""
        operation, _, body = self._heard()
        if operation != _FAULT:
            raise Mismatch(f"operation {_FAULT}, a fault", str(operation))
        try:
            told = json.loads(body)
        except ValueError as error:
            raise Mismatch("a fault in JSON", str(error)) from None
        return Fault(str(told.get("message", "")), str(told.get("field", "")))

    def _say(self, data: bytes) -> None:
        self._far.socket.send(frame(BINARY, data))
