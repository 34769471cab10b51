"""Wrong behaviours of a server, by name, each with the check that must detect it."""

import json
import re
import struct
from collections.abc import Callable
from typing import Any

from tests.support.faults.lying_proxy import Exchange, Lie

TOKEN = "canary-5f1d0c8e7b6a49322d14"


def replacing(old: bytes, new: bytes, where: str = "") -> Lie:
    """Replace bytes in answers to requests of some path."""

    def answer(exchange: Exchange) -> None:
        if where in exchange.path:
            exchange.answer = exchange.answer.replace(old, new)

    return Lie(answer=answer)


def saying(change: Callable[[Any], Any], where: str = "") -> Lie:
    """Change the JSON value of answers to requests of some path."""

    def answer(exchange: Exchange) -> None:
        if where in exchange.path and exchange.answer.startswith(b"{"):
            value = change(json.loads(exchange.answer))
            text = json.dumps(value, sort_keys=True, separators=(",", ":"))
            exchange.answer = text.encode() + b"\n"

    return Lie(answer=answer)


def without(name: str, where: str = "") -> Lie:
    """Remove a member from answers."""

    def change(value: Any) -> Any:
        value.pop(name, None)
        return value

    return saying(change, where)


def with_status(old: int, new: int, code: str = "") -> Lie:
    """Replace the status of answers."""

    def answer(exchange: Exchange) -> None:
        if exchange.status == old and code.encode() in exchange.answer:
            exchange.status = new

    return Lie(answer=answer)


def rounded(value: Any) -> Any:
    """Round all floats of an answer to six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def widened(value: Any) -> Any:
    """Write float32 values with all the digits of the nearest double."""
    if isinstance(value, float):
        return struct.unpack("<f", struct.pack("<f", value))[0]
    if isinstance(value, dict):
        return {name: widened(item) for name, item in value.items()}
    return [widened(item) for item in value] if isinstance(value, list) else value


def without_header(name: str) -> Lie:
    """Remove a header from requests."""

    def request(exchange: Exchange) -> None:
        pattern = rb"(?i)\r\n" + name.encode() + rb":[^\r]*"
        exchange.head = re.sub(pattern, b"", exchange.head)

    return Lie(request=request)


def not_telling(name: str) -> Lie:
    """Remove a header from answers."""

    def answer(exchange: Exchange) -> None:
        exchange.headers.pop(name, None)

    return Lie(answer=answer)


def flipped(where: str) -> Lie:
    """Flip the lowest bit of the eighth byte from the end of binary answers."""

    def answer(exchange: Exchange) -> None:
        media = exchange.headers.get("content-type", "")
        if media.endswith(".binary") and where in exchange.path:
            changed = bytearray(exchange.answer)
            changed[-8] ^= 1
            exchange.answer = bytes(changed)

    return Lie(answer=answer)


def in_document(change: Callable[[Any], None]) -> Lie:
    """Change the OpenAPI document."""

    def changed(value: Any) -> Any:
        change(value)
        return value

    return saying(changed, "/openapi.json")


def misnumbered(opcode: int, payload: bytes) -> tuple[int, bytes]:
    """Refer to signatures by a wrong number."""
    if opcode == 2 and len(payload) >= 24 and payload[16:20] == bytes(4):
        payload = payload[:20] + bytes([payload[20] ^ 3]) + payload[21:]
    return opcode, payload


def out_of_order(opcode: int, payload: bytes) -> tuple[int, bytes]:
    """Change the numbers of answers in the text dialect."""
    return opcode, re.sub(rb'"number":(\d)', rb'"number":1\1', payload)


def mute_pongs(opcode: int, payload: bytes) -> tuple[int, bytes]:
    """Answer pings with empty pongs."""
    return opcode, b"" if opcode == 10 else payload


def friendly(opcode: int, payload: bytes) -> tuple[int, bytes]:
    """Close with status 1000, the normal one."""
    return opcode, b"\x03\xe8" if opcode == 8 else payload


def lenient(exchange: Exchange) -> None:
    """Accept malformed JSON."""
    if exchange.status == 400 and b"bad-json" in exchange.answer:
        exchange.status = 200
        exchange.answer = b'{"set":true}\n'


def pretty(exchange: Exchange) -> None:
    """Write indented JSON."""
    if exchange.answer.startswith(b"{"):
        text = json.dumps(json.loads(exchange.answer), indent=1)
        exchange.answer = text.encode() + b"\n"


def redirecting(exchange: Exchange) -> None:
    """Redirect a path without a slash at the end to the path with one."""
    if not exchange.path.endswith("/"):
        exchange.status = 308
        exchange.headers["location"] = exchange.path + "/"


def chatty(exchange: Exchange) -> None:
    """Send a body and status 200 instead of a 204."""
    if exchange.status == 204:
        exchange.status, exchange.answer = 200, b"{}"


def open_to_all(exchange: Exchange) -> None:
    """Add the token to requests that have none."""
    if b"uthorization" not in exchange.head:
        exchange.head += f"\r\nAuthorization: Bearer {TOKEN}".encode()


def refusing(status: int, where: str, what: bytes) -> Lie:
    """Refuse requests of some path whose head or body contains some bytes."""

    def answer(exchange: Exchange) -> None:
        if where in exchange.path and what in exchange.head + b"\r\n" + exchange.body:
            exchange.status = status
            exchange.headers["content-type"] = "text/html"
            exchange.answer = b"<title>No</title>"

    return Lie(answer=answer)


def asking_for(old: bytes, new: bytes) -> Lie:
    """Replace bytes in requests' bodies by as many others."""

    def request(exchange: Exchange) -> None:
        exchange.body = exchange.body.replace(old, new)

    return Lie(request=request)


