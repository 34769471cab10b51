"""External environments that connect to the server, and send what a check wants."""

from __future__ import annotations

import json
import secrets
import struct
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Self

from gym_http_server.validation.calls import Response
from gym_http_server.validation.checks import Mismatch, equal
from gym_http_server.validation.target import Target, TargetInstance
from gym_http_server.validation.websocket import (
    BINARY,
    PING,
    PONG,
    TEXT,
    WebSocket,
    frame,
)

__all__ = [
    "OBSERVATION",
    "PATH",
    "PATIENCE_S",
    "AnyExternalEnv",
    "BinaryTalk",
    "ExternalEnv",
    "Fault",
    "Json",
    "PollingEnv",
    "TextTalk",
    "hello_of",
]

PATH = "/v1/external/"
OBSERVATION = [0.25, 0.5]
PATIENCE_S = 30.0
Json = Any
_BOX = {"type": "Box", "low": 0, "high": 1, "shape": [2], "dtype": "float32"}
_HELLO = {
    "type": "hello",
    "protocol": 1,
    "observation_space": _BOX,
    "action_space": {"type": "Discrete", "n": 3},
    "capabilities": ["reset"],
}
_STEP = {"observation": OBSERVATION, "reward": 2, "terminated": False}
_STEP |= {"truncated": False, "info": {"score": 7}}


def hello_of(name: str = "", **changes: Json) -> dict[str, Json]:
    """Give a hello, of a name that nobody else has."""
    name = name or f"validate-{secrets.token_hex(4)}"
    return {**_HELLO, "name": name, **changes}


class AnyExternalEnv:
    """An environment elsewhere, however it is connected.

    Args:
        target: The server.
        name: What it is called.

    Attributes:
        welcome: What the server answered to its hello.
    """

    welcome: dict[str, Json]

    def __init__(self, target: Target, name: str) -> None:
        self.target = target
        self.name = name
        self._pool = ThreadPoolExecutor(4)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()
        # Whoever asked it is told that it is gone.
        self._pool.shutdown()

    def end(self) -> None:
        """End the connection."""

    def say(self, message: dict[str, Json]) -> None:
        """Say something."""
        raise NotImplementedError

    def hear(self) -> dict[str, Json]:
        """Hear what the server says."""
        raise NotImplementedError

    def asked(self, kind: str) -> dict[str, Json]:
        """Hear a message of a kind.

        Raises:
            Mismatch: It is of another.
        """
        message = self.hear()
        if message.get("type") != kind:
            raise Mismatch(f"a message of type {kind}", json.dumps(message)[:300])
        return message

    def answer(self, kind: str, **result: Json) -> dict[str, Json]:
        """Answer a request of a kind; give the request."""
        request = self.asked(kind)
        self.say({"id": request["id"], "result": result})
        return request

    def asking(
        self, call: Callable[..., Response], *args: Json, **more: Json
    ) -> TestAgent:
        """Have an agent ask in the background."""
        return TestAgent(self._pool.submit(call, *args, **more))

    def created(self, **options: Json) -> TargetInstance:
        """Have an agent make an instance."""
        request = {"env_id": f"external/{self.name}", "wait_s": 10, **options}
        future = self._pool.submit(self.target.create_from, request)
        asked = self.answer("init")
        equal(asked.get("kwargs"), options.get("kwargs", {}), "kwargs of init")
        return future.result(PATIENCE_S)

    def began(self, **options: Json) -> TargetInstance:
        """Have an agent make an instance, and reset it."""
        instance = self.created(**options)
        self.reset(instance)
        return instance

    def reset(self, instance: TargetInstance) -> None:
        """Have an agent reset."""
        agent = self.asking(instance.post, "reset/", {})
        self.answer("reset", observation=OBSERVATION)
        equal(agent.told(200).get("observation"), OBSERVATION, "observation")

    def stepped(self, instance: TargetInstance, **changes: Json) -> dict[str, Json]:
        """Have an agent step; give what it was told."""
        agent = self.asking(instance.post, "step/", {"action": 1})
        self.answer("step", **{**_STEP, **changes})
        return agent.told(200)

    def left(self, instance: TargetInstance) -> None:
        """Have the agent close the instance."""
        agent = self.asking(instance.close)
        self.answer("close")
        equal(agent.answer().status, 204, "status of close")


