"""The views of the page as data, for pictures of all of them.

`{instance}`, `{ended}` and `{run}` stand for the names of an instance that trains, of
one that has ended, and of a training run.
"""

from typing import NamedTuple

__all__ = ["SIZES", "VIEWS", "PageView"]

#: Width and height of a window, by its name.
SIZES = {"desk": (1400, 1000), "telephone": (390, 844)}


class PageView(NamedTuple):
    """A view, for its picture.

    Attributes:
        name: Part of the name of the picture's file.
        address: What follows the server's address.
        shows: A CSS selector of what is there once the view is complete.
        needs: Whether there have to be instances, some of which train, and a run.
    """

    name: str
    address: str
    shows: str
    needs: bool = True


VIEWS = (
    PageView("empty", "#/", ".ways pre", needs=False),
    PageView("overview", "#/", ".tile img:not([hidden])"),
    PageView("instances", "#/instances", "td .badge"),
    PageView("new", "#/new", ".families button"),
    PageView("wall", "#/wall", ".tile img:not([hidden])"),
    PageView("instance", "#/envs/{instance}", ".curve-line"),
    PageView("ended", "#/envs/{ended}", ".curve-line"),
    PageView("compare", "#/compare/{instance},{ended}", ".chart-legend button"),
    PageView("runs", "#/runs", "td a"),
    PageView("run", "#/runs/{run}", ".curve-line"),
    PageView("recordings", "#/recordings", ".recordings section"),
    PageView("api", "docs/", ".opblock-tag"),
)
