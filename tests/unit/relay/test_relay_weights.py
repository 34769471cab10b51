"""Weights and state: preconditions, repeated puts, waits, and what is kept."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gym_http_server.errors import (
    NoState,
    NoWeights,
    PositionPassed,
    PreconditionRequired,
    VersionConflict,
)
from gym_http_wire.messages import Op
from gym_http_wire.problems import BadParameter
from tests.support.relay_logic import RelayBench

EVALUATION = (
    b'{"type":"episode","mode":"evaluation","return":%d,"length":1,"version":%d}\n'
)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[RelayBench]:
    made = RelayBench(tmp_path / "relay", limits={"keep_weights": 3})
    with contextlib.closing(made):
        yield made


def tag(version: int, data: bytes) -> str:
    return f'"{version}-{hashlib.sha256(data).hexdigest()[:12]}"'


@pytest.mark.parametrize("file", [False, True])
def test_a_version_follows_the_one_that_its_trainer_knows(
    bench: RelayBench, file: bool
) -> None:
    put, get = Op.WEIGHTS_PUT, Op.WEIGHTS_GET
    assert isinstance(bench.problem(put, b"a"), PreconditionRequired)
    early = bench.problem(put, b"a", if_match='"1-0"')
    assert isinstance(early, VersionConflict)
    first = bench.json(put, b"a", if_none_match="*", file=file)
    assert first == {"version": 1, "etag": tag(1, b"a"), "bytes": 1}
    for condition in ({"if_none_match": "*"}, {"if_match": '"1-000000000000"'}):
        late = bench.problem(put, b"b", file=file, **condition)
        assert isinstance(late, VersionConflict)
        assert late.extras == {"version": 1, "etag": tag(1, b"a")}
    # The same again is harmless: its answer was lost.
    again = bench.call(put, b"a", if_none_match="*", file=file)
    assert again is not None
    assert again.status == 200
    assert msgspec.json.decode(again.body) == first
    second = bench.json(put, b"b", if_match=tag(1, b"a"), file=file)
    assert second["version"] == 2
    reply = bench.call(get)
    assert reply is not None
    assert reply.headers == {"ETag": tag(2, b"b"), "Gym-Version": "2"}
    assert bench.body_of(reply) == b"b"
    assert bench.body_of(bench.call(get, value="1")) == b"a"
    bench.reopen()
    assert bench.body_of(bench.call(get)) == b"b"


def test_workers_wait_for_another_version(bench: RelayBench) -> None:
    get = Op.WEIGHTS_GET
    assert bench.call(get, final=False) is None
    assert isinstance(bench.problem(get), NoWeights)
    bench.publish(b"a")
    assert bench.relay.take_touched() == {("pendulum", "blobs")}
    known = tag(1, b"a")
    assert bench.call(get, if_none_match=known, final=False) is None
    reply = bench.call(get, if_none_match=known)
    assert reply is not None
    assert (reply.status, reply.headers["ETag"]) == (304, known)
    bench.publish(b"b")
    assert bench.body_of(bench.call(get, if_none_match=known, final=False)) == b"b"


def test_the_reader_moves_with_the_weights_or_not_at_all(bench: RelayBench) -> None:
    session = bench.session()
    for number in range(1, 5):
        bench.put(session, number)
    move = {"reader": "t", "draws": 7}
    bench.publish(b"a", after=2, **move)
    assert bench.json(Op.READER_GET, value="t") == {
        "reader": "t",
        "after": 2,
        "draws": 7,
    }
    # A repeated put moves it all the same.
    bench.publish(b"a", after=3, **move)
    assert bench.json(Op.READER_GET, value="t")["after"] == 3
    args = {"if_match": tag(1, b"a"), **move}
    assert isinstance(
        bench.problem(Op.WEIGHTS_PUT, b"b", after=2, **args), PositionPassed
    )
    assert isinstance(
        bench.problem(Op.WEIGHTS_PUT, b"b", after=9, **args), BadParameter
    )
    assert isinstance(bench.problem(Op.WEIGHTS_PUT, b"b", **args), BadParameter)
    assert bench.status()["weights"]["version"] == 1
    refused = bench.problem(Op.STATE_PUT, b"s", if_match='"1-0"', reader="t", after=4)
    assert isinstance(refused, VersionConflict)
    assert bench.json(Op.READER_GET, value="t")["after"] == 3


def test_only_the_newest_state_is_kept(bench: RelayBench) -> None:
    assert isinstance(bench.problem(Op.STATE_GET), NoState)
    bench.json(Op.STATE_PUT, b"s1", if_none_match="*", file=True)
    bench.json(Op.STATE_PUT, b"s2", if_match=tag(1, b"s1"), file=True)
    assert bench.body_of(bench.call(Op.STATE_GET)) == b"s2"
    assert len(list(Path(bench.store.files.folder).iterdir())) == 1
    assert bench.status()["state"]["etag"] == tag(2, b"s2")
    assert bench.status()["weights"] is None


def test_the_last_versions_the_best_and_those_in_use_are_kept(
    bench: RelayBench,
) -> None:
    session = bench.session()
    for version in range(1, 9):
        bench.publish(bytes([version]))
        if version in (1, 2):
            bench.json(Op.RECORDS_PUT, EVALUATION % (10 * version, version) * 5)
        if version == 4:
            # A worker that acts with it.
            bench.put(session, 1, policy=4)
    kept = [v for v in range(1, 9) if _has(bench, str(v))]
    assert kept == [2, 4, 6, 7, 8]
    assert bench.body_of(bench.call(Op.WEIGHTS_GET, value="best")) == b"\x02"
    best = bench.status()["weights"]["best"]
    assert best == {"version": 2, "mean": 20.0, "evaluations": 5}
    gone = bench.problem(Op.WEIGHTS_GET, value="3")
    assert gone.extras == {"versions": kept}
    for wrong in ("0", "x", "-1", "1" * 30):
        assert isinstance(bench.problem(Op.WEIGHTS_GET, value=wrong), BadParameter)


def test_no_best_version_before_five_evaluations(bench: RelayBench) -> None:
    bench.publish(b"a")
    problem = bench.problem(Op.WEIGHTS_GET, value="best")
    assert isinstance(problem, NoWeights)
    assert "5 evaluations" in problem.message


def _has(bench: RelayBench, version: str) -> bool:
    with contextlib.suppress(NoWeights):
        bench.call(Op.WEIGHTS_GET, value=version)
        return True
    return False


def test_a_tag_that_a_proxy_made_weak_is_known(bench: RelayBench) -> None:
    bench.publish(b"a")
    weak = f"W/{tag(1, b'a')}"
    reply = bench.call(Op.WEIGHTS_GET, if_none_match=f'"x", {weak}')
    assert reply is not None
    assert reply.status == 304
    # A condition for changes needs the strong one.
    refused = bench.problem(Op.WEIGHTS_PUT, b"b", if_match=weak)
    assert isinstance(refused, VersionConflict)
