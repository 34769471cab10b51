"""Servers and providers send and read the messages of the vectors."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from gym_http_server.external.handshakes import check_spaces
from gym_http_server.host import plain_json
from gym_http_server.host.external.results import ResultReader, read_rendered
from gym_http_wire.external.binary_dialect import BinaryDialect
from gym_http_wire.external.handshake import CAPABILITIES, BadHello, Hello, parse_hello
from gym_http_wire.external.json_dialect import JSONDialect
from gym_http_wire.external.messages import (
    NAMES,
    OPS,
    Answer,
    BadMessage,
    Dialect,
    Request,
)
from gym_http_wire.spaces import describe
from gym_http_wire.values import typed
from tests.clients.python.exact_json import tree
from tests.conformance.generate import VECTORS
from tests.conformance.making.external_messages import DEADLINE_S
from tests.conformance.making.models import model_of, native_of
from tests.support.drivers import Program
from tests.support.peers.conversations import messages_in, problems_of

CONTENT = json.loads((VECTORS / "external.json").read_bytes())
MAX_OBSERVATION = 64 * 1024 * 1024
CASES: list[dict[str, Any]] = CONTENT["cases"]
#: The features of each SDK: its dialects, and whether it has attributes.
SDKS = {
    "python": ({"typed", "binary"}, True),
    "js": ({"json", "typed", "binary"}, True),
    "cpp": ({"json", "binary"}, False),
    **{
        lua: ({"json", "binary"}, False)
        for lua in ("lua5.1", "lua5.3", "lua5.4", "luajit")
    },
}


def of_kind(kind: str) -> list[Any]:
    """Return the cases of a kind, as test parameters."""
    return [pytest.param(c, id=c["id"]) for c in CASES if c["kind"] == kind]


def dialect_of(name: str) -> Dialect:
    """Return the server's codec of a dialect."""
    if name == "binary":
        return BinaryDialect()
    forms = {
        "json": (plain_json.dumps, plain_json.loads),
        "typed": (typed.encode, typed.decode),
    }
    return JSONDialect(*forms[name])


def expected_of(name: str) -> list[dict[str, Any]]:
    """Return the conversations that an SDK supports."""
    dialects, attributes = SDKS[name]
    return [
        case
        for case in CASES
        if case["kind"] == "conversation"
        and case["dialect"] in dialects
        and (attributes or "attributes" not in case["capabilities"])
    ]


@pytest.mark.toolchain
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SDKS)
def test_sdks_send_the_messages_of_conversations(
    name: str, driver: Callable[[str], Program]
) -> None:
    output = messages_in(driver(name).output("converse", str(VECTORS)))
    expected = expected_of(name)
    assert output.keys() == {case["id"] for case in expected}
    for case in expected:
        assert not list(problems_of(case, output[case["id"]])), case["id"]


def spoilt(case: dict[str, Any], way: str) -> dict[str, Any]:
    """Change the environment's messages in a conversation."""
    case = copy.deepcopy(case)
    mine = [each for each in case["messages"] if each["from"] == "environment"]
    results = [each for each in mine if "reward" in each.get("result", {})]
    if way == "resume":
        mine[0]["hello"]["resume"] = "another"
    elif way == "id":
        results[0]["id"] += 1
    elif way == "missing":
        case["messages"].remove(mine[-1])
    elif way == "error":
        results[0]["error"] = {"code": "env-error", "message": "no"}
        del results[0]["result"]
    elif way == "control":
        results[0]["control"] = "pong"
    else:
        results[0]["result"][way] = model_of(np.float64(0.75))
    return case


@pytest.mark.parametrize("dialect", ["typed", "binary"])
def test_deviations_are_found(dialect: str, driver: Callable[[str], Program]) -> None:
    output = messages_in(driver("python").output("converse", str(VECTORS)))
    (case,) = (c for c in CASES if c["id"] == f"{dialect}-episode-box")
    assert not list(problems_of(case, output[case["id"]]))
    ways = ("resume", "id", "missing", "error", "control")
    for way in (*ways, "observation", "reward", "terminated", "info"):
        assert list(problems_of(spoilt(case, way), output[case["id"]])), way


