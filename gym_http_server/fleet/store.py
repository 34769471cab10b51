"""The store of a fleet: a Redis or Valkey server, from version 6 on.

It has the members, and which node has which create key and which run. Each request
is a script, which the store executes as a whole, and all times are of its clock.

Keys, all after a prefix:

- ``fleet``: version of the nodes, and a check of the fleet token
- ``number:N``: data directory and boot to which a number belongs, for a day
- ``records``, ``alive``, ``changes``, ``clock``, ``epoch``: the records by number,
  until when each counts, and at which change each was replaced
- ``gone``, ``gone_until``: why a number has no node any more
- ``handed``: numbers that were given back, with their counts
- ``key:…``: the number and the boot of the node that has a create key, for a day
- ``run:…``: the number of the node that has a run, and to which data directory that
  belonged, for a day after the node was there
- ``runs_of:BOOT``: ``all`` if the store has all runs of a node, for less than a day;
  before that, a nonce
- ``ended:BOOT``: a server that has ended in order, for a day
- ``placed:…``: the creates of a token in the last seconds
- ``refused``: the server that was last refused, for the members' logs
"""

from __future__ import annotations

import logging
import random
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from gym_http_server.config.settings import is_local
from gym_http_server.errors import StartError
from gym_http_server.fleet.numbers import NUMBERS, NodeNumber
from gym_http_server.fleet.signatures import Signatures

__all__ = [
    "FRESH_SECONDS",
    "Changes",
    "FleetStore",
    "NumberTaken",
    "StoreAway",
    "check_url",
]

_PREFIX = "{gym}:"
TIMEOUT_SECONDS = 1.0
#: Seconds for which a record counts after it was written.
ALIVE_SECONDS = 5
#: Seconds after which the records of all nodes have what happened before.
FRESH_SECONDS = 2.2
_DAY = 24 * 3600
# A store with this policy refuses to write when it is full.
_KEEPS = "noeviction"
#: Seconds for which the store has all runs of a node, less than it has each of them;
#: and seconds after which the node writes them again.
ALL_RUNS_SECONDS = 22 * 3600
REWRITE_SECONDS = 3600

