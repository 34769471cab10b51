"""Tango's messages with its page and its agent, and errors in them."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.api import Api, Instance, error, ok
from tests.support.broker import listed_env, wait_until_unlisted
from tests.support.peers.agent_calls import answer_of, in_background
from tests.support.peers.external_env import open_websocket
from tests.support.peers.tango import (
    BOARD,
    CELLS,
    MOVES,
    SPACES,
    STEPPED,
    TangoAgent,
    TangoPage,
)
from tests.support.peers.zmq_peers import ZmqExternalEnv
from tests.support.server import Server
from tests.support.wait import wait_until

RESET = {"type": "reset", "seed": None, "options": None}
CLOSE = {"type": "close"}
FIRST = {"observation": CELLS, "info": {}}
_POOL = ThreadPoolExecutor(4)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server to which Tango's agents come."""
    with Server("--zmq", "tcp://127.0.0.1:0") as server:
        yield server


@pytest.fixture
def agent(server: Server) -> Iterator[TangoAgent]:
    """The one agent."""
    with TangoAgent(server) as agent:
        yield agent
    wait_until(lambda: not Api(server).instances())


def later(call: Callable[..., Any], *args: Any) -> Future[Any]:
    return _POOL.submit(call, *args)


@pytest.fixture(autouse=True)
def nothing_left(server: Server) -> Iterator[None]:
    yield
    wait_until_unlisted(Api(server), "tango")


def test_page_and_agent_are_just_as_tango_had_them(
    server: Server, agent: TangoAgent
) -> None:
    with TangoPage(server) as page:
        request = later(agent.reset)
        page.answer(RESET, FIRST)
        assert request.result(20) == FIRST
        for action in ("2", "0"):
            request = later(agent.act, action)
            page.answer({"type": "action", "action": action}, STEPPED)
            assert request.result(20) == {**STEPPED, "reward": 1.0}
        request = later(agent.close)
        page.answer(CLOSE, {"info": "closed"})
        assert request.result(20) == {"info": "closed"}
        # Both may go on.
        request = later(lambda: agent.reset(seed=7, options={"crates": 2}))
        page.answer({**RESET, "seed": 7, "options": {"crates": 2}}, FIRST)
        assert request.result(20) == FIRST
        request = later(agent.close)
        page.answer(CLOSE, {"info": "closed"})
        request.result(20)


def test_a_page_is_driven_by_rest(server: Server) -> None:
    api = Api(server)
    with TangoPage(server) as page:
        assert listed_env(Api(server), "tango")["action_space"] == MOVES
        assert listed_env(Api(server), "tango")["observation_space"] == BOARD
        made = ok(api.post("/v1/envs/", {"env_id": "external/tango"}))
        instance = Instance(api, made["instance_id"])
        future = in_background(instance.post, "reset/", {"seed": 3})
        page.answer({**RESET, "seed": 3}, FIRST)
        assert ok(answer_of(future))["observation"] == CELLS
        future = in_background(instance.post, "step/", {"action": 3})
        page.answer({"type": "action", "action": "3"}, STEPPED)
        assert ok(answer_of(future))["reward"] == 1.0
        error(instance.post("step/", {"action": 4}), 400, "invalid-action")
        future = in_background(instance.close)
        page.answer(CLOSE, {"info": "closed"})
        assert answer_of(future).status == 204
        assert listed_env(Api(server), "tango")["free"] == 1


def test_an_agent_drives_any_external_environment(
    server: Server, agent: TangoAgent
) -> None:
    with ZmqExternalEnv.to(server, name="tango") as external:
        request = later(agent.reset)
        external.answer("init")
        external.answer("reset", observation=[0, 1])
        assert request.result(20) == {"observation": [0.0, 1.0], "info": {}}
        request = later(agent.act, "2")
        step = {"observation": [0, 0], "reward": 1, "terminated": True}
        assert external.answer("step", **step, truncated=False)["action"] == 2
        assert request.result(20)["terminated"] is True
        request = later(agent.close)
        external.answer("close")
        assert request.result(20) == {"info": "closed"}


def test_a_request_before_a_page_connects_is_answered(
    server: Server, agent: TangoAgent
) -> None:
    for _ in range(2):
        assert agent.reset()["error"]["code"] == "external-away"
        assert agent.act("1")["error"]["code"] == "external-away"
    assert agent.close() == {"info": "closed"}
    with TangoPage(server) as page:
        request = later(agent.reset)
        page.answer(RESET, FIRST)
        assert request.result(20) == FIRST


def test_a_page_that_drops_within_a_request(server: Server, agent: TangoAgent) -> None:
    page = TangoPage(server)
    request = later(agent.reset)
    page.answer(RESET, FIRST)
    request.result(20)
    request = later(agent.act, "1")
    assert page.receive()["type"] == "action"
    page.drop()
    answer = request.result(20)["error"]
    assert answer["status"] in (410, 503)
    assert "to come back" not in answer["message"]
    with TangoPage(server) as page:
        # It has no token to come back with: the next page is another one.
        def begun() -> Any:
            answer = agent.reset()
            return answer if "error" not in answer else None

        request = later(lambda: wait_until(begun, 20))
        page.answer(RESET, FIRST)
        assert request.result(20) == FIRST


def test_an_unsolicited_message_of_a_page(server: Server, agent: TangoAgent) -> None:
    page = TangoPage(server)
    page.send_message({"type": "init"})
    assert page.receive()["type"] == "fault"
    code, words = page.receive_close()
    assert code == 1003
    assert "without a request" in words
    page.drop()
    page = TangoPage(server)
    request = later(agent.reset)
    page.answer(RESET, FIRST)
    request.result(20)
    page.send_message({"type": "init"})
    assert page.receive()["type"] == "fault"
    page.receive_close()
    page.drop()
    assert "error" in agent.act("1")


