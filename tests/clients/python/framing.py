"""Checks of frames: those of streams, of WebSockets, and of bundles."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from gym_http_client.http.http1 import MAX_BODY
from gym_http_wire import websocket
from gym_http_wire.bundles import BatchHead, BundleError, encode_batch, split
from gym_http_wire.frames import Frame, FrameError, FrameReader, encode
from gym_http_wire.messages import answer_head, request_head
from gym_http_wire.websocket import MessageReader, Opcode, WebSocketError
from tests.clients.python.exact_json import differing, refused

Case = dict[str, Any]
Problem = str | None
_MAX_FRAME_BODY = 2**28


def frames(case: Case) -> Iterator[Callable[[], Problem]]:
    """Check frames of streams."""
    raw = bytes.fromhex(case["hex"])
    if case.get("refused"):
        errors = (FrameError, msgspec.MsgspecError, UnicodeDecodeError)
        yield lambda: refused(lambda: _frame_case(raw), errors)
        return
    answer = case["frame"]
    yield lambda: differing(answer, _frame_case(raw))
    frame = Frame(
        answer["operation"],
        answer["number"],
        answer["status"],
        answer["form"] | answer["answer_form"] << 4,
        b"" if answer["head"] is None else msgspec.json.encode(answer["head"]),
        bytes.fromhex(answer["body"]),
    )
    yield lambda: differing(case["hex"], encode(frame).hex())


def _frame_case(raw: bytes) -> Case:
    reading = FrameReader(_MAX_FRAME_BODY)
    found = reading.feed(raw)
    if len(found) != 1 or reading.pending:
        raise FrameError("is not one frame")
    (frame,) = found
    head = request_head(frame) if frame.kind else answer_head(frame)
    return {
        "status": frame.status,
        "operation": frame.kind,
        "form": frame.form & 15,
        "answer_form": frame.form >> 4,
        "number": frame.number,
        "head": json.loads(msgspec.json.encode(head)) if frame.head else None,
        "body": frame.body.hex(),
    }


def bundles(case: Case) -> Iterator[Callable[[], Problem]]:
    """Check bundles of batches."""
    raw = bytes.fromhex(case["hex"])
    if case.get("refused"):
        yield lambda: refused(lambda: list(split(raw)), BundleError)
        return
    expected = case["batches"]
    yield lambda: differing(expected, _batches(raw))
    if not case.get("decode_only"):
        yield lambda: differing(case["hex"], _bundle(expected).hex())


def _batches(raw: bytes) -> list[Case]:
    return [
        {
            "head": json.loads(msgspec.json.encode(place.head)),
            "body": raw[place.offset : place.end].hex(),
        }
        for place in split(raw)
    ]


def _bundle(batches: list[Case]) -> bytes:
    return b"".join(
        encode_batch(
            msgspec.convert(batch["head"], BatchHead), bytes.fromhex(batch["body"])
        )
        for batch in batches
    )


def websockets(case: Case) -> Iterator[Callable[[], Problem]]:
    """Check frames and handshakes of WebSockets."""
    if "accept" in case:
        yield lambda: differing(case["accept"], websocket.accept_of(case["key"]))
    elif case.get("refused"):
        raw = bytes.fromhex(case["from_server"])
        yield lambda: refused(lambda: _messages(raw), WebSocketError)
    elif "from_server" in case:
        raw = bytes.fromhex(case["from_server"])
        yield lambda: differing(case["messages"], _messages(raw))
    else:
        yield lambda: _websocket_frame(case)


def _websocket_frame(case: Case) -> Problem:
    if "payload" in case:
        payload = bytes.fromhex(case["payload"])
    else:
        repeat = case["payload_repeat"]
        payload = bytes([repeat["byte"]]) * repeat["count"]
    opcode, mask = Opcode(case["opcode"]), case["mask"]
    if mask is not None:
        written = websocket.encode(opcode, payload, bytes.fromhex(mask)).hex()
        if "hex" in case:
            return differing(case["hex"], written)
        prefix = case["hex_prefix"]
        return differing(prefix, written[: len(prefix)])
    raw = bytes.fromhex(case.get("hex", case.get("hex_prefix")))
    if "hex_prefix" in case:
        head = 4 if len(payload) < 65536 else 10
        raw = raw[:head] + payload
    if not case["fin"]:
        raw += b"\x80\x00"
    expected = [{"opcode": case["opcode"], "payload": payload.hex()}]
    return differing(expected, _messages(raw))


def _messages(raw: bytes) -> list[Case]:
    found = MessageReader(masked=False, max_message=MAX_BODY).feed(raw)
    return [
        {"opcode": int(each.opcode), "payload": bytes(each.payload).hex()}
        for each in found
    ]
