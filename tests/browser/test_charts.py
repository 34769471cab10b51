"""The charts of the page: values by pointer and keys, zoom, smoothing, tables."""

from collections.abc import Iterator

import pytest

from tests.support.peers.checked_page import CheckedPage
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(120)]

SECONDS = 20.0
#: Draws charts in place of the view. The points of "one" are at 0, 10, …, 99,990 steps.
DRAW = """
(async () => {
  const { ChartGroup } = await import("/dashboard/js/chart.js");
  const group = new ChartGroup(["episode", "step"]);
  const made = group.chart({ label: "Return", unit: "points" });
  const points = Array.from({ length: %d }, (_, n) =>
    ({ episode: n, step: 10 * n, y: n === 777 ? 5000 : n %% 7 }));
  made.series("one").set(points);
  const ends = [0, 9].map((n) => ({ episode: n, step: 10 * n, y: 3 }));
  if (%s) made.series("two").set(ends);
  document.querySelector("main").replaceChildren(group.controls, made.element);
  globalThis.made = made;
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
})()
"""
VALUE = "document.querySelector('.curve-plot').ariaValueText"
AXIS = (
    "[...document.querySelectorAll('.curve-axes text')].map((each) => each.textContent)"
)
TWICE = "document.querySelector('.curve-plot').dispatchEvent(new Event('dblclick'))"
PLACE = """(() => {
  const plot = document.querySelector(".curve-plot");
  const { left, top, height } = plot.getBoundingClientRect();
  const { x, width } = document.querySelector(".chart-lines");
  return [x, width].map((each) => each.baseVal.value).concat(left, top + height / 2);
})()"""
PATHS = """[...document.querySelectorAll('.chart-lines path')]
  .map((each) => each.getAttribute('d').split('L').length)"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


@pytest.fixture
def page(server: Server) -> Iterator[CheckedPage]:
    """A page whose errors and violations fail the test."""
    with CheckedPage() as opened:
        opened.open(f"{server.url}/")
        opened.shows("slots taken")
        yield opened
        assert opened.faults == []


def draw(page: CheckedPage, points: int, *, two: bool = False) -> None:
    """Draw a chart of so many points, with a second series if wanted."""
    page.run(DRAW % (points, str(two).lower()))


def plot(page: CheckedPage) -> tuple[float, float, float]:
    """Return left, right and middle of the plot, in pixels of the window."""
    x, width, left, middle = (float(each) for each in page.run(PLACE))
    return left + x, left + x + width, middle


def test_ten_thousand_points_are_few_lines_and_keep_the_peak(page: CheckedPage) -> None:
    draw(page, 10_000)
    left, right, _ = plot(page)
    raw, smooth = page.run(PATHS)
    assert smooth <= 4 * (right - left + 1)
    assert raw <= 4 * (right - left + 1)
    # The one value of 5000 makes the axis, so it is on the plot.
    assert "4000" in page.run(AXIS)
    page.focus(".curve-plot")
    page.strike("Home")
    assert page.run(VALUE) == "Return, episode 0: 0 points"
    page.strike("ArrowRight")
    assert page.run(VALUE) == "Return, episode 1: 1 points"
    page.strike("End")
    assert page.run(VALUE) == "Return, episode 9999: 3 points"


def test_a_dragged_range_is_zoomed_and_a_double_click_shows_all(
    page: CheckedPage,
) -> None:
    draw(page, 1001)
    left, right, middle = plot(page)
    page.point((left + right) / 2, middle)
    shown = page.run("document.querySelector('.chart-tip').innerText")
    assert "episode 500" in shown
    assert "points" in shown
    page.drag((left, middle), ((left + right) / 2, middle))
    assert page.run("document.querySelector('.chart-whole').checkVisibility()")
    # The first half is as wide as the whole was.
    page.point(left + (right - left) * 0.8, middle)
    assert page.run(VALUE).startswith("Return, episode 400:")
    page.run(TWICE)
    page.point(left + (right - left) * 0.8, middle)
    wait_until(
        lambda: page.run(VALUE).startswith("Return, episode 800:"), SECONDS, "all"
    )
    page.focus(".curve-plot")
    page.strike("Home")
    page.strike("+")
    assert page.run("document.querySelector('.chart-whole').checkVisibility()")
    page.strike("Escape")
    assert not page.run("document.querySelector('.chart-whole').checkVisibility()")


def test_x_and_smoothing_are_chosen_and_kept(page: CheckedPage) -> None:
    draw(page, 100)
    assert len(page.run(PATHS)) == 2
    page.focus(".chart-controls input")
    page.strike("Home")
    wait_until(lambda: len(page.run(PATHS)) == 1, SECONDS, "no smoothed line")
    page.run(
        "const list = document.querySelector('.chart-controls select');"
        "list.value = 'step'; list.dispatchEvent(new Event('change'))"
    )
    wait_until(lambda: "step 990" in page.run(VALUE), SECONDS, "x by step")
    page.run("location.reload()")
    page.shows("slots taken")
    draw(page, 100)
    assert "step 990" in page.run(VALUE)
    assert len(page.run(PATHS)) == 1


def test_two_series_have_a_legend_and_a_table_of_values(page: CheckedPage) -> None:
    draw(page, 10, two=True)
    assert page.run(VALUE) == "Return, episode 9: one 2, two 3 points"
    page.press(".chart-table summary")
    page.shows("Return (points)")
    cells = (
        "[...document.querySelector('.chart-table tbody').rows[8].cells]"
        ".map((each) => each.textContent)"
    )
    assert page.run(cells) == ["8", "1", "3"]
    page.press(".chart-legend button")
    wait_until(
        lambda: page.run(VALUE) == "Return, episode 9: 3 points",
        SECONDS,
        "one series",
    )


def test_no_axes_without_data_and_a_constant_is_in_sight(page: CheckedPage) -> None:
    draw(page, 0)
    assert page.run(AXIS) == []
    page.shows("Nothing yet")
    page.run("made.series('one').set([1, 2, 3].map((n) => ({ episode: n, y: -200 })))")
    wait_until(lambda: "-200" in page.run(AXIS), SECONDS, "the axes")
    box = page.run(
        "(() => { const all = document.querySelector('.curve-plot')"
        ".getBoundingClientRect(), line = document.querySelector('.curve-line')"
        ".getBoundingClientRect(); return [all.top, line.top, all.bottom] })()"
    )
    assert box[0] + 30 < box[1] < box[2] - 30
