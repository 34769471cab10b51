"""A request with an idempotency key is executed once, however often it arrives."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.raw import Response
from tests.support.server import Server
from tests.support.wait import wait_until


def key(name: str) -> dict[str, str]:
    """Return the header."""
    return {"Idempotency-Key": name}


def replayed(response: Response) -> bool:
    """Return whether an answer is marked as a replay."""
    return response.header("Idempotent-Replayed") == "true"


def steps(instance: Instance) -> int:
    """Return the number of steps so far."""
    return int(calls.ok(instance.get(""))["steps"])


def test_a_step_again_is_the_same_bytes_and_no_second_step(instance: Instance) -> None:
    instance.reset(seed=0)
    first = instance.post("step/", {"action": 1}, headers=key("a"))
    again = instance.post("step/", {"action": 1}, headers=key("a"))
    other = instance.post("step/", {"action": 1}, headers=key("b"))
    assert (first.status, replayed(first)) == (200, False)
    assert (again.status, again.body, replayed(again)) == (200, first.body, True)
    assert (other.status, replayed(other)) == (200, False)
    assert other.body != first.body
    assert steps(instance) == 2


def test_resets_samples_and_renders_too(create: Callable[..., Instance]) -> None:
    instance = create("CartPole-v1")
    for rest in ("reset/", "action_space/sample", "observation_space/sample"):
        first = instance.post(rest, {}, headers=key(rest))
        again = instance.post(rest, {}, headers=key(rest))
        assert (again.body, replayed(again)) == (first.body, True)


@pytest.mark.parametrize(
    ("rest", "body", "headers"),
    [
        ("step/", {"action": 0}, {}),
        ("reset/", {"action": 1}, {}),
    ],
)
def test_another_request_under_the_same_key_is_422(
    instance: Instance, rest: str, body: dict[str, int], headers: dict[str, str]
) -> None:
    instance.reset(seed=0)
    calls.ok(instance.post("step/", {"action": 1}, headers=key("k")))
    calls.error(
        instance.post(rest, body, headers={**key("k"), **headers}), 422, "key-reused"
    )
    assert steps(instance) == 1


def test_a_conflict_stays_one(instance: Instance) -> None:
    calls.error(instance.post("step/", {"action": 1}, headers=key("k")), 409)
    instance.reset(seed=0)
    late = instance.post("step/", {"action": 1}, headers=key("k"))
    calls.error(late, 409, "reset-needed")
    assert replayed(late)
    assert steps(instance) == 0


def test_refusals_before_the_environment_are_not_stored(instance: Instance) -> None:
    instance.reset(seed=0)
    calls.error(instance.post("step/", {"action": 7}, headers=key("k")), 400)
    calls.ok(instance.post("step/", {"action": 1}, headers=key("k")))
    assert steps(instance) == 1


def test_an_error_of_the_environment_is_kept(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--import", "tests.support.envs.hostile")
    instance = Api(server).create("hostile/RaiseKeyError-v0")
    instance.reset()
    first = instance.post("step/", {"action": 1}, headers=key("k"))
    again = instance.post("step/", {"action": 1}, headers=key("k"))
    assert calls.error(first, 502, "env-error")["error_type"] == "KeyError"
    assert calls.error(again, 502, "env-error")["error_type"] == "KeyError"


def test_a_key_with_an_evicted_answer_is_409_and_never_runs_again(
    instance: Instance,
) -> None:
    instance.reset(seed=0)
    for number in range(20):
        instance.post("step/", {"action": number % 2}, headers=key(f"k{number}"))
        if number == 7:
            instance.reset()
    before = steps(instance)
    kept = instance.post("step/", {"action": 1}, headers=key("k19"))
    assert replayed(kept)
    gone = instance.post("step/", {"action": 0}, headers=key("k0"))
    calls.error(gone, 409, "answer-gone")
    assert steps(instance) == before


def test_50_duplicates_in_flight_are_one_step(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--import", "tests.support.envs.hostile", "--workers", "2")
    instance = Api(server).create("hostile/Slow-v0", kwargs={"seconds": 1.0})
    instance.reset()
    answers: list[Response] = []

    def step() -> None:
        answers.append(instance.post("step/", {"action": 1}, headers=key("k")))

    threads = [threading.Thread(target=step) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
    assert len(answers) == 50
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    assert sum(replayed(answer) for answer in answers) == 49
    assert steps(instance) == 1


def test_a_create_again_is_the_same_instance(api: Api) -> None:
    body = {"env_id": "CartPole-v1"}
    before = set(api.instances())
    first = api.post("/v1/envs/", body, headers=key("create-1"))
    again = api.post("/v1/envs/", body, headers=key("create-1"))
    assert (again.body, replayed(again), replayed(first)) == (first.body, True, False)
    other = {"env_id": "Acrobot-v1"}
    calls.error(
        api.post("/v1/envs/", other, headers=key("create-1")), 422, "key-reused"
    )
    made = set(api.instances()) - before
    assert made == {first.json()["instance_id"]}
    instance = Instance(api, made.pop())
    calls.no_content(instance.post("close/", headers=key("close-1")))
    closed = instance.post("close/", headers=key("close-1"))
    calls.no_content(closed)
    assert replayed(closed)
    calls.error(instance.post("close/", headers=key("close-2")), 400)
    calls.error(instance.close(), 400)


def test_creates_that_make_nothing_are_not_kept(api: Api) -> None:
    body = {"env_id": "CartPole-v1", "seed": "nonsense"}
    for _ in range(2):
        answer = api.post("/v1/envs/", body, headers=key("create-2"))
        calls.error(answer, 400, "bad-parameter")
        assert not replayed(answer)


@pytest.fixture(scope="module")
def hasty() -> Iterator[Server]:
    """A server with hostile environments, which have a second to be made."""
    flags = ("--import", "tests.support.envs.hostile", "--create-deadline", "1")
    with Server(*flags) as started:
        yield started


@pytest.mark.parametrize(
    ("env_id", "kwargs", "status", "code"),
    [
        ("hostile/SlowInit-v0", {"seconds": 60}, 504, "create-deadline"),
        ("hostile/FailInit-v0", {"how": "raise"}, 502, "env-error"),
        ("hostile/FailInit-v0", {"how": "die"}, 502, "env-crashed"),
        ("CartPole-v1", {"nonsense": 1}, 400, "bad-parameter"),
    ],
)
def test_a_making_that_failed_stays_failed(
    hasty: Server,
    env_id: str,
    kwargs: dict[str, object],
    status: int,
    code: str,
) -> None:
    api = Api(hasty)
    body = {"env_id": env_id, "kwargs": kwargs}
    first = api.post("/v1/envs/", body, headers=key(code))
    wait_until(lambda: calls.ok(api.get("/v1/"))["instances"] == 0, 5.0, "its end")
    late = api.post("/v1/envs/", body, headers=key(code))
    assert calls.error(first, status, code)["message"] == late.json()["message"]
    calls.error(late, status, code)
    assert (replayed(first), replayed(late)) == (False, True)
    other = {"env_id": "CartPole-v1"}
    calls.error(api.post("/v1/envs/", other, headers=key(code)), 422, "key-reused")
    assert api.instances() == {}


def test_a_create_that_found_no_room_succeeds_later_under_its_key(
    make_server: Callable[..., Server],
) -> None:
    api = Api(make_server("--max-instances", "1"))
    first = api.create("CartPole-v1")
    body = {"env_id": "CartPole-v1"}
    for _ in range(2):
        answer = api.post("/v1/envs/", body, headers=key("k"))
        calls.error(answer, 429, "too-many-instances")
        assert not replayed(answer)
    calls.no_content(first.close())
    made = api.post("/v1/envs/", body, headers=key("k"))
    assert (made.status, replayed(made)) == (200, False)
    again = api.post("/v1/envs/", body, headers=key("k"))
    assert (again.body, replayed(again)) == (made.body, True)


def test_duplicates_of_a_create_under_way_wait_for_it(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--import", "tests.support.envs.hostile")
    api = Api(server)
    body = {"env_id": "hostile/SlowInit-v0", "kwargs": {"seconds": 1.0}}
    answers: list[Response] = []

    def create() -> None:
        answers.append(api.post("/v1/envs/", body, headers=key("k")))

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
    assert len({answer.body for answer in answers}) == 1
    assert len(api.instances()) == 1


def test_a_create_is_finished_for_a_retry_after_the_client_left(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--import", "tests.support.envs.hostile")
    api = Api(server)
    body = b'{"env_id": "hostile/SlowInit-v0", "kwargs": {"seconds": 0.5}}'
    head = f"POST /v1/envs/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        rest = b"\r\nIdempotency-Key: k\r\n\r\n" + body
        connection.sendall(head.encode() + rest)
        wait_until(lambda: calls.ok(api.get("/v1/"))["instances"] == 1, 5.0, "a host")
    answer = api.post("/v1/envs/", data=body, headers=key("k"))
    assert answer.json()["instance_id"] in api.instances()
    assert len(api.instances()) == 1


@pytest.mark.parametrize("bad", ["a b", "x" * 129, "ä", "\t"])
def test_invalid_keys_are_refused(instance: Instance, bad: str) -> None:
    answer = instance.post("reset/", {}, headers=key(bad))
    if bad.strip():
        calls.error(answer, 400, "bad-parameter")
