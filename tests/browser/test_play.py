"""People who play see every step, by keyboard, gamepad, fingers and sliders."""

import contextlib
import json
import re
import threading
from collections.abc import Iterator

import pytest

from tests.support.api import Api, Instance
from tests.support.peers.checked_page import CheckedPage
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(120)]

SECONDS = 20.0
#: A gamepad in the standard mapping, whose buttons and axes tests set.
GAMEPAD = """
globalThis.pad = {
  connected: true, id: "a gamepad", mapping: "standard", axes: [0, 0, 0, 0],
  buttons: Array.from({ length: 17 }, () => ({ pressed: false, value: 0 })),
};
navigator.getGamepads = () => [null, globalThis.pad];
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    flags = ("--step-deadline", "10", "--import", "tests.support.envs.toys")
    flags += ("--import", "tests.support.envs.agent_worlds")
    with Server(*flags, "--import", "tests.support.envs.hostile") as started:
        yield started


@pytest.fixture
def api(server: Server) -> Api:
    return Api(server)


@pytest.fixture
def page() -> Iterator[CheckedPage]:
    """A page that must not violate its policy, log an error or request another host."""
    with CheckedPage() as browser:
        yield browser
        browser.run("1")
        assert browser.faults == []
        assert len(browser.hosts) == 1


def open_instance(page: CheckedPage, instance: Instance) -> None:
    """Open the page of an instance, and wait for its controls."""
    page.open(f"{instance.api.server.url}/")
    page.run(f"location.hash = '#/envs/{instance.id}'")
    page.shows("Sample and step")


def play(page: CheckedPage, instance: Instance) -> None:
    """Begin to play an instance on its page."""
    open_instance(page, instance)
    page.press("[aria-label='Play by keyboard']")


def steps_of(instance: Instance) -> int:
    """Return the number of steps that an instance has taken."""
    return int(instance.get("").json()["steps"])


def frames_of(instance: Instance) -> int:
    """Return how many frames the server has drawn of an instance's environment."""
    env_id = re.escape(instance.api.instances()[instance.id])
    metrics = instance.api.get("/metrics").body.decode()
    shown = rf'^gym_frames_shown_total{{env_id="{env_id}"}} (\S+)'
    found = re.search(shown, metrics, re.MULTILINE)
    return int(float(found[1])) if found else 0


def taken(page: CheckedPage, action: object) -> None:
    """Wait for a step with an action."""
    text = json.dumps(action, separators=(",", ":"))
    page.shows(f"step · action {text} ·")


@pytest.mark.alone
@pytest.mark.parametrize(
    ("env_id", "fps", "key"),
    [
        ("MountainCar-v0", 30, "ArrowRight"),
        ("LunarLander-v3", 30, "ArrowUp"),
        ("CarRacing-v3", 15, "ArrowUp"),
        ("ALE/Breakout-v5", 60, "KeyD"),
    ],
)
def test_a_person_sees_every_step(
    api: Api, page: CheckedPage, env_id: str, fps: int, key: str
) -> None:
    instance = api.create(env_id, render_mode="rgb_array")
    open_instance(page, instance)
    page.write(".play input[type=number]", str(fps))
    before = frames_of(instance)
    page.press("[aria-label='Play by keyboard']")
    page.hold(key)
    wait_until(lambda: steps_of(instance) >= 3 * fps, SECONDS, "three seconds of play")
    page.strike("Escape")
    wait_until(
        lambda: page.run("document.activeElement.textContent") == "Play",
        SECONDS,
        "the end of the play",
    )
    steps = steps_of(instance)
    # Where a page is too slow to read a picture, the next one takes its place.
    seen = wait_until(lambda: frames_of(instance) - before, SECONDS, "frames")
    assert seen >= 0.95 * steps
    instance.close()


def test_waiting_for_a_key_draws_at_once(api: Api, page: CheckedPage) -> None:
    instance = api.create("FrozenLake-v1", render_mode="rgb_array")
    play(page, instance)
    page.shows("reset")
    for steps in range(1, 6):
        before = frames_of(instance)
        page.strike("ArrowLeft")
        wait_until(lambda wanted=steps: steps_of(instance) == wanted, SECONDS, "a step")
        wait_until(
            lambda drawn=before: frames_of(instance) > drawn, SECONDS, "its frame"
        )
    instance.close()


def test_a_gamepad_holds_keys(api: Api, page: CheckedPage) -> None:
    instance = api.create("MountainCar-v0")
    play(page, instance)
    taken(page, 1)
    page.run(GAMEPAD)
    page.run("pad.axes[0] = 0.9")
    taken(page, 2)
    page.run("pad.axes[0] = 0")
    taken(page, 1)
    page.run("pad.buttons[14].pressed = true")
    taken(page, 0)
    page.run("pad.buttons[14].pressed = false")
    page.hold("ArrowRight")
    taken(page, 2)
    page.release("ArrowRight")
    taken(page, 1)
    page.strike("Escape")
    instance.close()


def test_a_gamepad_and_sliders_set_numbers(api: Api, page: CheckedPage) -> None:
    instance = api.create("CarRacing-v3")
    play(page, instance)
    taken(page, [0, 0, 0])
    page.run(GAMEPAD)
    page.run("pad.axes = [-1, -0.5, 0, 0]")
    taken(page, [-1, 0.5, 0])
    page.run("pad.axes = [0, 0, 1, 0]")
    taken(page, [0, 0, 1])
    page.run("pad.axes = [0, 0, 0, 0]")
    taken(page, [0, 0, 0])
    # A slider keeps what it was set to, and has keys of its own with the focus.
    page.press(".axes-sliders label:nth-child(1) input", "End")
    taken(page, [1, 0, 0])
    page.run("document.activeElement.blur()")
    page.hold("ArrowUp")
    taken(page, [0, 1, 0])
    page.release("ArrowUp")
    taken(page, [1, 0, 0])
    page.strike("Escape")
    instance.close()


