"""Greetings: how the conversation begins, on every transport in JSON.

::

    {"type": "hello", "protocol": 1, "name": "sokoban", "observation_space": {…},
     "action_space": {…}, "capabilities": ["reset", "seed"], "dialect": "json"}
    {"type": "welcome", "protocol": 1, "connection": "…", "resume": "…", …}
    {"type": "refused", "code": "bad-hello", "message": "…"}
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

__all__ = [
    "CAPABILITIES",
    "DIALECTS",
    "MAX_HELLO_BYTES",
    "PROTOCOL",
    "TANGO",
    "BadHello",
    "Hello",
    "Limits",
    "Refused",
    "Welcome",
    "is_name",
    "parse_hello",
    "parse_reply",
    "parse_token",
]

PROTOCOL = 1
MAX_HELLO_BYTES = 1024 * 1024
MAX_CHANNELS = 64
CAPABILITIES = (
    "attributes",
    "options",
    "pause",
    "realtime",
    "render",
    "replay",
    "reset",
    "seed",
)
DIALECTS = ("json", "typed", "binary")
#: The dialect of those who say no hello, and for whom others say it.
TANGO = "tango"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}").fullmatch
_CHANNEL = re.compile(r"[!-~]{1,64}").fullmatch


class BadHello(ValueError):
    """What came in the place of a hello is none, or says what cannot be.

    Attributes:
        code: In a word.
    """

    def __init__(self, words: str, code: str = "bad-hello") -> None:
        super().__init__(words)
        self.code = code


class Hello(msgspec.Struct, omit_defaults=True, tag_field="type", tag="hello"):
    """What an environment says of itself.

    Attributes:
        protocol: Version of the conversation.
        name: The environment is ``external/NAME``.
        observation_space: Its description.
        action_space: Its description.
        token: The server's, where the transport has no header for it.
        reward_channels: Names of what a reward consists of; without, it is a number.
        render_modes: What it can be created with.
        metadata: As Gymnasium's environments have it.
        capabilities: Some of `CAPABILITIES`; others are for later versions.
        realtime: ``{"hz": 60}``, where it does not wait.
        dialect: One of `DIALECTS`, or `TANGO`.
        resume: The token of an earlier welcome, to go on where that stopped.
    """

    protocol: int
    name: str
    observation_space: dict[str, Any]
    action_space: dict[str, Any]
    token: str = ""
    reward_channels: list[str] | None = None
    render_modes: list[str] = []
    metadata: dict[str, Any] = {}
    capabilities: list[str] = []
    realtime: dict[str, Any] | None = None
    dialect: str = "json"
    resume: str = ""

    def has(self, capability: str) -> bool:
        """Whether the environment can do something."""
        return capability in self.capabilities

    def public(self) -> Hello:
        """Give it without what is secret."""
        return msgspec.structs.replace(self, token="", resume="")


class Limits(msgspec.Struct):
    """What a connection is held to.

    Attributes:
        max_message: Bytes that a message may have.
    """

    max_message: int


class Welcome(msgspec.Struct, tag_field="type", tag="welcome"):
    """What a server answers to a hello.

    Attributes:
        connection: The connection's ID, for logs.
        resume: Shown in a later hello, it goes on with this connection.
        resumed: Whether this goes on with an earlier one.
        heartbeat_s: After as long without a word the server pings.
        grace_s: Within as long a connection can be gone on with.
    """

    protocol: int
    connection: str
    resume: str
    resumed: bool
    heartbeat_s: float
    grace_s: float
    limits: Limits


class Refused(msgspec.Struct, tag_field="type", tag="refused"):
    """What a server answers to what is no hello, or one that it does not take."""

    code: str
    message: str


class _Token(msgspec.Struct):
    token: str = ""


# Of one type alone, the tag may be missing.
_decode_hello = msgspec.json.Decoder(Hello | Refused).decode
_decode_token = msgspec.json.Decoder(_Token).decode
_decode_reply = msgspec.json.Decoder(Welcome | Refused).decode


def is_name(name: str) -> bool:
    """Whether an environment may be called so."""
    return _NAME(name) is not None


def parse_token(payload: bytes) -> str:
    """Read the token of a hello; all other members are skipped unread.

    Raises:
        BadHello: It is not a JSON object, or its token is not a string.
    """
    try:
        return _decode_token(payload).token
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadHello(f"this is no hello: {error}") from None


def parse_hello(payload: bytes) -> Hello:
    """Read a hello; its spaces are not looked into.

    Raises:
        BadHello: It is none.
    """
    try:
        hello = _decode_hello(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadHello(f"this is no hello: {error}") from None
    if not isinstance(hello, Hello):
        raise BadHello("this is no hello: its type is 'refused'")
    if hello.protocol != PROTOCOL:
        raise BadHello(
            f"protocol is {hello.protocol}: expected {PROTOCOL}", "bad-protocol"
        )
    if not is_name(hello.name):
        raise BadHello(
            f"name is {hello.name!r:.80}: expected a letter or digit, then up to 63 "
            "of A-Z, a-z, 0-9, _, . and -"
        )
    if hello.dialect not in DIALECTS:
        raise BadHello(
            f"dialect is {hello.dialect!r:.80}: expected one of {', '.join(DIALECTS)}"
        )
    _check_channels(hello.reward_channels)
    _check_rate(hello)
    return hello


def parse_reply(payload: bytes) -> Welcome | Refused:
    """Read what a server answers to a hello.

    Raises:
        BadHello: It is nothing that a server answers.
    """
    try:
        reply: Welcome | Refused = _decode_reply(payload)
        return reply
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadHello(f"the answer to the hello is none: {error}") from None


def _check_channels(channels: list[str] | None) -> None:
    if channels is None:
        return
    good = 0 < len(channels) <= MAX_CHANNELS and len(set(channels)) == len(channels)
    if not good or not all(map(_CHANNEL, channels)):
        raise BadHello(
            f"reward_channels is {channels!r:.80}: expected 1 to {MAX_CHANNELS} names, "
            "no two alike"
        )


def _check_rate(hello: Hello) -> None:
    if hello.realtime is None:
        return
    rate = hello.realtime.get("hz")
    if not isinstance(rate, int | float) or not 0 < rate <= 1e6:
        raise BadHello(f"realtime.hz is {rate!r:.80}: expected a number above 0, as 60")
