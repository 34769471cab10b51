"""Samples in: each batch of a session once and in order, and what is refused."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_http_server.errors import (
    BodyTooLarge,
    DigestMismatch,
    Gap,
    LimiterWaits,
    RelayUnavailable,
    RunQueueFull,
    ShareUsedUp,
    Stale,
)
from gym_http_server.services.relay import samples
from gym_http_server.services.relay.files import INLINE_BYTES
from gym_http_wire.bundles import BUNDLE, MOST_BATCHES, BatchHead, encode_batch
from gym_http_wire.messages import Op
from gym_http_wire.problems import BadParameter, KeyReused
from gym_http_wire.values import binary
from tests.support.relay_logic import RelayBench

Make = Callable[..., RelayBench]
COLUMNS = {"reward": {"dtype": "float32", "shape": []}}
BINARY = "application/vnd.gym-http.binary"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Return a function that makes a relay with a run of some limits."""
    with contextlib.ExitStack() as stack:

        def made(columns: Any = None, **limits: Any) -> RelayBench:
            bench = RelayBench(tmp_path / "relay", limits=limits, columns=columns)
            return stack.enter_context(contextlib.closing(bench))

        yield made


def heads(
    session: str, numbers: range, **members: Any
) -> list[tuple[BatchHead, bytes]]:
    """Return the batches of a bundle, each with its number as its body."""
    return [(BatchHead(session, n, 0, 1, **members), str(n).encode()) for n in numbers]


def test_batches_are_stored_in_order_and_once(make: Make) -> None:
    bench = make()
    session = bench.session()
    assert bench.put(session, 1, b"a") == {
        "position": 1,
        "stale": False,
        "next": 2,
        "version": 0,
    }
    assert bench.put(session, 2, b"b")["position"] == 2
    assert bench.put(session, 1, b"a") == {"stored": False, "next": 3, "version": 0}
    assert isinstance(bench.refused(session, 1, b"c"), KeyReused)
    gap = bench.refused(session, 4)
    assert isinstance(gap, Gap)
    assert gap.extras == {"next": 3}
    other = bench.session()
    assert bench.put(other, 1, b"a")["position"] == 3
    bench.reopen()
    assert bench.put(session, 2, b"b")["next"] == 3
    assert bench.put(session, 3, b"c")["position"] == 4
    assert [body for _, body in bench.samples()] == [b"a", b"b", b"a", b"c"]
    assert bench.status()["samples"]["repeated"] == 2


@pytest.mark.parametrize("first", ["digest", "checksum", "none"])
@pytest.mark.parametrize("second", ["digest", "checksum", "none"])
def test_repeated_batches_are_compared_by_any_sum(
    first: str, second: str, make: Make
) -> None:
    """Also if both are in one bundle, and the first is not in the store yet."""
    bench = make()
    session = bench.session()

    def put(number: int, body: bytes, named: str) -> bytes:
        sums = {
            "digest": hashlib.sha256(body).hexdigest(),
            "checksum": xxhash.xxh3_64_hexdigest(body),
        }
        given = {key: value for key, value in sums.items() if key == named}
        return encode_batch(BatchHead(session, number, 0, 1, **given), body)

    def send(bundle: bytes) -> Any:
        return bench.json(Op.SAMPLES_PUT, bundle, content_type=BUNDLE)

    one = put(1, b"a", first)
    assert send(one + put(1, b"a", second))["repeated"] == 1
    bench.reopen()
    assert send(put(1, b"a", second) + put(2, b"b", first))["repeated"] == 1
    changed = [put(1, b"c", second), put(3, b"c", first) + put(3, b"d", second)]
    for each in changed:
        problem = bench.problem(Op.SAMPLES_PUT, each, content_type=BUNDLE)
        assert isinstance(problem, KeyReused)
    assert [body for _, body in bench.samples()] == [b"a", b"b", b"c"]


def test_a_spool_that_dropped_batches_declares_how_many(make: Make) -> None:
    bench = make()
    session = bench.session()
    bench.put(session, 1)
    assert isinstance(bench.refused(session, 4, dropped=1), Gap)
    assert isinstance(bench.refused(session, 4, dropped=3), Gap)
    assert bench.put(session, 4, dropped=2)["next"] == 5
    # A dropped number has no digest to compare with.
    assert bench.put(session, 3, b"?")["stored"] is False
    counts = bench.status()["samples"]
    assert (counts["sent"], counts["stored"], counts["dropped"]) == (4, 2, 2)


