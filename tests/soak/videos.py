"""A long video: the memory that a host and its encoder take while they record it."""

import psutil

from gym_http_client import RemoteEnv
from tests.support.api import Api, no_content, ok
from tests.support.processes import descendants
from tests.support.server import Server

FRAMES = 10_000
_ENV_ID = "MountainCar-v0"
#: Steps between two looks at the memory.
_EVERY = 200
#: By how much a host may grow; `gymnasium.wrappers.RecordVideo` would keep 7 GB.
_GROWTH = 40 * 2**20


def videos() -> list[str]:
    """Record 10,000 frames of 600 x 400, and return what went wrong."""
    with Server() as server:
        limits = {"max_episode_steps": FRAMES + 1, "render_mode": "rgb_array"}
        made = Api(server).create(_ENV_ID, **limits)
        host = server.host(made.id)
        env = RemoteEnv.attach(server.url, made.id)
        env.reset(seed=1)
        env.render()
        before = host.memory_info().rss
        video = {"every": 1, "seconds": FRAMES // 10}
        no_content(made.post("monitor/start/", {"directory": "long", "video": video}))
        env.reset(seed=1)
        most = encoder = 0
        for number in range(FRAMES):
            env.step(0)
            if number % _EVERY == 0:
                most = max(most, host.memory_info().rss)
                encoder = max(encoder, *map(_resident, descendants(host.pid)), 0)
        recording = ok(Api(server).get(f"/v1/instances/?search={made.id}"))
        shown = recording["instances"][0]["recording"]
        env.close()
    growth = most - before
    print(
        f"{shown['frames_written']} frames written, {shown['frames_dropped']} dropped: "
        f"the host grew by {growth / 2**20:.1f} MiB, the encoder has "
        f"{encoder / 2**20:.1f} MiB",
        flush=True,
    )
    if growth > _GROWTH:
        return [f"a video let its host grow by {growth} bytes: expected {_GROWTH}"]
    return []


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