def test_a_second_agent_is_refused_while_the_first_is_there(server: Server) -> None:
    with TangoPage(server) as page:
        first = TangoAgent(server)
        request = later(first.reset)
        page.answer(RESET, FIRST)
        request.result(20)
        with TangoAgent(server) as second:
            for _ in range(2):
                assert second.reset()["error"]["code"] == "tango-taken"
            first.drop()
            page.answer(CLOSE, {"info": "closed"})

            def own_env() -> Any:
                answer = second.reset()
                return answer if "error" not in answer else None

            request = later(lambda: wait_until(own_env, 20))
            page.answer(RESET, FIRST)
            assert request.result(20) == FIRST
            request = later(second.close)
            page.answer(CLOSE, {"info": "closed"})
            request.result(20)
    wait_until(lambda: not Api(server).instances())


def test_a_second_page_is_a_second_connection(server: Server) -> None:
    with TangoPage(server), TangoPage(server):
        assert listed_env(Api(server), "tango")["free"] == 2


def test_wrong_answers_are_reported_to_both_sides(
    server: Server, agent: TangoAgent
) -> None:
    with TangoPage(server) as page:
        request = later(agent.reset)
        page.answer(RESET, FIRST)
        request.result(20)
        request = later(agent.act, "1")
        page.answer(
            {"type": "action", "action": "1"}, {**STEPPED, "observation": [[7, 0]]}
        )
        assert request.result(20)["error"]["code"] == "bad-answer"
        assert page.receive()["field"] == "observation"
        assert agent.act("1")["error"]["code"] == "reset-needed"
        request = later(agent.reset)
        page.answer(RESET, FIRST)
        request.result(20)
        assert agent.act("left")["error"]["code"] == "invalid-action"
        assert agent.act("4")["error"]["code"] == "invalid-action"


def test_invalid_messages_are_answered(server: Server, agent: TangoAgent) -> None:
    for payload in (b"", b"{", b"[]", b'{"type":"render"}', b"\xff", b'{"type":1}'):
        agent.socket.send(payload)
        assert "error" in agent.receive(), payload
    with TangoPage(server) as page:
        request = later(agent.reset)
        page.answer(RESET, FIRST)
        request.result(20)
        for payload in (b"", b"{", b'{"type":"render"}', b'{"type":"action"}'):
            agent.socket.send(payload)
            assert "error" in agent.receive(), payload
        request = later(agent.act, "0")
        page.answer({"type": "action", "action": "0"}, STEPPED)
        request.result(20)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"action_space": json.dumps(MOVES)}, "observation_space is missing"),
        ({**SPACES, "action_space": "Discrete(4)"}, "action_space is"),
        ({**SPACES, "name": "-"}, "name is"),
    ],
)
def test_an_address_with_missing_parameters(
    server: Server, query: dict[str, str], words: str
) -> None:
    with pytest.raises(AssertionError, match=words):
        TangoPage(server, **query)


def test_an_invalid_space(server: Server) -> None:
    with TangoPage(server, **{**SPACES, "action_space": '{"type":"Disc"}'}) as page:
        assert page.receive_close()[0] == 1008


def test_settings_complete_addresses(
    make_server: Callable[..., Server],
) -> None:
    flags = [f"--tango-observation-space={json.dumps(BOARD)}"]
    flags += [f"--tango-action-space={json.dumps(MOVES)}", "--tango-name", "sokoban"]
    server = make_server(*flags)
    websocket = open_websocket(Api(server), path="/game/ws")
    assert websocket.response.status == 101
    wait_until(lambda: listed_env(Api(server), "sokoban"))
    websocket.close()


def test_foreign_pages_are_refused(server: Server) -> None:
    websocket = open_websocket(
        Api(server), path="/game/ws", origin="https://evil.example"
    )
    assert websocket.response.status == 403
    websocket.close()


def test_a_page_that_is_silent(make_server: Callable[..., Server]) -> None:
    server = make_server("--external-deadline", "0.3")
    api = Api(server)
    with TangoPage(server) as page:
        made = ok(api.post("/v1/envs/", {"env_id": "external/tango"}))
        instance = Instance(api, made["instance_id"])
        error(instance.post("reset/", {}), 504, "external-deadline")
        assert page.receive() == RESET
        # Its answer would now be read as another one.
        code, words = page.receive_close()
        assert code == 1008
        assert "late answer" in words
        wait_until(lambda: instance.id not in api.instances())


def test_the_token_is_in_the_first_message(make_server: Callable[..., Server]) -> None:
    token = "a-token-of-the-tests"
    flags = ["--zmq", "tcp://127.0.0.1:0", "--token", token]
    server = make_server(*flags, token=token)
    with TangoAgent(server) as agent:
        assert agent.reset()["error"]["code"] == "unauthorized"
        assert agent.reset(token="wrong")["error"]["code"] == "unauthorized"
        assert agent.reset(token=token)["error"]["code"] == "external-away"
    assert connected_with(server, None) == 401
    assert connected_with(server, f"Bearer {token}") == 101


def connected_with(server: Server, authorization: str | None) -> int:
    query = urlencode(SPACES)
    websocket = open_websocket(
        Api(server), path=f"/game/ws?{query}", authorization=authorization
    )
    websocket.close()
    return websocket.response.status
