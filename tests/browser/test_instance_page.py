"""The page of one instance: widgets of spaces, stepping by hand, playing."""

import json
import platform
import re
import sys
import time
from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from gym_http_wire import elements
from gym_http_wire.spaces import describe
from tests.support.api import Api, Instance
from tests.support.envs import several_rewards
from tests.support.envs.several_rewards import LENGTH
from tests.support.envs.toys import SPACES
from tests.support.peers.checked_page import CheckedPage
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(120)]

SECONDS = 20.0
STATISTICS = "document.querySelector('.realtime').innerText"
TOKEN = "a-token-for-the-page"
#: The height of LunarLander-v3 after a reset with the seed 42, in Gymnasium.
LANDER_AT_42 = "1.4181306"
NESTED = spaces.Dict(
    {
        "<b>bold</b>": spaces.Tuple((spaces.Text(5), spaces.MultiBinary((2, 2)))),
        "one": spaces.OneOf((spaces.Discrete(3, start=-1), spaces.Box(-2, 2, (2,)))),
        "many": spaces.Sequence(spaces.Dict({"at": spaces.Box(0, 9, (), np.int16)})),
        "stacked": spaces.Sequence(spaces.Box(-1, 1, (2,)), stack=True),
        "graph": spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(3)),
        "flag": spaces.Box(0, 1, (2,), np.bool_),
        "large": spaces.Box(0, 255, (9, 9), np.uint8),
        "counts": spaces.MultiDiscrete([[2, 90], [3, 4]], start=[[0, 1], [2, 3]]),
    }
)
ALL = {**SPACES, "nested": NESTED}
_FILL_IN = """
(async () => {
  const { widget } = await import("/dashboard/js/space_widget.js");
  const found = [];
  for (const space of %s) {
    const made = widget(space);
    document.body.append(made.element);
    const values = [made.value()];
    for (let i = 0; i < 10; i++) {
      made.sample();
      values.push(made.value());
    }
    made.set(values[1]);
    const again = JSON.stringify(made.value()) === JSON.stringify(values[1]);
    const names = [...made.element.querySelectorAll("input, select, textarea")]
      .filter((each) => !each.labels.length && !each.ariaLabel).length;
    const bold = !!made.element.querySelector("b");
    found.push({ values, again, bold, nameless: names });
    made.element.remove();
  }
  return found;
})()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    flags = ("--import", "tests.support.envs.toys")
    flags += ("--import", several_rewards.__name__)
    flags += ("--import", "tests.support.envs.opaque_spaces")
    flags += ("--import", "tests.support.envs.corridors")
    with Server(*flags, "--import", "tests.support.envs.printing") as started:
        yield started


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A server that needs a token."""
    with Server("--token", TOKEN, token=TOKEN) as started:
        yield started


@pytest.fixture
def page() -> Iterator[CheckedPage]:
    """A page that must not violate its policy, log an error or request another host."""
    with CheckedPage() as browser:
        yield browser
        browser.run("1")
        assert browser.faults == []
        assert len(browser.hosts) == 1
        assert next(iter(browser.hosts)).startswith("127.0.0.1:")


def test_widgets_of_every_space_enter_its_elements(
    server: Server, page: CheckedPage
) -> None:
    page.open(f"{server.url}/")
    descriptions = json.dumps([describe(space) for space in ALL.values()])
    found = page.run(_FILL_IN % descriptions)
    for (name, space), each in zip(ALL.items(), found, strict=True):
        assert each["again"], name
        assert each["nameless"] == 0, name
        assert each["bold"] is False
        read = elements.reader(space)
        for value in each["values"]:
            assert space.contains(read(value)), (name, value)


def open_instance(page: CheckedPage, instance: Instance) -> None:
    """Open the page of an instance, and wait for its controls."""
    server = instance.api.server
    page.open(f"{server.url}/#token={TOKEN}" if server.token else f"{server.url}/")
    page.run(f"location.hash = '#/envs/{instance.id}'")
    page.shows("Sample and step")
    assert TOKEN not in page.run("location.href")


def steps_of(instance: Instance) -> int:
    """Return the number of steps that an instance has taken."""
    return int(instance.get("").json()["steps"])


