"""``GET /v1/envs/<id>/log/``: what an instance printed."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from gym_http_server.supervisor.output import MAX_KEPT_LOGS
from tests.support.api import Api, Instance, error, no_content
from tests.support.raw import Response
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    """A server with environments that print."""
    with Server(
        "--import", "tests.support.envs.printing", "--max-instances", "80"
    ) as own:
        yield own


@pytest.fixture
def api(shared: Server) -> Api:
    """A client of that server."""
    return Api(shared)


@pytest.fixture
def instance(api: Api) -> Iterator[Instance]:
    """An instance of an environment that prints its actions' bytes."""
    made = api.create("printing/Actions-v0")
    made.reset()
    yield made
    made.close()


def write_output(instance: Instance, data: bytes) -> None:
    """Have the environment print something."""
    instance.step(f"x{data.hex()}")


def log(instance: Instance, start: int = 0, wait_s: float = 0) -> Response:
    """Read a part of the log."""
    answer = instance.get(f"log/?from={start}&wait_s={wait_s}")
    assert answer.status == 200, answer
    assert answer.content_type == "text/plain; charset=utf-8"
    return answer


def content(answer: Response) -> tuple[bytes, int, int, str]:
    """Return the bytes, the next offset, how much was cut, and whether it ended."""
    next_, cut = answer.header("Gym-Log-Next"), answer.header("Gym-Log-Cut")
    ended = answer.header("Gym-Log-Ended")
    assert next_ is not None
    assert cut is not None
    assert ended is not None
    return answer.body, int(next_), int(cut), ended


def read_all(instance: Instance) -> bytes:
    """Read all of the log, part by part."""
    data, start = b"", 0
    while part := log(instance, start):
        if not part.body:
            return data
        data += part.body
        start = content(part)[1]
    raise AssertionError


def test_a_log_is_read_from_any_offset(instance: Instance) -> None:
    write_output(instance, b"one\n")
    wait_until(lambda: read_all(instance) == b"one\n")
    assert content(log(instance)) == (b"one\n", 4, 0, "false")
    assert content(log(instance, 2)) == (b"e\n", 4, 0, "false")
    assert content(log(instance, 4)) == (b"", 4, 0, "false")
    assert content(log(instance, 999)) == (b"", 4, 0, "false")
    write_output(instance, b"two\n")
    wait_until(lambda: content(log(instance, 4)) == (b"two\n", 8, 0, "false"))


def test_bytes_come_as_they_were_printed(instance: Instance) -> None:
    write_output(instance, bytes(range(256)))
    wait_until(lambda: read_all(instance) == bytes(range(256)))


def test_waiting_for_output(instance: Instance) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(log, instance, 0, 20)
        began = time.monotonic()
        write_output(instance, b"here\n")
        assert content(waiting.result()) == (b"here\n", 5, 0, "false")
        assert time.monotonic() - began < 10
    assert content(log(instance, 5, 0.3)) == (b"", 5, 0, "false")


def test_waiting_beyond_the_end_is_waiting_for_output(instance: Instance) -> None:
    write_output(instance, b"one\n")
    wait_until(lambda: read_all(instance) == b"one\n")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(log, instance, 10**15, 20)
        began = time.monotonic()
        wait_until(lambda: write_output(instance, b"x") or waiting.done(), 15)
        data, next_, cut, _ = content(waiting.result())
    assert data
    assert set(data) == set(b"x")
    assert (next_ > 4, cut) == (True, 0)
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    ("env_id", "last"), [("CartPole-v1", b""), ("printing/Actions-v0", b"bye\n")]
)
def test_the_end_of_the_instance_ends_the_wait(
    env_id: str, last: bytes, api: Api
) -> None:
    instance = api.create(env_id)
    instance.reset()
    size = len(last)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(log, instance, 0, 20)
        began = time.monotonic()
        no_content(instance.close())
        data, following, cut, ended = content(waiting.result())
        assert (data, following, cut) == (last, size, 0)
        # What it printed last may end the wait a moment before the end does.
        assert ended == "true" or last
        assert time.monotonic() - began < 10
    assert content(log(instance, size, 20)) == (b"", size, 0, "true")
    assert time.monotonic() - began < 10


