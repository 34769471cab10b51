"""Requests and answers in frames: operations, forms, heads and problems.

Heads are small typed records. An empty one is not encoded, so the frame of an ordinary
step has no head.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeVar

import msgspec

from gym_http_wire.frames import Frame
from gym_http_wire.problems import Problem

__all__ = [
    "MEDIA_TYPES",
    "NODE_KEY",
    "NODE_PROOF",
    "PLAIN_BOTH_WAYS",
    "SPACES_VERSION",
    "WARNINGS",
    "WARNINGS_HEADER",
    "AnswerHead",
    "Form",
    "Op",
    "RequestHead",
    "answer",
    "answer_head",
    "media_type_of",
    "problem_answer",
    "problem_of",
    "request",
    "request_head",
]


class Op(IntEnum):
    """Operations, by their numbers in frames.

    Numbers below 32 are operations of an instance, over streams too; 32 and 33 are for
    its host only. Operations from 48 on are for external environments (`CLOSE` also
    ends an instance over ZeroMQ), from 64 on for the supervisor, from 96 on for the
    broker, and from 128 on for the relay. `BATCH` marks the frames of a bundle.
    """

    ANSWER = 0
    RESET = 1
    STEP = 2
    RENDER = 3
    DESCRIBE = 4
    ACTION_SPACE = 5
    OBSERVATION_SPACE = 6
    ACTION_SAMPLE = 7
    OBSERVATION_SAMPLE = 8
    ACTION_CONTAINS = 9
    OBSERVATION_CONTAINS = 10
    MONITOR_START = 11
    MONITOR_CLOSE = 12
    GENERATOR = 13
    SET_GENERATOR = 14
    ATTRIBUTE = 15
    SET_ATTRIBUTE = 16
    CALL_ATTRIBUTE = 17
    ROLLOUT = 18
    ACT = 19
    UPDATES = 20
    REALTIME = 21
    SET_REALTIME = 22
    PAUSE = 23
    RESUME = 24
    TRACE = 25
    EPISODES = 26
    KEYS = 27
    STREAM = 32
    MONITOR = 33

    INIT = 48
    CLOSE = 49
    PING = 50
    PONG = 51
    FAULT = 52

    CREATE = 64
    LIST = 65
    END = 66
    TOMBSTONE = 67
    REGISTRY = 68
    STATUS = 69
    SHUTDOWN = 70
    BROKER = 71
    MONITOR_FILE = 72
    INSTANCES = 73
    LOG = 74
    SERVER_LOG = 75
    RELAY = 76
    FIGURES = 77
    STREAM_LOG = 78
    RELOAD = 79
    PROGRAM = 80
    ARCHIVE = 81
    ARCHIVED = 82
    EVENTS = 83
    THUMBNAIL = 84
    END_ALL = 85

    EXTERNAL_CONNECT = 96
    EXTERNAL_LIST = 97
    EXTERNAL_LEASE = 98
    EXTERNAL_RELEASE = 99
    EXTERNAL_ADOPT = 100
    EXTERNAL_RESUMED = 101
    EXTERNAL_HELLO = 102
    EXTERNAL_POLL = 103
    EXTERNAL_ANSWER = 104
    EXTERNAL_STATUS = 105
    EXTERNAL_HOST = 106
    EXTERNAL_REVOKED = 107
    EXTERNAL_LOST = 108
    EXTERNAL_REPLACED = 109

    RELAY_STATUS = 128
    RELAY_ADMIT = 129
    RUN_CREATE = 130
    RUN_LIST = 131
    RUN_STATUS = 132
    RUN_DELETE = 133
    TOKEN_CREATE = 134
    TOKEN_LIST = 135
    TOKEN_DELETE = 136
    SESSION_CREATE = 137
    SESSION_STATUS = 138
    SESSION_END = 139
    SAMPLES_PUT = 140
    SAMPLES_GET = 141
    READER_PUT = 142
    READER_GET = 143
    READER_DELETE = 144
    LEASE = 145
    ACK = 146
    NACK = 147
    ASIDE = 148
    WEIGHTS_PUT = 149
    WEIGHTS_GET = 150
    STATE_PUT = 151
    STATE_GET = 152
    RECORDS_PUT = 153
    RECORDS_GET = 154

    BATCH = 160


class Form(IntEnum):
    """How a body is encoded."""

    NONE = 0
    PLAIN = 1
    TYPED = 2
    BINARY = 3
    OTHER = 15


MEDIA_TYPES = {
    Form.PLAIN: "application/json",
    Form.TYPED: "application/vnd.gym-http.typed+json",
    Form.BINARY: "application/vnd.gym-http.binary",
}
"""Media types of the forms that values have."""


def media_type_of(content_type: str) -> str:
    """Return a Content-Type's media type in lower case, without parameters."""
    return content_type.partition(";")[0].strip().lower()


