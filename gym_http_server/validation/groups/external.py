"""External environments, as far as they can be seen without one."""

from __future__ import annotations

from gym_http_server.validation.checks import Checks, Group
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.served import Served

__all__ = ["GROUP"]

_PATH = "/v1/external/"
checks = Checks()
GROUP = Group(
    "external",
    lambda: checks,
    lambda served: served.needs("external", served.get(_PATH)),
)


@checks("upgrade-required")
def _upgrade(served: Served) -> None:
    problem(served.get(_PATH), "upgrade-required", 426)
