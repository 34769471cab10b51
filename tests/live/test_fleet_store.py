"""What the servers of a fleet agree on in a real Redis server."""

import re
from collections.abc import Iterator

import pytest

from gym_http_server.fleet.numbers import NUMBERS, NodeNumber
from gym_http_server.fleet.signatures import Signatures
from gym_http_server.fleet.store import FleetStore, NumberTaken, StoreAway
from tests.support.fleet import Redis, redis_server

pytestmark = [pytest.mark.live, pytest.mark.toolchain]

START = b"", b"0"


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    """A Redis server."""
    with redis_server() as redis:
        yield redis


@pytest.fixture
def store(redis: Redis) -> Iterator[FleetStore]:
    """An empty store."""
    redis.command("flushall")
    store = store_of(redis)
    yield store
    store.close()


def store_of(
    redis: Redis, version: str = "0.1.0", token: str = "a-token-of-the-fleet"
) -> FleetStore:
    return FleetStore(redis.url, version, Signatures(token))


def claim(store: FleetStore, directory: str = "", boot: str = "b") -> NodeNumber:
    number = store.claim(directory, boot, None)
    assert number is not None
    return number


def gone(store: FleetStore, number: NodeNumber) -> str:
    """Return why a number is gone, as another node learns it."""
    other = store.claim("", "looking", None)
    assert other is not None
    changes = store.renew(":looking", (other.number,), b"record", START)
    return changes.gone.get(number.number, "")


def test_boots_get_different_numbers_until_all_are_taken(store: FleetStore) -> None:
    found = {claim(store, boot=f"b{each}").number for each in range(200)}
    assert len(found) == 200
    numbers = {f"{number:03x}" for number in range(NUMBERS)}
    last = max(numbers - found)
    store._client.mset({f"{{gym}}:number:{each}": ":x" for each in numbers - {last}})
    assert claim(store).number == last
    assert store.claim("", "late", None) is None


def test_a_number_rests_for_a_day(store: FleetStore, redis: Redis) -> None:
    number = claim(store)
    kept = int(redis.command("ttl", f"{{gym}}:number:{number.number}"))
    assert 86_000 < kept <= 86_400
    store.leave(":b", NodeNumber(number.number, 5_000))
    assert int(redis.command("ttl", f"{{gym}}:number:{number.number}")) > 86_000
    assert gone(store, number) == "node-drained"


def test_a_boot_without_ids_gives_its_number_back(
    store: FleetStore, redis: Redis
) -> None:
    for _ in range(10):
        store.leave(":b", claim(store))
    assert redis.command("keys", "{gym}:number:*").split() == []


def test_a_number_with_few_ids_is_handed_on_with_its_count(store: FleetStore) -> None:
    first = claim(store)
    store.leave(":b", NodeNumber(first.number, 999))
    assert claim(store, boot="next") == (first.number, 999)
    assert claim(store, boot="third").number != first.number


@pytest.mark.parametrize(
    ("number", "count"),
    [("zzz", "1"), ("abc", "many"), ("abc", "-1"), ("", "1"), ("a\nc" * 99, "9" * 99)],
)
def test_numbers_that_no_node_has_handed_on_are_removed(
    number: str,
    count: str,
    store: FleetStore,
    redis: Redis,
    caplog: pytest.LogCaptureFixture,
) -> None:
    redis.command("hset", "{gym}:handed", number, count)
    made = claim(store)
    assert re.fullmatch("[0-9a-f]{3}", made.number)
    assert made.issued == 0
    assert redis.command("hlen", "{gym}:handed").strip() == "0"
    assert f"removed b{f'{number[:40]} = {count[:40]}'!r}" in caplog.text


