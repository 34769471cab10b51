"""How many runs, tokens, readers and sessions there may be, and what files keep."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent  # type: ignore[import-untyped]
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from gym_http_server.errors import (
    BundleTooLarge,
    DigestMismatch,
    LimitReached,
    TooManySessions,
    UnknownSession,
)
from gym_http_server.services.relay import delivery, runs, samples, sessions
from gym_http_server.services.relay.calls import Request
from gym_http_server.services.relay.messages import RelayHead, digests_body, digests_of
from gym_http_server.web.backends import uploads
from gym_http_server.web.backends.uploads import DIGESTED_BYTES, BatchDigests
from gym_http_wire.bundles import BUNDLE, BatchHead, encode_batch, hash_for
from gym_http_wire.frames import HEADER
from gym_http_wire.messages import Op
from tests.support.relay_logic import MIB, RelayBench

HOUR = 3600.0
WEEK = 7 * 86400.0


@pytest.fixture(scope="module", autouse=True)
def threads() -> None:
    """Start gevent's threads, which stay, before the descriptors are counted."""
    gevent.get_hub().threadpool.apply(int)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[RelayBench]:
    with contextlib.closing(RelayBench(tmp_path / "relay")) as made:
        yield made


def make_run(bench: RelayBench, number: int) -> Any:
    return bench.json(Op.RUN_CREATE, {"run": f"run{number}"})


def make_token(bench: RelayBench, number: int) -> Any:
    return bench.json(Op.TOKEN_CREATE, {"role": "worker"})


def make_reader(bench: RelayBench, number: int) -> Any:
    return bench.json(Op.READER_PUT, {"after": 0}, value=f"reader{number}")


def make_session(bench: RelayBench, number: int) -> Any:
    return bench.json(Op.SESSION_CREATE, {"worker": f"w{number}"})


LIMITS: list[tuple[Callable[[RelayBench, int], Any], Any, str, int]] = [
    # One run is there already, with a token for each role.
    (make_run, runs, "MOST_RUNS", 1),
    (make_token, runs, "MOST_TOKENS", 3),
    (make_reader, delivery, "MOST_READERS", 0),
]