@pytest.mark.alone
def test_a_person_steps_by_hand_plays_and_closes_by_keyboard(
    guarded: Server, page: CheckedPage
) -> None:
    api = Api(guarded)
    label = "<b>me</b>"
    instance = api.create("LunarLander-v3", render_mode="rgb_array", label=label)
    open_instance(page, instance)
    page.shows(f"LunarLander-v3 · {label}")

    page.write(".by-hand label:first-child input", "42")
    page.press("[aria-label='Reset the environment']")
    page.shows("observation")
    shown = page.run("document.querySelector('.answer').innerText")
    assert LANDER_AT_42 in shown
    page.press(".by-hand select", "ArrowDown")
    page.press("[aria-label='Step with this action']")
    page.shows("terminated")
    picture = "document.querySelector('.frame-picture').naturalWidth"
    wait_until(lambda: page.run(picture) == 600, SECONDS, "a frame")

    before, began = steps_of(instance), time.monotonic()
    page.press("[aria-label='Play by keyboard']")
    page.hold("ArrowUp")
    wait_until(lambda: steps_of(instance) > before + 75, SECONDS, "75 steps")
    page.release("ArrowUp")
    wait_until(lambda: steps_of(instance) > before + 250, SECONDS, "250 steps")
    assert 250 / (time.monotonic() - began) >= 0.8 * 50
    page.strike("Escape")
    wait_until(
        lambda: page.run("document.activeElement.textContent") == "Play",
        SECONDS,
        "the end of the play",
    )
    ended = instance.get("episodes/").json()["total"]
    curve = "Number(document.querySelector('.curve-plot').ariaValueMax)"
    wait_until(lambda: page.run(curve) == ended - 1, SECONDS, "the curve of returns")
    page.press(".curve-plot", "Home")
    first = instance.get("episodes/").json()["episodes"][0]
    assert (first["seed"], first["length"]) == (42, 1)
    words = page.run("document.querySelector('.curve-value').textContent")
    assert words.removeprefix("episode 0: ") == f"{first['return']:.4f}"
    page.save_screenshot("one-instance")

    page.press("[aria-label='Close instance']")
    page.shows("Its clients lose it")
    page.press("dialog button")
    wait_until(lambda: not api.instances(), SECONDS, "the instance to close")


def test_taking_over_asks_first(server: Server, page: CheckedPage) -> None:
    instance = Api(server).create("toys/Echo-v0", kwargs={"space": "dict"})
    instance.reset()
    open_instance(page, instance)
    page.press("[aria-label='Sample and step']")
    page.shows("reward")
    # Steps of this page are no steps of others.
    page.press("[aria-label='Sample and step']")
    wait_until(lambda: steps_of(instance) == 2, SECONDS, "the second step")
    instance.step({"go": 1, "by": [1, 2]})
    page.shows("3 steps")
    page.press("[aria-label='Sample and step']")
    page.shows("Take it over?")
    assert steps_of(instance) == 3
    page.press("dialog button:last-of-type")
    closed = "!document.querySelector('dialog')"
    wait_until(lambda: page.run(closed), SECONDS, "the question to be gone")
    page.press("[aria-label='Sample and step']")
    page.shows("Take it over?")
    page.press("dialog button")
    wait_until(lambda: steps_of(instance) == 4, SECONDS, "the step that was allowed")
    page.write(".by-hand .widget-slider input", "17")
    page.press("[aria-label='Step with this action']")
    page.shows("expected a number from 0 to 9")
    assert steps_of(instance) == 4
    closing = "document.querySelector('.instance-head .danger').checkVisibility()"
    assert page.run(closing) is True
    instance.close()
    page.shows("It has ended: closed")
    assert page.run(closing) is False


def test_it_shows_which_command_and_python_the_environment_has(
    page: CheckedPage,
) -> None:
    versions = f"Python {platform.python_version()}, gymnasium {gymnasium.__version__}"
    with Server("--env-python", f"other={sys.executable}") as server:
        page.open(f"{server.url}/#/new")
        page.shows("environments")
        page.write("input[type=search]", "other/cartpole-v1")
        page.shows("1 environment")
        page.shows("external/other/CartPole-v1")
        page.press("button[type=submit]")
        page.shows(f"external/other/CartPole-v1 · {versions}")
        page.shows("Sample and step")
        page.run("location.hash = '#/instances'")
        page.shows("slots taken")
        cell = "document.querySelector('td[title]')"
        page.shows("external/other/CartPole-v1")
        assert page.run(f"{cell}.innerText") == "external/other/CartPole-v1"
        assert page.run(f"{cell}.title") == versions
        (instance_id,) = Api(server).instances()
        Instance(Api(server), instance_id).close()
        # The list would ask once a second while the server ends.
        page.run("location.hash = '#/recordings'")
        page.shows("There are no recordings")


def test_the_server_draws_and_tests_actions_of_opaque_spaces(
    server: Server, page: CheckedPage
) -> None:
    instance = Api(server).create("opaque/Errand-v0")
    instance.reset()
    open_instance(page, instance)
    page.shows("action[0] of tests.support.envs.opaque_spaces:Mission, as JSON")
    page.choose_tab("Spaces")
    page.shows("Tuple(<tests.support.envs.opaque_spaces.Mission object>, Discrete(6))")
    page.choose_tab("By hand")
    page.press("[aria-label='Sample and step']")
    page.shows("please ")
    wait_until(lambda: steps_of(instance) == 1, SECONDS, "the step")
    page.write(".by-hand .widget-json textarea", '"go"')
    page.press("[aria-label='Step with this action']")
    page.shows('action[0] is "go", but must be an element of')
    assert steps_of(instance) == 1
    instance.close()


