"""A fleet's numbers, IDs and records, without servers."""

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gevent  # type: ignore[import-untyped]
import msgspec
import pytest

from gym_http_server import web
from gym_http_server.access.identities import EVERYONE
from gym_http_server.config.settings import Settings
from gym_http_server.errors import AnswerBudgetFull, FleetAway, NodeAway, StartError
from gym_http_server.fleet.callers import CallerSignatures
from gym_http_server.fleet.joining import may_be_called, prepare
from gym_http_server.fleet.numbers import IDs, NodeNumber, NumberFile, id_of, number_of
from gym_http_server.fleet.page import IDS_OF_NUMBER, Node, Nodes, Page
from gym_http_server.fleet.records import BadRecord, Record, read, write
from gym_http_server.fleet.signatures import Signatures
from gym_http_server.operations.table import OPERATIONS
from gym_http_server.web.api.exchange import CALLER, json_answer, parts_of
from gym_http_server.web.api.fleet.creates import _create_there
from gym_http_server.web.api.fleet.external import _receive_hello
from gym_http_server.web.api.fleet.forwarding import SENT_ON, FleetCall, answer_of
from gym_http_server.web.api.fleet.lists import LISTS
from gym_http_server.web.backends.arriving_answer import ArrivingAnswer
from gym_http_server.web.backends.budget import LARGE, Budget
from gym_http_server.web.backends.nodes import client as client_module
from gym_http_server.web.backends.nodes import connection
from gym_http_server.web.backends.nodes.answers import NodeAnswer
from gym_http_server.web.backends.nodes.client import (
    ClientLeft,
    NodeClient,
    NodeRequest,
)
from gym_http_server.web.backends.nodes.connection import ArrivingBody
from gym_http_server.web.backends.nodes.known import KnownNodes
from gym_http_server.web.backends.nodes.placement import Placement
from gym_http_server.web.backends.transfers import BrokenOff
from gym_http_wire.external.handshake import MAX_HELLO_BYTES

SIGNATURES = Signatures("a-token-of-the-fleet")
RECORD = Record(
    *(("0a1",), "boot", "one", "http://127.0.0.1:5000", "0.1.0"), slots=64, free=60
)


def test_a_number_has_each_id_once() -> None:
    counts = {*range(50_000), *range(0, IDS_OF_NUMBER, 50)}
    issued = {id_of("0a1", count) for count in counts}
    assert len(issued) == len(counts)
    assert all(len(each) == 8 and each[:3] == "0a1" for each in issued)
    assert all(map(number_of, issued))


def test_ids_are_in_a_shuffled_order_which_depends_on_the_number() -> None:
    first = [id_of("0a1", count)[3:] for count in range(1000)]
    assert sorted(first) != first
    assert first != [id_of("0a2", count)[3:] for count in range(1000)]
    assert first == [id_of("0a1", count)[3:] for count in range(1000)]


def page_of(folder: Path, directory: str = "") -> Page:
    page = Page(str(folder), make=True)
    page.replace(Nodes(RECORD, directory))
    page.renew()
    return page


def test_a_killed_server_never_issues_an_id_again(tmp_path: Path) -> None:
    file = NumberFile(f"{tmp_path}/data")
    assert file.claim()
    assert file.read().number == ""
    page = page_of(tmp_path, file.directory)
    ids = IDs(page, f"{tmp_path}/data")
    issued = {ids.issue() for _ in range(300)}
    file.close()
    # It did not close its IDs.
    again = NumberFile(f"{tmp_path}/data")
    assert again.claim()
    kept = again.read()
    assert kept.number == "0a1"
    page.issued = kept.issued
    more = IDs(page, f"{tmp_path}/data")
    assert issued.isdisjoint(more.issue() for _ in range(300))
    more.close()
    assert again.read() == NodeNumber("0a1", page.issued)
    again.close()


def test_two_servers_do_not_share_the_number_of_a_data_directory(
    tmp_path: Path,
) -> None:
    first, second = NumberFile(f"{tmp_path}/data"), NumberFile(f"{tmp_path}/data")
    assert first.claim()
    assert not second.claim()
    first.close()
    assert second.claim()
    second.close()


@pytest.mark.parametrize("kept", ['"zzz"', '"abc", "issued": -1', "7"])
def test_a_damaged_file_keeps_no_number(tmp_path: Path, kept: str) -> None:
    text = '{"directory": "d", "number": %s}'
    (tmp_path / "node").write_text(text % kept)
    assert NumberFile(str(tmp_path)).read() == ("", 0)


