"""Sessions against a scripted server, over streams and REST."""

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest

from gym_http_client import ServerError, ServerUnreachable, UnexpectedAnswer
from gym_http_client.http.addresses import Address
from gym_http_client.http.requester import Requester
from gym_http_client.streaming.node_streams import NodeStreams
from gym_http_client.streaming.session import Session
from gym_http_client.streaming.stream_openers import WebSocketOpener
from tests.support.fake_clock import FakeClock
from tests.support.peers.scripted_server import http_answer, then_close
from tests.support.peers.scripted_streams import (
    Reply,
    ScriptedStreams,
    StreamRequest,
    answer_body,
    answer_problem,
    answer_value,
    close_unanswered,
    raw,
    rest_answer,
)
from tests.support.wait import wait_until

STEP = {"action": 1}
Open = Callable[..., Session]


@pytest.fixture
def scripted_streams() -> ScriptedStreams:
    return ScriptedStreams()


@pytest.fixture
def connect(scripted_streams: ScriptedStreams) -> Iterator[Open]:
    """Return a factory of sessions without pauses, closed after the test."""
    made: list[tuple[Session, Requester]] = []

    def make(
        total: float = 120.0, clock: FakeClock | None = None, **options: Any
    ) -> Session:
        url = scripted_streams.server.url
        retries = (clock or FakeClock()).retries(total)
        link = Requester(url, token="", retries=retries)
        path = "/v1/envs/3c657dbc/"
        address = Address.parse(url, "")
        openings = WebSocketOpener(
            address,
            path,
            NodeStreams(link, address, "3c657dbc"),
            time_limit=options.get("time_limit", 5.0),
            spin_us=0,
            clock=retries.clock,
            wanted=options.get("streams", True),
        )
        session = Session(link, openings, url + path, path, retries=retries)
        made.append((session, link))
        return session

    yield make
    for session, link in made:
        session.close()
        link.close()


def numbers(scripted_streams: ScriptedStreams) -> list[int]:
    return [request.number for request in scripted_streams.requests]


