"""The fast path reads answers to steps as the general path does."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import Space
from gymnasium import spaces as gs
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from gym_http_server.external.tango_dialect import TangoDialect
from gym_http_server.host import plain_json
from gym_http_server.host.external.results import ResultReader
from gym_http_wire.external.binary_dialect import BinaryDialect
from gym_http_wire.external.handshake import Hello
from gym_http_wire.external.json_dialect import JSONDialect
from gym_http_wire.external.messages import Answer, BadMessage, Dialect, Request
from gym_http_wire.external.steps import Step
from gym_http_wire.messages import Op
from gym_http_wire.spaces import describe
from gym_http_wire.values import typed
from gym_http_wire.values.binary import split
from tests.support.faults.mutated_messages import mutated
from tests.support.spaces import (
    MULTI_BINARIES,
    hostile_boxes,
    hostile_discretes,
    multi_discretes,
    tame_boxes,
)
from tests.support.values import assert_same

SPACES = st.one_of(
    hostile_boxes(),
    tame_boxes(),
    hostile_discretes(),
    multi_discretes(),
    MULTI_BINARIES,
    st.just(gs.Text(3)),
)
NUMBERS = st.one_of(
    st.integers(-9, 9),
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([3.4028235e38, 3.4028236e38, 65504, 65519, 1e39, -0.0, 0.1]),
    st.booleans(),
    st.none(),
    st.just("1"),
)


def reader_of(space: Space[Any], dialect: str = "json") -> ResultReader:
    """Return the result reader of an environment that observes a space."""
    return ResultReader(
        Hello(
            protocol=1,
            name="toy",
            observation_space=describe(space),
            action_space=describe(gs.Discrete(2)),
            capabilities=["reset"],
            dialect=dialect,
        )
    )


def element_of(space: Space[Any]) -> Any:
    """Sample a space; of a box whose bounds Gymnasium cannot sample, take a bound."""
    if isinstance(space, gs.Box):
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        most = {"i": 2.0**62, "u": 2.0**62}.get(space.dtype.kind, 1e300)
        bounds = np.concatenate([low.ravel(), high.ravel()])
        if (np.abs(bounds[np.isfinite(bounds)]) > most).any():
            bound = np.where(np.isfinite(low), space.low, space.high)
            return np.where(np.isfinite(bound), bound, 0).astype(space.dtype)
    return space.sample()


@st.composite
def observations(draw: st.DrawFn, space: Space[Any]) -> Any:
    """Something that is nearly an observation, as plain JSON."""
    space.seed(draw(st.integers(0, 1000)))
    shape = space.shape
    try:
        sample = json.loads(plain_json.dumps(space.sample()))
    except (ValueError, OverflowError):
        sample = 0
    kind = draw(st.sampled_from(["sample", "sample", "numbers", "number"]))
    value = draw(NUMBERS) if kind == "number" else sample
    if shape and kind == "numbers":
        count = int(np.prod(shape))
        numbers = draw(st.lists(NUMBERS, min_size=count, max_size=count))
        value = np.array(numbers, object).reshape(shape).tolist()
    return value


@st.composite
def answers(draw: st.DrawFn, space: Space[Any]) -> dict[str, Any]:
    """Dispatch to a step with ID 7 that may be wrong in any of their parts."""
    result = {
        "observation": draw(observations(space)),
        "reward": draw(st.one_of(st.floats(-3, 3), st.integers(), NUMBERS)),
        "terminated": draw(st.sampled_from([True, False, False, 0, None])),
        "truncated": draw(st.booleans()),
    }
    info = st.sampled_from([{}, {"level": 3}, {"deep": [{"x": None}]}, None, [], 2**70])
    if draw(st.booleans()):
        result["info"] = draw(info)
    if draw(st.integers(0, 9)) == 0:
        result["more"] = draw(info)
    answer: dict[str, Any] = {"id": 7, "result": result}
    if draw(st.integers(0, 9)) == 0:
        answer[draw(st.sampled_from(["type", "error", "other"]))] = "x"
    return answer


@st.composite
def sound_answers(draw: st.DrawFn, space: Space[Any]) -> dict[str, Any]:
    """Return answers to a step with ID 7 as environments send them."""
    space.seed(draw(st.integers(0, 1000)))
    result = {
        "observation": json.loads(plain_json.dumps(element_of(space))),
        "reward": draw(st.one_of(st.floats(-3, 3), st.integers(-3, 3))),
        "terminated": draw(st.booleans()),
        "truncated": draw(st.booleans()),
    }
    if draw(st.booleans()):
        result["info"] = draw(st.sampled_from([{}, {"level": 3}]))
    return {"id": 7, "result": result}


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.data())
def test_both_paths_read_the_same(data: st.DataObject) -> None:
    space = data.draw(SPACES)
    results = reader_of(space)
    reader = results.steps
    if reader is None:
        return
    if data.draw(st.booleans()):
        payload = json.dumps(data.draw(sound_answers(space))).encode()
    else:
        payload = json.dumps(data.draw(answers(space))).encode()
        if data.draw(st.integers(0, 3)) == 0:
            payload = data.draw(mutated(st.just(payload)))
    message = reader.answer(payload)
    event("read at once" if message else "left to the general way")
    if message is None:
        return
    number, step = message
    dialect = JSONDialect(plain_json.dumps, plain_json.loads)
    general = dialect.decode_answer(payload)
    assert isinstance(general, Answer)
    assert number == general.number
    assert general.result is not None
    expected = results.step(general.result)
    assert_same(tuple(step), expected)
    records = results.packing
    if records is None:
        return
    recorded = records.reader.answer(payload)
    event("without an info" if recorded else "with an info")
    # Repeated members may take the general path without need.
    assert recorded is not None or step.info or payload.count(b'"info"') > 1
    if recorded is not None:
        number, record = recorded
        assert number == general.number
        assert not step.info
        assert_same(record.reward, step.reward)
        assert record.terminated == step.terminated
        assert record.truncated == step.truncated
        assert written(step) == (records.signature, record.leaves)


def written(step: Step) -> tuple[bytes, bytes]:
    """Return signature and leaves of a stream's answer to a step."""
    observation, reward, terminated, truncated, info = step
    value = {
        "info": info,
        "observation": observation,
        "reward": reward,
        "terminated": terminated,
        "truncated": truncated,
    }
    signature, leaves = split(value)
    return signature, b"".join(leaves)