def test_a_node_that_is_not_renewed_issues_no_ids(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    ids = IDs(page, str(tmp_path))
    ids.issue()
    page.fence()
    with pytest.raises(FleetAway):
        ids.issue()
    page.renew()
    ids.issue()


def test_a_number_that_is_used_up_is_followed_by_another(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    page.issued = IDS_OF_NUMBER - 1
    ids = IDs(page, str(tmp_path))
    assert ids.issue().startswith("0a1")
    with pytest.raises(FleetAway):
        ids.issue()
    own = msgspec.structs.replace(RECORD, numbers=("0a1", "0b2"))
    page.replace(Nodes(own))
    page.issued = 0
    assert ids.issue().startswith("0b2")


def test_records_are_read_as_they_were_written() -> None:
    assert read("0a1", write(RECORD, SIGNATURES), SIGNATURES) == RECORD


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "file:///etc/passwd"},
        {"url": "http://user@host:5000"},
        {"url": "http://host:5000/path"},
        {"url": "http://host:5000\r\nX: y"},
        {"url": "http://host:65536"},
        {"url": "http://host:0"},
        {"name": "a\nb"},
        {"numbers": ("0a1", "xyz")},
        {"numbers": ("0a2",)},
    ],
)
def test_records_with_bad_members_are_refused(changes: dict[str, object]) -> None:
    record = msgspec.structs.replace(RECORD, **changes)
    with pytest.raises(BadRecord):
        read("0a1", write(record, SIGNATURES), SIGNATURES)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"0" * 300_000,
        b"{}",
        write(RECORD, Signatures("another-token-of-another")),
        write(RECORD, SIGNATURES).replace(b"127.0.0.1", b"10.66.66.6"),
        b"[" * 10_000,
    ],
)
def test_records_of_others_are_refused(data: bytes) -> None:
    with pytest.raises(BadRecord):
        read("0a1", data, SIGNATURES)


def test_a_name_that_looks_like_an_address_of_this_machine_is_foreign() -> None:
    for host in ("127.0.0.1.example.com", "127.example.com", "127.0.0.1.0"):
        assert not may_be_called(f"http://{host}:5000", Settings())
    for host in ("127.0.0.1", "127.8.0.9", "localhost", "[::1]"):
        assert may_be_called(f"http://{host}:5000", Settings())


def test_parts_of_a_signature_cannot_change_places() -> None:
    signed = SIGNATURES.sign("call", "ab", "c")
    assert SIGNATURES.check(signed, "call", "ab", "c")
    assert not SIGNATURES.check(signed, "call", "a", "bc")
    assert not SIGNATURES.check(signed, "ticket", "ab", "c")
    assert not SIGNATURES.check("é" + signed, "call", "ab", "c")


