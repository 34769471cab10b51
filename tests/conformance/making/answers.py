"""Answers of an external environment, and the value or the fault of each."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from tests.conformance.making import Case
from tests.conformance.making import bad_answers as bad
from tests.conformance.making.bad_answers import HERE, NUMBER, STEP
from tests.conformance.making.conversation import outcome
from tests.conformance.making.describing import described
from tests.conformance.making.external_messages import DIALECTS, Side, plain_of
from tests.conformance.making.models import Model, model_of

_BOX = spaces.Box(0, 1, (2,), np.float32)
_THREE = spaces.Discrete(3)


def cases() -> Iterator[Case]:
    """Yield all answers, each in the dialects that can express it."""
    for dialect in DIALECTS:
        yield from _read(dialect)
        yield from _rendered(dialect)
        for name, members in bad.bad_members().items():
            if dialect == "json" and name.startswith("exact-"):
                continue
            given = {key: item for key, item in members.items() if item is not None}
            field = name.removeprefix("exact-").partition("-")[0]
            message = _written(dialect, given)
            if message is not None:
                yield _case(dialect, f"bad-{name}", message, bad=field)
    for dialect in ("json", "typed"):
        for name, (text, field) in bad.bad_texts(dialect).items():
            yield _case(dialect, f"bad-{name}", {"text": text}, bad=field)
    for name, text in bad.no_texts().items():
        case = _case("json", f"bad-{name}", {"text": text}, bad="message")
        yield {**case, "ends": True}
    for name, (data, field) in bad.bad_frames().items():
        yield _case("binary", f"bad-{name}", {"hex": data.hex()}, bad=field)
    for name, data in bad.no_frames().items():
        case = _case("binary", f"bad-{name}", {"hex": data.hex()}, bad="message")
        yield {**case, "ends": True}


def _case(
    dialect: str,
    name: str,
    message: Case,
    to: str = "step",
    space: Space[Any] = _BOX,
    **answer: Any,
) -> Case:
    start = {"id": f"{dialect}-answer-{name}", "kind": "answer", "dialect": dialect}
    about = {"to": to, "number": NUMBER, "observation_space": described(space)}
    return {**start, **about, **message, **answer}


def _written(dialect: str, result: dict[str, Model]) -> Case | None:
    """Write an answer; none where plain JSON has no word for it."""
    if dialect == "json" and "nan" in str([plain_of(each) for each in result.values()]):
        return None
    return Side(dialect).answer(NUMBER, result)


def _read(dialect: str) -> Iterator[Case]:
    def read(
        name: str,
        text: dict[str, Model],
        result: dict[str, Model] | None = None,
        **more: Any,
    ) -> Case:
        message = Side(dialect).answer(NUMBER, text)
        return _case(dialect, name, message, result=result or text, **more)

    reset = {"observation": model_of(HERE), "info": model_of({"level": 3})}
    bare = {"observation": reset["observation"]}
    yield read("reset", reset, to="reset")
    yield read("reset-without-info", bare, {**bare, "info": model_of({})}, to="reset")
    null = {**bare, "info": model_of(None)}
    yield read("reset-info-null", null, {**bare, "info": model_of({})}, to="reset")
    yield read("step", STEP)
    for flags in ((True, False), (False, True), (True, True)):
        name = "-".join(f"{flag}".lower() for flag in flags)
        yield read(f"step-{name}", outcome(HERE, -0.5, *flags))
    more = {**STEP, "mood": model_of("good")}
    yield read("step-member-unknown", more, STEP)
    place = {"observation": model_of(np.int64(2)), "info": model_of({})}
    yield read("reset-discrete", place, to="reset", space=_THREE)
    nested = {"a": [1, 0.5, None, True], "b": {"c": "\u00f6"}}
    yield read("reset-info-nested", {**bare, "info": model_of(nested)}, to="reset")
    inner = spaces.Dict({"at": _BOX, "place": _THREE})
    value = model_of({"at": HERE, "place": np.int64(1)})
    fields = {"observation": value, "info": model_of({})}
    yield read("reset-dict", fields, to="reset", space=inner)
    rewards = {**STEP, "reward": model_of([1.5, -0.25])}
    channels = ["food", "pain"]
    info = model_of({"note": "ok", "reward_channels": {"food": 1.5, "pain": -0.25}})
    summed = {**STEP, "reward": model_of(1.25), "info": info}
    yield read("step-channels", rewards, summed, reward_channels=channels)
    one = {**STEP, "reward": model_of([1.5])}
    message = Side(dialect).answer(NUMBER, one)
    told_of = {"reward_channels": channels, "bad": "reward"}
    yield _case(dialect, "bad-channels-too-few", message, **told_of)
    yield from _errors(dialect)
    if dialect == "json":
        whole = {**STEP, "reward": model_of(2)}
        yield read("step-reward-whole", whole, STEP)
        corner = {**STEP, "observation": model_of([0, 1])}
        cast = {**STEP, "observation": model_of(np.array([0, 1], np.float32))}
        yield read("step-observation-whole", corner, cast)
    else:
        exact = {**STEP, "reward": model_of(np.float32(0.5))}
        yield read("step-reward-of-numpy", exact)
        flags = {"terminated": model_of(np.True_), "truncated": model_of(np.False_)}
        yield read("step-flags-of-numpy", {**STEP, **flags})


def _rendered(dialect: str) -> Iterator[Case]:
    picture = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    good = {
        "text": ("ansi", "#..\n.\u00f6."),
        "picture": ("rgb_array", picture),
        "pictures": ("rgb_array_list", [picture, picture[:1]]),
    }
    for name, (mode, frame) in good.items():
        model = {"rendered": model_of(frame)}
        message = Side(dialect).answer(NUMBER, model)
        fields = {"to": "render", "render_mode": mode, "result": model}
        yield _case(dialect, f"render-{name}", message, **fields)
    for name, (mode, frame, field) in bad.rendered(picture).items():
        if dialect == "json" and name.startswith("exact-"):
            continue
        members = {} if frame is None else {"rendered": model_of(frame)}
        message = Side(dialect).answer(NUMBER, members)
        fields = {"to": "render", "render_mode": mode, "bad": field}
        yield _case(dialect, f"bad-render-{name}", message, **fields)


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
        message = Side(dialect).failure(NUMBER, error)
        yield _case(dialect, name, message, error=error)
