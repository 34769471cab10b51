"""Trains SAC of Stable-Baselines3 on Pendulum, with samples of rollout workers.

python sac.py worker w1 http://127.0.0.1:5000
python sac.py trainer http://127.0.0.1:5000

Only the trainer needs Stable-Baselines3 and PyTorch. It publishes the actor's weights,
and the workers act with them in NumPy.
"""

from __future__ import annotations

import argparse
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from gym_http_client.relay import RelayCalls, RolloutWorker, Trainer, play_weights

RUN = "pendulum-sac"
ENV_ID = "Pendulum-v1"
#: Pendulum's largest torque; SAC's actions are from -1 to 1.
TORQUE = 2.0
MIN_SIZE = 400
PUBLISHED, EVALUATED = 100, 1000
#: The limiter: SAC learns once for each transition, and draws 256.
DRAWN = 256
LIMITS = {
    "limiter": {
        "samples_per_insert": DRAWN,
        "min_size": MIN_SIZE,
        "error_buffer": [0, DRAWN * MIN_SIZE * 2],
    }
}


def policy(
    weights: Mapping[str, Any] | None, observation: Any, generator: np.random.Generator
) -> Any:
    """Draw a torque from the actor's distribution; a uniform one before version 1."""
    if weights is None:
        return generator.uniform(-TORQUE, TORQUE, 1).astype(np.float32)
    hidden = _hidden(weights, observation)
    spread = np.exp(np.clip(_linear(weights, "log_std", hidden), -20, 2))
    mean = _linear(weights, "mu", hidden)
    drawn = mean + spread * generator.standard_normal(mean.shape)
    return (TORQUE * np.tanh(drawn)).astype(np.float32)


def careful(
    weights: Mapping[str, Any], observation: Any, _: np.random.Generator
) -> Any:
    """Choose the mean torque."""
    mean = _linear(weights, "mu", _hidden(weights, observation))
    return (TORQUE * np.tanh(mean)).astype(np.float32)


def _hidden(weights: Mapping[str, Any], observation: Any) -> Any:
    hidden = observation
    for layer in ("latent_pi.0", "latent_pi.2"):
        hidden = np.maximum(_linear(weights, layer, hidden), 0)
    return hidden


def _linear(weights: Mapping[str, Any], name: str, values: Any) -> Any:
    return weights[f"{name}.weight"] @ values + weights[f"{name}.bias"]


class Draws:
    """Counts the draws of Stable-Baselines3's replay buffer, for the limiter."""

    def __init__(self) -> None:
        self.draws = 0
        self.added = 0
        self.limiter: Any = None

    def ready(self) -> bool:
        """Return whether SAC may learn once."""
        limiter = self.limiter
        return limiter is None or limiter.allows(DRAWN, self.added, self.draws)


def train(options: argparse.Namespace) -> None:
    """Train SAC on the samples that arrive."""
    from stable_baselines3 import SAC
    from stable_baselines3.common.logger import Logger

    env = gymnasium.make(ENV_ID)
    agent = SAC("MlpPolicy", env, batch_size=DRAWN, seed=options.seed)
    agent.set_logger(Logger(None, []))
    counts = Draws()

    def weights() -> dict[str, Any]:
        tensors = agent.actor.state_dict()
        return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}

    with Trainer(
        options.url, options.run, token=options.token, replay=counts
    ) as trainer:
        updates = 0
        for batch in trainer:
            columns = batch.columns
            for step in range(batch.count):
                agent.replay_buffer.add(
                    columns["observations"][step],
                    columns["observations"][step + 1],
                    columns["actions"][step] / TORQUE,
                    columns["rewards"][step],
                    # A truncated episode would have gone on.
                    columns["terminated"][step],
                    [{}],
                )
            counts.added += batch.count
            while counts.ready() and updates < options.updates:
                agent.train(gradient_steps=1, batch_size=DRAWN)
                counts.draws += DRAWN
                updates += 1
                if updates % PUBLISHED == 0:
                    trainer.publish(weights())
                if updates % EVALUATED == 0:
                    played = play_weights(env, careful, weights(), episodes=5)
                    mean = np.mean([each.value for each in played])
                    print(f"{updates} updates: mean return {mean:.0f}", flush=True)
            if updates >= options.updates:
                return


def default_spool(options: argparse.Namespace) -> Path:
    """Return a folder for this worker, run and server: a spool belongs to one run."""
    whose = zlib.crc32(f"{options.url} {options.run}".encode())
    return Path(tempfile.gettempdir()) / f"sac-{options.name}-{whose:08x}"


def work(options: argparse.Namespace) -> None:
    """Play episodes with the newest weights until the program is ended."""
    with RolloutWorker(
        options.url,
        options.run,
        worker=options.name,
        env=gymnasium.make(ENV_ID),
        policy=policy,
        spool=options.spool or default_spool(options),
        token=options.token,
        seed=options.seed,
        # Little, so that a worker waits for a slower trainer.
        part_steps=50,
        spool_bytes=16 * 1024,
        flush_timeout=2.0,
    ) as worker:
        worker.run()


def main() -> None:
    """Run the program that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    programs = parser.add_subparsers(dest="program", required=True)
    for name in ("create", "worker", "trainer"):
        program = programs.add_parser(name)
        if name == "worker":
            program.add_argument("name")
            program.add_argument("--spool", help="folder of unsent episodes")
        program.add_argument("url", nargs="?", default="http://127.0.0.1:5000")
        program.add_argument("--run", default=RUN)
        program.add_argument("--token")
        program.add_argument("--seed", type=int, default=1)
        if name == "trainer":
            program.add_argument("--updates", type=int, default=8000)
    options = parser.parse_args()
    if options.program == "trainer":
        train(options)
    elif options.program == "worker":
        work(options)
    else:
        with RelayCalls(options.url, options.run, token=options.token) as calls:
            for role, token in (calls.create(limits=LIMITS)["tokens"] or {}).items():
                print(f"{role}: {token}")


if __name__ == "__main__":
    main()
