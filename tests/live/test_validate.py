"""``gym-http-server validate`` passes correct servers and detects each wrong one."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gym_http_server.commands import cli
from tests.support.api import Api, ok
from tests.support.faults.lies import (
    LIES,
    TOKEN,
    open_to_all,
    replacing,
)
from tests.support.faults.lying_proxy import Exchange, Lie, LyingProxy
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

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
    """Run the command; return its status, its report, and other output."""
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


def validate_here(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Run the command in this process, which saves its start.

    Returns:
        Its status, its report, and its stderr.
    """
    done = CliRunner().invoke(cli.validate, [*arguments, "--json"])
    assert isinstance(done.exception, SystemExit | None), done.exception
    report = json.loads(done.stdout) if done.stdout else {}
    return done.exit_code, report, done.stderr


def ids(report: dict[str, Any], result: str) -> set[str]:
    """Return the IDs of the checks that ended in a way."""
    return {each["id"] for each in report["checks"] if each["result"] == result}


@pytest.mark.timeout(300)
def test_the_shipped_server_is_right(server: Server) -> None:
    status, report, done = validate(server.url)
    assert (status, ids(report, "failed")) == (0, set()), done.stderr
    assert report["passed"] == len(ids(report, "passed")) > 1000
    # The server has no token, so no request can lack one.
    absent = {id for id in ids(report, "absent") if "token" not in id}
    assert absent == {"numbers.int-10-400", "commands"}
    groups = {id.partition(".")[0] for id in ids(report, "passed")}
    wanted = {"values", "rest-plain", "stream-binary", "errors", "keys", "tickets"}
    assert groups > wanted | {"answers", "malformed", "vectors", "legacy", "http"}
    assert groups > {"external", "external-failures", "external-hellos"}
    assert "external-answers" in groups
    assert re.search(r"\d+ passed, 0 failed, \d absent", done.stderr)
    # Other tests record on this server, too.
    listed = ok(Api(server).get("/v1/recordings/"))["recordings"]
    assert not [each for each in listed if "validate" in each["directory"]]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A server with a token."""
    with Server(env={"GHS_TOKEN": TOKEN}, token=TOKEN) as made:
        # The broker starts when it is first needed, and stays.
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
        status, _, printed = validate_here(guarded.url, *flags)
        assert status == 2
        assert "requires a token" in printed


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
        (["http://127.0.0.1:1", "--timeout", "50ms"], "'50ms': expected a time from"),
        (["http://127.0.0.1:1", "--timeout", "soon"], "from 0.1s to 1h, as 90, 90s"),
        (["http://127.0.0.1:1", "--timeout", "5m"], "no connection to"),
        (["http://127.0.0.1:1", "--timeout", "2.5"], "no connection to"),
        ([], "Name the server, as http://127.0.0.1:5000"),
    ],
)
def test_unreachable_servers_exit_with_2(arguments: list[str], words: str) -> None:
    status, report, printed = validate_here(*arguments)
    assert (status, report) == (2, {})
    assert words in printed
    assert "secret" not in printed


def test_what_a_proxy_refuses_itself_is_absent(server: Server) -> None:
    only = ["--only", "http", "--only", "errors.*-too-l*"]
    status, report, _ = validate_here(server.url, "--behind-proxy", *only)
    assert status == 0
    assert ids(report, "absent") == {
        *("errors.headers-too-large", "errors.uri-too-long"),
        *("http.expectation-failed", "http.malformed-request", "http.transfer-coding"),
    }
    assert ids(report, "passed") > {"errors.body-too-large", "http.chunked-body"}


def test_a_person_reads_a_line_for_each_group(server: Server) -> None:
    done = subprocess.run(
        [*COMMAND, server.url, "--only", "legacy.monitor-start", "--only", "server"],
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
    status, report, printed = validate_here(url, *only)
    assert (status, ids(report, "failed")) == (0, set()), printed


@pytest.mark.parametrize("name", LIES)
def test_each_wrong_behaviour_is_found(name: str, server: Server) -> None:
    lie, expected = LIES[name]
    only = [word for id in expected for word in ("--only", id)]
    if expected[0].startswith("answers."):
        only = ["--only", "answers", "--only", "legacy.reset"]
    with LyingProxy(server.port, lie) as proxy:
        status, report, printed = validate_here(proxy.url, *only)
    assert (status, ids(report, "failed")) == (1, set(expected)), printed
    wrong = [each for each in report["checks"] if each["result"] == "failed"]
    assert all(each["expected"] and each["actual"] for each in wrong)


def test_the_checks_pass_on_a_right_server(server: Server) -> None:
    names = {id for _, expected in LIES.values() for id in expected}
    only = [word for id in names for word in ("--only", id)]
    with LyingProxy(server.port, Lie()) as honest:
        status, report, printed = validate_here(honest.url, *only, "--only", "answers")
    assert (status, ids(report, "failed")) == (0, set()), printed


def test_a_server_that_lets_everybody_in_is_found_out(guarded: Server) -> None:
    with LyingProxy(guarded.port, Lie(request=open_to_all)) as proxy:
        only = ["--only", "server"]
        status, report, _ = validate_here(proxy.url, "--token", TOKEN, *only)
    assert status == 1
    assert "server.token-missing" in ids(report, "failed")


def bare(exchange: Exchange) -> None:
    """Answer as gym-http-api does, without later features."""
    later = "stream|tickets|batch|rollout|attributes|render|generator|registry"
    if exchange.path in ("/v1/", "/openapi.json", "/healthz", "/readyz") or re.search(
        rf"/({later})", exchange.path
    ):
        exchange.status = 404
        exchange.headers["content-type"] = "application/json"
        exchange.answer = b'{"message":"404 Not Found"}\n'


def forgetful(exchange: Exchange) -> None:
    """Rename newer members of requests, and remove the upgrade of streams."""
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
        status, report, printed = validate_here(old.url, *only)
    assert (status, ids(report, "failed")) == (0, set()), printed
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
        status, report, printed = validate_here(old.url, *only)
    assert (status, ids(report, "failed")) == (0, set()), printed
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
    status, report, printed = validate_here(small.url, "--env", "toys/Echo-v0")
    assert (status, ids(report, "failed")) == (0, set()), printed
    passed = ids(report, "passed")
    assert passed >= {
        "legacy.create", "legacy.list", "legacy.reset", "legacy.step", "legacy.sample",
        "legacy.render-in-step", "legacy.monitor-start", "legacy.monitor-start-text",
        "legacy.get-with-body", "legacy.http-1.0", "legacy.expect-continue",
        "legacy.accept-html", "newer.terminated-and-truncated", "server.about",
    }  # fmt: skip
    assert "legacy.old-ids" in ids(report, "absent")


def test_a_lie_about_an_environment_of_its_own_is_found_out(small: Server) -> None:
    with LyingProxy(small.port, replacing(b'"reward":1.0', b'"reward":1')) as proxy:
        only = ["--only", "legacy.step"]
        status, report, _ = validate_here(proxy.url, "--env", "toys/Echo-v0", *only)
    assert (status, ids(report, "failed")) == (1, {"legacy.step"})


def test_an_environment_that_is_not_there_cannot_be_checked(small: Server) -> None:
    status, report, printed = validate_here(small.url, "--env", "Cart-v1")
    assert (status, report) == (2, {})
    assert "--env is 'Cart-v1'" in printed


def test_claimed_but_missing_features_are_wrong(server: Server) -> None:
    def answer(exchange: Exchange) -> None:
        if exchange.path != "/v1/":
            bare(exchange)

    with LyingProxy(server.port, Lie(request=forgetful, answer=answer)) as proxy:
        only = ["--only", "stream-text", "--only", "tickets", "--only", "batches"]
        status, report, _ = validate_here(proxy.url, *only)
    assert status == 1
    failed = {id.partition(".")[0] for id in ids(report, "failed")}
    assert failed == {"stream-text", "tickets", "batches"}
    assert not ids(report, "absent")


def test_lost_answers_leave_no_instance(server: Server) -> None:
    """The fixture that checks what tests leave would find it."""
    lost: list[str] = []

    def loses(exchange: Exchange) -> bool:
        if exchange.method == "POST" and exchange.path == "/v1/envs/":
            lost.append(exchange.path)
            return len(lost) in (2, 4, 5)
        return False

    with LyingProxy(server.port, Lie(lost=loses)) as proxy:
        status, report, _ = validate_here(
            proxy.url, "--only", "keys", "--only", "batches"
        )
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
        status, _, printed = validate_here(url, "--timeout", "1s")
        took = time.monotonic() - began
        thread.join()
    assert status == 2
    assert "no answer" in printed
    assert took < 20


def trickle(listener: socket.socket, whole: bytes) -> None:
    """Send single bytes until the peer disconnects."""
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
    status, report, printed = validate_here(server.url, *only)
    assert (status, ids(report, "failed")) == (0, set()), printed


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
