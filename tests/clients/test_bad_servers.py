"""All clients against servers that are absent, broken, slow or not ours.

Each driver creates a CartPole, resets it and takes two steps. A proxy in front of the
server answers a create or a step instead of it. The driver has to report the outcome
within its time limit, and to retry exactly the requests that may be retried.
"""

import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pytest

from tests.support.api import Api, Instance, ok
from tests.support.drivers import Program
from tests.support.faults.bad_answers import (
    answered,
    http_answer,
    message,
    problem,
    send,
    silence,
    torn,
    trickle,
    trickled,
    upgraded,
)
from tests.support.faults.bad_server import BadAnswer, BadServer, SeenRequest, pass_on
from tests.support.server import Server
from tests.support.wait import wait_until
from tests.support.websocket import value

# The two Luas differ most: one has a single kind of number, the other integers too.
NAMES = ("python", "lua5.1", "lua5.4", "cpp", "js")
TOKEN = "a-token-that-nobody-may-see"
WORDS = "what the server says of it"
BINARY = "application/vnd.gym-http.binary"
LIMIT_S = 2
# For drivers that the time limit ends.
SHORT_LIMIT_S = 1
# A driver's other times on a busy machine: to start, to create, to end.
TIMEOUT_S = 12.0

pytestmark = [
    pytest.mark.live,
    pytest.mark.toolchain,
    # The C++ driver is built within the first test that needs it.
    pytest.mark.timeout(300),
]
Tricks = Mapping[str, Sequence[BadAnswer]]

STEPPED = value(
    '{"dict":[["observation",{"nd":["<f4",[4]]}],["reward","float"],'
    '["terminated","bool"],["truncated","bool"],["info",{"dict":[]}]]}',
    bytes(16) + bytes(8) + bytes(8) + bytes(8),
)


class PrintedError(NamedTuple):
    """A driver's report of an error."""

    kind: str
    status: str
    code: str
    url: str
    message: str


@pytest.fixture(scope="module")
def plain_server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(params=NAMES)
def program(
    request: pytest.FixtureRequest, driver: Callable[[str], Program]
) -> Program:
    return driver(request.param)


@pytest.fixture
def probe(program: Program, plain_server: Server) -> Iterator[Callable[..., str]]:
    """Return a function that runs a driver, and measures its time."""

    def run(url: str, transport: str, limit_s: int = LIMIT_S) -> str:
        began = time.monotonic()
        args = ("probe", url, transport, str(limit_s))
        done = program.run(*args, timeout=40.0, token=TOKEN)
        took = time.monotonic() - began
        assert done.returncode == 0, done.stdout + done.stderr
        assert took < limit_s + TIMEOUT_S
        assert TOKEN not in done.stdout + done.stderr
        return done.stdout.strip()

    yield run
    # A client that got wrong answers may leave instances, and instances may
    # still be created or ended.
    api = Api(plain_server)
    wait_until(lambda: closed(api), 15.0, "all instances to be closed")


def closed(api: Api) -> bool:
    """Close all instances, and return whether none is left."""
    for instance_id in api.instances():
        Instance(api, instance_id).close()
    return bool(ok(api.get("/v1/"))["instances"] == 0)


def parsed_error(printed: str) -> PrintedError:
    """Read the line of an error."""
    found = re.fullmatch(
        r"error kind=(\S+) status=(\S+) code=(\S+) url=(\S+) message=(\".*\")", printed
    )
    assert found, printed
    kind, status, code, url, words = found.groups()
    assert kind in ("transport", "api", "protocol"), printed
    return PrintedError(kind, status, code, url, json.loads(words))


def alike(seen: list[SeenRequest]) -> bool:
    """Whether these are one request that was sent again and again."""
    first = seen[0]
    return bool(first.key) and all(
        (each.key, each.body) == (first.key, first.body) for each in seen
    )


def both(rest: BadAnswer, stream: BadAnswer) -> Tricks:
    """Play these tricks on steps, over REST and over a stream."""
    return {"step": [rest], "message": [stream]}


def pairwise(values: Sequence[str]) -> list[tuple[str, str, str]]:
    """Combine clients, transports and values, so that each two of them meet."""
    return [
        (name, ("rest", "stream")[(client + number) % 2], value)
        for client, name in enumerate(NAMES)
        for number, value in enumerate(values)
    ]


PLACES = {"rest": ("step",), "stream": ("message",)}
TRANSPORTS = pytest.mark.parametrize("transport", ["rest", "stream"])


