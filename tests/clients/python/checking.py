"""Checks of the Python client's driver for each case of the vectors."""

import json
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from gym_http_client.errors import ServerError, UnexpectedAnswer
from gym_http_client.http.error_mapping import error_from_reply
from gym_http_client.http.http1 import Reply
from gym_http_client.http.json_requests import _encode as plain_json
from gym_http_client.http.retries import Retries, Tries
from gym_http_wire.elements import reader
from gym_http_wire.signatures import ReceivedSignatures
from gym_http_wire.space_parsing import BadDescription, parse_space
from gym_http_wire.spaces import describe
from gym_http_wire.values import BadValue, Unsent, binary, typed
from gym_http_wire.values.texts import parse
from tests.clients.python.exact_json import differing, loosened, refused, tree
from tests.clients.python.framing import bundles, frames, websockets
from tests.clients.python.playing import check_transcript
from tests.conformance.making.models import Model, model_of, native_of

Case = dict[str, Any]
Problem = str | None
_SAMPLES = 20


def checks_of(name: str, case: Case, url: str | None) -> Iterator[Problem]:
    """Check a case; yield a problem, or ``None``, for each thing that was checked.

    Args:
        name: The name of the file.
        case: One of its cases.
        url: The URL of a live server, or nothing.
    """
    if name == "transcripts.json":
        if url is not None:
            for transport in ("rest", "stream"):
                yield _tried(partial(check_transcript, case, url, transport))
        return
    for check in _CHECKS[name](case):
        yield _tried(check)


def _tried(check: Callable[[], Problem]) -> Problem:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return check()
    except Exception as error:
        return f"expected no error, actual {type(error).__name__}: {error}"


def build(model: Model) -> Any:
    """Make the native value of a model."""
    return native_of(model, parse_space, Unsent)


def _values(case: Case) -> Iterator[Callable[[], Problem]]:
    value, text, data = case["value"], case["typed"], case["binary"]
    if text is not None:
        raw = text.encode()
        yield lambda: differing(value, model_of(typed.decode(raw)))
    if data is not None:
        yield lambda: differing(value, model_of(binary.decode(bytes.fromhex(data))))
    if case.get("decode_only"):
        return
    if text is not None:
        yield lambda: differing(tree(text), tree(typed.encode(build(value))))
    if data is not None:
        yield lambda: differing(data, binary.encode(build(value)).hex())


def _numbers(case: Case) -> Iterator[Callable[[], Problem]]:
    raw = case["text"].encode()
    if case.get("refused"):
        yield lambda: refused(lambda: parse(raw), BadValue)
        return
    value = case["value"]
    yield lambda: differing(value, model_of(parse(raw)))
    yield lambda: differing(value, model_of(parse(plain_json(native_of(value)))))


def _spaces(case: Case) -> Iterator[Callable[[], Problem]]:
    data = case["space"]
    if case.get("refused"):
        yield lambda: refused(lambda: parse_space(data), BadDescription)
        return
    yield lambda: differing(data, json.loads(json.dumps(describe(parse_space(data)))))

    def contained() -> Problem:
        space = parse_space(data)
        count = case.get("samples", _SAMPLES)
        if count:
            space.seed(1)
        samples = (space.sample() for _ in range(count))
        strange = [sample for sample in samples if not space.contains(sample)]
        return f"expected an element, actual {strange[0]!r}" if strange else None

    yield contained


def _elements(case: Case) -> Iterator[Callable[[], Problem]]:
    value, member = case["value"], case["member"]
    space = parse_space(case["space"])
    yield lambda: differing(member, bool(space.contains(build(value))))
    plain = case.get("plain")
    if plain is None:
        return
    read = reader(space)

    def decoded() -> Problem:
        return differing(loosened(value), loosened(model_of(read(json.loads(plain)))))

    def written() -> Problem:
        # Numbers are compared after conversion to the space's dtype.
        sent = json.loads(plain_json(build(value)))
        return differing(model_of(read(json.loads(plain))), model_of(read(sent)))

    yield decoded
    yield written


def _signatures(case: Case) -> Iterator[Callable[[], Problem]]:
    announced = ReceivedSignatures()
    for message in case["messages"]:
        raw = bytes.fromhex(message["body"])

        def read(raw: bytes = raw) -> Any:
            return announced.read(raw, 0)

        if message.get("refused"):
            yield lambda read=read: refused(read, BadValue)  # type: ignore[misc]
        else:
            value = message["value"]
            yield lambda read=read, value=value: differing(  # type: ignore[misc]
                value, model_of(read())
            )


def _malformed(case: Case) -> Iterator[Callable[[], Problem]]:
    raw = bytes.fromhex(case["hex"]) if "hex" in case else case["text"].encode()
    decode = {"typed": typed.decode, "binary": binary.decode}[case["form"]]
    yield lambda: refused(lambda: decode(raw), BadValue)


def _errors(case: Case) -> Iterator[Callable[[], Problem]]:
    reply = Reply(case["status"], case["headers"], case["body"].encode())

    def check() -> Problem:
        error: BaseException | None = error_from_reply(
            reply, "http://127.0.0.1:5000/v1/envs/"
        )
        while error is not None and not isinstance(error, ServerError):
            error = error.__cause__
        assert error is not None
        kind = "protocol" if isinstance(error, UnexpectedAnswer) else "api"
        message = error.message if kind == "api" else None
        actual = {"kind": kind, "status": error.status_code, "code": error.code}
        actual |= {"message": message, "traceback": error.traceback}
        expected = {**case["expected"], "traceback": case.get("traceback", "")}
        return differing(expected, actual)

    def retried() -> Problem:
        retries = Retries(sleep=lambda _: None, clock=lambda: 0.0)
        if case.get("creates"):
            retries = retries.of_creation(0.0)
        tries = Tries(retries, 0.0)
        return differing(case["retried"], tries.again(reply))

    yield check
    yield retried


_CHECKS: dict[str, Callable[[Case], Iterator[Callable[[], Problem]]]] = {
    "values.json": _values,
    "numbers.json": _numbers,
    "spaces.json": _spaces,
    "elements.json": _elements,
    "frames.json": frames,
    "signatures.json": _signatures,
    "malformed.json": _malformed,
    "errors.json": _errors,
    "websocket.json": websockets,
    "bundles.json": bundles,
}
