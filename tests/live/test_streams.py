"""Messages on streams: both dialects, numbers, keys, order and signatures."""

import json
import struct
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from websockets.sync.client import connect

from gym_http_wire.values import binary as values
from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.envs import toys  # noqa: F401
from tests.support.identity import assert_identical
from tests.support.raw import Response
from tests.support.server import Server
from tests.support.wait import wait_until
from tests.support.websocket import (
    BINARY,
    PING,
    PONG,
    TEXT,
    Answer,
    WebSocket,
    binary,
    frame,
    value,
)

RESET, STEP, RENDER, DESCRIBE, ATTRIBUTE, STREAM = 1, 2, 3, 4, 15, 32
BINARY_MEDIA = "application/vnd.gym-http.binary"
ACTION = value('{"dict":[["action","int"]]}', struct.pack("<q", 1))
EMPTY = value('{"dict":[]}')


@pytest.fixture
def instance(create_either: Callable[..., Instance]) -> Instance:
    """A CartPole on either kind of server."""
    return create_either()


def text(instance: Instance, session: str = "", **more: Any) -> WebSocket:
    """Open a stream in the text dialect."""
    stream = WebSocket.to(instance, session, sec_websocket_protocol=TEXT, **more)
    assert stream.response.status == 101, stream.response
    return stream


def steps(instance: Instance) -> int:
    """Return the number of steps so far."""
    return int(calls.ok(instance.get(""))["steps"])


def decoded(answer: Answer, signatures: dict[int, bytes]) -> Any:
    """Return the value of an answer, after the rules for numbered signatures."""
    assert (answer.status, answer.form) == (200, 3), answer
    size, number = struct.unpack_from("<II", answer.body)
    signature, leaves = answer.body[8 : 8 + size], answer.body[8 + size :]
    if size and number:
        assert number not in signatures
        signatures[number] = signature
    elif number:
        signature = signatures[number]
    return values.decode(struct.pack("<II", len(signature), 0) + signature + leaves)


def keyed(session: str, number: int, **more: str) -> dict[str, str]:
    """Return the headers under which REST knows a stream's request."""
    return {"Idempotency-Key": f"{session}-{number}", **more}


def replayed(response: Response) -> bool:
    """Return whether an answer is marked as a replay."""
    return response.header("Idempotent-Replayed") == "true"


def test_text_equals_rest(create_either: Callable[..., Instance]) -> None:
    over_rest, over_stream = create_either(), create_either()
    with text(over_stream) as stream:
        expected = over_rest.reset(seed=3)
        assert stream.call(op="reset", seed=3) == {
            "number": 1,
            "status": 200,
            "body": expected,
        }
        warned = []
        for number in range(2, 60):
            action = number % 2
            answer = stream.call(op="step", action=action)
            warned += answer["body"].pop("warnings", [])
            expected = over_rest.step(action)
            assert answer == {"number": number, "status": 200, "body": expected}
        # CartPole warns once of steps after the end; over REST a header has that.
        (warning,) = warned
        assert "already returned terminated = True" in warning["message"]


def test_binary_is_the_local_environment(
    create_either: Callable[..., Instance],
) -> None:
    signatures: dict[int, bytes] = {}
    sizes = []
    instance = create_either()
    with gymnasium.make("CartPole-v1") as local, WebSocket.to(instance) as stream:
        given: Any = {"seed": 5}
        answer = stream.call_binary(RESET, 1, values.encode(given))
        observation, info = local.reset(seed=5)
        expected: Any = {"info": info, "observation": observation}
        assert_identical(decoded(answer, signatures), expected)
        for number in range(2, 12):
            action = np.int64(number % 2)
            answer = stream.call_binary(STEP, number, values.encode({"action": action}))
            sizes.append(len(answer.body))
            assert answer.number == number
            got = decoded(answer, signatures)
            names = ("observation", "reward", "terminated", "truncated", "info")
            expected = dict(zip(names, local.step(action), strict=True))
            assert set(got) == set(expected)
            for name, wanted in expected.items():
                assert_identical(got[name], wanted)
    # The signature went over once, and its number in its place since.
    assert set(signatures) == {1, 2}
    assert sizes[1] + len(signatures[2]) == sizes[0]
    assert len(set(sizes[1:])) == 1