class TestAgent:
    """What somebody asked while the environment was heard."""

    def __init__(self, future: Future[Response]) -> None:
        self._future = future

    def answer(self) -> Response:
        """Wait for the answer."""
        return self._future.result(PATIENCE_S)

    def told(self, status: int) -> dict[str, Json]:
        """Wait for an answer with a status, and give its body.

        Raises:
            Mismatch: It has another.
        """
        answer = self.answer()
        if answer.status != status:
            raise Mismatch(f"status {status}", str(answer))
        told: dict[str, Json] = answer.json()
        return told

    def refused(self, status: int, code: str) -> dict[str, Json]:
        """Wait for a problem, and give it."""
        told = self.told(status)
        equal(told.get("code"), code, "code")
        return told


class ExternalEnv(AnyExternalEnv):
    """One over a WebSocket.

    Args:
        target: The server.
        hello: What it says first; a text is sent as it is.
    """

    def __init__(self, target: Target, hello: dict[str, Json] | str) -> None:
        super().__init__(target, "" if isinstance(hello, str) else hello["name"])
        self.socket = WebSocket(target, PATH)
        if self.socket.answer.status != 101:
            self.end()
            raise Mismatch("101 to the handshake", str(self.socket.answer))
        text = hello if isinstance(hello, str) else json.dumps(hello)
        self.write(text)
        self.welcome = self.hear()

    @classmethod
    def welcomed(cls, target: Target, **hello: Json) -> Self:
        """Connect, and demand to be welcome.

        Raises:
            Mismatch: It is not.
        """
        far = cls(target, hello_of(**hello))
        if far.welcome.get("type") != "welcome":
            far.end()
            raise Mismatch("welcome", json.dumps(far.welcome)[:300])
        return far

    def back(self, **hello: Json) -> Self:
        """Connect anew, and go on; the connection before is ended."""
        self.end()
        return self.welcomed(
            self.target, name=self.name, resume=self.welcome["resume"], **hello
        )

    def end(self) -> None:
        """End the connection."""
        self.socket.end()

    def write(self, text: str) -> None:
        """Say a text as it is."""
        self.socket.send(frame(TEXT, text.encode()))

    def say(self, message: dict[str, Json]) -> None:
        """Say something."""
        self.write(json.dumps(message))

    def hear(self) -> dict[str, Json]:
        """Hear what the server says; its pings are answered."""
        payload = self.heard(TEXT)
        try:
            told = json.loads(payload)
        except ValueError as error:
            raise Mismatch("a message in JSON", str(error)) from None
        if not isinstance(told, dict):
            raise Mismatch("an object", str(told)[:200])
        return told

    def heard(self, opcode: int = BINARY) -> bytes:
        """Hear a message of an opcode, as it is."""
        while True:
            message = self.socket.read()
            if message.opcode == PING:
                self.socket.send(frame(PONG, bytes(message.payload)))
            elif message.opcode == opcode:
                return bytes(message.payload)
            else:
                raise Mismatch(f"a message of opcode {opcode}", str(message.opcode))


#: Seconds that a request waits for what is asked.
LOOK_S = 5


class PollingEnv(AnyExternalEnv):
    """One that calls by HTTP."""

    def __init__(self, target: Target) -> None:
        hello = hello_of()
        super().__init__(target, hello["name"])
        answer = target.post(PATH, hello)
        target.needs("external", answer)
        equal(answer.status, 200, "status of a hello")
        self.welcome = answer.json()
        self.path = f"{PATH}{self.welcome['connection']}/"

    def hear(self) -> dict[str, Json]:
        """Fetch what the server asks."""
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = self.target.get(f"{self.path}request?wait_s={LOOK_S}")
            if answer.status != 204 or time.monotonic() > until:
                break
        equal(answer.status, 200, "status of what is fetched")
        told: dict[str, Json] = answer.json()
        return told

    def say(self, message: dict[str, Json]) -> None:
        """Post an answer."""
        answer = self.target.post(f"{self.path}answer", message)
        equal(answer.status, 204, "status of an answer")


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
