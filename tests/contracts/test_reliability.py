"""The page of reliability checks names existing tests, and each check once."""

import re

from tests.support.server import ROOT

PAGE = ROOT / "docs" / "reliability.md"
ROW = re.compile(r"\| ([A-J]\d+) \|.*\| ([^|]+) \| ([^|]*)\|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`")
CHECKS = (
    "A1 A4 A5 A7 B1 B2 B3 B4 B6 B7 B10 B11 C1 C3 C5 C6 D2 D4 D6 D8 E1 E5 "
    "F1 F2 F4 F5 F7 F8 G3 H1 H3 H6 H7 I1 I2 "
    "J1 J2 J3 J4 J5 J6 J7 J8 J9 J10 J11"
)


def test_each_check_has_a_row() -> None:
    rows = ROW.findall(PAGE.read_text())
    assert [check for check, _, _ in rows] == CHECKS.split()


def test_each_verdict_is_shown_by_something() -> None:
    for check, verdict, shown_by in ROW.findall(PAGE.read_text()):
        kind = verdict.split()[0].rstrip(":")
        assert kind in ("pass", "not"), f"{check}: {verdict}"
        assert TEST.search(shown_by) or "the soak" in shown_by, check


def test_the_tests_exist() -> None:
    named = TEST.findall(PAGE.read_text())
    assert named
    for path, name in named:
        assert f"\ndef {name}(" in (ROOT / path).read_text(), f"{path}::{name}"
