"""Several clients play in one world, each as one of its agents."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.classic.connect_four.connect_four import env as connect_four
from pettingzoo.classic.rps.rps import parallel_env as rps

from gym_http_client import RemoteEnv, RemoteVectorEnv, ServerError, serve_agents
from gym_http_client.serving import world
from gym_http_wire.problems import ExternalAway
from tests.support.api import Api, Instance, error
from tests.support.broker import listed_env, tcp_url
from tests.support.envs.meeting import Meeting
from tests.support.faults.disconnecting_proxy import DisconnectingProxy
from tests.support.peers.zmq_peers import zmq_url
from tests.support.seats import served_agents
from tests.support.server import Server
from tests.support.status_page import is_busy
from tests.support.wait import wait_until

STEPS = 100
LIVES = {("red", 0): 40, 1: 60}
RED, ONE = "external/meeting.__red___0_", "external/meeting.1"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server whose external environments have a second to come back."""
    ports = ("--external-tcp", "0", "--zmq", "tcp://127.0.0.1:0")
    limits = ("--external-grace", "1", "--external-deadline", "60")
    limits += ("--step-deadline", "90")
    with Server(*limits, *ports) as server:
        yield server


def free(server: Server, name: str) -> int:
    """Count the free seats of a name."""
    found = listed_env(Api(server), name)
    return found["free"] if found else 0


def both(*calls: Callable[[], Any]) -> list[Any]:
    """Call functions at the same time; return their results."""
    with ThreadPoolExecutor() as pool:
        return [each.result() for each in [pool.submit(call) for call in calls]]


@pytest.mark.parametrize(
    ("way", "options"),
    [
        ("websocket", {}),
        ("websocket", {"transport": "http", "dialect": "typed"}),
        ("tcp", {}),
        ("zmq", {"dialect": "typed"}),
    ],
)
def test_each_sees_the_actions_of_the_other(
    server: Server, way: str, options: dict[str, Any]
) -> None:
    urls = {"tcp": tcp_url(server), "zmq": f"zmq+{zmq_url(server)}"}
    steps = STEPS // 10 if options.get("transport") else STEPS

    def play(seat: str, own: int) -> list[tuple[int, float]]:
        """Play rock, paper, scissors in turn; return what was seen."""
        with RemoteEnv(server.url, seat, wait_s=20) as env:
            env.reset(seed=1)
            steps_taken = (env.step((own + i) % 3) for i in range(steps))
            return [(int(step[0]), float(step[1])) for step in steps_taken]

    # Connections by HTTP that were ended count as free for a while.
    name = options.get("transport", way)
    with served_agents(
        lambda: rps(max_cycles=steps), urls.get(way, server.url), name=name, **options
    ):
        first, second = both(
            lambda: play(f"external/{name}.player_0", 0),
            lambda: play(f"external/{name}.player_1", 1),
        )
    assert first == [((1 + i) % 3, -1.0) for i in range(steps)]
    assert second == [(i % 3, 1.0) for i in range(steps)]


def test_seats_have_the_ids_and_spaces_of_their_agents(server: Server) -> None:
    log: list[Any] = []
    with (
        served_agents(lambda: Meeting(LIVES, log), server.url, name="meeting"),
        RemoteEnv(server.url, RED, wait_s=20) as red,
        RemoteEnv(server.url, ONE, wait_s=20) as one,
    ):
        assert red.metadata["agent"] == ("red", 0)
        assert one.metadata["possible_agents"] == [("red", 0), 1]
        assert red.action_space.n + 1 == one.action_space.n == 1_000_001
        described = Api(server).get(f"/v1/envs/{red.instance_id}/").json()
        assert described["metadata"]["agent"] == ["red", 0]
        both(lambda: red.reset(seed=3), lambda: one.reset(seed=4))
        assert log == [3]
        with pytest.raises(Exception, match=r"action of 1 is 1000001"):
            one.step(1_000_001)
        assert red.render().max() == 0
        both(lambda: red.step(7), lambda: one.step(8))
        assert red.render().max() == 1
        assert log == [3, {("red", 0): 7, 1: 8}]


