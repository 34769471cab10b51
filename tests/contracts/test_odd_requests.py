"""Requests that HTTP allows and nobody expects are answered as documented."""

from collections.abc import Callable

from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.server import Server

TOKEN = "a-token-for-odd-requests"


def test_a_long_accept_is_no_harm(create: Callable[..., Instance]) -> None:
    instance = create("CliffWalking-v1", render_mode="ansi")
    instance.reset()
    # More than a host reads beside a body, in as many headers as one request may have.
    many = "\r\nAccept: ".join(",".join(["a/b"] * 2000) for _ in range(7))
    headers = {"Accept": f"text/plain,{many}"}
    assert instance.get("render/", headers=headers).status == 200
    many = ",".join(f"a{i}/b" for i in range(900))
    calls.error(instance.get("render/", headers={"Accept": many}), 406)


def test_a_websocket_is_refused_as_malformed(api: Api) -> None:
    headers = {"Upgrade": "websocket", "Connection": "upgrade"}
    calls.error(api.get("/v1/", headers=headers), 400, "malformed-request")


def test_a_host_that_is_no_name_is_refused_as_malformed(
    make_server: Callable[..., Server],
) -> None:
    api = Api(make_server("--token", TOKEN, token=TOKEN))
    calls.error(api.get("/v1/", headers={"Host": ".."}), 400, "malformed-request")
