"""``bench.run(Agent, World)``: one trial of an agent in a world that does not wait.

The agent runs in a process of its own, as Myrtle's do. The world runs in a host of a
server, on the server's clock, or on its own time if it has a method ``run()``.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gym_http_client.calls.real_time_calls import Update, Updates
from gym_http_client.envs.real_time_env import RealTimeEnv
from gym_http_client.errors import WorldEnded
from gym_http_client.myrtle.agent_process import AgentFailed, AgentProcess
from gym_http_client.myrtle.agents import AGENTS
from gym_http_client.myrtle.recording import Recording, path_of
from gym_http_client.myrtle.spaces import actions_of, sensors_of
from gym_http_client.own_server import own_server

__all__ = ["AgentFailed", "Summary", "run"]

#: Updates that the server keeps for this client, so that none is lost.
_BUFFER = 1024


class Summary(NamedTuple):
    """The result of a trial.

    Attributes:
        run: ID of the run, as in the recording.
        agent: Name of the agent.
        world: Name of the world.
        updates: Number of updates.
        episodes: Number of episodes that ended.
        reward: Sum of all rewards.
        channels: Mean reward of each channel over the updates in which it said
            something; NaN for a channel that never did.
        seconds: Duration of the trial.
        lost: Number of updates that did not reach this client.
        timing: Statistics of the clock, as `RealTimeEnv.timing` returns them.
        path: The recording, or ``None``.
    """

    run: str
    agent: str
    world: str
    updates: int
    episodes: int
    reward: float
    channels: tuple[float, ...]
    seconds: float
    lost: int
    timing: dict[str, Any]
    path: Path | None

    @property
    def mean_reward(self) -> float:
        """The mean reward of an update."""
        return self.reward / self.updates if self.updates else 0.0

    def __str__(self) -> str:
        channels = ", ".join(f"{each:.3g}" for each in self.channels)
        episodes = "1 episode" if self.episodes == 1 else f"{self.episodes} episodes"
        lines = [
            f"{self.agent} in {self.world}: {self.updates} updates, {episodes} ended, "
            f"{self.seconds:.1f} s",
            f"reward   {self.reward:.6g} in all, {self.mean_reward:.4g} an update",
        ]
        if len(self.channels) > 1:
            lines.append(f"channels {channels} (means)")
        for name, key in (("lateness", "lateness_all_ns"), ("reaction", "reaction_ns")):
            summary = self.timing.get(key) or {}
            if summary.get("count"):
                p50, p99 = (summary[each] / 1e6 for each in ("p50", "p99"))
                lines.append(f"{name} {p50:.3f} ms median, {p99:.3f} ms p99")
        skipped = self.timing.get("skipped", 0)
        stall_ms = (self.timing.get("stall_ns") or 0) / 1e6
        lines.append(
            f"skipped  {skipped} ticks; at most {stall_ms:.3f} ms without one; "
            f"{self.lost} updates lost"
        )
        if self.path is not None:
            lines.append(f"recorded in {self.path}, run {self.run}")
        return "\n".join(lines)


def run(
    Agent: type | str,
    World: type | str,
    timeout: float | None = None,
    record: bool = True,
    db_name: str = "bench",
    agent_args: Mapping[str, Any] | None = None,
    world_args: Mapping[str, Any] | None = None,
    *,
    realtime: Mapping[str, Any] | None = None,
    seed: int | None = None,
    url: str | None = None,
) -> Summary:
    """Run an agent against a world until the world ends.

    Args:
        Agent: Class of the agent, or the name of one: ``random``, ``single-action``,
            ``greedy``, ``tabular-q``.
        World: Class of the world, at the top of a module; or an env ID, such as
            ``world/bandit`` or ``CartPole-v1``.
        timeout: Seconds after which the trial ends, in any case.
        record: Whether to write a row for each update into an SQLite file.
        db_name: Name of this file: ``bench`` for ``bench.db``.
        agent_args: Further arguments of the agent.
        world_args: Arguments of the world.
        realtime: Changes of the clock, such as ``{"hz": 20}``. By default it is
            Myrtle's (``{"preset": "myrtle"}``) at the world's rate, for one episode, or
            for all that a world with a method ``run`` has. An environment with a
            Discrete action space needs a ``default_action``.
        seed: Seed of the world.
        url: The server to use; by default one that is started for the trial.

    Returns:
        The summary of the trial; `str` makes text of it.

    Raises:
        AgentFailed: The process of the agent failed.
        ServerError: The server refuses.
        ValueError: An agent cannot act in this world, or the world has no module.
    """
    make_agent, agent_name = _agent_of(Agent)
    env_id, flags, folders = _world_of(World)
    clock = {"preset": "myrtle", "buffer": _BUFFER, **(realtime or {})}
    if "default_action" in clock:
        # Myrtle's is zero, which not all action spaces have.
        clock.setdefault("no_action", "default")
    with contextlib.ExitStack() as stack:
        if url is None:
            url = stack.enter_context(own_server(*flags, python_path=folders))
        env = RealTimeEnv(url, env_id, realtime=clock, **(world_args or {}))
        stack.callback(env.close)
        name = uuid.uuid4().hex[:12]
        path = path_of(db_name) if record else None
        recording = None
        if path is not None:
            recording = stack.enter_context(Recording(path, agent_name, env_id, name))
        # A world that keeps its own time has its own number of episodes.
        one = "episodes" not in clock and not env.timing().get("follows")
        trial = _Trial(env, functools.partial(make_agent, **(agent_args or {})), one)
        began = time.monotonic()
        trial.run(recording, seed, began + (math.inf if timeout is None else timeout))
        return Summary(
            run=name,
            agent=agent_name,
            world=env_id,
            updates=trial.count,
            episodes=trial.episodes,
            reward=trial.reward,
            channels=trial.channel_means(),
            seconds=time.monotonic() - began,
            lost=trial.lost,
            timing=env.timing(),
            path=path,
        )


def _agent_of(given: type | str) -> tuple[Any, str]:
    """Return the class of an agent, and its name.

    Raises:
        ValueError: There is no agent of this name.
    """
    if not isinstance(given, str):
        return given, given.__name__
    if given not in AGENTS:
        raise ValueError(
            f"there is no agent {given!r}: expected a class, or one of {list(AGENTS)}"
        )
    return AGENTS[given], given


def _world_of(given: type | str) -> tuple[str, list[str], list[str]]:
    """Return the env ID of a world, and flags and module directories for a server.

    Raises:
        ValueError: A server cannot import the class.
    """
    if isinstance(given, str):
        head = given.rpartition(":")[0]
        module = head.removeprefix("world/").removeprefix("interface/")
        if not module:
            return given, [], []
        # As Python finds modules of programs that are started there.
        return given, ["--allow-module", module], [os.getcwd()]
    module, folders = given.__module__, []
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        if file is None:
            raise ValueError(
                f"the class {given.__name__} is not in a module that a server could "
                "import: write it into a file"
            )
        module = Path(file).stem
        folders = [str(Path(file).resolve().parent)]
    if "." in given.__qualname__:
        raise ValueError(
            f"the class {given.__qualname__} is within another one, or within a "
            "function: expected one at the top of a module"
        )
    env_id = f"world/{module}:{given.__name__}"
    return env_id, ["--allow-module", module], folders


class _Trial:
    """One trial: forwards updates to the agent's process, and actions to the world.

    Args:
        env: The world.
        make: Makes the agent.
        one: Whether to end with the first episode.
    """

    def __init__(self, env: RealTimeEnv, make: Any, one: bool) -> None:
        self._env = env
        self._one = one
        self._n_sensors, self._sensors = sensors_of(env.observation_space)
        self._n_actions, self._action = actions_of(env.action_space)
        self._make = make
        self._sums: list[float] = []
        self._counts: list[int] = []
        self._refused: BaseException | None = None
        self.count = 0
        self.episodes = 0
        self.reward = 0.0
        self.lost = 0

    def run(
        self, recording: Recording | None, seed: int | None, deadline: float
    ) -> None:
        """Run until the world or the agent ends, or the deadline is over."""
        _, info = self._env.reset(seed=seed)
        # The agent gets what the reset returned as its first update.
        before = info["realtime"]["update"] - 1
        with self._env.updates(after=before, deliver="all") as updates:
            try:
                self._run(updates, recording, deadline)
            finally:
                self.lost = updates.lost

    def _run(
        self, updates: Updates, recording: Recording | None, deadline: float
    ) -> None:
        # The number of channels is known with the first update after a reset.
        first = []
        for update in updates:
            first.append(update)
            if not _is_reset(update):
                break
        n_rewards = len(_rewards_of(first[-1], 1)) if first else 1
        self._sums, self._counts = [0.0] * n_rewards, [0] * n_rewards
        make = functools.partial(
            self._make,
            n_sensors=self._n_sensors,
            n_actions=self._n_actions,
            n_rewards=n_rewards,
        )
        with AgentProcess(make) as agent:
            acting = threading.Thread(target=self._forward_actions, args=(agent,))
            acting.start()
            try:
                for update in itertools.chain(first, updates):
                    self._forward(update, agent, recording)
                    over = self._one and self.episodes
                    if over or time.monotonic() > deadline or self._refused is not None:
                        break
                agent.finish()
            except BrokenPipeError:
                raise AgentFailed(
                    f"the agent {agent.end_of()} after {self.count} updates, before "
                    "the world ended"
                ) from None
            finally:
                agent.stop()
                acting.join()
        if self._refused is not None:
            raise self._refused

    def channel_means(self) -> tuple[float, ...]:
        """Return the mean reward of each channel."""
        return tuple(
            each / count if count else math.nan
            for each, count in zip(self._sums, self._counts, strict=True)
        )

    def _forward(
        self, update: Update, agent: AgentProcess, recording: Recording | None
    ) -> None:
        """Record an update, and send it to the agent."""
        rewards = _rewards_of(update, len(self._sums))
        if not _is_reset(update):
            self.count += 1
            self.reward += float(update.reward)
        for index, each in enumerate(rewards):
            if each is not None:
                self._sums[index] += each
                self._counts[index] += 1
        if recording is not None:
            recording.add(update, rewards)
        # At an end of which a world only says that it is one, agents get no sensors.
        if update.info.get("messages") != 0:
            sensors = self._sensors(update.observation)
            agent.sensor_q.put({"sensors": sensors, "rewards": rewards})
        if update.terminated or update.truncated:
            self.episodes += 1
            agent.sensor_q.put({"truncated": True})

    def _forward_actions(self, agent: AgentProcess) -> None:
        for message in _until_closed(agent):
            try:
                self._env.act(self._action(message["actions"]))
            except WorldEnded:
                return
            except Exception as error:
                # The main thread raises it.
                self._refused = error
                return


def _is_reset(update: Update) -> bool:
    """Return whether an update is the first of an episode, without rewards."""
    return bool(update.info["realtime"].get("reset"))


def _rewards_of(update: Update, count: int) -> list[float | None]:
    """Return the rewards of the channels, with ``None`` where one said nothing."""
    if _is_reset(update):
        return [None] * count
    given = update.info.get("rewards", [update.reward])
    return [None if each is None or math.isnan(each) else float(each) for each in given]


def _until_closed(agent: AgentProcess) -> Iterator[dict[str, Any]]:
    """Return the messages of an agent, until it or this process closes the queue."""
    while True:
        try:
            yield agent.action_q.get()
        except (EOFError, OSError):
            return
