"""The list of instances with their figures, and what they printed."""

from __future__ import annotations

from typing import Any

from gym_http_server.validation.checks import Absent, CheckGroup, Checks, equal, that
from gym_http_server.validation.target import Target, code_of

__all__ = ["GROUPS"]

listing = Checks()
logs = Checks()


def _needs_listing(target: Target) -> None:
    target.needs("instances", target.get("/v1/instances/"))


def _needs_logs(target: Target) -> None:
    answer = target.shared(target.env_id).get("log/")
    if code_of(answer) == "logs-disabled":
        raise Absent("it shows no logs of instances: logs-disabled")
    target.needs("logs", answer)


GROUPS = (
    CheckGroup("instances", lambda: listing, _needs_listing),
    CheckGroup("logs", lambda: logs, _needs_logs),
)


def _row(target: Target, kind: str, instance_id: str) -> dict[str, Any]:
    """Return what the list says of an instance, present or ended."""
    answer = target.get("/v1/instances/")
    equal(answer.status, 200, "status")
    rows = [row for row in answer.json()[kind] if row["instance_id"] == instance_id]
    equal(len(rows), 1, f"entries of the instance in {kind}")
    return dict(rows[0])


@listing("figures")
def _figures(target: Target) -> None:
    with target.made(target.env_id, label="validate") as instance:
        equal(instance.post("reset/", {}).status, 200, "status of a reset")
        row = _row(target, "instances", instance.id)
        equal((row["env_id"], row["label"]), (target.env_id, "validate"), "names")
        equal((row["state"], row["steps"]), ("idle", 0), "state and steps")
        that(row["age_s"] >= row["idle_s"] >= 0, "an age, and less idle time", row)


@listing("ended")
def _ended(target: Target) -> None:
    with target.made(target.env_id) as instance:
        equal(instance.close().status, 204, "status of the close")
        row = _row(target, "ended", instance.id)
        equal(row["reason"], "closed", "reason")


@listing("label-refused")
def _label(target: Target) -> None:
    for label in ("x" * 65, "two\nlines", 5):
        body = {"env_id": target.env_id, "label": label}
        answer = target.post("/v1/envs/", body)
        equal((answer.status, code_of(answer)), (400, "bad-parameter"), repr(label))


@logs("offsets")
def _offsets(target: Target) -> None:
    with target.made(target.env_id) as instance:
        answer = instance.get("log/?from=0&wait_s=0")
        equal(answer.status, 200, "status")
        size = len(answer.body)
        equal(answer.headers.get("gym-log-next"), str(size), "Gym-Log-Next")
        equal(answer.headers.get("gym-log-cut"), "0", "Gym-Log-Cut")
        equal(answer.headers.get("gym-log-ended"), "false", "Gym-Log-Ended")
        for query in ("from=-1", "wait_s=26"):
            refused = instance.get(f"log/?{query}")
            told = refused.status, code_of(refused)
            equal(told, (400, "bad-parameter"), query)


@logs("of-an-ended-instance")
def _kept(target: Target) -> None:
    with target.made(target.env_id) as instance:
        equal(instance.close().status, 204, "status of the close")
        answer = instance.get("log/")
        equal(answer.status, 200, "status")
        equal(answer.headers.get("gym-log-ended"), "true", "Gym-Log-Ended")