@TRANSPORTS
def test_no_server(probe: Callable[..., str], transport: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = parsed_error(probe(f"http://127.0.0.1:{port}", transport, SHORT_LIMIT_S))
    assert (error.kind, error.status, error.code) == ("transport", "-", "-")
    assert f"127.0.0.1:{port}" in error.url
    assert error.message


ERRORS = {
    "invalid-action": 400,
    "reset-needed": 409,
    "instance-ended": 410,
    "key-reused": 422,
    "internal": 500,
    "env-error": 502,
    "step-deadline": 504,
}


@pytest.mark.parametrize(
    ("program", "transport", "code"), pairwise(list(ERRORS)), indirect=["program"]
)
def test_errors_are_raised_and_not_retried(
    probe: Callable[..., str],
    plain_server: Server,
    transport: str,
    code: str,
) -> None:
    status = ERRORS[code]
    body = problem(status, code, WORDS)
    streamed = json.dumps({"code": code, "message": WORDS, "extras": {}}).encode()
    tricks = both(
        send(http_answer(status, "application/json", body)),
        answered(status, 1, streamed),
    )
    with BadServer(plain_server.port, tricks) as bad_server:
        error = parsed_error(probe(bad_server.url, transport))
    assert (error.kind, error.status, error.code) == ("api", str(status), code)
    assert WORDS in error.message
    assert error.url.startswith(
        (bad_server.url, bad_server.url.replace("http", "ws", 1))
    )
    assert len(bad_server.at("step", "message")) == 1
    assert len(bad_server.at(*PLACES[transport])) == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "unknown-env"),
        (422, "key-reused"),
        (500, "internal"),
        (502, "env-error"),
        (503, "external-away"),
    ],
)
def test_errors_of_creates(
    probe: Callable[..., str], plain_server: Server, status: int, code: str
) -> None:
    body = problem(status, code, WORDS)
    tricks = {"create": [send(http_answer(status, "application/json", body))]}
    with BadServer(plain_server.port, tricks) as bad_server:
        error = parsed_error(probe(bad_server.url, "rest"))
    assert (error.kind, error.status, error.code) == ("api", str(status), code)
    assert WORDS in error.message
    assert len(bad_server.at("create")) == 1


@pytest.mark.parametrize("status", [408, 429, 503])
@pytest.mark.parametrize("place", ["create", "step"])
def test_temporary_failures_are_retried(
    probe: Callable[..., str], plain_server: Server, place: str, status: int
) -> None:
    body = problem(status, "busy", WORDS)
    busy = send(http_answer(status, "application/json", body, "Retry-After: 0"))
    with BadServer(plain_server.port, {place: [busy, busy, pass_on]}) as bad_server:
        assert probe(bad_server.url, "rest") == "ok"
    assert alike(bad_server.at(place)[:3])


@TRANSPORTS
def test_an_unreachable_server_is_retried(
    probe: Callable[..., str], plain_server: Server, transport: str
) -> None:
    """An environment that was lost in an episode may come back."""
    body = problem(503, "external-away", WORDS)
    streamed = {"code": "external-away", "message": WORDS, "extras": {}}
    rest = send(http_answer(503, "application/json", body, "Retry-After: 0"))
    stream = answered(503, 1, json.dumps(streamed).encode())
    # The server has to receive the first one, which has the signature.
    tricks = {"step": [rest, rest, pass_on], "message": [pass_on, stream, pass_on]}
    with BadServer(plain_server.port, tricks) as bad_server:
        assert probe(bad_server.url, transport) == "ok"
    request = bad_server.at("step", "message")
    assert len(request) >= 3
    # It may go another way, but as the same.
    assert request[1].key == request[2].key


@TRANSPORTS
def test_permanent_failures_end_with_the_deadline(
    probe: Callable[..., str], plain_server: Server, transport: str
) -> None:
    busy = send(http_answer(503, "application/json", problem(503, "draining", WORDS)))
    with BadServer(plain_server.port, {"create": [busy]}) as bad_server:
        # A busy machine needs a part of it for the first answer.
        error = parsed_error(probe(bad_server.url, transport, 4 * SHORT_LIMIT_S))
    assert (error.kind, error.status, error.code) == ("api", "503", "draining")
    assert WORDS in error.message
    assert len(bad_server.at("create")) > 1
    assert alike(bad_server.at("create"))


BEFORE = {
    "busy": (
        send(http_answer(503, "text/plain", problem(503, "draining", WORDS))),
        WORDS,
    ),
    "lost": (send(b"", then_close=True), "; before that: "),
}


@pytest.mark.parametrize("place", ["create", "step"])
@pytest.mark.parametrize("case", BEFORE)
def test_the_last_answer_is_raised_when_time_is_up(
    probe: Callable[..., str], plain_server: Server, place: str, case: str
) -> None:
    # Twice, since libcurl itself retries if a kept connection is closed.
    trick, words = BEFORE[case]
    with BadServer(plain_server.port, {place: [trick, trick, silence]}) as bad_server:
        error = parsed_error(probe(bad_server.url, "rest", SHORT_LIMIT_S))
    assert (error.kind, error.status) == ("transport", "-")
    assert words in error.message
    assert len(bad_server.at(place)) > 1


