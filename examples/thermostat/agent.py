"""An agent for the thermostat: three numbers, tuned in fast mode.

    python agent.py [URL] [--rounds N] [--name NAME]

It heats to one temperature by day and to another by night, and begins so many hours
before the day does. Which ones are best it finds by trying: each round, it tries some
near the best ones so far. Days that it never saw show what it gained over the
thermostat that the device was sold with.
"""

import argparse
import dataclasses
import time
from typing import Any, NamedTuple

import numpy as np

from gym_http_client import RemoteEnv

MORNING, EVENING = 6.0, 22.0
OFF, HALF, FULL = range(3)
TRIES = 6
DAYS = (1, 2)
UNSEEN = (101, 102, 103)


class Day(NamedTuple):
    """How a day went.

    Attributes:
        worth: Its return, in euros.
        steps: How many there were.
    """

    worth: float
    steps: int


class Naive:
    """The thermostat that everybody has: on below 20.5 °C, off above 21.5 °C."""

    def __init__(self) -> None:
        self._action = OFF

    def act(self, observation: Any) -> int:
        """Return an action for what the sensors show."""
        room = float(observation[0])
        if room < 20.5:
            self._action = FULL
        elif room > 21.5:
            self._action = OFF
        return self._action


@dataclasses.dataclass(frozen=True)
class Timed:
    """Heats to a temperature that depends on the hour.

    Attributes:
        day: Degrees by day.
        night: Degrees by night.
        lead: Hours before the morning and before the evening at which it changes.
    """

    day: float = 21.0
    night: float = 19.0
    lead: float = 0.5

    def __str__(self) -> str:
        return (
            f"{self.day:.1f} °C by day and {self.night:.1f} °C by night, "
            f"{self.lead:.1f} hours before"
        )

    def act(self, observation: Any) -> int:
        """Return an action for what the sensors show."""
        room, radiator, _, hour = map(float, observation)
        is_day = MORNING - self.lead <= hour < EVENING - self.lead
        # What the radiator still holds will come into the room.
        missing = (self.day if is_day else self.night) - room - 0.02 * (radiator - room)
        if missing > 0.5:
            return FULL
        return HALF if missing > 0 else OFF

    def near(self, rng: np.random.Generator, width: float) -> "Timed":
        """Return another one that differs by about ``width``."""
        day, night, lead = rng.normal(0, width, 3)
        return Timed(
            day=float(np.clip(self.day + day, 18, 23)),
            night=float(np.clip(self.night + 2 * night, 14, 22)),
            lead=float(np.clip(self.lead + lead, 0, 4)),
        )


def play(env: RemoteEnv, agent: Naive | Timed, seed: int) -> Day:
    """Play one day."""
    observation, _ = env.reset(seed=seed)
    worth, steps, over = 0.0, 0, False
    while not over:
        observation, reward, _, over, _ = env.step(agent.act(observation))
        worth += float(reward)
        steps += 1
    return Day(worth, steps)


def mean(env: RemoteEnv, agent: Naive | Timed, seeds: tuple[int, ...]) -> float:
    """Return the mean return of some days."""
    return sum(play(env, agent, seed).worth for seed in seeds) / len(seeds)


def tune(env: RemoteEnv, rounds: int) -> Timed:
    """Find a good one by trying."""
    rng = np.random.default_rng(0)
    best = Timed()
    most = mean(env, best, DAYS)
    for number in range(rounds):
        for _ in range(TRIES):
            tried = best.near(rng, 1.0 / (1 + number))
            worth = mean(env, tried, DAYS)
            if worth > most:
                best, most = tried, worth
        print(f"round {number + 1}: {most:.2f} a day, {best}")
    return best


def main() -> None:
    """Tune, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:5000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--name", default="thermostat")
    given = parser.parse_args()
    began = time.monotonic()
    with RemoteEnv(given.url, f"external/{given.name}", wait_s=10, fast=True) as env:
        tuned = tune(env, given.rounds)
        naive_worth = mean(env, Naive(), UNSEEN)
        tuned_worth = mean(env, tuned, UNSEEN)
    print(f"on {len(UNSEEN)} other days, in euros a day:")
    print(f"naive {naive_worth:.2f}")
    print(f"tuned {tuned_worth:.2f}")
    print(f"in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
