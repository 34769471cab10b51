"""Kills by the kernel are counted where the control group has its count."""

from pathlib import Path

import pytest

from gym_http_server.supervisor.memory import OomKills

V1 = "5:memory:/jobs/7\n3:cpu,cpuacct:/\n0::/\n"
V2 = "0::/jobs/7\n"
V1_COUNT = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
V2_COUNT = "low 0\nhigh 0\nmax 31\noom 4\noom_kill {}\noom_group_kill 0\n"


@pytest.mark.parametrize(
    ("groups", "place", "text"),
    [
        (V1, "memory/jobs/7/memory.oom_control", V1_COUNT),
        (V1, "memory/memory.oom_control", V1_COUNT),
        (V2, "jobs/7/memory.events", V2_COUNT),
        (V2, "memory.events", V2_COUNT),
    ],
)
def test_a_count_that_rises_is_a_kill(
    tmp_path: Path, groups: str, place: str, text: str
) -> None:
    (tmp_path / "groups").write_text(groups)
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text.format(3))
    kills = OomKills(str(tmp_path / "groups"), str(tmp_path))
    kills.tick()
    assert not kills.recent()
    file.write_text(text.format(4))
    assert kills.recent()
    kills.tick()
    assert kills.recent()
    kills._at -= 60
    assert not kills.recent()


def test_without_a_control_group_there_is_no_count(tmp_path: Path) -> None:
    kills = OomKills(str(tmp_path / "absent"), str(tmp_path))
    kills.tick()
    assert not kills.recent()