_COMMON = f"""
local P, DAY = KEYS[1], {_DAY}
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function note(n)
  redis.call('ZADD', P..'changes', redis.call('INCR', P..'clock'), n)
end
local function go(n, why)
  redis.call('HSET', P..'gone', n, why)
  redis.call('ZADD', P..'gone_until', now + DAY * 1000, n)
  redis.call('ZREM', P..'alive', n)
  note(n)
end
local function come(n)
  redis.call('HDEL', P..'gone', n)
  redis.call('ZREM', P..'gone_until', n)
end
"""
# The first node of a fleet decides what all others have to be.
_ADMIT = """
local found = redis.call('GET', P..'fleet')
if found and found ~= ARGV[1] then
  redis.call('SET', P..'refused', ARGV[2], 'EX', 10)
  return found
end
redis.call('SET', P..'fleet', ARGV[1], 'EX', 60)
return false
"""
_CLAIM = """
local directory, boot, wanted, issued = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ignored = {}
local function take(n, count)
  redis.call('SET', P..'number:'..n, directory..':'..boot, 'EX', DAY)
  redis.call('HDEL', P..'handed', n)
  come(n)
  return {n, tostring(count), ignored}
end
if wanted ~= '' then
  local holder = redis.call('GET', P..'number:'..wanted)
  local same = not holder or string.sub(holder, 1, #directory + 1) == directory..':'
  local gone = redis.call('HGET', P..'gone', wanted)
  if same and gone ~= 'node-lost' then return take(wanted, issued) end
end
local handed = redis.call('HSCAN', P..'handed', 0, 'COUNT', 1)[2]
for i = 1, #handed, 2 do
  local n, count = handed[i], handed[i + 1]
  if string.match(n, '^[0-9a-f][0-9a-f][0-9a-f]$')
      and string.match(count, '^%d+$') and #count < 8 then
    return take(n, count)
  end
  redis.call('HDEL', P..'handed', n)
  ignored[#ignored + 1] = string.sub(n, 1, 40)..' = '..string.sub(count, 1, 40)
end
for i = 0, TOP - 1 do
  local n = string.format('%03x', (ARGV[5] + i * ARGV[6]) % TOP)
  if redis.call('EXISTS', P..'number:'..n) == 0
      and redis.call('HEXISTS', P..'gone', n) == 0 then
    return take(n, 0)
  end
end
return {'', '0', ignored}
""".replace("TOP", str(NUMBERS))
_RENEW = """
local owner, record, fleet, epoch, since = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
for i = 6, #ARGV do
  local n = ARGV[i]
  local holder = redis.call('GET', P..'number:'..n)
  if redis.call('HGET', P..'gone', n) or holder and holder ~= owner then
    return {n}
  end
end
local found = redis.call('GET', P..'fleet')
if found and found ~= fleet then return {'fleet'} end
redis.call('SET', P..'fleet', fleet, 'EX', 60)
-- A store without room may have dropped one of them: then all is new to all nodes.
if redis.call('EXISTS', P..'clock', P..'changes') < 2 then
  redis.call('DEL', P..'epoch', P..'changes', P..'records')
  for _, n in ipairs(redis.call('HKEYS', P..'gone')) do note(n) end
end
for i = 6, #ARGV do
  local n = ARGV[i]
  redis.call('SET', P..'number:'..n, owner, 'EX', DAY)
  redis.call('ZADD', P..'alive', now + ALIVE, n)
  if redis.call('HGET', P..'records', n) ~= record then
    redis.call('HSET', P..'records', n, record)
    note(n)
  end
end
for _, n in ipairs(redis.call('ZRANGEBYSCORE', P..'gone_until', 0, now)) do
  come(n)
  redis.call('HDEL', P..'records', n)
  note(n)
end
redis.call('SET', P..'epoch', now, 'NX')
local known = redis.call('GET', P..'epoch')
if known ~= epoch then since = 0 end
local changed = {}
local numbers = redis.call('ZRANGEBYSCORE', P..'changes', '('..since, '+inf')
for _, n in ipairs(numbers) do
  changed[#changed + 1] = n
  changed[#changed + 1] = redis.call('HGET', P..'records', n) or ''
  changed[#changed + 1] = redis.call('HGET', P..'gone', n) or ''
end
local name = P..'runs_of'..string.match(owner, ':.*')
local nonce = redis.call('GET', name)
if not nonce then
  -- No other renewal has these microseconds.
  nonce = t[1]..'.'..t[2]
  redis.call('SET', name, nonce, 'EX', 60)
elseif nonce == 'all' and redis.call('TTL', name) > ALL_RUNS - REWRITE then
  nonce = ''
end
return {known, redis.call('GET', P..'clock'),
  redis.call('ZRANGEBYSCORE', P..'alive', now, '+inf'), changed,
  redis.call('GET', P..'refused') or '', nonce}
""".replace("ALIVE", str(1000 * ALIVE_SECONDS)).replace(
    "ALL_RUNS - REWRITE", str(ALL_RUNS_SECONDS - REWRITE_SECONDS)
)
_LOSE = """
local holder = redis.call('GET', P..'number:'..ARGV[1])
local until_ms = tonumber(redis.call('ZSCORE', P..'alive', ARGV[1]) or 0)
local other = holder and string.sub(holder, -#ARGV[2] - 1) ~= ':'..ARGV[2]
if other or until_ms > now or redis.call('HGET', P..'gone', ARGV[1]) then return 0 end
go(ARGV[1], 'node-lost')
return 1
"""
_LEAVE = """
local owner, n, issued, kept, most = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if redis.call('GET', P..'number:'..n) ~= owner then return 0 end
redis.call('SET', P..'ended'..string.match(owner, ':.*'), '', 'EX', DAY)
redis.call('ZREM', P..'alive', n)
if issued == '0' or kept == '' and tonumber(issued) < tonumber(most) then
  redis.call('DEL', P..'number:'..n)
  if issued ~= '0' then redis.call('HSET', P..'handed', n, issued) end
end
if issued ~= '0' then go(n, 'node-drained') else
  redis.call('HDEL', P..'records', n)
  note(n)
end
return 1
"""
# A key of a boot that has certainly ended is free: no instance of it is left.
_BIND_KEY = """
local name, value, stopping = P..'key:'..ARGV[1], ARGV[2], ARGV[3]
local found = redis.call('GET', name)
-- What no node has written binds nothing.
local n, boot = string.match(found or '', '^(%x%x%x):([%w-]+)$')
if n then
  local holder = redis.call('GET', P..'number:'..n)
  local lost = redis.call('HGET', P..'gone', n) == 'node-lost'
  local other = holder and string.sub(holder, -#boot - 1) ~= ':'..boot
  local ended = redis.call('EXISTS', P..'ended:'..boot) == 1 or other and not lost
  if boot ~= stopping and not ended then return found end
end
if value == '' then return false end
redis.call('SET', name, value, 'EX', DAY)
return value
"""
# A number may have been given back, and be another server's, while the run's node is
# restarted. So the data directory has to be the same, or without one the boot.
_BIND_RUN = """
local name, number, kind = P..'run:'..ARGV[1], ARGV[2], ARGV[3]
local function holder(n)
  local found = redis.call('GET', P..'number:'..n) or ''
  local directory, boot = string.match(found, '^([^:]*):(.+)$')
  return directory == '' and boot or directory
end
local n, whose = string.match(redis.call('GET', name) or '', '^(%x%x%x):(.+)$')
if kind == 'free' then
  if n == number then
    redis.call('DEL', name)
    -- It may have been made anew meanwhile: its node writes its runs again.
    local boot = string.match(redis.call('GET', P..'number:'..n) or '', ':.*')
    if boot then redis.call('DEL', P..'runs_of'..boot) end
  end
  return false
end
if number ~= '' and (kind == 'anew' or not n) then
  n, whose = number, holder(number)
  if not whose then return '' end
  redis.call('SET', name, n..':'..whose, 'EX', DAY)
end
if not n then return false end
if holder(n) ~= whose then return '' end
if tonumber(redis.call('ZSCORE', P..'alive', n) or 0) >= now then
  redis.call('EXPIRE', name, DAY)
end
return n
"""
_BIND_RUNS = """
local directory, boot = string.match(ARGV[1], '^([^:]*):(.+)$')
local whose, known = directory == '' and boot or directory, P..'runs_of:'..boot
if redis.call('GET', known) ~= ARGV[3] then return false end
for i = 4, #ARGV do
  local name = P..'run:'..ARGV[i]
  local n, bound = string.match(redis.call('GET', name) or '', '^(%x%x%x):(.+)$')
  if not n or bound == whose then
    redis.call('SET', name, ARGV[2]..':'..whose, 'EX', DAY)
  end
end
redis.call('SET', known, 'all', 'EX', ALL_RUNS)
""".replace("ALL_RUNS", str(ALL_RUNS_SECONDS))
_HAS_ALL_RUNS = """
for i = 1, #ARGV do
  if redis.call('GET', P..'runs_of:'..ARGV[i]) ~= 'all' then return 0 end
end
return 1
"""
_RECORD = """
local n = ARGV[1]
local until_ms = tonumber(redis.call('ZSCORE', P..'alive', n) or 0)
if until_ms < now or redis.call('HGET', P..'gone', n) then return false end
return redis.call('HGET', P..'records', n)
"""
_COUNT_CREATE = """
local key, most = P..'placed:'..ARGV[1], tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', key, 0, now - PLACED)
if redis.call('ZCARD', key) >= most then return 0 end
redis.call('ZADD', key, now, ARGV[2])
redis.call('PEXPIRE', key, PLACED)
return 1
""".replace("PLACED", str(int(1000 * FRESH_SECONDS)))
_FORGET_CREATE = "redis.call('ZREM', P..'placed:'..ARGV[1], ARGV[2])"
_REASONS = (b"node-drained", b"node-lost")
#: IDs below which an ended node lets another one go on with its number.
_HANDED_ON = 1000


