"""All clients play correctly over a network that drops, cuts and repeats messages."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.drivers import Program
from tests.support.faults.http_faults import Fault, FaultyNetwork
from tests.support.faults.stream_faults import REFUSED, StreamFault
from tests.support.reference_runs import ReferenceRun
from tests.support.server import Server

ENV_IDS = ("CartPole-v1", "Taxi-v4", "Pendulum-v1")
NAMES = ("python", "lua5.4", "luajit", "cpp", "js")
STEPS = 200
PROBABILITY = 0.07
# Each kind of fault must occur; the order of requests decides which do.
MOST_ROUNDS = 5
FAULTS = {
    "rest": (Fault.DROPPED, Fault.UNANSWERED, Fault.CUT, Fault.DOUBLED),
    "stream": (
        *(StreamFault.DROPPED, StreamFault.TORN, StreamFault.UNANSWERED),
        *(StreamFault.CUT, StreamFault.DOUBLED, REFUSED),
    ),
}

pytestmark = [
    pytest.mark.toolchain,
    # The C++ driver is built within the first test that needs it.
    pytest.mark.timeout(300),
]


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize("transport", ["rest", "stream"])
@pytest.mark.parametrize("name", NAMES)
def test_trajectories_are_those_of_their_seeds(
    name: str,
    transport: str,
    driver: Callable[[str], Program],
    server: Server,
    tmp_path: Path,
) -> None:
    program = driver(name)
    walks = [ReferenceRun(env_id, 7, STEPS) for env_id in ENV_IDS]
    with (
        FaultyNetwork(
            server.port, probability=PROBABILITY, seed=1, holds=False
        ) as chaos,
        ThreadPoolExecutor(len(walks)) as pool,
    ):

        def play(walk: ReferenceRun) -> str:
            folder = tmp_path / walk.env_id
            folder.mkdir(exist_ok=True)
            return program.output(*walk.args(chaos.url, transport, folder))

        for _ in range(MOST_ROUNDS):
            for walk, printed in zip(walks, pool.map(play, walks), strict=True):
                walk.compare(printed)
            counts = chaos.counts()
            missing = [fault for fault in FAULTS[transport] if not counts[fault]]
            if not missing:
                break
        counts = chaos.finish()
    print(dict(counts))
    assert not missing, f"{missing} did not occur in {counts}"
