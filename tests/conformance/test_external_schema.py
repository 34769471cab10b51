"""The schema of external messages accepts all valid messages and refuses others."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import jsonschema
import pytest

from gym_http_client import RemoteEnv, serve_env
from gym_http_wire.external.framing import ReceivedMessage
from tests.conformance.generate import VECTORS
from tests.support.peers.js_provider import JsProvider
from tests.support.peers.recording_proxy import RecordingProxy
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

SCHEMA = json.loads((VECTORS / "external.schema.json").read_text(encoding="utf-8"))
CONTENT = json.loads((VECTORS / "external.json").read_bytes())
CASES: list[dict[str, Any]] = CONTENT["cases"]
PAGE = (ROOT / "docs/external.md").read_text(encoding="utf-8")


def faults(name: str, message: Any) -> list[str]:
    """Return the violations of a named definition by a message."""
    of_one = {"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}
    validator = jsonschema.Draft202012Validator(of_one)
    return [error.message[:300] for error in validator.iter_errors(message)]


def named(side: str, dialect: str) -> str:
    """Return the name of the definition of a side's messages in a dialect."""
    return f"typed_{side}" if dialect == "typed" else side


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    used = set(re.findall(r"#/\$defs/(\w+)", json.dumps(SCHEMA)))
    tops = {"environment", "server", "typed_environment", "typed_server"}
    assert used | tops == SCHEMA["$defs"].keys() | {"environment", "server"}


def test_it_takes_the_hellos_that_servers_take_and_no_others() -> None:
    for case in CASES:
        if case["kind"] != "hello":
            continue
        try:
            hello = json.loads(case["text"])
        except (ValueError, RecursionError):
            continue
        assert bool(faults("hello", hello)) == ("refused" in case), case["id"]


def test_it_accepts_messages_of_conversations() -> None:
    for case in CASES:
        for message in case.get("messages", []):
            if "text" in message:
                body = json.loads(message["text"])
                name = named("server", case["dialect"])
                assert not faults(name, body), (case["id"], body)


def test_it_accepts_answers_and_refuses_invalid_ones() -> None:
    # No schema can check that a value fits a space or the request.
    unseen = ("observation", "info-list", "info-text", "channels", "reward-missing")
    unseen += ("terminated-missing", "truncated-missing", "reward-list", "reward-nan")
    unseen += ("reward-inf", "nan", "render-")
    for case in CASES:
        if case["kind"] != "answer" or "text" not in case:
            continue
        try:
            body = json.loads(case["text"])
        except ValueError:
            continue
        name = case["id"].partition("-answer-")[2].removeprefix("bad-")
        name = name.removeprefix("exact-")
        found = faults(named("environment", case["dialect"]), body)
        if "bad" in case and not name.startswith(unseen):
            assert found, case["id"]
        elif "bad" not in case:
            assert not found, (case["id"], found)


def examples() -> Iterator[tuple[str, Any]]:
    """Yield the messages that the page shows, and their senders."""
    for side, text in re.findall(r"^(environment|server) +(\{.*\})$", PAGE, re.M):
        yield side, json.loads(text)
    for text in re.findall(r"`(\{\"type\"[^`…]*\})`", PAGE):
        yield "server", json.loads(text)
        yield "environment", json.loads(text)


def test_it_takes_the_messages_that_the_page_shows() -> None:
    shown = list(examples())
    for side, message in shown:
        assert not faults(side, message), message
    types = {message.get("type", "answer") for _, message in shown}
    assert types >= {"hello", "welcome", "init", "reset", "step", "close", "answer"}
    assert types >= {"ping", "pong", "fault"}


def test_the_page_names_every_member() -> None:
    for name in ("hello", "welcome", "fault"):
        for member in SCHEMA["$defs"][name]["properties"]:
            assert f"`{member}" in PAGE or f'"{member}"' in PAGE, f"{name}.{member}"
    for kind in SCHEMA["$defs"]["request"]["properties"]["type"]["enum"]:
        assert f"`{kind}`" in PAGE


