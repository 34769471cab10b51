"""Members of the requests that instances with a clock take.

The limits of some depend on a server's settings: hosts put those in place (see
`host/realtime/settings_request`).
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from gym_http_server.operations.members import (
    Anything,
    Choice,
    Either,
    Flag,
    Integer,
    ListOf,
    Member,
    Members,
    Number,
    ObjectOf,
    Seconds,
    Text,
)

__all__ = ["ACT", "CHANGE", "MAX_CHUNK", "MAX_PERIOD_S", "REALTIME", "TRACE", "UPDATES"]

#: Actions of one chunk.
MAX_CHUNK = 1024
#: Seconds of the longest time step.
MAX_PERIOD_S = 10
_MAX_CHANNELS = 64
_WEIGHT = Number(-math.inf, math.inf)
_CHANNEL = Text(0, 200, printable=True)

_HISTORY: Members = {
    "length": Member(Integer(0, 1024), "How many of the last actions.", default=1),
    "in_observation": Member(
        Flag(), "Whether they are appended to observations.", default=False
    ),
    "reset": Member(
        Flag(), "Whether a reset replaces them by the default action.", default=True
    ),
}

_REWARDS: Members = {
    "channels": Member(
        Either(
            Integer(1, _MAX_CHANNELS),
            ListOf(_CHANNEL, 1, _MAX_CHANNELS, "different names"),
        ),
        "Number or names of the channels; by default those of the world.",
    ),
    "scalar": Member(
        Either(
            Choice(("sum", "mean", "hold")),
            ListOf(_WEIGHT, 1, _MAX_CHANNELS, "weights, one for each channel"),
        ),
        "How `reward` is made of the channels: by their sum, their mean, the sum of "
        "their last known values (`hold`), or a weighted sum.",
        default="sum",
    ),
    "skipped": Member(
        Choice(("sum", "last")),
        "Whether rewards of merged updates are added, or only the last counts.",
        default="sum",
    ),
}

_LIMITS: Members = {
    "clip": Member(
        Flag(),
        "Whether numbers beyond a bound are replaced by the bound.",
        default=False,
    ),
    "rate": Member(
        Anything(),
        "By how much each element may change in a second: a number, or an array in "
        "the shape of the action.",
    ),
}

#: The member `realtime` of a create request.
REALTIME: Members = {
    "preset": Member(
        Choice(("rtgym", "myrtle")),
        "Settings that reproduce another system exactly; others override them.",
    ),
    "mode": Member(
        Choice(("elastic", "free_running")),
        "Whether the world waits for an agent that is late. Required without a preset.",
    ),
    "hz": Member(
        Number(1 / MAX_PERIOD_S, math.inf),
        "Time steps in a second, at most `--max-hz`.",
    ),
    "period_s": Member(
        Seconds(0, MAX_PERIOD_S, above=True),
        "Seconds of a time step, in the place of `hz`.",
    ),
    "capture_s": Member(
        Seconds(0, MAX_PERIOD_S),
        "Seconds from the beginning of a time step to the capture of its observation; "
        "the period by default and if null. Elastic only.",
        null=True,
    ),
    "elasticity": Member(
        Number(0, 1000, note="(the periods by which a time step may be late)"),
        "How late a time step may begin and still keep the grid, in periods. A later "
        "one begins the grid anew. Elastic only.",
        default=1,
    ),
    "default_action": Member(
        Anything(),
        "The action without one of an agent; by default that of the world, or zero "
        "for a Box that contains it. See `Value`.",
    ),
    "no_action": Member(
        Choice(("hold", "default", "zero")),
        "The action of a tick without a new one; `hold` repeats the last. "
        "Free-running only.",
        default="hold",
    ),
    "reset_action": Member(
        Choice(("default", "last")),
        "The action at the beginning of an episode.",
        default="default",
    ),
    "history": Member(
        ObjectOf(_HISTORY), "The last actions, as a part of observations."
    ),
    "on_overrun": Member(
        Choice(("skip", "catch_up", "shift")),
        "What happens to ticks whose time has passed: they are skipped, or executed "
        "at once, or all later ones are shifted. Free-running only.",
        default="skip",
    ),
    "most": Member(
        Integer(1, 1000),
        "With `catch_up`, how many at once; null for all.",
        default=5,
        null=True,
    ),
    "ticks_per_update": Member(
        Integer(1, 1000), "Ticks that make one update. Free-running only.", default=1
    ),
    "on_done": Member(
        Choice(("wait", "reset")),
        "At the end of an episode, `wait` for a reset, or `reset` at once "
        "(free-running only).",
        default="wait",
    ),
    "episodes": Member(
        Integer(1),
        "Number of episodes, after which the world ends; unlimited if null.",
        null=True,
    ),
    "agent_timeout_s": Member(
        Seconds(0.001, 3600),
        "Seconds without a request of an agent; null for no limit. 1 by default for "
        "external environments and interfaces.",
        null=True,
    ),
    "on_agent_lost": Member(
        Choice(("default", "hold", "pause", "close")),
        "Then: the default action, the last action, a pause of the clock, or the end "
        "of the instance.",
        default="default",
    ),
    "rewards": Member(
        ObjectOf(_REWARDS), "Channels of rewards, and how `reward` is made of them."
    ),
    "buffer": Member(
        Integer(1, 1024), "Number of updates that are kept for agents.", default=64
    ),
    "spin_us": Member(
        Integer(),
        "Microseconds to poll before each deadline, at most `--spin-us`.",
        default=0,
    ),
    "strict_actions": Member(
        Flag(),
        "Whether actions that are not in the action space are refused.",
        default=True,
    ),
    "limits": Member(
        ObjectOf(_LIMITS),
        "How actions of a Box are limited before the world gets them. Needs "
        "`strict_actions`.",
    ),
}

_CHANGEABLE = (
    "hz",
    "period_s",
    "capture_s",
    "elasticity",
    "default_action",
    "agent_timeout_s",
)
#: A change of these settings: what is absent stays.
CHANGE: Members = {name: replace(REALTIME[name], default=None) for name in _CHANGEABLE}

ACT: Members = {
    "action": Member(
        Anything(),
        "The action for the next tick and all after it; see `Value`.",
        null=True,
    ),
    "actions": Member(
        ListOf(Anything(), 1, MAX_CHUNK, "actions"),
        "A chunk, one action for each tick, in the place of `action`.",
    ),
    "at": Member(
        Integer(), "Tick of the first action of a chunk; the next one by default."
    ),
    "blend": Member(
        Number(0, 1),
        "For a Box: the weight of a chunk's actions where it overlaps an earlier "
        "chunk; 1 by default.",
    ),
    "for": Member(Integer(), "Number of the update that this action answers."),
    "sequence": Member(
        Integer(1), "Number of the action in its session; a lower one is expired."
    ),
    "session": Member(Text(1, 200), "Name of the agent's session."),
    "valid_s": Member(
        Seconds(0, 3600, above=True), "Seconds after which the action expires."
    ),
    "priority": Member(
        Integer(-100, 100),
        "The valid action with the highest priority acts. After it has expired, the "
        "newest one of a lower priority acts again.",
        default=0,
    ),
}

#: A request for updates, in a query or over a stream.
UPDATES: Members = {
    "after": Member(
        Integer(),
        "Number of the last known update; without it, the answer begins with the "
        "newest.",
    ),
    "wait_s": Member(Seconds(0, 50), "Seconds to wait for an update.", default=10),
    "deliver": Member(
        Choice(("latest", "all")),
        "`latest`: one update, merged with those before it. `all`: each.",
        default="latest",
    ),
    "max": Member(Integer(1), "With `deliver=all`, the number of updates at most."),
}

#: A request for the last events, in a query or over a stream.
TRACE: Members = {
    "last": Member(Integer(1), "Number of events at most.", default=4096),
    "format": Member(
        Choice(("chrome", "json")),
        "`chrome`, for Perfetto (ui.perfetto.dev) or `chrome://tracing`; or `json`.",
        default="chrome",
    ),
}
