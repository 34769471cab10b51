"""Runs of the relay: creation, names, tokens and their roles, sessions."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gym_http_server.errors import (
    RunExists,
    ScopeMissing,
    Unauthorized,
    UnknownRun,
    UnknownRunToken,
    UnknownSession,
)
from gym_http_server.services.relay.calls import Request
from gym_http_server.services.relay.messages import RelayHead
from gym_http_server.services.relay.roles import ROLES
from gym_http_wire.messages import Op
from gym_http_wire.problems import (
    BadParameter,
    KeyReused,
    MissingParameter,
)
from tests.support.relay_logic import RelayBench

#: Operations about a run. The three others are about all runs, or the relay itself.
OF_RUNS = [Op(n) for n in range(Op.RUN_STATUS, Op.RECORDS_GET + 1)]
#: What each role may do, by hand from the description of the roles.
MAY = {
    "worker": "SESSION_CREATE SESSION_STATUS SESSION_END SAMPLES_PUT RECORDS_PUT "
    "WEIGHTS_GET RUN_STATUS",
    "trainer": "SAMPLES_GET LEASE ACK NACK ASIDE READER_PUT READER_GET READER_DELETE "
    "WEIGHTS_PUT WEIGHTS_GET STATE_PUT STATE_GET RECORDS_PUT RECORDS_GET RUN_STATUS",
    "observer": "RUN_STATUS RECORDS_GET WEIGHTS_GET",
}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[RelayBench]:
    with contextlib.closing(RelayBench(tmp_path / "relay")) as made:
        yield made


def test_a_new_run_answers_its_limits_and_a_token_for_each_role(
    bench: RelayBench,
) -> None:
    reply = bench.call(Op.RUN_CREATE, {"run": "b", "limits": {"max_lag": 3}})
    assert reply is not None
    assert reply.status == 201
    made = bench.json(Op.RUN_CREATE, {"run": "c"})
    assert set(made["tokens"]) == {"worker", "trainer", "observer"}
    for token in made["tokens"].values():
        assert token.startswith("ghr_")
        assert len(token) == 47
    assert made["limits"] == {
        "queue_bytes": 1 << 30,
        "queue_batches": 100_000,
        "keep_bytes": 0,
        "max_lag": None,
        "stale": "flag",
        "lease_s": 60.0,
        "deliveries": 5,
        "keep_weights": 10,
        "limiter": None,
    }
    assert made["created"] == "1970-01-12T13:46:40+00:00"


def test_the_same_run_again_is_confirmed_without_tokens(bench: RelayBench) -> None:
    body = {"run": "b", "limits": {"max_lag": 3}}
    bench.json(Op.RUN_CREATE, body)
    reply = bench.call(Op.RUN_CREATE, body)
    assert reply is not None
    assert reply.status == 200
    again = bench.json(Op.RUN_CREATE, body)
    assert (again["tokens"], again["further_tokens"]) == (None, "/v1/runs/b/tokens/")
    for other in ({}, {"max_lag": 4}):
        problem = bench.problem(Op.RUN_CREATE, {"run": "b", "limits": other})
        assert isinstance(problem, RunExists)
    columns = {"reward": {"dtype": "float32", "shape": []}}
    problem = bench.problem(Op.RUN_CREATE, body | {"columns": columns})
    assert isinstance(problem, RunExists)


def test_a_lost_answer_with_tokens_is_sent_again_for_ten_minutes(
    bench: RelayBench,
) -> None:
    first = bench.call(Op.RUN_CREATE, {"run": "b"}, key="k")
    bench.now += 599
    again = bench.call(Op.RUN_CREATE, {"run": "b"}, key="k")
    assert first is not None
    assert again is not None
    assert (again.status, again.body) == (201, first.body)
    assert again.headers == {"Idempotent-Replayed": "true"}
    with pytest.raises(KeyReused):
        bench.call(Op.RUN_CREATE, {"run": "c"}, key="k")
    bench.now += 2
    late = bench.call(Op.RUN_CREATE, {"run": "b"}, key="k")
    assert late is not None
    assert late.status == 200


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ({}, MissingParameter, "'run'"),
        ({"run": "../x"}, BadParameter, "'../x'"),
        ({"run": "-x"}, BadParameter, "a letter or digit"),
        ({"run": "x" * 65}, BadParameter, "up to 63"),
        ({"run": "é"}, BadParameter, "run is"),
        ({"run": 7}, BadParameter, "run is 7"),
        ({"run": "b", "limit": {}}, BadParameter, "did you mean 'limits'"),
        (
            {"run": "b", "limits": {"max_leg": 1}},
            BadParameter,
            "did you mean 'max_lag'",
        ),
        ({"run": "b", "limits": {"max_lag": -1}}, BadParameter, "limits.max_lag is -1"),
        ({"run": "b", "limits": {"stale": "x"}}, BadParameter, "limits.stale is 'x'"),
        (
            {"run": "b", "columns": {"x": {"dtype": "object", "shape": []}}},
            BadParameter,
            "columns.x.dtype is 'object'",
        ),
        (
            {"run": "b", "columns": {"x": {"shape": []}}},
            MissingParameter,
            "'columns.x.dtype'",
        ),
        (
            {"run": "b", "columns": {}},
            BadParameter,
            "columns has 0 items: expected an object",
        ),
        (
            {
                "run": "b",
                "limits": {
                    "limiter": {
                        "samples_per_insert": 1,
                        "min_size": 1,
                        "error_buffer": 0.5,
                    }
                },
            },
            BadParameter,
            "block each other",
        ),
        (
            {
                "run": "b",
                "limits": {
                    "limiter": {
                        "samples_per_insert": 1,
                        "min_size": 10**18,
                        "error_buffer": 1,
                    }
                },
            },
            BadParameter,
            "limits.limiter.min_size",
        ),
    ],
)
def test_a_malformed_run_is_refused(
    bench: RelayBench, body: Any, kind: type[Exception], words: str
) -> None:
    problem = bench.problem(Op.RUN_CREATE, body)
    assert isinstance(problem, kind)
    assert words in problem.message
    assert [each["run"] for each in bench.json(Op.RUN_LIST)["runs"]] == ["pendulum"]


def test_each_role_opens_its_requests_of_its_run_only(bench: RelayBench) -> None:
    bench.json(Op.RUN_CREATE, {"run": "other"})
    for role, allowed in MAY.items():
        for op in (Op.RUN_CREATE, Op.RUN_LIST, *OF_RUNS):
            for run in ("pendulum", "other", "unknown"):
                try:
                    bench.call(op, b"{}", role=role, run=run)
                    refused = False
                except ScopeMissing:
                    refused = True
                except Exception:
                    # It is refused for another reason, after this check.
                    refused = False
                permitted = op.name in allowed.split() and run == "pendulum"
                assert refused != permitted, (role, op.name, run)
    assert {op.name for op in map(Op, ROLES)} == {
        name for allowed in MAY.values() for name in allowed.split()
    }


def test_a_revoked_token_is_refused_and_a_further_one_opens(bench: RelayBench) -> None:
    made = bench.json(Op.TOKEN_CREATE, {"role": "observer"})
    assert bench.json(Op.RUN_STATUS, token=made["token"])["run"] == "pendulum"
    listed = bench.json(Op.TOKEN_LIST)["tokens"]
    assert [each["role"] for each in listed].count("observer") == 2
    assert all(set(each) == {"id", "role", "created"} for each in listed)
    bench.call(Op.TOKEN_DELETE, value=made["id"])
    assert isinstance(bench.problem(Op.RUN_STATUS, token=made["token"]), Unauthorized)
    assert isinstance(bench.problem(Op.TOKEN_DELETE, value=made["id"]), UnknownRunToken)
    problem = bench.problem(Op.TOKEN_CREATE, {"role": "admin"})
    assert "'admin': expected 'worker', 'trainer' or 'observer'" in problem.message


def test_no_token_is_stored(bench: RelayBench, tmp_path: Path) -> None:
    data = b"".join(
        path.read_bytes() for path in (tmp_path / "relay").rglob("*") if path.is_file()
    )
    for token in bench.tokens.values():
        assert token.encode() not in data
    bench.reopen()
    assert bench.json(Op.RUN_STATUS, role="worker")["run"] == "pendulum"


def test_a_token_names_its_run_and_role(bench: RelayBench) -> None:
    found = bench.json(Op.RELAY_ADMIT, run="", role="worker")
    assert found == {"run": "pendulum", "role": "worker"}
    wrong = bench.problem(Op.RELAY_ADMIT, run="", token="ghr_" + "x" * 43)
    assert isinstance(wrong, Unauthorized)


def test_a_deleted_run_is_gone_with_its_tokens(bench: RelayBench) -> None:
    session = bench.session()
    bench.put(session, 1)
    bench.call(Op.RUN_DELETE)
    assert isinstance(bench.problem(Op.RUN_STATUS), UnknownRun)
    assert isinstance(bench.problem(Op.RUN_STATUS, role="worker"), Unauthorized)
    while bench.relay.maintain(bench.now):
        pass
    bench.json(Op.RUN_CREATE, {"run": "pendulum"})
    assert bench.status()["samples"]["stored"] == 0
    assert isinstance(bench.refused(session, 2), UnknownSession)


def test_a_session_has_a_worker_and_numbers(bench: RelayBench) -> None:
    session = bench.session("w.1-a")
    bench.put(session, 1)
    assert bench.json(Op.SESSION_STATUS, value=session) == {
        "session": session,
        "worker": "w.1-a",
        "next": 2,
        "records_next": 1,
    }
    assert bench.status()["workers"][0]["state"] == "active"
    bench.call(Op.SESSION_END, value=session)
    assert bench.status()["workers"][0]["state"] == "left"
    for wrong in ("", "a/b", None, 3):
        with pytest.raises((BadParameter, MissingParameter)):
            bench.call(Op.SESSION_CREATE, {"worker": wrong})
    bench.json(Op.RUN_CREATE, {"run": "other"})
    foreign = bench.problem(Op.SESSION_STATUS, value=session, run="other")
    assert isinstance(foreign, UnknownSession)


def test_records_of_a_session_are_stored_once(bench: RelayBench) -> None:
    session = bench.session()
    line = b'{"type":"episode","mode":"training","return":7,"length":3,"version":0}\n'
    first = bench.json(Op.RECORDS_PUT, line * 2, session=session, number=1)
    assert first == {"stored": 2, "next": 2}
    again = bench.call(Op.RECORDS_PUT, line * 2, session=session, number=1)
    assert again is not None
    assert again.status == 200
    gap = bench.problem(Op.RECORDS_PUT, line, session=session, number=3)
    assert (gap.code, gap.extras) == ("gap", {"next": 2})
    assert bench.json(Op.RECORDS_PUT, line) == {"stored": 1}
    reply = bench.call(Op.RECORDS_GET, after=1, limit=1)
    assert bench.body_of(reply).count(b"\n") == 1
    assert b'"position":2' in bench.body_of(reply)
    assert bench.status()["records"] == {"episodes": 3, "training_steps": 0}


def test_a_run_whose_transaction_was_undone_is_created_by_the_retry(
    bench: RelayBench,
) -> None:
    body = b'{"run": "c"}'
    request = Request(Op.RUN_CREATE, RelayHead(key="k"), body)
    bench.store.begin()
    first = bench.relay.reply(request, bench.now, final=True)
    bench.relay.roll_back()
    again = bench.call(Op.RUN_CREATE, body, key="k")
    assert first is not None
    assert again is not None
    assert again.status == 201
    assert again.body != first.body
    token = msgspec.json.decode(again.body)["tokens"]["worker"]
    assert bench.json(Op.RUN_STATUS, run="c", token=token)["run"] == "c"


def test_a_deleted_run_can_be_created_with_the_same_key(bench: RelayBench) -> None:
    bench.call(Op.RUN_CREATE, {"run": "c"}, key="k")
    bench.call(Op.RUN_DELETE, run="c")
    again = bench.json(Op.RUN_CREATE, {"run": "c"}, key="k")
    token = again["tokens"]["trainer"]
    assert bench.json(Op.RUN_STATUS, run="c", token=token)["run"] == "c"
