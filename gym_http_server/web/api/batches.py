"""Steps of many instances in one request, each of them executed once.

Every step has an idempotency key, from the client or generated here. So a step is not
lost if its answer is missing from the answer of the batch. Its host keeps the answer,
and returns it when the step is sent again with this key.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from typing import Any, NamedTuple

import msgspec
from gevent.event import Event  # type: ignore[import-untyped]
from gevent.lock import BoundedSemaphore  # type: ignore[import-untyped]
from gevent.pool import Pool  # type: ignore[import-untyped]

from gym_http_server.operations.instances import BATCH, MAX_BATCH
from gym_http_server.operations.keys import check_key
from gym_http_server.operations.members import even_null, read
from gym_http_server.web.api.exchange import (
    FORWARDED,
    Answer,
    Environ,
    caller_of,
    forms,
    key_of,
    parts_of,
    read_body,
    request_id_of,
)
from gym_http_server.web.api.problems import problem_answer
from gym_http_server.web.api.web import View, Web
from gym_http_wire.frames import Frame
from gym_http_wire.messages import (
    MEDIA_TYPES,
    WARNINGS,
    WARNINGS_HEADER,
    Form,
    Op,
    RequestHead,
    answer_head,
    problem_of,
    request,
)
from gym_http_wire.problems import (
    BadJSON,
    BadParameter,
    EnvError,
    MissingParameter,
    NotAcceptable,
    Problem,
)

__all__ = [
    "BatchItem",
    "json_forms",
    "keys_of",
    "read_batch",
    "read_batch_body",
    "result_of_problem",
    "views",
]

log = logging.getLogger("gym_http_server.api")

# Limit of concurrent requests of all batches of one web worker; further ones wait.
MAX_UNDER_WAY = 2048
# Those of one of several tokens.
_MOST_OF_TOKEN = MAX_UNDER_WAY // 2
#: Bytes of a key in a step, with its name.
KEY_BYTES = 48
_NO_FRAME = Frame(Op.ANSWER)


class BatchItem(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A step of a batch."""

    instance_id: str
    action: msgspec.Raw = msgspec.Raw()
    actions: msgspec.Raw = msgspec.Raw()
    key: str | msgspec.UnsetType = msgspec.UNSET


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    steps: list[BatchItem] | None = None
    first: int | msgspec.UnsetType = msgspec.UNSET


class _Reply(NamedTuple):
    frame: Frame
    problem: Problem | None


_decode = msgspec.json.Decoder(_Request).decode
_skim = msgspec.json.Decoder(msgspec.Raw).decode


def views(web: Web) -> dict[str, View]:
    """Return the view of batches."""
    batches = _Batches(web)
    return {"batch_step": lambda _, environ: batches.step(environ)}


class _Batches:
    def __init__(self, web: Web) -> None:
        self._web = web
        self._under_way = Pool(MAX_UNDER_WAY)
        # By name; requests of a token wait for one another first.
        self._shares: dict[str, BoundedSemaphore] = {}

    def step(self, environ: Environ) -> Answer:
        """Take the steps, and answer when all or the requested number are done.

        Raises:
            BadJSON: The body is not JSON.
            MissingParameter: There are no steps.
            BadParameter: A step or another parameter is malformed.
            NotAcceptable: The client accepts another form only.
        """
        form = json_forms(environ)
        body = read_batch_body(environ, self._web.settings.max_body)
        items, first = read_batch(body)
        keys = keys_of(items, key_of(environ))
        replies = _Replies(first, self._web.settings.max_answer)
        owner = caller_of(environ).only
        share = self._share_of(caller_of(environ).name)
        for item, key in zip(items, keys, strict=True):
            frame = request(Op.STEP, _body(item), RequestHead(key=key), form=form)
            share.acquire()
            under_way = self._under_way.spawn(
                self._call, environ, item.instance_id, frame, owner, replies
            )
            under_way.rawlink(lambda ended: share.release())
        given = replies.wait()
        results, pending = [], []
        for item, key in zip(items, keys, strict=True):
            named = {"instance_id": item.instance_id, "key": key}
            reply = given.get(item.instance_id)
            if reply is None:
                pending.append(named)
            else:
                results.append(named | _result_of(reply, environ))
        answer = {"pending": pending, "results": results}
        encoded = msgspec.json.encode(answer, order="sorted") + b"\n"
        held = self._web.hosts.budget.hold(encoded, owner)
        return Answer(200, [("Content-Type", MEDIA_TYPES[Form(form >> 4)])], held)

    def _share_of(self, name: str) -> BoundedSemaphore:
        """Return what bounds the requests of a token; "" if all have the same one."""
        if name not in self._shares:
            most = _MOST_OF_TOKEN if name else MAX_UNDER_WAY
            self._shares[name] = BoundedSemaphore(most)
        return self._shares[name]

    def _call(
        self,
        environ: Environ,
        instance_id: str,
        frame: Frame,
        owner: str,
        replies: _Replies,
    ) -> None:
        try:
            reply = self._web.hosts.call(instance_id, frame, owner)
            _check_json(reply)
            failed = problem_of(reply) if reply.status >= 400 else None
            replies.put(instance_id, _Reply(reply, failed))
        except Problem as problem:
            self._web.log_failed_call(problem, environ, instance_id)
            replies.put(instance_id, _Reply(_NO_FRAME, problem))
        except Exception as error:
            extra = {"request_id": request_id_of(environ)}
            words = "the step of %s in a batch failed"
            log.exception(words, instance_id, extra=extra)
            failure = Problem(f"the server failed with {type(error).__name__}")
            replies.put(instance_id, _Reply(_NO_FRAME, failure))