def test_actions_are_entered_for_the_space_that_a_reset_assigned(
    server: Server, page: CheckedPage
) -> None:
    instance = Api(server).create("corridor/Changing-v0")
    open_instance(page, instance)
    page.choose_tab("Spaces")
    page.shows("Discrete(2)")
    page.choose_tab("By hand")
    page.write(".by-hand textarea", '{"actions": 12}')
    page.press("[aria-label='Reset the environment']")
    page.choose_tab("Spaces")
    page.shows("Discrete(12)")
    page.choose_tab("By hand")
    options = "document.querySelectorAll('.by-hand select option').length"
    assert page.run(options) == 12
    # This step assigns Discrete(5, start=1).
    page.run("document.querySelector('.by-hand select').value = 9")
    page.press("[aria-label='Step with this action']")
    page.choose_tab("Spaces")
    page.shows("Discrete(5, start=1)")
    assert page.run(options) == 5
    instance.close()


def test_a_printed_line_is_shown_as_it_is_also_on_a_telephone(
    server: Server, page: CheckedPage
) -> None:
    instance = Api(server).create("printing/Actions-v0")
    page.resize(360, 740)
    open_instance(page, instance)
    page.press("[aria-label='Reset the environment']")
    page.shows("observation")
    line = "<img src=x onerror=alert(1)> \N{GREEK SMALL LETTER PI}"
    page.write(".widget-text input", "x" + f"{line}\n".encode().hex())
    page.press("[aria-label='Step with this action']")
    page.choose_tab("Log")
    page.shows(line, seconds=2.0)
    assert page.run("document.querySelectorAll('img[src=x]').length") == 0
    assert page.run("document.documentElement.scrollWidth") <= 360
    instance.close()


def test_keys_are_released_with_the_window_and_can_be_assigned(
    server: Server, page: CheckedPage
) -> None:
    instance = Api(server).create("MountainCar-v0")
    open_instance(page, instance)
    page.press("[aria-label='Play by keyboard']")
    page.shows("action 1 ")
    page.hold("ArrowRight")
    page.shows("action 2 ·")
    page.run("dispatchEvent(new Event('blur'))")
    page.shows("step · action 1 ·")
    page.strike("Escape")
    page.press("[aria-label='Key ArrowRight: assign another']")
    page.strike("KeyD")
    page.press("[aria-label='Play by keyboard']")
    page.hold("ArrowRight")
    page.hold("KeyD")
    page.shows("step · action 2 ·")
    page.strike("Escape")
    instance.close()


def open_clock(
    server: Server, page: CheckedPage, mode: str, hz: int, pattern: str
) -> Instance:
    """Open the page of an instance with a clock; wait for words of its statistics."""
    clock = {"mode": mode, "hz": hz}
    instance = Api(server).create("Pendulum-v1", realtime=clock)
    instance.reset()
    open_instance(page, instance)
    page.choose_tab("Clock")
    page.shows(f"running · {hz} Hz")
    wait_until(lambda: re.search(pattern, page.run(STATISTICS)), SECONDS, repr(pattern))
    return instance


def test_a_clock_shows_its_lateness_and_pauses(
    server: Server, page: CheckedPage
) -> None:
    lateness = r"\bLateness(\s[\d.e-]+ ms){4}(\s|$)"
    instance = open_clock(server, page, "elastic", 50, lateness)
    # Ticks are no steps of others.
    page.choose_tab("By hand")
    page.press("[aria-label='Sample and step']")
    page.shows("answer to\nstep")
    page.choose_tab("Clock")
    page.press("[aria-label='Pause the clock']")
    page.shows("paused · 50 Hz")
    assert instance.get("realtime/").json()["state"] == "paused"
    instance.close()


def test_a_clock_shows_how_long_it_stood_still(
    server: Server, page: CheckedPage
) -> None:
    stall = r"at most [\d.e+]+ ms without a tick"
    instance = open_clock(server, page, "free_running", 10, stall)
    assert "Lateness with ticks left out" in page.run(STATISTICS)
    instance.close()


def test_returns_of_several_components_have_a_curve_each(
    server: Server, page: CheckedPage
) -> None:
    instance = Api(server).create("several/Rewards-v0", kwargs={"components": 2})
    open_instance(page, instance)
    for _ in range(2):
        instance.reset()
        for _ in range(LENGTH):
            instance.step(0)
    titles = "[...document.querySelectorAll('.curve-title')].map((e) => e.innerText)"
    expected = ["Return, component 1", "Return, component 2", "Length"]
    wait_until(lambda: page.run(titles)[:3] == expected, SECONDS, "the curves")
    page.shows("return 7.5, -15")
    instance.close()
