"""Transcripts of whole runs, written by hand, that both modes reproduce line by line.

A line with > is a command at a time in ms since the clock began; the others say what
happens up to then and at once: calls of the world, and the answer. Each capture of the
world has a number, and a reward of 1 unless ``pays`` says otherwise.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from gym_http_wire.problems import Problem
from tests.support.realtime import MS, Run

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


class Player:
    """Executes the commands of a transcript and writes down what happens."""

    def __init__(self, realtime: dict[str, Any]) -> None:
        self.run = Run(realtime)
        self.lines: list[str] = []
        self._logged = 0
        self._start = self.run.clock.now

    def do(self, at_ms: float, name: str, rest: str) -> None:
        run = self.run
        run.until(self._start + round(at_ms * MS))
        self._write_calls()
        if name == "world":
            self._set_world(rest)
            return
        if name == "wait":
            return
        try:
            answer = self._call(name, rest)
        except Problem as problem:
            answer = [f"refused {problem.code}"]
        self._write_calls()
        now = (run.clock.now - self._start) / MS
        self.lines += [f"{now:6g} answer {each}" for each in answer]

    def _call(self, name: str, rest: str) -> list[str]:
        run = self.run
        caller, _, rest = rest.rpartition(":")
        if name == "reset":
            return [_told(run.reset(int(rest) if rest else None, caller).realtime, {})]
        if name == "step":
            result = run.step(float(rest), caller)
            return [_told(result.realtime, result._asdict())]
        if name == "updates":
            after, deliver = rest.split()
            answer = run.mode.updates(int(after), deliver) or {"updates": [], "lost": 0}
            lost = [f"lost {answer['lost']}"] if answer["lost"] else []
            return lost + [_told(each["realtime"], each) for each in answer["updates"]]
        return [json.dumps(getattr(run.mode, name)())]

    def _set_world(self, rest: str) -> None:
        what, _, value = rest.partition(" ")
        world = self.run.world
        if what == "episode":
            world.episode_length = int(value)
        elif what == "pays":
            world.rewards = iter(json.loads(value))
        else:
            world.durations[what] = iter(
                [round(each * MS) for each in json.loads(value)]
            )

    def act(self, at_ms: float, rest: str) -> None:
        self.run.until(self._start + round(at_ms * MS))
        self._write_calls()
        caller, _, given = rest.partition(" ") if rest[0] != "{" else ("", "", rest)
        try:
            accepted = self.run.act(caller, **json.loads(given))
            repeated = " repeated" if accepted.get("repeated") else ""
            answer = f"tick {accepted['tick']} queued {accepted['queued']}{repeated}"
        except Problem as problem:
            answer = f"refused {problem.code}"
        now = (self.run.clock.now - self._start) / MS
        self.lines.append(f"{now:6g} answer {answer}")

    def _write_calls(self) -> None:
        log = self.run.world.log
        for time, name, value in log[self._logged :]:
            number = "" if value is None else f" {value:g}"
            self.lines.append(f"{(time - self._start) / MS:6g} {name}{number}")
        self._logged = len(log)


def _told(realtime: dict[str, Any], value: dict[str, Any]) -> str:
    """Return what an answer says, without what is as usual."""
    words = [f"update {realtime['update']} tick {realtime['tick']}"]
    if "reward" in value and not value.get("reset"):
        words.append(f"reward {value['reward']:g}")
    action = realtime["action"]
    if action is not None:
        by = f" by {action['priority']}" if action["priority"] else ""
        words.append(f"action {action['value'][0]:g}{by}")
    for name in ("late_ns", "age_ns"):
        if realtime[name]:
            words.append(f"{name[:-3]} {realtime[name] / MS:g}")
    for name in ("skipped", "queued", "merged"):
        if realtime[name]:
            words.append(f"{name} {realtime[name]}")
    if realtime["timed_out"]:
        words.append("timed_out")
    lost = value.get("agent_lost") or realtime.get("agent_lost")
    if lost:
        words.append(f"agent_lost {lost['silent_ns'] / MS:g}")
    words += [
        name
        for name in ("terminated", "reset", "last")
        if value.get(name) or realtime.get(name)
    ]
    return " ".join(words)


def replay(text: str) -> str:
    player: Player | None = None
    written: list[str] = []
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            written.append(line)
            continue
        if not line.startswith(">"):
            continue
        written.append(line)
        command = line[1:].strip()
        if player is None:
            player = Player(json.loads(command))
            continue
        at, name, *rest = command.split(" ", 2)
        if name == "act":
            player.act(float(at), rest[0])
        else:
            player.do(float(at), name, rest[0] if rest else "")
        written += player.lines
        player.lines = []
    assert player is not None
    counts = player.run.mode.statistics()["actions"]
    assert counts.pop("received") == sum(counts.values())
    return "\n".join(written) + "\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    text = path.read_text()
    assert replay(text).splitlines() == text.splitlines()


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 12
