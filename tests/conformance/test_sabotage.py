"""Every client fails the vectors that are wrong by one byte.

In a copy of the vectors, one byte is changed in a case of each kind, and in several
where a case checks several things. Each client has to fail exactly these cases.
"""

import json
import re
import shutil
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conformance.generate import KINDS
from tests.support.drivers import DRIVERS, VECTORS, Program
from tests.support.server import Server

pytestmark = [
    pytest.mark.toolchain,
    # The C++ driver is built within the first test that needs it.
    pytest.mark.timeout(300),
]


class Change(NamedTuple):
    """A change of one byte.

    Attributes:
        kind: The file, without its ending.
        id: The case.
        path: Keys and indices of a string in the case.
        old: The replaced part of the string, at its last occurrence.
        new: Its replacement, of the same length.
    """

    kind: str
    id: str
    path: tuple[str | int, ...]
    old: str
    new: str


CHANGES = [
    Change("values", "float-tenth", ("value", "float"), "9a", "9b"),
    Change("values", "str-ascii", ("typed",), "Lake", "Lakf"),
    Change("values", "nd-f4-2x3", ("binary",), "3f", "3e"),
    Change("values", "int-2-53-plus-1", ("value", "int"), "993", "992"),
    Change("values", "dict-order", ("typed",), '"y"', '"x"'),
    Change("numbers", "int-2-64-minus-1", ("value", "int"), "615", "614"),
    Change("numbers", "float-13", ("value", "float"), "34", "33"),
    Change("numbers", "refused-leading-zero", ("text",), "01", "11"),
    Change("spaces", "box-float32", ("space", "dtype"), "32", "33"),
    Change("spaces", "refused-type-other-case", ("space", "type"), "d", "D"),
    Change("elements", "box", ("plain",), "25]", "24]"),
    Change("elements", "no-box-above", ("value", "nd", "items", 1), "3fc", "3ec"),
    Change("frames", "answer-binary", ("frame", "body"), "20", "21"),
    Change("frames", "request-step-plain", ("hex",), "7d", "7c"),
    Change("signatures", "named-and-called", ("messages", 1, "value", "int"), "2", "3"),
    Change("malformed", "typed-int-plus", ("text",), "+1", "11"),
    Change("malformed", "binary-bool-2", ("hex",), "02", "01"),
    Change("errors", "unauthorized", ("expected", "message"), "says", "sayz"),
    Change("errors", "env-refused", ("expected", "code"), "refused", "refusee"),
    Change("websocket", "handshake-1", ("accept",), "xOo=", "xOp="),
    Change("websocket", "ping", ("payload",), "7c", "7d"),
    Change("websocket", "rfc-hello-masked", ("hex",), "58", "59"),
    Change("websocket", "messages-two", ("messages", 1, "payload"), "6f", "6e"),
    Change(
        *("transcripts", "cart-pole"),
        ("reset", "observation", "nd", "items", 0),
        *("bf", "be"),
    ),
]


def changed(text: str, change: Change) -> str:
    """Change the last place in a string where the old byte stands."""
    before, found, after = text.rpartition(change.old)
    assert found, f"{change.id} has no {change.old!r}"
    assert len(change.old) == len(change.new)
    return before + change.new + after


def apply(case: Any, change: Change) -> None:
    """Change a case."""
    *way, last = change.path
    holder = reduce(lambda part, step: part[step], way, case)
    holder[last] = changed(holder[last], change)


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the vectors and change them."""
    folder = tmp_path_factory.mktemp("vectors")
    shutil.copytree(VECTORS, folder, dirs_exist_ok=True)
    for kind in KINDS:
        path = folder / f"{kind}.json"
        content = json.loads(path.read_bytes())
        by_id = {case["id"]: case for case in content["cases"]}
        for change in CHANGES:
            if change.kind == kind:
                apply(by_id[change.id], change)
        path.write_text(json.dumps(content))
    return folder


def test_all_kinds_are_changed() -> None:
    # Those of environments that connect in have tests of their own.
    assert {change.kind for change in CHANGES} == set(KINDS) - {"external", "bundles"}
    for change in CHANGES:
        pairs = zip(change.old, change.new, strict=True)
        assert sum(old != new for old, new in pairs) == 1


@pytest.mark.live
@pytest.mark.parametrize("name", DRIVERS)
def test_changed_bytes_are_seen(
    name: str, driver: Callable[[str], Program], server: Server, spoilt: Path
) -> None:
    done = driver(name).run("conformance", str(spoilt), server.url)
    assert done.returncode == 1, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    seen = set(re.findall(r"^FAIL (\w+)\.json ([^:]+): ", done.stdout, re.MULTILINE))
    expected = {(change.kind, change.id) for change in CHANGES}
    assert seen == expected