def test_signatures_of_requests_may_be_numbered(instance: Instance) -> None:
    leaves = struct.pack("<q", 1)
    with WebSocket.to(instance) as stream:
        stream.call_binary(RESET, 1, EMPTY)
        named = value('{"dict":[["action","int"]]}', leaves, number=1)
        assert stream.call_binary(STEP, 2, named).status == 200
        again = struct.pack("<II", 0, 1) + leaves
        assert stream.call_binary(STEP, 3, again).status == 200
        assert stream.call_binary(STEP, 4, ACTION).status == 200
        for number, wrong in enumerate(
            (
                struct.pack("<II", 0, 2) + leaves,
                named,
                value('{"dict":[["action","int"]]}', leaves, number=256),
                value(" " * (16 * 1024 + 8), leaves, number=3),
                struct.pack("<II", 4096, 0) + leaves,
                struct.pack("<II", 3, 0) + leaves,
                again[:12],
                b"\0",
            ),
            start=5,
        ):
            answer = stream.call_binary(STEP, number, wrong)
            assert (answer.number, answer.status) == (number, 400), answer
            assert json.loads(answer.body)["code"] == "bad-json"
        assert stream.call_binary(STEP, 99, again).status == 200
    assert steps(instance) == 4
    with WebSocket.to(instance) as another:
        # Numbers are a stream's own.
        assert another.call_binary(STEP, 1, again).status == 400


def test_problems_are_answers(instance: Instance) -> None:
    with WebSocket.to(instance) as stream:
        early = stream.call_binary(STEP, 1, ACTION)
        assert (early.status, json.loads(early.body)["code"]) == (409, "reset-needed")
        for number, (op, form) in enumerate(
            [
                (STREAM, 0x33),
                (0, 0x33),
                (64, 0x33),
                (255, 0x33),
                (STEP, 3),
                (STEP, 0xFF),
            ],
            start=2,
        ):
            answer = stream.call_binary(op, number, form=form)
            assert (answer.number, answer.status) == (number, 400)
            assert json.loads(answer.body)["code"] == "bad-parameter"
        for number, head in enumerate(
            (b"not JSON", b'{"value": 1}    ', b"[" * 4096, b"\xff" * 8), start=50
        ):
            answer = stream.call_binary(ATTRIBUTE, number, head=head)
            assert (answer.number, answer.status) == (number, 400)
            assert json.loads(answer.body)["code"] == "bad-json"
        head = b'{"value": "gravity"}    '
        gravity = stream.call_binary(ATTRIBUTE, 60, head=head, form=0x10)
        assert json.loads(gravity.body)["value"] == 9.8
        described = stream.call_binary(DESCRIBE, 61, form=0x10)
        assert json.loads(described.body)["instance_id"] == instance.id


def test_text_by_hand(create: Callable[..., Instance]) -> None:
    instance = create(render_mode="rgb_array")
    with text(instance) as stream:
        assert stream.call(op="reset", seed=1)["number"] == 1
        assert stream.call(op="step", action=0)["number"] == 2
        assert stream.call(op="step", action=0, number=10)["number"] == 10
        assert stream.call(op="step", action=0)["number"] == 11
        typed = stream.call(op="reset", seed=1, form="typed")["body"]["observation"]
        assert typed["$t"] == "nd"
        image = stream.call(op="render")["body"]
        assert np.shape(image) == (400, 600, 3)
        assert stream.call(op="attribute", name="gravity")["body"]["value"] == 9.8
        assert stream.call(op="monitor_close") == {
            "number": 15,
            "status": 204,
            "body": None,
        }
    assert steps(instance) == 3


def test_text_has_rendered_text(create: Callable[..., Instance]) -> None:
    instance = create("CliffWalking-v1", render_mode="ansi")
    with text(instance) as stream:
        stream.call(op="reset")
        answer = stream.call(op="render")
    assert (answer["status"], answer["body"]) == (200, instance.get("render/").text)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"", "bad-json"),
        (b"step", "bad-json"),
        (b"[1]", "bad-json"),
        (b'{"op": "step", "action": NaN}', "bad-json"),
        (b'{"op":' + b"[" * 100_000, "bad-json"),
        (b'{"op": "step", "action":' + b"[" * 100_000, "bad-json"),
        (b"{}", "bad-parameter"),
        (b'{"op": "STEP"}', "bad-parameter"),
        (b'{"op": "create"}', "bad-parameter"),
        (b'{"op": "stream"}', "bad-parameter"),
        (b'{"op": 2}', "bad-parameter"),
        (b'{"op": "step", "form": "binary"}', "bad-parameter"),
        (b'{"op": "step", "number": 0}', "bad-parameter"),
        (b'{"op": "step", "number": -1}', "bad-parameter"),
        (b'{"op": "step", "number": 4294967296}', "bad-parameter"),
        (b'{"op": "step", "number": true}', "bad-parameter"),
        (b'{"op": "step", "number": 1.5}', "bad-parameter"),
        (b'{"op": "step", "number": "1"}', "bad-parameter"),
        (b'{"op": "attribute", "name": 1}', "bad-json"),
        (b'{"op": "step"}', "missing-parameter"),
        (b'{"op": "step", "action": 7}', "invalid-action"),
        (b'{"op": "step", "action": "\\ud800"}', None),
        (b'{"op": "attribute", "name": "\\ud800"}', None),
        (b'{"op": "attribute"}', "no-attribute"),
    ],
)
def test_a_text_that_is_no_request_is_refused_and_the_next_is_not(
    instance: Instance, sent: bytes, code: str | None
) -> None:
    with text(instance) as stream:
        stream.call(op="reset")
        stream.send_frame(1, sent)
        answer = stream.receive()
        assert 400 <= answer["status"] < 500, answer
        assert code is None or answer["body"]["code"] == code
        assert answer["body"]["message"]
        assert stream.call(op="step", action=0, number=50)["status"] == 200
    assert steps(instance) == 1