@TRANSPORTS
@pytest.mark.parametrize("rudely", [False, True], ids=["closed", "reset"])
def test_a_request_without_an_answer_is_retried(
    probe: Callable[..., str], plain_server: Server, transport: str, rudely: bool
) -> None:
    lost = send(b"", then_close=True, rudely=rudely)
    tricks = {place: [lost, lost, pass_on] for place in ("create", "step", "message")}
    with BadServer(plain_server.port, tricks) as bad_server:
        assert probe(bad_server.url, transport) == "ok"
    assert alike(bad_server.at("create"))
    steps = bad_server.at(*PLACES[transport])
    assert len(steps) >= 3
    # Over a new stream, the client has to send again what a signature's number
    # means, and which answers have arrived.
    assert len({each.key for each in steps[:3]}) == 1
    assert transport == "stream" or alike(steps[:3])


WHOLE = http_answer(200, BINARY, STEPPED)
CUTS = {
    "in the status": WHOLE[:10],
    "behind the status": WHOLE[: WHOLE.index(b"\r\n") + 2],
    "in a header": WHOLE[: WHOLE.index(b"gym-http")],
    "behind a header": WHOLE[: WHOLE.index(b"Content-Length")],
    "in the end of the head": WHOLE[: WHOLE.index(b"\r\n\r\n") + 2],
    "behind the head": WHOLE[: WHOLE.index(b"\r\n\r\n") + 4],
    "in the body": WHOLE[:-20],
}


@pytest.mark.parametrize("where", CUTS)
def test_a_truncated_answer_is_retried(
    probe: Callable[..., str], plain_server: Server, where: str
) -> None:
    cut = send(CUTS[where], then_close=True)
    with BadServer(plain_server.port, {"step": [cut, pass_on]}) as bad_server:
        assert probe(bad_server.url, "rest") == "ok"
    assert alike(bad_server.at("step")[:2])


@TRANSPORTS
def test_answers_that_are_cut_off_for_ever(
    probe: Callable[..., str], plain_server: Server, transport: str
) -> None:
    cut = send(CUTS["in the body"], then_close=True)
    tricks = both(cut, torn(200, 3, STEPPED))
    with BadServer(plain_server.port, tricks) as bad_server:
        error = parsed_error(probe(bad_server.url, transport, SHORT_LIMIT_S))
    assert (error.kind, error.status, error.code) == ("transport", "-", "-")
    assert error.message
    last, _, before = error.message.partition("; before that: ")
    assert not before or before not in last
    steps = bad_server.at("step", "message")
    assert len(steps) > 1
    assert len({each.key for each in steps}) == 1


HTML = b"<html>This is not the page that you are looking for</html>"
UNKNOWN = value('{"dict":[["observation","quux"]]}', bytes(8))
UNNAMED = b"\0\0\0\0\xc8\0\0\0" + bytes(40)
# Announces a signature of 2^31 bytes.
LYING = b"\0\0\0\x80\0\0\0\0" + bytes(40)
HUGE = 1 << 40
VAST = value('{"nd":["<f8",[4611686018427387904]]}', bytes(64))
MALFORMED = {
    "content-type": both(
        send(http_answer(200, "text/html", HTML)), answered(200, 15, HTML)
    ),
    "signature": both(
        send(http_answer(200, BINARY, UNKNOWN)), answered(200, 3, UNKNOWN)
    ),
    "signature-number": both(
        send(http_answer(200, BINARY, UNNAMED)), answered(200, 3, UNNAMED)
    ),
    "signature-size": both(
        send(http_answer(200, BINARY, LYING)), answered(200, 3, LYING)
    ),
    "array-size": both(send(http_answer(200, BINARY, VAST)), answered(200, 3, VAST)),
    "oversized": both(
        send(http_answer(200, BINARY, STEPPED, length=HUGE)),
        send(b"\x82\x7f" + HUGE.to_bytes(8) + STEPPED),
    ),
    "not-an-answer": both(
        send(b"220 mail.example ESMTP\r\n\r\n"), send(message(b"no"))
    ),
    "endless-head": both(
        send(b"HTTP/1.1 200 OK\r\nX: " + b"a" * (1 << 17)), send(b"\xff" * 64)
    ),
}


