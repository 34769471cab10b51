"""One HTTP exchange, on the bare WSGI environment: body in, answer out."""

from __future__ import annotations

import http
import io
import re
import secrets
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from gym_http_server.access.identities import Identity
from gym_http_server.errors import (
    BodyIncomplete,
    BodyTooLarge,
    ContentEncoding,
    did_you_mean,
)
from gym_http_server.operations.keys import check_key
from gym_http_server.operations.members import Members, read_texts
from gym_http_server.web.backends.arriving_answer import ArrivingAnswer
from gym_http_server.web.backends.budget import LargeBody, Pieces
from gym_http_server.web.backends.downloads import Download
from gym_http_wire.frames import Frame
from gym_http_wire.messages import (
    MEDIA_TYPES,
    NODE_KEY,
    Form,
    answer_head,
    media_type_of,
    problem_of,
)
from gym_http_wire.problems import BadJSON, BadParameter

__all__ = [
    "CALLER",
    "FORWARDED",
    "MAX_QUERY",
    "NOSNIFF",
    "REQUEST_ID",
    "SAME_HEAD",
    "STATUS_LINES",
    "SWITCHED",
    "Answer",
    "Environ",
    "accepted",
    "address_of",
    "caller_of",
    "check_complete",
    "check_encoding",
    "check_size",
    "empty_answer",
    "forms",
    "frame_answer",
    "json_answer",
    "json_object",
    "key_of",
    "parts_of",
    "read_body",
    "read_into",
    "read_parameters",
    "read_query",
    "read_some",
    "request_id_of",
    "send",
    "trace_id_of",
    "with_body",
]

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]

#: Key of the WSGI environment under which the identity of the caller is.
CALLER = "gym_http_server.caller"
#: Key of the WSGI environment of a request that another node of a fleet has forwarded.
FORWARDED = "gym_http_server.forwarded"
#: Key of the WSGI environment of a dictionary that requests with the same head share.
SAME_HEAD = "gym_http_server.same_head"
JSON = "application/json"
# Content type of empty answers, as of gym-http-api; some clients check it.
EMPTY_TYPE = "text/html; charset=utf-8"
STATUS_LINES = {
    status.value: f"{status.value} {status.phrase}" for status in http.HTTPStatus
}
#: Header with the ID of a request, in answers to callers that sent it and in problems.
REQUEST_ID = "X-Request-Id"
#: Characters that a query may have.
MAX_QUERY = 4096
#: In every answer: no browser may treat one as a script or a page of another type.
NOSNIFF = ("X-Content-Type-Options", "nosniff")
# Hosts get the accepted media types in a head, which has a limit.
MAX_ACCEPTED = 32
MAX_MEDIA_CHARS = 128
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}").fullmatch
# The header traceparent of W3C Trace Context; later versions may append fields.
_TRACE = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_REQUEST_ID_KEY = "gym_http_server.request_id"
_VENDOR = "application/vnd.gym-http."
# Plain numbers: members of an enumeration would be looked up with each request.
_PLAIN = int(Form.PLAIN)
_FORMS = {media: int(form) for form, media in MEDIA_TYPES.items()}


class Answer(NamedTuple):
    """The answer to a request.

    Attributes:
        status: HTTP status.
        headers: Without Content-Length.
        body: The body; it may be read or received while it is sent.
    """

    status: int
    headers: list[tuple[str, str]]
    body: bytes | LargeBody | Download | ArrivingAnswer


#: No answer: another process has the connection now.
SWITCHED = Answer(101, [], b"")


def caller_of(environ: Environ) -> Identity:
    """Return the identity of a request's token."""
    identity: Identity = environ[CALLER]
    return identity


def address_of(environ: Environ) -> str:
    """Return the address of a request's client, for a message."""
    return environ["REMOTE_ADDR"] or "a local socket"


def request_id_of(environ: Environ) -> str:
    """Return the caller's request ID if it is well-formed, else a new one."""
    request_id: str = environ.get(_REQUEST_ID_KEY, "")
    if not request_id:
        given = environ.get("HTTP_X_REQUEST_ID", "")
        request_id = given if _REQUEST_ID(given) else secrets.token_hex(8)
        environ[_REQUEST_ID_KEY] = request_id
    return request_id


def trace_id_of(environ: Environ) -> str:
    """Return the trace ID of a request's header traceparent, or ""."""
    given = _TRACE.fullmatch(environ.get("HTTP_TRACEPARENT", ""))
    return given[1] if given and int(given[1], 16) else ""


