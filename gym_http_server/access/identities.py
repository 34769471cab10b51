"""Identities: the tokens that a server accepts, and the scopes that each has.

A file of tokens has a line for each::

    # name   sha256 of the token, in hex   scopes   [max_instances]
    alice    5e88…1d87   read,step,create   8
    arcade   2bb8…50d8   external:arcade

The file holds hashes only, so that its readers cannot use the tokens.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
from collections.abc import Iterator

import msgspec

from gym_http_server.config.settings import Settings
from gym_http_server.errors import ScopeMissing, SettingError

__all__ = [
    "ADMIN",
    "ANY",
    "CREATE",
    "EVERYONE",
    "EXTERNAL",
    "MAX_INSTANCES",
    "NODE",
    "READ",
    "RUNS",
    "RUN_ROLE",
    "RUN_TOKEN_PREFIX",
    "STEP",
    "Identity",
    "Keys",
    "by_name",
    "line_of",
    "quotas",
    "read_file",
]

READ, STEP, CREATE, EXTERNAL, ADMIN = "read", "step", "create", "external", "admin"
RUNS = "runs"
#: Scopes that take no name after a colon.
_PLAIN = (READ, STEP, CREATE, RUNS, ADMIN)
#: In the scopes of routes that tokens of a run may use. No file of tokens gives it.
RUN_ROLE = "run-role"
#: In the scopes of routes that only other nodes of a fleet may use. No token has it.
NODE = "node"
#: How the tokens of runs begin, which only the relay can check.
RUN_TOKEN_PREFIX = b"ghr_"
#: The scopes of a route that any token may use.
ANY: frozenset[str] = frozenset()
MAX_FILE_BYTES = 1024 * 1024
MAX_INSTANCES = 100_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}").fullmatch
_HASH = re.compile(r"[0-9A-Fa-f]{64}").fullmatch
_COUNT = re.compile(r"[1-9][0-9]{0,5}").fullmatch
_FIELDS = (3, 4)
_EMPTY = hashlib.sha256(b"").digest()


class Identity(msgspec.Struct, frozen=True):
    """The name, scopes and limits of a token; the token itself is not stored.

    Attributes:
        name: Its name; "" if the server has a single token, or no token.
        scopes: Its scopes; ``admin`` includes all others.
        max_instances: Instances that it may own at a time; ``None``: any number.
        only: Name of the owner whose instances it is limited to; "": all instances.
        run_token: SHA-256 in hex of the token, if it is a run's. The relay knows its
            run and role.
    """

    name: str = ""
    scopes: frozenset[str] = frozenset({ADMIN})
    max_instances: int | None = None
    only: str = ""
    run_token: str = ""

    def __post_init__(self) -> None:
        """Compute the attributes that each request reads."""
        if ADMIN not in self.scopes:
            msgspec.structs.force_setattr(self, "only", self.name)

    def may(self, scopes: frozenset[str]) -> bool:
        """Return whether it has one of the scopes; true if the set is empty."""
        if self.run_token:
            return RUN_ROLE in scopes
        if not scopes or ADMIN in self.scopes:
            return True
        return any(scope.partition(":")[0] in scopes for scope in self.scopes)

    def may_connect(self, name: str) -> bool:
        """Whether it may connect ``external/NAME``."""
        allowed = {ADMIN, f"{EXTERNAL}:{name}", f"{EXTERNAL}:*"}
        return not allowed.isdisjoint(self.scopes)

    def require(self, *scopes: str) -> None:
        """Check that it has all of these scopes.

        Raises:
            ScopeMissing: One of them is missing.
        """
        for scope in scopes:
            if not self.may(frozenset({scope})):
                raise ScopeMissing(self.name, scope)


#: Every caller of a server that has a single token, or none.
EVERYONE = Identity()


class Keys:
    """The tokens that a server accepts, as hashes.

    Args:
        entries: SHA-256 of each token, and its identity.
    """

    def __init__(self, entries: list[tuple[bytes, Identity]]) -> None:
        self._entries = entries
        self._by_name = {identity.name: identity for _, identity in entries}

    @classmethod
    def of(cls, settings: Settings) -> Keys | None:
        """Return the keys of a server's settled settings; ``None``: it needs none."""
        if settings.tokens:
            return cls(list(_parse(settings.tokens, "--tokens")))
        if settings.token:
            digest = hashlib.sha256(settings.token.encode()).digest()
            return cls([(digest, EVERYONE)])
        return None

    def identify(self, shown: bytes) -> Identity | None:
        """Return the identity of a token; ``None`` if the token is wrong."""
        digest = hashlib.sha256(shown).digest()
        found = None
        # Compare with all, so that the time does not depend on which one matches.
        for each, identity in self._entries:
            if hmac.compare_digest(digest, each):
                found = identity
        return found

    def named(self, name: str) -> Identity | None:
        """Return the identity of this name."""
        return self._by_name.get(name)


