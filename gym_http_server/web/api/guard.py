"""Access control: the token, the Host and the Origin of a request.

A caller that can create an environment can run code. So a server that other machines
can reach requires a token. A server on loopback without a token refuses some requests
of web pages in the user's browser: those from another origin, and those with another
name of this machine (DNS rebinding).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import ipaddress
import re
from http import HTTPStatus
from typing import NoReturn
from urllib.parse import parse_qs

from gym_http_server.access.authentication import Authenticator, shared_count
from gym_http_server.access.identities import (
    EVERYONE,
    RUN_ROLE,
    RUN_TOKEN_PREFIX,
    Identity,
    Keys,
)
from gym_http_server.config.inherited_settings import SettingsMemory
from gym_http_server.config.settings import Settings
from gym_http_server.errors import (
    HostRefused,
    OriginRefused,
    TicketRefused,
    Unauthorized,
)
from gym_http_server.operations.row import Operation
from gym_http_server.web.api.exchange import MAX_QUERY, Answer, Environ, request_id_of
from gym_http_server.web.api.page_requests import is_of_script, is_page
from gym_http_server.web.api.tickets import TicketHolder, Tickets

__all__ = ["Guard", "run_identity"]

MAX_KNOWN_HOSTS = 64
_BEARER = 'Bearer realm="gym_http_server"'
_CHALLENGE = f'{_BEARER}, Basic realm="gym_http_server"'
_ADVICE = (
    "send it as 'Authorization: Bearer TOKEN', or in the URL as http://:TOKEN@host:port"
)
#: Browsers treat these names of one server as three origins; users do not.
_LOOPBACK = re.compile(
    r"(https?)://(?:localhost|127\.0\.0\.1|\[::1\])(?::([0-9]{1,5}))?"
).fullmatch
_PORTS = {"http": "80", "https": "443"}
_METHODS = "GET, HEAD, POST, PUT, DELETE, OPTIONS"
_HEADERS = (
    "Accept, Authorization, Content-Digest, Content-Type, Idempotency-Key, If-Match, "
    "If-None-Match, If-Range, Range, X-Request-Id"
)
_EXPOSED = (
    "Content-Range, ETag, Gym-Dtype, Gym-First, Gym-Last, Gym-Log-Cut, Gym-Log-Ended, "
    "Gym-Log-Next, Gym-Missing-Nodes, Gym-Monitor-Directory, Gym-Node, Gym-Shape, "
    "Gym-Version, Gym-Warnings, Idempotent-Replayed, Retry-After, X-Request-Id"
)


class Guard:
    """Checks requests against the settings.

    Args:
        settings: The settings.
        tickets: The tickets that open streams instead of the token.
        memory: Where the launcher replaces settings; ``None``: no process does.
    """

    def __init__(
        self,
        settings: Settings,
        tickets: Tickets,
        memory: SettingsMemory | None = None,
    ) -> None:
        self._tickets = tickets
        self._memory = memory
        # Of the memory, when these tokens were read.
        self._state = 0
        self._no_dashboard = settings.no_dashboard
        self._keys = keys = Keys.of(settings)
        challenge = {"WWW-Authenticate": _CHALLENGE}
        self._authenticator = Authenticator(keys, shared_count(), _ADVICE, challenge)
        self._origins = frozenset(settings.allow_origin)
        self._names = frozenset({"localhost", *map(str.lower, settings.allow_host)})
        self._known_hosts: set[str] = set()

    def check(self, environ: Environ, row: Operation) -> Identity:
        """Check that a request is allowed, and return the identity of its token.

        The token of a run has an identity that only its run's routes accept. The relay
        checks the token itself.

        Args:
            environ: The request.
            row: The operation that it calls.

        Raises:
            OriginRefused: The request comes from a web page that is not allowed.
            HostRefused: The Host of the request is not a name of this server.
            Unauthorized: The token is missing or wrong.
            TooManyWrongTokens: The token is wrong, and so were too many from this
                address in the last second.
            TicketRefused: The ticket in the address of a stream does not open it.
        """
        self.refresh()
        shown = _shown(environ) if "HTTP_AUTHORIZATION" in environ else b""
        # A caller with a run's token is held to it, also where no token is needed.
        of_run = self._run_identity(shown) if shown else None
        if row.is_open and of_run is None:
            return EVERYONE
        # Programs send neither header, and the names of the server repeat.
        if "HTTP_ORIGIN" in environ or "HTTP_SEC_FETCH_SITE" in environ:
            self._check_origin(environ, row)
        if self._keys is None and environ.get("HTTP_HOST") not in self._known_hosts:
            self._check_host(environ)
        if of_run is not None:
            return of_run
        method = environ["REQUEST_METHOD"]
        if self._keys is not None and method == "GET" and self._is_open(environ):
            return EVERYONE
        if row.takes_ticket and environ.get("QUERY_STRING"):
            query = parse_qs(environ["QUERY_STRING"][:MAX_QUERY])
            if "ticket" in query:
                return self._take(query["ticket"][-1], environ)
        if self._keys is None:
            return EVERYONE
        identity = self._keys.identify(shown)
        if identity is None:
            self.refuse(environ)
        return identity

    def refresh(self) -> None:
        """Read the tokens anew if a reload has replaced them."""
        if self._memory is not None and self._memory.state != self._state:
            self._read_tokens(self._memory)

    def _read_tokens(self, memory: SettingsMemory) -> None:
        # Before the tokens, so that a later change is noticed.
        self._state = memory.state
        self._keys = self._authenticator.keys = Keys.of(memory.read().settings)

    def refuse(self, environ: Environ) -> NoReturn:
        """Refuse a request whose token is missing or wrong, and count a wrong one.

        Raises:
            Unauthorized: The token is missing or wrong.
            TooManyWrongTokens: There were too many from this address.
        """
        address, request_id = environ["REMOTE_ADDR"], request_id_of(environ)
        try:
            self._authenticator.refuse(_shown(environ), address, request_id)
        except Unauthorized as problem:
            if is_of_script(environ):
                # Else browsers show their own login box over the page.
                problem.headers["WWW-Authenticate"] = _BEARER
            raise

    def may_try(self, environ: Environ) -> bool:
        """Whether a request comes from an address without too many wrong tokens."""
        return self._authenticator.is_within(environ["REMOTE_ADDR"])

    def _is_open(self, environ: Environ) -> bool:
        """Whether a GET needs no token: pages and their scripts hold no secrets."""
        if environ["PATH_INFO"] == "/" and self._no_dashboard:
            return False
        return is_page(environ)

    def preflight(self, environ: Environ) -> Answer | None:
        """Answer a CORS preflight request; return ``None`` for other requests."""
        if (
            environ["REQUEST_METHOD"] != "OPTIONS"
            or "HTTP_ORIGIN" not in environ
            or "HTTP_ACCESS_CONTROL_REQUEST_METHOD" not in environ
        ):
            return None
        if not self._may_read(environ["HTTP_ORIGIN"], environ):
            return None
        headers = [
            ("Access-Control-Allow-Methods", _METHODS),
            ("Access-Control-Allow-Headers", _HEADERS),
            ("Access-Control-Max-Age", "600"),
        ]
        if environ.get("HTTP_ACCESS_CONTROL_REQUEST_PRIVATE_NETWORK") == "true":
            headers.append(("Access-Control-Allow-Private-Network", "true"))
        return Answer(HTTPStatus.NO_CONTENT, headers, b"")

    def cors_headers(self, environ: Environ) -> list[tuple[str, str]]:
        """Return the headers that allow a permitted page to read the answer."""
        origin = environ.get("HTTP_ORIGIN")
        if origin is None and not self._origins:
            return []
        if origin is None or not self._may_read(origin, environ):
            return [("Vary", "Origin")]
        return [
            ("Access-Control-Allow-Origin", origin),
            ("Access-Control-Expose-Headers", _EXPOSED),
            ("Vary", "Origin"),
        ]

    def _run_identity(self, shown: bytes) -> Identity | None:
        """Return the identity of a run's token; ``None`` for other tokens."""
        if not shown.startswith(RUN_TOKEN_PREFIX):
            return None
        if self._keys is not None and self._keys.identify(shown) is not None:
            # The server's own token was chosen so.
            return None
        return run_identity(hashlib.sha256(shown).hexdigest())

    def _check_origin(self, environ: Environ, row: Operation) -> None:
        origin = environ.get("HTTP_ORIGIN")
        if origin is None:
            self._check_fetch_site(environ, row)
            return
        if self._may_read(origin, environ):
            return
        if origin != _address(environ) or not self._is_own_host(environ):
            raise OriginRefused(
                f"web pages from {origin:.200} may not use this server; to allow them, "
                f"start it with --allow-origin {origin:.200}"
            )

    def _may_read(self, origin: str, environ: Environ) -> bool:
        """Whether a page of another origin may use the server."""
        if origin in self._origins:
            return True
        place = _loopback_of(origin)
        return place is not None and place == _loopback_of(_address(environ))

    def _check_fetch_site(self, environ: Environ, row: Operation) -> None:
        # Browsers omit the Origin of simple GETs, but send Sec-Fetch-Site.
        site = environ.get("HTTP_SEC_FETCH_SITE")
        if site in (None, "same-origin", "none"):
            return
        # A link from another site works, except to routes that have effects.
        visit = (
            environ.get("HTTP_SEC_FETCH_MODE") == "navigate"
            and environ["REQUEST_METHOD"] == "GET"
            and not row.has_effect
        )
        if not visit:
            raise OriginRefused(
                f"web pages of other sites (Sec-Fetch-Site: {site:.40}) may not use "
                "this server; to allow them, start it with --allow-origin"
            )

    def _check_host(self, environ: Environ) -> None:
        if not self._is_own_host(environ):
            raise HostRefused(
                f"the Host {environ['HTTP_HOST']!r:.200} is no name of this server; "
                "use its address or localhost, or start it with --allow-host"
            )

    def _is_own_host(self, environ: Environ) -> bool:
        host = environ.get("HTTP_HOST")
        if host is None or host in self._known_hosts:
            # Only HTTP/1.0 has no Host, and browsers do not use it.
            return True
        if not self._is_name(host):
            return False
        if len(self._known_hosts) < MAX_KNOWN_HOSTS:
            self._known_hosts.add(host)
        return True

    def _is_name(self, host: str) -> bool:
        name, _, port = host.partition(":")
        if host.startswith("["):
            name, closed, port = host[1:].partition("]")
            if not closed or (port and not port.startswith(":")):
                return False
            port = port.removeprefix(":")
        if port and not (port.isascii() and port.isdigit()):
            return False
        if name.lower() in self._names:
            return True
        try:
            # A page has an address as its origin only if it was loaded from there. So
            # only names, and not addresses, allow requests of a foreign page.
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _take(self, ticket: str, environ: Environ) -> Identity:
        # A request with a ticket is refused if the ticket is wrong, also on a server
        # without a token: so clients behave the same on both.
        holder = self.holder_of(ticket)
        identity = None if holder is None else self.named(holder.name)
        if holder is not None and holder.instance_id:
            folders = environ["PATH_INFO"].split("/")
            identity = identity if holder.instance_id in folders else None
        if identity is None:
            raise TicketRefused(
                "the ticket opens no stream: it is unknown to this server, was used "
                "before, is too old, or is for another instance; POST /v1/tickets/ "
                "issues a new one",
                headers={"WWW-Authenticate": _CHALLENGE},
            )
        return identity

    def holder_of(self, ticket: str) -> TicketHolder | None:
        """Use a ticket up; return ``None`` if it is not valid."""
        return self._tickets.take(ticket)

    def named(self, name: str) -> Identity | None:
        """Return the identity of a token's name; ``None`` if no token has it."""
        return EVERYONE if self._keys is None else self._keys.named(name)


def run_identity(digest: str) -> Identity:
    """Return the identity of a run's token, of which the SHA-256 is given in hex."""
    return Identity("run-token", frozenset({RUN_ROLE}), run_token=digest)


def _address(environ: Environ) -> str:
    return f"{environ['wsgi.url_scheme']}://{environ.get('HTTP_HOST')}"


def _loopback_of(origin: str) -> tuple[str, str] | None:
    """Return scheme and port of an origin on loopback; ``None`` for others."""
    match = _LOOPBACK(origin)
    return match and (match[1], match[2] or _PORTS[match[1]])


def _shown(environ: Environ) -> bytes:
    """Return the token of a request; malformed credentials count as a wrong token."""
    header = environ.get("HTTP_AUTHORIZATION", "")
    scheme, _, rest = header.partition(" ")
    given: bytes = rest.strip().encode("latin-1", "replace")
    if scheme.lower() == "bearer":
        return given
    if scheme.lower() == "basic":
        with contextlib.suppress(binascii.Error):
            return base64.b64decode(given, validate=True).partition(b":")[2]
    return b""
