"""Addresses are parsed, and their tokens are not shown."""

from collections.abc import Callable
from typing import Any

import pytest

from gym_http_client import (
    RealTimeEnv,
    RemoteEnv,
    RemoteVectorEnv,
    Server,
    resume,
    serve_agents,
    serve_env,
)
from gym_http_client.http.addresses import Address
from gym_http_client.http.requester import Requester


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GHS_TOKEN", raising=False)


@pytest.mark.parametrize(
    ("url", "shown", "place", "prefix", "host_header"),
    [
        ("http://h:5000", "http://h:5000", ("h", 5000), "", "h:5000"),
        ("http://h:5000/", "http://h:5000", ("h", 5000), "", "h:5000"),
        ("http://h", "http://h", ("h", 80), "", "h"),
        ("https://H:443/a/b/", "https://h/a/b", ("h", 443), "/a/b", "h"),
        ("https://h:80", "https://h:80", ("h", 80), "", "h:80"),
        ("http://[::1]:5000", "http://[::1]:5000", ("::1", 5000), "", "[::1]:5000"),
        ("http://[fe80::1%25e0]:1", "http://[fe80::1%25e0]:1", ("fe80::1%e0", 1), "",
         "[fe80::1]:1"),
        ("http://b\xfccher.de", "http://xn--bcher-kva.de", ("xn--bcher-kva.de", 80), "",
         "xn--bcher-kva.de"),
        ("http://h/%C3%A9 \xe9", "http://h/%C3%A9%20%C3%A9", ("h", 80),
         "/%C3%A9%20%C3%A9", "h"),
    ],
)  # fmt: skip
def test_tcp(
    url: str, shown: str, place: tuple[str, int], prefix: str, host_header: str
) -> None:
    address = Address.parse(url)
    assert address.url == shown
    assert (address.host, address.port) == place
    assert (address.prefix, address.host_header) == (prefix, host_header)
    assert address.socket_path == ""
    assert address.token is None
    assert Address.parse(shown) == address


@pytest.mark.parametrize(
    ("url", "path", "prefix"),
    [
        ("http+unix:///run/a.sock", "/run/a.sock", ""),
        ("http+unix:///run/a%20b.sock", "/run/a b.sock", ""),
        ("http+unix://%2Frun%2Fa.sock", "/run/a.sock", ""),
        ("http+unix://%2Frun%2FA.sock/p/", "/run/A.sock", "/p"),
    ],
)
def test_unix(url: str, path: str, prefix: str) -> None:
    address = Address.parse(url)
    assert (address.socket_path, address.prefix) == (path, prefix)
    assert address.host_header == "localhost"
    assert Address.parse(address.url) == address


def test_the_first_token_that_there_is_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://:in%20url@h:5000"
    assert Address.parse("http://h").token is None
    monkeypatch.setenv("GHS_TOKEN", "in environment")
    assert Address.parse("http://h").token == "in environment"
    assert Address.parse(url).token == "in url"
    assert Address.parse("http+unix://:t@/a.sock").token == "t"
    assert Address.parse("http+unix://:t@%2Fa.sock").socket_path == "/a.sock"
    assert Address.parse(url, "argument").token == "argument"
    assert Address.parse(url, "").token is None


def test_tokens_are_not_shown() -> None:
    address = Address.parse("http://:secret@h:5000")
    link = Requester("http://:secret@h:5000")
    for text in (repr(address), str(address), address.url, repr(link), link.url):
        assert "secret" not in text


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h:5000",
        "localhost:5000",
        ":secret@h:5000",
        "ftp://:secret@h",
        "http://",
        "http://:secret@",
        "http://:secret@h:port",
        "http://:sec/ret@h",
        "http://:secret@h:99999",
        "http://[::1:secret",
        "http://a..secret",
        "http://h secret",
        "http+unix://",
        "http+unix://secret.sock",
    ],
)
def test_invalid_addresses_are_refused_before_connecting(url: str) -> None:
    with pytest.raises(ValueError, match="looks like http://") as caught:
        Address.parse(url)
    assert "secret" not in str(caught.value)
    assert "ret@h" not in str(caught.value)


@pytest.mark.parametrize("url", ["127.0.0.1:5000", "CartPole-v1", "ws://h", ""])
def test_an_address_without_http_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(ValueError, match="this one does not begin with http://"):
        Address.parse(url)


def test_the_path_of_a_unix_socket_has_an_end() -> None:
    assert Address.parse("http+unix:///" + "x" * 106).socket_path == "/" + "x" * 106
    with pytest.raises(ValueError, match="has 108 bytes, and 107 are possible"):
        Address.parse("http+unix:///" + "x" * 105 + "%C3%BC")


@pytest.mark.parametrize("token", ["a\r\nX: b", "a\nb", "a\0b"])
def test_a_token_is_one_line(token: str) -> None:
    with pytest.raises(ValueError, match="A token has no line breaks") as caught:
        Address.parse("http://h", token)
    assert token not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("http://h:5000/v1/", "http://h:5000"),
        ("http://h:5000/v1", "http://h:5000"),
        ("http://h/gym/v1/", "http://h/gym"),
        ("http://h/v1/gym", "http://h/v1/gym"),
        ("http://h/gymv1", "http://h/gymv1"),
        ("http://v1", "http://v1"),
    ],
)
def test_the_version_at_the_end_is_left_out(url: str, plain: str) -> None:
    assert Address.parse(url).url == plain


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (RemoteEnv, "env_id"),
        (RemoteVectorEnv, "env_id"),
        (RealTimeEnv, "env_id"),
        (RemoteEnv.attach, "instance_id"),
        (resume, "recording"),
    ],
)
def test_swapped_arguments_are_named(call: Callable[..., Any], name: str) -> None:
    url = "http://:secret@127.0.0.1:5000"
    for server, shown in (
        (url, "'http://127.0.0.1:5000'"),
        (Server(url), "Server('http://127.0.0.1:5000')"),
    ):
        with pytest.raises(ValueError, match="server is") as caught:
            call("CartPole-v1", server)
        assert str(caught.value) == (
            f"server is 'CartPole-v1' and {name} is {shown}: expected the server "
            f"first, as {call.__qualname__.replace('Remote.', 'RemoteEnv.')}({shown}, "
            "'CartPole-v1')"
        )


@pytest.mark.parametrize(
    ("serve", "name"), [(serve_env, "env_or_factory"), (serve_agents, "factory")]
)
def test_an_address_is_no_environment_to_serve(
    serve: Callable[..., Any], name: str
) -> None:
    words = f"{name} is a str: expected .* and then the server's address, as "
    with pytest.raises(TypeError, match=words + serve.__name__) as caught:
        serve("http://:secret@127.0.0.1:5000", list, name="mine")
    assert "secret" not in str(caught.value)