@pytest.mark.parametrize(("make", "module", "name", "there"), LIMITS)
def test_no_more_are_made_than_the_limit(
    make: Callable[[RelayBench, int], Any],
    module: Any,
    name: str,
    there: int,
    bench: RelayBench,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert getattr(module, name) == 1000
    monkeypatch.setattr(module, name, there + 2)
    for number in range(2):
        make(bench, number)
    with pytest.raises(LimitReached) as refused:
        make(bench, 2)
    assert refused.value.extras == {"limit": there + 2}
    # What exists goes on.
    assert bench.json(Op.RUN_CREATE, {"run": "pendulum"})["tokens"] is None
    bench.put(bench.session(), 1)
    if make is make_reader:
        make_reader(bench, 1)
    monkeypatch.setattr(module, name, there + 3)
    make(bench, 2)


def forget(bench: RelayBench) -> None:
    """Do what the relay does each minute."""
    bench.now += 61
    bench.relay.maintain(bench.now)


def test_of_very_many_sessions_old_ones_without_batches_are_forgotten(
    bench: RelayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "KEPT_SESSIONS", 3)
    with_batch, consumed, empty, other = (bench.session(w) for w in "abcd")
    bench.put(consumed, 1, b"1")
    bench.json(Op.READER_PUT, {"after": 1}, value="r")
    bench.put(with_batch, 1, b"2")
    bench.now += WEEK - 120
    bench.put(other, 1, b"3")
    forget(bench)
    for session in (with_batch, consumed, empty, other):
        bench.json(Op.SESSION_STATUS, value=session)
    bench.now += 120
    forget(bench)
    # The one that was silent for longest; the limit keeps the others.
    assert isinstance(bench.refused(consumed, 2), UnknownSession)
    bench.json(Op.SESSION_STATUS, value=empty)
    bench.session("e")
    forget(bench)
    assert isinstance(bench.problem(Op.SESSION_STATUS, value=empty), UnknownSession)
    bench.session("f")
    forget(bench)
    bench.reopen()
    assert [body for _, body in bench.samples(after=1)] == [b"2", b"3"]
    assert bench.put(with_batch, 1, b"2")["stored"] is False
    assert bench.put(with_batch, 2, b"4")["next"] == 3


def test_a_new_session_takes_the_place_of_a_forgotten_one(
    bench: RelayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 3)
    monkeypatch.setattr(sessions, "KEPT_SESSIONS", 2)
    for worker in "abc":
        bench.session(worker)
    assert full(bench)
    bench.now += HOUR
    bench.session("d")
    bench.now += WEEK
    forget(bench)
    bench.session("e")
    assert bench.status()["workers"][-1]["worker"] == "e"
    assert len(bench.status()["workers"]) == 3


def full(bench: RelayBench, role: str = "") -> bool:
    """Whether a token may begin no session; else it begins one."""
    try:
        bench.json(Op.SESSION_CREATE, {"worker": "w"}, role=role)
    except TooManySessions as problem:
        return (problem.status, problem.headers["Retry-After"]) == (429, "60")
    return False


def known(bench: RelayBench, session: str) -> bool:
    """Whether the run has a session."""
    with contextlib.suppress(UnknownSession):
        return bool(bench.json(Op.SESSION_STATUS, value=session))
    return False


def test_of_a_tokens_sessions_the_oldest_idle_one_goes_first(
    bench: RelayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (sessions.MOST_SESSIONS, sessions.MOST_OF_TOKEN) == (10_000, 1000)
    monkeypatch.setattr(sessions, "MOST_OF_TOKEN", 4)

    def begin(role: str = "worker") -> str:
        body = {"worker": "w"}
        return str(bench.json(Op.SESSION_CREATE, body, role=role)["session"])

    of_another = bench.session()
    waiting, older, newer = begin(), begin(), begin()
    for session in (older, newer):
        bench.put(session, 1)
    bench.json(Op.READER_PUT, {"after": 2}, value="r")
    # Its batch is in the log.
    bench.put(waiting, 1)
    unused = begin()
    assert full(bench, "worker")
    # Other tokens have their own limits.
    bench.session()
    bench.now += HOUR / 2
    assert bench.put(newer, 1)["stored"] is False
    bench.now += HOUR / 2
    begin()
    assert not known(bench, unused)
    begin()
    assert not known(bench, older)
    assert full(bench, "worker")
    assert all(known(bench, each) for each in (waiting, newer, of_another))
    bench.reopen()
    assert full(bench, "worker")
    bench.now += 61
    begin()
    assert known(bench, newer)


def test_at_the_limit_of_a_run_no_session_of_another_token_goes(
    bench: RelayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 3)
    older = [bench.session(), bench.session()]
    bench.json(Op.SESSION_CREATE, {"worker": "w"}, role="worker")
    bench.now += HOUR - 1
    mine = bench.json(Op.SESSION_CREATE, {"worker": "w"}, role="worker")["session"]
    assert full(bench, "worker")
    assert all(known(bench, each) for each in (*older, mine))


def test_an_old_row_of_a_session_is_not_forgotten(
    bench: RelayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "KEPT_SESSIONS", 0)
    old = bench.session()
    bench.store.begin()
    bench.store._execute("UPDATE sessions SET details = json_remove(details, '$.last')")
    bench.store.commit()
    bench.reopen()
    bench.now += WEEK
    forget(bench)
    bench.json(Op.SESSION_STATUS, value=old)


def put_file(
    bench: RelayBench,
    body: bytes,
    digests: list[tuple[int, bytes, bytes]] | None = None,
) -> Path:
    """Put a bundle in a file, as a web worker does; return the file."""
    path = Path(bench.store.files.folder, os.urandom(16).hex() + ".body")
    path.write_bytes(body)
    head = RelayHead(
        bench.run, file=path.name, size=len(body), content_type=BUNDLE, digest="0" * 64
    )
    request = Request(Op.SAMPLES_PUT, head, digests_body(digests or []))
    bench.store.begin()
    try:
        bench.relay.reply(request, bench.now, final=True)
    finally:
        bench.store.commit()
        bench.store.clean_up()
    return path


def padded(head: BatchHead, body: bytes, size: int) -> bytes:
    """Encode a batch whose head has so many bytes."""
    plain = encode_batch(head, body)
    _, length, status, kind, form, number = HEADER.unpack_from(plain)
    text = plain[HEADER.size : HEADER.size + length].ljust(size)
    return HEADER.pack(len(body), size, status, kind, form, number) + text + body


def test_long_heads_take_no_place_on_the_disk(bench: RelayBench) -> None:
    session = bench.session()
    bodies = [b"%d" % number * 100 for number in range(1, 101)]
    batches = [
        padded(BatchHead(session, n, 0, 1), body, 60_000)
        for n, body in enumerate(bodies, 1)
    ]
    before = bench.store.used_bytes
    path = put_file(bench, b"".join(batches))
    assert path.stat().st_size > 6_000_000
    assert path.stat().st_blocks * 512 < 1_000_000
    assert bench.store.used_bytes - before < 1_000_000
    assert [body for _, body in bench.samples()] == bodies


def test_batches_that_were_stored_before_take_no_place_on_the_disk(
    bench: RelayBench,
) -> None:
    session = bench.session()
    first = [
        encode_batch(BatchHead(session, number, 0, 1), bytes([number]) * MIB)
        for number in (1, 2, 3)
    ]
    earlier = put_file(bench, b"".join(first))
    assert earlier.stat().st_blocks * 512 >= 3 * MIB
    before = bench.store.used_bytes
    new = encode_batch(BatchHead(session, 4, 0, 1), b"4" * MIB)
    path = put_file(bench, b"".join([*first, new]))
    assert path.stat().st_blocks * 512 < 1.1 * MIB
    assert bench.store.used_bytes - before < 1.1 * MIB
    found = [body for _, body in bench.samples(max_bytes=8 * MIB)]
    assert found == [bytes([number]) * MIB for number in (1, 2, 3)] + [b"4" * MIB]


def digests_of_bundle(bundle: bytes, size: int = MIB) -> list[tuple[int, bytes]]:
    """Return the digests that a web worker computes of pieces of a bundle."""
    digests = BatchDigests()
    for start in range(0, len(bundle), size):
        digests.update(memoryview(bundle)[start : start + size])
    return digests.found


def encoded(session: str, number: int, body: bytes, *, checked: bool = False) -> bytes:
    """Encode a batch; if it is to be checked, its head has a checksum."""
    checksum = xxhash.xxh3_64_hexdigest(body) if checked else ""
    return encode_batch(BatchHead(session, number, 0, 1, checksum=checksum), body)


def test_larger_batches_of_a_bundle_are_hashed_before_the_relay(
    bench: RelayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = bench.session()
    bodies = [b"a" * 100, b"b" * 3 * MIB, b"c" * 5000, b"", b"d" * 4096]
    checked = [False, True, False, True, False]
    bundle = b"".join(
        encoded(session, number, body, checked=each)
        for number, (body, each) in enumerate(zip(bodies, checked, strict=True), 1)
    )
    digests = digests_of_bundle(bundle)
    assert digests == [
        (1, xxhash.xxh3_64_digest(bodies[1])),
        (2, hashlib.sha256(bodies[2]).digest()),
        (4, hashlib.sha256(bodies[4]).digest()),
    ]
    assert list(digests_of(digests_body(digests)).items()) == digests
    hashed: list[int] = []

    def counted(head: BatchHead) -> Any:
        hashed.append(head.number)
        return hash_for(head)

    with monkeypatch.context() as patch:
        patch.setattr(samples, "hash_for", counted)
        put_file(bench, bundle, digests)
    assert hashed == [1, 4]
    found = list(bench.samples(max_bytes=8 * MIB))
    assert [body for _, body in found] == bodies
    for (head, body), each in zip(found, checked, strict=True):
        sums = head.digest, head.checksum
        if each:
            assert sums == ("", xxhash.xxh3_64_hexdigest(body))
        else:
            assert sums == (hashlib.sha256(body).hexdigest(), "")
    # A cut bundle is the relay's to refuse.
    for end in (10, 100, len(bundle) - 1):
        assert len(digests_of_bundle(bundle[:end])) < 3


@given(
    sizes=st.lists(
        st.one_of(st.integers(0, 200), st.integers(4000, 9000)), max_size=12
    ),
    step=st.integers(1, 6000),
)
def test_digests_of_batches_do_not_depend_on_the_pieces(
    sizes: list[int], step: int
) -> None:
    bodies = [bytes([size % 251]) * size for size in sizes]
    bundle = b"".join(
        encoded("s", number, body, checked=bool(len(body) % 2))
        for number, body in enumerate(bodies, 1)
    )
    expected = [
        (number, xxhash.xxh3_64_digest(body))
        if len(body) % 2
        else (number, hashlib.sha256(body).digest())
        for number, body in enumerate(bodies)
        if len(body) >= DIGESTED_BYTES
    ]
    assert digests_of_bundle(bundle, step) == expected


@given(data=st.binary(max_size=300), step=st.integers(1, 300))
def test_bytes_that_are_no_bundle_have_no_digests(data: bytes, step: int) -> None:
    assert digests_of_bundle(data, step) == []


@pytest.mark.parametrize("name", ["MOST_BATCHES", "MOST_HEADS_BYTES"])
@pytest.mark.parametrize("size", [0, DIGESTED_BYTES])
def test_a_bundle_beyond_its_limits_is_refused(
    name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = encode_batch(BatchHead("s", 1, 0, 1), bytes(size))
    heads = len(batch) - size - HEADER.size
    monkeypatch.setattr(uploads, name, 2 if name == "MOST_BATCHES" else 2 * heads)
    assert len(digests_of_bundle(2 * batch)) == (2 if size else 0)
    # Before the head of the third one is parsed, or has arrived.
    with pytest.raises(BundleTooLarge) as refused:
        digests_of_bundle(2 * batch + batch[: HEADER.size])
    assert (refused.value.status, refused.value.code) == (413, "bundle-too-large")


@given(size=st.integers(0, 9000), step=st.integers(1, 6000))
def test_the_session_of_a_bundle_is_found(size: int, step: int) -> None:
    digests = BatchDigests()
    bundle = encoded("first", 1, bytes(size)) + encoded("second", 1, b"")
    for start in range(0, len(bundle), step):
        digests.update(memoryview(bundle)[start : start + step])
    assert digests.session == "first"


@pytest.mark.parametrize("head", [b"", b"no JSON.", b'{"number": 1}   ', b" " * 65544])
def test_batches_from_a_malformed_head_on_have_no_digests(head: bytes) -> None:
    body = bytes(DIGESTED_BYTES)
    start = HEADER.pack(len(body), len(head), 0, Op.BATCH, 0, 0)
    good = encoded("s", 1, body)
    found = digests_of_bundle(good + start + head + body + good, 1000)
    assert found == [(0, hashlib.sha256(body).digest())]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", ["digest", "checksum"])
def test_digests_of_web_workers_are_compared_with_those_of_heads(
    name: str, known: bool, bench: RelayBench
) -> None:
    session = bench.session()
    sums = {
        "digest": hashlib.sha256(b"other").hexdigest(),
        "checksum": xxhash.xxh3_64_hexdigest(b"other"),
    }
    wrong = BatchHead(session, 1, 0, 1, **{name: sums[name]})
    bundle = encode_batch(wrong, bytes(MIB))
    try:
        put_file(bench, bundle, digests_of_bundle(bundle) if known else [])
    except DigestMismatch as problem:
        # Its traceback has the mapped file, which must be closed after the test.
        problem.__traceback__ = None
    else:
        pytest.fail("it was not refused")
