"""Every problem is in the tree of its module's docstring, and in a document."""

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

import gym_http_server
from gym_http_server import errors
from gym_http_server.errors import GatewayProblem
from gym_http_wire import problems
from gym_http_wire.problems import Problem

ROOT = Path(gym_http_server.__file__).parents[1]
PACKAGES = (
    "gym_http_server",
    "clients/python/gym_http_core",
    "clients/python/gym_http_wire",
)
TREES = [problems, errors]
ENTRY = re.compile(r"^( +)[├└]─ ((?:.|\n +│ +(?!├|└))*)$", re.MULTILINE)
ROW = re.compile(r"^\| (\d{3}) (?:\| )?`([a-z-]+)` \|", re.MULTILINE)


def classes(module: ModuleType) -> dict[str, type[Problem]]:
    """Return the problems that a module defines, by name."""
    return {
        name: kind
        for name, kind in vars(module).items()
        if isinstance(kind, type)
        and issubclass(kind, Problem)
        and kind.__module__ == module.__name__
    }


def drawn(module: ModuleType) -> dict[str, tuple[int, int]]:
    """Read the tree in a module's docstring: each class with its depth and status."""
    found = {}
    for indent, words in ENTRY.findall(module.__doc__ or ""):
        names = re.findall(r"[A-Z]\w+", words.partition("   ")[0])
        names += re.findall(r"│ +((?:[A-Z]\w+,? ?)+)", words)
        status = re.search(r"(\d{3})$", words)
        for name in re.findall(r"\w+", " ".join(names)):
            found[name] = len(indent) // 4, int(status[1]) if status else 500
    return found


@pytest.mark.parametrize("module", TREES, ids=lambda module: module.__name__)
def test_every_problem_stands_in_the_tree_of_its_module(module: ModuleType) -> None:
    kinds = {name: kind for name, kind in classes(module).items() if kind != Problem}
    assert len(kinds) > 20
    tree = {name: place for name, place in drawn(module).items() if name in kinds}
    assert tree == {
        name: (kind.__mro__.index(Problem), kind.default_status)
        for name, kind in kinds.items()
    }
    assert set(classes(module)) <= set(module.__all__)


def test_problems_are_defined_in_the_modules_with_the_trees() -> None:
    known = set(classes(problems)) | set(classes(errors))
    files = {file for folder in PACKAGES for file in (ROOT / folder).rglob("*.py")}
    files -= {Path(module.__file__ or "") for module in TREES}
    strays = [
        (file.name, each.name)
        for file in files
        for each in ast.walk(ast.parse(file.read_text()))
        if isinstance(each, ast.ClassDef)
        and any(ast.unparse(base).split(".")[-1] in known for base in each.bases)
    ]
    assert len(files) > 100
    assert not strays


def test_every_problem_is_in_its_document() -> None:
    for module in TREES:
        for kind in classes(module).values():
            if kind is GatewayProblem:
                continue
            page = "zeromq.md" if issubclass(kind, GatewayProblem) else "api.md"
            rows = ROW.findall((ROOT / "docs" / page).read_text())
            assert (str(kind.default_status), kind.default_code) in rows
