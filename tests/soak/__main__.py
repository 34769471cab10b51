"""``python -m tests.soak``: loads a server, kills its parts, and counts what is left.

First trainings over the relay are run, whose programs and server are killed, and one
beside a run that is abused. Each benchmark is run for a moment, pages of instances are
used in a browser, and a long video is recorded. On another server, 500 instances are
made and stepped.
Then 32 clients step beside local environments, half by requests and half over streams,
and nothing is killed. At last there is every kind of load, and meanwhile hosts, web
workers, the process that holds external connections, and clients are killed. Before and
after that, with no instance left, descriptors, memory, processes, folders and shared
memory are counted.
"""

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from statistics import quantiles

from tests.soak.census import Census, steady_census
from tests.soak.faults import FAULTS
from tests.soak.loads import LOADS, latencies, many_instances
from tests.soak.neighbours import noisy_neighbour
from tests.soak.pages import pages
from tests.soak.races import short_races
from tests.soak.trainings import trainings
from tests.soak.videos import videos
from tests.support.api import Api
from tests.support.server import Server

CALM_SHARE = 0.15
CALM_CLIENTS = 16
REPORT_SECONDS = 10.0
#: By how much the supervisor's memory may grow.
GROWTH = 0.10

WORK: dict[str, Callable[[Server], None]] = LOADS | FAULTS


@dataclass
class Soak:
    """Repeats each kind of work in a separate thread until the time is over.

    Attributes:
        counts: How often each kind of work was done.
        errors: What went wrong; the first error ends the soak.
    """

    server: Server
    counts: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    _failed: threading.Event = field(default_factory=threading.Event)

    def run(self, seconds: float, title: str, names: Iterable[str]) -> None:
        """Work for so many seconds, and print the counts meanwhile."""
        end = time.monotonic() + seconds
        threads = [
            threading.Thread(target=self._repeat, args=(name, WORK[name], end))
            for name in names
        ]
        for thread in threads:
            thread.start()
        while (left := end - time.monotonic()) > 0 and not self.errors:
            self._failed.wait(min(REPORT_SECONDS, left))
            left = max(0.0, end - time.monotonic())
            print(f"{title}: {left:.0f} s left; {self._summary()}", flush=True)
        for thread in threads:
            thread.join()

    def _repeat(self, name: str, work: Callable[[Server], None], end: float) -> None:
        while time.monotonic() < end and not self.errors:
            try:
                work(self.server)
            except BaseException as error:
                self.errors.append(f"{name}: {type(error).__name__}: {error}")
                self._failed.set()
                raise
            self.counts[name] = self.counts.get(name, 0) + 1

    def _summary(self) -> str:
        return ", ".join(f"{name} {n}" for name, n in sorted(self.counts.items()))


def print_latencies() -> None:
    """Print the latencies of steps, which are rough: clients share an interpreter."""
    for way, took in latencies.items():
        if len(took) < 2:
            continue
        cuts = quantiles(took, n=100)
        print(
            f"{len(took)} steps, {way}: median {cuts[49] * 1000:.2f} ms, "
            f"99 of 100 within {cuts[98] * 1000:.2f} ms",
            flush=True,
        )


def differences(before: Census, after: Census) -> Iterator[str]:
    """Yield a sentence for each thing that the server left behind or lost."""
    for name in ("descriptors", "processes"):
        one, other = getattr(before, name), getattr(after, name)
        if one != other:
            yield f"{name} were {one} before the soak and are {other} after it"
    for name in ("folders", "shared_memory"):
        more = getattr(after, name) - getattr(before, name)
        if more:
            yield f"{name} that were not there before: {sorted(more)}"
    allowed = before.supervisor_bytes * (1 + GROWTH)
    if after.supervisor_bytes > allowed:
        yield (
            f"the supervisor's memory was {before.supervisor_bytes} bytes and is "
            f"{after.supervisor_bytes}: expected at most {allowed:.0f}"
        )


def main() -> int:
    """Run the soak and return the exit status: 0 if all is as it was."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="length of the soak"
    )
    parser.add_argument(
        "--only-trainings", action="store_true", help="leave out the rest"
    )
    parser.add_argument("--only-pages", action="store_true", help="leave out the rest")
    options = parser.parse_args()
    seconds = options.minutes * 60
    if options.only_pages:
        failed = pages()
        print("\n".join(failed) or "all pages were as they should be", flush=True)
        return 1 if failed else 0
    failed = trainings() + noisy_neighbour()
    if not options.only_trainings:
        failed += short_races()
        failed += pages()
        failed += videos()
    if options.only_trainings:
        print("\n".join(failed) or "all trainings were as they should be", flush=True)
        return 1 if failed else 0
    os.environ.setdefault("MUJOCO_GL", "egl")
    server = Server(
        *("--import", "tests.support.envs.hostile", "--idle-timeout", "60"),
        *("--step-deadline", "10", "--external-grace", "2"),
        *("--max-instances", "512", "--workers", "2"),
    )
    with server:
        # The broker starts when it is first needed, and stays.
        Api(server).post("/v1/external/")
        soak = Soak(server)
        many_instances(server)
        print("500 instances were stepped", flush=True)
        soak.run(seconds * CALM_SHARE, "calm", CALM_CLIENTS * ["rest", "stream"])
        print_latencies()
        before = steady_census(server)
        print(before, flush=True)
        if not soak.errors:
            soak.run(seconds * (1 - CALM_SHARE), "soak", WORK)
        after = steady_census(server)
        print(after, flush=True)
        found = [*failed, *soak.errors, *differences(before, after)]
        missing = [name for name in WORK if not soak.counts.get(name)]
        found += [f"{name} was never done" for name in missing]
        if found:
            print(server.stderr[-4000:], file=sys.stderr)
    print("\n".join(found) or "nothing was left behind", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
