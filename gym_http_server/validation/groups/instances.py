"""The list of instances with their figures, and what they printed."""

from __future__ import annotations

from typing import Any

from gym_http_server.validation.checks import Absent, Checks, Group, equal, that
from gym_http_server.validation.served import Served, code_of

__all__ = ["GROUPS"]

listing = Checks()
logs = Checks()


def _needs_listing(served: Served) -> None:
    served.needs("instances", served.get("/v1/instances/"))


def _needs_logs(served: Served) -> None:
    answer = served.shared(served.env_id).get("log/")
    if code_of(answer) == "logs-disabled":
        raise Absent("it shows no logs of instances: logs-disabled")
    served.needs("logs", answer)


GROUPS = (
    Group("instances", lambda: listing, _needs_listing),
    Group("logs", lambda: logs, _needs_logs),
)


def _row(served: Served, kind: str, instance_id: str) -> dict[str, Any]:
    """Return what the list says of an instance, present or ended."""
    answer = served.get("/v1/instances/")
    equal(answer.status, 200, "status")
    rows = [row for row in answer.json()[kind] if row["instance_id"] == instance_id]
    equal(len(rows), 1, f"entries of the instance in {kind}")
    return dict(rows[0])


@listing("figures")
def _figures(served: Served) -> None:
    with served.made(served.env_id, label="validate") as instance:
        equal(instance.post("reset/", {}).status, 200, "status of a reset")
        row = _row(served, "instances", instance.id)
        equal((row["env_id"], row["label"]), (served.env_id, "validate"), "names")
        equal((row["state"], row["steps"]), ("idle", 0), "state and steps")
        that(row["age_s"] >= row["idle_s"] >= 0, "an age, and less idle time", row)


@listing("ended")
def _ended(served: Served) -> None:
    with served.made(served.env_id) as instance:
        equal(instance.close().status, 204, "status of the close")
        row = _row(served, "ended", instance.id)
        equal(row["reason"], "closed", "reason")


@listing("label-refused")
def _label(served: Served) -> None:
    for label in ("x" * 65, "two\nlines", 5):
        body = {"env_id": served.env_id, "label": label}
        answer = served.post("/v1/envs/", body)
        equal((answer.status, code_of(answer)), (400, "bad-parameter"), repr(label))


@logs("offsets")
def _offsets(served: Served) -> None:
    with served.made(served.env_id) as instance:
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
def _kept(served: Served) -> None:
    with served.made(served.env_id) as instance:
        equal(instance.close().status, 204, "status of the close")
        answer = instance.get("log/")
        equal(answer.status, 200, "status")
        equal(answer.headers.get("gym-log-ended"), "true", "Gym-Log-Ended")
