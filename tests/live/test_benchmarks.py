"""The benchmarks run and write the documented results; the figures are not asserted."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from benchmarks import profile, thousands
from benchmarks.batches import piloted
from benchmarks.gauges import MICROSECONDS, rate
from benchmarks.measuring import Plan
from benchmarks.one_process import STAGES, one_process
from benchmarks.parts import QUESTIONS as PROFILES
from benchmarks.pinning import Mode
from benchmarks.questions import QUESTIONS
from benchmarks.report import row as make_row
from gym_http_client.bench.players import Round
from gym_http_server.linux.machine import MachineLimit
from tests.support.identity import assert_identical
from tests.support.server import ROOT

KEYS = {"name", "mode", "value", "unit", "ratio", "baseline"}


def test_more_per_second_or_less_time_is_better() -> None:
    rate = make_row("r", Mode.SAME, 200.0, "steps/s", "original", 100.0)
    time = make_row("t", Mode.FREE, 20.0, "ms", "fresh process", 50.0)
    assert (rate.mode, rate.ratio, rate.baseline) == ("same", 2.0, "original")
    assert (time.value, time.ratio, time.baseline) == (20.0, 2.5, "fresh process")


def test_beside_a_ping_pong_the_ratio_is_of_times() -> None:
    slower = make_row("s", Mode.SAME, 21.0, "us", "ping-pong", 7.0)
    faster = make_row("f", Mode.SPLIT, 20.0, "us", "ping-pong", 80.0)
    whole = make_row("w", Mode.SAME, 52.0, "us", "local step + ping-pong", 13.0)
    assert [each.ratio for each in (slower, faster, whole)] == [3.0, 0.25, 4.0]
    assert [each.better for each in (slower, faster, whole)] == [1 / 3, 4.0, 0.25]
    # As everywhere else, and not as beside a ping-pong.
    vector = make_row("v", Mode.SAME, 90.0, "steps/s", "local sync vector", 100.0)
    p50 = make_row("v_p50", Mode.SAME, 500.0, "us", "local sync vector", 400.0)
    assert (vector.ratio, p50.ratio) == (vector.better, p50.better) == (0.9, 0.8)


def test_values_that_a_gauge_reads() -> None:
    # Four steps of a vector of 64 in 0.1 s, and resets in the rest of the time.
    answer = Round(40.0, [0.001, 0.002, 0.003, 0.006])
    assert rate("steps/s", 64).figure(answer) == 2560.0
    assert MICROSECONDS.figure(answer) == pytest.approx(3000.0)


def test_each_question_has_rows_in_the_document() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    missing = [name for name in QUESTIONS if f"`{name}`" not in text]
    assert not missing


def test_the_document_has_the_tables_of_the_profile() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    answer = profile.tables(profile.read(ROOT / "benchmarks" / "profile.json"))
    assert profile.written_into(text, answer) == text
    assert all(f"| `{about}` | Median |" in text for about in PROFILES)
    changed = answer.replace(" us |", " ms |", 1)
    assert profile.written_into(text, changed) != text
    with pytest.raises(ValueError, match="until here"):
        profile.written_into(text.replace("until here", ""), answer)


def test_actions_that_are_sent_a_hundred_at_a_time_fill_an_episode() -> None:
    batches = piloted()
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=1)
    over = [any(env.step(each)[2:4]) for batch in batches for each in batch]
    assert [len(batch) for batch in batches] == [100] * 5
    assert over == [False] * 499 + [True]


def test_the_committed_figures_name_their_baselines() -> None:
    rows = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    assert all(each.keys() == KEYS for each in rows)
    assert all(isinstance(each["baseline"], str) for each in rows)
    assert len({(each["name"], each["mode"]) for each in rows}) == len(rows)


@pytest.mark.parametrize("count", [0, 3])
def test_both_ends_in_one_process_return_like_the_environment(count: int) -> None:
    vector = {"num_envs": count, "vectorization_mode": "sync"}
    ours, theirs = (
        gymnasium.make_vec("CartPole-v1", **vector)
        if count
        else gymnasium.make("CartPole-v1")
        for _ in range(2)
    )
    first, second = ours.reset(seed=3), theirs.reset(seed=3)
    assert_identical(first, second)
    theirs.action_space.seed(0)
    with one_process(ours) as both:
        for _ in range(12):
            action = theirs.action_space.sample()
            answer, times = both.step(action)
            keys = ("observation", "reward", "terminated", "truncated", "info")
            assert_identical(tuple(map(answer.get, keys)), theirs.step(action))
            assert len(times) == len(STAGES) + 1
            assert times == sorted(times)
    ours.close()
    theirs.close()


def bench(
    output: Path,
    *names: str,
    without: str = "",
    constants: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """Run some benchmarks briefly and return what they print.

    Args:
        output: The file for the rows.
        names: What to measure.
        without: The fast path to switch off.
        constants: Values that replace those of modules, by module and name.
    """
    only = [word for name in names for word in ("--only", name)]
    options = ["--rounds", "1", "--seconds", "0.2", "--output", str(output)]
    options += ["--without", without] if without else []
    code = "from benchmarks.__main__ import main\n"
    for module, values in (constants or {}).items():
        code += f"from benchmarks import {module}\n"
        code += "".join(f"{module}.{k} = {v!r}\n" for k, v in values.items())
    words = ["-c", f"{code}main()"] if constants else ["-m", "benchmarks"]
    done = subprocess.run(
        [sys.executable, *words, *only, *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_fast_path_is_compared_with_the_general_way(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    printed = bench(output, "stream_same", without="fast-frames")
    rows = [line.split() for line in printed.splitlines()]
    assert ["stream_same", "same"] in [each[:2] for each in rows]
    assert all(each[-2:] == ["without", "fast-frames"] for each in rows[1:])
    assert not output.exists()


# Four servers start, one after the other, maybe beside everything else.
@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_short_race_replaces_its_rows_and_keeps_the_others(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    kept = {"name": "other", "mode": "free", "unit": "ms", "baseline": "none"}
    kept |= {"value": 1.0, "ratio": 1.0}
    stale = kept | {"name": "rest_1", "mode": "same"}
    output.write_text(json.dumps([kept, stale]))
    printed = bench(output, "rest_1")
    rows = json.loads(output.read_text())
    assert rows[0] == kept
    assert stale not in rows
    assert all(row.keys() == KEYS for row in rows)
    assert {row["name"] for row in rows[1:]} == {"rest_1", "rest_1_p50", "rest_1_p99"}
    assert {"same"} <= {row["mode"] for row in rows[1:]} <= {"same", "split"}
    for row in rows[1:]:
        assert row["unit"] == ("steps/s" if row["name"] == "rest_1" else "us")
        assert row["baseline"] == "original"
        assert min(row["value"], row["ratio"]) > 0
        assert row["name"] in printed


# A server and a far end start for each, maybe beside everything else.
@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_short_races_with_local_twins(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    printed = bench(output, "remote_env_same", "vector64_same", "client_rest")
    rows = {each["name"]: each for each in json.loads(output.read_text())}
    found = {name: (each["unit"], each["baseline"]) for name, each in rows.items()}
    step, vector = "local step + ping-pong", "local sync vector"
    assert found == {
        "remote_env_same": ("us", step),
        "remote_env_same_p50": ("us", step),
        "remote_env_same_p99": ("us", step),
        "vector64_same": ("steps/s", vector),
        "vector64_same_p50": ("us", vector),
        "vector64_same_p99": ("us", vector),
        "client_rest": ("steps/s", "RemoteEnv without streams"),
        "client_rest_p50": ("us", "RemoteEnv without streams"),
        "client_rest_p99": ("us", "RemoteEnv without streams"),
    }
    for name, each in rows.items():
        assert each.keys() == KEYS
        assert each["mode"] == "same"
        assert min(each["value"], each["ratio"]) > 0
        assert name in printed


def test_a_question_is_left_out_without_its_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert QUESTIONS["cores_breakout64"](Plan(1, 0.1, 0.0)) == []
    words = "cores_breakout64: left out, since ale_py is not installed"
    assert words in capsys.readouterr().err


def test_a_fleet_is_left_out_without_a_store(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert QUESTIONS["fleet_stream"](Plan(1, 0.1, 0.0)) == []
    words = "fleet_stream: left out, since redis-server is not installed"
    assert words in capsys.readouterr().err


def test_ten_thousand_instances_are_left_out_without_room(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    room = MachineLimit(4975, "20000 open files in a process", "raise it")
    monkeypatch.setattr(thousands, "rooms", lambda path: [room])
    assert QUESTIONS["instances_10000"](Plan(1, 0.1, 0.0)) == []
    words = "there is room for 4975: 20000 open files in a process; raise it"
    assert words in capsys.readouterr().err


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_rows_of_many_cores_say_how_many(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    few = {"_MOST": 40, "_ALONE": 10, "_IDLE_SECONDS": 1.0, "_SETTLE_SECONDS": 0.1}
    names = ("cores_native64", "cores_stream_1", "cores_instances")
    bench(output, *names, constants={"thousands": few})
    cores = f"{len(os.sched_getaffinity(0))} cores"
    rows = {row["name"]: row for row in json.loads(output.read_text())}
    assert rows["cores_native64"]["baseline"] == "local native vector"
    assert rows["cores_stream_1"]["baseline"] == "local env"
    made = "creates", "idle", "pss", "list", "metrics", "first_steps", "closes"
    assert rows.keys() == {*names[:2], *(f"cores_{name}" for name in made)}
    assert all(row["mode"] == cores and row["value"] > 0 for row in rows.values())


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_external_environment_is_stepped_through_either_server(
    tmp_path: Path,
) -> None:
    output = tmp_path / "results.json"
    printed = bench(output, "external_python")
    rows = json.loads(output.read_text())
    found = {(row["name"], row["mode"], row["baseline"]) for row in rows}
    assert ("external_python", "same", "Tango's gateway") in found
    assert ("external_python", "free", "Tango's gateway") in found
    assert all(min(row["value"], row["ratio"]) > 0 for row in rows)
    assert "external_python" in printed


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_command_is_compared_with_a_connection_and_its_own_start(
    tmp_path: Path,
) -> None:
    output = tmp_path / "results.json"
    # The start is measured with the other dialect.
    few = {"_DIALECTS": ("typed",), "_STARTS": 1}
    bench(output, "command", constants={"commands": few})
    rows = json.loads(output.read_text())
    found = {row["name"]: (row["unit"], row["baseline"]) for row in rows}
    leased = ("us", "leased connection")
    expected = {"command_typed": leased, "command_typed_p50": leased}
    assert expected.items() <= found.items()
    assert found["command_start_ms"] == ("ms", "command")
    assert all(min(row["value"], row["ratio"]) > 0 for row in rows)


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_short_profile_replaces_its_table_and_keeps_the_others(
    tmp_path: Path,
) -> None:
    output, document = tmp_path / "profile.json", tmp_path / "benchmarks.md"
    output.write_text((ROOT / "benchmarks" / "profile.json").read_text())
    document.write_text(f"before\n{profile.BEGIN}{profile.END}after\n")
    options = ["--rounds", "1", "--seconds", "0.2", "--only", "stream_same"]
    files = ["--output", str(output), "--document", str(document)]
    subprocess.run(
        [sys.executable, "-m", "benchmarks.profile", *options, *files],
        cwd=ROOT,
        check=True,
        timeout=280,
    )
    before = profile.read(ROOT / "benchmarks" / "profile.json")
    now = profile.read(output)
    assert [each.part for each in now] == [each.part for each in before]
    for old, new in zip(before, now, strict=True):
        assert old == new or new.about == "stream_same"
    assert all(each.value > 0 for each in now if "more" not in each.part)
    answer = profile.tables(now)
    assert document.read_text() == (
        f"before\n{profile.BEGIN}\n{answer}\n{profile.END}after\n"
    )
