"""`serve_agents`: provides a world's agents to a server, each as an environment."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from typing import Any

from gym_http_client.serving.connections import STDIO
from gym_http_client.serving.games import Agent, game_of
from gym_http_client.serving.providers import Providers
from gym_http_client.serving.seats import ProvidedSeat, SeatEnv, Worlds, WorldThread
from gym_http_client.serving.world import Absent, World, act_randomly

__all__ = ["seat_names", "serve_agents"]

#: Characters that the name of an external environment may have.
MAX_NAME = 64


def serve_agents(
    factory: Callable[[], Any],
    url: str,
    *,
    name: str,
    n: int = 1,
    patience_s: float = 20.0,
    absent: str | Absent | None = None,
    token: str | None = None,
    dialect: str = "binary",
    transport: str = "websocket",
    stop: threading.Event | None = None,
) -> None:
    """Provide the agents of PettingZoo worlds to a server, until `stop` is set.

    Each agent of a world is a *seat*: the environment ``external/NAME.AGENT``, which a
    trainer creates and steps as any other. A step waits until all living agents have
    acted; in an `AECEnv`, until it is the agent's turn again.

    Args:
        factory: Makes a PettingZoo environment, a `ParallelEnv` or an `AECEnv`.
        url: The server's address, as for `serve_env`.
        name: A letter or digit, then ``A-Za-z0-9_.-``. A seat's name has a dot and the
            agent's ID after it, and up to 64 characters in all.
        n: Number of worlds, each in a thread.
        patience_s: Seconds that a seat waits for others before it gets an error. The
            server's ``--external-deadline`` must be longer, else creates are refused.
        absent: Acts for agents whose seat is free, or whose holder was silent for
            ``patience_s``: ``"random"``, or a function of a `World` and an agent's ID
            that returns an action. By default, the others wait.
        token: The server's token, as for `serve_env`.
        dialect: As for `serve_env`.
        transport: As for `serve_env`.
        stop: An event; when it is set, this function returns.

    Raises:
        ConnectionRefusedError: The server refuses a seat; the message has the reason.
        ModuleNotFoundError: The address is a ZeroMQ address, and pyzmq is not
            installed.
        TypeError: The factory is no function, or makes something else.
        ValueError: An argument is invalid.
    """
    if not callable(factory):
        raise TypeError(
            f"factory is a {type(factory).__name__}: expected a function that creates "
            "a PettingZoo environment, and then the server's address, as "
            "serve_agents(parallel_env, 'http://127.0.0.1:5000', name='mine')"
        )
    if n < 1:
        raise ValueError(f"n is {n}: expected 1 or more")
    if not patience_s > 0:
        raise ValueError(f"patience_s is {patience_s}: expected seconds above 0")
    if isinstance(absent, str) and absent != "random":
        raise ValueError(f"absent is {absent!r}: expected 'random', a function or None")
    if url == STDIO:
        raise ValueError(f"url is {url!r}: expected a server that is running already")
    providers = Providers(
        url,
        token=token,
        dialect=dialect,
        transport=transport,
        replace=False,
        stop=stop,
    )
    acting = act_randomly if isinstance(absent, str) else absent

    def make_world() -> World:
        game = game_of(factory())
        names = seat_names(name, list(game.env.possible_agents))
        env_ids = {agent: f"external/{each}" for agent, each in names.items()}
        return World(game, env_ids, patience_s, acting)

    threads: list[WorldThread] = []
    try:
        threads.extend(WorldThread(make_world) for _ in range(n))
        worlds = Worlds(threads)
        names = seat_names(name, list(worlds.first.seats))

        def make_seat(agent: Agent) -> ProvidedSeat:
            return ProvidedSeat(SeatEnv(worlds, agent), patience_s)

        providers.run(
            {
                each: [functools.partial(make_seat, agent)] * n
                for agent, each in names.items()
            }
        )
    finally:
        for thread in threads:
            thread.close()


def seat_names(name: str, agents: list[Agent]) -> dict[Agent, str]:
    """Return a name for the seat of each agent, after the world's name and a dot.

    Characters that names cannot have become ``_``. If two names are the same then, or
    one is too long, the index of its agent follows each.
    """
    made = [f"{name}.{re.sub('[^A-Za-z0-9_.-]', '_', str(agent))}" for agent in agents]
    if len({*made}) < len(made) or max(map(len, made)) > MAX_NAME:
        ends = [f"-{index}" for index in range(len(made))]
        made = [
            each[: MAX_NAME - len(end)] + end
            for each, end in zip(made, ends, strict=True)
        ]
    return dict(zip(agents, made, strict=True))
