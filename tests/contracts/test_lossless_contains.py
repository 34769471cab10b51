"""Membership requests in the lossless forms agree with the local space."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_wire.values import binary, typed
from tests.support.api import Instance, ok

TYPED = "application/vnd.gym-http.typed+json"
BINARY = "application/vnd.gym-http.binary"
FORMS: list[tuple[str, Any]] = [(TYPED, typed.encode), (BINARY, binary.encode)]

CASES = [
    ("CartPole-v1", "action", np.int64(1)),
    ("CartPole-v1", "action", 1),
    ("CartPole-v1", "action", np.int64(2)),
    ("CartPole-v1", "action", "1"),
    ("CartPole-v1", "action", [1]),
    ("CartPole-v1", "action", None),
    ("CartPole-v1", "observation", np.zeros(4, np.float32)),
    ("CartPole-v1", "observation", np.zeros(4, np.float64)),
    ("CartPole-v1", "observation", np.full(4, 5, np.float32)),
    ("CartPole-v1", "observation", np.zeros(3, np.float32)),
    ("Blackjack-v1", "observation", (12, 3, 0)),
    ("Blackjack-v1", "observation", (12, 3)),
    ("Blackjack-v1", "observation", 12),
]


@pytest.mark.parametrize(("media", "encode"), FORMS, ids=["typed", "binary"])
@pytest.mark.parametrize(("env_id", "which", "value"), CASES, ids=str)
def test_it_agrees_with_the_local_space(
    env_id: str,
    which: str,
    value: Any,
    media: str,
    encode: Callable[[Any], bytes],
    create: Callable[..., Instance],
) -> None:
    with gymnasium.make(env_id) as local:
        expected = bool(getattr(local, f"{which}_space").contains(value))
    response = create(env_id).post(
        f"{which}_space/contains",
        data=encode({"value": value}),
        headers={"Content-Type": media},
    )
    assert ok(response) == {"member": expected}
