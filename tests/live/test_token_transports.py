"""Several tokens for external environments and agents on transports other than HTTP."""

from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from tests.live.test_wrong_tokens import HELLO, counted
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.broker import tcp_url, wait_until_unlisted
from tests.support.peers.agent_calls import answer_of, in_background
from tests.support.peers.external_env import ExternalEnv
from tests.support.peers.zmq_peers import ZmqPeer
from tests.support.server import Server
from tests.support.token_file import api_of, token_of, write_file

pytestmark = pytest.mark.live

UNKNOWN = "0badc0de"
CART = {"env_id": "CartPole-v1"}
#: Whether each token may connect external/game; the others are refused.
MAY_CONNECT = {"ada": True, "bob": True, "root": True, "arcade": False}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with several tokens, open to every transport."""
    path = write_file(tmp_path_factory.mktemp("tokens"))
    flags = ["--tokens", path, "--external-tcp", "0", "--zmq", "tcp://127.0.0.1:0"]
    with Server(*flags, token=token_of("root")) as server:
        ExternalEnv.to(Api(server)).drop()
        wait_until_unlisted(Api(server))
        yield server


def by_websocket(server: Server, token: str, **hello: Any) -> Any:
    external = ExternalEnv(api_of(server, token), capabilities=[], **hello)
    external.drop()
    return external.welcome


def by_http(server: Server, token: str, **hello: Any) -> Any:
    return api_of(server, token).post("/v1/external/", HELLO | hello).json()


def by_tcp(server: Server, token: str, **hello: Any) -> Any:
    return counted(tcp_url(server), token=token_of(token), **hello)


def by_zeromq(server: Server, token: str, **hello: Any) -> Any:
    with ZmqPeer(server) as peer:
        return peer.call(**(HELLO | hello), token=token_of(token))


WAYS = [by_websocket, by_http, by_tcp, by_zeromq]


@pytest.mark.parametrize("way", WAYS)
def test_the_name_has_to_be_in_the_scopes(way: Any, shared: Server) -> None:
    for token, allowed in MAY_CONNECT.items():
        answer = way(shared, token)
        if allowed:
            assert answer["type"] == "welcome", (token, answer)
        else:
            assert answer["code"] == "scope-missing", (token, answer)
            assert "external:game" in answer["message"]


@pytest.mark.parametrize("leased", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_only_the_token_of_a_connection_resumes_it(
    way: Any, leased: bool, shared: Server
) -> None:
    name = f"{way.__name__}-{leased}"
    with ExternalEnv.to(api_of(shared, "root"), name=name, capabilities=[]) as external:
        if leased:
            body = {"env_id": f"external/{name}"}
            future = in_background(Api(shared).post, "/v1/envs/", body)
            external.answer("init")
            instance = Instance(Api(shared), ok(answer_of(future))["instance_id"])
        resume, connection = external.welcome["resume"], external.welcome["connection"]
        stolen = way(shared, "bob", name=name, resume=resume)
        assert stolen["resumed"] is False
        assert stolen["connection"] != connection
        assert stolen["resume"] != resume
        resumed = way(shared, "root", name=name, resume=resume)
        assert resumed["resumed"] is True
        assert resumed["connection"] == connection
        if leased:
            no_content(instance.close())


def test_connections_by_http_belong_to_their_token(shared: Server) -> None:
    ada = api_of(shared, "ada", **{"X-Request-Id": "same"})
    bob = api_of(shared, "bob", **{"X-Request-Id": "same"})
    connection = ok(ada.post("/v1/external/", HELLO))["connection"]
    for method, rest in (("GET", "request/?wait_s=0"), ("POST", "answer/")):
        found = []
        for each in (connection, UNKNOWN):
            path = f"/v1/external/{each}/{rest}"
            response = bob.request(method, path)
            error(response, 404, "not-found")
            found.append(response.text.replace(each, "ID"))
        assert found[0] == found[1]
        response = ada.request(method, f"/v1/external/{connection}/{rest}")
        assert response.status == 204
        response = Api(shared).request("GET", f"/v1/external/{connection}/{rest}")
        assert response.status in (204, 405)


def greet(peer: ZmqPeer, name: str, **greeting: Any) -> Any:
    """Send an agent's hello, and return the answer."""
    return peer.call(type="agent", protocol=1, token=token_of(name), **greeting)


def test_agents_own_their_instances(shared: Server) -> None:
    with ZmqPeer(shared) as peer:
        made = greet(peer, "ada", create=CART)
        assert made["type"] == "welcome"
        mine = made["instance_id"]
        assert mine in api_of(shared, "ada").instances()
        assert mine not in api_of(shared, "bob").instances()
        foreign = Instance(api_of(shared, "bob"), mine)
        error(foreign.post("reset/"), 400, "unknown-instance")
        answers = []
        for instance_id in (mine, UNKNOWN):
            with ZmqPeer(shared) as other:
                answer = greet(other, "bob", instance_id=instance_id)
                assert answer["type"] == "refused"
                answers.append(str(answer).replace(instance_id, "ID"))
        assert answers[0] == answers[1]
        for name in ("ada", "root"):
            with ZmqPeer(shared) as other:
                assert greet(other, name, instance_id=mine)["type"] == "welcome"
                assert other.call(op="reset", seed=1)["status"] == 200
        assert peer.call(op="close")["status"] == 204


@pytest.mark.parametrize(
    ("name", "greeting", "scope"),
    [
        ("reader", {"create": CART}, "step"),
        ("stepper", {"create": CART}, "create"),
        ("maker", {"create": CART}, "step"),
        ("reader", {"instance_id": UNKNOWN}, "step"),
    ],
)
def test_agents_need_scopes(
    name: str, greeting: dict[str, Any], scope: str, shared: Server
) -> None:
    with ZmqPeer(shared) as peer:
        answer = greet(peer, name, **greeting)
        assert (answer["code"], answer["status"]) == ("scope-missing", 403)
        assert scope in answer["message"]


def test_agents_have_the_quota_of_their_token(shared: Server) -> None:
    bob = api_of(shared, "bob")
    made = [bob.create(), bob.create()]
    with ZmqPeer(shared) as peer:
        answer = greet(peer, "bob", create=CART)
        assert (answer["code"], answer["status"]) == ("too-many-instances", 429)
        assert "'bob'" in answer["message"]
    for each in made:
        no_content(each.close())


def test_tangos_agents_need_scopes(shared: Server) -> None:
    with ZmqPeer(shared, zmq.REQ) as peer:
        answer = peer.call(type="reset", token=token_of("reader"))["error"]
        assert (answer["code"], answer["status"]) == ("scope-missing", 403)
