"""The handshake of external environments, in JSON on every transport.

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
#: The dialect of environments that send no hello; the server makes it for them.
TANGO = "tango"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}").fullmatch
_CHANNEL = re.compile(r"[!-~]{1,64}").fullmatch


class BadHello(ValueError):
    """A hello, or the reply to one, is malformed or not acceptable.

    Attributes:
        code: A short name of the error, for programs.
    """

    def __init__(self, words: str, code: str = "bad-hello") -> None:
        super().__init__(words)
        self.code = code


class Hello(msgspec.Struct, omit_defaults=True, tag_field="type", tag="hello"):
    """The first message of an environment, which describes it.

    Attributes:
        protocol: Version of the protocol.
        name: The environment is ``external/NAME``.
        observation_space: Its description.
        action_space: Its description.
        token: Token of the server, where the transport has no header for it.
        reward_channels: Names of the components of a reward; without, it is a number.
        render_modes: Render modes that it supports.
        metadata: Metadata, as of Gymnasium's environments.
        capabilities: Some of `CAPABILITIES`; others are for later versions.
        realtime: ``{"hz": 60}``, if it does not wait for steps.
        dialect: One of `DIALECTS`, or `TANGO`.
        resume: The token of an earlier welcome, to resume that connection.
        replace: Whether the program, once it was started again, takes the place that it
            had in a running instance.
        program: Its versions, for people, as ``Python 3.7.16, gym 0.21.0``.
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
    replace: bool = False
    program: str = ""

    def has(self, capability: str) -> bool:
        """Whether the environment has a capability."""
        return capability in self.capabilities

    def public(self) -> Hello:
        """Return a copy without secrets."""
        return msgspec.structs.replace(self, token="", resume="")


class Limits(msgspec.Struct):
    """Limits of a connection.

    Attributes:
        max_message: Bytes that a message may have.
    """

    max_message: int


class Welcome(msgspec.Struct, tag_field="type", tag="welcome"):
    """The server's reply to a hello that it accepts.

    Attributes:
        protocol: Version of the protocol.
        connection: The connection's ID, for logs.
        resume: Token for a later hello, to resume this connection.
        resumed: Whether this resumes an earlier connection.
        heartbeat_s: Seconds of silence after which the server pings.
        grace_s: Seconds for which a lost connection can be resumed.
        limits: Limits of the connection.
    """

    protocol: int
    connection: str
    resume: str
    resumed: bool
    heartbeat_s: float
    grace_s: float
    limits: Limits


class Refused(msgspec.Struct, tag_field="type", tag="refused"):
    """The server's reply to a hello that it does not accept."""

    code: str
    message: str


class _Token(msgspec.Struct):
    token: str = ""


# Of one type alone, the tag may be missing.
_decode_hello = msgspec.json.Decoder(Hello | Refused).decode
_decode_token = msgspec.json.Decoder(_Token).decode
_decode_reply = msgspec.json.Decoder(Welcome | Refused).decode


def is_name(name: str) -> bool:
    """Whether this is a valid name of an external environment."""
    return _NAME(name) is not None


def parse_token(payload: bytes) -> str:
    """Decode only the token of a hello.

    Raises:
        BadHello: The hello is not a JSON object, or its token is not a string.
    """
    try:
        return _decode_token(payload).token
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadHello(f"this is no hello: {error}") from None


def parse_hello(payload: bytes) -> Hello:
    """Decode a hello; its spaces are not parsed.

    Raises:
        BadHello: The hello is malformed.
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
    """Decode the server's reply to a hello.

    Raises:
        BadHello: The reply is malformed.
    """
    try:
        reply: Welcome | Refused = _decode_reply(payload)
        return reply
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadHello(f"the reply to the hello is malformed: {error}") from None


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