STORE = "redis://127.0.0.1:6379/0"
SECRET = "redis://:a-password@10.66.66.66:6379/0"
ELSEWHERE = "http://10.66.66.66:5000"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"fleet": "etcd://127.0.0.1"}, "expected redis://HOST:PORT/0"),
        ({"fleet": "redis://10.66.66.66:6379/0"}, "has no password"),
        ({"listen": "0.0.0.0"}, "has no password"),
        ({"fleet": SECRET, "listen": "0.0.0.0"}, "with --node-url"),
        ({"fleet_token_file": "", "node_url": ELSEWHERE}, "--fleet-token-file"),
        (
            {"fleet": SECRET, "fleet_token_file": "", "listen": "0.0.0.0"},
            "--fleet-token-file",
        ),
        ({"fleet_token_file": "", "token": "a-secret"}, "with --token or --tokens"),
        ({"fleet_token_file": "", "tokens": "{}"}, "with --token or --tokens"),
        ({"node_url": ELSEWHERE}, "--fleet-plain"),
        ({"node_url": "127.0.0.1:5000"}, "--node-url is '127.0.0.1:5000'"),
        ({"node_url": "http://127.0.0.1/x"}, "a scheme, a host and a port"),
        ({"node_name": "a b"}, "--node-name is 'a b'"),
        ({"fleet_token_file": "/none"}, "cannot read the fleet token file"),
        ({"fleet_token_file": "/dev/null"}, "the fleet token has 0 characters"),
        ({"fleet_ca": "/none"}, "--fleet-ca /none cannot be used"),
        ({"no_tcp": True}, "--fleet needs a TCP address"),
    ],
)
def test_settings_that_no_server_of_a_fleet_has(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-of-the-fleet\n")
    given = {"fleet": STORE, "fleet_token_file": str(token), **settings}
    listens = given.get("listen", "127.0.0.1")
    with pytest.raises(StartError) as caught:
        prepare(Settings(**given), f"http://{listens}:5000")
    assert words in str(caught.value)
    assert "a-password" not in str(caught.value)


def test_settings_of_a_fleet(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-of-the-fleet\nmore\n")
    given = Settings(
        fleet=SECRET,
        fleet_token_file=str(token),
        listen="0.0.0.0",
        node_url=ELSEWHERE + "/",
        fleet_plain=True,
        node_name="one",
    )
    settings, found, url = prepare(given, "http://0.0.0.0:5000")
    assert (found, url, settings.node_name) == (
        "a-token-of-the-fleet",
        ELSEWHERE,
        "one",
    )
    # On one machine, the store is enough.
    settings, found, url = prepare(Settings(fleet=STORE), "http://127.0.0.1:5007")
    assert (found, url) == ("", "http://127.0.0.1:5007")
    assert settings.node_name.endswith(":5007")


@pytest.mark.parametrize(
    ("url", "port"), [("http://127.0.0.1", 80), ("https://127.0.0.1", 443)]
)
def test_the_name_of_a_node_has_the_port_of_its_url(url: str, port: int) -> None:
    given = Settings(fleet=STORE, fleet_token_file=__file__, node_url=url)
    settings, _, _ = prepare(given, "http://127.0.0.1:5007")
    assert settings.node_name.endswith(f":{port}")


def test_the_node_of_an_instance_is_not_among_its_arguments() -> None:
    arguments = {"a": 1, "num_envs": 2}
    row = {"age_s": 1.0, "arguments": arguments, "num_envs": None, "state": "idle"}
    own = json_answer(msgspec.json.encode({"ended": [], "instances": [row]}))
    fleet: Any = SimpleNamespace(nodes=Nodes(RECORD))
    nothing: Any = None
    call = FleetCall(fleet, nothing, lambda *_: own, nothing, {})
    try:
        answer = LISTS["instances"](call)
    finally:
        gevent.get_hub().destroy(destroy_loop=True)
    (listed,) = msgspec.json.decode(b"".join(parts_of(answer.body)))["instances"]
    assert listed == row | {"node": "one"}


@contextlib.contextmanager
def other_node(
    *answers: bytes, requests: list[bytes] | None = None
) -> Iterator[Record]:
    """Run a node that answers the first request of each connection.

    It closes the connection when a second one arrives, or at the end.

    Args:
        answers: The answer of each connection.
        requests: Gets what was received.
    """
    received = [] if requests is None else requests
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(end: socket.socket, answer: bytes) -> None:
            with end, contextlib.suppress(ConnectionResetError, BrokenPipeError):
                received.append(end.recv(4096))
                end.sendall(answer)
                received.append(end.recv(4096))

        def accept() -> None:
            for answer in answers:
                end, _ = listener.accept()
                ends.append(end)
                threads.append(threading.Thread(target=serve, args=(end, answer)))
                threads[-1].start()

        ends: list[socket.socket] = []
        threads = [threading.Thread(target=accept)]
        threads[0].start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            yield msgspec.structs.replace(RECORD, url=url, boot="other")
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for end in ends:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            for each in threads:
                each.join()


def client_of(folder: Path, page: Page | None = None) -> NodeClient:
    """Return a client of the node that the page is of."""
    nodes = KnownNodes(page or page_of(folder))
    return NodeClient(nodes, CallerSignatures(SIGNATURES, lambda: nodes.own))


def answered(body: bytes, status: str = "200 OK", size: int | None = None) -> bytes:
    """Return an answer that shows that it is of the other node."""
    size = len(body) if size is None else size
    head = f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n{PROOF}\r\n"
    return head.encode() + b"\r\n" + body


GET, POST = (NodeRequest(each, "/v1/", "") for each in ("GET", "POST"))
PROOF = f"Gym-Node-Proof: {SIGNATURES.sign('answer', 'other')}"
FOUND = answered(b"{}")


def test_a_request_that_cannot_be_repeated_has_a_connection_of_its_own(
    tmp_path: Path,
) -> None:
    client = client_of(tmp_path)
    with other_node(FOUND, FOUND) as node:
        for _ in range(2):
            # The node closes a kept connection when the second request arrives.
            answer = client.send(node, POST, repeatable=False)
            assert answer.body == b"{}"
    client.sweep()


def test_what_a_node_says_unasked_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "IDLE_SECONDS", 0.0)
    client, ends = client_of(tmp_path), []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(2):
                end, _ = listener.accept()
                ends.append(end)
                end.recv(4096)
                end.sendall(FOUND)

        serving = threading.Thread(target=serve)
        serving.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        node = msgspec.structs.replace(RECORD, url=url, boot="other")
        assert client.send(node, POST, repeatable=True).status == 200
        ends[0].sendall(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        assert client.send(node, POST, repeatable=True).status == 200
        serving.join()
    for end in ends:
        end.close()
    client.sweep()


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_answers_without_a_body_have_none_whatever_their_size(
    tmp_path: Path, status: str
) -> None:
    client = client_of(tmp_path)
    with other_node(answered(b"", status, 5)) as node:
        answer = client.send(node, GET, repeatable=True)
        assert (answer.status, answer.body) == (int(status[:3]), b"")
    client.sweep()


def test_an_answer_with_more_bytes_than_its_size_is_none(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    with other_node(answered(b"{}}", size=2)) as node, pytest.raises(NodeAway):
        client.send(node, POST, repeatable=False)
    client.sweep()


HEAD = f"HTTP/1.1 200 OK\r\n{PROOF}\r\n".encode()
SIZED = HEAD + b"Content-Length: 2\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        HEAD,
        SIZED + b"\r\n{",
        HEAD + b"\r\n{}",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        SIZED + b"Transfer-Encoding: chunked\r\n\r\n{}",
        SIZED + b"Content-Length: 2\r\n\r\n{}",
        SIZED + b"Content-Length: 3\r\n\r\n{} ",
        HEAD + b"Content-Length: +2\r\n\r\n{}",
        HEAD + b"Content-Length: -2\r\n\r\n",
        HEAD + b"Content-Length: 0_2\r\n\r\n{}",
        HEAD + b"Content-Length: 2, 2\r\n\r\n{}",
        HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}",
        HEAD + b"Content-Length:\r\n\r\n",
        SIZED + b"\r\n{}" + FOUND,
        b"HTTP/1.1 100 Continue\r\n\r\n" + FOUND,
        answered(b"", "100 Continue", 0) + FOUND,
        answered(b"", "103 Early Hints", 0) + FOUND,
        FOUND.replace(b"HTTP/1.1", b"HTTP/1.0"),
        FOUND.replace(b"HTTP/1.1", b"ICY"),
        FOUND.replace(b"HTTP/1.1 200", b"HTTP/1.1 2000"),
        FOUND.replace(b"\r\n", b"\n"),
        SIZED + b"A: b\nSet-Cookie: c\r\n\r\n{}",
        SIZED + b"A: b\r\n c\r\n\r\n{}",
        SIZED + b"A : b\r\n\r\n{}",
        SIZED + b"no colon\r\n\r\n{}",
        SIZED + b"A: \0\r\n\r\n{}",
        SIZED + b"A: " + b"a" * 70_000 + b"\r\n\r\n{}",
        FOUND.replace(b"Gym-Node-Proof: ", b"Gym-Node-Proof: 0"),
        FOUND.replace(b"Gym-Node-Proof", b"Gym-Node"),
    ],
)
def test_what_no_node_answers_is_no_answer_of_one(
    tmp_path: Path, answer: bytes
) -> None:
    client = client_of(tmp_path)
    with other_node(answer, FOUND) as node:
        with ended_after_a_while(client), pytest.raises(NodeAway):
            client.send(node, POST, repeatable=False)
        # No later request gets the rest.
        assert client.send(node, GET, repeatable=True).body == b"{}"
    client.sweep()