class _Replies:
    """Collects replies by instance, until there are enough.

    Args:
        wanted: How many are enough.
        room: Bytes that they may have together; those beyond are left with the hosts.
    """

    def __init__(self, wanted: int, room: int) -> None:
        self._wanted = wanted
        self._room = room
        self._replies: dict[str, _Reply] | None = {}
        self._enough = Event()

    def put(self, instance_id: str, reply: _Reply) -> None:
        """Add the reply of an instance, unless the request has been answered."""
        if self._replies is None:
            return
        self._wanted -= 1
        size = len(reply.frame.body)
        if size <= self._room:
            self._room -= size
            self._replies[instance_id] = reply
        if self._wanted <= 0:
            self._enough.set()

    def wait(self) -> dict[str, _Reply]:
        """Wait until there are enough replies, and return them."""
        self._enough.wait()
        replies, self._replies = self._replies or {}, None
        return replies


def json_forms(environ: Environ) -> int:
    """Return the forms of body and answer, as `forms` does.

    Raises:
        BadJSON: The body is not JSON.
        NotAcceptable: The client does not accept JSON.
    """
    form = forms(environ)
    if form & 15 == Form.BINARY:
        raise BadJSON("the body of a batch is plain or typed JSON")
    if form >> 4 == Form.BINARY:
        raise NotAcceptable("the answer to a batch is plain or typed JSON")
    return form


def read_batch_body(environ: Environ, limit: int) -> bytes:
    """Read the body of a batch, in which a node of the fleet may have put keys.

    Args:
        environ: The WSGI environment.
        limit: Bytes that a client may send.
    """
    added = MAX_BATCH * KEY_BYTES if FORWARDED in environ else 0
    return read_body(environ, limit + added)


def read_batch(body: bytes) -> tuple[list[BatchItem], int]:
    """Read the steps, and how many of them are waited for."""
    call = _decode_request(body)
    items = call.steps
    if not items:
        raise MissingParameter("steps")
    if len(items) > MAX_BATCH:
        raise BadParameter(
            f"there are {len(items)} steps: expected {MAX_BATCH} at most"
        )
    seen: set[str] = set()
    for item in items:
        if item.instance_id in seen:
            raise BadParameter(
                f"instance {item.instance_id:.80} is in there twice: expected each "
                "instance once; several actions of one are its actions"
            )
        seen.add(item.instance_id)
        if item.key is not msgspec.UNSET:
            check_key(item.key, "key")
    first = len(items) if call.first is msgspec.UNSET else call.first
    return items, min(BATCH["first"].kind.read(first, "first"), len(items))


def _decode_request(body: bytes) -> _Request:
    try:
        try:
            return _decode(body)
        except msgspec.ValidationError as error:
            # Only now, since it is slower: it names the member that is wrong.
            given = msgspec.json.decode(body)
            if isinstance(given, dict):
                read(BATCH, given, "the batch", is_given=even_null)
                raise BadParameter(str(error)) from None
            raise
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadJSON(str(error)) from None


def keys_of(items: list[BatchItem], key: str) -> list[str]:
    """Set the key of each step; a repeated request derives the same keys."""
    return [item.key or _key_for(key, item.instance_id) for item in items]


def _key_for(key: str, instance_id: str) -> str:
    if not key:
        return secrets.token_hex(16)
    named = f"{key} {instance_id}".encode()
    return hashlib.blake2b(named, digest_size=16).hexdigest()


def _body(item: BatchItem) -> bytes:
    members = (("action", item.action), ("actions", item.actions))
    given = [b'"%b":%b' % (name.encode(), bytes(raw)) for name, raw in members if raw]
    return b"{%b}" % b",".join(given)


def _check_json(reply: Frame) -> None:
    """Check a host's answer before it becomes a part of the batch's: it may be forged.

    Raises:
        EnvError: It is not JSON.
    """
    parts = [reply.body] if reply.status < 400 else []
    warnings = answer_head(reply).headers.get(WARNINGS_HEADER)
    if warnings is not None:
        parts.append(warnings.encode())
    try:
        for each in parts:
            _skim(str(each, "utf-8"))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise EnvError("the instance answered with something else than JSON") from None


def result_of_problem(problem: Problem, environ: Environ) -> dict[str, Any]:
    """Return how the answer to a batch has a step that failed."""
    answer = problem_answer(problem, environ)
    body = b"".join(parts_of(answer.body)).rstrip()
    return {"problem": msgspec.Raw(body), "replayed": False, "status": answer.status}


def _result_of(reply: _Reply, environ: Environ) -> dict[str, Any]:
    headers = answer_head(reply.frame).headers
    result: dict[str, Any] = {"replayed": "Idempotent-Replayed" in headers}
    if reply.problem is not None:
        result = result_of_problem(reply.problem, environ) | result
    else:
        body = bytes(reply.frame.body).rstrip()
        result |= {"answer": msgspec.Raw(body), "status": reply.frame.status}
    if WARNINGS_HEADER in headers:
        result[WARNINGS] = msgspec.Raw(headers[WARNINGS_HEADER].encode())
    return result
