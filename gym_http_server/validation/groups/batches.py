"""Several steps, whole episodes, and many instances in one request."""

from __future__ import annotations

import secrets

from gym_http_server.validation.checks import CheckGroup, Checks, equal, that
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.groups.keys import steps_of
from gym_http_server.validation.target import Target

__all__ = ["GROUP"]

checks = Checks()
GROUP = CheckGroup("batches", lambda: checks)


@checks("several-steps")
def _several(target: Target) -> None:
    target.needs("batches")
    with target.made() as one, target.made() as other:
        one.post("reset/", {"seed": 42})
        other.post("reset/", {"seed": 42})
        actions = [1, 0, 1, 1]
        told = one.post("step/", {"actions": actions}).json()
        single = [other.post("step/", {"action": each}).json() for each in actions]
        for column, name in (
            ("observations", "observation"),
            ("rewards", "reward"),
            ("terminated", "terminated"),
            ("truncated", "truncated"),
            ("done", "done"),
            ("infos", "info"),
        ):
            equal(told[column], [each[name] for each in single], column)
        equal((told["steps"], told["stopped"]), (4, None), "steps and stopped")


@checks("stops-with-the-episode")
def _stops(target: Target) -> None:
    target.needs("batches")
    with target.made(max_episode_steps=3) as instance:
        instance.post("reset/", {"seed": 42})
        told = instance.post("step/", {"actions": [0, 1, 0, 1, 0]}).json()
        equal((told["steps"], told["stopped"]), (3, "episode"), "steps and stopped")
        equal(told["truncated"], [False, False, True], "truncated")
        equal(steps_of(instance), 3, "steps of the instance")


@checks("all-actions-are-looked-at")
def _looked_at(target: Target) -> None:
    target.needs("batches")
    with target.made() as instance:
        instance.post("reset/", {"seed": 42})
        answer = instance.post("step/", {"actions": [0, 1, "x"]})
        told = problem(answer, "invalid-action", 400)
        equal((told.get("index"), told.get("steps")), (2, 0), "index and steps")
        equal(steps_of(instance), 0, "steps of the instance")


@checks("many-instances")
def _many(target: Target) -> None:
    target.needs("batches", target.post("/v1/batch/step/", {"steps": []}))
    with target.made() as one, target.made() as other:
        one.post("reset/", {"seed": 1})
        other.post("reset/", {"seed": 2})
        key = secrets.token_hex(8)
        steps = [
            {"instance_id": one.id, "action": 1, "key": key},
            {"instance_id": other.id, "actions": [0, 1]},
            {"instance_id": "ffffffff", "action": 0},
        ]
        told = target.post("/v1/batch/step/", {"steps": steps}).json()
        equal(told["pending"], [], "pending")
        results = {each["instance_id"]: each for each in told["results"]}
        equal(results[one.id]["status"], 200, "status of a step")
        equal(results[one.id]["key"], key, "its key")
        equal(results[other.id]["answer"]["steps"], 2, "steps of several")
        lost = results["ffffffff"]
        equal(lost["problem"]["code"], "unknown-instance", "code of one that is not")
        again = target.post("/v1/batch/step/", {"steps": steps[:1]}).json()["results"]
        equal(again[0]["replayed"], True, "replayed under its key")
        equal(again[0]["answer"], results[one.id]["answer"], "the answer again")
        equal(steps_of(one), 1, "steps")


@checks("rollout")
def _rollout(target: Target) -> None:
    with target.made() as one, target.made() as other:
        request = {"actions": [[1, 0, 1]], "seed": 42}
        answer = one.post("rollout/", request)
        target.needs("rollouts", answer)
        episode = answer.json()["episodes"][0]
        first = other.post("reset/", {"seed": 42}).json()
        single = [other.post("step/", {"action": each}).json() for each in (1, 0, 1)]
        observations = [each["observation"] for each in (first, *single)]
        equal(episode["observations"], observations, "observations")
        equal(episode["rewards"], [each["reward"] for each in single], "rewards")
        equal((episode["return"], episode["length"]), (3.0, 3), "return and length")


@checks("random-rollout")
def _random(target: Target) -> None:
    with target.made() as instance:
        request = {"episodes": 2, "seed": 7, "max_steps": 20}
        answers = [instance.post("rollout/", request) for _ in range(2)]
        target.needs("rollouts", answers[0])
        equal(answers[0].status, 200, "status")
        equal(len(answers[0].json()["episodes"]), 2, "episodes")
        that(
            answers[0].json()["episodes"][0] == answers[1].json()["episodes"][0],
            "the same episode with the same seed",
            answers[1].body,
        )