def test_the_last_thousand_digests_are_compared(make: Make) -> None:
    bench = make()
    session = bench.session()
    bench.bundle(heads(session, range(1, 1202)))
    assert bench.put(session, 1, b"other")["stored"] is False
    assert isinstance(bench.refused(session, 300, b"other"), KeyReused)


def test_a_version_that_was_not_published_is_refused(make: Make) -> None:
    bench = make()
    session = bench.session()
    problem = bench.refused(session, 1, policy=1)
    assert isinstance(problem, BadParameter)
    assert "from 0 to 0" in problem.message
    bench.publish()
    bench.put(session, 1, policy=1)
    for name, value in (("policy", -1), ("count", "x"), ("number", 0), ("count", None)):
        args = {"number": 2} | {name: value}
        assert isinstance(bench.refused(session, **args), BadParameter), name


def test_stale_batches_are_flagged(make: Make) -> None:
    bench = make(max_lag=1)
    session = bench.session()
    for version in range(3):
        bench.publish(bytes([version]))
    assert bench.put(session, 1, policy=2)["stale"] is False
    assert bench.put(session, 2, policy=1)["stale"] is True
    assert [(head.lag, head.stale) for head, _ in bench.samples()] == [
        (1, False),
        (2, True),
    ]
    assert bench.status()["lag"] == {
        "0": 0,
        "1": 1,
        "2": 1,
        "3-5": 0,
        "6-10": 0,
        ">10": 0,
    }


def test_a_refused_stale_batch_uses_its_number_up(make: Make) -> None:
    bench = make(max_lag=0, stale="refuse")
    session = bench.session()
    bench.publish()
    stale = bench.refused(session, 1, policy=0)
    assert isinstance(stale, Stale)
    assert stale.extras == {"next": 2, "lag": 1, "version": 1}
    # Sent again, it is a repetition.
    assert bench.put(session, 1, policy=0)["stored"] is False
    bench.put(session, 2, policy=1)
    batches = [
        (BatchHead(session, 3, 1, 1), b"3"),
        (BatchHead(session, 4, 0, 1), b"4"),
        (BatchHead(session, 5, 1, 1), b"5"),
    ]
    body = b"".join(encode_batch(*each) for each in batches)
    problem = bench.problem(Op.SAMPLES_PUT, body, content_type=BUNDLE)
    assert (problem.code, problem.extras["next"]) == ("stale", 5)
    assert problem.extras["stored"] == 1
    assert bench.bundle(batches[2:])["next"] == 6
    counts = bench.status()["samples"]
    assert (counts["sent"], counts["stored"], counts["stale"]) == (5, 3, 2)


@pytest.mark.parametrize("file", [False, True])
def test_a_bundle_is_stored_as_a_whole(make: Make, file: bool) -> None:
    bench = make()
    session = bench.session()
    answer = bench.bundle(heads(session, range(1, 6)), file=file)
    assert answer == {"stored": 5, "repeated": 0, "next": 6, "last": 5, "version": 0}
    again = bench.bundle(heads(session, range(3, 8)), file=file)
    assert again == {"stored": 2, "repeated": 3, "next": 8, "last": 7, "version": 0}
    found = bench.samples()
    assert [body for _, body in found] == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
    assert [head.position for head, _ in found] == list(range(1, 8))
    assert [head.number for head, _ in found] == list(range(1, 8))
    assert found[0][0].digest == hashlib.sha256(b"1").hexdigest()
    assert found[0][0].worker == "w1"


def test_a_refused_batch_of_a_bundle_leaves_those_before_it(make: Make) -> None:
    bench = make()
    session = bench.session()
    wrong = [
        ({"number": 3, "policy": 9}, "bad-parameter", 400),
        ({"number": 4}, "gap", 409),
        ({"number": 3, "digest": "0" * 64}, "digest-mismatch", 400),
        ({"number": 1}, "key-reused", 422),
    ]
    expected = 1
    for members, code, status in wrong:
        bad = {"policy": 0, "count": 1, "number": 0} | members
        bad["number"] += expected - 1 if members["number"] > 1 else 0
        bench.put(bench.session(), 1)
        body = b"".join(
            encode_batch(head, data)
            for head, data in [
                *heads(session, range(expected, expected + 2)),
                (BatchHead(session, **bad), b"?"),
                *heads(session, range(expected + 2, expected + 4)),
            ]
        )
        problem = bench.problem(Op.SAMPLES_PUT, body, content_type=BUNDLE)
        assert (problem.code, problem.status) == (code, status), members
        assert problem.extras["next"] == expected + 2
        assert problem.extras["stored"] == 2
        expected += 2
    cut = encode_batch(BatchHead(session, expected, 0, 1), b"abc")[:-1]
    problem = bench.problem(Op.SAMPLES_PUT, cut, content_type=BUNDLE)
    assert "malformed" in problem.message
    assert bench.status()["workers"][0]["sent"] == 12


