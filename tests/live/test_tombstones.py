"""The supervisor's records of instances that have ended."""

from collections.abc import Callable

from gym_http_server.rundir.directory import RunDir
from gym_http_server.web.backends.supervisor_client import SupervisorClient
from gym_http_wire.messages import Op
from tests.support import api as calls
from tests.support.api import Api
from tests.support.server import Server


def test_only_instances_that_crashed_keep_their_log(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--import", "tests.support.envs.hostile")
    api = Api(server)
    closed, crashed = api.create("hostile/Prints-v0"), api.create("hostile/Segfault-v0")
    for each in (closed, crashed):
        each.reset()
    closed.step(1)
    calls.no_content(closed.close())
    error = calls.error(crashed.post("step/", {"action": 1}), 502, "env-crashed")
    assert "about to read address 0" in error["log_tail"]
    (run,) = server.run_dir.iterdir()
    supervisor = SupervisorClient(RunDir(str(run)))
    records = [supervisor.call(Op.TOMBSTONE, each.id) for each in (closed, crashed)]
    assert [record["reason"] for record in records] == ["closed", "crashed"]
    assert records[0]["log_tail"] == ""
    assert "about to read address 0" in records[1]["log_tail"]
