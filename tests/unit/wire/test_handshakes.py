"""A client's handshake is read as RFC 6455 defines it."""

import pytest

from gym_http_wire.handshakes import (
    BINARY_PROTOCOL,
    SESSION,
    TEXT_PROTOCOL,
    ShowRequest,
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


def test_watchers_to_be_shown_an_instance() -> None:
    shown = {"watch": "1", "form": "show", "protocols": TEXT_PROTOCOL}
    assert hello(**shown).show == ShowRequest(10.0, 0.1, 640)
    found = hello(**shown, fps="60", share=".01", size="2048")
    assert found.show == ShowRequest(60.0, 0.01, 2048)
    found = hello(**{**shown, "protocols": ""}, fps="1.5", share="1", size="16")
    assert found.show == ShowRequest(1.5, 1.0, 16)
    with pytest.raises(BadParameter, match=r"expected gym-http\.v1\.json"):
        hello(**{**shown, "protocols": BINARY_PROTOCOL})
    assert hello(**{**shown, "form": "plain"}, ask="1").ask


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *[("fps", each) for each in ("0", "0.9", "60.1", "61", "-1", "x", "1e1")],
        *[("share", each) for each in ("0", "0.009", "1.1", "a", "-0.1", ".", "1e-1")],
        *[("size", each) for each in ("15", "2049", "1e3", "64.0", "-64")],
        *[("ask", each) for each in ("2", "yes")],
    ],
)
def test_a_bad_parameter_of_a_watcher_is_named(name: str, given: str) -> None:
    shown = {"watch": "1", "form": "show", "protocols": TEXT_PROTOCOL}
    with pytest.raises(BadParameter, match=f"^{name} is "):
        hello(**shown, **{name: given})


@pytest.mark.parametrize(
    "changes",
    [
        {"share": "0.1"},
        {"form": "plain", "size": "64"},
        {"form": "typed", "ask": "1"},
        {"ask": "1"},
    ],
)
def test_parameters_of_other_forms_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(BadParameter, match="form"):
        hello(watch="1", **changes)


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