def test_a_bundle_is_of_one_session(make: Make) -> None:
    bench = make()
    first, second = bench.session(), bench.session("w2")
    body = b"".join(
        encode_batch(BatchHead(each, 1, 0, 1), b"x") for each in (first, second)
    )
    problem = bench.problem(Op.SAMPLES_PUT, body, content_type=BUNDLE)
    assert "several sessions" in problem.message
    assert problem.extras == {"next": 2, "stored": 1}
    for given_body, words in (
        (b"", "no batches"),
        (b"not a bundle, but long enough", ""),
    ):
        problem = bench.problem(Op.SAMPLES_PUT, given_body, content_type=BUNDLE)
        assert problem.code == "bad-parameter"
        assert words in problem.message


def test_a_full_queue_takes_no_more_until_a_reader_has_moved(make: Make) -> None:
    bench = make(queue_bytes=1000)
    session = bench.session()
    # One that is larger than the queue is taken if nothing waits.
    bench.put(session, 1, bytes(1500))
    full = bench.refused(session, 2, b"x")
    assert isinstance(full, RunQueueFull)
    assert full.headers == {"Retry-After": "1"}
    # A repetition is confirmed all the same.
    assert bench.put(session, 1, bytes(1500))["stored"] is False
    bench.json(Op.READER_PUT, {"after": 1}, value="trainer")
    bench.put(session, 2, bytes(600))
    bundle = heads(session, range(3, 6))
    body = b"".join(encode_batch(head, bytes(300)) for head, _ in bundle)
    problem = bench.problem(Op.SAMPLES_PUT, body, content_type=BUNDLE)
    # Nothing of a bundle is stored if a part of it has no room.
    assert (problem.code, problem.extras) == ("queue-full", {})
    assert bench.status()["samples"]["stored"] == 2
    assert bench.json(Op.SESSION_STATUS, value=session)["next"] == 3


def test_the_number_of_batches_is_limited(make: Make) -> None:
    bench = make(queue_batches=3)
    session = bench.session()
    bench.bundle(heads(session, range(1, 4)))
    assert isinstance(bench.refused(session, 4), RunQueueFull)


def test_a_worker_with_more_than_its_share_waits_while_the_queue_is_half_full(
    make: Make,
) -> None:
    bench = make(queue_bytes=1000)
    fast, slow = bench.session("fast"), bench.session("slow")
    for number in range(1, 6):
        bench.put(fast, number, bytes(100))
    problem = bench.refused(fast, 6, bytes(100))
    assert isinstance(problem, ShareUsedUp)
    bench.put(slow, 1, bytes(100))
    # The other worker has not been seen for a minute: the queue is for one.
    bench.now += 61
    bench.put(fast, 6, bytes(100))
    # One that is refused is seen, too.
    bench.session("third")
    for _ in range(5):
        bench.now += 30
        bench.call(Op.SESSION_CREATE, {"worker": "third"})
        assert isinstance(bench.refused(fast, 7, bytes(100)), ShareUsedUp)
    assert bench.status()["workers"][0]["state"] == "active"


def test_the_limiter_holds_batches_back_until_draws_are_reported(make: Make) -> None:
    limiter = {"samples_per_insert": 2, "min_size": 10, "error_buffer": 10}
    bench = make(limiter=limiter)
    session = bench.session()
    # Up to a difference of 2 * 10 + 10.
    bench.put(session, 1, count=15)
    bench.put(session, 2, count=1)
    problem = bench.refused(session, 3, count=1)
    assert isinstance(problem, LimiterWaits)
    assert "32, above 30" in problem.message
    bench.json(Op.READER_PUT, {"after": 1, "draws": 2}, value="trainer")
    bench.put(session, 3, count=1)
    state = bench.status()["limiter"]
    assert (state["inserts"], state["draws"], state["inserts_wait"]) == (17, 2, True)
    # Draws of a lost trainer are not drawn back.
    bench.json(Op.READER_PUT, {"after": 1, "draws": 1}, value="trainer")
    assert bench.status()["limiter"]["draws"] == 2


