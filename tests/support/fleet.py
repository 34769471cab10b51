"""A fleet on loopback: a real Redis server, and servers that join it."""

import atexit
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import gym_http_server
from gym_http_server.fleet.records import Record, write
from gym_http_server.fleet.signatures import Signatures
from tests.support.drivers import needs
from tests.support.faults.disconnecting_proxy import DisconnectingProxy
from tests.support.raw import Response
from tests.support.server import Server, free_port
from tests.support.wait import wait_until

TOKEN = "fleet-token-of-the-tests"


class Redis:
    """A Redis server of its own, without persistence."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ghst-redis-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address, for ``--fleet``."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """Its process ID."""
        assert self._process
        return self._process.pid

    def start(self) -> None:
        """Start it, without data."""
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", str(self._folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until(self._answers, 10.0, "the store")
        assert self._process.poll() is None, "another program has the store's port"

    def stop(self) -> None:
        """Kill it, with its data."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def command(self, *words: str) -> str:
        """Execute a command, and return its answer."""
        words = ("redis-cli", "-p", str(self.port), *words)
        done = subprocess.run(words, capture_output=True, check=True)
        return done.stdout.decode(errors="replace")

    def contents(self) -> str:
        """Return all keys, with their values."""
        commands = {
            "string": ("get",),
            "hash": ("hgetall",),
            "zset": ("zrange", "0", "-1"),
        }
        found = []
        for key in self.command("keys", "*").split():
            command, *rest = commands[self.command("type", key).strip()]
            found.append(f"{key} {self.command(command, key, *rest)}")
        return "\n".join(found)

    def _answers(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), 1.0) as sock,
        ):
            sock.sendall(b"PING\r\n")
            return sock.recv(10).startswith(b"+PONG")
        return False

    def close(self) -> None:
        """Kill it, and remove its folder."""
        self.stop()
        shutil.rmtree(self._folder)


_NOTE = "return redis.call('zadd', KEYS[2], redis.call('incr', KEYS[1]), ARGV[1])"


def note_change(redis: Redis, number: str) -> None:
    """Have all nodes read the record of a number anew.

    At once, as nodes do: a member that read the clock in between would miss the change.
    """
    redis.command("eval", _NOTE, "2", "{gym}:clock", "{gym}:changes", number)


@contextlib.contextmanager
def pose_as_node(redis: Redis, name: str, url: str) -> Iterator[None]:
    """Put a good record of a node at a URL into the store, until a block ends."""
    taken = redis.command("keys", "{gym}:number:*")
    number = next(n for n in ("abc", "abe", "abf") if f":{n}" not in taken)
    version = gym_http_server.__version__
    record = Record((number,), "its-boot", name, url, version, slots=64, free=0)
    written = write(record, Signatures(TOKEN)).decode()

    def change(*commands: tuple[str, ...]) -> None:
        for words in commands:
            redis.command(*words)
        note_change(redis, number)

    change(
        ("hset", "{gym}:records", number, written),
        ("zadd", "{gym}:alive", "+inf", number),
    )
    try:
        yield
    finally:
        change(("hdel", "{gym}:records", number), ("zrem", "{gym}:alive", number))


@contextlib.contextmanager
def redis_server() -> Iterator[Redis]:
    """Run a Redis server; skip the test where there is none."""
    needs("redis-server")
    redis = Redis()
    try:
        redis.start()
        yield redis
    finally:
        redis.close()


def node(redis: Redis, name: str, *args: str, **options: object) -> Server:
    """Prepare a server that joins the fleet under a name."""
    token = Path(tempfile.gettempdir()) / f"ghst-fleet-token-{os.getpid()}"
    if not token.exists():
        token.write_text(TOKEN + "\n")
        token.chmod(0o600)
        atexit.register(token.unlink, missing_ok=True)
    flags = ["--fleet", redis.url, "--fleet-token-file", str(token)]
    flags += ["--node-name", name]
    return Server(*flags, *args, **options)  # type: ignore[arg-type]


@contextlib.contextmanager
def fleet(
    *names: str, args: tuple[str, ...] = ()
) -> Iterator[tuple[Redis, list[Server]]]:
    """Run servers that know each other, and their store."""
    with redis_server() as redis, contextlib.ExitStack() as stack:
        servers = [node(redis, name, *args) for name in names]
        # The last one is reached directly; its port is free now.
        url = f"http://127.0.0.1:{free_port()}"
        servers[-1] = node(
            *(redis, names[-1], "--node-url", url, "--port", url.rpartition(":")[2]),
            *args,
        )
        start(servers, redis, stack)
        yield redis, servers


@dataclass
class LinkedNode:
    """A server of a fleet, whose connections a test can cut.

    Attributes:
        server: The server.
        nodes: What the other nodes connect to.
        store: What it connects to as the store.
    """

    server: Server
    nodes: DisconnectingProxy
    store: DisconnectingProxy


@contextlib.contextmanager
def linked_fleet(
    *names: str, args: tuple[str, ...] = ()
) -> Iterator[tuple[Redis, list[LinkedNode]]]:
    """Run servers that reach each other and their store through proxies.

    The last one is reached directly, and clients open no streams to it directly.
    """
    with redis_server() as redis, contextlib.ExitStack() as stack:
        linked = []
        for name in names:
            port = free_port()
            to_nodes = stack.enter_context(DisconnectingProxy(port))
            to_store = stack.enter_context(DisconnectingProxy(redis.port))
            flags = ["--port", str(port)]
            if name != names[-1]:
                flags += ["--node-url", to_nodes.url]
            flags += ["--fleet", f"redis://127.0.0.1:{to_store.port}/0"]
            server = node(redis, name, *flags, *args)
            linked.append(LinkedNode(server, to_nodes, to_store))
        start([each.server for each in linked], redis, stack)
        yield redis, linked


def start(servers: list[Server], redis: Redis, stack: contextlib.ExitStack) -> None:
    """Run servers until a block ends, and wait until they know each other."""
    for each in servers:
        each.launch()
        stack.push(each)
    for each in servers:
        each.wait_listening()
        each.wait_complete()
    wait_until_known(redis, servers)


def wait_until_known(redis: Redis, servers: list[Server]) -> None:
    """Wait until the store has a record of each server, and each knows the others."""
    count = len(servers)

    def known() -> bool:
        alive = int(redis.command("zcard", "{gym}:alive"))
        return alive == count and all(knows(each, count) for each in servers)

    wait_until(known, 20.0, "the servers' records")


def knows(server: Server, count: int) -> bool:
    """Whether a server knows of so many nodes."""
    (page,) = server.run_dir.glob("*/nodes")
    with contextlib.suppress(ValueError):
        return len(json.loads(page.read_text())["others"]) == count - 1
    return False


def refusal(answer: Response) -> tuple[int, str, str | None] | None:
    """Return what a problem says, or None."""
    if answer.status < 400:
        return None
    problem = json.loads(answer.body)
    return answer.status, problem["code"], problem.get("reason")


def own_record(server: Server) -> dict[str, Any]:
    """Return the record of a server, from its run directory."""
    (page,) = server.run_dir.glob("*/nodes")
    own: dict[str, Any] = json.loads(page.read_text())["own"]
    return own


@contextlib.contextmanager
def stopped(server: Server) -> Iterator[None]:
    """Stop all processes of a server for a while."""
    processes = [*server.members(), psutil.Process(server.pid)]
    for each in processes:
        each.suspend()
    try:
        yield
    finally:
        for each in processes:
            each.resume()
