"""Servers that cannot join a fleet do not start, and say why."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_http_server.fleet.numbers import NUMBERS
from gym_http_server.fleet.records import Record, write
from gym_http_server.fleet.signatures import Signatures
from tests.support.fleet import TOKEN, Redis, note_change, redis_server
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.toolchain]


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    """A Redis server."""
    with redis_server() as redis:
        yield redis


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with the fleet token."""
    path = tmp_path_factory.mktemp("tokens") / "fleet"
    path.write_text(TOKEN + "\n")
    return str(path)


def refusal(*args: str) -> str:
    """Return what a server says that does not start."""
    server = Server(*args)
    try:
        server.launch()
        assert server.wait_exit() == 1
        assert TOKEN not in server.log()
        return server.stderr
    finally:
        server.end()


def test_another_fleet_token_or_version(
    redis: Redis, token_file: str, tmp_path: Path
) -> None:
    base = ("--fleet", redis.url, "--fleet-token-file", token_file)
    with Server(*base, "--node-name", "first") as first:
        # Without the password, which is before the host.
        joined = f"joined the fleet at 127.0.0.1:{redis.port} as first, number "
        wait_until(lambda: joined in first.stderr)
        assert "; other nodes: 0" in first.stderr
        assert "maxmemory-policy" not in first.stderr
        other = tmp_path / "other"
        other.write_text("another-token-of-another-fleet\n")
        args = ("--fleet", redis.url, "--fleet-token-file", str(other))
        words = "its nodes have another fleet token"
        assert words in refusal(*args, "--node-name", "stranger")
        wait_until(lambda: "another server was not admitted" in first.stderr)
        assert "stranger" in first.stderr
    redis.command("set", "{gym}:fleet", '{"version":"9.7","check":"x"}')
    assert "its nodes have version 9.7, and this one 0.1" in refusal(*base)
    redis.command("flushall")


def test_no_number_is_left(redis: Redis, token_file: str) -> None:
    numbers = " ".join(
        f"{{gym}}:number:{number:03x} :x" for number in range(NUMBERS)
    ).split()
    redis.command("mset", *numbers)
    base = ("--fleet", redis.url, "--fleet-token-file", token_file)
    assert "all 4,096 numbers are taken" in refusal(*base)
    redis.command("flushall")


def test_records_of_others_are_ignored(redis: Redis, token_file: str) -> None:
    """Nothing is sent to an address that a foreign record names."""
    base = ("--fleet", redis.url, "--fleet-token-file", token_file)
    redis.command("config", "set", "maxmemory-policy", "allkeys-lru")
    with Server(*base, "--node-name", "first") as first:
        redis.command("config", "set", "maxmemory-policy", "noeviction")
        assert "maxmemory-policy allkeys-lru: when it is full" in first.stderr
        foreign = (
            '{"numbers":["abc"],"boot":"x","name":"evil","url":"http://127.0.0.1:1"'
        )
        foreign += ',"version":"0.1.0","slots":9,"free":9}'
        # Of a node with --fleet-plain, which has the fleet token.
        url = "http://203.0.113.7:5000"
        plain = Record(("ac0",), "y", "plain", url, "0.1.0", slots=9, free=9)
        for number, record in (
            ("abc", f"{'0' * 40} {foreign}"),
            ("abe", "not a record"),
            ("abf", "x" * 300_000),
            ("ac0", write(plain, Signatures(TOKEN)).decode()),
        ):
            # No argument of a command has so many characters.
            script = "return redis.call('hset', '{gym}:records', ARGV[1], "
            script += "string.rep(ARGV[2], ARGV[3]))"
            text, times = (record[:1], len(record)) if number == "abf" else (record, 1)
            redis.command("eval", script, "0", number, text, str(times))
            note_change(redis, number)
            redis.command("zadd", "{gym}:alive", "9999999999999", number)
        for number in ("abc", "abe", "abf", "ac0"):
            words = f"ignored the record '{number}'"
            wait_until(lambda words=words: words in first.stderr)
        assert f"{url} is plain HTTP, without --fleet-plain" in first.stderr
