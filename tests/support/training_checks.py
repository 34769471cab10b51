"""Whole trainings over the relay, in programs, and what must hold after them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gym_http_client.relay import RelayCalls
from tests.support.repeating import repeating
from tests.support.server import ROOT, Server
from tests.support.training import documented, training
from tests.support.wait import wait_until

__all__ = [
    "check_a_second_server",
    "check_asynchronous",
    "check_double_dqn",
    "check_equal_to_the_bit",
]

LEDGER = ["-m", "tests.support.peers.relay_ledger"]
RUN = "r"


def check_equal_to_the_bit(folder: Path, updates: int, kills: int) -> None:
    """Run the README's commands, and kill everything in turn meanwhile."""
    more = ["--updates", str(updates), "--seed", "3"]
    alone = run_once(command("reinforce.py alone", "", *more))
    with Server("--workers", "2") as server:
        subprocess.run(documented("curl", server.url), check=True, capture_output=True)
        programs = reinforce_programs(server.url, folder, *more)
        with (
            RelayCalls(server.url, "cartpole-reinforce") as calls,
            training(server, programs, folder) as run,
        ):
            run.kill_in_turn(kills, lambda: newest(calls), updates // (3 * kills))
            output = run.wait_over(120.0)
            samples = calls.status()["samples"]
    assert output.splitlines()[-2:] == alone.splitlines()[-2:], (output, alone)
    assert sum(run.kills.values()) == kills, run.kills
    assert samples["stored"] == samples["consumed"] == 2 * updates, samples
    assert samples["dropped"] == samples["stale"] == 0, samples


def check_a_second_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the README's commands as they are on one server, and then on another."""
    monkeypatch.setenv("TMPDIR", str(folder))
    digests = []
    for name in ("first", "second"):
        with Server() as server:
            created = documented("curl", server.url)
            subprocess.run(created, check=True, capture_output=True)
            begins = {each: f"reinforce.py worker {each}" for each in ("w1", "w2")}
            begins["trainer"] = "reinforce.py trainer"
            programs = {
                each: command(begin, server.url, "--updates", "2")
                for each, begin in begins.items()
            }
            (folder / name).mkdir()
            with training(server, programs, folder / name) as run:
                digests += run.wait_over(60.0).splitlines()[-1:]
    assert digests[0].startswith("SHA-256")
    assert digests[0] == digests[1]


def reinforce_programs(url: str, folder: Path, *more: str) -> dict[str, list[str]]:
    """Return the README's commands of REINFORCE: two workers, then the trainer."""
    programs = {
        name: command(
            f"reinforce.py worker {name}", url, "--spool", str(folder / name), *more
        )
        for name in ("w1", "w2")
    }
    programs["trainer"] = command("reinforce.py trainer", url, *more)
    return programs


def check_double_dqn(folder: Path, seed: int) -> None:
    """Run the README's commands until the trainer ends, and check its plot."""
    with Server("--workers", "2") as server:
        created = run_once(command("double_dqn.py create", server.url))
        assert "worker: ghr_" in created
        plot = folder / "dqn.png"
        words = command("double_dqn.py trainer", server.url, "--seed", str(seed))
        words += ["--updates", "8000"]
        words[words.index("dqn.png")] = str(plot)
        programs = {
            name: command(
                f"double_dqn.py worker {name}",
                server.url,
                *("--spool", str(folder / name), "--seed", str(seed)),
            )
            for name in ("w1", "w2")
        }
        with training(server, {**programs, "trainer": words}, folder) as run:
            wait_until(lambda: run.trainer.status is not None, 200.0, "the training")
            output = run.trainer.output
            assert run.trainer.status == 0, output
        with RelayCalls(server.url, "cartpole-dqn") as calls:
            status = calls.status()
    means = [float(m) for m in re.findall(r"mean return ([0-9.]+) of 20 ", output)]
    # The first version that is good enough is the last one.
    assert [mean >= 195 for mean in means] == [False] * (len(means) - 1) + [True]
    best = status["weights"]["best"]
    assert best["version"] == status["weights"]["version"]
    assert (round(best["mean"], 1), best["evaluations"]) == (means[-1], 20)
    check_sums(status["samples"])
    assert plot.read_bytes().startswith(b"\x89PNG")


def check_asynchronous(
    folder: Path, workers: tuple[str, ...], episodes: int, kills: int, seed: int
) -> None:
    """Kill everything in turn while workers send without waiting, and count batches.

    Args:
        folder: A folder for spools and logs.
        workers: Names of the workers.
        episodes: Number of episodes of each.
        kills: Number of kills.
        seed: Seed of the kills.
    """
    with Server("--workers", "2") as server, RelayCalls(server.url, RUN) as calls:
        calls.create()
        programs = {
            name: [
                *LEDGER,
                *("worker", server.url, RUN, name, str(folder / name)),
                str(episodes),
            ]
            for name in workers
        }
        programs["trainer"] = [
            *(*LEDGER, "trainer", server.url, RUN),
            *(str(len(workers)), str(episodes)),
        ]
        with (
            training(server, programs, folder) as run,
            watched_versions(server.url) as versions,
        ):
            run.kill_in_turn(kills, lambda: newest(calls), 3, seed=seed)
            output = run.wait_over(60.0)
        assert sum(run.kills.values()) >= kills // 2
        status = calls.status()
    check_ledger(json.loads(output.splitlines()[-1]), workers, episodes)
    assert versions == sorted(versions)
    check_sums(status["samples"])
    assert status["samples"]["stored"] == len(workers) * episodes


def newest(calls: RelayCalls) -> int:
    """Return the newest version of the weights."""
    weights = calls.status()["weights"]
    return int(weights["version"]) if weights else 0


def command(begin: str, url: str, *more: str) -> list[str]:
    """Return the words after "python" of a command in the README, and more."""
    python, *words = documented(f"python examples/relay/{begin}", url)
    assert python == "python"
    return [*words, *more]


def run_once(words: list[str]) -> str:
    """Run a program to its end, and return its output."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        # As those beside a server: variables of OpenBLAS decide the last bits.
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "clients/python"),
            "OPENBLAS_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def check_ledger(ledger: list[Any], workers: tuple[str, ...], episodes: int) -> None:
    """Check that each session has no gap, no double, and is in order."""
    positions = [row[4] for row in ledger]
    assert positions == list(range(1, len(ledger) + 1))
    sessions: dict[str, list[Any]] = {}
    for row in ledger:
        sessions.setdefault(row[1], []).append(row)
    for rows in sessions.values():
        assert [row[2] for row in rows] == list(range(1, len(rows) + 1))
        policies = [row[3] for row in rows]
        assert policies == sorted(policies)
        assert not any(row[5] for row in rows)
    for worker in workers:
        played = [row[6] for row in ledger if row[0] == worker]
        assert played == list(range(played[0], played[0] + episodes))


def check_sums(samples: dict[str, Any]) -> None:
    """Check the sums that hold at any time."""
    assert samples["sent"] == (
        samples["stored"] + samples["stale"] + samples["dropped"]
    )
    assert samples["stored"] == (
        samples["waiting"] + samples["leased"] + samples["consumed"] + samples["aside"]
    )


@contextmanager
def watched_versions(url: str) -> Iterator[list[int]]:
    """Collect the versions and check the sums, as an observer reads them meanwhile."""
    versions: list[int] = []
    with RelayCalls(url, RUN) as calls:

        def look() -> None:
            status = calls.status()
            check_sums(status["samples"])
            if status["weights"]:
                versions.append(status["weights"]["version"])

        with repeating(look, 0.02):
            yield versions