def test_many_waiting_readers_delay_no_request(api: Api, instance: Instance) -> None:
    with ThreadPoolExecutor(40) as pool:
        waiting = [pool.submit(log, instance, 0, 20) for _ in range(40)]
        for _ in range(3):
            write_output(instance, b"")
        other = api.create()
        other.reset()
        no_content(other.close())
        assert not any(each.done() for each in waiting)
        write_output(instance, b"now\n")
        assert {content(each.result())[0] for each in waiting} == {b"now\n"}


def test_a_cut_log_has_a_note(instance: Instance) -> None:
    # The log takes 512 KiB per second.
    line = b"0123456789" * 10_000

    def cut() -> int:
        write_output(instance, line)
        return content(log(instance))[2]

    missing = wait_until(cut, 20)
    data, next_, again, _ = content(log(instance))
    assert again == missing
    assert next_ == missing + len(data)
    assert not data.startswith(b"[")
    # Offsets go on as if nothing had been cut.
    assert content(log(instance, next_ - 10))[0].startswith(data[-10:])
    assert content(log(instance, missing + 5))[:3] == (data[5:], next_, 0)
    assert content(log(instance, missing - 5))[:3] == (data, next_, 5)


def test_output_like_the_note_of_a_cut_is_output(instance: Instance) -> None:
    forged = b"[999 bytes of this log were cut here]\nx\n"
    write_output(instance, forged)
    wait_until(lambda: content(log(instance))[0].endswith(b"x\n"))
    assert content(log(instance)) == (forged, len(forged), 0, "false")


def test_the_logs_of_the_last_that_ended_are_kept(api: Api) -> None:
    instances = []
    for number in range(MAX_KEPT_LOGS + 1):
        made = api.create("printing/Actions-v0", kwargs={"farewell": f"{number}\n"})
        no_content(made.close())
        instances.append(made)
    for number, made in enumerate(instances[1:], 1):
        farewell = f"{number}\n".encode()
        assert content(log(made)) == (farewell, len(farewell), 0, "true")
    error(instances[0].get("log/"), 400, "unknown-instance")


def test_the_log_of_a_crash_is_kept(api: Api) -> None:
    made = api.create("printing/Actions-v0")
    made.reset()
    error(made.post("step/", {"action": "crash"}), 502, "env-crashed")
    data, _, _, ended = content(log(made))
    assert b"about to crash\n" in data
    assert ended == "true"
    # As before.
    error(made.post("reset/", {}), 410, "instance-ended")


def test_the_log_of_an_instance_that_is_being_made(api: Api) -> None:
    body = {
        "env_id": "printing/Actions-v0",
        "kwargs": {"seconds": 2.0},
        "label": "made",
    }

    def making() -> list[str]:
        rows = api.get("/v1/instances/").json()["instances"]
        return [row["instance_id"] for row in rows if row["label"] == "made"]

    with ThreadPoolExecutor(1) as pool:
        created = pool.submit(api.post, "/v1/envs/", body)
        (instance_id,) = wait_until(making)
        made = Instance(api, instance_id)
        assert content(log(made, 0, 20))[0] == b"being made\n"
        assert created.result().status == 200
    no_content(made.close())


@pytest.mark.parametrize(
    "query",
    ["from=-1", "from=x", "from=", "from=1.5", "wait_s=26", "wait_s=-1", "wait_s=x"],
)
def test_invalid_offsets_and_times_are_refused(instance: Instance, query: str) -> None:
    name = query.partition("=")[0]
    refused = error(instance.get(f"log/?{query}"), 400, "bad-parameter")
    assert refused["message"].startswith(f"{name} is ")


def test_unknown_instances_have_no_log(api: Api) -> None:
    error(Instance(api, "0badc0de").get("log/"), 400, "unknown-instance")
    error(Instance(api, "nonsense").get("log/"), 400, "unknown-instance")


def test_readers_do_not_outlast_the_server(api: Api) -> None:
    server = Server("--import", "tests.support.envs.printing")
    with server:
        made = Api(server).create("printing/Actions-v0")
        made.reset()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(log, made, 0, 25)
            write_output(made, b"")
            began = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - began < 10
            assert waiting.result().status == 200
