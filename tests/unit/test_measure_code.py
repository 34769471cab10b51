"""``scripts/measure_code.py`` on packages made by hand."""

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.server import ROOT

SCRIPT = ROOT / "scripts" / "measure_code.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measure_code", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    # Where dataclasses look for the module of a class.
    sys.modules["measure_code"] = module
    spec.loader.exec_module(module)
    return module


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, source in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return folder


def test_modules_lines_and_functions(script: ModuleType, tmp_path: Path) -> None:
    short = "def f():\n    return 1\n"
    long = (
        "class A:\n    def m(self):\n        a = 1\n        b = 2\n        return a\n"
    )
    write(
        tmp_path, {"p/__init__.py": "", "p/a.py": short, "p/b.py": f"{short}\n{long}"}
    )
    found = script.measure(tmp_path)["p"]
    assert (found.modules, found.lines) == (3, 10)
    assert found.median_function == 2
    assert (found.longest_function, found.longest_name) == (4, "p.b.A.m")


def test_one_importer(script: ModuleType, tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "",
        "p/once.py": "",
        "p/twice.py": "",
        "p/a.py": "from p import once\nfrom p.twice import x\n",
        "p/b.py": "def f():\n    import p.twice\n",
        "tests/__init__.py": "from p import a, b, once\n",
    }
    # Of p's four modules, only `once` has one importer: tests do not count.
    assert script.measure(write(tmp_path, files))["p"].one_importer == 1 / 4


def test_importers_in_other_packages_count(script: ModuleType, tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "",
        "p/a.py": "from q import b\n",
        "clients/python/q/__init__.py": "",
        "clients/python/q/b.py": "",
    }
    found = script.measure(write(tmp_path, files))
    assert found["q"].one_importer == 1
    assert found["p"].one_importer == 0


@pytest.mark.parametrize(
    "back",
    [
        "import p.a\n",
        "from p.a import A\n",
        "from .a import A\n",
        "from . import a\n",
        "def f():\n    from p import a\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import A\n",
    ],
)
def test_circles(script: ModuleType, tmp_path: Path, back: str) -> None:
    files = {
        "p/__init__.py": "",
        "p/a.py": "from p import b\n",
        "p/b.py": "from p import c\n",
        "p/c.py": back,
        "p/d.py": "from p import a\n",
    }
    circles = script.measure(write(tmp_path, files))["p"].circles
    assert circles == [["p.a", "p.b", "p.c"]]


def test_a_line_of_imports_is_no_circle(script: ModuleType, tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "",
        "p/a.py": "from p import b, c\n",
        "p/b.py": "from p import c\n",
        "p/c.py": "",
    }
    assert script.measure(write(tmp_path, files))["p"].circles == []


def test_classes_that_share_a_name(script: ModuleType, tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "",
        "p/a.py": "class Hello: ...\nclass Own:\n    class Inner: ...\n",
        "p/b.py": "class Hello: ...\nclass Other:\n    class Inner: ...\n",
        "q/__init__.py": "class Own: ...\n",
    }
    found = script.measure(write(tmp_path, files))
    assert found["p"].shared_names == {"Hello": ["p.a", "p.b"]}
    assert found["q"].shared_names == {}


def test_a_package_is_measured_by_itself(script: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, {"p/__init__.py": "", "p/a.py": ""})
    assert list(script.measure(tmp_path / "p")) == ["p"]


def test_states_stand_beside_each_other(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = write(tmp_path / "old", {"p/__init__.py": "", "p/a.py": "class A: ...\n"})
    new = write(tmp_path / "new", {"p/__init__.py": "class A: ...\n"})
    write(new, {"p/a.py": "class A: ...\n", "p/b.py": "from p import a\n"})
    script.main([str(old), str(new)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["p"]
    assert ["modules", "2", "3"] in lines
    assert ["one", "importer", "0%", "50%"] in lines
    assert ["A", "in", f"{new}:", "p,", "p.a"] in lines


def test_a_commit_is_measured(script: ModuleType) -> None:
    assert script.measure_state("HEAD").keys() >= {"gym_http_server", "gym_http_client"}