def test_a_lost_answer_is_requested_again_under_its_number(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    with scripted_streams.script(
        scripted_streams.stream(answer_value("a"), close_unanswered),
        scripted_streams.stream(close_unanswered),
        scripted_streams.stream(answer_value("b")),
    ):
        session = connect()
        assert session.call("step/", STEP) == "a"
        assert session.call("step/", STEP) == "b"
        assert session.transport == "stream"
    assert numbers(scripted_streams) == [1, 2, 2, 2]
    # Each time, all answers to earlier ones had come.
    assert all(request.acknowledged for request in scripted_streams.requests)
    assert scripted_streams.lines == [f"stream?session={session.name}"] * 3


def test_pending_requests_are_sent_again_in_order(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    answers = answer_value("b"), answer_value("c")
    with scripted_streams.script(
        scripted_streams.stream(answer_value("a"), close_unanswered),
        scripted_streams.stream(*answers, answer_value("d")),
    ):
        session = connect()
        for _ in range(3):
            session.send("step/", STEP)
        assert [session.receive() for _ in range(3)] == ["a", "b", "c"]
        assert session.call("step/", STEP) == "d"
    first, again = scripted_streams.requests[:-3], scripted_streams.requests[-3:]
    assert [request.number for request in first] in ([1, 2], [1, 2, 3])
    assert again == [
        StreamRequest(2, True),
        StreamRequest(3, False),
        StreamRequest(4, True),
    ]


@pytest.mark.parametrize(
    "reply",
    [
        answer_value("x", ahead=1),
        answer_value("x", ahead=-1),
        answer_body(b"no value"),
        answer_body(b"\x08\0\0\0\0\0\0\0[broken]"),
        answer_body(b"\0\0\0\0\x09\0\0\0"),
        answer_body(b"<html>", status=502, form=1),
        answer_body(b"[1, 2]", status=502, form=1),
        answer_body(b"1", form=1),
        lambda _: raw(b"short"),
        lambda _: raw(b"\xff" * 64),
        lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n",
        lambda _: raw(b"too" * 50, opcode=11),
    ],
)
@pytest.mark.parametrize("before", [[], ["a"]])
def test_an_invalid_answer_is_reported_and_ends_the_stream(
    before: list[str], reply: Reply, scripted_streams: ScriptedStreams, connect: Open
) -> None:
    good = map(answer_value, before)
    with scripted_streams.script(
        scripted_streams.stream(*good, reply),
        scripted_streams.stream(answer_value("b")),
    ):
        session = connect()
        assert [session.call("step/", STEP) for _ in before] == before
        with pytest.raises(UnexpectedAnswer, match="is it a gym_http_server"):
            session.call("step/", STEP)
        assert session.call("step/", STEP) == "b"
    assert numbers(scripted_streams) == [n + 1 for n in range(len(before) + 2)]


def test_an_invalid_value_by_rest_is_reported_too(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    media = "Content-Type: application/vnd.gym-http.binary"
    with (
        scripted_streams.script(http_answer(b"no value", media)),
        pytest.raises(UnexpectedAnswer),
    ):
        connect(streams=False).call("step/", STEP)


def test_a_failed_handshake_lets_one_request_go_by_rest(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    with scripted_streams.script(
        then_close(),
        rest_answer("a"),
        scripted_streams.stream(answer_value("b"), answer_value("c")),
    ):
        session = connect()
        assert session.call("step/", STEP) == "a"
        assert session.transport == "rest"
        assert [session.call("step/", STEP) for _ in range(2)] == ["b", "c"]
        assert session.transport == "stream"
    stream = f"stream?session={session.name}"
    assert scripted_streams.lines == [stream, f"{session.name}-1", stream]
    assert numbers(scripted_streams) == [2, 3]


def test_a_later_request_may_open_the_stream_for_earlier_ones(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    with scripted_streams.script(
        then_close(), scripted_streams.stream(answer_value("a"), answer_value("b"))
    ):
        session = connect()
        session.send("step/", STEP)
        session.send("step/", STEP)
        assert [session.receive() for _ in range(2)] == ["a", "b"]
    assert scripted_streams.requests == [
        StreamRequest(1, True),
        StreamRequest(2, False),
    ]


@pytest.mark.parametrize(
    "failed",
    [
        then_close(),
        then_close(b"HTTP/1.1 101 X\r\n"),
        *(http_answer(b"<html>", status=status) for status in (500, 502, 503, 504)),
    ],
)
def test_streams_rest_ever_longer_after_three_failed_handshakes_on_end(
    failed: Any, scripted_streams: ScriptedStreams, connect: Open
) -> None:
    clock, rests = FakeClock(), (0.5, 1.0, 2.0, 4.0)
    script = [failed, rest_answer("r")] * 3 + [rest_answer("r")]
    script += [failed, rest_answer("r"), rest_answer("r")] * (len(rests) - 1)
    lasting = scripted_streams.stream(answer_value("s"), close_unanswered)
    with scripted_streams.script(*script, lasting, failed, rest_answer("r")):
        session = connect(clock=clock)
        assert [session.call("step/", STEP) for _ in range(3)] == ["r"] * 3
        for rest in rests[:-1]:
            clock.now += rest - 0.01
            assert session.call("step/", STEP) == "r"
            clock.now += 0.01
            assert session.call("step/", STEP) == "r"
        clock.now += rests[-1] - 0.01
        assert session.call("step/", STEP) == "r"
        assert session.transport == "rest"
        clock.now += 0.01
        assert session.call("step/", STEP) == "s"
        assert session.transport == "stream"
        # The count begins anew.
        assert session.call("step/", STEP) == "r"
    assert scripted_streams.lines.count(f"stream?session={session.name}") == 8


def test_handshakes_that_fail_now_and_then_do_not_add_up(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    failing = [then_close(), rest_answer("r")]
    lasting = [scripted_streams.stream(answer_value("s"), close_unanswered), *failing]
    with scripted_streams.script(*failing, *failing, *lasting, *lasting, *lasting):
        session = connect()
        assert [session.call("step/", STEP) for _ in range(8)] == list("rrsrsrsr")


@pytest.mark.parametrize("status", [408, 429, 503])
def test_a_busy_server_gets_the_request_by_rest(
    status: int, scripted_streams: ScriptedStreams, connect: Open
) -> None:
    busy = http_answer(b'{"code":"x","message":"busy"}', status=status)
    with scripted_streams.script(
        busy, rest_answer("a"), scripted_streams.stream(answer_value("b"))
    ):
        session = connect()
        assert [session.call("step/", STEP) for _ in range(2)] == ["a", "b"]


@pytest.mark.parametrize(
    "refusal",
    [
        http_answer(b"<html>", status=404),
        http_answer(b'{"code":"not-found","message":"?"}', status=404),
        http_answer(b"plain answer"),
    ],
)
def test_a_server_without_streams_gets_all_requests_by_rest(
    refusal: bytes, scripted_streams: ScriptedStreams, connect: Open
) -> None:
    with scripted_streams.script(refusal, rest_answer("a")):
        session = connect()
        assert [session.call("step/", STEP) for _ in range(3)] == ["a", "a", "a"]
    assert len(scripted_streams.lines) == 4


def test_a_refused_upgrade_is_a_warning(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    """Otherwise users do not notice that a proxy makes steps slow."""
    why = b'{"code":"upgrade-required","message":"a proxy may have removed it"}'
    with scripted_streams.script(http_answer(why, status=426), rest_answer("a")):
        session = connect()
        with pytest.warns(UserWarning, match="over HTTP.*a proxy may have removed it"):
            assert session.call("step/", STEP) == "a"
        assert session.call("step/", STEP) == "a"


def test_the_end_of_the_instance_is_reported(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    gone = http_answer(
        b'{"code":"instance-ended","message":"it has ended"}', status=410
    )
    with (
        scripted_streams.script(gone),
        pytest.raises(ServerError, match="it has ended") as caught,
    ):
        connect().call("step/", STEP)
    assert (caught.value.status_code, caught.value.code) == (410, "instance-ended")


def test_errors_of_pending_requests_come_in_order(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    mro = ["a.Own", "builtins.ZeroDivisionError", "builtins.Exception"]
    replies = (
        answer_value("a"),
        answer_problem(400, "invalid-action"),
        answer_value("b"),
        answer_problem(502, "env-error", mro=mro, text="by zero"),
        answer_value("c"),
    )
    with scripted_streams.script(scripted_streams.stream(*replies)):
        session = connect()
        for _ in replies:
            session.send("step/", STEP)
        assert session.receive() == "a"
        with pytest.raises(gymnasium.error.InvalidAction):
            session.receive()
        session.drain()
        assert session.receive() == "b"
        with pytest.raises(ZeroDivisionError, match="by zero"):
            session.receive()
        assert session.receive() == "c"


def test_pending_requests_are_kept(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    with scripted_streams.script(
        scripted_streams.stream(answer_value("a"), answer_value("b"), answer_value("c"))
    ):
        session = connect()
        session.send("step/", STEP)
        # As after an interrupt between the two.
        assert session.call("reset/", {}) == "b"
        session.send("step/", STEP)
        assert [session.receive(), session.receive()] == ["a", "c"]
        with pytest.raises(RuntimeError, match="no request waits"):
            session.receive()


def test_an_interrupt_drops_pending_requests(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    main = threading.main_thread().ident
    assert main

    def interrupt(_: int) -> bytes:
        signal.pthread_kill(main, signal.SIGINT)
        return b""

    with scripted_streams.script(
        scripted_streams.stream(interrupt), scripted_streams.stream(answer_value("c"))
    ):
        session = connect()
        with pytest.raises(KeyboardInterrupt):
            session.call("step/", STEP)
        with pytest.raises(RuntimeError, match="no request waits"):
            session.receive()
        assert session.call("step/", STEP) == "c"
    assert numbers(scripted_streams) == [1, 2]


def test_giving_up_drops_later_requests_too(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    with scripted_streams.script(scripted_streams.stream(close_unanswered)):
        session = connect(total=1.0)
        for _ in range(3):
            session.send("step/", STEP)
        with pytest.raises(ServerUnreachable) as caught:
            session.receive()
        assert caught.value.key == f"{session.name}-1"
        # 0.05, 0.1, 0.2 and 0.4 s between; another pause would go beyond the limit.
        assert caught.value.attempts == 5
        with pytest.raises(RuntimeError, match="given up along with an earlier one"):
            session.receive()
        scripted_streams.script(scripted_streams.stream(answer_value("d")))
        assert session.call("step/", STEP) == "d"
    assert numbers(scripted_streams)[-1] == 4


def test_without_retries_each_request_is_tried_once(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    with scripted_streams.script(
        scripted_streams.stream(close_unanswered),
        scripted_streams.stream(answer_value("b"), close_unanswered),
    ):
        session = connect(total=0.0)
        for expected in (None, "b", None):
            if expected is None:
                with pytest.raises(ServerUnreachable):
                    session.call("step/", STEP)
            else:
                assert session.call("step/", STEP) == expected
    assert numbers(scripted_streams) == [1, 2, 3]


@pytest.mark.parametrize("instead", ["send", "drain", "call"])
def test_no_request_is_sent_behind_a_dropped_one(
    instead: str, scripted_streams: ScriptedStreams, connect: Open
) -> None:
    with scripted_streams.script(scripted_streams.stream(close_unanswered)):
        session = connect(total=0.0)
        for _ in range(16 if instead == "send" else 2):
            session.send("step/", STEP)
        given = () if instead == "drain" else ("step/", STEP)
        with pytest.raises(ServerUnreachable):
            getattr(session, instead)(*given)
        sent = max(numbers(scripted_streams))
    assert sent <= (16 if instead == "send" else 2)


def test_pending_requests_are_limited_to_stored_answers(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    answers = [answer_value(number) for number in range(100)]
    with scripted_streams.script(
        scripted_streams.stream(*([lambda _: b""] * 15), _late(16), *answers)
    ):
        session = connect()
        for _ in range(100):
            session.send("step/", STEP)
        assert [session.receive() for _ in range(16)] == list("x" * 16)
        # The last of them have no answer yet.
        wait_until(lambda: len(scripted_streams.requests) == 100)


def _late(count: int) -> Reply:
    """Answer the last so many requests, all that may be on their way."""
    one = answer_value("x")

    def reply(number: int) -> bytes:
        earlier = range(number - count + 1, number + 1)
        return b"".join(one(each) or b"" for each in earlier)

    return reply


def test_numbers_begin_again_in_another_session(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    with scripted_streams.script(
        scripted_streams.stream(answer_value("a"), answer_value("b")),
        scripted_streams.stream(answer_value("c")),
    ):
        session = connect()
        session._number = 2**32 - 3
        session.send("step/", STEP)
        session.send("step/", STEP)
        name = session.name
        session.send("step/", STEP)
        assert [session.receive() for _ in range(3)] == ["a", "b", "c"]
        assert session.name != name
    assert numbers(scripted_streams) == [2**32 - 2, 2**32 - 1, 1]
    assert scripted_streams.lines == [
        f"stream?session={each}" for each in (name, session.name)
    ]


def test_numbers_begin_again_without_pipelining_too(
    scripted_streams: ScriptedStreams, connect: Open
) -> None:
    with scripted_streams.script(
        scripted_streams.stream(answer_value("a"), answer_value("b")),
        scripted_streams.stream(answer_value("c")),
    ):
        session = connect()
        session._number = 2**32 - 3
        assert [session.call("step/", STEP) for _ in range(3)] == ["a", "b", "c"]
    assert numbers(scripted_streams) == [2**32 - 2, 2**32 - 1, 1]
