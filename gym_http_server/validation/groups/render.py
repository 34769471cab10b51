"""Frames: as a picture, as bytes, as JSON, and as text."""

from __future__ import annotations

import secrets
import zlib

from gym_http_server.validation.checks import CheckGroup, Checks, Mismatch, equal, that
from gym_http_server.validation.target import Target, TargetInstance

__all__ = ["GROUP"]

_PNG = b"\x89PNG\r\n\x1a\n"
checks = Checks()


def _needs(target: Target) -> None:
    target.needs("render", target.shared().get("render/"))


GROUP = CheckGroup("render", lambda: checks, _needs)


def _drawn(target: Target) -> TargetInstance:
    instance = target.create("MountainCar-v0", render_mode="rgb_array")
    instance.post("reset/", {"seed": 1})
    return instance


@checks("png")
def _png(target: Target) -> None:
    instance = _drawn(target)
    try:
        answer = instance.get("render/", headers={"Accept": "image/png"})
    finally:
        instance.close()
    equal((answer.status, answer.media), (200, "image/png"), "status and type")
    that(answer.body.startswith(_PNG), "a PNG file", answer.body[:16])
    size, kind = int.from_bytes(answer.body[8:12], "big"), answer.body[12:16]
    equal((size, kind), (13, b"IHDR"), "the first chunk")
    check = int.from_bytes(answer.body[29:33], "big")
    equal(zlib.crc32(answer.body[12:29]), check, "the sum of the first chunk")


@checks("bytes")
def _bytes(target: Target) -> None:
    instance = _drawn(target)
    try:
        raw = instance.get("render/", headers={"Accept": "application/octet-stream"})
        listed = instance.get("render/", headers={"Accept": "application/json"}).json()
    finally:
        instance.close()
    equal(raw.headers.get("gym-dtype"), "uint8", "Gym-Dtype")
    shape = [int(size) for size in raw.headers["gym-shape"].split(",")]
    height, width, colours = shape
    equal(len(raw.body), height * width * colours, "bytes")
    equal((len(listed), len(listed[0])), (height, width), "height and width in JSON")
    row = [number for pixel in listed[height // 2] for number in pixel]
    at = height // 2 * width * colours
    equal(row, list(raw.body[at : at + len(row)]), "the row in the middle")


@checks("text")
def _text(target: Target) -> None:
    with target.made("CliffWalking-v1", render_mode="ansi") as instance:
        instance.post("reset/", {"seed": 1})
        answer = instance.get("render/")
        equal((answer.status, answer.media), (200, "text/plain"), "status and type")
        lines = answer.body.decode().strip().splitlines()
        equal(lines[-1].split(), ["x", *"C" * 10, "T"], "the last row")


@checks("once-for-each-key")
def _key(target: Target) -> None:
    instance = _drawn(target)
    try:
        key = {"Idempotency-Key": secrets.token_hex(8)}
        answers = [instance.post("render/", {}, headers=key) for _ in range(2)]
    finally:
        instance.close()
    equal(answers[1].headers.get("idempotent-replayed"), "true", "replayed")
    if answers[0].body != answers[1].body:
        raise Mismatch("the same frame", f"another of {len(answers[1].body)} bytes")