log = logging.getLogger("gym_http_server.fleet")


class StoreAway(Exception):
    """The store does not answer; the message has the reason."""


class NumberTaken(Exception):
    """A number of this node was marked lost, or belongs to another boot."""


class Changes(NamedTuple):
    """What a renewal has learned.

    Attributes:
        epoch: Of the store's data.
        clock: Of the last change.
        alive: Numbers whose records count.
        records: Records that were changed, by number; empty if there is none.
        gone: Why a number has no node, of the same numbers; "" if it may have one.
        refused: The server that was last refused: its name and version, as JSON.
        runs_nonce: What to pass to `bind_runs` with the runs of this node, listed from
            now on; "" if the store has them.
    """

    epoch: bytes
    clock: bytes
    alive: frozenset[str]
    records: dict[str, bytes]
    gone: dict[str, str]
    refused: bytes
    runs_nonce: str = ""


class _Fleet(msgspec.Struct):
    version: str
    check: str


def _reason(why: bytes) -> str:
    """Return why a number has no node; "" if no node has written that."""
    if why and why not in _REASONS:
        log.warning("ignored a reason in the fleet's store: %.100r", why)
        return ""
    return why.decode()


def check_url(url: str, *, beyond_loopback: bool) -> None:
    """Check the URL of a store.

    Raises:
        StartError: It is malformed, needs a password, or redis-py is not installed.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        raise StartError(
            "--fleet is not the URL of a store: expected redis://HOST:PORT/0, or "
            "rediss:// for TLS, with :PASSWORD@ before the host if it has one"
        )
    beyond_loopback = beyond_loopback or not is_local(parts.hostname)
    if beyond_loopback and not parts.password:
        raise StartError(
            f"--fleet {_shown(url)} has no password, and other machines could change "
            "the fleet: expected redis://:PASSWORD@HOST:PORT/0"
        )
    _redis()


def _redis() -> Any:
    try:
        import redis
    except ImportError:
        raise StartError(
            "--fleet needs redis-py: pip install 'gymnasium-http-server[fleet]'"
        ) from None
    return redis


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 6379}"


class FleetStore:
    """A connection to the store.

    Args:
        url: Its URL.
        version: Version of this server.
        signatures: Made with the fleet token.
    """

    def __init__(self, url: str, version: str, signatures: Signatures) -> None:
        redis = _redis()
        self.shown = _shown(url)
        self._failed = redis.exceptions.RedisError, OSError
        self._client = redis.Redis.from_url(
            url,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0),
        )
        scripts: tuple[str, ...] = (_ADMIT, _CLAIM, _RENEW, _LOSE, _LEAVE, _BIND_KEY)
        scripts += (_BIND_RUN, _BIND_RUNS, _HAS_ALL_RUNS, _RECORD)
        scripts += (_COUNT_CREATE, _FORGET_CREATE)
        self._scripts = {
            each: self._client.register_script(_COMMON + each) for each in scripts
        }
        minor = ".".join(version.split(".")[:2])
        fleet = _Fleet(minor, signatures.sign("fleet"))
        self._fleet = msgspec.json.encode(fleet)
        self._minor = minor
        self._signatures = signatures

    def _run(self, script: str, *arguments: str | bytes | int) -> Any:
        try:
            return self._scripts[script](keys=[_PREFIX], args=arguments)
        except self._failed as error:
            words = str(error).partition("\n")[0]
            raise StoreAway(f"the store at {self.shown} fails: {words:.200}") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def admit(self, name: str) -> str:
        """Check that this server may join; return why not, or "".

        Args:
            name: Its name, for the logs of the others.

        Raises:
            StoreAway: The store does not answer.
        """
        news = {"name": name, "version": self._minor, "nonce": random.random()}
        found = self._run(_ADMIT, self._fleet, msgspec.json.encode(news))
        if not found:
            return ""
        try:
            fleet = msgspec.json.decode(found, type=_Fleet)
        except msgspec.MsgspecError:
            return "the store has something else than a fleet"
        if fleet.version != self._minor:
            return (
                f"its nodes have version {fleet.version:.20}, and this one "
                f"{self._minor}: expected the same"
            )
        return "its nodes have another fleet token (--fleet-token-file)"

    def evicts(self) -> str:
        """Return the policy by which the store drops keys; "" if it keeps them.

        It is "" also where the store does not say, or does not answer.
        """
        try:
            policy = str(self._client.info("memory").get("maxmemory_policy", ""))
        except self._failed:
            return ""
        return "" if policy == _KEEPS else policy

    def claim(
        self, directory: str, boot: str, kept: NodeNumber | None
    ) -> NodeNumber | None:
        """Claim a number; return ``None`` if all are taken.

        Args:
            directory: Name of the data directory that keeps it; "" for none.
            boot: Name of this start.
            kept: The number that the data directory has kept.

        Raises:
            StoreAway: The store does not answer.
        """
        wanted, issued = kept or NodeNumber("", 0)
        start, stride = random.randrange(NUMBERS), random.randrange(1, NUMBERS, 2)
        found = self._run(_CLAIM, directory, boot, wanted, issued, start, stride)
        number, count, ignored = found
        for each in ignored:
            log.warning(
                "removed %r from the numbers that ended nodes have left in the fleet's "
                "store: expected 3 hex digits, and a count",
                each,
            )
        return NodeNumber(number.decode(), int(count)) if number else None

    def renew(
        self,
        owner: str,
        numbers: tuple[str, ...],
        record: bytes,
        since: tuple[bytes, bytes],
    ) -> Changes:
        """Write this node's record; return what has changed.

        Args:
            owner: Data directory and boot, with a colon between.
            numbers: The node's numbers.
            record: Its record.
            since: Epoch and clock of the last renewal.

        Raises:
            StoreAway: The store does not answer.
            NumberTaken: The node has lost a number.
        """
        answer = self._run(_RENEW, owner, record, self._fleet, *since, *numbers)
        if answer == [b"fleet"]:
            raise StoreAway("the store now belongs to another fleet")
        if len(answer) == 1:
            raise NumberTaken(answer[0].decode())
        epoch, clock, alive, changed, refused, nonce = answer
        triples = list(zip(changed[::3], changed[1::3], changed[2::3], strict=True))
        return Changes(
            epoch=epoch,
            clock=clock,
            alive=frozenset(each.decode("latin-1") for each in alive),
            records={n.decode("latin-1"): record for n, record, _ in triples},
            gone={n.decode("latin-1"): _reason(why) for n, _, why in triples},
            refused=refused,
            runs_nonce=nonce.decode("latin-1"),
        )

    def lose(self, number: str, boot: str) -> bool:
        """Mark a number as lost, unless its node has come back; return whether it is.

        Raises:
            StoreAway: The store does not answer.
        """
        return bool(self._run(_LOSE, number, boot))

    def leave(self, owner: str, number: NodeNumber) -> None:
        """Give a number back, or let it rest.

        Args:
            owner: Data directory and boot, with a colon between.
            number: The number.

        Raises:
            StoreAway: The store does not answer.
        """
        kept = owner.partition(":")[0]
        self._run(_LEAVE, owner, *number, kept, _HANDED_ON)

    def record(self, number: str) -> bytes:
        """Return the record of a node that has renewed it; empty if none has.

        Raises:
            StoreAway: The store does not answer.
        """
        found: bytes | None = self._run(_RECORD, number)
        return found or b""

    def bind_key(self, creator: str, key: str, node: str, stopping: str = "") -> str:
        """Bind a create key to a node; return the node that it is bound to.

        Args:
            creator: Name of the token, whose keys are its own.
            key: The key.
            node: Number and boot of the node; "" to bind it to none.
            stopping: Boot of a node from which the key may be taken, since that makes
                no instance any more.

        Raises:
            StoreAway: The store does not answer.
        """
        # A key may be a secret of the client.
        named = self._signatures.sign("key", creator, key)
        found: bytes | None = self._run(_BIND_KEY, named, node, stopping)
        return (found or b"").decode("latin-1")

    def count_create(self, owner: str, name: str, most: int) -> bool:
        """Count a create of a token for a while, unless so many are counted.

        Args:
            owner: Name of the token.
            name: A name of the create.
            most: Creates that may be counted.

        Returns:
            Whether it is counted.

        Raises:
            StoreAway: The store does not answer.
        """
        return bool(self._run(_COUNT_CREATE, owner, name, most))

    def forget_create(self, owner: str, name: str) -> None:
        """Count a create of a token no more, since it was refused.

        Raises:
            StoreAway: The store does not answer.
        """
        self._run(_FORGET_CREATE, owner, name)

    def bind_run(self, run: str, number: str = "", *, anew: bool = False) -> str | None:
        """Bind a run to a node; return the number of the one that it is bound to.

        Args:
            run: Name of the run.
            number: The node's number; "" to bind it to none.
            anew: Whether to bind it to this node if another one has it.

        Returns:
            The number; "" if its server has given it back; ``None`` if the run is bound
            to no node.

        Raises:
            StoreAway: The store does not answer.
        """
        kind = "anew" if anew else "new"
        found: bytes | None = self._run(_BIND_RUN, run, number, kind)
        return None if found is None else found.decode()

    def bind_runs(self, owner: str, number: str, runs: list[str], nonce: str) -> None:
        """Bind all runs of a node, but for those that are bound to another one.

        It does nothing if a run of the node was freed after the renewal.

        Args:
            owner: Data directory and boot, with a colon between.
            number: The node's number.
            runs: Names of the runs.
            nonce: What the renewal before they were listed has returned.

        Raises:
            StoreAway: The store does not answer.
        """
        self._run(_BIND_RUNS, owner, number, nonce, *runs)

    def has_all_runs(self, boots: list[str]) -> bool:
        """Whether the store has all runs of some nodes.

        Raises:
            StoreAway: The store does not answer.
        """
        return bool(self._run(_HAS_ALL_RUNS, *boots))

    def free_run(self, run: str, number: str) -> None:
        """Bind a run to no node, if it is bound to this one.

        Args:
            run: Name of the run.
            number: The node's number.

        Raises:
            StoreAway: The store does not answer.
        """
        self._run(_BIND_RUN, run, number, "free")
