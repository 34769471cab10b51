"""Compares the messages of an environment with the conversations of the vectors."""

import json
from collections.abc import Iterator
from typing import Any

from gym_http_wire.external.binary_dialect import BinaryDialect
from gym_http_wire.external.json_dialect import JSONDialect
from gym_http_wire.external.messages import Answer, Control, Dialect
from gym_http_wire.space_parsing import parse_space
from gym_http_wire.values import typed
from tests.conformance.making.external_messages import plain_of
from tests.conformance.making.models import Model, model_of

Case = dict[str, Any]
Messages = dict[str, list[str]]
_SPACES = ("observation_space", "action_space")


def dialect_named(dialect: str) -> Dialect:
    """Return the codec of a dialect's messages."""
    if dialect == "binary":
        return BinaryDialect()
    if dialect == "typed":
        return JSONDialect(typed.encode, typed.decode)
    return JSONDialect(lambda value: json.dumps(value).encode(), json.loads)


def messages_in(printed: str) -> Messages:
    """Sort the output of a driver by cases: kind and message, with a tab between."""
    fields: Messages = {}
    for line in printed.splitlines():
        name, _, message = line.partition("\t")
        fields.setdefault(name, []).append(message)
    return fields


def problems_of(case: Case, text: list[str]) -> Iterator[str]:
    """Return the differences between recorded messages and a conversation."""
    expected = [each for each in case["messages"] if each["from"] == "environment"]
    if len(text) != len(expected):
        yield f"expected {len(expected)} messages, actual {len(text)}"
    received = iter(text)
    dialect = dialect_named(case["dialect"])
    for place, one in enumerate(case["messages"]):
        if "hello" in one or one.get("asks", {}).get("type") == "init":
            # Signatures are numbered anew.
            dialect = dialect_named(case["dialect"])
        if one["from"] != "environment":
            continue
        message = next(received, "nothing")
        try:
            if "hello" in one:
                _check_hello(case, one["hello"], message)
            else:
                answer = dialect.decode_answer(_payload(case["dialect"], message))
                _check(case, one, answer)
        except Exception as error:
            yield f"message {place}, {message[:300]}: {type(error).__name__}: {error}"
            return


def _payload(dialect: str, message: str) -> bytes:
    kind, _, content = message.partition("\t")
    assert kind == ("hex" if dialect == "binary" else "text"), kind
    return bytes.fromhex(content) if kind == "hex" else content.encode()


def _check_hello(case: Case, expected: Case, message: str) -> None:
    hello = json.loads(_payload("json", message))
    assert hello["type"] == "hello"
    assert hello["protocol"] == 1
    assert hello["name"] == "scripted"
    assert hello.get("dialect", "json") == case["dialect"]
    assert hello.get("resume", "") == expected["resume"], hello.get("resume")
    assert set(hello["capabilities"]) >= {"replay", *case["capabilities"]}
    assert hello.get("render_modes", []) == [
        case[k] for k in case if k == "render_mode"
    ]
    for name in _SPACES:
        assert parse_space(hello[name]) == parse_space(case[name])


def _check(case: Case, expected: Case, answer: Answer | Control) -> None:
    if "control" in expected:
        assert isinstance(answer, Control), answer
        assert answer.op.name.lower() == expected["control"]
        return
    assert isinstance(answer, Answer), answer
    assert answer.number == expected["id"], f"id is {answer.number}"
    if "error" in expected:
        error = answer.error or {}
        assert error.get("code", "env-error") == expected["error"]["code"], answer
        assert expected["error"]["message"] in error["message"], answer
        return
    assert answer.result is not None, answer
    result = {"info": {}, **answer.result}
    for name in _SPACES:
        if name in result:
            assert parse_space(result[name]) == parse_space(case[name])
    same = _plainly if case["dialect"] == "json" else _exactly
    for name, model in expected["result"].items():
        assert same(model, result[name]), f"{name} is {result[name]!r}, not {model}"


def _exactly(model: Model, value: Any) -> bool:
    return _by_name(model_of(value)) == _by_name(model)


def _by_name(model: Model) -> Any:
    """Remove the order of members."""
    ((kind, content),) = model.items()
    if kind == "dict":
        return sorted((str(key), _by_name(item)) for key, item in content)
    return model


def _plainly(model: Model, value: Any) -> bool:
    plain = plain_of(model)
    return bool(plain == value) and isinstance(plain, bool) == isinstance(value, bool)
