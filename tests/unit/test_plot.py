"""The picture of the benchmarks is a PNG file that shows every row."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image, ImageChops

from benchmarks.plot import bars, draw, draw_headlines
from benchmarks.report import Row, read
from tests.support.server import ROOT

BLUE, ORANGE = (0, 114, 178), (230, 159, 0)


def row(name: str, ratio: float, mode: str = "same", baseline: str = "original") -> Row:
    """Return a row of which only that matters."""
    return Row(name, mode, 100.0, "steps/s", ratio, baseline)


ROWS = [
    row("rest_1", 4.5),
    row("rest_1_p50", 5.0),
    row("rest_1_p99", 2.5),
    row("rest_1", 3.0, "split"),
    row("start", 12.0, "free", "fresh process"),
    row("slow", 0.25),
    row("alone_p50", 400.0, "free"),
]


@pytest.fixture(scope="module", autouse=True)
def fonts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Draw once: Matplotlib keeps the fonts open that it has used."""
    draw(ROWS, tmp_path_factory.mktemp("fonts") / "a.png")


def test_percentiles_are_marks_on_their_rows() -> None:
    found = [(bar.row.name, bar.row.mode, bar.marks) for bar in bars(ROWS)]
    assert found == [
        ("rest_1", "same", {"p50": 5.0, "p99": 2.5}),
        ("rest_1", "split", {}),
        ("slow", "same", {}),
        ("alone_p50", "free", {}),
        ("start", "free", {}),
    ]


def test_a_bar_beside_a_ping_pong_shows_the_ratio() -> None:
    # Four times the time of a ping-pong is no achievement, and a quarter of it is one.
    rows = [
        row("stream", 4.0, baseline="ping-pong"),
        row("stream_p50", 2.0, baseline="ping-pong"),
        row("stream", 0.25, "split", "ping-pong"),
    ]
    found = [(bar.row.better, bar.marks) for bar in bars(rows)]
    assert found == [(0.25, {"p50": 0.5}), (4.0, {})]


def picture(rows: list[Row], path: Path) -> Image.Image:
    """Draw rows and return the picture."""
    draw(rows, path)
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert 5_000 < len(data) < 500_000
    image = Image.open(io.BytesIO(data))
    image.load()
    return image.convert("RGB")


def count(image: Image.Image, colour: tuple[int, int, int]) -> int:
    """Return how many pixels have a colour."""
    found = image.getcolors(image.width * image.height) or []
    return sum(number for number, each in found if each == colour)


def test_the_picture(tmp_path: Path) -> None:
    image = picture(ROWS, tmp_path / "a.png")
    assert 1000 < image.width < 1200, "as wide as a README shows"
    assert 250 < image.height < 500
    assert count(image, BLUE) > 1000
    assert count(image, ORANGE) > 1000
    twice = ROWS + [row(f"more_{number}", 2.0) for number in range(5)]
    assert picture(twice, tmp_path / "b.png").height == image.height + 5 * 36
    assert not count(picture(ROWS[:4], tmp_path / "c.png"), ORANGE)


def test_a_longer_bar_has_more_colour(tmp_path: Path) -> None:
    # Beside the same other row, so on the same scale.
    long, short = (
        count(picture([row("a", 10.0, baseline="b"), row("c", ratio)], path), ORANGE)
        for ratio, path in ((8.0, tmp_path / "l.png"), (2.0, tmp_path / "s.png"))
    )
    assert long > 2 * short


def test_equal_rows_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw(ROWS, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_no_rows_no_picture(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="make bench"):
        draw([], tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_the_command_draws_the_figures_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.plot"),
            *("--output", str(path), "--headlines", str(tmp_path / "b.png")),
        ],
        cwd=ROOT,
        timeout=50,
        check=True,
    )
    with Image.open(path) as ours, Image.open(ROOT / "docs/benchmarks.png") as kept:
        assert ours.size == kept.size, "docs/benchmarks.png is of other rows"
        assert len(bars(read(ROOT / "benchmarks" / "results.json"))) * 36 < ours.height
    with (
        Image.open(tmp_path / "b.png") as ours,
        Image.open(ROOT / "docs/speed.png") as kept,
    ):
        difference = ImageChops.difference(ours.convert("RGB"), kept.convert("RGB"))
        assert not difference.getbbox(), "docs/speed.png is of other rows"


def test_a_missing_headline_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no rows rest_4 \(free\), vector64_async"):
        draw_headlines(ROWS, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_nothing_that_is_shipped_loads_it() -> None:
    modules = [
        "gym_http_server.commands.cli",
        "gym_http_server.web.app",
        "gym_http_server.supervisor.supervisor",
        "gym_http_client",
        "gym_http_client.bench.players",
    ]
    program = f"import sys, {', '.join(modules)}; print('matplotlib' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert output.stdout == "False\n"
