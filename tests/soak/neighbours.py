"""A noisy neighbour: one run is abused while another one trains on the same server."""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gym_http_client.relay import RelayCalls
from tests.support.api import Api
from tests.support.relay_abuse import Abuse
from tests.support.repeating import repeating
from tests.support.runs import Run
from tests.support.server import Server
from tests.support.training import documented, training
from tests.support.training_checks import newest, reinforce_programs
from tests.support.wait import wait_until

__all__ = ["noisy_neighbour"]

#: Calm and abuse alternate, since the episodes of a training become longer.
ROUNDS = 4
ROUND_SECONDS = 5.0
#: The part of its speed that the training keeps at least.
KEPT = 0.5
PROBE_SECONDS = 0.2


def noisy_neighbour() -> list[str]:
    """Abuse a run beside a training, and return what went wrong."""
    with tempfile.TemporaryDirectory(prefix="ghst-soak-") as folder:
        calm, noisy, failed = _speeds(Path(folder))
    words = f"{calm:.1f} versions/s in calm, {noisy:.1f} beside abuse"
    print(f"noisy neighbour: {words}; health failed {failed} times", flush=True)
    found = [f"health failed {failed} times beside abuse"] if failed else []
    if noisy < KEPT * calm:
        found.append(f"a training made {words}: expected {KEPT} of it at least")
    return found


def _speeds(folder: Path) -> tuple[float, float, int]:
    """Return versions a second in calm and beside abuse, and failed probes."""
    made = {False: 0, True: 0}
    with Server("--workers", "2") as server:
        api = Api(server)
        subprocess.run(documented("curl", server.url), check=True, capture_output=True)
        more = ("--updates", "1000000")
        programs = reinforce_programs(server.url, folder, *more)
        with (
            RelayCalls(server.url, "cartpole-reinforce") as calls,
            training(server, programs, folder),
            _probed(api) as failed,
        ):
            wait_until(lambda: newest(calls) > 10, 60.0, "the training")
            for number in range(2 * ROUNDS):
                noisy = number % 2 == 1
                if noisy:
                    with Abuse(Run.create(api, f"abused{number}")).going_on():
                        made[noisy] += _progress(calls)
                else:
                    made[noisy] += _progress(calls)
    seconds = ROUNDS * ROUND_SECONDS
    return made[False] / seconds, made[True] / seconds, len(failed)


def _progress(calls: RelayCalls) -> int:
    """Return the versions that a training makes in a round."""
    before = newest(calls)
    time.sleep(ROUND_SECONDS)
    return newest(calls) - before


@contextmanager
def _probed(api: Api) -> Iterator[list[int]]:
    """Probe the server's health meanwhile; collect the statuses that are not 200."""
    failed: list[int] = []

    def probe() -> None:
        status = api.get("/healthz").status
        if status != 200:
            failed.append(status)

    with repeating(probe, PROBE_SECONDS):
        yield failed
