"""Forwards warnings to the client and to the server's log, each once per instance.

Warnings come from Python, from Gymnasium's checkers and from the create request. The
client receives them with the next answer to a call of the environment. A step without
warnings costs only one look at an empty list.
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import msgspec

from gym_http_server.host import server_log
from gym_http_server.operations.members import Members, unknown_members
from gym_http_wire.frames import Frame, Pieces
from gym_http_wire.messages import (
    WARNINGS,
    WARNINGS_HEADER,
    AnswerHead,
    Form,
    Op,
    answer_head,
)
from gym_http_wire.values import binary, typed
from gym_http_wire.values.writing import Writing

__all__ = [
    "add",
    "add_unknown",
    "add_unsent",
    "attach",
    "capture",
    "muted",
    "pending",
    "take",
    "with_header",
]

Entry = dict[str, str]

#: Limit of warnings of one instance; an environment may put a counter in each.
MAX_WARNINGS = 100
MAX_CHARS = 1000
#: Bytes of the header: some proxies have 4 KiB for all headers of an answer.
MAX_HEADER_BYTES = 2048
# Answers to callers that may only look at an instance.
_LOOKS = frozenset(
    {
        Op.DESCRIBE,
        Op.ACTION_SPACE,
        Op.OBSERVATION_SPACE,
        Op.MONITOR,
        Op.EPISODES,
        Op.KEYS,
    }
)
_PROBLEM = 400

#: Warnings that no answer has had yet; always the same list.
pending: list[Entry] = []
_seen: set[tuple[str, str]] = set()
# Unknown members that warnings have named, by request.
_named: dict[str, set[Any]] = {}
# The first value of an info that could not be sent.
_unsent: list[str] = []
# Has an item while a call that no client requested runs.
_muted: list[None] = []


def capture() -> None:
    """Pass on the warnings that this process shows from now on."""
    show = warnings.showwarning

    def showwarning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: Any = None,
        line: str | None = None,
    ) -> None:
        if _muted:
            return
        add(_builtin(category), str(message), _module(filename))
        show(message, category, filename, lineno, file, line)

    warnings.showwarning = showwarning
    # Warnings shown before the fork count as shown, until the filters change. This
    # change only repeats the default.
    warnings.simplefilter("default", append=True)


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """Drop warnings of a call that no client requested, as of drawing for watchers."""
    _muted.append(None)
    try:
        yield
    finally:
        _muted.pop()


def add(category: str, message: str, module: str = "") -> None:
    """Forward a warning, unless an equal one has been forwarded.

    Args:
        category: Name of the class, a built-in class of Python.
        message: The text.
        module: Name of the module that it is about; "" if unknown.
    """
    text = message[:MAX_CHARS].encode(errors="backslashreplace").decode()
    if (category, text) in _seen or len(_seen) >= MAX_WARNINGS:
        return
    _seen.add((category, text))
    entry = {"category": category, "message": text}
    pending.append({**entry, "module": module} if module else entry)
    server_log.write(f"{category}: {text}")


def add_unknown(members: Members, given: dict[str, Any], what: str) -> None:
    """Forward warnings about members of a request that are unknown.

    Args:
        members: The known ones.
        given: The request.
        what: What it is, for the warning.
    """
    # Clients may send the same ones with each step, which must stay fast.
    if given.keys() <= members.keys():
        return
    unknown = given.keys() - members.keys()
    named = _named.setdefault(what, set())
    if not unknown <= named and len(named) < MAX_WARNINGS:
        named |= unknown
        for words in unknown_members(members, given, what):
            add("UserWarning", words)


def add_unsent(replaced: str) -> None:
    """Forward a warning about the first value of an info that cannot be sent.

    Args:
        replaced: Its place and why, as `gym_http_wire.values.infos` words it.
    """
    if not _unsent:
        _unsent.append(replaced)
        words = "an Unsent with its repr takes its place"
        # Of the clients, Python's alone has the option.
        python = "with strict_infos=True, Python's client raises an error instead"
        add("UserWarning", f"{replaced}; {words} ({python})")


def take() -> list[Entry]:
    """Return the pending warnings, which are then pending no more."""
    # A warning that a thread of the environment adds meanwhile waits for the next.
    entries = pending.copy()
    del pending[: len(entries)]
    return entries


def attach(reply: Frame, op: int, *, streamed: bool) -> Frame:
    """Add the pending warnings to an answer, if it has room for them.

    Args:
        reply: The answer.
        op: The operation that it answers.
        streamed: Whether it is sent over a stream.

    Returns:
        The answer, with the member ``warnings`` if it is sent over a stream or is a
        value in a lossless form, else with a header.
    """
    if op in _LOOKS:
        return reply
    if reply.status >= _PROBLEM:
        return _in_problem(reply) if streamed else with_header(reply)
    if reply.form in (Form.TYPED, Form.BINARY) or (streamed and _is_object(reply)):
        return _with_member(reply)
    return reply if streamed else with_header(reply)


def with_header(reply: Frame) -> Frame:
    """Add the header ``Gym-Warnings`` with as many pending warnings as it holds."""
    count = len(pending)
    while count and len(_ascii(pending[:count])) > MAX_HEADER_BYTES:
        count -= 1
    if not pending:
        return reply
    entries = pending[:count] or [_cut(pending[0])]
    del pending[: len(entries)]
    head = answer_head(reply)
    headers = {**head.headers, WARNINGS_HEADER: _ascii(entries)}
    encoded = msgspec.json.encode(AnswerHead(head.content_type, headers))
    return reply._replace(head=encoded)


def _ascii(entries: list[Entry]) -> str:
    return json.dumps(entries, separators=(",", ":"))


def _cut(entry: Entry) -> Entry:
    # A character outside the BMP takes 12 bytes.
    return {**entry, "message": entry["message"][: MAX_HEADER_BYTES // 16]}


def _is_object(reply: Frame) -> bool:
    return reply.form == Form.PLAIN and bytes(reply.body[:1]) == b"{"


def _in_problem(reply: Frame) -> Frame:
    problem = msgspec.json.decode(reply.body)
    problem["extras"] = {**problem.get("extras", {}), WARNINGS: take()}
    return reply._replace(body=msgspec.json.encode(problem))


def _with_member(reply: Frame) -> Frame:
    body = reply.body
    if reply.form == Form.PLAIN:
        member = msgspec.json.encode({WARNINGS: take()})[:-1]
        rest = bytes(body[1:])
        comma = b"" if rest.lstrip().startswith(b"}") else b","
        return reply._replace(body=member + comma + rest)
    codec = typed if reply.form == Form.TYPED else binary
    value = codec.decode(body.join() if isinstance(body, Pieces) else body)
    if not isinstance(value, dict):
        return reply
    value[WARNINGS] = take()
    body = Writing().pieces(value) if isinstance(body, Pieces) else codec.encode(value)
    return reply._replace(body=body)


def _builtin(category: type[Warning]) -> str:
    """Return the name of the nearest class that every Python has."""
    for each in category.__mro__:
        if each.__module__ == "builtins":
            return each.__name__
    return "UserWarning"


def _module(filename: str) -> str:
    """Return the name of a file's module, for filters of warnings; "" if unknown."""
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) == filename:
            return name
    return ""
