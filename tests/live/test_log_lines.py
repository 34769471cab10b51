"""Callers and environments cannot forge lines of the server's log."""

import re
from collections.abc import Callable

from tests.support.api import Api
from tests.support.server import Server

FORGED = "2026-01-01 00:00:00,000 gym_http_server.supervisor: forged"
NASTY = f"x\n{FORGED}\r\x1b[31m\x00\x85\u2028é" + 100_000 * "A"
LONGEST_LINE = 16 * 1024


def test_no_line_is_forged(make_server: Callable[..., Server]) -> None:
    server = make_server("--import", "tests.support.hostile", token=None)
    api = Api(server)
    api.post("/v1/envs/", {"env_id": NASTY})
    api.post("/v1/envs/", {"env_id": "CartPole-v1", "kwargs": {NASTY[:1000]: 1}})
    api.get("/v1/envs/%0a" + "2026" * 10 + "%1b[31m/")
    api.get("/v1/", headers={"X-Request-Id": "a\tb" * 100, "User-Agent": "\x1b[31m"})
    api.post("/v1/external/", {"name": NASTY[:3000]})
    instance = api.create("hostile/Segfault-v0")
    instance.reset()
    instance.step(0)
    instance.post("step/", {"action": 1})
    api.get(instance.path())
    log = (server.base / "stderr").read_bytes().decode()
    lines = log.split("\n")
    assert any("crashed" in line for line in lines)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028]", log)
    assert not any(line.startswith("2026-01-01") for line in lines)
    assert max(map(len, lines)) <= LONGEST_LINE
