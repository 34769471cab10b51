"""A trainer uses each batch once, across its deaths, and notices its replacement."""

import logging
import pickle
from typing import Any

import numpy as np
import pytest

from gym_http_client import ServerError
from gym_http_client.relay import (
    Batch,
    NoBatch,
    Replay,
    Trainer,
    TrainerReplaced,
    load_weights,
    read_ahead,
    trainer,
)
from tests.support.fake_relay import FakeRelay
from tests.support.wait import wait_until


@pytest.fixture
def relay(monkeypatch: pytest.MonkeyPatch) -> FakeRelay:
    """A relay without a limiter, to which all trainers connect."""
    return connected(monkeypatch, FakeRelay())


def connected(monkeypatch: pytest.MonkeyPatch, relay: FakeRelay) -> FakeRelay:
    for module in (trainer, read_ahead):
        monkeypatch.setattr(module, "RelayCalls", lambda *_, **__: relay)
    return relay


def make(**options: Any) -> Trainer:
    return Trainer("http://127.0.0.1:1", "r", progress=None, timeout=5.0, **options)


def add(relay: FakeRelay, *numbers: int) -> None:
    for number in numbers:
        relay.add(number=np.array([number]))


def number(batch: Batch) -> int:
    return int(batch.columns["number"][0])


def test_batches_arrive_in_order_with_their_origin(relay: FakeRelay) -> None:
    relay.add("w1", 0, x=np.arange(3))
    relay.add("w2", 0, x=np.arange(4))
    with make() as used:
        first, second = used.receive(5.0), used.receive(5.0)
        assert first is not None
        assert second is not None
        assert (first.worker, first.policy_version, first.lag) == ("w1", 0, 0)
        assert second.worker == "w2"
        np.testing.assert_array_equal(second.columns["x"], np.arange(4))
        assert used.position == 2
        assert used.receive() is None


def test_the_first_publication_makes_version_1(relay: FakeRelay) -> None:
    with make() as used:
        assert used.resume() is None
        assert used.weights() is None
        assert used.publish({"w": np.ones(2)}) == 1
        assert used.publish({"w": np.zeros(2)}) == 2
        assert used.version == 2
        weights = used.weights()
    assert weights is not None
    np.testing.assert_array_equal(weights["w"], np.zeros(2))


def test_a_publication_without_state_commits_the_position(relay: FakeRelay) -> None:
    add(relay, 1, 2, 3)
    with make() as used:
        used.receive(5.0)
        used.receive(5.0)
        used.publish({"w": np.ones(2)})
        assert relay.readers["trainer"]["after"] == 2
    with make() as later:
        assert later.resume() is None
        batch = later.receive(5.0)
        assert batch is not None
        assert number(batch) == 3


def sum_up(limit: int) -> None:
    """Add the numbers of all batches to the state, and publish after each."""
    with make() as used:
        state = used.resume() or {"sum": np.int64(0)}
        while used.position < limit:
            batch = used.receive(5.0)
            assert batch is not None
            state = {"sum": state["sum"] + number(batch)}
            used.publish({"w": state["sum"]}, state=state)


@pytest.mark.parametrize("name", ["put_weights", "put_state"])
@pytest.mark.parametrize("kind", ["fail", "lose"])
def test_a_trainer_that_dies_in_a_publication_uses_each_batch_once(
    relay: FakeRelay, name: str, kind: str
) -> None:
    add(relay, 1, 10, 100)
    sum_up(1)
    getattr(relay, kind).add(name)
    with pytest.raises(ServerError):
        sum_up(2)
    sum_up(3)
    blob = relay.state()
    assert blob is not None
    assert int(load_weights(blob.data)["sum"]) == 111
    assert relay.version == 3


def test_an_equal_state_moves_the_position(relay: FakeRelay) -> None:
    add(relay, 1)
    with make() as used:
        used.publish({"w": np.ones(1)}, state={"s": np.ones(1)})
        used.receive(5.0)
        used.publish({"w": np.ones(1)}, state={"s": np.ones(1)})
    assert relay.readers["trainer"]["after"] == 1
    assert relay.version == 1


def test_a_replaced_trainer_is_told_so_and_stores_nothing(relay: FakeRelay) -> None:
    with make() as old, make() as new:
        new.publish({"w": np.zeros(1)}, state={"s": np.zeros(1)})
        for call in (
            lambda: old.publish({"w": np.ones(1)}),
            lambda: old.publish({"w": np.ones(1)}, state={"s": np.ones(1)}),
            lambda: old.commit(state={"s": np.ones(1)}),
        ):
            with pytest.raises(TrainerReplaced, match="another trainer of run 'r'"):
                call()
    assert relay.version == 1
    assert len(relay.blobs["state"]) == 1


def test_a_trainer_behind_the_committed_position_was_replaced(
    relay: FakeRelay,
) -> None:
    add(relay, 1, 2)
    with make() as old, make() as new:
        new.receive(5.0)
        new.commit()
        with pytest.raises(TrainerReplaced):
            old.commit()


