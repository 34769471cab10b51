"""When a member takes another node as away, and as lost, on a clock of the test."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gym_http_server.config.inherited_settings import Inherited
from gym_http_server.config.settings import Settings
from gym_http_server.fleet.member import FleetMember
from gym_http_server.fleet.page import Node, Nodes, Page
from gym_http_server.fleet.records import Record, write
from gym_http_server.fleet.signatures import Signatures
from gym_http_server.fleet.store import Changes
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.web.backends.nodes.known import KnownNodes
from tests.support.listener import Listener

TOKEN = "a-token-of-the-fleet"
SECOND = 10**9
OWN = Record(
    *(("0a1",), "boot", "one", "http://127.0.0.1:5000", "0.1.0"), slots=64, free=60
)
OTHER = msgspec.structs.replace(
    OWN, numbers=("0b2",), boot="other", name="two", url="http://127.0.0.1:9"
)


class Store:
    """Notes which numbers are marked as lost."""

    def __init__(self) -> None:
        self.lost: list[str] = []

    def close(self) -> None:
        """Do nothing."""

    def lose(self, number: str, boot: str) -> bool:
        """Mark a number."""
        self.lost.append(number)
        return True


class Member(FleetMember):
    """A member whose clock and whose probes the test decides."""

    def __init__(self, run: Path, *known: Node) -> None:
        self.now_ns = 1000 * SECOND
        # Boots that answer.
        self.reachable: set[str] = set()
        self.gone: dict[str, str] = {}
        # Records of nodes that are there, by number.
        self.more: dict[str, bytes] = {}
        self.page = Page(str(run), make=True)
        self.page.replace(Nodes(OWN, others=list(known)))
        ours, self.theirs = socket.socketpair()
        self.control = ours
        inherited = Inherited(
            Settings(fleet="redis://127.0.0.1:1/0"), str(run), fleet_token=TOKEN
        )
        super().__init__(inherited, FrameSocket(ours), lambda: self.now_ns)
        self.marks = Store()
        self._store = self.marks  # type: ignore[assignment]

    def close(self) -> None:
        """Close what it has opened."""
        self._threads.shutdown()
        self.close_all()
        self.page.close()
        self.control.close()
        self.theirs.close()

    def _reach(self, node: Record) -> bool:
        return node.boot in self.reachable

    def renewed(self, *, alive: bool, seconds: float = 1.0) -> None:
        """Let time pass, renew the record, and let the probe end."""
        self.now_ns += int(seconds * SECOND)
        numbers = {"0a1", *self.more, *(("0b2",) if alive else ())}
        records = {"0b2": write(OTHER, Signatures(TOKEN)), **self.more}
        gone = dict.fromkeys(records, "") | self.gone
        changes = Changes(b"1", b"1", frozenset(numbers), records, gone, b"")
        self._learn(changes)
        self._probe()
        for probe in self._probes.values():
            probe.result(10.0)
        self._publish(OWN)


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    """A member that knows another node."""
    with contextlib.closing(Member(tmp_path)) as member:
        member.renewed(alive=True)
        yield member


def silence(member: Member, seconds: int) -> None:
    for _ in range(seconds):
        member.renewed(alive=False)


def test_a_node_is_lost_after_30_s_without_record_and_connection(
    member: Member,
) -> None:
    silence(member, 31)
    assert member.marks.lost == []
    (node,) = member.page.read().others
    assert node.away_ns
    assert node.unreachable_ns
    silence(member, 3)
    assert set(member.marks.lost) == {"0b2"}


def test_a_node_that_can_be_reached_is_never_lost(member: Member) -> None:
    member.reachable = {"other"}
    silence(member, 120)
    assert member.marks.lost == []
    (node,) = member.page.read().others
    assert node.away_ns
    assert not node.unreachable_ns


def test_a_node_is_lost_though_another_boot_answers_at_its_url(member: Member) -> None:
    """A server that was killed was started again, without its data directory."""
    member.reachable = {"again"}
    again = msgspec.structs.replace(OTHER, numbers=("0c3",), boot="again")
    member.more = {"0c3": write(again, Signatures(TOKEN))}
    silence(member, 34)
    assert set(member.marks.lost) == {"0b2"}
    known = KnownNodes(member.page)
    assert known.named("two").boot == "again"
    assert known.is_away("other")


class Program(Listener):
    """A program that answers each request, with a proof or without.

    Attributes:
        proof: What shows that it is the node.
    """

    proof = ""

    def attend(self, connection: socket.socket, number: int) -> None:
        connection.recv(65536)
        head = f"HTTP/1.1 200 OK\r\nGym-Node-Proof: {self.proof}\r\n"
        connection.sendall(f"{head}Content-Length: 0\r\n\r\n".encode())


def test_another_program_at_its_address_is_not_the_node(member: Member) -> None:
    with Program() as program:
        node = msgspec.structs.replace(OTHER, url=program.url)
        assert not FleetMember._reach(member, node)
        program.proof = Signatures(TOKEN).sign("answer", "earlier")
        assert not FleetMember._reach(member, node)
        program.proof = Signatures(TOKEN).sign("answer", node.boot)
        assert FleetMember._reach(member, node)
    assert not FleetMember._reach(member, node)


def test_a_node_that_has_ended_is_named_and_one_that_is_back_is_not(
    member: Member,
) -> None:
    known = KnownNodes(member.page)
    for _ in range(2):
        member.gone = {"0b2": "node-drained"}
        member.renewed(alive=False)
        assert (known.others, known.ended()) == ([], {"two": "node-drained"})
        member.gone.clear()
        member.renewed(alive=True)
        assert (len(known.others), known.ended()) == (1, {})


def test_an_ended_node_is_known_to_one_that_knew_no_other(tmp_path: Path) -> None:
    with contextlib.closing(Member(tmp_path)) as member:
        member.gone = {"0b2": "node-lost"}
        member.renewed(alive=False)
        assert KnownNodes(member.page).is_lost("0b2")


def test_a_record_that_is_ignored_each_second_is_logged_ever_less(
    member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    def logged() -> list[str]:
        found = [each.getMessage() for each in caplog.records]
        caplog.clear()
        return [each for each in found if "ignored the record '0d4'" in each]

    for second in range(1000):
        member.more = {"0d4": b"forged %d" % second}
        member.renewed(alive=True)
    lines = logged()
    assert len(lines) == 10
    assert "512 in a row: it is not signed with this fleet's token" in lines[-1]
    good = msgspec.structs.replace(OTHER, numbers=("0d4",), boot="good", name="good")
    member.more = {"0d4": write(good, Signatures(TOKEN))}
    member.renewed(alive=True)
    member.more = {"0d4": b"forged"}
    member.renewed(alive=True)
    (line,) = logged()
    assert "1 in a row" in line


def test_a_record_ends_the_absence(member: Member) -> None:
    silence(member, 25)
    member.renewed(alive=True)
    silence(member, 25)
    assert member.marks.lost == []


def test_time_without_the_store_is_nobodys_absence(member: Member) -> None:
    """Where the store or this node was away, all records have ended."""
    silence(member, 25)
    member.renewed(alive=False, seconds=3600)
    silence(member, 25)
    assert member.marks.lost == []
    silence(member, 10)
    assert set(member.marks.lost) == {"0b2"}


def test_a_member_that_was_started_again_keeps_what_an_empty_store_has_not(
    tmp_path: Path,
) -> None:
    member = Member(tmp_path, Node(OTHER))
    member._learn(Changes(b"2", b"1", frozenset({"0a1"}), {}, {}, b""))
    member._publish(OWN)
    (node,) = member.page.read().others
    assert node.record == OTHER
    assert node.away_ns
    member.close()
