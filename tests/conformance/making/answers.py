"""Answers of an environment elsewhere: what a server reads, and what it refuses."""

import math
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from tests.conformance.making import Case
from tests.conformance.making.conversations import outcome
from tests.conformance.making.describing import described
from tests.conformance.making.forms import binary, compact, tree_of
from tests.conformance.making.models import Model, model_of
from tests.conformance.making.saying import DIALECTS, Side, dict_of, frame, plain_of

_BOX = spaces.Box(0, 1, (2,), np.float32)
_THREE = spaces.Discrete(3)
_NUMBER = 7
_HERE = np.array([0.25, 0.5], np.float32)
_STEP = outcome(_HERE, 2.0)
_NONE, _TYPED, _BINARY = 0, 2, 3


def cases() -> Iterator[Case]:
    """Give all answers, each in the dialects that can say it."""
    for dialect in DIALECTS:
        yield from _read(dialect)
        for name, members in _bad_members().items():
            if dialect == "json" and name.startswith("exact-"):
                continue
            given = {key: item for key, item in members.items() if item is not None}
            field = name.removeprefix("exact-").partition("-")[0]
            message = _written(dialect, given)
            if message is not None:
                yield _case(dialect, f"bad-{name}", message, bad=field)
    for dialect in ("json", "typed"):
        for name, (text, field) in _bad_texts(dialect).items():
            yield _case(dialect, f"bad-{name}", {"text": text}, bad=field)
    for name, text in _no_texts().items():
        case = _case("json", f"bad-{name}", {"text": text}, bad="message")
        yield {**case, "ends": True}
    for name, (data, field) in _bad_frames().items():
        yield _case("binary", f"bad-{name}", {"hex": data.hex()}, bad=field)
    for name, data in _no_frames().items():
        case = _case("binary", f"bad-{name}", {"hex": data.hex()}, bad="message")
        yield {**case, "ends": True}


def _case(
    dialect: str,
    name: str,
    message: Case,
    to: str = "step",
    space: Space[Any] = _BOX,
    **told: Any,
) -> Case:
    start = {"id": f"{dialect}-answer-{name}", "kind": "answer", "dialect": dialect}
    about = {"to": to, "number": _NUMBER, "observation_space": described(space)}
    return {**start, **about, **message, **told}


def _written(dialect: str, result: dict[str, Model]) -> Case | None:
    """Write an answer; none where plain JSON has no word for it."""
    if dialect == "json" and "nan" in str([plain_of(each) for each in result.values()]):
        return None
    return Side(dialect).answer(_NUMBER, result)


def _read(dialect: str) -> Iterator[Case]:
    def read(
        name: str,
        said: dict[str, Model],
        result: dict[str, Model] | None = None,
        **more: Any,
    ) -> Case:
        message = Side(dialect).answer(_NUMBER, said)
        return _case(dialect, name, message, result=result or said, **more)

    reset = {"observation": model_of(_HERE), "info": model_of({"level": 3})}
    bare = {"observation": reset["observation"]}
    yield read("reset", reset, to="reset")
    yield read("reset-without-info", bare, {**bare, "info": model_of({})}, to="reset")
    null = {**bare, "info": model_of(None)}
    yield read("reset-info-null", null, {**bare, "info": model_of({})}, to="reset")
    yield read("step", _STEP)
    for flags in ((True, False), (False, True), (True, True)):
        name = "-".join(f"{flag}".lower() for flag in flags)
        yield read(f"step-{name}", outcome(_HERE, -0.5, *flags))
    more = {**_STEP, "mood": model_of("good")}
    yield read("step-member-unknown", more, _STEP)
    place = {"observation": model_of(np.int64(2)), "info": model_of({})}
    yield read("reset-discrete", place, to="reset", space=_THREE)
    nested = {"a": [1, 0.5, None, True], "b": {"c": "\u00f6"}}
    yield read("reset-info-nested", {**bare, "info": model_of(nested)}, to="reset")
    inner = spaces.Dict({"at": _BOX, "place": _THREE})
    value = model_of({"at": _HERE, "place": np.int64(1)})
    told = {"observation": value, "info": model_of({})}
    yield read("reset-dict", told, to="reset", space=inner)
    rewards = {**_STEP, "reward": model_of([1.5, -0.25])}
    channels = ["food", "pain"]
    info = model_of({"note": "ok", "reward_channels": {"food": 1.5, "pain": -0.25}})
    summed = {**_STEP, "reward": model_of(1.25), "info": info}
    yield read("step-channels", rewards, summed, reward_channels=channels)
    one = {**_STEP, "reward": model_of([1.5])}
    message = Side(dialect).answer(_NUMBER, one)
    told_of = {"reward_channels": channels, "bad": "reward"}
    yield _case(dialect, "bad-channels-too-few", message, **told_of)
    yield from _errors(dialect)
    if dialect == "json":
        whole = {**_STEP, "reward": model_of(2)}
        yield read("step-reward-whole", whole, _STEP)
        corner = {**_STEP, "observation": model_of([0, 1])}
        cast = {**_STEP, "observation": model_of(np.array([0, 1], np.float32))}
        yield read("step-observation-whole", corner, cast)
    else:
        exact = {**_STEP, "reward": model_of(np.float32(0.5))}
        yield read("step-reward-of-numpy", exact)
        flags = {"terminated": model_of(np.True_), "truncated": model_of(np.False_)}
        yield read("step-flags-of-numpy", {**_STEP, **flags})


