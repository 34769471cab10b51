"""The library by which MuJoCo draws without a display is one that can be loaded."""

import os
import re
from pathlib import Path

import pytest

from gym_http_server.supervisor import opengl
from gym_http_server.supervisor.opengl import choose_opengl


@pytest.mark.parametrize(
    ("loadable", "chosen"),
    [
        ({"libEGL.so.1", "libOSMesa.so.8"}, "egl"),
        ({"libEGL.so"}, "egl"),
        ({"libOSMesa.so.6"}, "osmesa"),
        (set[str](), "disable"),
    ],
)
def test_the_best_one_is_chosen(loadable: set[str], chosen: str) -> None:
    variables: dict[str, str] = {"DISPLAY": ""}
    choose_opengl(variables, loadable.__contains__)
    assert variables == {"DISPLAY": "", "MUJOCO_GL": chosen}


@pytest.mark.parametrize("given", [{"DISPLAY": ":0"}, {"MUJOCO_GL": "glfw"}])
def test_the_choice_of_a_person_is_kept(given: dict[str, str]) -> None:
    variables = dict(given)
    choose_opengl(variables, lambda name: True)
    assert variables == given


def loaded() -> set[str]:
    """List the libraries that this process has loaded."""
    with open(f"/proc/{os.getpid()}/maps") as maps:
        return set(re.findall(r"/\S*\.so\S*", maps.read()))


def test_libraries_are_tried_in_a_child() -> None:
    variables: dict[str, str] = {}
    before = loaded()
    choose_opengl(variables)
    assert loaded() == before
    assert variables["MUJOCO_GL"] in ("egl", "osmesa", "disable")


def test_a_library_whose_loading_never_ends_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To open a pipe waits for its other end.
    os.mkfifo(tmp_path / "libEGL.so")
    monkeypatch.setattr(opengl, "_LIBRARIES", {"egl": (str(tmp_path / "libEGL.so"),)})
    monkeypatch.setattr(opengl, "LOAD_SECONDS", 1, raising=False)
    variables: dict[str, str] = {}
    choose_opengl(variables)
    assert variables == {"MUJOCO_GL": "disable"}