def test_admission_refuses_what_the_request_would_be_refused_for(make: Make) -> None:
    bench = make(queue_bytes=1000)
    session = bench.session()
    args = {"session": session, "number": 1, "policy": 0, "count": 1}

    def admit(op: Op, size: int, **args: Any) -> Any:
        return bench.json(Op.RELAY_ADMIT, size=size, op=int(op), **args)

    admitted = admit(Op.SAMPLES_PUT, 800, **args)
    assert admitted["folder"] == bench.store.files.folder
    assert admitted["room"] == 800
    with pytest.raises(BodyTooLarge):
        admit(Op.SAMPLES_PUT, (256 << 20) + 1, **args)
    bench.put(session, 1, bytes(800))
    admit(Op.SAMPLES_PUT, 800, **args)
    with pytest.raises(RunQueueFull):
        admit(Op.SAMPLES_PUT, 800, **args | {"number": 2})
    with pytest.raises(BadParameter):
        admit(Op.SAMPLES_PUT, 1, **args | {"number": 2, "policy": 3})
    assert bench.problem(Op.RELAY_ADMIT, op=int(Op.WEIGHTS_PUT)).status == 428
    admit(Op.WEIGHTS_PUT, 5, if_none_match="*")
    assert bench.problem(Op.RELAY_ADMIT, op=int(Op.SAMPLES_GET)).status == 400


def test_a_file_that_a_restarted_relay_removed_is_sent_again(make: Make) -> None:
    bench = make()
    session = bench.session()
    head = bench.call
    with pytest.raises(RelayUnavailable):
        bench.relay.store.files.open("0" * 32 + ".body")
    assert head(
        Op.SAMPLES_PUT,
        bytes(10),
        file=True,
        session=session,
        number=1,
        policy=0,
        count=1,
    )
    folder = Path(bench.store.files.folder)
    assert len(list(folder.iterdir())) == 1
    bench.put(session, 1, bytes(10), file=True)
    bench.refused(session, 9, bytes(10), file=True)
    # Files of repeated and refused batches are removed.
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("wrong", [{"digest": "1" * 64}, {"checksum": "1" * 16}])
def test_a_wrong_digest_stores_nothing(wrong: dict[str, str], make: Make) -> None:
    bench = make()
    session = bench.session()
    body = encode_batch(BatchHead(session, 1, 0, 1, **wrong), b"x")
    problem = bench.problem(Op.SAMPLES_PUT, body, content_type=BUNDLE)
    assert isinstance(problem, DigestMismatch)
    assert bench.status()["samples"]["sent"] == 0


def test_declared_columns_must_fit(make: Make) -> None:
    bench = make(columns=COLUMNS)
    session = bench.session()
    good = binary.encode({"reward": np.zeros(4, np.float32)})
    bench.put(session, 1, good, count=4, content_type=BINARY)
    for body, media, count in (
        (good, BINARY, 5),
        (good, "application/octet-stream", 4),
        (b"\x80\x04", "application/x-pickle", 4),
        (binary.encode({"reward": np.zeros(4)}), BINARY, 4),
        (b'{"reward": [1, 2, NaN, 4]}', "application/json", 4),
    ):
        problem = bench.refused(session, 2, body, count=count, content_type=media)
        assert (problem.code, problem.extras) == ("bad-columns", {"next": 2})
    bench.put(
        session, 2, b'{"reward":[1,2.5]}', count=2, content_type="application/json"
    )
    # What is packed is checked by those that unpack it.
    head = BatchHead(
        session, 3, 0, 1, content_type=BINARY, packing="deflate", unpacked=9
    )
    assert bench.bundle([(head, b"packed")])["stored"] == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["new", "again", "skip", "move", "lease", "publish"]),
            st.integers(1, 3),
        ),
        max_size=25,
    )
)
@settings(max_examples=25, deadline=None)
def test_the_sums_hold_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    bench = RelayBench(
        tmp_path_factory.mktemp("relay"), limits={"max_lag": 1, "stale": "refuse"}
    )
    with contextlib.closing(bench):
        session = bench.session()
        number = 1
        for step, amount in steps:
            if step == "new":
                with contextlib.suppress(Stale):
                    bench.put(session, number, str(number).encode())
                number += 1
            elif step == "again" and number > amount:
                bench.put(session, number - amount, str(number - amount).encode())
            elif step == "skip":
                with contextlib.suppress(Stale):
                    text = str(number + amount).encode()
                    bench.put(session, number + amount, text, dropped=amount)
                number += amount + 1
            elif step == "move":
                last = bench.status()["samples"]["stored"]
                bench.json(Op.READER_PUT, {"after": last}, value="t")
            elif step == "lease":
                bench.call(Op.LEASE, {"max_batches": amount})
            elif step == "publish":
                bench.publish(bytes([number % 256, amount]))
            # It checks the sums.
            counts = bench.status()["samples"]
            assert counts["sent"] == number - 1


