"""The Lua client reads HTTP answers byte by byte, over TCP and TLS."""

import json
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.clients.lua.test_lua import HERE, run
from tests.support.peers.scripted_server import (
    ScriptedServer,
    http_answer,
    read_request,
    silence,
    then_close,
    then_reset,
)
from tests.support.tls import certify, tls_server

pytestmark = pytest.mark.toolchain

JSON = "Content-Type: application/json"
BODY = b'{"api":"v1","number":9007199254740993,"text":"\xc3\xa9"}'
ASK = """
local gym = require("gym_http_client")
local options = {time_limit = tonumber(arg[3] or 5), max_body = 100000, tls = {}}
options.tls.cafile = arg[4]
local client = gym.new(arg[1], options)
for _ = 1, tonumber(arg[2]) do
  local answer, failed = client:server_info()
  if answer then
    print("answer", answer.api, tostring(answer.number), answer.text)
  else
    print("error", failed.kind, tostring(failed.status), failed.message)
  end
end
"""
ANSWER = "answer\tv1\t9007199254740993\té\n"


def response(
    url: str, *args: str, interpreter: str = "lua5.1", before: str = ""
) -> str:
    program = ["-e", f"arg = {{...}} {before} {ASK}"]
    # What follows `-e` is no argument of it, so they are written into the program.
    words = ",".join(json.dumps(word) for word in (url, *args))
    program[1] = program[1].replace("{...}", f"{{{words}}}")
    return run(interpreter, *program)


def chunked(*chunks: bytes, trailer: bytes = b"") -> bytes:
    head = f"HTTP/1.1 200 X\r\n{JSON}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    data = b"".join(b"%x;a=b\r\n%s\r\n" % (len(each), each) for each in chunks)
    return head + data + b"0\r\n" + trailer + b"\r\n"


FINE = {
    "sized": http_answer(BODY, JSON),
    "chunked": chunked(BODY[:3], BODY[3:]),
    "trailers": chunked(BODY, trailer=b"X: y\r\n"),
    "continued": b"HTTP/1.1 100 Continue\r\n\r\n" + http_answer(BODY, JSON),
    "charset": http_answer(BODY, f"{JSON}; charset=utf-8"),
    "names in any case": http_answer(BODY, "CONTENT-TYPE:application/json"),
}


@pytest.mark.parametrize("interpreter", ["lua5.1", "lua5.4", "luajit"])
@pytest.mark.parametrize("name", FINE)
def test_answers_are_read_and_the_connection_is_kept(
    name: str, interpreter: str
) -> None:
    with ScriptedServer.of(FINE[name]) as server:
        assert response(server.url, "3", interpreter=interpreter) == 3 * ANSWER
    assert {each.connection for each in server.seen} == {0}


@pytest.mark.parametrize(
    "answer",
    [
        http_answer(BODY, JSON, "Connection: close"),
        http_answer(BODY, JSON, version="1.0"),
        then_close(f"HTTP/1.1 200 X\r\n{JSON}\r\n\r\n".encode() + BODY),
    ],
    ids=["close", "1.0", "until the end"],
)
def test_connections_that_end_are_not_used_again(answer: bytes) -> None:
    with ScriptedServer.of(answer) as server:
        assert response(server.url, "2") == 2 * ANSWER
    assert [each.connection for each in server.seen] == [0, 1]


def test_a_kept_connection_that_has_ended_is_replaced() -> None:
    with ScriptedServer.of(
        then_close(http_answer(BODY, JSON)), http_answer(BODY, JSON)
    ) as server:
        assert response(server.url, "2") == 2 * ANSWER
    assert len(server.seen) == 2


@pytest.mark.parametrize(
    "lost",
    [then_close(), then_reset(), then_close(http_answer(BODY, JSON)[:-1])],
    ids=["closed", "reset", "cut"],
)
def test_a_request_without_an_answer_is_retried(lost: bytes) -> None:
    with ScriptedServer.of(lost, lost, http_answer(BODY, JSON)) as server:
        assert response(server.url, "1") == ANSWER
    assert len(server.seen) == 3
    assert len({(each.head, each.body) for each in server.seen}) == 1