def test_the_script_for_godot_uses_existing_messages() -> None:
    script = (ROOT / "docs/godot.md").read_text(encoding="utf-8")
    definitions = SCHEMA["$defs"]
    message = re.search(r"func _hello.*?\{\n(.*?)\t\}", script, re.DOTALL)
    assert message
    members = re.findall(r'^\t\t"(\w+)":', message[1], re.MULTILINE)
    assert set(members) <= definitions["hello"]["properties"].keys()
    assert set(members) >= set(definitions["hello"]["required"])
    messages = set(re.findall(r'^\t\t"(\w+)":\n', script, re.MULTILINE))
    requests = {"init", "reset", "step", "close"}
    assert messages == {"welcome", "refused", "fault", "ping", "pong", *requests}
    for name in ("observation", "reward", "terminated", "truncated"):
        assert f'"{name}": ' in script


def check(dialect: str, side: str, message: list[ReceivedMessage]) -> set[str]:
    """Check messages against the schema; return their types."""
    types = set()
    for each in message:
        body = json.loads(each.payload)
        found = faults(named(side, dialect), body)
        assert not found, (each.payload[:300], found)
        types.add(body.get("type", "answer"))
    return types


REQUESTS = {"init", "reset", "step", "render", "close", "describe", "generator"}
REQUESTS |= {"set_generator", "attribute", "set_attribute", "call_attribute"}


def play(url: str) -> None:
    """Send every kind of request to a provided Taxi."""
    with RemoteEnv(url, "external/taxi", wait_s=20, render_mode="ansi") as env:
        env.reset(seed=42, options={"level": [1, None]})
        env.step(env.action_space.sample())
        env.render()
        env.unwrapped.np_random.random()
        env.step(env.action_space.sample())
        env.set_wrapper_attr("lastaction", 2)
        assert env.get_wrapper_attr("lastaction") == 2
        assert env.get_wrapper_attr("encode")(3, 1, 2, 0) == 328
        with pytest.raises(AttributeError):
            env.get_wrapper_attr("nothing")


@pytest.mark.live
@pytest.mark.parametrize("transport", ["tcp", "websocket"])
def test_it_accepts_messages_of_serve_env_and_the_server(
    transport: str, make_server: Callable[..., Server]
) -> None:
    server = make_server("--external-tcp", "0")
    port = server.port
    if transport == "tcp":
        pattern = re.compile(r"connect at tcp://[0-9.]+:(\d+)")
        port = int(wait_until(lambda: pattern.search(server.stdout))[1])
    stop = threading.Event()
    with RecordingProxy(port, counted=transport == "tcp") as passing:
        scheme = "tcp" if transport == "tcp" else "http"
        provider = threading.Thread(
            target=serve_env,
            args=(lambda **kw: gymnasium.make("Taxi-v4", **kw),),
            kwargs={
                "url": f"{scheme}://127.0.0.1:{passing.port}",
                "name": "taxi",
                "dialect": "typed",
                "stop": stop,
            },
        )
        provider.start()
        try:
            play(server.url)
        finally:
            stop.set()
            provider.join()
    assert check("typed", "environment", passing.by_environments) == {"hello", "answer"}
    assert check("typed", "server", passing.by_server) == {"welcome", *REQUESTS}


@pytest.mark.live
@pytest.mark.toolchain
def test_it_accepts_messages_of_javascript_and_the_server(server: Server) -> None:
    with RecordingProxy(server.port) as passing:
        url = f"http://127.0.0.1:{passing.port}"
        with (
            JsProvider(url, "dict", "json"),
            RemoteEnv(server.url, "external/toy", wait_s=20) as env,
        ):
            env.reset(seed=1)
            for _ in range(3):
                env.step(1)
    assert check("json", "environment", passing.by_environments) == {"hello", "answer"}
    requests = {"init", "reset", "step", "close"}
    assert check("json", "server", passing.by_server) == {"welcome", *requests}