def test_an_agent_that_died_waits_however_long_others_play(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[Any] = []
    refusals: list[str] = []

    def refusal(words: str) -> ExternalAway:
        refusals.append(words)
        return ExternalAway(words)

    monkeypatch.setattr(world, "ExternalAway", refusal)
    with (
        served_agents(
            lambda: Meeting({"a": 1, "b": 10**6}, log),
            server.url,
            name="m",
            patience_s=2,
        ),
        RemoteEnv(server.url, "external/m.a", wait_s=20) as a,
        RemoteEnv(server.url, "external/m.b", wait_s=20) as b,
        ThreadPoolExecutor() as pool,
    ):
        both(a.reset, b.reset)
        assert both(lambda: a.step(0), lambda: b.step(0))[0][2]
        reset = pool.submit(a.reset)
        while not refusals:
            b.step(1)
        assert not reset.done()
        b.reset()
        reset.result()
    assert log[-1] is None
    assert set(refusals) == {
        "the episode goes on with b: reset your environment (a) again"
    }


@pytest.mark.filterwarnings("ignore")
def test_gymnasium_finds_nothing_wrong_with_a_seat(server: Server) -> None:
    with (
        served_agents(rps, server.url, name="rps", absent="random"),
        RemoteEnv(server.url, "external/rps.player_0", wait_s=20) as env,
    ):
        check_env(env, skip_render_check=True, skip_close_check=True)


def test_seats_of_one_world_belong_together(server: Server) -> None:
    logs: list[list[Any]] = []

    def make() -> Meeting:
        logs.append([])
        return Meeting({"a": 50, "b": 50}, logs[-1])

    def seat(agent: str) -> RemoteEnv:
        return RemoteEnv(server.url, f"external/m.{agent}", wait_s=20)

    def play(a: RemoteEnv, b: RemoteEnv, value: int) -> None:
        both(a.reset, b.reset)
        both(lambda: a.step(value), lambda: b.step(value + 1))

    with served_agents(make, server.url, name="m", n=3):
        a1, b1, b2, a2, b3 = map(seat, ["a", "b", "b", "a", "b"])
        play(a1, b1, 10)
        play(a2, b2, 20)
        # It frees its seat, and the next one gets that.
        a1.close()
        wait_until(lambda: free(server, "m.a") == 2)
        a1 = seat("a")
        play(a1, b1, 30)
        for each in (a1, b1, a2, b2, b3):
            each.close()
        a, b = (
            RemoteVectorEnv(server.url, f"external/m.{agent}", num_envs=3, wait_s=20)
            for agent in "ab"
        )
        both(a.reset, b.reset)
        actions = np.arange(3)
        seen, _ = both(lambda: a.step(actions), lambda: b.step(actions + 7))
        assert seen[0][:, 0].tolist() == [0, 1, 2]
        assert sorted(seen[0][:, 1].tolist()) == [7, 8, 9]
        both(a.close, b.close)
    played = [[step for step in log if step] for log in logs]
    assert [steps[:-1] for steps in played] == [
        [{"a": 10, "b": 11}, {"a": 30, "b": 31}],
        [{"a": 20, "b": 21}],
        [],
    ]


@pytest.mark.parametrize("dialect", ["binary", "typed"])
def test_patience_has_to_be_below_the_deadline(server: Server, dialect: str) -> None:
    with served_agents(rps, server.url, name="rps", patience_s=60, dialect=dialect):
        request = {"env_id": "external/rps.player_0", "wait_s": 20}
        refused = error(Api(server).post("/v1/envs/", request), 400, "bad-parameter")
    assert "patience_s is 60: expected less than the" in refused["message"]
    assert "--external-deadline" in refused["message"]
    assert "--step-deadline" in refused["message"]


def test_an_error_names_who_did_not_act_and_needs_a_reset(server: Server) -> None:
    with (
        served_agents(rps, server.url, name="rps", patience_s=0.5),
        RemoteEnv(server.url, "external/rps.player_0", wait_s=20) as first,
        RemoteEnv(server.url, "external/rps.player_1", wait_s=20) as second,
    ):
        both(first.reset, second.reset)
        words = r"player_1 did not act within 0\.5 s: reset your environment \(player_0"
        with pytest.raises(TimeoutError, match=words) as caught:
            first.step(0)
        # It is no mistake in the world's program.
        assert not getattr(caught.value, "__notes__", [])
        for env in (first, second):
            with pytest.raises(Exception, match="reset"):
                env.step(0)
        both(first.reset, second.reset)
        both(lambda: first.step(0), lambda: second.step(0))


def test_absent_agents_play_at_random_until_a_holder_comes(server: Server) -> None:
    with (
        served_agents(connect_four, server.url, name="c4", absent="random"),
        RemoteEnv(server.url, "external/c4.player_0", wait_s=20) as first,
    ):
        observation, _ = first.reset(seed=1)
        over = False
        while not over:
            action = np.flatnonzero(observation["action_mask"])[0]
            observation, _, over, _, _ = first.step(action)
        with (
            RemoteEnv(server.url, "external/c4.player_1", wait_s=20) as second,
            ThreadPoolExecutor() as pool,
        ):
            turn = pool.submit(second.reset)
            first.reset()
            seen = pool.submit(first.step, 3)
            assert turn.result()[0]["observation"][5, :, 1].tolist().index(1) == 3
            turn = pool.submit(second.step, 4)
            assert seen.result()[0]["observation"][5, :, 1].tolist().index(1) == 4
            last = pool.submit(first.step, 3)
            turn.result()
            # After it has left, another acts in its place.
            second.close()
            last.result()


def test_a_seat_whose_holder_is_gone_is_free_at_once(server: Server) -> None:
    """Also one whose holder was waiting for others."""
    api = Api(server)
    with served_agents(rps, server.url, name="rps", patience_s=50):
        first = RemoteEnv(server.url, "external/rps.player_0", wait_s=20)
        second = RemoteEnv(server.url, "external/rps.player_1", wait_s=20)
        both(first.reset, second.reset)
        pool = ThreadPoolExecutor()
        waiting = pool.submit(first.step, 0)
        host = server.host(first.instance_id)
        wait_until(lambda: is_busy(Instance(api, first.instance_id)))
        host.kill()
        wait_until(lambda: free(server, "rps.player_0") == 1)
        assert isinstance(waiting.exception(), ServerError)
        first.close()
        third = RemoteEnv(server.url, "external/rps.player_0", wait_s=20)
        reset = pool.submit(third.reset)
        _, reward, _, truncated, info = second.step(0)
        assert (float(reward), truncated) == (0.0, True)
        assert info["cut"] == "player_0 left the episode"
        second.reset()
        reset.result()
        pool.shutdown()
        second.close()
        third.close()


def test_a_connection_that_is_cut_while_it_waits_continues(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    api = Api(server)
    with DisconnectingProxy(server.port) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        with (
            served_agents(rps, url, name="rps", patience_s=50),
            RemoteEnv(server.url, "external/rps.player_0", wait_s=20) as first,
            RemoteEnv(server.url, "external/rps.player_1", wait_s=20) as second,
            ThreadPoolExecutor() as pool,
        ):
            both(first.reset, second.reset)
            step = pool.submit(first.step, 2)
            wait_until(lambda: is_busy(Instance(api, first.instance_id)))
            with caplog.at_level("INFO", "gym_http_client.serving"):
                proxy.cut_all()
                # Both come back, before anything else happens.
                wait_until(lambda: caplog.text.count(" resumed, ") == 2)
            assert int(second.step(1)[0]) == 2
            assert int(step.result()[0]) == 1


def test_a_seat_whose_world_is_gone(server: Server) -> None:
    with served_agents(rps, server.url, name="rps") as stop:
        request = {"env_id": "external/rps.player_0", "wait_s": 20}
        api = Api(server)
        instance = api.post("/v1/envs/", request).json()["instance_id"]
        stop.set()
        reset = f"/v1/envs/{instance}/reset/"
        error(api.post(reset, {}), 503, "external-away")
    wait_until(lambda: api.post(reset, {}).status == 410)
    gone = error(api.post(reset, {}), 410, "instance-ended")
    assert gone["reason"] == "external-gone"


def test_a_factory_that_makes_no_world_is_refused(server: Server) -> None:
    with pytest.raises(TypeError, match="expected an environment of PettingZoo"):
        serve_agents(lambda: 5, server.url, name="none")
    with pytest.raises(ZeroDivisionError):
        serve_agents(lambda: 1 / 0, server.url, name="none")
    with pytest.raises(ConnectionRefusedError, match="name is"):
        serve_agents(rps, server.url, name="no name")
