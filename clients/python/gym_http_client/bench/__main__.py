"""``python -m gym_http_client.bench URL``: measures a server and prints a table.

It prints how many steps a server executes each second, and their latency. It plays
CartPole with one client and with several. Each client is a process with its own
instance, which it closes in the end. The token comes from the environment variable
GHS_TOKEN, or from the address, which other users of this machine may see.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from gym_http_client.bench.agents import (
    VECTOR_ENVS,
    Agent,
    LeanAgent,
    RemoteEnvAgent,
    StreamAgent,
    VectorAgent,
)
from gym_http_client.bench.players import PlayerFailed, Players
from gym_http_client.calls.client import Client
from gym_http_client.errors import ServerError
from gym_http_client.http.addresses import Address
from gym_http_client.http.retries import Retries

#: Agent, number of agents, and number of environments that each steps.
_QUESTIONS: dict[str, tuple[type[Agent], int, int]] = {
    "rest_1": (LeanAgent, 1, 1),
    "rest_4": (LeanAgent, 4, 1),
    "rest_16": (LeanAgent, 16, 1),
    "remote_env_rest": (RemoteEnvAgent, 1, 1),
    "remote_env_stream": (StreamAgent, 1, 1),
    "vector_stream": (VectorAgent, 1, VECTOR_ENVS),
}
_LINE = "{:<18}  {:>7}  {:>8}  {:>8}  {:>8}"


@dataclass(frozen=True)
class Figures:
    """The measurements of one benchmark.

    Attributes:
        name: Name of the benchmark.
        clients: Number of clients that stepped at the same time.
        steps_per_second: Steps of all environments together.
        p50_us: Median duration of the clients' steps, in microseconds.
        p99_us: 99th percentile of these durations, in microseconds.
    """

    name: str
    clients: int
    steps_per_second: float
    p50_us: float
    p99_us: float


def main() -> int:
    """Measure the chosen rows; return the exit status."""
    options = _options()
    # SIGTERM raises, so that the player processes are closed.
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, lambda *_: sys.exit(1))
    try:
        # Fail at once if there is no server.
        once = Retries(total=0.0)
        with Client(options.url, timeout=10.0, retries=once) as client:
            version = client.server_info().get("version")
            print(f"gym_http_server {version} at {client.remote_base}\n")
        print(_LINE.format("name", "clients", "steps/s", "p50 us", "p99 us"))
        rows = list(_measured(options))
        if options.json:
            options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    except (ServerError, PlayerFailed, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _options() -> argparse.Namespace:
    rest = (__doc__ or "").partition("\n\n")[2]
    parser = argparse.ArgumentParser(
        prog="gym-http-server bench", description=" ".join(rest.split())
    )
    add = parser.add_argument
    add("url", type=_url, help="the server, as http://127.0.0.1:5000")
    add("--seconds", type=_seconds, default=3.0, help="length of each measurement")
    add(
        "--only",
        action="append",
        choices=list(_QUESTIONS),
        metavar="NAME",
        help="measure this alone, may be repeated: " + ", ".join(_QUESTIONS),
    )
    add("--json", type=Path, metavar="FILE", help="write the figures there, too")
    return parser.parse_args()


def _url(text: str) -> str:
    try:
        Address.parse(text)
    except ValueError as error:
        # The address may contain a token, so it is not shown.
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 3600")
    return seconds


def _measured(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    for name in options.only or _QUESTIONS:
        kind, count, envs = _QUESTIONS[name]
        with Players(kind, options.url, count) as players:
            result = players.play(options.seconds)
        figures = Figures(
            name=name,
            clients=count,
            steps_per_second=round(result.rate * envs, 1),
            p50_us=round(result.percentile(50) * 1e6, 1),
            p99_us=round(result.percentile(99) * 1e6, 1),
        )
        shown = [f"{each:.0f}" for each in list(asdict(figures).values())[2:]]
        print(_LINE.format(name, count, *shown), flush=True)
        yield asdict(figures)


if __name__ == "__main__":
    sys.exit(main())
