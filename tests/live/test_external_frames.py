"""Pictures that external environments send arrive as the same arrays."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gym_http_client import RemoteEnv
from tests.support.api import Api, error, ok
from tests.support.broker import server_with_broker, wait_until_unlisted
from tests.support.peers.agent_calls import (
    answer_of,
    close_external,
    create_and_reset,
    in_background,
    reconnect,
)
from tests.support.peers.external_env import RESULT, ExternalEnv

RGB: dict[str, Any] = {
    "render_modes": ["rgb_array", "rgb_array_list", "ansi", "depth"],
    "capabilities": ["reset", "render", "replay"],
}
# Two rows of three pixels.
PICTURE = [[[0, 1, 2], [3, 4, 5], [6, 7, 8]], [[9, 10, 11], [12, 13, 14], [255, 0, 9]]]


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A client of a server with a broker."""
    with server_with_broker() as api:
        yield api


def rendered(api: Api, external: ExternalEnv, mode: str, value: Any) -> Any:
    """Return what an agent receives of an external environment's frame."""
    future = in_background(RemoteEnv, api.server.url, "external/game", render_mode=mode)
    external.answer("init")
    env: Any = future.result(20)
    future = in_background(env.render)
    external.answer("render", rendered=value)
    given = future.result(20)
    future = in_background(env.close)
    external.answer("close")
    future.result(20)
    return given


def test_agents_get_arrays(api: Api) -> None:
    with ExternalEnv.to(api, **RGB) as external:
        given = rendered(api, external, "rgb_array", PICTURE)
        assert type(given) is np.ndarray
        assert (given.shape, given.dtype) == ((2, 3, 3), np.uint8)
        assert given.tolist() == PICTURE
        first, second = rendered(api, external, "rgb_array_list", [PICTURE, PICTURE])
        assert first.dtype == second.dtype == np.uint8
        assert first.tolist() == second.tolist() == PICTURE
    wait_until_unlisted(api)


def test_values_of_other_render_modes_are_unchanged(api: Api) -> None:
    with ExternalEnv.to(api, **RGB) as external:
        assert rendered(api, external, "ansi", "#..\n.o.") == "#..\n.o."
        assert rendered(api, external, "depth", [[0.5, 1]]) == [[0.5, 1]]
    wait_until_unlisted(api)


def test_without_a_mode_nothing_is_drawn(api: Api) -> None:
    # As of Gymnasium's own, whose word for it the host's log has.
    with ExternalEnv.to(api, **RGB) as external:
        instance = create_and_reset(api, external)
        env = RemoteEnv.attach(api.server.url, instance.id)
        with pytest.warns(UserWarning, match="made without a render_mode"):
            assert env.render() is None
        error(instance.get("render/"), 409, "no-render-mode")
        # It received no request.
        future = in_background(instance.post, "step/", {"action": 1})
        external.answer("step", **RESULT)
        ok(answer_of(future))
        close_external(instance, external)
    wait_until_unlisted(api)


def test_pictures_are_files_too(api: Api) -> None:
    with ExternalEnv.to(api, **RGB) as external:
        instance = create_and_reset(api, external, render_mode="rgb_array")
        future = in_background(instance.get, "render/", headers={"Accept": "image/png"})
        external.answer("render", rendered=PICTURE)
        answer = answer_of(future)
        assert answer.content_type == "image/png"
        assert answer.body.startswith(b"\x89PNG")
        close_external(instance, external)
    wait_until_unlisted(api)


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, "rendered"),
        ("#..", "rendered"),
        ([], "rendered"),
        ([[]], "rendered"),
        ([[1, 2], [3, 4]], "rendered"),
        ([[[1, 2, 3, 4]]], "rendered"),
        ([[[1, 2, 256]]], "rendered"),
        ([[[1, 2, 0.5]]], "rendered"),
        ([[[1, 2, 3], [1, 2]]], "rendered"),
    ],
)
def test_an_invalid_frame_is_reported_on_both_sides(
    api: Api, value: Any, field: str
) -> None:
    with ExternalEnv.to(api, **RGB) as external:
        instance = create_and_reset(api, external, render_mode="rgb_array")
        future = in_background(instance.get, "render/")
        external.answer("render", rendered=value)
        problem = error(answer_of(future), 502, "bad-answer")
        assert problem["field"] == field
        assert external.expect_fault()["field"] == field
        # Nothing has happened to the game, so it goes on.
        future = in_background(instance.post, "step/", {"action": 1})
        external.answer("step", **RESULT)
        ok(answer_of(future))
        close_external(instance, external)
    wait_until_unlisted(api)


def test_one_that_was_lost_is_drawn_anew(api: Api) -> None:
    with ExternalEnv.to(api, **RGB) as external:
        instance = create_and_reset(api, external, render_mode="rgb_array")
        future = in_background(instance.get, "render/", headers={"Accept": "image/png"})
        external.expect("render")
        external.drop()
        with reconnect(api, external, **RGB) as again:
            again.answer("render", rendered=PICTURE)
            assert answer_of(future).content_type == "image/png"
            close_external(instance, again)
    wait_until_unlisted(api)
