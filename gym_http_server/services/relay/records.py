"""Records: episodes and training steps, as JSON lines; and the best version."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Any, NamedTuple

import msgspec

from gym_http_server.errors import BodyTooLarge
from gym_http_server.services.relay.rows import RecordRow
from gym_http_wire.problems import BadParameter

__all__ = [
    "ENOUGH_EVALUATIONS",
    "LINE_BYTES",
    "BestVersion",
    "best_version",
    "parse_records",
    "record_line",
]

MODES = ("training", "evaluation", "expert")
#: The relay sets these members of a record.
RESERVED = ("position", "time")
#: Records are read and answered whole.
LINE_BYTES = 64 * 1024
#: Lines of one request, which take the relay about 50 ms.
MOST_LINES = 10_000
#: A version with fewer evaluations is not the best.
ENOUGH_EVALUATIONS = 5

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class BestVersion(NamedTuple):
    """The version of the weights with the highest mean return.

    Attributes:
        version: The version.
        mean: Mean return of its evaluations.
        evaluations: Their number.
    """

    version: int
    mean: float
    evaluations: int


def parse_records(
    data: bytes, now: float, *, worker: str = "", newest: int = 0
) -> list[RecordRow]:
    """Parse JSON lines; empty ones are skipped.

    Args:
        data: The lines.
        now: When they were received, in seconds since 1970.
        worker: Name of the worker that sent them; "" if that is not known.
        newest: Newest version of the weights.

    Raises:
        BadParameter: A line is not a record. Nothing should be stored then.
        BodyTooLarge: There are too many lines.
    """
    if data.count(b"\n") > MOST_LINES:
        raise BodyTooLarge(
            f"the body has more than {MOST_LINES} lines: send some of the records in "
            "further requests",
            extras={"limit": MOST_LINES},
        )
    return [
        _parse(line, number, now, worker, newest)
        for number, line in enumerate(data.split(b"\n"), 1)
        if line.strip()
    ]


def record_line(row: RecordRow) -> bytes:
    """Return a record as a line of JSON, with its position and time."""
    start = b'{"position":%d,"time":%b,' % (row.position, _encode(row.time))
    return start + row.text[1:] + b"\n"


def best_version(
    evaluations: Mapping[int, tuple[int, float]], kept: Container[int]
) -> BestVersion | None:
    """Return the best version of the weights that is kept, or ``None``.

    Of versions with the same mean, the newest is best. A version whose returns sum up
    to infinity is left out: JSON has no such mean.

    Args:
        evaluations: Number and sum of the returns of evaluations, by version.
        kept: Versions that are kept.
    """
    candidates = [
        (total / count, version, count)
        for version, (count, total) in evaluations.items()
        if count >= ENOUGH_EVALUATIONS and version in kept and math.isfinite(total)
    ]
    if not candidates:
        return None
    mean, version, count = max(candidates)
    return BestVersion(version, mean, count)


def _parse(line: bytes, number: int, now: float, worker: str, newest: int) -> RecordRow:
    where = f"line {number} of the records"
    if len(line) > LINE_BYTES:
        raise BadParameter(
            f"{where} has {len(line)} bytes: expected at most {LINE_BYTES}"
        )
    try:
        members = _decode(line)
    except (ValueError, RecursionError) as error:
        raise BadParameter(f"{where} is not a JSON object: {error}") from None
    for name in RESERVED:
        if name in members:
            raise BadParameter(
                f"{where} has {name!r}, which the relay sets: leave it out"
            )
    if worker:
        members["worker"] = worker
    worker = members.get("worker", "")
    if not isinstance(worker, str) or len(worker) > 64:
        raise _unexpected(where, members, "worker", "a name of at most 64 characters")
    version = members.get("version", 0)
    if type(version) is float and version.is_integer():
        version = int(version)
    if type(version) is not int or not 0 <= version <= newest:
        raise _unexpected(where, members, "version", f"an integer from 0 to {newest}")
    kind = members.get("type")
    if kind == "training":
        _check_number(where, members, "step")
        text = _encode(members)
        return RecordRow("training", text, "", worker, version, 0.0, now)
    if kind != "episode":
        raise _unexpected(where, members, "type", "'episode' or 'training'")
    mode = members.get("mode")
    if mode not in MODES:
        raise _unexpected(where, members, "mode", ", ".join(map(repr, MODES)))
    _check_number(where, members, "length")
    value = _check_number(where, members, "return")
    return RecordRow("episode", _encode(members), mode, worker, version, value, now)


def _check_number(where: str, members: dict[str, Any], name: str) -> float:
    value: Any = members.get(name)
    try:
        number = float(value) if type(value) in (int, float) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _unexpected(where, members, name, "a finite number")
    return number


def _unexpected(
    where: str, members: dict[str, Any], name: str, expected: str
) -> BadParameter:
    if name not in members:
        return BadParameter(f"{where} has no {name!r}: expected {expected}")
    shown = repr(members[name])
    shown = shown if len(shown) <= 100 else f"{shown[:100]}…"
    return BadParameter(f"{name} is {shown} in {where}: expected {expected}")