def test_a_hundred_steps_in_one_piece(create_either: Callable[..., Instance]) -> None:
    instance = create_either("toys/Echo-v0", kwargs={"space": "discrete"})
    with text(instance) as stream:
        stream.call(op="reset")
        requests = [
            json.dumps({"op": "step", "action": number % 3}).encode()
            for number in range(100)
        ]
        stream.send(b"".join(frame(1, request) for request in requests))
        found = [stream.receive() for _ in requests]
    assert [each["number"] for each in found] == list(range(2, 102))
    assert [each["body"]["observation"] for each in found] == [
        n % 3 for n in range(100)
    ]
    assert [each["body"]["info"]["steps"] for each in found] == list(range(1, 101))


def test_messages_sent_with_the_handshake_are_read(
    create_either: Callable[..., Instance],
) -> None:
    instance = create_either()
    early = frame(1, b'{"op": "reset", "seed": 2}') + frame(
        1, b'{"op": "step", "action": 1}'
    )
    with text(instance, early=early + frame(PING, b"x")[:4]) as stream:
        assert stream.response.status == 101
        assert [stream.receive()["number"], stream.receive()["number"]] == [1, 2]
    assert steps(instance) == 1


def test_a_number_again_is_the_stored_answer(instance: Instance) -> None:
    with text(instance, "again") as stream, text(instance, "again") as other:
        stream.call(op="reset", seed=1)
        first = stream.call(op="step", action=1)
        assert stream.call(op="step", action=1, number=2) == first
        assert other.call(op="step", action=1, number=2) == first
        refused = stream.call(op="step", action=0, number=2)
        assert (refused["status"], refused["body"]["code"]) == (422, "key-reused")
        second = stream.call(op="step", action=1)
        assert second["number"] == 3
        assert second["body"] != first["body"]
    assert steps(instance) == 2


def test_rest_and_streams_know_each_others_keys(instance: Instance) -> None:
    media = {"Content-Type": BINARY_MEDIA, "Accept": BINARY_MEDIA}
    signatures: dict[int, bytes] = {}
    with WebSocket.to(instance, "both") as stream:
        stream.call_binary(RESET, 1, EMPTY)
        answer = decoded(stream.call_binary(STEP, 2, ACTION), signatures)
        again = instance.post("step/", data=ACTION, headers=keyed("both", 2, **media))
        assert replayed(again)
        assert_identical(values.decode(again.body), answer)
        first = instance.post("step/", data=ACTION, headers=keyed("both", 3, **media))
        assert not replayed(first)
        answer = decoded(stream.call_binary(STEP, 3, ACTION), signatures)
        assert_identical(answer, values.decode(first.body))
        other = instance.post("step/", {"action": 1}, headers=keyed("both", 3))
        calls.error(other, 422, "key-reused")
    assert steps(instance) == 2


def test_rest_and_stream_on_one_instance(instance: Instance) -> None:
    with (
        gymnasium.make("CartPole-v1") as local,
        text(instance) as stream,
        WebSocket.to(instance) as other,
    ):
        stream.call(op="reset", seed=8)
        local.reset(seed=8)
        for number in range(1, 13):
            action = number % 2
            if number % 3 == 0:
                result = stream.call(op="step", action=action)["body"]
            elif number % 3 == 1:
                result = instance.step(action)
            else:
                body = value('{"dict":[["action","int"]]}', struct.pack("<q", action))
                answer = other.call_binary(STEP, number, body, form=0x13)
                result = json.loads(answer.body)
            observation = local.step(action)[0]
            assert np.array(result["observation"], np.float32).tolist() == (
                observation.tolist()
            )


def test_leaving_does_not_end_the_instance(
    create_either: Callable[..., Instance],
) -> None:
    instance = create_either()
    with text(instance) as stream:
        stream.call(op="reset")
        stream.send_message(op="step", action=1)
    wait_until(lambda: calls.ok(instance.get(""))["streams"] == 0)
    assert steps(instance) <= 1
    instance.step(0)
    with text(instance) as stream:
        assert stream.call(op="step", action=0)["status"] == 200


