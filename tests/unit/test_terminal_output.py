"""Tables for terminals."""

import io

import pytest

from gym_http_server.commands.terminal_output import (
    Column,
    amount,
    duration,
    size,
    table,
)

COLUMNS = (
    Column("ID"),
    Column("ENV", least=5, weight=2),
    Column("LABEL", least=5, optional=True),
    Column("N", right=True),
)


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")


def test_columns_are_aligned() -> None:
    rows = [["3c657dbc", "CartPole-v1", "a", "1"], ["91fe00aa", "Taxi-v4", "", "1000"]]
    assert table(COLUMNS, rows).splitlines() == [
        "ID        ENV          LABEL     N",
        "3c657dbc  CartPole-v1  a         1",
        "91fe00aa  Taxi-v4             1000",
    ]


def test_a_column_without_content_is_left_out() -> None:
    rows = [["3c657dbc", "CartPole-v1", "", "1"]]
    assert table(COLUMNS, rows).splitlines() == [
        "ID        ENV          N",
        "3c657dbc  CartPole-v1  1",
    ]


def test_wide_cells_are_shortened() -> None:
    rows = [["3c657dbc", "CartPole-v1" * 5, "label" * 5, "1"]]
    lines = table(COLUMNS, rows).splitlines()
    assert {len(line) for line in lines} == {40}
    assert lines[1] == "3c657dbc  CartPole-v1CartP…  labella…  1"


def test_a_file_or_pipe_gets_whole_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("sys.__stdout__", io.StringIO())
    label = "ppo lunar lander, learning rate 3e-4, seed 1"
    rows = [["3c657dbc", "CartPole-v1" * 5, label, "1"]]
    assert f"{'CartPole-v1' * 5}  {label}  1" in table(COLUMNS, rows)


def test_long_names_lose_their_middle() -> None:
    columns = (Column("ID"), Column("LABEL", least=5, middle=True))
    labels = ["ppo-lunar-lander-of-three-seeds-1", "ppo-lunar-lander-of-three-seeds-2"]
    assert table(columns, [["3c657dbc", each] for each in labels]).splitlines() == [
        "ID        LABEL",
        "3c657dbc  ppo-lunar-lande…-three-seeds-1",
        "3c657dbc  ppo-lunar-lande…-three-seeds-2",
    ]


def test_a_narrow_terminal_leaves_columns_out() -> None:
    columns = (
        Column("ID"),
        Column("LABEL", least=16),
        Column("STEPS", right=True, leave=2),
        Column("EPIS", right=True, leave=1),
    )
    rows = [["3c657dbc", "a label of some length", "123456", "12345"]]
    assert table(columns, rows).splitlines() == [
        "ID        LABEL                    STEPS",
        "3c657dbc  a label of some length  123456",
    ]


def test_wide_characters_take_two_columns() -> None:
    rows = [["1", "日本語", "", "1"], ["2", "abcdef", "", "2"]]
    assert table(COLUMNS, rows).splitlines() == [
        "ID  ENV     N",
        "1   日本語  1",
        "2   abcdef  2",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.9, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (7199, "119m"),
        (7200, "2h"),
        (2 * 24 * 3600, "2d"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (12_345, "12.3k"), (999_999, "999k")],
)
def test_amounts(count: int, text: str) -> None:
    assert amount(count) == text


def test_sizes() -> None:
    assert [size(85 * 2**20), size(1.25 * 2**30)] == ["85.0M", "1.2G"]


def test_a_cell_moves_no_cursor() -> None:
    rows = [["3c657dbc", "a\x1b[2Jb", "c\u202ed\ne", "1"]]
    assert table(COLUMNS, rows).splitlines()[1:] == ["3c657dbc  a?[2Jb  c?d?e  1"]
