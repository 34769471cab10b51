"""Every fast path that the benchmarks name can be switched off."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.fast_paths import FAST_PATHS
from benchmarks.questions import QUESTIONS

ROOT = Path(__file__).parents[2]
SHOW = "import sys, importlib; module = importlib.import_module(sys.argv[1]); "


def switched_off(name: str, code: str) -> str:
    """Return the output of code about a fast path's module, with the path off."""
    settings = {
        "BENCHMARK_WITHOUT": name,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'benchmarks' / 'hooks'}",
    }
    words = [sys.executable, "-c", SHOW + code, FAST_PATHS[name].module]
    return subprocess.check_output(
        words, env={**os.environ, **settings}, text=True, timeout=60
    )


@pytest.mark.parametrize("name", FAST_PATHS)
def test_each_can_be_switched_off(name: str) -> None:
    path = FAST_PATHS[name]
    assert set(path.questions) <= set(QUESTIONS)
    assert switched_off(name, "print('whole')") == "whole\n"


def test_callers_get_the_general_way() -> None:
    code = """print(module.fixed_writer(b'"int"   '))"""
    assert switched_off("generated-codec", code) == "None\n"
    code = "from gym_http_wire.elements import json_type; print(json_type(None))"
    assert switched_off("json-types", code) == "None\n"
