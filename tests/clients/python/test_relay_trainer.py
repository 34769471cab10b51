"""A trainer with a real relay: positions, publications, limits of time and memory."""

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gym_http_client.relay import (
    NoBatch,
    RelayCalls,
    Replay,
    Trainer,
    TrainerReplaced,
    play,
)
from gym_http_client.relay.batches import COLUMNS_TYPE, encode_columns
from gym_http_client.relay.weights import SAFETENSORS
from tests.support.server import Server
from tests.support.wait import wait_until


@pytest.fixture
def calls(server: Server) -> Iterator[RelayCalls]:
    """The calls of a new run on the shared server."""
    with RelayCalls(server.url, f"r-{uuid.uuid4().hex[:8]}") as made:
        made.create()
        yield made
        made.delete()


class Worker:
    """A session that sends transitions with numbers."""

    def __init__(self, calls: RelayCalls, name: str = "w1") -> None:
        self._calls = calls
        self._session = calls.create_session(name)["session"]
        self._number = 0

    def send(self, first: int, count: int = 3, **extras: Any) -> dict[str, Any]:
        """Send an episode of consecutive numbers."""
        self._number += 1
        numbers = np.arange(first, first + count)
        columns = {
            "observations": np.arange(first, first + count + 1.0)[:, None],
            "actions": numbers,
            "rewards": np.ones(count),
            "terminated": numbers == numbers[-1],
            "truncated": np.zeros(count, np.bool_),
            **extras,
        }
        return self._calls.put_batch(
            encode_columns(columns),
            session=self._session,
            number=self._number,
            policy=0,
            count=count,
            content_type=COLUMNS_TYPE,
        )


def make(calls: RelayCalls, **options: Any) -> Trainer:
    options = {"progress": None, "timeout": 30.0, **options}
    return Trainer(calls.url, calls.run, **options)


def test_a_state_commits_the_batches_before_it(calls: RelayCalls) -> None:
    worker = Worker(calls)
    for first in (0, 10, 20):
        worker.send(first)
    with make(calls) as trainer:
        assert trainer.resume() is None
        batches = iter(trainer)
        assert next(batches).columns["actions"].tolist() == [0, 1, 2]
        version = trainer.publish({"w": np.ones(2)}, state={"seen": np.array(1)})
        assert version == 1
        # Received, and not committed.
        next(batches)
    with make(calls) as trainer:
        state = trainer.resume()
        assert state is not None
        assert int(state["seen"]) == 1
        batch = next(iter(trainer))
        assert batch.columns["actions"].tolist() == [10, 11, 12]
        assert (batch.worker, batch.count, batch.lag) == ("w1", 3, 0)
        trainer.commit()
    samples = calls.status()["samples"]
    assert (samples["consumed"], samples["waiting"]) == (2, 1)


def test_a_batch_that_comes_later_is_received(calls: RelayCalls) -> None:
    with make(calls) as trainer:
        sender = threading.Timer(0.2, lambda: Worker(calls).send(5))
        sender.start()
        assert next(iter(trainer)).columns["actions"].tolist() == [5, 6, 7]
        sender.join()


def test_a_trainer_that_waits_ends_at_once(calls: RelayCalls) -> None:
    with make(calls) as trainer:
        assert trainer.receive(0.1) is None
        began = time.monotonic()
    # The request in the background would wait for 20 seconds.
    assert time.monotonic() - began < 8.0


def test_the_loop_has_a_time_limit(calls: RelayCalls) -> None:
    Worker(calls)
    with (
        make(calls, timeout=0.2) as trainer,
        pytest.raises(NoBatch, match=r"for 0\.2 s.*Workers: w1 active"),
    ):
        next(iter(trainer))


def test_the_older_of_two_trainers_is_refused(calls: RelayCalls) -> None:
    with make(calls) as old, make(calls) as new:
        new.publish({"w": np.zeros(2)}, state={"s": np.zeros(1)})
        with pytest.raises(TrainerReplaced) as refused:
            old.publish({"w": np.ones(2)}, state={"s": np.ones(1)})
        assert refused.value.status_code == 412
        # It may repeat what is the newest already.
        assert new.publish({"w": np.zeros(2)}, state={"s": np.ones(1)}) == 1
        with pytest.raises(TrainerReplaced):
            old.commit(state={"s": np.full(1, 2.0)})
    status = calls.status()
    assert status["weights"]["version"] == 1