@pytest.mark.parametrize(
    "space",
    [
        gs.Box(0, 4, (8, 8), np.uint8),
        gs.Box(-1, 1, (3,), np.float32),
        gs.Box(-np.inf, np.inf, (2, 3), np.float64),
        gs.Box(0, 9, (2, 1, 3), np.int16),
        gs.Box(0, 9, (3,), np.dtype(">i4")),
        gs.Box(np.array([0, -5]), np.array([1, 5]), dtype=np.int64),
        gs.Discrete(5, start=-2),
        gs.MultiBinary([2, 2]),
        gs.MultiDiscrete([3, 4]),
    ],
    ids=str,
)
def test_samples_are_read_by_the_fast_path(space: Space[Any]) -> None:
    results = reader_of(space)
    reader, records = results.steps, results.packing
    assert reader is not None
    assert records is not None
    space.seed(1)
    for _ in range(20):
        sample = space.sample()
        result = {
            "observation": json.loads(plain_json.dumps(sample)),
            "reward": 1,
            "terminated": False,
            "truncated": True,
            "info": {"level": 2},
        }
        step = reader.result(json.dumps(result).encode())
        assert step is not None
        assert_same(tuple(step), (sample, 1.0, False, True, {"level": 2}))
        assert records.reader.result(json.dumps(result).encode()) is None
        del result["info"]
        record = records.reader.result(json.dumps(result).encode())
        assert record is not None
        expected = Step(sample, 1.0, False, True, {})
        assert written(expected) == (records.signature, record.leaves)


def test_large_observations_have_no_records() -> None:
    assert reader_of(gs.Box(0, 4, (72,), np.uint8)).packing is not None
    assert reader_of(gs.Box(0, 4, (80,), np.uint8)).packing is None