@pytest.mark.parametrize(
    "answer",
    [
        # As Python's http.server, and as a page of a size that is not known.
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        SIZED.replace(b"Proof: ", b"Proof: 0") + b"\r\n{}",
    ],
)
def test_the_log_tells_that_another_program_answers(
    tmp_path: Path, answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with other_node(answer) as node, pytest.raises(NodeAway):
        client_of(tmp_path).send(node, POST, repeatable=False)
    (line,) = caplog.messages
    assert line.startswith(f"the answer at {node.url} is not of the node")


class ScriptedSocket:
    """A socket that receives what a test gives it, piece by piece."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)
        self.closed = False

    def recv(self, size: int) -> bytes:
        """Return the next piece."""
        if not self._pieces:
            raise BlockingIOError
        return self._pieces.pop(0)

    def recv_into(self, memory: memoryview) -> int:
        """Write the next piece, or as much as there is room for, into memory."""
        piece = self.recv(0)
        if len(piece) > len(memory):
            self._pieces.insert(0, piece[len(memory) :])
            piece = piece[: len(memory)]
        memory[: len(piece)] = piece
        return len(piece)

    def settimeout(self, seconds: float | None) -> None:
        """Wait for nothing."""

    def send(self, data: bytes) -> int:
        """Accept everything."""
        return len(data)

    def close(self) -> None:
        """Note that it is closed."""
        self.closed = True


def scripted(client: NodeClient, *pieces: bytes) -> tuple[NodeAnswer, ScriptedSocket]:
    """Return an answer that arrives in pieces, and its connection."""
    sock: Any = ScriptedSocket(*pieces)
    node = msgspec.structs.replace(RECORD, boot="other")
    proof = PROOF.partition(": ")[2]
    link = connection.NodeConnection(sock, node.boot, proof)
    return client._exchange(link, node, GET, None), sock


def test_a_head_may_arrive_in_any_pieces(tmp_path: Path) -> None:
    body = b"a" * 70_000
    whole, client = answered(body), client_of(tmp_path)
    for pieces in ([whole[:50], whole[50:65_586]], [bytes([x]) for x in whole[:500]]):
        rest = whole[len(b"".join(pieces)) :]
        answer, _ = scripted(client, *pieces, rest)
        assert answer.body == body


LARGE_BODY = bytes(range(256)) * 8192


@pytest.mark.parametrize(
    ("behind", "connection_line", "kept"),
    [
        (b"", "", True),
        (b"", "Connection: close\r\n", False),
        (b"", "Connection: Close, TE\r\n", False),
        (b"x", "", False),
    ],
)
def test_a_large_answer_arrives_while_it_is_sent(
    tmp_path: Path, behind: bytes, connection_line: str, kept: bool
) -> None:
    client = client_of(tmp_path)
    head = answered(b"", size=len(LARGE_BODY))
    head = head.replace(PROOF.encode(), (connection_line + PROOF).encode())
    pieces = [LARGE_BODY[at : at + 60_000] for at in range(0, len(LARGE_BODY), 60_000)]
    if behind:
        pieces.append(behind)
    answer, sock = scripted(client, head + pieces[0], *pieces[1:])
    assert isinstance(answer.body, ArrivingAnswer)
    assert len(answer.body) == len(LARGE_BODY)
    parts = iter(answer.body.views())
    received = bytes(next(parts))
    # The rest is still on its way, and nothing else may use the connection.
    assert not client._idle
    received += b"".join(map(bytes, parts))
    assert received == LARGE_BODY
    assert (bool(client._idle), sock.closed) == (kept, not kept)


@pytest.mark.parametrize("leaves", [True, False])
def test_the_rest_of_a_large_answer_is_of_no_use(tmp_path: Path, leaves: bool) -> None:
    client = client_of(tmp_path)
    head = answered(b"", size=len(LARGE_BODY))
    # A connection that ends receives nothing.
    answer, sock = scripted(client, head, LARGE_BODY[:1_000_000], b"")
    assert isinstance(answer.body, ArrivingAnswer)
    with contextlib.closing(answer.body) as body:
        parts = body.views()
        next(parts)
        if not leaves:
            with pytest.raises(BrokenOff, match="1000000 of its 2097152 bytes"):
                next(parts)
    assert sock.closed
    assert not client._idle
    assert not client._busy


def test_a_large_answer_of_a_node_that_is_lost_meanwhile_ends(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    begun = answered(LARGE_BODY[:1_000_000], size=len(LARGE_BODY))
    with other_node(begun) as node, ended_after_a_while(client):
        answer = client.send(node, GET, repeatable=False)
        assert isinstance(answer.body, ArrivingAnswer)
        with contextlib.closing(answer.body) as body, pytest.raises(BrokenOff):
            b"".join(body)
    assert not client._busy


def test_a_large_answer_takes_room_for_a_part_of_its_callers_share() -> None:
    budget, size = Budget(4 * LARGE, lambda path: ""), 100 * LARGE
    rooms = [budget.forward(size, LARGE, "ada") for _ in range(2)]
    with pytest.raises(AnswerBudgetFull, match=f"answer of {size} bytes"):
        budget.forward(size, LARGE, "ada")
    rooms.append(budget.forward(size, LARGE, "bob"))
    del rooms[0]
    rooms.append(budget.forward(size, LARGE, "ada"))


def test_a_node_may_answer_before_it_has_the_whole_request(tmp_path: Path) -> None:
    client, answered_early = client_of(tmp_path), threading.Event()
    refusal = answered(b"{}", "413 Content Too Large")

    def pieces() -> Iterator[bytes]:
        yield b"a" * 1000
        answered_early.wait()
        yield b"b" * 1000
        raise AssertionError("the node has answered")

    def serve() -> None:
        for _ in requests:
            end, _ = listener.accept()
            with end:
                end.recv(4096)
                end.sendall(refusal)
                answered_early.set()
                # What is not read of the first one makes this a reset.
                end.recv(1_000_000)

    requests = [
        POST._replace(body=bytes(16_000_000)),
        POST._replace(body=ArrivingBody(pieces(), None)),
    ]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        node = msgspec.structs.replace(RECORD, url=url, boot="other")
        serving = threading.Thread(target=serve)
        serving.start()
        for request in requests:
            answered_early.clear()
            assert client.send(node, request, repeatable=False).status == 413
        serving.join()
    assert not client._idle


def test_a_node_may_say_late_that_it_wants_a_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two parts, between which more of the body is sent."""
    monkeypatch.setattr(connection, "CONTINUE_SECONDS", 0.01)
    client, said = client_of(tmp_path), threading.Semaphore(0)

    def pieces() -> Iterator[bytes]:
        for _ in range(3):
            yield b"body"
            said.acquire()

    def serve() -> None:
        end, _ = listener.accept()
        with end, end.makefile("rb") as received:
            while (line := received.readline()) != b"\r\n":
                lines.append(line)
            for words in (b"HTTP/1.1 100 Cont", b"inue\r\n\r\n", b""):
                assert received.read(4) == b"body"
                end.sendall(words)
                said.release()
            end.sendall(answered(b"{}"))

    lines: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        node = msgspec.structs.replace(RECORD, url=url, boot="other")
        serving = threading.Thread(target=serve)
        serving.start()
        request = POST._replace(body=ArrivingBody(pieces(), 12, expected=True))
        answer = client.send(node, request, repeatable=False)
        assert (answer.status, answer.body) == (200, b"{}")
        serving.join()
    assert b"Expect: 100-continue\r\n" in lines
    client.sweep()


def test_what_the_web_side_reads_of_a_request_is_sent_on_or_kept_here() -> None:
    kept = {
        # Of the connection, or checked by the node that a client reaches.
        *("AUTHORIZATION", "CONNECTION", "EXPECT", "HOST", "ORIGIN", "UPGRADE"),
        *("SEC_FETCH_SITE", "TRANSFER_ENCODING"),
        # Answered there.
        "ACCESS_CONTROL_REQUEST_METHOD",
        "ACCESS_CONTROL_REQUEST_PRIVATE_NETWORK",
        # Written there.
        *("IDEMPOTENCY_KEY", "X_REQUEST_ID"),
    }
    folder = Path(web.__file__).parent
    texts = [each.read_text() for each in folder.rglob("*.py")]
    read = set(re.findall(r'"HTTP_([A-Z_]+)"', "".join(texts)))
    assert read - kept - {each.removeprefix("HTTP_") for each in SENT_ON} == set()


@contextlib.contextmanager
def ended_after_a_while(client: NodeClient) -> Iterator[None]:
    """End requests that wait: the member does not know their node."""
    over = threading.Event()

    def end() -> None:
        while not over.wait(0.05):
            client.sweep()

    ending = threading.Thread(target=end)
    ending.start()
    try:
        yield
    finally:
        over.set()
        ending.join()


@pytest.mark.parametrize("status", [100, 101, 199, 600])
def test_a_status_that_is_no_answer_of_a_server_is_refused(status: int) -> None:
    with pytest.raises(NodeAway):
        answer_of(NodeAnswer(status, [], b""), RECORD)


def test_a_node_takes_a_large_request_as_slowly_as_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LOOK_SECONDS", 0.01)
    page, looked = page_of(tmp_path), threading.Event()
    client = client_of(tmp_path, page)
    body = bytes(8_000_000)

    def serve() -> None:
        end, _ = listener.accept()
        with end, end.makefile("rb") as received:
            looked.wait()
            while received.readline() != b"\r\n":
                pass
            received.read(len(body))
            end.sendall(FOUND)

    def look() -> bool:
        looked.set()
        return False

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        node = msgspec.structs.replace(RECORD, url=url, boot="other")
        page.replace(Nodes(RECORD, others=[Node(node)]))
        serving = threading.Thread(target=serve)
        serving.start()
        request = POST._replace(body=body)
        answer = client.send(node, request, repeatable=False, has_left=look)
        assert answer.body == b"{}"
        serving.join()
    client.sweep()


def test_a_request_ends_with_the_client_that_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LOOK_SECONDS", 0.01)
    client = client_of(tmp_path)
    # The node answers nothing, and ends when the connection does.
    with other_node(b"") as node, pytest.raises(ClientLeft):
        client.send(node, GET, repeatable=True, has_left=lambda: True)
    client.sweep()


@pytest.mark.parametrize("path", ["/v1/envs/", "/v1/envs"])
def test_an_instance_whose_client_has_left_meanwhile_is_ended(
    tmp_path: Path, path: str
) -> None:
    page = page_of(tmp_path)
    nodes = KnownNodes(page)
    fleet: Any = SimpleNamespace(
        client=client_of(tmp_path, page),
        callers=CallerSignatures(SIGNATURES, lambda: nodes.own),
    )
    nothing: Any = None
    environ = {
        "REQUEST_METHOD": "POST",
        "RAW_URI": path,
        "PATH_INFO": path,
        CALLER: EVERYONE,
        "gunicorn.socket": SimpleNamespace(has_left=lambda: True),
    }
    call = FleetCall(
        fleet,
        OPERATIONS["env_create"],
        lambda *_: nothing,
        nothing,
        environ,
    )
    made = answered(b'{"instance_id":"0a200001"}')
    requests: list[bytes] = []
    with other_node(made, FOUND, requests=requests) as node:
        _create_there(call, node, b"{}")
        fleet.client.sweep()
    lines = {each.partition(b"\r\n")[0] for each in requests if each}
    assert b"DELETE /v1/envs/0a200001/ HTTP/1.1" in lines
    fleet.client.sweep()


def test_what_arrives_before_a_hello_has_a_limit() -> None:
    client, plain = socket.socketpair()
    ping = b"\x89\xfd" + bytes(4 + 125)
    with client, plain:

        def send() -> None:
            with contextlib.suppress(OSError):
                for _ in range(80):
                    client.sendall(ping * 500)
                client.shutdown(socket.SHUT_WR)

        sending = threading.Thread(target=send)
        sending.start()
        received, hello = _receive_hello(plain, b"")
        plain.shutdown(socket.SHUT_RDWR)
        sending.join()
    assert hello == b""
    assert len(received) < 3 * MAX_HELLO_BYTES


def test_a_request_to_a_node_that_is_lost_meanwhile_ends(tmp_path: Path) -> None:
    client = client_of(tmp_path)

    def send() -> None:
        with pytest.raises(NodeAway):
            client.send(node, GET, repeatable=True)
        ended.set()

    ended = threading.Event()
    # The member knows no such node, and it answers neither the request nor its repeat.
    with other_node(b"", b"") as node:
        thread = threading.Thread(target=send)
        thread.start()
        while not ended.wait(0.01):
            client.sweep()
        thread.join()


def test_a_create_waits_for_an_external_environment_no_longer_than_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = page_of(tmp_path)
    no_store: Any = None
    placement = Placement(KnownNodes(page), no_store)
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if now[0] > 1.0:
            page.replace(Nodes(connected))

    connected = msgspec.structs.replace(RECORD, external={"external/game": 1})
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", sleep)
    for wait_s, known, until in ((0, False, 0), (0.5, False, 0.5), (99, True, 1)):
        (node,) = placement.candidates_for_external("external/game", wait_s)
        assert bool(node.external) is known
        assert now[0] == pytest.approx(until, abs=0.11)
    page.close()


def test_connections_that_nodes_have_closed_are_closed(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    with other_node(FOUND) as node:
        answer = client.send(node, GET, repeatable=False)
    assert answer.body == b"{}"
    # One that is dropped instead warns, and a warning is an error.
    client.sweep()