def test_pings_are_answered_between_requests(
    create_either: Callable[..., Instance],
) -> None:
    with text(create_either()) as stream:
        for payload in (b"", b"x" * 125):
            stream.send_frame(PING, payload)
            assert stream.read_frame() == (PONG, payload)
        stream.send_frame(PONG, b"nobody asked")
        assert stream.call(op="reset")["status"] == 200
        # A message in fragments, with a ping between.
        stream.send(
            frame(1, b'{"op": "st', fin=False)
            + frame(PING, b"?")
            + frame(0, b'ep", "action": 1}')
        )
        assert stream.read_frame() == (PONG, b"?")
        assert stream.receive()["status"] == 200


def test_a_close_is_answered(create_either: Callable[..., Instance]) -> None:
    for payload in (b"", b"\3\xe8", b"\3\xe9good bye", b"\x0f\xa0mine"):
        instance = create_either()
        with text(instance) as stream:
            stream.send_frame(8, payload)
            code = int.from_bytes(payload[:2], "big")
            assert stream.read_close() == (code, payload[2:].decode())
        assert instance.reset()


@pytest.mark.parametrize("env_id", ["toys/Big-v0", "CarRacing-v3"])
def test_large_observations(
    create_either: Callable[..., Instance], env_id: str
) -> None:
    if env_id == "CarRacing-v3":
        pytest.importorskip("Box2D")
    instance = create_either(env_id)
    number = 2
    signatures: dict[int, bytes] = {}
    with gymnasium_twin(env_id) as local, WebSocket.to(instance, "large") as stream:
        first = stream.call_binary(RESET, 1, values.encode({"seed": 1}))
        expected = local.reset(seed=1)[0]
        assert_identical(decoded(first, signatures)["observation"], expected)
        requests = [
            values.encode({"action": local.action_space.sample()}) for _ in "four"
        ]
        # All at once: answers that wait must not change with later steps.
        for number, body in enumerate(requests, start=2):
            stream.send_binary(STEP, number, body)
        for body in requests:
            got = decoded(stream.receive_binary(), signatures)
            expected = local.step(values.decode(body)["action"])[0]
            assert_identical(got["observation"], expected)
        again = stream.call_binary(STEP, number, requests[-1])
        assert again.status in (200, 409)
        if again.status == 200:
            got = decoded(again, signatures)
            assert_identical(got["observation"], expected)
    assert steps(instance) == len(requests)


def gymnasium_twin(env_id: str) -> gymnasium.Env[Any, Any]:
    """Make the environment here."""
    return gymnasium.make(env_id, disable_env_checker=True)


def test_a_message_as_large_as_the_limit(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--max-body", "100000")
    instance = Api(server).create()
    with text(instance) as stream:
        request = b'{"op": "reset", "x": "%s"}'
        fits = request % (b"x" * (100_000 - len(request) + 2))
        assert len(fits) == 100_000
        stream.send_frame(1, fits)
        assert stream.receive()["status"] == 200
        stream.send_frame(1, fits + b" ")
        assert stream.read_close()[0] == 1009
    assert instance.step(0)
    instance.close()


def test_another_client_library(create_either: Callable[..., Instance]) -> None:
    instance = create_either()
    url = f"ws://127.0.0.1:{instance.api.server.port}{instance.path('stream')}"
    with connect(url, subprotocols=[TEXT]) as stream:  # type: ignore[list-item]
        assert stream.subprotocol == TEXT
        stream.send('{"op": "reset", "seed": 4}')
        first = json.loads(stream.recv())
        pong = stream.ping()
        assert pong.wait(10)
        stream.send(iter(['{"op": "st', 'ep", ', '"action": 1}']))
        second = json.loads(stream.recv())
    with connect(url, subprotocols=[BINARY]) as stream:  # type: ignore[list-item]
        stream.send(binary(STEP, 1, ACTION))
        assert len(stream.recv()) > 16
    assert stream.close_code == 1000
    with gymnasium.make("CartPole-v1") as local:
        expected = local.reset(seed=4)[0].tolist()
        assert np.float32(first["body"]["observation"]).tolist() == expected
        expected = local.step(1)[0].tolist()
        assert np.float32(second["body"]["observation"]).tolist() == expected
    assert steps(instance) == 2


def test_a_message_of_the_other_dialect_ends_the_stream(instance: Instance) -> None:
    with text(instance) as stream:
        stream.send_frame(2, binary(RESET, 1))
        assert stream.read_close()[0] == 1003
    with WebSocket.to(instance) as stream:
        stream.send_frame(1, b'{"op": "reset"}')
        assert stream.read_close()[0] == 1003
