"""Settings at the start: valid ones are used, others refused with one clear line."""

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.api import Api, error, ok
from tests.support.server import Server

TOKEN = "start-up-5f1d0c8e7b6a4932"
Launch = Callable[..., Server]

pytestmark = pytest.mark.live


def complaint(server: Server, timeout: float = 10.0) -> str:
    """Return the one line with which a server refused to start."""
    assert server.wait_exit(timeout) != 0, server.log()
    output = server.stdout + server.stderr
    lines = [line for line in output.splitlines() if line.strip()]
    assert len(lines) == 1, output
    assert "Traceback" not in output
    assert "Listening" not in output
    return lines[0]


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "0"])
def test_beyond_loopback_wants_a_token(address: str, launch_server: Launch) -> None:
    line = complaint(launch_server("--listen", address))
    assert "token" in line
    assert "Listening" not in line


def test_the_variable_does_not_bypass_the_check(launch_server: Launch) -> None:
    line = complaint(launch_server(env={"GHS_LISTEN": "0.0.0.0"}))
    assert "token" in line


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("token", ["short", "x" * 15, " ", "\t" * 20])
def test_short_tokens(address: str, token: str, launch_server: Launch) -> None:
    line = complaint(launch_server("--listen", address, "--token", token))
    assert "token" in line.lower()
    assert not token.strip() or token not in line, "a secret does not belong there"


@pytest.mark.parametrize("content", [None, "", "\n", "short\n"])
def test_token_files(
    content: str | None, tmp_path: Path, launch_server: Launch
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    complaint(launch_server("--token-file", str(path)))


@pytest.mark.parametrize(
    ("env", "word"),
    [
        ({"GHS_NOPE": "1"}, "GHS_NOPE"),
        ({"GHS_TOKENN": TOKEN}, "GHS_TOKENN"),
        ({"GHS_port": "1"}, "GHS_port"),
        ({"GHS_WORKERS": "many"}, "GHS_WORKERS"),
        ({"GHS_STEP_DEADLINE": "nan"}, "GHS_STEP_DEADLINE"),
        ({"GHS_MAX_BODY": "-1"}, "GHS_MAX_BODY"),
    ],
)
def test_wrong_variables(env: dict[str, str], word: str, launch_server: Launch) -> None:
    assert word in complaint(launch_server(env=env))


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_port_in_use_is_reported_at_once(taken: int, launch_server: Launch) -> None:
    line = complaint(launch_server("--port", str(taken)), timeout=5.0)
    assert str(taken) in line
    assert "use" in line


@pytest.mark.parametrize("flag", ["--no-such-flag", "--port=x", "--port=70000"])
def test_wrong_flags(flag: str, launch_server: Launch) -> None:
    server = launch_server(flag)
    assert server.wait_exit() != 0
    assert "Traceback" not in server.stderr
    assert flag.split("=")[0] in server.stderr


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_loopback_needs_no_token(address: str, make_server: Launch) -> None:
    server = make_server("--listen", address)
    assert server.url.startswith("http://")
    assert server.stop() == 0


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_token_that_the_server_makes(address: str, make_server: Launch) -> None:
    server = make_server("--listen", address, "--token", "auto")
    error(Api(server).get("/v1/envs/"), 401)
    words = re.findall(r"[A-Za-z0-9_-]{16,}", server.log())
    answers = []
    for word in words:
        api = Api(server, {"Authorization": f"Bearer {word}"})
        answers.append(api.get("/v1/envs/").status)
    assert 200 in answers, server.log()
    server.token = words[answers.index(200)]
    error(Api(server, {"Authorization": "Bearer auto"}).get("/v1/envs/"), 401)


@pytest.mark.parametrize("flags", [["--no-token"], ["--token", TOKEN]])
def test_beyond_loopback(flags: list[str], make_server: Launch) -> None:
    server = make_server("--listen", "0.0.0.0", *flags)
    if "--token" in flags:
        error(Api(server).get("/v1/envs/"), 401, "unauthorized")
        server.token = TOKEN
    ok(Api(server).get("/v1/envs/"))
    if "--no-token" in flags:
        foreign = Api(server, {"Host": "evil.example"})
        error(foreign.get("/v1/envs/"), 403, "host-refused")


def test_the_first_line_of_the_file_is_the_token(
    tmp_path: Path, make_server: Launch
) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\nanother line\n")
    server = make_server("--token-file", str(tmp_path / "token"), token=TOKEN)
    ok(Api(server).get("/v1/envs/"))


def test_a_flag_wins_over_a_variable(make_server: Launch) -> None:
    env = {"GHS_TOKEN": "variable-" + TOKEN, "GHS_WORKERS": "1"}
    server = make_server("--token", TOKEN, env=env, token=TOKEN)
    ok(Api(server).get("/v1/envs/"))
    wrong = {"Authorization": f"Bearer variable-{TOKEN}"}
    error(Api(server, wrong).get("/v1/envs/"), 401)


def test_wrong_starts_leave_nothing(launch_server: Launch) -> None:
    server = launch_server("--listen", "0.0.0.0")
    assert server.wait_exit() != 0
    assert list(server.run_dir.iterdir()) == []