def send(answer: Answer, start_response: StartResponse) -> Iterable[bytes]:
    """Return an answer in the form of WSGI.

    Raises:
        StopIteration: Another process has the connection; gunicorn leaves it alone.
    """
    if answer.status == SWITCHED.status:
        raise StopIteration
    headers = [*answer.headers, NOSNIFF]
    if answer.status != 204:
        headers.append(("Content-Length", str(len(answer.body))))
    start_response(STATUS_LINES[answer.status], headers)
    body = answer.body
    return [body] if type(body) is bytes else parts_of(body)


def parts_of(
    body: bytes | LargeBody | Download | ArrivingAnswer,
) -> Iterable[bytes]:
    """Return the body of an answer in the form of WSGI."""
    if isinstance(body, bytes):
        return [body]
    return Pieces(body) if isinstance(body, LargeBody) else body


def json_answer(body: bytes, status: int = 200) -> Answer:
    """Return an answer of encoded JSON."""
    return Answer(status, [("Content-Type", JSON)], body)


def empty_answer() -> Answer:
    """Return an answer without content."""
    return Answer(204, [("Content-Type", EMPTY_TYPE)], b"")


def frame_answer(frame: Frame) -> Answer:
    """Turn the answer of a host or the supervisor into HTTP.

    Raises:
        Problem: The answer is a problem.
    """
    if frame.status >= 400:
        problem = problem_of(frame)
        problem.headers |= answer_head(frame).headers
        raise problem
    if frame.status == 204:
        answer = empty_answer()
    elif frame.form == _PLAIN:
        answer = json_answer(frame.body, frame.status)
    elif frame.form in MEDIA_TYPES:
        media = MEDIA_TYPES[Form(frame.form)]
        answer = Answer(frame.status, [("Content-Type", media)], frame.body)
    else:
        answer = Answer(frame.status, [], frame.body)
    if frame.head:
        head = answer_head(frame)
        if head.content_type:
            answer.headers.append(("Content-Type", head.content_type))
        answer.headers.extend(head.headers.items())
    return answer


def read_body(environ: Environ, limit: int, setting: str = "--max-body") -> bytes:
    """Read the complete body, of a request with any method.

    Args:
        environ: The WSGI environment.
        limit: Bytes that the body may have.
        setting: The setting that has the limit; "" for one that cannot be set.

    Raises:
        BodyIncomplete: The body ends early, or its framing violates HTTP.
        BodyTooLarge: The body has more bytes.
        ContentEncoding: The body is compressed.
    """
    if "HTTP_CONTENT_ENCODING" in environ:
        check_encoding(environ)
    announced = int(environ.get("CONTENT_LENGTH") or 0)
    # Content-Length may be wrong, and a chunked body has none: the bytes that are
    # read count as well.
    body = read_some(environ, limit + 1) if announced <= limit else b""
    # Each step comes here, so the checks are called for bodies that fail them.
    if announced > limit or len(body) > limit:
        check_size(max(announced, len(body)), limit, setting)
    if len(body) < announced:
        check_complete(environ, len(body))
    return body


def json_object(body: bytes) -> dict[str, Any]:
    """Decode a body that is a JSON object, or empty.

    Raises:
        BadJSON: It is not.
    """
    if not body:
        return {}
    try:
        given = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise BadJSON() from None
    if not isinstance(given, dict):
        raise BadJSON("expected an object")
    return given