def unframed(exchange: Exchange) -> None:
    """Refuse the body of a GET."""
    if exchange.method == "GET" and exchange.body:
        exchange.status, exchange.answer = 400, b"a body"


def whole_float(exchange: Exchange) -> None:
    """Write an integer sample as a float, as Java does."""
    if "action_space/sample" in exchange.path:
        exchange.answer = re.sub(rb":(\d+)}", rb":\1.0}", exchange.answer)


def negotiating(exchange: Exchange) -> None:
    """Answer 406 to requests that accept HTML first."""
    if b"\r\naccept: text/html" in exchange.head.lower():
        exchange.status, exchange.answer = 406, b"{}"


def dangling(document: Any) -> None:
    document["paths"]["/v1/envs/"]["get"]["responses"]["200"]["content"][
        "application/json"
    ]["schema"] = {"$ref": "#/components/schemas/Gap"}


ANOTHER_CODE = (b'"code":"bad-space"', b'"code":"bad-hello"')
NO_FIELD = (b'"field":', b'"place":')
# The third request of a connection is its first step.
ANOTHER_ID = (b'"type":"step","id":3,', b'"type":"step","id":4,')

LIES = {
    "no rendering in a step": (
        refusing(500, "/step", b'"render": true'),
        ["legacy.render-in-step"],
    ),
    "no rendering that Lua asks for": (
        refusing(400, "/step", b'"render": "true"'),
        ["legacy.render-in-step"],
    ),
    "monitors without flags": (
        refusing(400, "/monitor/start", b'"force": true'),
        ["legacy.monitor-start"],
    ),
    "monitors without flags in text": (
        refusing(400, "/monitor/start", b'"resume": "false"'),
        ["legacy.monitor-start-text"],
    ),
    "monitors that answer": (
        Lie(answer=chatty),
        ["legacy.monitor-start", "legacy.monitor-start-text"],
    ),
    "no GET with a body": (Lie(answer=unframed), ["legacy.get-with-body"]),
    "no HTTP/1.0": (refusing(505, "/", b" HTTP/1.0\r\n"), ["legacy.http-1.0"]),
    "no Expect": (
        refusing(417, "/step", b"\r\nExpect: 100-continue"),
        ["legacy.expect-continue"],
    ),
    "HTML only if it is there": (Lie(answer=negotiating), ["legacy.accept-html"]),
    "no environments of 2018": (
        asking_for(b"FrozenLake-v0", b"FrozenLake-v9"),
        ["legacy.old-ids"],
    ),
    "environments of 2018 under their new names": (
        replacing(b'"CartPole-v0"', b'"CartPole-v1"'),
        ["legacy.old-ids"],
    ),
    "a sample of 0.0": (
        Lie(answer=whole_float),
        ["legacy.sample"],
    ),
    "no truncated": (
        without("truncated", "/step"),
        ["newer.terminated-and-truncated", "newer.done-is-either"],
    ),
    "frames without a shape": (not_telling("gym-shape"), ["render.bytes"]),
    "a stream too many": (with_status(503, 500), ["handshakes.too-many-streams"]),
    "no state of generators": (
        replacing(b'"has_uint32":', b'"has_uint":', "/generator"),
        ["internals.generator"],
    ),
    "an integer as reward": (
        replacing(b'"reward":1.0', b'"reward":1'),
        ["legacy.step"],
    ),
    "a reward as a string": (
        replacing(b'"reward":1.0', b'"reward":"1"'),
        ["legacy.step", "rest-plain.cart-pole"],
    ),
    "floats that are rounded": (saying(rounded, "/step"), ["rest-plain.cart-pole"]),
    "float32 with too many digits": (
        saying(widened, "/reset"),
        ["legacy.float32-is-short"],
    ),
    "no done": (without("done", "/step"), ["legacy.step"]),
    "JSON for the eye": (Lie(answer=pretty), ["legacy.reset"]),
    "redirects": (
        Lie(answer=redirecting),
        ["server.both-slash-forms", "legacy.both-slash-forms"],
    ),
    "204 with words": (Lie(answer=chatty), ["legacy.close", "legacy.monitor-close"]),
    "another status": (with_status(400, 404, "unknown-env"), ["errors.unknown-env"]),
    "200 for errors": (with_status(409, 200), ["errors.reset-needed"]),
    "no message": (without("message"), ["errors.unknown-env", "legacy.unknown-env"]),
    "another code": (replacing(b"no-attribute", b"not-found"), ["errors.no-attribute"]),
    "no Allow": (not_telling("allow"), ["errors.method-not-allowed"]),
    "a page for an error": (
        Lie(answer=lambda exchange: exchange.headers.update({"content-type": "a/b"})),
        ["errors.unknown-env", "legacy.list"],
    ),
    "no keys": (
        without_header("Idempotency-Key"),
        ["keys.step-once", "keys.create-once", "keys.key-reused", "keys.answer-gone"],
    ),
    "no word of replays": (not_telling("idempotent-replayed"), ["keys.step-once"]),
    "a bit of a leaf": (flipped("/step"), ["rest-binary.cart-pole"]),
    "a bit of a value": (flipped("/attributes"), ["values.int-1.typed"]),
    "another dtype": (
        replacing(b'"d":"<f4"', b'"d":"<f8"', "/step"),
        ["rest-typed.cart-pole"],
    ),
    "a tuple as a list": (
        replacing(b'{"$t":"tuple","v":[7,10,0]}', b"[7,10,0]"),
        ["rest-typed.blackjack"],
    ),
    "NaN as null": (
        replacing(b'{"$t":"float","v":"nan"}', b"null"),
        ["values.float-nan.binary"],
    ),
    "malformed bytes are taken": (
        Lie(answer=lenient),
        ["malformed.typed-empty", "numbers.refused-nan"],
    ),
    "members of spaces": (
        replacing(b'"member":true', b'"member":false'),
        ["elements.box.typed", "elements.box.plain", "legacy.contains"],
    ),
    "another sample": (
        replacing(b'"type":"Discrete"', b'"type":"Box"', "/action_space"),
        ["spaces.actions-of-CartPole-v1"],
    ),
    "a schema is not kept": (
        without("info", "/reset"),
        ["answers.env_reset-200"],
    ),
    "a document with a hole": (in_document(dangling), ["document.valid"]),
    "a document without a route": (
        in_document(lambda document: document["paths"].pop("/v1/tickets/")),
        ["document.routes"],
    ),
    "signatures by wrong numbers": (
        Lie(message=misnumbered),
        ["stream-binary.cart-pole", "signatures.named-and-called"],
    ),
    "answers by wrong numbers": (
        Lie(message=out_of_order),
        ["streams.numbers"],
    ),
    "empty pongs": (Lie(message=mute_pongs), ["streams.pings", "streams.fragments"]),
    "friendly closes": (
        Lie(message=friendly),
        ["streams.closes-unmasked", "streams.says-goodbye"],
    ),
    "float32 rounded over streams": (
        Lie(
            message=lambda opcode, payload: (
                opcode,
                json.dumps(rounded(json.loads(payload))).encode()
                if opcode == 1
                else payload,
            )
        ),
        ["stream-text.cart-pole"],
    ),
    "a step too few": (
        replacing(b'"steps":4', b'"steps":3', "/step"),
        ["batches.several-steps"],
    ),
    "no end to tickets": (
        replacing(b'"expires_in_s":30', b'"expires_in_s":0'),
        ["tickets.opens-one-stream"],
    ),
    "no seeds in vectors": (
        Lie(
            request=lambda exchange: setattr(
                exchange, "body", exchange.body.replace(b"[5, 6, 5]", b"[5, 6, 7]")
            )
        ),
        ["vectors.seeds-of-their-own"],
    ),
    "another code for hellos": (
        Lie(message=lambda opcode, payload: (opcode, payload.replace(*ANOTHER_CODE))),
        ["external-hellos.refused-action-empty"],
    ),
    "faults without a field": (
        Lie(message=lambda opcode, payload: (opcode, payload.replace(*NO_FIELD))),
        ["external-answers.json-answer-bad-reward-null"],
    ),
    "steps under another ID when asked again": (
        Lie(message=lambda opcode, payload: (opcode, payload.replace(*ANOTHER_ID))),
        ["external-failures.replay"],
    ),
    "environments away for who knows how long": (
        not_telling("retry-after"),
        ["external.away"],
    ),
    "a repeated action as a new one": (
        replacing(b'"repeated":true', b'"repeated":false', "/action"),
        ["realtime.actions-are-counted"],
    ),
    "actions without a delay": (
        replacing(b'"priority":0,"value":0', b'"priority":0,"value":1', "/step"),
        ["realtime.elastic-actions-act-one-step-later"],
    ),
    "rewards of the first channel": (
        replacing(b'"reward":1.25', b'"reward":1.5', "/step"),
        ["external.reward-channels"],
    ),
    "a batch after a gap as stored": (
        with_status(409, 201, '"code":"gap"'),
        ["runs.batches-once-and-in-order"],
    ),
    "another batch under a number as repeated": (
        with_status(422, 200, '"code":"key-reused"'),
        ["runs.batches-once-and-in-order"],
    ),
    "any role as allowed": (
        with_status(403, 200, '"code":"scope-missing"'),
        ["runs.roles"],
    ),
    "counts of batches that do not add up": (
        replacing(b'"waiting":1', b'"waiting":2', "/v1/runs/validate-"),
        ["runs.readers"],
    ),
}
