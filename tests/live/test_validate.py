"""gym-http-server validate: right servers pass, and each wrong one is found out."""

import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Api
from tests.support.faults.lying_proxy import Exchange, Lie, LyingProxy
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

TOKEN = "canary-5f1d0c8e7b6a49322d14"
COMMAND = [sys.executable, "-m", "gym_http_server", "validate"]

pytestmark = [pytest.mark.live, pytest.mark.slow]


def environment(**more: str) -> dict[str, str]:
    """Return the environment of the command, without the tester's own settings."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("GHS_")}
    paths = [str(ROOT), str(ROOT / "clients" / "python")]
    return {**env, "PYTHONPATH": os.pathsep.join(paths), **more}


def validate(
    *arguments: str, **variables: str
) -> tuple[int, dict[str, Any], subprocess.CompletedProcess[str]]:
    """Run the command; give its status, its report, and all else."""
    done = subprocess.run(
        [*COMMAND, *arguments, "--json"],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    report = json.loads(done.stdout) if done.stdout else {}
    return done.returncode, report, done


def ids(report: dict[str, Any], result: str) -> set[str]:
    """Return the IDs of the checks that ended in a way."""
    return {each["id"] for each in report["checks"] if each["result"] == result}


@pytest.mark.timeout(300)
def test_the_shipped_server_is_right(server: Server) -> None:
    status, report, done = validate(server.url)
    assert (status, ids(report, "failed")) == (0, set()), done.stderr
    assert report["passed"] == len(ids(report, "passed")) > 1000
    # There is no token, so nobody can be without it.
    absent = {id for id in ids(report, "absent") if "token" not in id}
    assert absent == {"numbers.int-10-400"}
    groups = {id.partition(".")[0] for id in ids(report, "passed")}
    wanted = {"values", "rest-plain", "stream-binary", "errors", "keys", "tickets"}
    assert groups > wanted | {"answers", "malformed", "vectors", "legacy", "http"}
    assert groups > {"external", "external-failures", "external-hellos"}
    assert "external-answers" in groups
    assert re.search(r"\d+ passed, 0 failed, \d absent", done.stderr)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A server with a token."""
    with Server(env={"GHS_TOKEN": TOKEN}, token=TOKEN) as made:
        # The broker is there once somebody asked for it, and stays.
        Api(made).post("/v1/external/")
        yield made


SOME = ("server", "errors", "tickets", "handshakes", "stream-text", "document")
SOME += ("external", "external-failures")
ONLY = [word for name in SOME for word in ("--only", name)]


