"""`gym_http_client.recordings` reads recordings that were cut, damaged or resumed."""

from pathlib import Path
from typing import Any

import pytest

from gym_http_client import recordings
from gym_http_wire.step_records import MAGIC, Kind, StepEncoder


def write(file: Path, *records: tuple[Kind, dict[str, Any]], cut: int = 0) -> None:
    encoder = StepEncoder()
    data = MAGIC + b"".join(encoder.encode(kind, 1, value) for kind, value in records)
    file.write_bytes(data[: len(data) - cut])


def header(instance_id: str = "a", num_envs: int | None = None) -> tuple[Kind, Any]:
    return Kind.HEADER, {"instance_id": instance_id, "num_envs": num_envs}


def reset(seed: int) -> tuple[Kind, Any]:
    value = {"seed": seed, "options": None, "observation": 0, "info": {}}
    return Kind.RESET, value


def step(action: int) -> tuple[Kind, Any]:
    value = {"action": action, "observation": 1, "reward": 0.5, "info": {}}
    return Kind.STEP, {**value, "terminated": False, "truncated": False}


def actions(source: Path) -> list[tuple[int | None, list[int]]]:
    return [(each.seed, each.actions) for each in recordings.read(source).episodes()]


@pytest.mark.parametrize("cut", [0, 1])
def test_an_episode_goes_on_in_the_next_part_but_not_after_a_cut(
    tmp_path: Path, cut: int
) -> None:
    write(tmp_path / "steps.gym", header(), reset(3), step(1), step(2), cut=cut)
    write(tmp_path / "steps.2.gym", header(), step(4), reset(5), step(6))
    first = [1] if cut else [1, 2, 4]
    assert actions(tmp_path) == [(3, first), (5, [6])]


def test_the_steps_of_another_instance_continue_no_episode(tmp_path: Path) -> None:
    write(tmp_path / "steps.gym", header("a"), reset(3), step(1))
    write(tmp_path / "steps.2.gym", header("b"), step(2), reset(4), step(5))
    assert actions(tmp_path) == [(3, [1]), (4, [5])]


def test_a_resumed_recording_continues_no_episode(tmp_path: Path) -> None:
    end = (Kind.END, {"reason": "closed"})
    write(tmp_path / "steps.gym", header(), reset(3), step(1), end)
    write(tmp_path / "steps.2.gym", header(), step(2))
    assert actions(tmp_path) == [(3, [1])]


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no steps\.gym"):
        recordings.read(tmp_path)
    write(tmp_path / "steps.gym", reset(3))
    with pytest.raises(ValueError, match="has no header"):
        recordings.read(tmp_path)