def test_keys_and_reasons_that_no_node_has_written_count_for_nothing(
    store: FleetStore, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    assert bind(store, "") == ""
    bind(store, "abc:b")
    (key,) = redis.command("keys", "{gym}:key:*").split()
    for garbage in ("", "garbage", "zzz:b", "abc:", "a:b:c", "\x80"):
        redis.command("set", key, garbage)
        assert bind(store, "") == "", garbage
        assert bind(store, "abe:b") == "abe:b"
    number = claim(store)
    store.renew(":b", (number.number,), b"record", START)
    redis.command("hset", "{gym}:gone", "abf", "no-reason")
    redis.command("zadd", "{gym}:changes", "99", "abf")
    assert gone(store, NodeNumber("abf", 0)) == ""
    assert "ignored a reason in the fleet's store: b'no-reason'" in caplog.text


def test_a_data_directory_keeps_its_number(store: FleetStore) -> None:
    first = claim(store, "dir", "b")
    store.leave("dir:b", NodeNumber(first.number, 7))
    assert claim(store, boot="other").number != first.number
    kept = NodeNumber(first.number, 7)
    assert store.claim("dir", "again", kept) == kept
    # While another boot has it, it is that one's alone.
    other = store.claim("elsewhere", "x", kept)
    assert other is not None
    assert other.number != first.number
    with pytest.raises(NumberTaken):
        store.renew("dir:b", (first.number,), b"record", START)


def test_a_lost_number_is_nobodys_until_a_day_has_passed(store: FleetStore) -> None:
    number = claim(store, "dir", "b")
    store.renew("dir:b", (number.number,), b"record", START)
    # It has a record.
    assert not store.lose(number.number, "b")
    lose(store, number)
    with pytest.raises(NumberTaken):
        store.renew("dir:b", (number.number,), b"record", START)
    assert gone(store, number) == "node-lost"
    again = store.claim("dir", "again", number)
    assert again is not None
    assert again.number != number.number


def lose(store: FleetStore, number: NodeNumber) -> None:
    store._client.zrem("{gym}:alive", number.number)
    assert store.lose(number.number, "b")
    assert not store.lose(number.number, "b")


def test_a_restarted_node_is_not_lost(store: FleetStore) -> None:
    number = claim(store, "dir", "b")
    store.claim("dir", "again", number)
    assert not store.lose(number.number, "b")


def test_only_what_has_changed_is_sent(store: FleetStore) -> None:
    one, two = claim(store, boot="1"), claim(store, boot="2")
    store.renew(":1", (one.number,), b"first", START)
    changes = store.renew(":2", (two.number,), b"second", START)
    assert changes.records == {one.number: b"first", two.number: b"second"}
    assert changes.alive == {one.number, two.number}
    since = changes.epoch, changes.clock
    assert store.renew(":2", (two.number,), b"second", since).records == {}
    store.renew(":1", (one.number,), b"third", START)
    changes = store.renew(":2", (two.number,), b"second", since)
    assert changes.records == {one.number: b"third"}


def test_a_store_that_came_back_empty_is_filled_again(
    store: FleetStore, redis: Redis
) -> None:
    number = claim(store)
    before = store.renew(":b", (number.number,), b"record", START)
    redis.command("flushall")
    since = before.epoch, before.clock
    changes = store.renew(":b", (number.number,), b"record", since)
    assert changes.records == {number.number: b"record"}
    assert redis.command("get", f"{{gym}}:number:{number.number}").strip() == ":b"


@pytest.mark.parametrize("key", ["clock", "changes", "records", "epoch", "alive"])
def test_a_store_that_has_dropped_a_key_is_filled_again(
    store: FleetStore, redis: Redis, key: str
) -> None:
    one, two, ended = (claim(store, boot=each) for each in "123")
    store.leave(":3", NodeNumber(ended.number, 1000))
    for boot, node in (("1", one), ("2", two)):
        for _ in range(3):
            before = store.renew(f":{boot}", (node.number,), b"record", START)
    redis.command("del", f"{{gym}}:{key}")
    since = before.epoch, before.clock
    for boot, node in (("1", one), ("2", two)):
        changes = store.renew(f":{boot}", (node.number,), b"record", since)
        store.renew(f":{boot}", (node.number,), b"record", (b"", changes.clock))
    assert gone(store, ended) == "node-drained"
    found = store.renew(":2", (two.number,), b"record", START)
    assert {one.number, two.number} <= found.records.keys() & found.alive
    # Later changes are sent, too.
    store.renew(":1", (one.number,), b"other", START)
    changes = store.renew(":2", (two.number,), b"record", (found.epoch, found.clock))
    assert changes.records == {one.number: b"other"}


def test_another_version_and_another_token_are_not_admitted(
    store: FleetStore, redis: Redis
) -> None:
    assert store.admit("first") == ""
    assert store_of(redis, "0.1.7").admit("second") == ""
    assert "0.1, and this one 0.2" in store_of(redis, "0.2.0").admit("third")
    other = store_of(redis, token="another-token-of-another")
    assert "another fleet token" in other.admit("fourth")
    number = claim(store)
    changes = store.renew(":b", (number.number,), b"record", START)
    assert b"fourth" in changes.refused


def bind(store: FleetStore, node: str, stopping: str = "") -> str:
    return store.bind_key("ada", "secret-key", node, stopping)


def test_a_key_is_bound_once(store: FleetStore, redis: Redis) -> None:
    # Its node need not have written its number again to a store that came back empty.
    assert bind(store, "0a1:b") == "0a1:b"
    assert bind(store, "0a2:c") == "0a1:b"
    assert store.bind_key("bob", "secret-key", "0a2:c") == "0a2:c"
    assert "secret-key" not in redis.command("keys", "*")


def test_a_key_of_a_boot_that_has_ended_in_order_is_free(store: FleetStore) -> None:
    for issued in (0, 5, 5000):
        number = claim(store, boot=f"b{issued}")
        bound = f"{number.number}:b{issued}"
        assert bind(store, bound) == bound
        store.leave(f":b{issued}", NodeNumber(number.number, issued))
        assert bind(store, "") == ""
    assert bind(store, "0a2:c") == "0a2:c"


def test_a_key_of_a_boot_that_was_started_again_is_free(store: FleetStore) -> None:
    number = claim(store, "dir", "b")
    bound = f"{number.number}:b"
    assert bind(store, bound) == bound
    store.claim("dir", "again", number)
    assert bind(store, "") == ""


def test_a_key_of_a_lost_node_stays_bound(store: FleetStore) -> None:
    number = claim(store)
    bound = f"{number.number}:b"
    bind(store, bound)
    store.renew(":b", (number.number,), b"record", START)
    lose(store, number)
    assert bind(store, "0a2:c") == bound


def test_a_key_is_taken_from_a_node_that_is_stopping(store: FleetStore) -> None:
    assert bind(store, "0a1:b") == "0a1:b"
    assert bind(store, "0a2:c", stopping="d") == "0a1:b"
    assert bind(store, "", stopping="b") == ""
    assert bind(store, "0a2:c", stopping="b") == "0a2:c"
    # Another request that met the first node, too, follows.
    assert bind(store, "0a3:d", stopping="b") == "0a2:c"


def test_a_run_is_bound_to_a_data_directory(store: FleetStore, redis: Redis) -> None:
    key = "{gym}:run:r"
    assert store.bind_run("r") is None
    # The store came back empty, and does not know the node yet.
    assert store.bind_run("r", "abc") == ""
    first, other = claim(store, "dir"), claim(store, "elsewhere", "o")
    store.renew("dir:b", (first.number,), b"record", START)
    assert store.bind_run("r", first.number) == first.number
    assert store.bind_run("r", other.number) == first.number
    redis.command("expire", key, "100")
    assert store.bind_run("r") == first.number
    assert int(redis.command("ttl", key)) > 86_000
    # While the node is away, the name is kept, and not for ever.
    redis.command("zrem", "{gym}:alive", first.number)
    redis.command("expire", key, "100")
    assert store.bind_run("r") == first.number
    assert int(redis.command("ttl", key)) <= 100
    # It ends in order, without an ID, and another server gets its number.
    store.leave("dir:b", first)
    assert store.bind_run("r") == ""
    redis.command("set", f"{{gym}}:number:{first.number}", "another:x")
    assert store.bind_run("r", other.number) == ""
    assert store.bind_run("r", other.number, anew=True) == other.number
    store.free_run("r", first.number)
    assert store.bind_run("r") == other.number
    store.free_run("r", other.number)
    for garbage in ("garbage", "zzz:dir", "abc", ""):
        redis.command("set", key, garbage)
        assert store.bind_run("r") is None, garbage


def test_a_run_without_a_data_directory_is_bound_to_a_boot(store: FleetStore) -> None:
    first = claim(store)
    assert store.bind_run("r", first.number) == first.number
    store._client.set(f"{{gym}}:number:{first.number}", ":other")
    assert store.bind_run("r") == ""


def test_the_store_has_all_runs_of_a_node_that_has_written_them(
    store: FleetStore, redis: Redis
) -> None:
    here, there = claim(store, "dir"), claim(store, "elsewhere", "o")
    assert store.bind_run("theirs", there.number) == there.number
    assert not store.has_all_runs(["b"])
    nonce = store.renew("dir:b", (here.number,), b"record", START).runs_nonce
    assert nonce
    store.bind_runs("dir:b", here.number, ["mine", "theirs"], nonce)
    assert store.bind_run("mine") == here.number
    assert store.bind_run("theirs") == there.number
    assert store.has_all_runs(["b"])
    assert not store.has_all_runs(["b", "o"])
    assert store.renew("dir:b", (here.number,), b"record", START).runs_nonce == ""
    # They are bound for longer than the store takes them as all.
    ttl = {
        name: int(redis.command("ttl", f"{{gym}}:{name}"))
        for name in ("runs_of:b", "run:mine")
    }
    assert 0 < ttl["runs_of:b"] < ttl["run:mine"] - 3600
    # After a while, they are bound for another day, by the number that it has then.
    redis.command("expire", "{gym}:runs_of:b", str(ttl["runs_of:b"] - 3600))
    redis.command("expire", "{gym}:run:mine", str(ttl["run:mine"] - 3600))
    again = store.renew("dir:b", (here.number,), b"record", START).runs_nonce
    assert again
    other = claim(store, "dir", "b")
    store.bind_runs("dir:b", other.number, ["mine"], again)
    assert store.bind_run("mine") == other.number
    assert int(redis.command("ttl", "{gym}:run:mine")) > 86_000
    assert int(redis.command("ttl", "{gym}:runs_of:b")) >= ttl["runs_of:b"] - 60


def test_runs_are_written_again_if_one_is_freed_meanwhile(store: FleetStore) -> None:
    """It may have been made anew before it was freed."""
    number = claim(store, "dir").number
    store.bind_run("r", number)

    def renew() -> str:
        return store.renew("dir:b", (number,), b"record", START).runs_nonce

    nonce = renew()
    store.free_run("r", number)
    store.bind_runs("dir:b", number, ["r"], nonce)
    assert store.bind_run("r") is None
    assert not store.has_all_runs(["b"])
    # Another renewal in between changes nothing.
    assert renew() not in ("", nonce)
    store.bind_runs("dir:b", number, [], nonce)
    assert not store.has_all_runs(["b"])
    store.bind_runs("dir:b", number, ["r"], renew())
    assert store.has_all_runs(["b"])
    assert store.bind_run("r") == number
    store.free_run("r", number)
    assert not store.has_all_runs(["b"])


def test_a_node_that_has_just_joined_is_found(store: FleetStore) -> None:
    number = claim(store)
    assert store.record(number.number) == b""
    store.renew(":b", (number.number,), b"record", START)
    assert store.record(number.number) == b"record"
    store.leave(":b", NodeNumber(number.number, 5_000))
    assert store.record(number.number) == b""


def test_a_store_that_does_not_answer_is_away() -> None:
    with redis_server() as redis:
        store = store_of(redis)
        redis.stop()
        with pytest.raises(StoreAway, match=r"127\.0\.0\.1"):
            store.claim("", "b", None)
        store.close()