@pytest.mark.parametrize("way", ["flag", "file", "variable", "address"])
def test_a_server_with_a_token_is_right(
    way: str, guarded: Server, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    flags = {
        "flag": ["--token", TOKEN],
        "file": ["--token-file", str(tmp_path / "token")],
    }
    variables = {"GHS_TOKEN": TOKEN} if way == "variable" else {}
    url = guarded.url
    if way == "address":
        url = url.replace("//", f"//:{TOKEN}@")
    only = ONLY if way == "flag" else ["--only", "server"]
    status, report, done = validate(url, *flags.get(way, []), *only, **variables)
    assert (status, ids(report, "failed")) == (0, set()), done.stderr
    assert not any("token" in id for id in ids(report, "absent"))
    assert TOKEN not in done.stdout + done.stderr


def test_a_server_with_a_token_cannot_be_checked_without_it(
    guarded: Server,
) -> None:
    for flags in ([], ["--token", "another-token-of-16"]):
        status, _, done = validate(guarded.url, *flags)
        assert status == 2
        assert "asks for a token" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["http://127.0.0.1:1"], "no connection to http://127.0.0.1:1"),
        (["127.0.0.1:5000"], "no address"),
        (["ftp://:secret@x"], "no address"),
        (["http://x:port"], "no address"),
        (["http://127.0.0.1:1", "--token", "a", "--token-file", "b"], "choose one"),
        (["http://127.0.0.1:1", "--token-file", "/no/file"], "cannot read"),
        (["http://127.0.0.1:1", "--only", "nonsense"], "names no check"),
        (["http://127.0.0.1:1", "--timeout", "0"], "--timeout"),
        ([], "URL"),
    ],
)
def test_unreachable_servers_exit_with_2(arguments: list[str], words: str) -> None:
    status, report, done = validate(*arguments)
    assert (status, report) == (2, {})
    assert words in done.stderr
    assert "secret" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_person_reads_a_line_for_each_group(server: Server) -> None:
    done = subprocess.run(
        [*COMMAND, server.url, "--only", "legacy.create", "--only", "server"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert lines[0] == f"Checking {server.url}"
    assert re.fullmatch(r"server +5 passed, 4 absent", lines[2])
    assert re.fullmatch(r"legacy +1 passed", lines[-3])
    assert lines[-1] == "6 passed, 0 failed, 4 absent"
    assert not done.stderr


def test_on_a_unix_socket(make_server: Callable[..., Server], tmp_path: Path) -> None:
    path = f"/tmp/ghst-{os.getpid()}.sock"
    make_server("--unix", path)
    url = "http+unix://" + path.replace("/", "%2F")
    only = ["--only", "legacy", "--only", "stream-binary", "--only", "errors"]
    status, report, done = validate(url, *only)
    assert (status, ids(report, "failed")) == (0, set()), done.stderr


# What a server gets wrong, and by which check of which group that is found.


def replacing(old: bytes, new: bytes, where: str = "") -> Lie:
    """Say something else in answers to requests of some path."""

    def answer(exchange: Exchange) -> None:
        if where in exchange.path:
            exchange.answer = exchange.answer.replace(old, new)

    return Lie(answer=answer)


def saying(change: Callable[[Any], Any], where: str = "") -> Lie:
    """Change what JSON says in answers to requests of some path."""

    def answer(exchange: Exchange) -> None:
        if where in exchange.path and exchange.answer.startswith(b"{"):
            value = change(json.loads(exchange.answer))
            text = json.dumps(value, sort_keys=True, separators=(",", ":"))
            exchange.answer = text.encode() + b"\n"

    return Lie(answer=answer)


def without(name: str, where: str = "") -> Lie:
    """Leave a member out."""

    def change(value: Any) -> Any:
        value.pop(name, None)
        return value

    return saying(change, where)


def with_status(old: int, new: int, code: str = "") -> Lie:
    """Answer with another status."""

    def answer(exchange: Exchange) -> None:
        if exchange.status == old and code.encode() in exchange.answer:
            exchange.status = new

    return Lie(answer=answer)


def rounded(value: Any) -> Any:
    """Round all floats of an answer to six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def widened(value: Any) -> Any:
    """Say float32 with all the digits of the double next to it."""
    if isinstance(value, float):
        return struct.unpack("<f", struct.pack("<f", value))[0]
    if isinstance(value, dict):
        return {name: widened(item) for name, item in value.items()}
    return [widened(item) for item in value] if isinstance(value, list) else value


def without_header(name: str) -> Lie:
    """Take a header out of requests."""

    def request(exchange: Exchange) -> None:
        pattern = rb"(?i)\r\n" + name.encode() + rb":[^\r]*"
        exchange.head = re.sub(pattern, b"", exchange.head)

    return Lie(request=request)


def not_telling(name: str) -> Lie:
    """Take a header out of answers."""

    def answer(exchange: Exchange) -> None:
        exchange.headers.pop(name, None)

    return Lie(answer=answer)


def flipped(where: str) -> Lie:
    """Change the last bit but 63 of what is binary."""

    def answer(exchange: Exchange) -> None:
        media = exchange.headers.get("content-type", "")
        if media.endswith(".binary") and where in exchange.path:
            changed = bytearray(exchange.answer)
            changed[-8] ^= 1
            exchange.answer = bytes(changed)

    return Lie(answer=answer)


def in_document(change: Callable[[Any], None]) -> Lie:
    """Change the OpenAPI document."""

    def changed(value: Any) -> Any:
        change(value)
        return value

    return saying(changed, "/openapi.json")


def misnumbered(opcode: int, payload: bytes) -> tuple[int, bytes]:
    """Call signatures by the wrong number."""
    if opcode == 2 and len(payload) >= 24 and payload[16:20] == bytes(4):
        payload = payload[:20] + bytes([payload[20] ^ 3]) + payload[21:]
    return opcode, payload


def out_of_order(opcode: int, payload: bytes) -> tuple[int, bytes]:
    """Give answers in text another number."""
    return opcode, re.sub(rb'"number":(\d)', rb'"number":1\1', payload)


def mute_pongs(opcode: int, payload: bytes) -> tuple[int, bytes]:
    """Answer pings with nothing in it."""
    return opcode, b"" if opcode == 10 else payload


def friendly(opcode: int, payload: bytes) -> tuple[int, bytes]:
    """Close as if all were well."""
    return opcode, b"\x03\xe8" if opcode == 8 else payload


def lenient(exchange: Exchange) -> None:
    """Take what is malformed."""
    if exchange.status == 400 and b"bad-json" in exchange.answer:
        exchange.status = 200
        exchange.answer = b'{"set":true}\n'


def pretty(exchange: Exchange) -> None:
    """Write JSON for the eye."""
    if exchange.answer.startswith(b"{"):
        text = json.dumps(json.loads(exchange.answer), indent=1)
        exchange.answer = text.encode() + b"\n"


def redirecting(exchange: Exchange) -> None:
    """Lead who forgot the slash to the right path."""
    if not exchange.path.endswith("/"):
        exchange.status = 308
        exchange.headers["location"] = exchange.path + "/"


def chatty(exchange: Exchange) -> None:
    """Tell more than nothing."""
    if exchange.status == 204:
        exchange.status, exchange.answer = 200, b"{}"


def open_to_all(exchange: Exchange) -> None:
    """Show the token for whoever has none."""
    if b"uthorization" not in exchange.head:
        exchange.head += f"\r\nAuthorization: Bearer {TOKEN}".encode()


def refusing(status: int, where: str, what: bytes) -> Lie:
    """Refuse requests of some path that have something in their head or body."""

    def answer(exchange: Exchange) -> None:
        if where in exchange.path and what in exchange.head + b"\r\n" + exchange.body:
            exchange.status = status
            exchange.headers["content-type"] = "text/html"
            exchange.answer = b"<title>No</title>"

    return Lie(answer=answer)


def asking_for(old: bytes, new: bytes) -> Lie:
    """Ask for something else, of the same length."""

    def request(exchange: Exchange) -> None:
        exchange.body = exchange.body.replace(old, new)

    return Lie(request=request)


def unframed(exchange: Exchange) -> None:
    """Take no body of a GET."""
    if exchange.method == "GET" and exchange.body:
        exchange.status, exchange.answer = 400, b"a body"


def whole_float(exchange: Exchange) -> None:
    """Say a number as Java's doubles are, be it an integer."""
    if "action_space/sample" in exchange.path:
        exchange.answer = re.sub(rb":(\d+)}", rb":\1.0}", exchange.answer)


def negotiating(exchange: Exchange) -> None:
    """Give what is accepted, or nothing."""
    if b"\r\naccept: text/html" in exchange.head.lower():
        exchange.status, exchange.answer = 406, b"{}"


def dangling(document: Any) -> None:
    document["paths"]["/v1/envs/"]["get"]["responses"]["200"]["content"][
        "application/json"
    ]["schema"] = {"$ref": "#/components/schemas/Gap"}


ANOTHER_CODE = (b'"code":"bad-space"', b'"code":"bad-hello"')
NO_FIELD = (b'"field":', b'"place":')
# The third request of a connection is its first step.
ANOTHER_ID = (b'"type":"step","id":3,', b'"type":"step","id":4,')

LIES = {
    "no rendering in a step": (
        refusing(500, "/step", b'"render": true'),
        ["legacy.render-in-step"],
    ),
    "no rendering that Lua asks for": (
        refusing(400, "/step", b'"render": "true"'),
        ["legacy.render-in-step"],
    ),
    "monitors without flags": (
        refusing(400, "/monitor/start", b'"force": true'),
        ["legacy.monitor-start"],
    ),
    "monitors without flags in text": (
        refusing(400, "/monitor/start", b'"resume": "false"'),
        ["legacy.monitor-start-text"],
    ),
    "monitors that answer": (
        Lie(answer=chatty),
        ["legacy.monitor-start", "legacy.monitor-start-text"],
    ),
    "no GET with a body": (Lie(answer=unframed), ["legacy.get-with-body"]),
    "no HTTP/1.0": (refusing(505, "/", b" HTTP/1.0\r\n"), ["legacy.http-1.0"]),
    "no Expect": (
        refusing(417, "/step", b"\r\nExpect: 100-continue"),
        ["legacy.expect-continue"],
    ),
    "HTML only if it is there": (Lie(answer=negotiating), ["legacy.accept-html"]),
    "no environments of 2018": (
        asking_for(b"FrozenLake-v0", b"FrozenLake-v9"),
        ["legacy.old-ids"],
    ),
    "environments of 2018 under their new names": (
        replacing(b'"CartPole-v0"', b'"CartPole-v1"'),
        ["legacy.old-ids"],
    ),
    "a sample of 0.0": (
        Lie(answer=whole_float),
        ["legacy.sample"],
    ),
    "no truncated": (
        without("truncated", "/step"),
        ["newer.terminated-and-truncated", "newer.done-is-either"],
    ),
    "frames without a shape": (not_telling("gym-shape"), ["render.bytes"]),
    "a stream too many": (with_status(503, 500), ["handshakes.too-many-streams"]),
    "no state of generators": (
        replacing(b'"has_uint32":', b'"has_uint":', "/generator"),
        ["internals.generator"],
    ),
    "an integer as reward": (
        replacing(b'"reward":1.0', b'"reward":1'),
        ["legacy.step"],
    ),
    "a reward as a string": (
        replacing(b'"reward":1.0', b'"reward":"1"'),
        ["legacy.step", "rest-plain.cart-pole"],
    ),
    "floats that are rounded": (saying(rounded, "/step"), ["rest-plain.cart-pole"]),
    "float32 with too many digits": (
        saying(widened, "/reset"),
        ["legacy.float32-is-short"],
    ),
    "no done": (without("done", "/step"), ["legacy.step"]),
    "JSON for the eye": (Lie(answer=pretty), ["legacy.reset"]),
    "redirects": (
        Lie(answer=redirecting),
        ["server.both-slash-forms", "legacy.both-slash-forms"],
    ),
    "204 with words": (Lie(answer=chatty), ["legacy.close", "legacy.monitor-close"]),
    "another status": (with_status(400, 404, "unknown-env"), ["errors.unknown-env"]),
    "200 for errors": (with_status(409, 200), ["errors.reset-needed"]),
    "no message": (without("message"), ["errors.unknown-env", "legacy.unknown-env"]),
    "another code": (replacing(b"no-attribute", b"not-found"), ["errors.no-attribute"]),
    "no Allow": (not_telling("allow"), ["errors.method-not-allowed"]),
    "a page for an error": (
        Lie(answer=lambda exchange: exchange.headers.update({"content-type": "a/b"})),
        ["errors.unknown-env", "legacy.list"],
    ),
    "no keys": (
        without_header("Idempotency-Key"),
        ["keys.step-once", "keys.create-once", "keys.key-reused", "keys.answer-gone"],
    ),
    "no word of replays": (not_telling("idempotent-replayed"), ["keys.step-once"]),
    "a bit of a leaf": (flipped("/step"), ["rest-binary.cart-pole"]),
    "a bit of a value": (flipped("/attributes"), ["values.int-1.typed"]),
    "another dtype": (
        replacing(b'"d":"<f4"', b'"d":"<f8"', "/step"),
        ["rest-typed.cart-pole"],
    ),
    "a tuple as a list": (
        replacing(b'{"$t":"tuple","v":[7,10,0]}', b"[7,10,0]"),
        ["rest-typed.blackjack"],
    ),
    "NaN as null": (
        replacing(b'{"$t":"float","v":"nan"}', b"null"),
        ["values.float-nan.binary"],
    ),
    "malformed bytes are taken": (
        Lie(answer=lenient),
        ["malformed.typed-empty", "numbers.refused-nan"],
    ),
    "members of spaces": (
        replacing(b'"member":true', b'"member":false'),
        ["elements.box.typed", "elements.box.plain", "legacy.contains"],
    ),
    "another sample": (
        replacing(b'"type":"Discrete"', b'"type":"Box"', "/action_space"),
        ["spaces.actions-of-CartPole-v1"],
    ),
    "a schema is not kept": (
        without("info", "/reset"),
        ["answers.env_reset-200"],
    ),
    "a document with a hole": (in_document(dangling), ["document.valid"]),
    "a document without a route": (
        in_document(lambda document: document["paths"].pop("/v1/tickets/")),
        ["document.routes"],
    ),
    "signatures by wrong numbers": (
        Lie(message=misnumbered),
        ["stream-binary.cart-pole", "signatures.named-and-called"],
    ),
    "answers by wrong numbers": (
        Lie(message=out_of_order),
        ["streams.numbers"],
    ),
    "empty pongs": (Lie(message=mute_pongs), ["streams.pings", "streams.fragments"]),
    "friendly closes": (
        Lie(message=friendly),
        ["streams.closes-unmasked", "streams.says-goodbye"],
    ),
    "float32 rounded over streams": (
        Lie(
            message=lambda opcode, payload: (
                opcode,
                json.dumps(rounded(json.loads(payload))).encode()
                if opcode == 1
                else payload,
            )
        ),
        ["stream-text.cart-pole"],
    ),
    "a step too few": (
        replacing(b'"steps":4', b'"steps":3', "/step"),
        ["batches.several-steps"],
    ),
    "no end to tickets": (
        replacing(b'"expires_in_s":30', b'"expires_in_s":0'),
        ["tickets.opens-one-stream"],
    ),
    "no seeds in vectors": (
        Lie(
            request=lambda exchange: setattr(
                exchange, "body", exchange.body.replace(b"[5, 6, 5]", b"[5, 6, 7]")
            )
        ),
        ["vectors.seeds-of-their-own"],
    ),
    "another code for hellos": (
        Lie(message=lambda opcode, payload: (opcode, payload.replace(*ANOTHER_CODE))),
        ["external-hellos.refused-action-empty"],
    ),
    "faults without a field": (
        Lie(message=lambda opcode, payload: (opcode, payload.replace(*NO_FIELD))),
        ["external-answers.json-answer-bad-reward-null"],
    ),
    "steps under another ID when asked again": (
        Lie(message=lambda opcode, payload: (opcode, payload.replace(*ANOTHER_ID))),
        ["external-failures.replay"],
    ),
    "environments away for who knows how long": (
        not_telling("retry-after"),
        ["external.away"],
    ),
    "rewards of the first channel": (
        replacing(b'"reward":1.25', b'"reward":1.5', "/step"),
        ["external.reward-channels"],
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_each_wrong_behaviour_is_found(name: str, server: Server) -> None:
    lie, expected = LIES[name]
    only = [word for id in expected for word in ("--only", id)]
    if expected[0].startswith("answers."):
        only = ["--only", "answers", "--only", "legacy.reset"]
    with LyingProxy(server.port, lie) as liar:
        status, report, done = validate(liar.url, *only)
    assert (status, ids(report, "failed")) == (1, set(expected)), done.stderr
    wrong = [each for each in report["checks"] if each["result"] == "failed"]
    assert all(each["expected"] and each["actual"] for each in wrong)


def test_the_checks_pass_on_a_right_server(server: Server) -> None:
    names = {id for _, expected in LIES.values() for id in expected}
    only = [word for id in names for word in ("--only", id)]
    with LyingProxy(server.port, Lie()) as honest:
        status, report, done = validate(honest.url, *only, "--only", "answers")
    assert (status, ids(report, "failed")) == (0, set()), done.stderr


def test_a_server_that_lets_everybody_in_is_found_out(guarded: Server) -> None:
    with LyingProxy(guarded.port, Lie(request=open_to_all)) as liar:
        only = ["--only", "server"]
        status, report, _ = validate(liar.url, "--token", TOKEN, *only)
    assert status == 1
    assert "server.token-missing" in ids(report, "failed")


def bare(exchange: Exchange) -> None:
    """Answer as gym-http-api would, which has none of what came later."""
    later = "stream|tickets|batch|rollout|attributes|render|generator|registry"
    if exchange.path in ("/v1/", "/openapi.json", "/healthz", "/readyz") or re.search(
        rf"/({later})", exchange.path
    ):
        exchange.status = 404
        exchange.headers["content-type"] = "application/json"
        exchange.answer = b'{"message":"404 Not Found"}\n'


def forgetful(exchange: Exchange) -> None:
    """Ask for what the server does not know as if it had not been asked for."""
    body = exchange.body.replace(b'"num_envs"', b'"none"').replace(
        b'"actions"', b'"action"'
    )
    exchange.body = body.replace(b'"vectorization_mode"', b'"vectorisation"')
    size = b"\r\nContent-Length: %d" % len(exchange.body)
    exchange.head = re.sub(rb"(?i)\r\ncontent-length: *\d+", size, exchange.head)
    if "stream" in exchange.path:
        exchange.head = re.sub(rb"\r\nUpgrade:[^\r]*", b"", exchange.head)


@pytest.mark.timeout(120)
def test_missing_features_are_absent_and_not_wrong(server: Server) -> None:
    with LyingProxy(server.port, Lie(request=forgetful, answer=bare)) as old:
        only = ["--only", "legacy", "--only", "server", "--only", "rest-plain"]
        only += ["--only", "newer"]
        for name in ("values", "numbers", "spaces", "elements", "malformed", "keys"):
            only += ["--only", name]
        for name in ("streams", "frames", "signatures", "handshakes", "stream-text"):
            only += ["--only", name]
        for name in ("batches", "vectors", "tickets", "document", "answers"):
            only += ["--only", name]
        status, report, done = validate(old.url, *only)
    assert (status, ids(report, "failed")) == (0, set()), done.stderr
    absent = ids(report, "absent")
    assert absent >= {
        "values", "keys", "streams", "handshakes", "frames", "signatures", "vectors",
        "tickets", "batches.several-steps", "batches.rollout", "document.served",
        "server.about", "answers",
    }  # fmt: skip
    assert {"legacy.step", "rest-plain.cart-pole"} <= ids(report, "passed")


def original(exchange: Exchange) -> None:
    """Answer as gym-http-api did, which knew neither Gymnasium nor codes of errors."""
    bare(exchange)
    if exchange.answer.startswith(b"{") and exchange.status < 500:
        value = json.loads(exchange.answer)
        kept = {"observation", "reward", "done"} | (
            {"info"} if "/reset" not in exchange.path else set()
        )
        if "observation" in value:
            value = {name: value[name] for name in value if name in kept}
        elif exchange.status >= 400:
            value = {"message": value["message"]}
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        exchange.answer = text.encode() + b"\n"


def test_newer_features_are_a_separate_group(server: Server) -> None:
    with LyingProxy(server.port, Lie(answer=original)) as old:
        only = ["--only", "legacy", "--only", "newer"]
        status, report, done = validate(old.url, *only)
    assert (status, ids(report, "failed")) == (0, set()), done.stderr
    groups = {id.partition(".")[0] for id in ids(report, "passed")}
    assert groups == {"legacy"}
    assert {id.partition(".")[0] for id in ids(report, "absent")} == {"newer"}


@pytest.fixture(scope="module")
def small() -> Iterator[Server]:
    """A server with one environment of its own."""
    flags = ("--import", "tests.support.envs.toys", "--allow-env", "toys/Echo-v0")
    with Server(*flags) as made:
        Api(made).post("/v1/external/")
        yield made


@pytest.mark.timeout(300)
def test_a_server_with_one_environment_of_its_own(small: Server) -> None:
    status, report, done = validate(small.url, "--env", "toys/Echo-v0")
    assert (status, ids(report, "failed")) == (0, set()), done.stderr
    passed = ids(report, "passed")
    assert passed >= {
        "legacy.create", "legacy.list", "legacy.reset", "legacy.step", "legacy.sample",
        "legacy.render-in-step", "legacy.monitor-start", "legacy.monitor-start-text",
        "legacy.get-with-body", "legacy.http-1.0", "legacy.expect-continue",
        "legacy.accept-html", "newer.terminated-and-truncated", "server.about",
    }  # fmt: skip
    assert "legacy.old-ids" in ids(report, "absent")


def test_a_lie_about_an_environment_of_its_own_is_found_out(small: Server) -> None:
    with LyingProxy(small.port, replacing(b'"reward":1.0', b'"reward":1')) as liar:
        only = ["--only", "legacy.step"]
        status, report, _ = validate(liar.url, "--env", "toys/Echo-v0", *only)
    assert (status, ids(report, "failed")) == (1, {"legacy.step"})


def test_an_environment_that_is_not_there_cannot_be_checked(small: Server) -> None:
    status, report, done = validate(small.url, "--env", "Cart-v1")
    assert (status, report) == (2, {})
    assert "--env is 'Cart-v1'" in done.stderr
    assert "Traceback" not in done.stderr


def test_claimed_but_missing_features_are_wrong(server: Server) -> None:
    def answer(exchange: Exchange) -> None:
        if exchange.path != "/v1/":
            bare(exchange)

    with LyingProxy(server.port, Lie(request=forgetful, answer=answer)) as liar:
        only = ["--only", "stream-text", "--only", "tickets", "--only", "batches"]
        status, report, _ = validate(liar.url, *only)
    assert status == 1
    failed = {id.partition(".")[0] for id in ids(report, "failed")}
    assert failed == {"stream-text", "tickets", "batches"}
    assert not ids(report, "absent")


def test_lost_answers_leave_no_instance(server: Server) -> None:
    """The fixture that looks for what tests leave would find it."""
    lost: list[str] = []

    def loses(exchange: Exchange) -> bool:
        if exchange.method == "POST" and exchange.path == "/v1/envs/":
            lost.append(exchange.path)
            return len(lost) in (2, 4, 5)
        return False

    with LyingProxy(server.port, Lie(lost=loses)) as liar:
        status, report, _ = validate(liar.url, "--only", "keys", "--only", "batches")
    assert status == 1
    assert len(ids(report, "failed")) >= 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_leaves_no_instance(number: int, server: Server) -> None:
    api = Api(server)
    before = set(api.instances())
    process = subprocess.Popen(
        [*COMMAND, server.url, "--only", "values", "--only", "malformed"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: set(api.instances()) - before, 20.0)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    assert set(api.instances()) == before, out


@pytest.mark.parametrize("whole", [b"HTTP/1.1 200 OK\r\n" * 50, b"x" * 500])
def test_a_server_that_trickles_bytes_meets_the_deadline(whole: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener, whole))
        thread.start()
        began = time.monotonic()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        status, _, done = validate(url, "--timeout", "1")
        took = time.monotonic() - began
        thread.join()
    assert status == 2
    assert "no answer" in done.stderr
    assert took < 20


def trickle(listener: socket.socket, whole: bytes) -> None:
    """Send a byte after the other until nobody is there."""
    client, _ = listener.accept()
    with client, contextlib.suppress(OSError):
        client.settimeout(0.05)
        for byte in whole:
            client.sendall(bytes([byte]))
            with contextlib.suppress(TimeoutError):
                client.recv(65536)


def test_six_instances_are_enough(make_server: Callable[..., Server]) -> None:
    server = make_server("--max-instances", "6")
    names = ("vectors", "batches", "spaces.actions-*", "values.int-*", "keys")
    only = [word for name in names for word in ("--only", name)]
    status, report, done = validate(server.url, *only)
    assert (status, ids(report, "failed")) == (0, set()), done.stderr


def test_a_server_that_stops_in_the_midst_is_wrong(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    process = subprocess.Popen(
        [*COMMAND, server.url, "--json", "--only", "values", "--only", "spaces"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: Api(server).instances(), 20.0)
        server.stop(signal.SIGKILL)
        out, err = process.communicate(timeout=40)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1, err
    assert ids(json.loads(out), "failed")
    assert "Traceback" not in err