def _errors(dialect: str) -> Iterator[Case]:
    errors: dict[str, dict[str, Any]] = {
        "error": {"message": "the crate is stuck"},
        "error-code": {"code": "invalid-action", "message": "no such way"},
        "error-extras": {
            "code": "env-error",
            "message": "ValueError: no",
            "extras": {"error_type": "ValueError"},
        },
    }
    for name, error in errors.items():
        message = Side(dialect).failure(_NUMBER, error)
        yield _case(dialect, name, message, error=error)


def _bad_members() -> dict[str, dict[str, Model | None]]:
    def step(**changes: Any) -> dict[str, Model | None]:
        models = {k: None if v is None else model_of(v) for k, v in changes.items()}
        return {**_STEP, **models}

    null = {"none": None}
    return {
        "observation-missing": step(observation=None),
        "observation-null": {**_STEP, "observation": null},
        "observation-text": step(observation="here"),
        "observation-object": step(observation={"x": 0.25, "y": 0.5}),
        "observation-shape": step(observation=np.zeros(3, np.float32)),
        "observation-above": step(observation=np.array([0, 1.5], np.float32)),
        "observation-below": step(observation=np.array([-0.5, 0], np.float32)),
        "observation-nan": step(observation=np.array([0, math.nan], np.float32)),
        "exact-observation-list": step(observation=[0.25, 0.5]),
        "exact-observation-dtype": step(observation=np.array([0.25, 0.5])),
        "reward-missing": step(reward=None),
        "reward-null": {**_STEP, "reward": null},
        "reward-text": step(reward="1"),
        "reward-flag": step(reward=True),
        "reward-list": step(reward=[1.0]),
        "reward-nan": step(reward=math.nan),
        "exact-reward-inf": step(reward=math.inf),
        "terminated-missing": step(terminated=None),
        "terminated-null": {**_STEP, "terminated": null},
        "terminated-number": step(terminated=1),
        "terminated-text": step(terminated="true"),
        "truncated-missing": step(truncated=None),
        "truncated-number": step(truncated=0),
        "info-list": step(info=[]),
        "info-text": step(info="none"),
    }


def _bad_texts(dialect: str) -> dict[str, tuple[str, str]]:
    tree = plain_of if dialect == "json" else tree_of
    step, no = tree(dict_of(_STEP)), {"message": "no"}

    def said(**members: Any) -> str:
        return compact(members)

    return {
        "id-missing": (said(result=step), "id"),
        "id-null": (said(id=None, result=step), "id"),
        "id-text": (said(id="7", result=step), "id"),
        "id-fraction": (said(id=7.5, result=step), "id"),
        "id-0": (said(id=0, result=step), "id"),
        "id-negative": (said(id=-7, result=step), "id"),
        "id-2-32": (said(id=2**32, result=step), "id"),
        "type-other": (said(type="answer", id=7, result=step), "type"),
        "type-number": (said(type=1), "type"),
        "result-none": (said(id=7), "result"),
        "result-and-error": (
            said(id=7, result=step, error={"message": "no"}),
            "result",
        ),
        "result-null": (said(id=7, result=None), "result"),
        "result-list": (said(id=7, result=[step]), "result"),
        "error-text": (said(id=7, error="no"), "error"),
        "error-null": (said(id=7, error=None), "error"),
        "error-empty": (said(id=7, error={}), "error"),
        "error-message-number": (said(id=7, error={"message": 1}), "error"),
    }


def _no_texts() -> dict[str, str]:
    whole = compact({"id": 7, "result": plain_of(dict_of(_STEP))})
    return {
        "no-json": "hello",
        "empty": "",
        "list": "[]",
        "number": "7",
        "cut": whole[:-1],
        "two": whole * 2,
        "nan": whole.replace("0.25", "NaN"),
    }


def _bad_frames() -> dict[str, tuple[bytes, str]]:
    body = _body(_STEP)
    error = compact({"message": "no"}).encode()

    def said(
        operation: int = 0, number: int = _NUMBER, status: int = 200, **more: Any
    ) -> bytes:
        told = {"form": _BINARY, "body": body, **more}
        return frame(operation, number, status=status, **told)

    return {
        "operation-step": (said(operation=2), "operation"),
        "number-0": (said(number=0), "number"),
        "form-none": (said(form=_NONE, body=b""), "form"),
        "form-typed": (said(form=_TYPED, body=b"{}"), "form"),
        "status-0": (said(status=0), "status"),
        "status-300": (said(status=300, form=1, body=error), "status"),
        "status-502-without-problem": (said(status=502), "status"),
        "status-502-empty": (said(status=502, form=1, body=b"{}"), "status"),
        "body-empty": (said(body=b""), "body"),
        "body-cut": (said(body=body[:-8]), "body"),
        "body-signature-unknown": (
            said(body=struct.pack("<II", 0, 9) + body[8:]),
            "body",
        ),
        "result-list": (said(body=_body_of(model_of([1]))), "result"),
        "result-number": (said(body=_body_of(model_of(1))), "result"),
    }


def _no_frames() -> dict[str, bytes]:
    whole = frame(0, _NUMBER, status=200, form=_BINARY, body=_body(_STEP))
    return {
        "no-bytes": b"",
        "header-cut": whole[:15],
        "bytes-missing": whole[:-1],
        "byte-after": whole + b"\x00",
        "size-largest": b"\xff\xff\xff\xff" + whole[4:],
        "head-size-largest": whole[:4] + b"\xf8\xff\xff\xff" + whole[8:],
    }


def _body(result: dict[str, Model]) -> bytes:
    return _body_of(dict_of(result))


def _body_of(model: Model) -> bytes:
    return binary(model)
