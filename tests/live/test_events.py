"""``GET /v1/events/``: what was made, ended and refused, by owner, and bounded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_http_server.supervisor.events import MAX_EVENTS, MAX_REASON, Events
from tests.support.api import Api, ok
from tests.support.server import Server
from tests.support.token_file import token_of, write_file

pytestmark = pytest.mark.live


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with several tokens and a single slot."""
    flags = ("--tokens", write_file(tmp_path), "--max-instances", "1")
    with Server(*flags, token=token_of("root")) as started:
        yield started


def events(api: Api, name: str, query: str = "") -> list[dict[str, Any]]:
    """Return the events that a token sees."""
    headers = {"Authorization": f"Bearer {token_of(name)}"}
    answer = ok(api.request("GET", f"/v1/events/{query}", headers=headers))
    return list(answer["events"])


def test_made_ended_and_refused_by_owner(server: Server) -> None:
    api = Api(server)
    as_ada = {"Authorization": f"Bearer {token_of('ada')}"}
    body = {"env_id": "CartPole-v1", "label": "mine"}
    made = api.request("POST", "/v1/envs/", body, headers=as_ada)
    instance_id = ok(made)["instance_id"]
    for _ in range(2):
        refused = api.request("POST", "/v1/envs/", {"env_id": "Taxi-v4"})
        assert refused.status >= 400
    closed = api.request("DELETE", f"/v1/envs/{instance_id}/", headers=as_ada)
    assert closed.status == 204
    unknown = api.request("POST", "/v1/envs/", {"env_id": "CartPoll-v1"})
    assert unknown.status >= 400

    seen = events(api, "root")
    kinds = [(each["event"], each["env_id"], each["owner"]) for each in seen]
    assert kinds == [
        ("made", "CartPole-v1", "ada"),
        ("refused", "Taxi-v4", "root"),
        ("ended", "CartPole-v1", "ada"),
        ("refused", "CartPoll-v1", "root"),
    ]
    first, full, ended, wrong = seen
    assert (first["instance_id"], first["label"]) == (instance_id, "mine")
    assert first["reason"] is None
    assert (full["count"], full["instance_id"]) == (2, None)
    assert "1" in full["reason"]
    assert ended["reason"] == "closed"
    assert "CartPoll" in wrong["reason"]
    numbers = [each["number"] for each in seen]
    assert numbers == sorted(set(numbers))

    own = [each["event"] for each in events(api, "ada")]
    assert own == ["made", "ended"]
    assert events(api, "reader") == []
    later = f"?from={ended['number']}"
    assert [each["event"] for each in events(api, "root", later)] == [
        "ended",
        "refused",
    ]
    forbidden = {"Authorization": f"Bearer {token_of('stepper')}"}
    assert api.request("GET", "/v1/events/", headers=forbidden).status == 403


def test_a_token_pushes_out_no_events_of_another() -> None:
    kept = Events()
    kept.add("made", "CartPole-v1", "ada", instance_id="00000001")
    kept.add("ended", "CartPole-v1", "ada", instance_id="00000001")
    before = kept.since(0, "ada")["events"]
    for number in range(MAX_EVENTS + 100):
        # One reason that is repeated would be one event.
        kept.add("refused", f"X-v{number % 2}", "bob")
    assert [each.event for each in before] == ["made", "ended"]
    assert kept.since(0, "ada")["events"] == before
    assert len(kept.since(0, "bob")["events"]) == MAX_EVENTS - len(before)


def test_a_reason_with_another_number_is_the_same() -> None:
    kept = Events()
    for seconds in (9, 10, 8):
        reason = f"all slots are taken; room in {seconds} s"
        kept.add("refused", "CartPole-v1", "", reason=reason)
    kept.add("refused", "CartPole-v1", "", reason="the name is wrong")
    found = kept.since(0, "")["events"]
    assert [each.count for each in found] == [3, 1]
    assert found[0].reason == "all slots are taken; room in 8 s"


def test_events_and_reasons_are_bounded() -> None:
    kept = Events()
    for number in range(MAX_EVENTS + 7):
        kept.add("made", "CartPole-v1", "", instance_id=f"{number:08x}")
    kept.add("refused", "x", "", reason="y" * 10_000)
    answer = kept.since(0, "")
    found = answer["events"]
    assert len(found) == MAX_EVENTS
    assert found[0].instance_id == f"{8:08x}"
    assert len(found[-1].reason or "") == MAX_REASON
    assert answer["next"] > found[-1].number


def test_numbers_grow_when_the_clock_is_set_back_and_after_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000.0
    monkeypatch.setattr("time.time", lambda: now)
    kept = Events()
    kept.add("made", "A-v0", "")
    kept.add("ended", "A-v0", "")
    after = kept.since(0, "")["next"]
    now = 900.0
    kept.add("made", "B-v0", "")
    assert [each.env_id for each in kept.since(after, "")["events"]] == ["B-v0"]
    last = kept.since(0, "")["next"]
    now = 1_001.0
    restarted = Events()
    restarted.add("made", "C-v0", "")
    assert [each.env_id for each in restarted.since(last, "")["events"]] == ["C-v0"]
