"""The limits of drawing protect every session but the one that a watcher names."""

from typing import Any, cast

import gymnasium
import pytest

from gym_http_core.vectors import operations_of
from gym_http_server.host.show.showing import Showing
from gym_http_server.host.watcher import Watcher
from gym_http_wire.handshakes import ShowRequest
from gym_http_wire.messages import Op

MS = 1_000_000
SECOND = 1_000_000_000


class Seen:
    """A watcher that keeps the pictures that it is sent."""

    unsent = False

    def __init__(self, session: str, fps: float = 10.0) -> None:
        self.session = session
        self.wanted = ShowRequest(fps, 0.1, 64)
        self.pictures = 0
        self.updates = 0

    def send_update(self, text: bytes, picture: bytes | None) -> None:
        self.updates += 1
        self.pictures += picture is not None


class Run:
    """A host whose environment takes 40 ms to draw, in simulated time."""

    def __init__(self, *watchers: Seen) -> None:
        self.now = 10 * SECOND
        env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
        env.reset(seed=1)
        render = env.render

        def draw() -> Any:
            self.now += 40 * MS
            return render()

        cast(Any, env).render = draw
        self.showing = Showing(
            operations_of(env), 0.1, lambda: False, lambda took: None, lambda: self.now
        )
        for each in watchers:
            self.showing.add(cast(Watcher, each), (Op.RESET, {}, {}))
        self.showing.attend()

    def act(self, session: str, *, after_ms: int = 50) -> None:
        """Take a step, some time after the one before."""
        self.now += after_ms * MS
        self.showing.note_actor(session)
        self.showing.note(Op.STEP, {"reward": 1.0}, {"action": 1})
        self.showing.attend()


def test_a_player_that_is_alone_gets_every_picture() -> None:
    player, other = Seen("player", fps=1), Seen("else")
    run = Run(player, other)
    before = player.pictures, other.pictures
    for _ in range(100):
        run.act("player")
    assert player.pictures - before[0] == 100
    # It costs nobody more that others see the same, as often as they have asked for.
    assert 80 <= other.pictures - before[1] <= 95


@pytest.mark.parametrize("session", ["", "agent"])
def test_an_agent_is_spared_for_a_second_after_each_act(session: str) -> None:
    player = Seen("player")
    run = Run(player)
    for _ in range(3):
        run.act(session)
        before = player.pictures
        for _ in range(10):
            run.act("player")
        assert player.pictures - before <= 2
        run.act("player", after_ms=1000)
        before = player.pictures
        for _ in range(10):
            run.act("player")
        assert player.pictures - before == 10


def test_an_agent_alone_is_drawn_within_the_share() -> None:
    player = Seen("player")
    run = Run(player)
    began, before = run.now, player.pictures
    for _ in range(200):
        run.act("agent", after_ms=20)
    drawn = player.pictures - before
    assert 1 <= drawn <= (run.now - began) / (400 * MS) + 1


def test_a_player_that_reads_slowly_is_not_waited_for() -> None:
    player = Seen("player")
    run = Run(player)
    player.unsent = True
    before = player.updates
    for _ in range(10):
        run.act("player")
    assert player.updates == before
    # No loop without a pause while it reads nothing.
    assert (run.showing.wait_ms() or 0) > 10
    player.unsent = False
    run.showing.attend()
    assert player.updates == before + 1