MALFORMED = {
    "two lengths": http_answer(BODY, JSON, "Content-Length: 5"),
    "length and chunks": http_answer(BODY, JSON, "Transfer-Encoding: chunked"),
    "unknown coding": b"HTTP/1.1 200 X\r\nTransfer-Encoding: gzip\r\n\r\n",
    "length of letters": b"HTTP/1.1 200 X\r\nContent-Length: many\r\n\r\n",
    "too large": b"HTTP/1.1 200 X\r\nContent-Length: 100001\r\n\r\n",
    "chunk too large": b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
    "chunk of letters": b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "endless head": b"HTTP/1.1 200 X\r\n" + b"X: y\r\n" * 20000,
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "HTTP/2": b"HTTP/2 200 OK\r\n\r\n",
    "turned": b"HTTP/1.1 101 X\r\n\r\n",
    "another type": http_answer(BODY, "Content-Type: text/html"),
    "no JSON": http_answer(b"{", JSON),
    "no text": http_answer(b'"\xff"', JSON),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_answers_are_refused_at_once(name: str) -> None:
    with ScriptedServer.of(MALFORMED[name]) as server:
        answer = response(server.url, "1")
    assert answer.startswith("error\tprotocol\t"), answer
    assert "is it a gym_http_server?" in answer or "malformed" in answer
    assert len(server.seen) == 1


def test_silence_ends_with_the_time_limit() -> None:
    with ScriptedServer.of(silence) as server:
        answer = response(server.url, "1", "1.2")
    assert answer.startswith("error\ttransport\tnil\t"), answer
    # Retried within the time limit of the call.
    assert len(server.seen) >= 2


def test_redirects_are_not_followed() -> None:
    with ScriptedServer.of(
        http_answer(b"", "Location: http://127.0.0.1:1/", status=302)
    ) as server:
        answer = response(server.url, "1")
    assert answer.startswith("error\tprotocol\t302")


@pytest.mark.parametrize("call", ["make", "attach"])
def test_a_failed_connect_leaves_no_connection(call: str) -> None:
    problem = http_answer(
        b'{"code":"unknown-instance","message":"none"}', JSON, status=404
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        program = (
            # Else the collector might close what the client has left open.
            'collectgarbage("stop") '
            f'require("gym_http_client").{call}("none", '
            f'{{url = "http://127.0.0.1:{listener.getsockname()[1]}"}}) io.read()'
        )
        path = f"{HERE}/?.lua;{HERE}/?/init.lua;;"
        with subprocess.Popen(
            ["lua5.1", "-e", program], stdin=subprocess.PIPE, env={"LUA_PATH": path}
        ) as client:
            connection = listener.accept()[0]
            with connection:
                connection.settimeout(10)
                assert read_request(connection)
                connection.sendall(problem)
                # The program still runs.
                assert connection.recv(1) == b""
            assert client.poll() is None
            client.communicate(b"\n")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a certificate for localhost and its key."""
    return certify(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize("interpreter", ["lua5.1", "lua5.4", "luajit"])
def test_tls(certificate: Path, interpreter: str) -> None:
    seen: list[bytes] = []

    def converse(sock: ssl.SSLSocket) -> None:
        while request := read_request(sock):
            seen.append(request[0])
            sock.sendall(http_answer(BODY, JSON))

    with tls_server(certificate, converse) as port:
        url = f"https://localhost:{port}"
        output = response(url, "2", "5", str(certificate), interpreter=interpreter)
        assert output == 2 * ANSWER
        assert len(seen) == 2
        # No authority signed it, and it is for another name.
        other = f"https://127.0.0.1:{port}"
        for args, why in (
            ((url, "1"), "certificate verify failed: self-signed certificate"),
            ((other, "1", "5", str(certificate)), "is not for 127.0.0.1"),
        ):
            output = response(*args, interpreter=interpreter)
            assert output.startswith("error\ttransport\tnil\t"), output
            assert "could not prove its identity" in output
            assert why in output.replace("self signed", "self-signed")
    assert len(seen) == 2


def test_tls_without_luasec() -> None:
    before = 'package.preload.ssl = function() error("no ssl") end'
    answer = response("https://localhost:1", "1", before=before)
    assert answer.startswith("error\ttransport\tnil\t")
    assert "LuaSec" in answer
