"""Addresses: parses the URL of a server, and the token in it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import quote, unquote, urlsplit

__all__ = ["Address", "base_path", "no_scheme"]

_PORTS = {"http": 80, "https": 443}
_LOOKS = "A server's address looks like http://127.0.0.1:5000"
_SOCKET_PATH_BYTES = 107
_VISIBLE = re.compile(r"[!-~]+")
_ZONE = re.compile(r"%25[^]]*")


def base_path(path: str) -> str:
    """Return the part before ``/v1/…`` of an address's path."""
    return path.rstrip("/").removesuffix("/v1").rstrip("/")


def no_scheme() -> ValueError:
    """Return the error for an address that does not begin with ``http://`` or the like.

    It does not show the address, which may contain a token.
    """
    return ValueError(
        f"{_LOOKS}; this one does not begin with http://, https:// or http+unix://"
    )


@dataclass(frozen=True)
class Address:
    """The parsed address of a server.

    Attributes:
        url: The address without the token, and without a slash at its end.
        scheme: ``http``, ``https`` or ``http+unix``.
        host: Name or IP address to connect to; empty for a Unix socket.
        port: TCP port; 0 for a Unix socket.
        socket_path: Path of the Unix socket, else empty.
        prefix: The part before each request's path.
        host_header: The ``Host`` header of requests.
        token: The server's token; None if there is none.
    """

    url: str
    scheme: str
    host: str
    port: int
    socket_path: str
    prefix: str
    host_header: str
    token: str | None = field(repr=False)

    @classmethod
    def parse(cls, url: str, token: str | None = None) -> Self:
        """Parse an address.

        Args:
            url: As ``http://127.0.0.1:5000``. It may hold a token, as
                ``http://:TOKEN@host:5000``, and a path, of which a ``/v1`` at the end
                is left out, since each request has it. A Unix socket is
                ``http+unix:///path/to.sock``, or, when a path is to follow,
                ``http+unix://%2Fpath%2Fto.sock/path``.
            token: The server's token; else the one in the address, else the one in
                the environment variable ``GHS_TOKEN``. An empty one means none.

        Raises:
            ValueError: The address is malformed. The message does not show it, since
                it may contain a token.
        """
        try:
            parts = urlsplit(url)
            scheme, port = parts.scheme, parts.port
        except ValueError:
            raise ValueError(_LOOKS) from None
        user, _, place = parts.netloc.rpartition("@")
        if token is None:
            token = unquote(user.partition(":")[2]) or os.environ.get("GHS_TOKEN")
        token = _checked_token(token)
        prefix = quote(base_path(parts.path), safe="/%:@!$&'()*+,;=~")
        if scheme == "http+unix":
            path, prefix = (unquote(place), prefix) if place else (parts.path, "")
            return cls._of_unix_socket(unquote(path), prefix, token)
        if scheme not in _PORTS:
            raise no_scheme()
        if not parts.hostname:
            raise ValueError(_LOOKS)
        host = _host(unquote(parts.hostname))
        shown = f"[{quote(host, safe=':')}]" if ":" in host else host
        if port not in (None, _PORTS[scheme]):
            shown = f"{shown}:{port}"
        return cls(
            url=f"{scheme}://{shown}{prefix}",
            scheme=scheme,
            host=host,
            port=_PORTS[scheme] if port is None else port,
            socket_path="",
            prefix=prefix,
            # A zone, as in fe80::1%eth0, means something on this machine only.
            host_header=_ZONE.sub("", shown),
            token=token,
        )

    @classmethod
    def _of_unix_socket(cls, path: str, prefix: str, token: str | None) -> Self:
        if not path.startswith("/") or "\0" in path:
            raise ValueError(f"{_LOOKS} or http+unix:///path/to.sock")
        size = len(os.fsencode(path))
        if size > _SOCKET_PATH_BYTES:
            raise ValueError(
                f"The path of that Unix socket has {size} bytes, and "
                f"{_SOCKET_PATH_BYTES} are possible"
            )
        return cls(
            url=f"http+unix://{quote(path, safe='')}{prefix}",
            scheme="http+unix",
            host="",
            port=0,
            socket_path=path,
            prefix=prefix,
            # A server accepts this name from its own machine.
            host_header="localhost",
            token=token,
        )


def _host(host: str) -> str:
    """Return a host as the resolver knows it."""
    if ":" not in host:
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            raise ValueError(_LOOKS) from None
    if not _VISIBLE.fullmatch(host):
        raise ValueError(_LOOKS)
    return host


def _checked_token(token: str | None) -> str | None:
    if token and not token.isprintable():
        raise ValueError("A token has no line breaks or control characters in it")
    return token or None