@pytest.mark.parametrize(
    ("space", "observation"),
    [
        (gs.Box(0, 4, (2,), np.uint8), "[0, 5]"),
        (gs.Box(0, 4, (2,), np.uint8), "[0, 1, 2]"),
        (gs.Box(0, 4, (2,), np.uint8), "[0, -1]"),
        (gs.Box(0, 4, (2,), np.uint8), "[0, 0.5]"),
        (gs.Box(0, np.array([1.0, 2.0], np.float32)), "[1.5, 1.5]"),
        (gs.Box(-np.inf, np.inf, (1,), np.float32), "[1e39]"),
        (gs.Discrete(3, start=1), "0"),
        (gs.Discrete(200, start=100, dtype=np.uint8), "299"),
        (gs.Discrete(200, start=100, dtype=np.uint8), "256"),
        (gs.MultiDiscrete([2, 3]), "[2, 2]"),
    ],
)
def test_values_outside_the_space_are_left_to_the_general_path(
    space: Space[Any], observation: str
) -> None:
    results = reader_of(space)
    assert results.steps is not None
    words = '{"observation":%s,"reward":0,"terminated":false,"truncated":false}'
    payload = (words % observation).encode()
    assert results.steps.result(payload) is None
    assert results.packing is not None
    assert results.packing.reader.result(payload) is None
    with pytest.raises(BadMessage):
        results.step(json.loads(payload))


def test_large_integers_are_left_to_the_general_path() -> None:
    number = "1" + 100 * "0"
    words = '{"observation":%s,"reward":%s,"terminated":false,"truncated":false}'
    results = reader_of(gs.Box(-np.inf, np.inf, (1,), np.float64))
    assert results.steps is not None
    assert results.steps.result((words % ("[0]", "0")).encode()) is not None
    assert results.steps.result((words % ("[0]", number)).encode()) is None
    assert results.steps.result((words % (f"[{number}]", "0")).encode()) is None


def test_a_deep_info_is_left_to_the_general_path() -> None:
    results = reader_of(gs.Discrete(2))
    assert results.steps is not None
    words = (
        '{"observation":0,"reward":0,"terminated":false,"truncated":false,"info":%s}'
    )
    deep = ['{"x":' + levels * "[" + levels * "]" + "}" for levels in (63, 99)]
    for info in (*deep, '{"x":1e999}', "[]"):
        assert results.steps.result((words % info).encode()) is None


def test_tangos_answers_belong_to_the_last_request() -> None:
    dialect = TangoDialect(plain_json.dumps, plain_json.loads)
    results = reader_of(gs.Discrete(2), "tango")
    reader = results.steps
    assert reader is not None
    payload = b'{"observation":1,"reward":2,"terminated":false,"truncated":false}'
    assert dialect.decode_step(payload, reader) is None
    request = dialect.encode_request(Request(Op.STEP, 5, {"action": np.int64(1)}), 1.0)
    assert json.loads(request) == {"type": "action", "action": "1"}
    assert dialect.decode_step(b'{"observation":1}', reader) is None
    message = dialect.decode_step(payload, reader)
    assert message is not None
    assert (message[0], message[1][1]) == (5, 2.0)
    assert dialect.decode_step(payload, reader) is None


@pytest.mark.parametrize("action", [0, -3, 2**53, 2**53 + 1, -(2**53) - 1, 2**200])
def test_integers_are_written_as_the_dialect_defines(action: int) -> None:
    request = Request(Op.STEP, 5, {"action": action})
    written = JSONDialect(typed.encode, typed.decode).encode_request(request, 1.5)
    assert typed.decode(written)["action"] == action
    message = json.loads(written)["action"]
    # As in docs/api.md, for readers that have no integers beyond.
    assert message == action if abs(action) <= 2**53 else message["$t"] == "int"
    written = JSONDialect(plain_json.dumps, plain_json.loads).encode_request(
        request, 1.5
    )
    assert json.loads(written)["action"] == action


@pytest.mark.parametrize(
    "make",
    [
        BinaryDialect,
        lambda: JSONDialect(plain_json.dumps, plain_json.loads),
        lambda: JSONDialect(typed.encode, typed.decode),
        lambda: TangoDialect(plain_json.dumps, plain_json.loads),
    ],
    ids=["binary", "json", "typed", "tango"],
)
@pytest.mark.parametrize(
    "action",
    [0, -3, 2**53 + 1, np.int64(2), True, 0.5, "left", np.arange(3.0), {"turn": [1]}],
    ids=repr,
)
def test_steps_are_encoded_as_any_request(
    make: Callable[[], Dialect], action: Any
) -> None:
    expected = make().encode_request(Request(Op.STEP, 7, {"action": action}), 1.5)
    assert make().encode_step(7, action, 1.5) == expected
