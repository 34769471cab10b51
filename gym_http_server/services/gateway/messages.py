"""The first messages of the gateway's peers, and the gateway's own."""

from __future__ import annotations

from typing import Any

import msgspec

from gym_http_server.operations.keys import check_key
from gym_http_wire.external.handshake import PROTOCOL
from gym_http_wire.handshakes import SESSION
from gym_http_wire.messages import WARNINGS
from gym_http_wire.problems import BadParameter, Problem

__all__ = ["REFUSED", "Agent", "First", "agent_of", "first_of", "refusal", "welcome"]

#: How every refusal begins; no frame of the binary dialects does.
REFUSED = b'{"type":"refused",'
_DIALECTS = ("json", "binary")
_NOTHING = msgspec.Raw(b"")


class First(msgspec.Struct):
    """The members that every first message has.

    Attributes:
        type: The kind of peer or message.
        token: The server's token, if it has one.
    """

    type: str = ""
    token: str = ""


class Agent(msgspec.Struct):
    """The first message of an agent.

    Attributes:
        protocol: Version of the conversation.
        token: The server's token, if it has one.
        dialect: Dialect of the stream's messages, ``json`` or ``binary``.
        session: Name of the stream's session; with "" the server chooses one.
        create: Body of a create request, instead of an instance; or empty.
        key: Idempotency key of the create request, or "".
        instance_id: The instance to continue with, instead of a create request.
        lost: Seconds since it lost an answer along with a stream.
    """

    protocol: int
    token: str = ""
    dialect: str = "json"
    session: str = ""
    create: msgspec.Raw = _NOTHING
    key: str = ""
    instance_id: str = ""
    lost: float | None = None


_decode_first = msgspec.json.Decoder(First).decode
_decode_agent = msgspec.json.Decoder(Agent).decode
_encode = msgspec.json.Encoder().encode


def first_of(payload: bytes) -> First:
    """Parse the members that every first message has; malformed ones have defaults."""
    try:
        return _decode_first(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return First()


def agent_of(payload: bytes) -> Agent:
    """Parse the first message of an agent.

    Raises:
        BadParameter: It is malformed.
    """
    try:
        agent = _decode_agent(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        words = f"the first message of an agent is malformed: {error}"
        raise BadParameter(words) from None
    if agent.protocol != PROTOCOL:
        raise BadParameter(f"protocol is {agent.protocol}: expected {PROTOCOL}")
    if agent.dialect not in _DIALECTS:
        raise BadParameter(f"dialect is {agent.dialect!r:.80}: expected json or binary")
    if agent.session and not SESSION(agent.session):
        raise BadParameter(
            f"session is {agent.session!r:.80}: expected 1 to 64 of A-Z, a-z, 0-9, _ "
            "and -"
        )
    if agent.key:
        check_key(agent.key, "key")
    if bool(bytes(agent.create)) == bool(agent.instance_id):
        raise BadParameter("expected either create or instance_id")
    return agent


def welcome(
    instance_id: str, session: str, max_message: int, warnings: bytes = b""
) -> bytes:
    """Return the answer to an agent; warnings, if there are any, are JSON."""
    message: dict[str, Any] = {
        "type": "welcome",
        "protocol": PROTOCOL,
        "instance_id": instance_id,
        "session": session,
        "limits": {"max_message": max_message},
    }
    if warnings:
        message[WARNINGS] = msgspec.Raw(warnings)
    return _encode(message)


def refusal(problem: Problem) -> bytes:
    """Return the message that ends or refuses a conversation, with the reason."""
    message: dict[str, Any] = {
        "type": "refused",
        "code": problem.code,
        "message": problem.message,
        "status": problem.status,
    }
    extras = {k: v for k, v in problem.extras.items() if k not in message}
    return _encode(message | extras)
