"""docs/clients/values.md describes values as the drivers show them."""

import json
import re
from collections.abc import Callable

import pytest

from tests.support.drivers import VECTORS, Program
from tests.support.server import ROOT

PAGE = (ROOT / "docs" / "clients" / "values.md").read_text(encoding="utf-8")
HEAD = ["Value", "Vector", "Python", "Lua 5.1, LuaJIT", "Lua 5.3, 5.4", "C++"]
HEAD += ["JavaScript"]
COLUMNS = {
    "python": "Python",
    "lua5.1": "Lua 5.1, LuaJIT",
    "luajit": "Lua 5.1, LuaJIT",
    "lua5.3": "Lua 5.3, 5.4",
    "lua5.4": "Lua 5.3, 5.4",
    "cpp": "C++",
    "js": "JavaScript",
}

pytestmark = [
    pytest.mark.toolchain,
    # The C++ driver is built within the first test that needs it.
    pytest.mark.timeout(300),
]


def rows() -> list[dict[str, str]]:
    """Read the table, each row by the names of its columns."""
    table = [line for line in PAGE.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]
    assert cells[0] == HEAD
    return [dict(zip(HEAD, row, strict=True)) for row in cells[1:]]


def words(cell: str) -> list[str]:
    """Return the code spans in a cell."""
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("name", COLUMNS)
def test_types_are_those_that_the_driver_shows(
    name: str, driver: Callable[[str], Program]
) -> None:
    lines = driver(name).output("show", str(VECTORS)).splitlines()
    shown = dict(line.split("\t") for line in lines)
    fields = {}
    for row in rows():
        cell = words(row[COLUMNS[name]])
        fields |= dict.fromkeys(words(row["Vector"]), cell)
    assert fields == {vector: [shown[vector]] for vector in fields}


def test_all_kinds_of_values_are_documented() -> None:
    cases = json.loads((VECTORS / "values.json").read_bytes())["cases"]
    by_id = {case["id"]: case["value"] for case in cases}
    found = [by_id[vector] for row in rows() for vector in words(row["Vector"])]
    assert {next(iter(each)) for each in found} == {
        next(iter(v)) for v in by_id.values()
    }
    arrays = {each["nd"]["dtype"] for each in found if "nd" in each}
    numeric = {v["nd"]["dtype"] for v in by_id.values() if "items" in v.get("nd", {})}
    assert numeric <= arrays
    assert {each[1] for each in arrays} >= set("cUMm")
