"""Real time: clocks, actions beside steps, updates, counts and pauses."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from typing import Any

from gym_http_server.validation.checks import CheckGroup, Checks
from gym_http_server.validation.expectations import equal, that
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.groups.streams import needs_streams
from gym_http_server.validation.streams import TargetStream
from gym_http_server.validation.target import CART_POLE, Target, TargetInstance
from gym_http_server.validation.websocket import TEXT, TEXT_DIALECT, frame

__all__ = ["REAL_TIME"]

checks = Checks()
REAL_TIME = CheckGroup("realtime", lambda: checks, lambda t: t.needs("realtime"))

ELASTIC = {"mode": "elastic", "hz": 100, "default_action": 0}
RUNNING = {
    "mode": "free_running",
    "hz": 100,
    "default_action": 0,
    "on_done": "reset",
}
_INTEGERS: tuple[str, ...] = (
    "update",
    "tick",
    "episode",
    "capture_ns",
    "late_ns",
    "age_ns",
    "now_ns",
)
_INTEGERS += ("skipped", "queued", "merged")
_COUNTS = ("applied", "superseded", "expired", "rejected", "waiting")
# At this tick, no check is still running.
_LATER = 10_000


@contextlib.contextmanager
def _begun(target: Target, **clock: Any) -> Iterator[TargetInstance]:
    """Make an instance with a clock, and reset it."""
    with target.made(realtime=clock) as instance:
        answer = instance.post("reset/", {"seed": 1})
        equal(answer.status, 200, "status of a reset")
        _timing(answer.json())
        yield instance


def _timing(answer: dict[str, Any]) -> dict[str, Any]:
    """Expect the member ``realtime`` in its form, and return it."""
    timing = answer.get("realtime")
    if not isinstance(timing, dict):
        that(False, "a member realtime", answer)
        return {}
    for name in _INTEGERS:
        equal(type(timing.get(name)), int, f"type of realtime.{name}")
    equal(type(timing.get("timed_out")), bool, "type of realtime.timed_out")
    holds = timing["capture_ns"] + timing["age_ns"] <= timing["now_ns"]
    that(holds, "an age up to the time of the answer", timing)
    return timing


def _done(instance: TargetInstance, rest: str, given: Any) -> dict[str, Any]:
    answer = instance.post(rest, given)
    equal(answer.status, 200, f"status of {rest}")
    return dict(answer.json())


def _updates(instance: TargetInstance, query: str) -> dict[str, Any]:
    answer = instance.get(f"updates/?{query}")
    equal(answer.status, 200, f"status of updates/?{query}")
    return dict(answer.json())


def _counts(instance: TargetInstance) -> dict[str, Any]:
    counts = dict(instance.get("realtime/").json()["actions"])
    actual = sum(counts[name] for name in _COUNTS)
    equal(actual, counts["received"], f"sum of {', '.join(_COUNTS)}")
    return counts


@checks("elastic-actions-act-one-step-later")
def _elastic(target: Target) -> None:
    with _begun(target, **ELASTIC) as instance, target.made() as plain:
        _done(plain, "reset/", {"seed": 1})
        actions = (0, 1, 1, 0)
        for before, action in itertools.pairwise(actions):
            answer = _done(instance, "step/", {"action": action})
            expected = _done(plain, "step/", {"action": before})
            equal(_timing(answer)["action"]["value"], before, "the action in force")
            equal(answer["observation"], expected["observation"], "the observation")
            equal(answer["reward"], expected["reward"], "the reward")


@checks("free-running-rewards-are-added")
def _running(target: Target) -> None:
    with _begun(target, **RUNNING) as instance:
        for _ in range(5):
            answer = _done(instance, "step/", {"action": 0})
            timing = _timing(answer)
            equal(answer["reward"], 1.0 + timing["merged"], "reward, one for each tick")
            equal(timing["action"]["value"], 0, "the action in force")
            if answer["done"]:
                break


@checks("updates-in-order")
def _order(target: Target) -> None:
    with _begun(target, **RUNNING) as instance:
        numbers: list[int] = []
        while len(numbers) < 10:
            after = numbers[-1] if numbers else 0
            answer = _updates(instance, f"after={after}&deliver=all&max=3")
            that(len(answer["updates"]) <= 3, "three updates at most", answer)
            equal(answer["lost"], 0, "lost")
            numbers += [_timing(each)["update"] for each in answer["updates"]]
        equal(numbers, list(range(1, len(numbers) + 1)), "numbers of updates")


@checks("updates-latest-merges")
def _latest(target: Target) -> None:
    with _begun(target, **(RUNNING | {"on_done": "wait"})) as instance:
        instance.post("realtime/pause/")
        whole = _updates(instance, "after=0&deliver=all&max=9999")["updates"]
        (latest,) = _updates(instance, "after=0")["updates"]
        newest = whole[-1]["realtime"]["update"]
        equal(latest["realtime"]["update"], newest, "number of the latest update")
        equal(latest["realtime"]["merged"], len(whole) - 1, "merged")
        expected = sum(each["reward"] for each in whole)
        equal(latest["reward"], expected, "the sum of rewards")
        answer = _updates(instance, f"after={newest}&wait_s=0.05")
        equal(answer["updates"], [], "updates while the clock is paused")
        equal(answer["state"], "paused", "state")


@checks("actions-are-counted")
def _acts(target: Target) -> None:
    with _begun(target, **RUNNING) as instance:
        given = {"action": 1, "session": "validate", "sequence": 1}
        answer = _done(instance, "action/", given)
        for name in ("tick", "now_ns", "sequence", "queued"):
            equal(type(answer.get(name)), int, f"type of {name}")
        equal(_done(instance, "action/", given).get("repeated"), True, "repeated")
        equal(_counts(instance)["received"], 1, "received, without the repeated one")
        problem(instance.post("action/", {"action": "left"}), "invalid-action", 400)
        equal(_counts(instance)["rejected"], 1, "rejected")
        chunk = {"actions": [1, 0, 1], "at": _LATER}
        equal(_done(instance, "action/", chunk)["queued"], 3, "queued")
        equal(_done(instance, "action/", {})["queued"], 3, "queued, by a sign of life")
        counts = _counts(instance)
        equal((counts["received"], counts["waiting"]), (5, 3), "received and waiting")
        problem(instance.post("action/", {"actions": [0] * 1025}), "bad-parameter", 400)


@checks("pause")
def _pause(target: Target) -> None:
    with _begun(target, **ELASTIC) as instance:
        equal(_done(instance, "realtime/pause/", {})["state"], "paused", "state")
        problem(instance.post("step/", {"action": 0}), "paused", 409)
        problem(instance.post("action/", {"action": 0}), "paused", 409)
        equal(_done(instance, "realtime/resume/", {})["state"], "running", "state")
        _done(instance, "step/", {"action": 0})
        _done(instance, "realtime/pause/", {})
        _done(instance, "reset/", {})
        equal(instance.get("realtime/").json()["state"], "running", "state")


@checks("changes")
def _changes(target: Target) -> None:
    with _begun(target, **ELASTIC) as instance:
        settings = _done(instance, "realtime/", {"hz": 50})["settings"]
        equal((settings["hz"], settings["mode"]), (50.0, "elastic"), "hz and mode")
        problem(instance.post("realtime/", {"buffer": 3}), "bad-parameter", 400)
        trace = instance.get("realtime/trace/?last=5").json()
        that(trace.get("traceEvents"), "events for Perfetto", trace)


@checks("world-ended")
def _ended(target: Target) -> None:
    clock = RUNNING | {"episodes": 1}
    with target.made(realtime=clock, max_episode_steps=3) as instance:
        _done(instance, "reset/", {"seed": 1})
        after, last = 0, False
        while not last:
            answer = _updates(instance, f"after={after}&deliver=all")
            for each in answer["updates"]:
                after, last = each["realtime"]["update"], each.get("last", False)
        # A step returns the end of an episode that it has not returned yet.
        equal(_done(instance, "step/", {"action": 0})["truncated"], True, "truncated")
        for refused in (
            instance.post("step/", {"action": 0}),
            instance.post("action/", {"action": 0}),
            instance.get(f"updates/?after={after}"),
        ):
            problem(refused, "world-ended", 409)


@checks("refusals")
def _refusals(target: Target) -> None:
    with _begun(target, **ELASTIC) as instance:
        problem(instance.post("step/", {"actions": [0]}), "bad-parameter", 400)
        problem(instance.post("rollout/", {}), "bad-parameter", 400)
    base = {"mode": "elastic", "default_action": 0}
    for clock, name in (
        ({**base, "hz": 100, "hertz": 1}, "hertz"),
        ({**base, "hz": 100, "period_s": 0.01}, "period_s"),
        (base, "hz"),
        ({**base, "period_s": 11}, "period_s"),
        ({"mode": "elastic", "hz": 100}, "default_action"),
    ):
        answer = target.post("/v1/envs/", {"env_id": CART_POLE, "realtime": clock})
        message = str(problem(answer, "bad-parameter", 400)["message"])
        that(name in message, f"a message that names {name}", message)
    vector = {"env_id": CART_POLE, "num_envs": 2, "realtime": ELASTIC}
    problem(target.post("/v1/envs/", vector), "bad-parameter", 400)


@checks("not-real-time")
def _without(target: Target) -> None:
    instance = target.shared(target.env_id)
    for answer in (
        instance.post("action/", {"action": 0}),
        instance.get("updates/"),
        instance.get("realtime/"),
        instance.post("realtime/pause/"),
    ):
        problem(answer, "not-real-time", 409)


@checks("several-updates-wait-on-a-stream")
def _credits(target: Target) -> None:
    needs_streams(target)
    with (
        _begun(target, **RUNNING) as instance,
        TargetStream.opened(instance, TEXT_DIALECT) as stream,
    ):
        first = stream.request("updates")["body"]["updates"][-1]["realtime"]["update"]
        for after in range(first, first + 3):
            asked = {"op": "updates", "after": after, "deliver": "all", "max": 1}
            stream.send(frame(TEXT, json.dumps(asked).encode()))
        bodies = [stream.answered()["body"] for _ in range(3)]
        actual = [_timing(each["updates"][0])["update"] for each in bodies]
        equal(actual, [first + 1, first + 2, first + 3], "numbers of updates")