@pytest.mark.parametrize("content_type", ["a/" + "b" * 254, "a/é", " ", "a/b\n"])
def test_a_media_type_that_no_head_may_have_is_refused(
    make: Make, content_type: str
) -> None:
    bench = make()
    session = bench.session()
    problem = bench.refused(session, 1, content_type=content_type)
    assert isinstance(problem, BadParameter)
    bench.put(session, 1, content_type="a/" + "b" * 253)
    # A reader can decode it.
    assert len(bench.samples()) == 1


@pytest.mark.parametrize("name", ["count", "dropped"])
def test_numbers_whose_sums_would_be_too_large_are_refused(
    make: Make, name: str
) -> None:
    bench = make()
    session = bench.session()
    number = 1 if name == "count" else 2**31 + 1
    problem = bench.refused(session, number, **{name: 2**31})
    assert isinstance(problem, BadParameter)
    assert f"{name} is {2**31}" in str(problem)


def test_the_transitions_of_many_batches_can_be_summed(make: Make) -> None:
    bench = make()
    session = bench.session()
    bench.bundle([(BatchHead(session, n, 0, 2**31 - 1), b"x") for n in range(1, 1101)])
    bench.json(Op.READER_PUT, {"after": 1100}, value="r")
    assert bench.status()["samples"]["consumed"] == 1100


def test_a_body_in_a_frame_has_no_more_batches_than_a_bundle_may() -> None:
    # No head is shorter; a web worker counts the batches of larger bodies.
    assert INLINE_BYTES // len(encode_batch(BatchHead("s", 1, 0, 1), b"")) <= 4096
    assert MOST_BATCHES == 4096


def test_json_to_be_checked_is_limited_for_a_whole_bundle(make: Make) -> None:
    bench = make(columns={"rewards": {"dtype": "float64", "shape": []}})
    session = bench.session()
    rewards = b'{"rewards": [1.0]}'
    sent = [
        (BatchHead(session, n, 0, 1, content_type="application/json"), body)
        for n, body in enumerate([rewards, rewards.ljust(2**20)], 1)
    ]
    body = b"".join(encode_batch(*each) for each in sent)
    problem = bench.problem(Op.SAMPLES_PUT, body, content_type=BUNDLE)
    assert (problem.status, problem.code) == (413, "bundle-too-large")
    # The sender sends all of it again, in smaller bundles.
    assert "next" not in problem.extras
    assert bench.json(Op.SESSION_STATUS, value=session)["next"] == 1
    assert bench.bundle(sent[:1])["stored"] == bench.bundle(sent[1:])["stored"] == 1


@pytest.mark.parametrize("size", [1000, 2000])
def test_only_small_batches_are_hashed_to_compare_them(
    size: int, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "MOST_HASHED_BYTES", 1000)
    bench = make()
    session = bench.session()
    bench.put(session, 1, bytes(size))
    other = b"x" * size
    head = BatchHead(session, 1, 0, 1, checksum=xxhash.xxh3_64_hexdigest(other))
    body = encode_batch(head, other)
    if size == 1000:
        problem = bench.problem(Op.SAMPLES_PUT, body, content_type=BUNDLE)
        assert isinstance(problem, KeyReused)
    else:
        assert bench.bundle([(head, other)])["repeated"] == 1


def test_batches_are_counted_whatever_becomes_of_them(make: Make) -> None:
    bench = make()
    session = bench.session()
    sent = heads(session, range(1, 4))
    bench.bundle(sent)
    assert bench.relay.batches == 3
    bench.bundle(sent)
    assert bench.relay.batches == 6
    gap = encode_batch(*heads(session, range(9, 10))[0])
    bench.problem(Op.SAMPLES_PUT, gap, content_type=BUNDLE)
    assert bench.relay.batches == 7


def test_a_batch_that_a_bundle_repeats_is_compared(make: Make) -> None:
    bench = make()
    session = bench.session()
    sent = heads(session, range(1, 4)) + heads(session, range(2, 3))
    assert bench.bundle(sent)["repeated"] == 1
    other = [*heads(session, range(4, 5)), (BatchHead(session, 4, 0, 1), b"other")]
    body = b"".join(encode_batch(*each) for each in other)
    problem = bench.problem(Op.SAMPLES_PUT, body, content_type=BUNDLE)
    assert isinstance(problem, KeyReused)
