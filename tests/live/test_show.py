"""Watchers in the form ``show`` receive the newest state, as text and picture."""

import io
import struct
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gym_http_client
from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.peers.agent_calls import answer_of, create_external, in_background
from tests.support.peers.external_env import ExternalEnv
from tests.support.peers.shown import open_shown
from tests.support.peers.watcher import open_stream, open_watcher
from tests.support.websocket import BINARY, TEXT, WebSocket, value

STEP = 2
ACTION = value('{"dict":[["action","int"]]}', struct.pack("<q", 1))
QUIET = struct.pack("<IIq", 0, 1, 1)
MEMBERS = {
    *("show", "op", "action", "reward", "terminated", "truncated", "episodes"),
    *("steps", "ansi", "picture", "why", "next_picture_s", "error"),
    *("return", "length", "ended"),
}


def shrunk(pixels: NDArray[np.uint8], width: int, height: int) -> NDArray[Any]:
    """Return an image in another size, as means of its pixels."""
    rows = np.array_split(pixels.astype(float), height, axis=0)
    halves = np.stack([each.mean(axis=0) for each in rows])
    columns = np.array_split(halves, width, axis=1)
    return np.stack([each.mean(axis=1) for each in columns], axis=1)


def differ(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> float:
    """Return the mean difference of two images, seen from afar."""
    return float(np.abs(shrunk(one, 30, 20) - shrunk(other, 30, 20)).mean())


def test_a_picture_is_that_of_the_local_environment(
    create_either: Callable[..., Instance],
) -> None:
    instance = create_either(render_mode="rgb_array")
    local = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    with open_shown(instance, "&size=300&share=1") as shown:
        before = shown.update()
        assert before.text.keys() >= MEMBERS
        assert (before.text["show"], before.text["op"]) == (1, None)
        assert (before.text["why"], before.pixels) == ("not-reset", None)
        instance.reset(seed=3)
        local.reset(seed=3)
        update = shown.until(0, picture=True)
        assert update.text["op"] == "reset"
        for _ in range(8):
            body = instance.step(1)
            local.step(1)
        # The host is idle now, and its last state is shown once.
        last = shown.until(8, picture=True)
        assert last.text["show"] > update.text["show"]
        assert (last.text["op"], last.text["action"]) == ("step", 1)
        assert (last.text["reward"], last.text["terminated"]) == (1.0, False)
        assert body["reward"] == 1.0
        assert (last.text["return"], last.text["length"]) == (8.0, 8)
        assert (last.text["episodes"], last.text["ended"]) == (0, [])
        assert last.pixels is not None
        assert last.pixels.shape == (200, 300, 3)
        rendered: Any = local.render()
        assert differ(last.pixels, rendered) < 2
        assert update.pixels is not None
        assert differ(last.pixels, update.pixels) > differ(last.pixels, rendered)
        with open_shown(instance, "&size=16") as late:
            first = late.update()
            assert (first.text["show"], first.text["steps"]) == (1, 8)
            assert first.pixels is not None
            assert first.pixels.shape == (10, 16, 3)


def test_fast_steps_and_batches_are_shown(instance: Instance) -> None:
    instance.reset(seed=3)
    with open_shown(instance) as shown, open_stream(instance, BINARY) as agent:
        assert shown.update().text["why"] == "no-render-mode"
        named = struct.pack("<II", len(ACTION) - 16, 1) + ACTION[8:-8] + bytes(8)
        assert agent.call_binary(STEP, 1, named).status == 200
        for number in range(2, 6):
            assert agent.call_binary(STEP, number, QUIET).status == 200
        update = shown.until(5).text
        assert (update["op"], update["action"], update["why"]) == (
            *("step", 1),
            "no-render-mode",
        )
        calls.ok(instance.post("step/", {"actions": [0, 1, 0]}))
        assert shown.until(8).text["action"] == 0
        body = calls.ok(instance.post("rollout/", {"episodes": 400}))
        update = shown.until(8 + body["steps"]).text
        # The episode before was cut short by the rollout's first reset.
        assert update["episodes"] == 401
        known = calls.ok(instance.get("episodes/?last=20"))["episodes"]
        assert update["ended"] == known[-len(update["ended"]) :]
        assert (update["return"], update["length"]) == (
            known[-1]["return"],
            known[-1]["length"],
        )
        # During a rollout, too, if it takes longer than an update; on a fast machine
        # not each does.
        steps = 8 + body["steps"]
        for _ in range(20):
            body = calls.ok(instance.post("rollout/", {"episodes": 400}))
            steps, before = steps + body["steps"], update["show"]
            update = shown.until(steps).text
            if update["show"] > before + 1:
                break
        assert update["show"] > before + 1
        calls.error(instance.post("step/", {"action": 9}), 400, "invalid-action")
        assert "9" in shown.update().text["error"]


@pytest.mark.parametrize("protocol", [TEXT, BINARY])
def test_a_player_sees_each_of_its_own_steps(
    create_either: Callable[..., Instance], protocol: str
) -> None:
    instance = create_either(render_mode="rgb_array")
    instance.reset(seed=3)
    sparing = "&fps=1&share=0.01"
    with (
        WebSocket.to(instance, "player", sec_websocket_protocol=protocol) as player,
        open_shown(instance, f"{sparing}&session=player") as shown,
        open_shown(instance, sparing) as other,
    ):
        assert shown.update().text["op"] == "reset"
        assert other.update().text["show"] == 1
        for number in range(1, 9):
            if protocol == TEXT:
                reply = player.call(op="step", number=number, action=number % 2)
                assert reply["body"]["reward"] == 1.0
            else:
                named = struct.pack("<II", len(ACTION) - 16, 1) + ACTION[8:-8]
                body = QUIET if number > 1 else named + bytes(8)
                assert player.call_binary(STEP, number, body).status == 200
        seen = [shown.update() for _ in range(8)]
        assert [each.text["steps"] for each in seen] == list(range(1, 9))
        assert all(each.pixels is not None for each in seen)
        # The rate that a watcher has asked for holds for those that only look on.
        assert other.until(8).text["show"] <= 4
        # Over HTTP, after its stream was lost, it is the same session.
        key = {"Idempotency-Key": "player-9"}
        calls.ok(instance.post("step/", {"action": 0}, headers=key))
        update = shown.update()
        assert (update.text["steps"], update.pixels is None) == (9, False)


def test_text_vectors_and_observations(create: Callable[..., Instance]) -> None:
    taxi = create(env_id="Taxi-v4", render_mode="ansi")
    taxi.reset(seed=1)
    local = gymnasium.make("Taxi-v4", render_mode="ansi")
    local.reset(seed=1)
    with open_shown(taxi) as shown:
        first = shown.update().text
        assert (first["ansi"], first["picture"], first["why"]) == (
            *(local.render(), None),
            None,
        )
    vector = create(num_envs=3, render_mode="rgb_array")
    vector.reset(seed=3)
    with open_shown(vector, "&share=1") as shown:
        vector.step([1, 0, 0])
        update = shown.until(3, picture=True)
        assert (update.text["envs"], update.text["action"]) == (3, 1)
        assert update.text["reward"] == 1.0
        assert update.pixels is not None
        # A grid of two by two cells, the last one empty.
        assert update.pixels.shape == (426, 640, 3)
        assert update.pixels[:200].mean() > 200
        assert update.pixels[220:, 330:].max() < 30
    frames = create(env_id="CartPole-v1", render_mode="rgb_array_list")
    frames.reset()
    with open_shown(frames) as shown:
        assert shown.update().text["why"] == "list"
    assert len(calls.ok(frames.get("render/?", headers={"Accept": "application/json"})))


def test_showing_changes_no_result(create: Callable[..., Instance]) -> None:
    shown, alone = (create(render_mode="rgb_array") for _ in range(2))
    with open_shown(shown, "&fps=60&share=1") as watcher:
        results = []
        for instance in (shown, alone):
            bodies = [instance.reset(seed=5)]
            bodies += [instance.step(number % 2) for number in range(40)]
            results.append(bodies)
        assert watcher.until(40, picture=True).pixels is not None
    assert results[0] == results[1]


def test_an_environment_that_fails_to_render_is_stepped(
    create_toy: Callable[..., Instance],
) -> None:
    instance = create_toy("toys/Odd-v0", render_mode="rgb_array")
    instance.reset()
    with open_shown(instance) as shown:
        update = shown.update().text
        assert (update["why"], update["error"]) == ("render-failed", None)
        assert "AssertionError in render" in update["render_error"]
        # A reward that is no number is null, as in all plain JSON.
        assert instance.step(1)["reward"] is None
        update = shown.until(1).text
        assert (update["reward"], update["action"]) == (None, 1)


def test_an_external_environment_is_shown(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_external(api, external)
        with open_shown(instance) as shown:
            assert shown.update().text["op"] is None
            future = in_background(instance.post, "reset/")
            external.answer("reset", observation=[0, 1], info={})
            calls.ok(answer_of(future))
            assert shown.update().text["op"] == "reset"
            future = in_background(instance.post, "step/", {"action": 1})
            external.expect("step")
            external.drop()
            calls.error(answer_of(future), 503)
            update = shown.update().text
            assert (update["op"], update["why"]) == ("step", "external-away")
            assert update["error"]
        instance.close()


def test_a_ticking_instance_draws_what_fits(
    create_toy: Callable[..., Instance],
) -> None:
    # 30 ms fit into 50 ms after a tick, but not at any time.
    for seconds, fits in ((0.03, True), (0.1, False)):
        instance = create_toy(
            "toys/SlowPaint-v0",
            kwargs={"seconds": seconds},
            render_mode="rgb_array",
            realtime={"mode": "free_running", "hz": 20, "default_action": 0},
        )
        instance.reset()
        with open_shown(instance, "&share=1") as shown:
            update = shown.until(4, picture=fits)
            assert update.text["op"] == "tick"
            if fits:
                assert update.pixels is not None
                assert abs(int(update.pixels.max()) - update.text["steps"]) < 4
                continue
            # Twice it is tried, since the first time may be that of a renderer's start.
            while update.text["why"] is None or update.text["next_picture_s"]:
                update = shown.update()
            whys = [shown.update().text["why"] for _ in range(6)]
            assert whys == ["too-slow"] * 6
        instance.close()


def test_bad_parameters_are_refused(instance: Instance) -> None:
    for parameter in ("fps=61", "share=0.009", "size=15", "ask=2"):
        path = instance.path(f"stream?watch=1&form=show&{parameter}")
        with WebSocket.to(instance, path=path, sec_websocket_protocol=None) as refused:
            message = calls.error(refused.response, 400, "bad-parameter")["message"]
            assert message.startswith(f"{parameter.split('=')[0]} is ")
    path = instance.path("stream?watch=1&form=show")
    with WebSocket.to(instance, path=path) as refused:
        message = calls.error(refused.response, 400, "bad-parameter")["message"]
        assert "gym-http.v1.json" in message


def test_the_python_client_iterates(create_either: Callable[..., Instance]) -> None:
    instance = create_either(render_mode="rgb_array")
    instance.reset(seed=3)
    client = gym_http_client.Server(instance.api.server.url)
    with client.show(instance.id, fps=60, share=0.5, size=200) as states:
        first = next(states)
        assert (first.state["show"], first.state["picture"]["width"]) == (1, 200)
        assert first.picture is not None
        assert Image.open(io.BytesIO(first.picture)).size == (200, 133)
        instance.step(1)
        assert next(each for each in states if each.state["steps"]).state["op"] == (
            "step"
        )
        instance.close()
        assert all(each.state["steps"] == 1 for each in states)
    other = create_either()
    with pytest.raises(gym_http_client.ServerError, match="fps is '61'") as caught:
        client.show(other.id, fps=61)
    assert caught.value.code == "bad-parameter"


def test_copies_have_their_requests(instance: Instance) -> None:
    with open_watcher(instance, more="&form=plain&ask=1") as watcher:
        calls.ok(instance.post("reset/", {"seed": 4, "options": {"low": -0.1}}))
        request = {"seed": 4, "options": {"low": -0.1}}
        assert watcher.copy()["request"] == request
        instance.step(1)
        assert watcher.copy()["request"] == {"action": 1}
        calls.ok(instance.post("rollout/", {"actions": [[0]], "seed": 3}))
        assert watcher.copy()["request"] == {"seed": 3, "options": None}
        assert watcher.copy()["request"] == {"action": 0}
        with open_watcher(instance, more="&ask=1") as late:
            assert late.copy()["request"] == {"action": 0}
    for more in ("&form=typed&ask=1", "&ask=yes"):
        path = instance.path(f"stream?watch=1{more}")
        with WebSocket.to(instance, path=path) as refused:
            calls.error(refused.response, 400, "bad-parameter")
