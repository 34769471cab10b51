"""`gym_http_client.recording_exports` refuses what an export has no form for."""

import math
from pathlib import Path
from typing import Any

import minari
import numpy as np
import pytest
from gymnasium import Space, spaces

from gym_http_client import recording_exports, recordings
from gym_http_client.recordings import StepRecording
from gym_http_wire.spaces import describe
from gym_http_wire.step_records import MAGIC, Kind, StepEncoder
from tests.support.envs.opaque_spaces import Mission, polite

NUMBER = spaces.Discrete(3)
INFOS = [{"lives": 3}, {"lives": 2}]


def recording(
    folder: Path, space: Space[Any], values: list[Any], infos: list[dict[str, Any]]
) -> StepRecording:
    """Write a recording with one episode, and open it."""
    first, *others = zip(values, infos, strict=True)
    named = {"observation_space": describe(space), "action_space": describe(NUMBER)}
    header = {"instance_id": "a", "num_envs": None, "spec": None, **named}
    start = {"observation": first[0], "info": first[1]}
    records = [(Kind.HEADER, header)]
    records += [(Kind.RESET, {"seed": 1, "options": None, **start})]
    for value, info in others:
        step = {"action": 1, "observation": value, "reward": math.inf, "info": info}
        records.append((Kind.STEP, {**step, "terminated": False, "truncated": False}))
    encoder = StepEncoder()
    data = b"".join(encoder.encode(kind, 1, value) for kind, value in records)
    (folder / "steps.gym").write_bytes(MAGIC + data)
    return recordings.read(folder)


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder where Minari keeps datasets."""
    folder = tmp_path / "datasets"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Graph(NUMBER, None), "observation_space is a Graph"),
        (spaces.Dict(a=spaces.Sequence(NUMBER)), r"space\['a'\] is a Sequence"),
        (
            spaces.Tuple([NUMBER, spaces.OneOf([NUMBER, NUMBER])]),
            r"space\[1\] is a OneOf",
        ),
        (
            spaces.Dict(a=Mission(polite)),
            r"space\['a'\] is a tests.support.envs.opaque_spaces:Mission",
        ),
    ],
)
def test_a_space_without_a_form_is_named_and_nothing_is_written(
    tmp_path: Path, datasets: Path, space: Space[Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        recording_exports.to_minari(recording(tmp_path, space, [0, 0], INFOS), "a-v0")
    assert not datasets.exists()


@pytest.mark.parametrize(
    "dataset_id", ["lake/random", "lake", "lake/", "/a-v0", "lake/x-v-1", "x-v0.5", ""]
)
def test_an_id_without_a_version_is_refused(
    tmp_path: Path, datasets: Path, dataset_id: str
) -> None:
    words = f"the ID of the dataset is '{dataset_id}': expected a name that ends with"
    made = recording(tmp_path, NUMBER, [0, 1], INFOS)
    with pytest.raises(ValueError, match=words):
        recording_exports.to_minari(made, dataset_id)
    assert not datasets.exists()


@pytest.mark.filterwarnings("ignore:.* is set to None")
def test_infos_with_other_keys_leave_nothing(tmp_path: Path, datasets: Path) -> None:
    uneven = recording(tmp_path, NUMBER, [0, 1], [{}, {"lives": 2}])
    with pytest.raises(ValueError, match=r"step 1 have \['lives'\]; leave out infos"):
        recording_exports.to_minari(uneven, "a-v0", infos=True)
    assert not (datasets / "a-v0").exists()
    made = recording_exports.to_minari(uneven, "a-v0")
    assert made.total_steps == 1
    with pytest.raises(ValueError, match="exists already"):
        recording_exports.to_minari(uneven, "a-v0")
    assert minari.load_dataset("a-v0").total_steps == 1


@pytest.mark.filterwarnings("ignore:.* is set to None")
def test_nested_values_and_infos_are_stored(tmp_path: Path, datasets: Path) -> None:
    text = spaces.Text(4)
    space = spaces.Dict(words=text, both=spaces.Tuple([NUMBER, spaces.MultiBinary(2)]))
    bits = np.array([1, 0], np.int8)
    values = [{"words": word, "both": (2, bits)} for word in ("ab", "c")]
    made = recording_exports.to_minari(
        recording(tmp_path, space, values, INFOS), "nested/a-v0", infos=True
    )
    (episode,) = made.iterate_episodes()
    assert episode.observations["words"] == ["ab", "c"]
    numbers, rows = episode.observations["both"]
    assert numbers.tolist() == [2, 2]
    assert np.array_equal(rows, [bits, bits])
    assert rows.dtype == np.int8
    assert episode.infos["lives"].tolist() == [3, 2]
    # An episode that was cut short counts as truncated.
    assert episode.truncations.tolist() == [True]


def test_numbers_that_json_lacks_are_those_of_answers(tmp_path: Path) -> None:
    space = spaces.Box(-1, 1, (2,))
    odd = np.array([math.nan, -math.inf], np.float32)
    lines = list(
        recording_exports.json_lines(recording(tmp_path, space, [odd, odd], INFOS))
    )
    assert [each["observation"] for each in lines] == [[None, -1e100]] * 2
    assert lines[1]["reward"] == 1e100


def test_observations_that_are_no_pictures_have_no_animation(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no pictures, but Discrete\(3\)"):
        recording_exports.to_gif(
            recording(tmp_path, NUMBER, [0, 1], INFOS), tmp_path / "a.gif"
        )