#: Prefix of the idempotency keys that a node of a fleet adds to requests that it
#: forwards, if their clients gave none. The key of a client has no blank.
NODE_KEY = "node "
#: Header by which a node shows other nodes that an answer is its own.
NODE_PROOF = "Gym-Node-Proof"
#: The place of warnings in an answer: a member of its value, or a header (ASCII JSON).
SPACES_VERSION = "spaces_version"
WARNINGS, WARNINGS_HEADER = "warnings", "Gym-Warnings"


class RequestHead(msgspec.Struct, omit_defaults=True):
    """The head of a request.

    Attributes:
        instance_id: The instance, for processes that serve several; of a create, an
            instance that it replaces, in the same slot.
        value: The last part of the path, where it is an argument.
        accept: Media types that the client accepts, the preferred one first.
        key: The idempotency key; a repeated request gets the first answer.
        owner: Owner that instances must have, by the name of its token; "" is any.
        creator: Name of the token that creates an instance; "" if it has none.
        request_id: ID of the HTTP request, for the log.
        digest: SHA-256 of a create's body, in hex, if it travels by descriptor.
        held: Of a create: whether its instance ends with the connection that it is sent
            over.
        resumed: Of a create: whether a web worker has made its body from the recording
            that a client may resume. A client sends bodies and no heads.
    """

    instance_id: str = ""
    key: str = ""
    value: str | None = None
    accept: tuple[str, ...] = ()
    owner: str = ""
    creator: str = ""
    request_id: str = ""
    digest: str = ""
    held: bool = False
    resumed: bool = False


class AnswerHead(msgspec.Struct, omit_defaults=True):
    """The head of an answer.

    Attributes:
        content_type: Media type of the body, unless it is plain JSON.
        headers: Further HTTP headers.
        instance_id: The created instance, where web workers cannot decode the body.
    """

    content_type: str = ""
    headers: dict[str, str] = {}
    instance_id: str = ""


class _ProblemBody(msgspec.Struct):
    code: str
    message: str
    extras: dict[str, Any] = {}


_H = TypeVar("_H")
_json_encode = msgspec.json.Encoder().encode
_decode_request_head = msgspec.json.Decoder(RequestHead).decode
_decode_answer_head = msgspec.json.Decoder(AnswerHead).decode
_decode_problem = msgspec.json.Decoder(_ProblemBody).decode
_NO_REQUEST_HEAD = RequestHead()
_NO_ANSWER_HEAD = AnswerHead()


PLAIN_BOTH_WAYS = Form.PLAIN | Form.PLAIN << 4


def request(
    op: Op,
    body: bytes = b"",
    head: RequestHead | None = None,
    number: int = 0,
    *,
    form: int = PLAIN_BOTH_WAYS,
) -> Frame:
    """Make the frame of a request.

    Args:
        op: The operation.
        body: The body, encoded.
        head: The head, if there is one.
        number: Echoed by the answer.
        form: Form of the body, and in the high half that of the answer.
    """
    encoded = b"" if head is None else _json_encode(head)
    return Frame(op, number, 0, form, encoded, body)


def request_head(frame: Frame) -> RequestHead:
    """Decode the head of a request."""
    return _decode_request_head(frame.head) if frame.head else _NO_REQUEST_HEAD


def answer(
    status: int,
    body: bytes = b"",
    head: AnswerHead | None = None,
    *,
    form: Form = Form.PLAIN,
    number: int = 0,
) -> Frame:
    """Make the frame of an answer."""
    encoded = b"" if head is None else _json_encode(head)
    return Frame(Op.ANSWER, number, status, form, encoded, body)


def answer_head(frame: Frame) -> AnswerHead:
    """Decode the head of an answer."""
    return _decode_answer_head(frame.head) if frame.head else _NO_ANSWER_HEAD


def problem_answer(problem: Problem, number: int = 0) -> Frame:
    """Make the frame of an answer that reports a problem."""
    body = _json_encode(_ProblemBody(problem.code, problem.message, problem.extras))
    return Frame(Op.ANSWER, number, problem.status, Form.PLAIN, b"", body)


def problem_of(frame: Frame) -> Problem:
    """Decode the problem of an answer with a status of 400 or above."""
    body = _decode_problem(frame.body)
    return Problem(
        body.message, status=frame.status, code=body.code, extras=body.extras
    )