@pytest.mark.parametrize("case", of_kind("hello"))
def test_servers_take_hellos_or_refuse_them(case: dict[str, Any]) -> None:
    payload = case["text"].encode()
    if "welcome" in case:
        check_spaces(parse_hello(payload), MAX_OBSERVATION)
        return
    with pytest.raises(BadHello) as caught:
        check_spaces(parse_hello(payload), MAX_OBSERVATION)
    assert caught.value.code == case["refused"]
    assert str(caught.value)


def read(case: dict[str, Any]) -> Answer | dict[str, Any]:
    """Read an answer as a host does."""
    space = describe(spaces.Discrete(3))
    hello = Hello(1, "game", case["observation_space"], space, dialect=case["dialect"])
    hello.reward_channels = case.get("reward_channels")
    payload = case["text"].encode() if "text" in case else bytes.fromhex(case["hex"])
    answer = dialect_of(case["dialect"]).decode_answer(payload)
    assert isinstance(answer, Answer)
    assert answer.number == case["number"]
    if answer.result is None:
        return answer
    if case["to"] == "render":
        result, mode = answer.result.get("rendered"), case["render_mode"]
        return {
            "rendered": read_rendered(result, mode, plain=case["dialect"] == "json")
        }
    results = ResultReader(hello)
    names: tuple[str, ...] = ("observation", "info")
    if case["to"] == "reset":
        return dict(zip(names, results.reset(answer.result), strict=True))
    names = ("observation", "reward", "terminated", "truncated", "info")
    return dict(zip(names, results.step(answer.result), strict=True))


# Gymnasium warns of lists, and reads them as arrays.
@pytest.mark.filterwarnings("ignore:.*Casting input x")
@pytest.mark.parametrize("case", of_kind("answer"))
def test_servers_read_answers_or_name_the_fault(case: dict[str, Any]) -> None:
    if "bad" in case:
        with pytest.raises(BadMessage) as caught:
            read(case)
        assert caught.value.field == case["bad"]
        assert caught.value.fatal == case.get("ends", False)
        return
    answer = read(case)
    if "error" in case:
        assert isinstance(answer, Answer)
        assert answer.error == case["error"]
    else:
        assert isinstance(answer, dict)
        assert {k: model_of(v) for k, v in answer.items()} == case["result"]


@pytest.mark.parametrize("case", of_kind("conversation"))
def test_requests_of_servers_are_equal_to_the_byte(case: dict[str, Any]) -> None:
    dialect = dialect_of(case["dialect"])
    for message in case["messages"]:
        if "hello" in message:
            dialect = dialect_of(case["dialect"])
        if "asks" not in message:
            continue
        asks = message["asks"]
        given = {name: native_of(model) for name, model in asks["given"].items()}
        request = Request(NAMES[asks["type"]], asks["id"], given)
        written = dialect.encode_request(request, DEADLINE_S)
        if "text" in message:
            # A number may have zeros at its end.
            assert tree(written) == tree(message["text"])
        else:
            assert written.hex() == message["hex"]


def controls() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield pings, pongs and faults of servers, with their dialects."""
    for case in CASES:
        for message in case.get("messages", []):
            if message["from"] == "server" and "asks" not in message:
                yield case["dialect"], message


def test_all_messages_are_covered() -> None:
    talks = [case for case in CASES if case["kind"] == "conversation"]
    types = {m["asks"]["type"] for c in talks for m in c["messages"] if "asks" in m}
    without = {"generator", "set_generator"}
    lines = {"ping", "pong", "fault"}
    assert types == {ask.name.lower() for ask in OPS} - lines - without
    found = {json.loads(m["text"])["type"] for _, m in controls() if "text" in m}
    assert found == {"welcome", *lines}
    can = {each for case in talks for each in case["capabilities"]}
    assert can | {"replay", "pause", "realtime"} == set(CAPABILITIES)
    fields = {case["bad"] for case in CASES if "bad" in case}
    assert fields >= {"observation", "reward", "terminated", "truncated", "info", "id"}
    assert fields >= {"result", "error", "type", "message", "operation", "status"}
    assert {case["to"] for case in CASES if "to" in case} == {"reset", "step", "render"}
