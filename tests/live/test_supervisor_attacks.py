"""An environment that attacks the supervisor ends only its own instance."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import api as calls
from tests.support.api import Api, Instance, Response
from tests.support.server import Server
from tests.support.wait import wait_until

SABOTEURS = ("--import", "tests.support.envs.supervisor_attacks")


@pytest.fixture(scope="module")
def attacked_server() -> Iterator[Server]:
    """A server with short limits, which a failing test may end."""
    with Server(*SABOTEURS, "--step-deadline", "2", "--max-instances", "4") as started:
        yield started


@pytest.fixture
def neighbour(attacked_server: Server) -> Iterator[Instance]:
    """An instance that has to live on."""
    instance = Api(attacked_server).create()
    instance.reset()
    yield instance
    instance.step(0)
    calls.no_content(instance.close())


def attack(server: Server, attack_name: str) -> Response:
    """Make an instance misbehave and return the answer."""
    instance = Api(server).create(f"attack/{attack_name}-v0")
    instance.reset()
    return instance.post("step/", {"action": 1})


@pytest.mark.parametrize(
    ("attack_name", "code"),
    [
        ("CutStatus", ("env-crashed",)),
        ("PipeForLog", ("env-crashed",)),
        ("DeepFolders", ("env-crashed",)),
        ("WriteEverywhere", ("env-crashed",)),
        ("ForgeStatus", ("env-crashed",)),
        ("ForgeProblem", ("env-crashed",)),
        ("ForgeHeader", ("env-crashed",)),
        ("ForgeNumber", ("env-crashed",)),
    ],
)
def test_sabotage_ends_the_saboteur_only(
    attacked_server: Server,
    neighbour: Instance,
    attack_name: str,
    code: tuple[str, ...],
) -> None:
    error = calls.error(attack(attacked_server, attack_name), (410, 502, 504))
    assert error["code"] in code
    for instance_id, env_id in neighbour.api.instances().items():
        if env_id.startswith("attack/"):
            calls.no_content(Instance(neighbour.api, instance_id).close())
    wait_until(
        lambda: neighbour.api.instances() == {neighbour.id: "CartPole-v1"},
        5.0,
        "the slot to be free",
    )
    (folder,) = attacked_server.instance_folders()
    assert folder.name == neighbour.id


@pytest.mark.parametrize("attack_name", ["ForgeBody", "ForgeWarnings"])
def test_sabotage_spoils_no_batch(
    attacked_server: Server, neighbour: Instance, attack_name: str
) -> None:
    api = Api(attacked_server)
    instance = api.create(f"attack/{attack_name}-v0")
    instance.reset()
    steps = [
        {"instance_id": neighbour.id, "action": 0},
        {"instance_id": instance.id, "action": 1},
    ]
    body = calls.ok(api.post("/v1/batch/step/", {"steps": steps}))
    good, bad = body["results"]
    assert (good["instance_id"], good["status"]) == (neighbour.id, 200)
    assert len(good["answer"]["observation"]) == 4
    assert (bad["instance_id"], bad["status"]) == (instance.id, 502)
    assert bad["problem"]["code"] == "env-error"
    instance.close()


def test_nonsense_before_being_made_is_a_crash(
    attacked_server: Server, neighbour: Instance
) -> None:
    """Also if the host still reports success before it is ended."""
    body = {"env_id": "attack/WriteEverywhereInit-v0"}
    for _ in range(10):
        calls.error(neighbour.api.post("/v1/envs/", body), 502, "env-crashed")


MODULE = """
import threading, time
from tests.support.envs import supervisor_attacks
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
"""


def test_a_thread_of_a_failed_create_keeps_no_slot(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    """In a separate interpreter, whose end waits for threads."""
    (tmp_path / "threaded_saboteurs.py").write_text(MODULE)
    server = make_server(
        *("--import", "threaded_saboteurs", "--max-instances", "1"),
        python_path=(tmp_path,),
    )
    api = Api(server)
    body = {"env_id": "attack/ThreadAndRaise-v0"}
    calls.error(api.post("/v1/envs/", body), 502, "env-error")
    wait_until(
        lambda: calls.ok(api.get("/v1/"))["instances"] == 0, 8.0, "the slot to be free"
    )


def test_the_registry_is_looked_through_while_instances_end(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    api = Api(server)
    instances = [api.create() for _ in range(6)]
    answers: list[Response] = []
    asking = threading.Thread(target=lambda: answers.append(api.get("/v1/registry/")))
    asking.start()
    for instance in instances:
        instance.close()
    asking.join()
    assert calls.ok(answers[0])["count"] > 0


def test_a_server_that_was_killed_leaves_nothing_too_deep_to_sweep(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*SABOTEURS)
    instance = Api(server).create("attack/DeepFolders-v0")
    instance.reset()
    calls.error(instance.post("step/", {"action": 1}), 502, "env-crashed")
    server.stop()
    assert os.listdir(server.run_dir) == []


def test_a_supervisor_that_hangs_does_not_keep_the_server(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    server.supervisor.suspend()
    assert server.stop() == 0
