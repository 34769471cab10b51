"""The views of the page, and how a picture of each is made."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from tests.pictures.scene import Scene
from tests.support.peers.checked_page import CheckedPage
from tests.support.wait import wait_until

SCHEMES = ("light", "dark")
#: Widths of a desk and of a telephone, and the heights of their windows.
SIZES = {1400: 900, 390: 844}
TALLEST = 3000
#: For how long curves and pictures arrive in an open view before its picture is made.
SECONDS = 3.0


@dataclass(frozen=True)
class View:
    """A view of the page.

    Attributes:
        name: Of its pictures.
        address: What follows the server's address, with names of the scene in braces.
        words: What it shows once it is there.
        press: Selectors of what a person presses then.
    """

    name: str
    address: str
    words: str
    press: tuple[str, ...] = ()


#: On a server on which much goes on.
BUSY = (
    View("overview", "#/", "lander.py"),
    View("instances", "#/instances", "lander.py"),
    View("new", "#/new", "Acrobot"),
    View("wall", "#/wall", "lander.py"),
    View("runs", "#/runs", "{run}"),
    View("run", "#/runs/{run}", "{run}"),
    View("compare", "#/compare/{landed},{random}", "random agent"),
    View("recordings", "#/recordings", "lunarlander"),
    View("instance", "#/envs/{lander}", "lander.py"),
    View("facts", "#/envs/{lander}", "lander.py", ("#tab-facts",)),
    View("spaces", "#/envs/{lander}", "lander.py", ("#tab-spaces",)),
    View("recording", "#/envs/{lander}", "lander.py", ("#tab-recording",)),
    View("ended", "#/envs/{trained}", "CartPole"),
    View("api", "docs/", "recordings"),
)
#: After the process of an instance has died.
CRASHED = (
    View("needs-a-look", "#/", "to be killed"),
    View("crashed", "#/envs/{crashed}", "to be killed"),
    View("log", "#/envs/{crashed}", "to be killed", ("#tab-log",)),
)
#: On one that nobody uses.
QUIET = (
    View("empty", "#/", "Three ways to begin"),
    View("no-runs", "#/runs", "no runs"),
    View("nothing-here", "#/nothing", "nothing"),
)
#: On one that needs a token, before it is given.
LOCKED = (View("sign-in", "", "token"),)


def make_pictures(scene: Scene, views: tuple[View, ...], out: Path) -> Iterator[str]:
    """Save a picture of each view in each colour scheme and size; yield complaints."""
    with CheckedPage() as page:
        for scheme in SCHEMES:
            page.prefer(scheme)
            for width, height in SIZES.items():
                page.resize(width, height)
                for view in views:
                    name = f"{view.name}-{scheme}-{width}"
                    show(page, scene, view)
                    page.save_whole(out / f"{name}.png", TALLEST)
                    wide = int(page.run("document.documentElement.scrollWidth"))
                    if wide > width:
                        yield f"{name}: {wide} pixels wide, and scrolls sideways"
        # A page asks without a token first.
        yield from (each for each in page.faults if "401 (Unauthor" not in each)


def show(page: CheckedPage, scene: Scene, view: View) -> None:
    """Open a view, as complete as it gets."""
    address = view.address.format(**scene.names)
    # The address alone would not load the page anew.
    page.open("about:blank")
    page.open(f"{scene.server.url}/{address}")
    page.shows(view.words.format(**scene.names))
    for selector in view.press:
        page.press(selector)
    began = time.monotonic()
    wait_until(lambda: time.monotonic() > began + SECONDS, SECONDS + 5, "curves")


def contact_sheet(out: Path) -> None:
    """Put all pictures side by side, small, to look at them at once."""
    for scheme in SCHEMES:
        for width in SIZES:
            files = sorted(out.glob(f"*-{scheme}-{width}.png"))
            small = [Image.open(each).convert("RGB") for each in files]
            for each in small:
                each.thumbnail((480, 900))
            across = 4 if width > 1000 else 8
            cell = (max(i.width for i in small), max(i.height for i in small))
            rows = -(-len(small) // across)
            sheet = Image.new("RGB", (cell[0] * across, cell[1] * rows), "gray")
            for number, each in enumerate(small):
                place = (number % across * cell[0], number // across * cell[1])
                sheet.paste(each, place)
            sheet.save(out / f"all-{scheme}-{width}.png")