def test_a_box_without_keys_is_played_by_its_numbers(
    api: Api, page: CheckedPage
) -> None:
    instance = api.create("toys/Echo-v0", kwargs={"space": "box"})
    play(page, instance)
    page.shows("step · action")
    assert page.run("document.querySelectorAll('.play .keys button').length") == 0
    page.strike("Escape")
    instance.close()


def test_fingers_hold_keys_and_pads(api: Api, page: CheckedPage) -> None:
    page.touch_screen(390, 844)
    instance = api.create("CarRacing-v3")
    play(page, instance)
    taken(page, [0, 0, 0])
    with page.touching("[aria-label='Hold ↑']"):
        taken(page, [0, 1, 0])
    taken(page, [0, 0, 0])
    with page.touching(".axes-pad", 0.0, 0.5):
        page.shows("step · action [-0.9")
    taken(page, [0, 0, 0])
    page.touch("[aria-label='Stop playing']")
    page.shows("Play")
    instance.close()


@contextlib.contextmanager
def stepped(instance: Instance) -> Iterator[None]:
    """Step an instance all the time, as an agent does."""
    over = threading.Event()

    def step() -> None:
        while not over.is_set():
            instance.step(0)

    agent = threading.Thread(target=step)
    agent.start()
    try:
        yield
    finally:
        over.set()
        agent.join()


def test_old_pictures_have_their_age_and_nothing_false_stands_below_them(
    api: Api, page: CheckedPage
) -> None:
    paint = {"seconds": 0.4}
    instance = api.create("toys/SlowPaint-v0", kwargs=paint, render_mode="rgb_array")
    instance.reset()
    with stepped(instance):
        open_instance(page, instance)
        page.shows("Picture of 1 s ago.")
        seen = page.text()
        page.run("location.hash = '#/wall'")
        page.shows("Picture of 1 s ago.")
        seen += page.text()
        assert "running" in page.text()
    for words in ("clock allows", "no picture", "No picture", "Drawing"):
        assert words not in seen
    instance.close()


def test_states_mean_something(api: Api, page: CheckedPage) -> None:
    instance = api.create("hostile/Slow-v0", kwargs={"seconds": 60.0}, label="slow")
    other = api.create("CartPole-v1", label="other")
    instance.reset()
    other.reset()
    page.open(f"{api.server.url}/")
    page.run("location.hash = '#/instances'")
    page.shows("waiting for ")
    with stepped(other):
        page.shows("running")
        page.run(f"location.hash = '#/envs/{other.id}'")
        page.shows("running")
    page.shows("waiting for ")
    page.run("location.hash = '#/instances'")
    agent = threading.Thread(target=instance.post, args=("step/", {"action": 1}))
    agent.start()
    # Half of the step deadline is long where nothing shows what is usual.
    page.shows("stuck for ")
    page.shows("a call took too long")
    agent.join()
    other.close()
    page.shows("closed")


def test_one_stuck_instance_does_not_hold_up_the_wall(
    api: Api, page: CheckedPage
) -> None:
    instance = api.create("hostile/Slow-v0", kwargs={"seconds": 60.0})
    other = api.create("CartPole-v1")
    instance.reset()
    other.reset()
    agent = threading.Thread(target=instance.post, args=("step/", {"action": 1}))
    agent.start()
    rows = "/v1/instances/?state=busy"
    wait_until(
        lambda: any(row["busy_s"] > 1 for row in api.get(rows).json()["instances"]),
        SECONDS,
        "a long call",
    )
    page.open(f"{api.server.url}/")
    page.run("location.hash = '#/wall'")
    page.shows("return 0 · length 0")
    assert api.get(rows).json()["instances"], "the call is over"
    agent.join()
    other.close()


def test_the_keyboard_moves_the_agent_whose_turn_it_is(
    api: Api, page: CheckedPage
) -> None:
    instance = api.create("arena/Turns-v0", kwargs={"turns": 3})
    play(page, instance)
    page.shows("reset")
    for key, action in (("Digit3", {"one": 2}), ("Digit5", {"two": 4})):
        page.strike(key)
        taken(page, action)
    assert steps_of(instance) == 2
    page.strike("Digit1")
    # Both agents have ended, and pass by themselves.
    wait_until(lambda: steps_of(instance) == 5, SECONDS, "the end of the episode")
    titles = "[...document.querySelectorAll('.curve-title')].map((e) => e.innerText)"
    expected = ["Return of one", "Return of two", "Length"]
    wait_until(lambda: page.run(titles)[:3] == expected, SECONDS, "the curves")
    page.choose_tab("Spaces")
    page.shows("aec: one, two")
    instance.close()


def test_by_hand_only_those_act_that_live(api: Api, page: CheckedPage) -> None:
    instance = api.create("arena/Parallel-v0")
    instance.reset()
    open_instance(page, instance)
    assert not page.run("document.querySelectorAll('.play').length")
    for steps in range(4):
        page.press("[aria-label='Sample and step']")
        page.shows(f"length {steps + 1}")
    page.shows("reward born 6, right 2 ·")
    instance.close()