def test_an_equal_state_moves_the_position(calls: RelayCalls) -> None:
    Worker(calls).send(0)
    with make(calls) as trainer:
        for _ in range(2):
            trainer.publish({"w": np.ones(1)}, state={"s": np.ones(1)})
            trainer.receive(1.0)
        trainer.publish({"w": np.ones(1)}, state={"s": np.ones(1)})
        assert trainer.version == 1
    assert calls.reader("trainer") is not None
    assert calls.status()["samples"]["consumed"] == 1


def test_weights_of_safetensors_play(calls: RelayCalls) -> None:
    import gymnasium

    weights = {"right": np.array([0.5])}
    with make(calls, form=SAFETENSORS) as trainer:
        trainer.publish(weights)
        assert trainer.weights() == weights
    blob = calls.weights()
    assert blob is not None
    assert blob.content_type == SAFETENSORS

    def policy(weights: Any, _: Any, generator: np.random.Generator) -> int:
        return int(generator.random() < weights["right"][0])

    env = gymnasium.make("CartPole-v1")
    played = play(calls.url, calls.run, env=env, policy=policy, episodes=2)
    assert len(played) == 2


def test_a_replay_drives_the_limiter(server: Server) -> None:
    limits = {
        "limiter": {"samples_per_insert": 4.0, "min_size": 6, "error_buffer": 24.0}
    }
    with RelayCalls(server.url, f"l-{uuid.uuid4().hex[:8]}") as calls:
        calls.create(limits=limits)
        worker = Worker(calls)
        # Inserts wait above a difference of 48, which is 12 transitions.
        for first in (0, 10, 20, 30, 40):
            worker.send(first)
        assert calls.status()["limiter"]["inserts_wait"]
        replay = Replay(100)
        with make(calls, replay=replay) as trainer:
            drawn = 0
            for _ in zip(range(5), trainer, strict=False):
                pass
            while trainer.waiting:
                trainer.receive()
            replay.add(_rows())
            replay.add(_rows())
            while replay.ready(4):
                replay.draw(4)
                drawn += 4
            # 6 transitions may be drawn 4 times, and 0 more: min_diff is 0.
            assert drawn == 24
            trainer.commit()
            limiter = calls.status()["limiter"]
            assert limiter["draws"] == 24
            assert not limiter["inserts_wait"]
        # Those 15 that the dead trainer had received count as drawn.
        other = Replay(100)
        with make(calls, replay=other) as trainer:
            trainer.commit()
            assert calls.status()["limiter"]["draws"] == 60
        calls.delete()


def _rows() -> dict[str, Any]:
    return {
        "observations": np.zeros((4, 1)),
        "actions": np.zeros(3),
        "rewards": np.zeros(3),
        "terminated": np.zeros(3, np.bool_),
        "truncated": np.zeros(3, np.bool_),
    }


def test_reading_ahead_keeps_its_bound(calls: RelayCalls) -> None:
    worker = Worker(calls)
    noise = np.random.default_rng(0).random(300_000)
    for first in range(6):
        worker.send(first, noise=noise)
    with make(calls, read_ahead=3_000_000) as trainer:
        assert trainer.receive(30.0) is not None
        wait_until(lambda: trainer.waiting >= 1, 10.0, "a batch ahead")
        # Two answers of at most 4 MiB: one batch each.
        assert trainer.waiting <= 3
        assert all(trainer.receive(30.0) for _ in range(5))


def test_records_of_training_are_kept(calls: RelayCalls) -> None:
    with make(calls) as trainer:
        trainer.publish({"w": np.ones(1)})
        trainer.record(7, loss=0.5)
    (record,) = calls.records(kind="training")
    assert (record["step"], record["loss"], record["version"]) == (7, 0.5, 1)
