"""Checks the settings of access before the server starts: tokens, origins, hosts."""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from gym_http_server.access.identities import read_file
from gym_http_server.config.settings import Settings
from gym_http_server.errors import SettingError

__all__ = ["AUTO", "new_token", "resolve_tokens", "to_show"]

AUTO = "auto"
SHORTEST = 16
# Neither "*" nor "null", which every sandboxed page has.
# A wildcard would accept names that other people have pointed at this machine.
_HOST = re.compile(r"[^\s*/:]+").fullmatch
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/*\s]+").fullmatch


def resolve_tokens(settings: Settings) -> Settings:
    """Return the settings with the token that callers must send, if any.

    The text of a file of tokens replaces its path, so that all processes have the same
    tokens.

    Raises:
        SettingError: The server would be open to others without a token, or the
            token is malformed.
    """
    for origin in settings.allow_origin:
        if not _ORIGIN(origin):
            raise SettingError(
                f"--allow-origin is {origin!r}: expected an origin as "
                "https://example.org or http://localhost:8080"
            )
    for host in settings.allow_host:
        if not _HOST(host):
            raise SettingError(
                f"--allow-host is {host!r}: expected a host name as gym.example, "
                "without a scheme, a port and wildcards"
            )
    token = _given(settings)
    if token == AUTO:
        token = new_token()
    if settings.tokens:
        return _read_tokens(settings, token)
    if not token and not settings.loopback and not settings.no_token:
        raise SettingError(
            f"{settings.listen} can be reached from other machines, and clients that "
            "create environments can run code: set a token with --token (or --token "
            "auto), or use --no-token if you accept that"
        )
    if not token and not settings.external_loopback:
        raise SettingError(
            f"--external-tcp {settings.external_tcp} can be reached from other "
            "machines: set a token with --token (or --token auto)"
        )
    if not token and not settings.zmq_loopback:
        raise SettingError(
            f"--zmq {settings.zmq} can be reached from other machines: set a token "
            "with --token (or --token auto)"
        )
    if token and settings.no_token:
        raise SettingError("--no-token and a token were given: choose one")
    if token and (not token.isascii() or not token.isprintable() or " " in token):
        raise SettingError(
            "the token has characters that headers cannot carry: "
            "expected printable ASCII without blanks"
        )
    if token and len(token) < SHORTEST:
        raise SettingError(
            f"the token has {len(token)} characters: expected {SHORTEST} or more; "
            "--token auto makes a good one"
        )
    return dataclasses.replace(settings, token=token, token_file="")


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(24)


def _read_tokens(settings: Settings, token: str) -> Settings:
    if token:
        raise SettingError(
            "--tokens and a single token were given: choose one, or give that token a "
            "line with the scope admin"
        )
    if settings.no_token:
        raise SettingError("--no-token and --tokens were given: choose one")
    return dataclasses.replace(settings, tokens=read_file(settings.tokens))


def _given(settings: Settings) -> str:
    if not settings.token_file:
        return settings.token
    if settings.token:
        raise SettingError("a token and a token file were given: choose one")
    return _read(settings.token_file)


def to_show(token: str, token_file: str, environ: Mapping[str, str]) -> str:
    """Return the token that a command sends to a server; "" without a token.

    Args:
        token: The token of the command line, or "".
        token_file: The token file of the command line, or "".
        environ: Has GHS_TOKEN and GHS_TOKEN_FILE, if both others are empty.

    Raises:
        SettingError: Both were given, or the file has no token.
    """
    if not token and not token_file:
        token = environ.get("GHS_TOKEN", "")
        token_file = environ.get("GHS_TOKEN_FILE", "")
    if token and token_file:
        raise SettingError("a token and a token file were given: choose one")
    return _read(token_file) if token_file else token


def _read(path: str) -> str:
    try:
        # Editors of Windows may begin a file with a byte order mark.
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(
            f"cannot read the token file {path}: {error}; it is a text file with the "
            "token on its first line, as from: head -c 24 /dev/urandom | base64"
        ) from None
    token = lines[0].strip() if lines else ""
    if not token:
        raise SettingError(f"the token file {path} has no first line")
    return token
