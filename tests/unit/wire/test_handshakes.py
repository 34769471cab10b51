"""A client's handshake is read as RFC 6455 defines it."""

import pytest

from gym_http_wire.handshakes import (
    BINARY_PROTOCOL,
    SESSION,
    TEXT_PROTOCOL,
    StreamHandshake,
    UpgradeRequired,
    new_session,
    parse_handshake,
)
from gym_http_wire.problems import BadParameter
from tests.support.websocket import ACCEPT, KEY


def hello(**changes: str) -> StreamHandshake:
    """Read a handshake that is right, but for these changes."""
    given = {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "version": "13",
        "key": KEY,
        "protocols": BINARY_PROTOCOL,
        "session": "s-1",
    }
    return parse_handshake(**(given | changes))


def test_the_example_of_the_rfc() -> None:
    assert hello() == StreamHandshake(ACCEPT, BINARY_PROTOCOL, "s-1")


@pytest.mark.parametrize(
    "connection", ["upgrade", "keep-alive, Upgrade", "a ,UPGRADE "]
)
def test_connection_is_a_list(connection: str) -> None:
    assert hello(connection=connection, upgrade="WebSocket").accept == ACCEPT


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ("", ""),
        (" , ", ""),
        (TEXT_PROTOCOL, TEXT_PROTOCOL),
        (f"a, {TEXT_PROTOCOL} ,{BINARY_PROTOCOL}", TEXT_PROTOCOL),
    ],
)
def test_the_first_known_dialect_is_chosen(offered: str, chosen: str) -> None:
    assert hello(protocols=offered).protocol == chosen


@pytest.mark.parametrize(
    ("changes", "form"),
    [
        ({}, 0),
        ({"watch": "0", "form": "typed"}, 0),
        ({"watch": "1"}, 3),
        ({"watch": "1", "protocols": TEXT_PROTOCOL}, 1),
        ({"watch": "1", "protocols": ""}, 1),
        ({"watch": "1", "form": "plain"}, 1),
        ({"watch": "1", "form": "typed"}, 2),
    ],
)
def test_watchers_have_a_form(changes: dict[str, str], form: int) -> None:
    assert hello(**changes).watch == form


@pytest.mark.parametrize(
    "changes", [{"watch": "yes"}, {"watch": "1", "form": "binary"}, {"form": "png"}]
)
def test_invalid_watch_parameters_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(BadParameter, match="expected"):
        hello(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"upgrade": ""},
        {"upgrade": "websocket2"},
        {"connection": ""},
        {"connection": "x"},
    ],
)
def test_requests_without_an_upgrade(changes: dict[str, str]) -> None:
    with pytest.raises(UpgradeRequired) as raised:
        hello(**changes)
    assert raised.value.headers == {"Upgrade": "websocket"}


@pytest.mark.parametrize("version", ["", "8", "013", "13, 8"])
def test_other_versions_get_the_supported_one(version: str) -> None:
    with pytest.raises(UpgradeRequired) as raised:
        hello(version=version)
    assert raised.value.headers["Sec-WebSocket-Version"] == "13"


@pytest.mark.parametrize(
    "changes",
    [
        {"key": ""},
        {"key": KEY[:-2]},
        {"key": KEY + "\n"},
        {"key": "A" * 24},
        {"key": "é" * 24},
        {"protocols": "chat"},
        {"protocols": "gym-http.v2"},
        {"session": "x" * 65},
        {"session": "a b"},
        {"session": "a\n"},
        {"session": "ä"},
    ],
)
def test_bad_handshakes_are_refused_with_a_reason(changes: dict[str, str]) -> None:
    with pytest.raises(BadParameter, match="expected"):
        hello(**changes)


def test_sessions_are_generated_when_missing() -> None:
    made = {hello(session="").session for _ in range(100)} | {new_session()}
    assert len(made) == 101
    assert all(map(SESSION, made))
