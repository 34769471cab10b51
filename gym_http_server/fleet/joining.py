"""How a server joins its fleet when it starts, and leaves it when it ends."""

from __future__ import annotations

import dataclasses
import logging
import secrets
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import gym_http_server
from gym_http_server.config.settings import Settings
from gym_http_server.errors import StartError
from gym_http_server.fleet.numbers import NodeNumber, NumberFile
from gym_http_server.fleet.page import IDS_OF_NUMBER, Nodes, Page
from gym_http_server.fleet.records import NAME, Record, is_loopback, is_url, port_of
from gym_http_server.fleet.signatures import Signatures
from gym_http_server.fleet.store import FleetStore, StoreAway, check_url

__all__ = ["Membership", "may_be_called", "prepare", "tls_context"]

SHORTEST = 16
log = logging.getLogger("gym_http_server.fleet")


def prepare(settings: Settings, url: str) -> tuple[Settings, str, str]:
    """Return the settings of a node, the fleet token, and the node's URL.

    Args:
        settings: The settings.
        url: The address on which the server listens.

    Raises:
        StartError: A setting of the fleet is wrong.
    """
    token = _read_token(settings)
    tls_context(settings.fleet_ca)
    node_url = _settle_url(settings, url)
    return _settle_name(settings, node_url), token, node_url


def _read_token(settings: Settings) -> str:
    """Return the fleet token, after a check of all settings of the fleet.

    Returns:
        The token; "" with none on loopback, if callers show no token either.

    Raises:
        StartError: A setting is wrong, or the fleet would be open to others.
    """
    check_url(settings.fleet, beyond_loopback=not settings.loopback)
    if settings.no_tcp:
        raise StartError("--fleet needs a TCP address: start without --no-tcp")
    if not settings.fleet_token_file:
        if settings.guarded:
            # Without one, every caller that reaches the store could act for any token.
            raise StartError(
                "--fleet with --token or --tokens needs a token that all its nodes "
                "share, with which they sign whom they act for: name its file with "
                "--fleet-token-file"
            )
        if settings.loopback and not settings.node_url:
            return ""
        raise StartError(
            "--fleet beyond loopback needs a token that all its nodes share, with "
            "which they sign requests to each other: name its file with "
            "--fleet-token-file"
        )
    try:
        text = Path(settings.fleet_token_file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"cannot read the fleet token file: {error}") from None
    token = text.partition("\n")[0].strip()
    if len(token) < SHORTEST:
        raise StartError(
            f"the fleet token has {len(token)} characters: expected {SHORTEST} or more "
            f"on the first line of {settings.fleet_token_file}"
        )
    return token


def _settle_url(settings: Settings, url: str) -> str:
    """Return where the others reach this node.

    Args:
        settings: The settings.
        url: The address on which the server listens.

    Raises:
        StartError: They cannot, or must not.
    """
    node_url = (settings.node_url or url).rstrip("/")
    if not is_url(node_url):
        raise StartError(
            f"--node-url is {node_url!r:.200}: expected a scheme, a host and a port, "
            "as https://10.0.0.7:5000"
        )
    if urlsplit(node_url).hostname in ("0.0.0.0", "::"):  # noqa: S104
        raise StartError(
            f"other nodes cannot reach this one at {node_url}: name its address with "
            "--node-url"
        )
    if not may_be_called(node_url, settings):
        raise StartError(
            f"other nodes would send the names of tokens to {node_url} in plain "
            "HTTP: use https://, or --fleet-plain if the network is private"
        )
    return node_url


def _settle_name(settings: Settings, node_url: str) -> Settings:
    name = settings.node_name or f"{socket.gethostname()}:{port_of(node_url)}"
    if not NAME(name):
        raise StartError(
            f"--node-name is {name!r:.200}: expected up to 100 letters, digits, and "
            "_ . : -"
        )
    return dataclasses.replace(settings, node_name=name)


def may_be_called(url: str, settings: Settings) -> bool:
    """Whether a node may be called at a URL: not by plain HTTP over networks."""
    return url.startswith("https:") or is_loopback(url) or settings.fleet_plain


def tls_context(ca: str) -> ssl.SSLContext:
    """Return what verifies other nodes.

    Args:
        ca: File with the certificates of authorities; "": the system's.

    Raises:
        StartError: The file cannot be used.
    """
    try:
        return ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError) as error:
        raise StartError(f"--fleet-ca {ca} cannot be used: {error}") from None


class Membership:
    """The number that a server has from its start to its end.

    Args:
        settings: The settings, after `prepare`.
        token: The fleet token.
        url: The node's URL.
        run_path: The run directory.

    Raises:
        StartError: The fleet does not admit the server, or has no number left.
    """

    def __init__(self, settings: Settings, token: str, url: str, run_path: str) -> None:
        self.boot = secrets.token_hex(8)
        self._file = NumberFile(settings.data_dir)
        version = gym_http_server.__version__
        self._store = FleetStore(settings.fleet, version, Signatures(token))
        kept = self._file.read() if self._file.claim() else None
        directory = "" if kept is None else self._file.directory
        self.owner = f"{directory}:{self.boot}"
        try:
            refused = self._store.admit(settings.node_name)
            if refused:
                raise StartError(f"this server cannot join the fleet: {refused}")
            number = self._store.claim(directory, self.boot, kept)
        except StoreAway as away:
            raise StartError(
                f"this server cannot join the fleet: {str(away).rstrip('.')}; check "
                "--fleet, and that Redis or Valkey runs there"
            ) from None
        if number is None:
            raise StartError(
                "this server cannot join the fleet: all 4,096 numbers are taken, or "
                "rest for a day after their node's end"
            )
        if policy := self._store.evicts():
            log.warning(
                "the store has maxmemory-policy %.40s: when it is full, it forgets "
                "which node has a key or a run, and a repeated create may make a "
                "second instance; set noeviction",
                policy,
            )
        record = Record(
            numbers=(number.number,),
            boot=self.boot,
            name=settings.node_name,
            url=url,
            version=version,
            slots=settings.max_instances,
            free=settings.max_instances,
        )
        self.page = Page(run_path, make=True)
        self.page.issued = number.issued
        self.page.replace(Nodes(record, directory))

    @property
    def joined(self) -> bool:
        """Whether its record is in the store, where other nodes find it."""
        return not self.page.fenced

    def leave(self) -> None:
        """Give the number back, or let it rest; log why if the store is away."""
        nodes = self.page.read()
        *earlier, last = nodes.own.numbers
        try:
            for number in earlier:
                self._store.leave(self.owner, NodeNumber(number, IDS_OF_NUMBER))
            self._store.leave(self.owner, NodeNumber(last, self.page.issued))
        except StoreAway as away:
            log.warning("this node's number rests for a day: %s", away)
        self._store.close()
        self._file.close()