@pytest.mark.parametrize(
    ("program", "transport", "row"), pairwise(list(MALFORMED)), indirect=["program"]
)
def test_invalid_answers(
    probe: Callable[..., str], plain_server: Server, transport: str, row: str
) -> None:
    with BadServer(plain_server.port, MALFORMED[row]) as bad_server:
        error = parsed_error(probe(bad_server.url, transport))
    assert error.kind == "protocol"
    assert error.code == "-"
    assert error.url.startswith(
        (bad_server.url, bad_server.url.replace("http", "ws", 1))
    )
    assert error.message
    assert len(bad_server.at("step", "message")) == 1


def test_an_error_without_a_message(
    probe: Callable[..., str], plain_server: Server
) -> None:
    """As from a proxy without a server behind it."""
    tricks = {"step": [send(http_answer(502, "text/html", HTML))]}
    with BadServer(plain_server.port, tricks) as bad_server:
        error = parsed_error(probe(bad_server.url, "rest"))
    assert error.kind in ("api", "protocol")
    assert (error.status, error.code) == ("502", "-")
    assert len(bad_server.at("step")) == 1


def test_a_server_of_another_version(
    probe: Callable[..., str], plain_server: Server
) -> None:
    """It opens streams of its own kind, and has nothing below /v1/."""
    gone = send(http_answer(404, "application/json", problem(404, "not-found", WORDS)))
    tricks = {"handshake": [upgraded("gym-http.v2")], "step": [gone]}
    with BadServer(plain_server.port, tricks | {"create": [gone]}) as bad_server:
        error = parsed_error(probe(bad_server.url, "stream"))
    assert (error.kind, error.status, error.code) == ("api", "404", "not-found")
    assert WORDS in error.message
    with BadServer(plain_server.port, tricks) as bad_server:
        printed = probe(bad_server.url, "stream")
    # Without a stream there is REST, and reset works there.
    error = parsed_error(printed)
    assert error.kind in ("api", "protocol")
    assert bad_server.at("message") == []


def test_a_refused_handshake_has_the_words_of_the_server(
    probe: Callable[..., str], plain_server: Server
) -> None:
    body = problem(410, "instance-ended", WORDS)
    tricks = {"handshake": [send(http_answer(410, "application/json", body))]}
    with BadServer(plain_server.port, tricks) as bad_server:
        error = parsed_error(probe(bad_server.url, "stream"))
    assert (error.kind, error.status, error.code) == ("api", "410", "instance-ended")
    assert WORDS in error.message
    # It was not requested over REST, too.
    assert bad_server.at("step") == []


@TRANSPORTS
@pytest.mark.parametrize("at_once", [0, 60], ids=["head", "body"])
def test_a_byte_a_second(
    probe: Callable[..., str], plain_server: Server, transport: str, at_once: int
) -> None:
    slow = trickle(http_answer(200, BINARY, STEPPED), at_once)
    with BadServer(
        plain_server.port, both(slow, trickled(200, 3, STEPPED))
    ) as bad_server:
        error = parsed_error(probe(bad_server.url, transport, SHORT_LIMIT_S))
    assert (error.kind, error.status) == ("transport", "-")
    assert error.message


@TRANSPORTS
def test_an_answer_that_does_not_come(
    probe: Callable[..., str], plain_server: Server, transport: str
) -> None:
    tricks = {place: [silence, pass_on] for place in ("step", "message")}
    with BadServer(plain_server.port, tricks) as bad_server:
        printed = probe(bad_server.url, transport, SHORT_LIMIT_S)
    # It depends on the client how much of its time it waits for the first answer.
    assert printed == "ok" or parsed_error(printed).kind == "transport"
    steps = bad_server.at("step", "message")[: 2 if printed == "ok" else None]
    assert len({each.key for each in steps}) == 1


def test_a_handshake_a_byte_a_second(
    probe: Callable[..., str], plain_server: Server
) -> None:
    slow = trickle(b"HTTP/1.1 101 Switching Protocols\r\n" + b"x" * 60)
    with BadServer(plain_server.port, {"handshake": [slow]}) as bad_server:
        printed = probe(bad_server.url, "stream", SHORT_LIMIT_S)
    # There may have been time left to go by REST.
    assert printed == "ok" or parsed_error(printed).kind == "transport"


@TRANSPORTS
def test_all_goes_well_and_the_token_is_shown(
    probe: Callable[..., str], plain_server: Server, transport: str
) -> None:
    with BadServer(plain_server.port, {}) as bad_server:
        assert probe(bad_server.url, transport) == "ok"
    over_http = [each for each in bad_server.seen if each.head]
    assert {each.header("authorization") for each in over_http} == {f"Bearer {TOKEN}"}
    assert not any(TOKEN in each.head.decode().split("\r\n")[0] for each in over_http)
    other = {"rest": "message", "stream": "step"}[transport]
    assert bad_server.at(other) == []
    assert len(bad_server.at(*PLACES[transport])) == 2