def with_body(environ: Environ, body: bytes) -> Environ:
    """Return the environment of a request with another body, which was read before."""
    return {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": len(body)}


def check_encoding(environ: Environ) -> None:
    """Check that the body is not compressed.

    Raises:
        ContentEncoding: The body is compressed.
    """
    if environ.get("HTTP_CONTENT_ENCODING", "identity").lower() not in ("identity", ""):
        raise ContentEncoding(
            f"the body is {environ['HTTP_CONTENT_ENCODING']:.40} encoded; "
            "send it as it is, without Content-Encoding"
        )


def read_some(environ: Environ, size: int) -> bytes:
    """Read so many bytes of the body; fewer only at its end.

    Raises:
        BodyIncomplete: The framing of the body violates HTTP.
    """
    try:
        body: bytes = environ["wsgi.input"].read(size)
    except Exception as error:  # raised by the web server
        raise BodyIncomplete(f"the body cannot be read: {error}") from None
    return body


def read_into(environ: Environ, memory: memoryview) -> int:
    """Read bytes of the body into memory, as soon as there are some.

    Returns:
        Their number; 0 at the end of the body.

    Raises:
        BodyIncomplete: The framing of the body violates HTTP.
    """
    try:
        count: int = environ["wsgi.input"].readinto(memory)
    except Exception as error:  # raised by the web server
        raise BodyIncomplete(f"the body cannot be read: {error}") from None
    return count


def read_now(environ: Environ, memory: memoryview) -> int | None:
    """Read bytes of the body into memory that have arrived; it may run in a thread.

    Returns:
        Their number; 0 at the end of the body; ``None`` if there are none yet, or if
        that is not known.

    Raises:
        BodyIncomplete: The framing of the body violates HTTP.
    """
    read = getattr(environ["wsgi.input"], "readinto_now", None)
    try:
        count: int | None = None if read is None else read(memory)
    except Exception as error:  # raised by the web server
        raise BodyIncomplete(f"the body cannot be read: {error}") from None
    return count


def check_size(size: int, limit: int, setting: str) -> None:
    """Check the size of a body.

    Args:
        size: Bytes of the body.
        limit: Bytes that it may have.
        setting: The setting that has the limit; "" for one that cannot be set.

    Raises:
        BodyTooLarge: It is above the limit.
    """
    if size > limit:
        raise BodyTooLarge(
            f"the body has more than the {limit} bytes that this server takes"
            + (f" ({setting})" if setting else "")
        )


def check_complete(environ: Environ, size: int) -> None:
    """Check that a body has the announced size.

    Raises:
        BodyIncomplete: It has fewer bytes.
    """
    announced = int(environ.get("CONTENT_LENGTH") or 0)
    if size < announced:
        raise BodyIncomplete(
            f"the body ended after {size} of the {announced} bytes announced"
        )


def forms(environ: Environ) -> int:
    """Return the form of the body and, in the high half, the form of the answer.

    Everything but the lossless forms counts as plain JSON: old clients send and accept
    many media types.
    """
    content_type = environ.get("CONTENT_TYPE", JSON)
    given = _FORMS.get(content_type)
    if given is None:
        # As it is spelled seldom: in capitals, or with a parameter.
        given = _FORMS.get(media_type_of(content_type), _PLAIN)
    accept = environ.get("HTTP_ACCEPT", "")
    wanted = _FORMS.get(accept)
    if wanted is None:
        wanted = _PLAIN
        if _VENDOR in accept.lower():
            known = (_FORMS[each] for each in accepted(environ) if each in _FORMS)
            wanted = next(known, _PLAIN)
    return given | wanted << 4


def read_query(query: str, names: Collection[str], most: int) -> dict[str, str]:
    """Return the texts of a query's parameters.

    Args:
        query: The query.
        names: Names that the parameters may have.
        most: Characters that the query may have.

    Raises:
        BadParameter: The query is too long, or a parameter is unknown or given twice.
    """
    if len(query) > most:
        raise BadParameter(
            f"the query has {len(query)} characters: expected at most {most}"
        )
    texts: dict[str, str] = {}
    for name, text in parse_qsl(query, keep_blank_values=True) if query else ():
        if name not in names:
            known = ", ".join(names) if names else "none"
            hint = did_you_mean(name, names)
            raise BadParameter(
                f"the parameter {name!r:.40} is unknown: expected {known}{hint}"
            )
        if name in texts:
            raise BadParameter(f"the parameter {name} is given twice: expected one")
        texts[name] = text
    return texts


def read_parameters(environ: Environ, members: Members) -> dict[str, Any]:
    """Read the query of a request.

    Raises:
        MissingParameter: A required parameter is not given.
        BadParameter: The query is too long, or a parameter is unknown, given twice or
            has a value that it cannot have.
    """
    texts = read_query(environ.get("QUERY_STRING", ""), members, MAX_QUERY)
    return read_texts(members, texts)


def key_of(environ: Environ) -> str:
    """Return the idempotency key of a request; "" without one.

    It begins with `NODE_KEY` only if another node has made it.

    Raises:
        BadParameter: The key is malformed.
    """
    key: str = environ.get("HTTP_IDEMPOTENCY_KEY", "")
    if key and not (FORWARDED in environ and key.startswith(NODE_KEY)):
        check_key(key, "Idempotency-Key")
    return key


def accepted(environ: Environ) -> tuple[str, ...]:
    """List the media types that the caller accepts, the preferred first."""
    header = environ.get("HTTP_ACCEPT", "")
    weighted = []
    for part in header.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        if 0 < len(name) <= MAX_MEDIA_CHARS and weight > 0:
            weighted.append((-weight, name))
    names = [name for _, name in sorted(weighted, key=lambda pair: pair[0])]
    return tuple(names[:MAX_ACCEPTED])