def by_name(settings: Settings) -> dict[str, tuple[bytes, Identity]]:
    """Return the SHA-256 and the identity of each of several tokens, by its name."""
    entries = _parse(settings.tokens, "--tokens")
    return {entry[1].name: entry for entry in entries}


def quotas(settings: Settings) -> dict[str, int | None]:
    """Return how many instances each name may own, without any hash."""
    return {name: each.max_instances for name, (_, each) in by_name(settings).items()}


def read_file(path: str) -> str:
    """Read and check a file of tokens.

    Returns:
        The text of the file.

    Raises:
        SettingError: The file cannot be read, other users can write it, or a line is
            malformed.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            _check_permissions(path, os.fstat(file.fileno()))
            text = file.read(MAX_FILE_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"cannot read the file of tokens: {error}") from None
    if len(text) > MAX_FILE_BYTES:
        raise SettingError(
            f"the file of tokens {path} has more than the {MAX_FILE_BYTES} characters "
            "allowed"
        )
    if not list(_parse(text, path)):
        raise SettingError(
            f"the file of tokens {path} has no token in it: 'gym-http-server token "
            "NAME' makes a line"
        )
    return text


def line_of(name: str, token: str, scopes: str, max_instances: int | None) -> str:
    """Return the line for a token.

    Raises:
        SettingError: The name or a scope is malformed.
    """
    fields = [name, hashlib.sha256(token.encode()).hexdigest(), scopes]
    if max_instances is not None:
        fields.append(str(max_instances))
    _entry(fields, "the new token")
    return " ".join(fields)


def _check_permissions(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SettingError(f"the file of tokens {path} is not a regular file")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SettingError(
            f"the file of tokens {path} can be written by other users (mode "
            f"{stat.S_IMODE(status.st_mode):o}): chmod go-w it"
        )
    if status.st_uid not in (0, os.geteuid()):
        raise SettingError(
            f"the file of tokens {path} belongs to user {status.st_uid}: expected "
            "root, or the user who starts the server"
        )


def _parse(text: str, source: str) -> Iterator[tuple[bytes, Identity]]:
    names: dict[str, int] = {}
    hashes: dict[bytes, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        where = f"{source}, line {number}"
        digest, identity = _entry(fields, where)
        if identity.name in names:
            first = names[identity.name]
            raise SettingError(
                f"{where}: the name {identity.name!r} is also on line {first}"
            )
        if digest in hashes:
            first = hashes[digest]
            raise SettingError(f"{where}: the hash is also on line {first}")
        names[identity.name] = hashes[digest] = number
        yield digest, identity


def _entry(fields: list[str], where: str) -> tuple[bytes, Identity]:
    if len(fields) not in _FIELDS:
        raise SettingError(
            f"{where}: there are {len(fields)} fields: expected name, sha256, scopes "
            "and perhaps max_instances, with blanks between"
        )
    name, digest, scopes, *count = fields
    if not _NAME(name):
        raise SettingError(
            f"{where}: the name is {name!r:.80}: expected a letter or digit, then up "
            "to 63 of A-Z, a-z, 0-9, _, . and -"
        )
    if not _HASH(digest):
        # The field may be the token itself, so the message must not show it.
        raise SettingError(
            f"{where}: the second field is not a SHA-256 in hex: expected 64 of 0-9 "
            f"and a-f, and it has {len(digest)} characters"
        )
    if bytes.fromhex(digest) == _EMPTY:
        raise SettingError(f"{where}: the hash is that of an empty token")
    if count and (not _COUNT(count[0]) or int(count[0]) > MAX_INSTANCES):
        raise SettingError(
            f"{where}: max_instances is {count[0]!r:.80}: expected an integer from 1 "
            f"to {MAX_INSTANCES}"
        )
    for scope in scopes.split(","):
        _check_scope(scope, where)
    most = int(count[0]) if count else None
    return bytes.fromhex(digest), Identity(name, frozenset(scopes.split(",")), most)


def _check_scope(scope: str, where: str) -> None:
    kind, _, name = scope.partition(":")
    named = kind == EXTERNAL and (name == "*" or _NAME(name))
    if scope not in _PLAIN and not named:
        raise SettingError(
            f"{where}: the scope {scope!r:.80} is unknown: expected "
            f"{', '.join(_PLAIN)}, external:NAME or external:*, with commas between"
        )