def test_resume_waits_for_no_half_of_another_commit(
    relay: FakeRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(relay, 1, 2)
    with make() as old, make() as new:
        old.receive(5.0)
        # After the new one has connected, and before it reads the state.
        old.publish({"w": np.ones(1)}, state={"s": np.array([1])})
        state = new.resume()
        assert state is not None
        batch = new.receive(5.0)
        assert batch is not None
        assert number(batch) == 2
        new.publish({"w": np.zeros(1)}, state={"s": np.array([2])})


def test_resume_after_the_first_batch_is_refused(relay: FakeRelay) -> None:
    with make() as used:
        used.receive()
        with pytest.raises(RuntimeError, match="before the first batch"):
            used.resume()


def test_a_batch_that_cannot_be_decoded_is_left_out(
    relay: FakeRelay, caplog: pytest.LogCaptureFixture
) -> None:
    relay.add_bytes(pickle.dumps(1), "application/x-pickle", "evil")
    relay.add_bytes(b"nonsense", "application/vnd.gym-http.binary", "evil")
    relay.add_bytes(b"anything", "image/png")
    with make() as used, caplog.at_level(logging.WARNING):
        batch = used.receive(5.0)
        assert batch is not None
        assert batch.data == b"anything"
        assert (used.position, used.received, used.refused) == (3, 1, 2)
    assert "position 1, of worker evil, is left out: the batch is a pickle" in (
        caplog.text
    )


def test_a_hook_changes_batches_or_leaves_them_out(relay: FakeRelay) -> None:
    def odd(batch: Batch) -> Batch | None:
        batch.columns["double"] = batch.columns["number"] * 2
        return batch if number(batch) % 2 else None

    add(relay, 1, 2, 3)
    with make(after_receiving=odd) as used:
        got = [used.receive(5.0), used.receive(5.0)]
        assert used.position == 3
    assert [int(each.columns["double"][0]) for each in got if each] == [2, 6]


def test_reading_ahead_has_a_bound(relay: FakeRelay) -> None:
    add(relay, *range(100))
    with make(read_ahead=1000) as used:
        used.receive(5.0)
        wait_until(lambda: used.waiting > 3, 5.0, "batches ahead")
        bodies = [len(body) for _, body in relay.batches]
        assert max(relay.asked) * min(bodies) < 3000
        iterator = iter(used)
        assert [number(next(iterator)) for _ in range(99)] == list(range(1, 100))


def test_waiting_in_vain_names_the_workers(relay: FakeRelay) -> None:
    words = r"no batch of run 'r' arrived for 0.05 s.*w1 lost \(return 7.0\)"
    with (
        Trainer("http://127.0.0.1:1", "r", timeout=0.05) as used,
        pytest.raises(NoBatch, match=words),
    ):
        next(iter(used))


def test_removed_batches_are_counted(
    relay: FakeRelay, caplog: pytest.LogCaptureFixture
) -> None:
    add(relay, *range(5))
    relay.first = 4
    with make() as used, caplog.at_level(logging.WARNING):
        batch = used.receive(5.0)
        assert batch is not None
        assert number(batch) == 3
        assert used.missed == 3
    assert "removed 3 batches" in caplog.text


def test_an_error_of_reading_ends_the_loop(relay: FakeRelay) -> None:
    relay.fail.add("samples")
    with make() as used, pytest.raises(ServerError, match="samples fails"):
        next(iter(used))


def test_draws_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"samples_per_insert": 3.0, "min_size": 2}
    relay = connected(monkeypatch, FakeRelay(settings))
    monkeypatch.setattr(trainer, "_REPORT_SECONDS", 0.0)
    rows = {
        "observations": np.zeros((2, 1)),
        "actions": np.zeros(1),
        "rewards": np.zeros(1),
        "terminated": np.zeros(1, np.bool_),
        "truncated": np.ones(1, np.bool_),
    }
    for _ in range(6):
        relay.add(**rows)
    # The second one counts the three batches of the first as drawn three times.
    for expected in (2, 3 * 3 + 2):
        replay = Replay(100)
        with make(replay=replay) as used:
            for _ in range(2):
                batch = used.receive(5.0)
                assert batch is not None
                replay.add(batch)
            assert replay.ready(2)
            replay.draw(2)
            used.receive(5.0)
            assert relay.readers["trainer"]["draws"] == expected
            used.publish({"w": np.array([expected])})


def test_a_limiter_needs_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"samples_per_insert": 3.0, "min_size": 2}
    connected(monkeypatch, FakeRelay(settings))
    with pytest.raises(ValueError, match=r"limiter.*Trainer\(\.\.\., replay=replay\)"):
        make().__enter__()


def test_records_have_the_version(relay: FakeRelay) -> None:
    with make() as used:
        used.publish({"w": np.ones(1)})
        used.record(7, loss=0.5)
    assert relay.records == [{"type": "training", "step": 7, "version": 1, "loss": 0.5}]


def test_progress_is_printed(
    relay: FakeRelay, capsys: pytest.CaptureFixture[str]
) -> None:
    add(relay, 1)
    with Trainer("http://127.0.0.1:1", "r", progress=0.0) as used:
        used.receive(5.0)
        used.publish({"w": np.ones(1)})
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("r: 0 s, version 1, 1 batches, 1 transitions (")
    assert line.endswith("lag 0.0, 0 read ahead. Workers: w1 lost (return 7.0)")
