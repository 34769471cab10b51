"""Members of requests in OpenEnv's protocol."""

from __future__ import annotations

from gym_http_server.operations.instances import CREATE, RESET
from gym_http_server.operations.members import Flag, Member, Members, Seconds, Text

__all__ = ["CONNECT", "EPISODE", "MADE_WITH"]

CONNECT: Members = {
    "wait_s": Member(
        Seconds(0, 50), "Seconds to wait for a free slot with each create.", 0
    ),
}

#: Members of a reset that are those of a create.
MADE_WITH: Members = {
    name: CREATE[name]
    for name in (
        "disable_env_checker",
        "exact_id",
        "kwargs",
        "max_episode_steps",
        "render_mode",
        "typed",
        "wrappers",
    )
}

#: Members of a reset that are about the episode.
EPISODE: Members = {
    "seed": RESET["seed"],
    "options": RESET["options"],
    "episode_id": Member(Text(0, 255), "Name of the episode in the state."),
    "render": Member(Flag(), "Whether the observation has a frame.", False),
}
