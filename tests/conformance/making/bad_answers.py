"""Invalid answers of an external environment, and the fault of each."""

import math
import struct
from typing import Any

import numpy as np

from tests.conformance.making.conversation import outcome
from tests.conformance.making.external_messages import dict_of, frame, plain_of
from tests.conformance.making.forms import binary, compact, tree_of
from tests.conformance.making.models import Model, model_of

HERE = np.array([0.25, 0.5], np.float32)
STEP = outcome(HERE, 2.0)
NUMBER = 7
_NONE, _TYPED, _BINARY = 0, 2, 3


def bad_members() -> dict[str, dict[str, Model | None]]:
    """Return invalid results by their fault; `None` omits a member."""

    def step(**changes: Any) -> dict[str, Model | None]:
        models = {k: None if v is None else model_of(v) for k, v in changes.items()}
        return {**STEP, **models}

    null = {"none": None}
    return {
        "observation-missing": step(observation=None),
        "observation-null": {**STEP, "observation": null},
        "observation-text": step(observation="here"),
        "observation-object": step(observation={"x": 0.25, "y": 0.5}),
        "observation-shape": step(observation=np.zeros(3, np.float32)),
        "observation-above": step(observation=np.array([0, 1.5], np.float32)),
        "observation-below": step(observation=np.array([-0.5, 0], np.float32)),
        "observation-nan": step(observation=np.array([0, math.nan], np.float32)),
        "exact-observation-list": step(observation=[0.25, 0.5]),
        "exact-observation-dtype": step(observation=np.array([0.25, 0.5])),
        "reward-missing": step(reward=None),
        "reward-null": {**STEP, "reward": null},
        "reward-text": step(reward="1"),
        "reward-flag": step(reward=True),
        "reward-list": step(reward=[1.0]),
        "reward-nan": step(reward=math.nan),
        "exact-reward-inf": step(reward=math.inf),
        "terminated-missing": step(terminated=None),
        "terminated-null": {**STEP, "terminated": null},
        "terminated-number": step(terminated=1),
        "terminated-text": step(terminated="true"),
        "truncated-missing": step(truncated=None),
        "truncated-number": step(truncated=0),
        "info-list": step(info=[]),
        "info-text": step(info="none"),
    }


def rendered(picture: Any) -> dict[str, tuple[str, Any, str]]:
    """Return invalid rendered frames: render mode, value and field."""
    one, many = "rgb_array", "rgb_array_list"
    return {
        "missing": (one, None, "rendered"),
        "text": (one, "#..", "rendered"),
        "two-colours": (one, picture[:, :, :2], "rendered"),
        "grey": (one, picture[:, :, 0], "rendered"),
        "list-of-none": (many, picture[0, 0, 0].item(), "rendered"),
        "second-of-list": (many, [picture, "#.."], "rendered[1]"),
        "exact-lists": (one, picture.tolist(), "rendered"),
        "exact-dtype": (one, picture.astype(np.int64), "rendered"),
    }


def bad_texts(dialect: str) -> dict[str, tuple[str, str]]:
    """Return texts that are no valid answers, and the field at fault."""
    tree = plain_of if dialect == "json" else tree_of
    step, no = tree(dict_of(STEP)), {"message": "no"}

    def text(**members: Any) -> str:
        return compact(members)

    return {
        "id-missing": (text(result=step), "id"),
        "id-null": (text(id=None, result=step), "id"),
        "id-text": (text(id="7", result=step), "id"),
        "id-fraction": (text(id=7.5, result=step), "id"),
        "id-0": (text(id=0, result=step), "id"),
        "id-negative": (text(id=-7, result=step), "id"),
        "id-2-32": (text(id=2**32, result=step), "id"),
        "type-other": (text(type="answer", id=7, result=step), "type"),
        "type-number": (text(type=1), "type"),
        "result-none": (text(id=7), "result"),
        "result-and-error": (text(id=7, result=step, error=no), "result"),
        "result-null": (text(id=7, result=None), "result"),
        "result-list": (text(id=7, result=[step]), "result"),
        "error-text": (text(id=7, error="no"), "error"),
        "error-null": (text(id=7, error=None), "error"),
        "error-empty": (text(id=7, error={}), "error"),
        "error-message-number": (text(id=7, error={"message": 1}), "error"),
    }


def no_texts() -> dict[str, str]:
    """Return texts that cannot be parsed."""
    whole = compact({"id": 7, "result": plain_of(dict_of(STEP))})
    return {
        "no-json": "hello",
        "empty": "",
        "list": "[]",
        "number": "7",
        "cut": whole[:-1],
        "two": whole * 2,
        "nan": whole.replace("0.25", "NaN"),
    }


def bad_frames() -> dict[str, tuple[bytes, str]]:
    """Return frames that are no valid answers, and the field at fault."""
    body = _body(STEP)
    error = compact({"message": "no"}).encode()

    def answer(
        operation: int = 0, number: int = NUMBER, status: int = 200, **more: Any
    ) -> bytes:
        fields = {"form": _BINARY, "body": body, **more}
        return frame(operation, number, status=status, **fields)

    return {
        "operation-step": (answer(operation=2), "operation"),
        "number-0": (answer(number=0), "number"),
        "form-none": (answer(form=_NONE, body=b""), "form"),
        "form-typed": (answer(form=_TYPED, body=b"{}"), "form"),
        "status-0": (answer(status=0), "status"),
        "status-300": (answer(status=300, form=1, body=error), "status"),
        "status-502-without-problem": (answer(status=502), "status"),
        "status-502-empty": (answer(status=502, form=1, body=b"{}"), "status"),
        "body-empty": (answer(body=b""), "body"),
        "body-cut": (answer(body=body[:-8]), "body"),
        "body-signature-unknown": (
            answer(body=struct.pack("<II", 0, 9) + body[8:]),
            "body",
        ),
        "result-list": (answer(body=_body_of(model_of([1]))), "result"),
        "result-number": (answer(body=_body_of(model_of(1))), "result"),
    }


def no_frames() -> dict[str, bytes]:
    """Return bytes that are no valid frames."""
    whole = frame(0, NUMBER, status=200, form=_BINARY, body=_body(STEP))
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
