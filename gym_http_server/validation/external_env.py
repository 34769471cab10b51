"""External environments that connect to the server, and send messages for checks."""

from __future__ import annotations

import json
import secrets
import struct
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Self

from gym_http_server.validation.calls import Response
from gym_http_server.validation.expectations import Mismatch, equal
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
    "TIMEOUT_S",
    "BinaryMessages",
    "CheckEnv",
    "Fault",
    "Json",
    "PollingEnv",
    "SocketEnv",
    "TextMessages",
    "hello_of",
]

PATH = "/v1/external/"
OBSERVATION = [0.25, 0.5]
TIMEOUT_S = 30.0
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
    """Return a hello with a new name."""
    name = name or f"validate-{secrets.token_hex(4)}"
    return {**_HELLO, "name": name, **changes}


class CheckEnv:
    """An external environment, over any transport.

    Args:
        target: The server.
        name: Its name.

    Attributes:
        welcome: The answer of the server to its hello.
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
        self._pool.shutdown()

    def end(self) -> None:
        """End the connection."""

    def send(self, message: dict[str, Json]) -> None:
        """Send a message."""
        raise NotImplementedError

    def receive(self) -> dict[str, Json]:
        """Receive a message of the server."""
        raise NotImplementedError

    def expect_message(self, kind: str) -> dict[str, Json]:
        """Receive a message of a certain type.

        Raises:
            Mismatch: It is of another type.
        """
        message = self.receive()
        if message.get("type") != kind:
            raise Mismatch(f"a message of type {kind}", json.dumps(message)[:300])
        return message

    def answer(self, kind: str, **result: Json) -> dict[str, Json]:
        """Answer a request of a certain type; return the request."""
        request = self.expect_message(kind)
        self.send({"id": request["id"], "result": result})
        return request

    def call_later(
        self, call: Callable[..., Response], *args: Json, **more: Json
    ) -> AgentCall:
        """Make a call as an agent, in the background."""
        return AgentCall(self._pool.submit(call, *args, **more))

    def create(self, **options: Json) -> TargetInstance:
        """Create an instance as an agent, and answer its init."""
        request = {"env_id": f"external/{self.name}", "wait_s": 10, **options}
        future = self._pool.submit(self.target.create_from, request)
        call = self.answer("init")
        equal(call.get("kwargs"), options.get("kwargs", {}), "kwargs of init")
        return future.result(TIMEOUT_S)

    def create_and_reset(self, **options: Json) -> TargetInstance:
        """Create an instance as an agent, and reset it."""
        instance = self.create(**options)
        self.reset(instance)
        return instance

    def reset(self, instance: TargetInstance) -> None:
        """Reset the instance as an agent."""
        agent = self.call_later(instance.post, "reset/", {})
        self.answer("reset", observation=OBSERVATION)
        equal(agent.body(200).get("observation"), OBSERVATION, "observation")

    def step(self, instance: TargetInstance, **changes: Json) -> dict[str, Json]:
        """Step as an agent; return the answer that it gets."""
        agent = self.call_later(instance.post, "step/", {"action": 1})
        self.answer("step", **{**_STEP, **changes})
        return agent.body(200)

    def close_instance(self, instance: TargetInstance) -> None:
        """Close the instance as an agent."""
        agent = self.call_later(instance.close)
        self.answer("close")
        equal(agent.response().status, 204, "status of close")


class AgentCall:
    """A call of an agent, made while the environment answers."""

    def __init__(self, future: Future[Response]) -> None:
        self._future = future

    def response(self) -> Response:
        """Wait for the answer."""
        return self._future.result(TIMEOUT_S)

    def body(self, status: int) -> dict[str, Json]:
        """Wait for an answer with a certain status; return its body.

        Raises:
            Mismatch: It has another status.
        """
        answer = self.response()
        if answer.status != status:
            raise Mismatch(f"status {status}", str(answer))
        actual: dict[str, Json] = answer.json()
        return actual

    def problem(self, status: int, code: str) -> dict[str, Json]:
        """Wait for a problem with a certain status and code; return it."""
        actual = self.body(status)
        equal(actual.get("code"), code, "code")
        return actual


class SocketEnv(CheckEnv):
    """An external environment connected by a WebSocket.

    Args:
        target: The server.
        hello: Its first message; a text is sent as it is.
    """

    def __init__(self, target: Target, hello: dict[str, Json] | str) -> None:
        super().__init__(target, "" if isinstance(hello, str) else hello["name"])
        self.socket = WebSocket(target, PATH)
        if self.socket.answer.status != 101:
            self.end()
            raise Mismatch("101 to the handshake", str(self.socket.answer))
        text = hello if isinstance(hello, str) else json.dumps(hello)
        self.write(text)
        self.welcome = self.receive()

    @classmethod
    def welcomed(cls, target: Target, **hello: Json) -> Self:
        """Connect, and expect a welcome.

        Raises:
            Mismatch: The server sends something else.
        """
        env = cls(target, hello_of(**hello))
        if env.welcome.get("type") != "welcome":
            env.end()
            raise Mismatch("welcome", json.dumps(env.welcome)[:300])
        return env

    def reconnect(self, **hello: Json) -> Self:
        """Close the connection, and resume over a new one."""
        self.end()
        return self.welcomed(
            self.target, name=self.name, resume=self.welcome["resume"], **hello
        )

    def end(self) -> None:
        """End the connection."""
        self.socket.end()

    def write(self, text: str) -> None:
        """Send a text unchanged."""
        self.socket.send(frame(TEXT, text.encode()))

    def send(self, message: dict[str, Json]) -> None:
        """Send a message."""
        self.write(json.dumps(message))

    def receive(self) -> dict[str, Json]:
        """Receive a message of the server; answer its pings."""
        payload = self.receive_payload(TEXT)
        try:
            actual = json.loads(payload)
        except ValueError as error:
            raise Mismatch("a message in JSON", str(error)) from None
        if not isinstance(actual, dict):
            raise Mismatch("an object", str(actual)[:200])
        return actual

    def receive_payload(self, opcode: int = BINARY) -> bytes:
        """Receive the payload of a message with a certain opcode."""
        while True:
            message = self.socket.read()
            if message.opcode == PING:
                self.socket.send(frame(PONG, bytes(message.payload)))
            elif message.opcode == opcode:
                return bytes(message.payload)
            else:
                raise Mismatch(f"a message of opcode {opcode}", str(message.opcode))


#: Seconds that one poll waits for a request.
POLL_S = 5


class PollingEnv(CheckEnv):
    """An external environment connected by HTTP long polling."""

    def __init__(self, target: Target) -> None:
        hello = hello_of()
        super().__init__(target, hello["name"])
        answer = target.post(PATH, hello)
        target.needs("external", answer)
        equal(answer.status, 200, "status of a hello")
        self.welcome = answer.json()
        self.path = f"{PATH}{self.welcome['connection']}/"

    def receive(self) -> dict[str, Json]:
        """Fetch a request of the server."""
        until = time.monotonic() + TIMEOUT_S
        while True:
            answer = self.target.get(f"{self.path}request?wait_s={POLL_S}")
            if answer.status != 204 or time.monotonic() > until:
                break
        equal(answer.status, 200, "status of a fetched request")
        actual: dict[str, Json] = answer.json()
        return actual

    def send(self, message: dict[str, Json]) -> None:
        """Post an answer."""
        answer = self.target.post(f"{self.path}answer", message)
        equal(answer.status, 204, "status of an answer")


_HEADER = struct.Struct("<IIHBBI")
_FAULT = 52
_NOTHING = b'{"dict":[]}'.ljust(16)
_RESET = b'{"dict":[["observation",{"nd":["<f4",[2]]}]]}'.ljust(48)
_LEAF = struct.pack("<2f", *OBSERVATION)


class Fault(NamedTuple):
    """The error that the server found in an answer."""

    message: str
    field: str


class TextMessages:
    """Answers in the JSON dialect.

    Args:
        env: The environment.
    """

    def __init__(self, env: SocketEnv) -> None:
        self._env = env

    def answer(self, kind: str) -> None:
        """Answer init, reset or close."""
        result = {"observation": OBSERVATION} if kind == "reset" else {}
        self._env.answer(kind, **result)

    def answer_badly(self, case: dict[str, Any]) -> None:
        """Answer a step with the bad answer of a vector."""
        request, text = self._env.expect_message("step"), case["text"]
        # The number of the request differs from that in the vector.
        known = f'"id":{case["number"]},'
        self._env.write(text.replace(known, f'"id":{request["id"]},', 1))

    def receive_fault(self) -> Fault:
        """Receive the fault message."""
        actual = self._env.expect_message("fault")
        return Fault(str(actual.get("message", "")), str(actual.get("field", "")))


class BinaryMessages:
    """Answers in the binary dialect.

    Args:
        env: The environment.
    """

    def __init__(self, env: SocketEnv) -> None:
        self._env = env

    def _receive(self) -> tuple[int, int, bytes]:
        message = self._env.receive_payload(BINARY)
        if len(message) < _HEADER.size:
            raise Mismatch("a header of 16 bytes", message.hex())
        _, head, _, operation, _, number = _HEADER.unpack_from(message)
        return operation, number, message[_HEADER.size + head :]

    def answer(self, kind: str) -> None:
        """Answer init, reset or close."""
        _, number, _ = self._receive()
        signature, leaves = (_RESET, _LEAF) if kind == "reset" else (_NOTHING, b"")
        body = struct.pack("<II", len(signature), 0) + signature + leaves
        header = _HEADER.pack(len(body), 0, 200, 0, 3, number)
        self._send(header + body)

    def answer_badly(self, case: dict[str, Any]) -> None:
        """Answer a step with the bad answer of a vector."""
        _, number, _ = self._receive()
        data = bytes.fromhex(case["hex"])
        if data[12:16] == struct.pack("<I", case["number"]):
            data = data[:12] + struct.pack("<I", number) + data[16:]
        self._send(data)

    def receive_fault(self) -> Fault:
        """Receive the fault message."""
        operation, _, body = self._receive()
        if operation != _FAULT:
            raise Mismatch(f"operation {_FAULT}, a fault", str(operation))
        try:
            actual = json.loads(body)
        except ValueError as error:
            raise Mismatch("a fault in JSON", str(error)) from None
        return Fault(str(actual.get("message", "")), str(actual.get("field", "")))

    def _send(self, data: bytes) -> None:
        self._env.socket.send(frame(BINARY, data))
