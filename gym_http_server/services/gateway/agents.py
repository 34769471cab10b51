"""Agents that drive an instance by ZeroMQ, with the messages of streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from gym_http_server.access.identities import CREATE, STEP, Identity
from gym_http_server.operations.create_bodies import divide, is_large
from gym_http_server.services.gateway.context import Context
from gym_http_server.services.gateway.host_stream import HostStream
from gym_http_server.services.gateway.messages import Agent, refusal, welcome
from gym_http_server.services.gateway.router import Outbox
from gym_http_server.services.gateway.supervisor_call import SupervisorCall
from gym_http_wire.frames import HEADER, Frame
from gym_http_wire.handshakes import new_session
from gym_http_wire.messages import (
    PLAIN_BOTH_WAYS,
    WARNINGS_HEADER,
    Op,
    RequestHead,
    answer_head,
    problem_of,
    request,
)
from gym_http_wire.problems import BadParameter, Problem

__all__ = ["AgentPeer"]

# An agent ends its instance by this operation, for which HTTP has a route.
_CLOSE_OP = bytes([Op.CLOSE])
_AT_OP = 10
_encode = msgspec.json.Encoder().encode


class _Closing(msgspec.Struct):
    op: str
    number: int = 0


_decode_closing = msgspec.json.Decoder(_Closing).decode


class AgentPeer:
    """The gateway's end of the conversation with one agent.

    Args:
        context: The state that all peers share.
        outbox: Sends messages to the agent.
        identity: The identity of the agent's token.
        greeting: Its first message.
        on_close: Called when the conversation is over.

    Raises:
        ScopeMissing: Its token lacks the scope.
    """

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        identity: Identity,
        greeting: Agent,
        on_close: Callable[[], None],
    ) -> None:
        identity.require(STEP)
        self._identity = identity
        self._context = context
        self._outbox = outbox
        self._on_close = on_close
        self._text = greeting.dialect == "json"
        self._session = greeting.session or new_session()
        self._lost_s = greeting.lost
        # Whether no other client could get the ID of the instance that it creates.
        self._its_own = not (greeting.key or greeting.instance_id)
        self._welcomed = False
        # Warnings of the create request, as JSON.
        self._warnings = b""
        self._instance_id = greeting.instance_id
        self._call: SupervisorCall | None = None
        self._stream: HostStream | None = None
        if greeting.instance_id:
            self._open(identity.only)
            return
        identity.require(CREATE)
        head = RequestHead(key=greeting.key, owner=identity.only, creator=identity.name)
        self._create(bytes(greeting.create), head)

    def _create(self, body: bytes, head: RequestHead) -> None:
        if not is_large(body, PLAIN_BOTH_WAYS):
            frame = request(Op.CREATE, body, head)
            self._call = SupervisorCall(self._context, frame, self._made)
            return
        divided = divide(body, PLAIN_BOTH_WAYS)
        with divided.memory as memory:
            head = msgspec.structs.replace(head, digest=divided.digest)
            frame = request(Op.CREATE, divided.members, head)
            self._call = SupervisorCall(self._context, frame, self._made, memory)

    def receive(self, payload: bytes) -> None:
        """Pass a request of the agent on."""
        if self._stream is None or not self._welcomed:
            words = "a message arrived before the welcome: wait for that"
            self._refuse(BadParameter(words))
            self.leave()
            return
        number = self._closing(payload)
        if number is None:
            self._stream.send(payload)
            return
        self._stream.close()
        key = f"{self._session}-{number}"
        head = RequestHead(instance_id=self._instance_id, key=key)
        self._call = SupervisorCall(
            self._context,
            request(Op.END, head=head),
            lambda answer: self._closed(number, answer),
        )

    def resume(self) -> None:
        """Continue, since the agent reads messages again."""
        if self._stream is not None:
            self._stream.resume()

    def leave(self) -> None:
        """Clean up after the agent has disconnected; its instance stays."""
        if self._stream is not None:
            self._stream.close()
        elif self._call is not None:
            made = self._call.cancel()
            if made is not None and made.status == 200:
                self._instance_id = _instance_in(made)
        if self._its_own and not self._welcomed and self._instance_id:
            head = RequestHead(instance_id=self._instance_id)
            SupervisorCall(
                self._context, request(Op.END, head=head), lambda answer: None
            )

    def _made(self, answer: Frame) -> None:
        if answer.status != 200:
            self._refuse(problem_of(answer))
            return
        self._instance_id = _instance_in(answer)
        self._warnings = answer_head(answer).headers.get(WARNINGS_HEADER, "").encode()
        self._open("")

    def _open(self, owner: str) -> None:
        self._stream = HostStream(
            self._context,
            self._instance_id,
            session=self._session,
            text=self._text,
            lost_s=self._lost_s,
            owner=owner,
            token=self._identity.name,
            on_open=self._opened,
            on_message=self._send_on,
            on_end=self._refuse,
        )

    def _opened(self) -> None:
        self._welcomed = True
        most = self._context.settings.max_request
        self._outbox.send(
            welcome(self._instance_id, self._session, most, self._warnings)
        )

    def _send_on(self, payload: bytes) -> None:
        self._outbox.send(payload)
        if self._outbox.full_since and self._stream is not None:
            self._stream.pause()

    def _refuse(self, problem: Problem) -> None:
        self._outbox.send(refusal(problem))
        self._on_close()

    def _closing(self, payload: bytes) -> int | None:
        """Return the number of a request to end the instance; else ``None``."""
        if not self._text:
            if payload[_AT_OP : _AT_OP + 1] != _CLOSE_OP or len(payload) < HEADER.size:
                return None
            return int(HEADER.unpack_from(payload)[-1])
        if b'"close"' not in payload:
            return None
        try:
            closing = _decode_closing(payload)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            # The host answers with the error.
            return None
        return closing.number if closing.op == "close" else None

    def _closed(self, number: int, answer: Frame) -> None:
        if answer.status != 200:
            self._refuse(problem_of(answer))
            return
        if self._text:
            message: dict[str, Any] = {"number": number, "status": 204, "body": None}
            self._outbox.send(_encode(message))
        else:
            self._outbox.send(HEADER.pack(0, 0, 204, 0, 0, number))
        self._on_close()


def _instance_in(made: Frame) -> str:
    return str(msgspec.json.decode(made.body)["instance_id"])
