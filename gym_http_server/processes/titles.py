"""Titles of processes, as ps and top show them: ``gym: 3c657dbc CartPole-v1``."""

from __future__ import annotations

import os
import re

import setproctitle

__all__ = ["begin_title", "extend_title", "set_title"]

_PREFIX = "gym: "
_MAX_CHARS = 120
_UNSEEN = re.compile(r"[^ -~]")

# Without SPT_NOENV, titles overwrite the process's environment as /proc shows it. It is
# read only once, at the first call below; environments do not need it.
os.environ["SPT_NOENV"] = "1"
setproctitle.getproctitle()
del os.environ["SPT_NOENV"]


def set_title(text: str) -> None:
    """Set the title of this process; its forks inherit it."""
    setproctitle.setproctitle(_PREFIX + _UNSEEN.sub("?", text)[:_MAX_CHARS])


def begin_title(text: str) -> None:
    """Put words before the title of this process, whose end may be cut off."""
    set_title(f"{text} {setproctitle.getproctitle().removeprefix(_PREFIX)}")


def extend_title(text: str) -> None:
    """Append words to the title of this process."""
    set_title(f"{setproctitle.getproctitle().removeprefix(_PREFIX)} {text}")
