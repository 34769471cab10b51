"""`Server`: address, token and limits of one server; it creates instances."""

from __future__ import annotations

import os
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_http_client.calls.real_time_calls import RealTimeSession
from gym_http_client.envs.create_requests import body_of
from gym_http_client.envs.handles import WebHandle, capabilities_of, end_at_exit
from gym_http_client.errors import ServerError
from gym_http_client.http.addresses import Address
from gym_http_client.http.error_mapping import expect_object
from gym_http_client.http.requester import Requester
from gym_http_client.http.requests_transport import proxy_for
from gym_http_client.http.retries import Retries, wait_of
from gym_http_client.http.server_warnings import HEADER, show_header
from gym_http_client.streaming.node_streams import NodeStreams
from gym_http_client.streaming.session import Session
from gym_http_client.streaming.stream_openers import WebSocketOpener
from gym_http_client.streaming.watching import Showing, Watching
from gym_http_client.zeromq import check_installed

__all__ = ["Server", "first_argument"]

if TYPE_CHECKING:
    from gym_http_client.envs.zeromq_handle import ZeroMQHandle


_ZEROMQ = "tcp"
# Members of create requests that servers have to know.
_CAPABILITIES = ("record", "resume")
# The steps of a long recording may take so long.
_RESUME_SECONDS = 3600.0


class Server:
    """A server's address, token and limits, in one object for environments.

    Args:
        url: Such as ``http://127.0.0.1:5000``; or ``tcp://127.0.0.1:5556`` for a server
            that was started with ``--zmq``, which needs pyzmq.
        token: The server's token; else the one in ``token_file``, in the URL, in the
            environment variable ``GHS_TOKEN``, or in the file that
            ``GHS_TOKEN_FILE`` names. It is neither pickled nor shown.
        token_file: A file whose first line is the token.
        time_limit: Seconds for each try of a request.
        retries: How requests are retried when their answers are lost.
        streams: Whether to step environments over streams, if possible; else every
            step is an HTTP request.
        spin_us: Microseconds to poll a stream for an answer before sleeping, while
            there are idle cores.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        token_file: str | None = None,
        time_limit: float = 60.0,
        retries: Retries | None = None,
        streams: bool = True,
        spin_us: int = 1000,
    ) -> None:
        if token is None and token_file is not None:
            token = _first_line(token_file)
        parse = _zeromq_address if _is_zeromq(url) else Address.parse
        address = parse(url, token)
        named = os.environ.get("GHS_TOKEN_FILE")
        if address.token is None and token is None and named:
            address = parse(url, _first_line(named))
        self.url = address.url
        self._address = address
        self._token = address.token or ""
        self._time_limit = time_limit
        self._retries = retries or Retries()
        self._streams = streams
        self._spin_us = spin_us

    @classmethod
    def of(cls, server: str | Server) -> Server:
        """Convert a URL to a `Server`; a `Server` is returned unchanged."""
        return server if isinstance(server, Server) else cls(server)

    def link(self) -> Requester:
        """Return a new connection.

        Raises:
            ValueError: The address is a ZeroMQ address.
        """
        if self._address.scheme == _ZEROMQ:
            raise ValueError(f"{self.url} is no address of HTTP, which this needs")
        return Requester(
            self.url,
            token=self._token,
            time_limit=self._time_limit,
            retries=self._retries,
        )

    def create(self, request: dict[str, Any]) -> WebHandle | ZeroMQHandle:
        """Create an instance.

        Args:
            request: The create request; its arguments may be any values that can be
                sent.

        Raises:
            ServerError: The server refuses, or is too old.
            Exception: ``gymnasium.make`` raised it on the server.
        """
        needed = [name for name in _CAPABILITIES if request.get(name) is not None]
        if self._address.scheme == _ZEROMQ:
            from gym_http_client.envs.zeromq_handle import create

            _check_capable(needed, frozenset())
            made = create(self._address, request, self._time_limit, self._retries)
            end_at_exit(made)
            return made
        resumes = "resume" in needed
        body, media_type = body_of(request)
        link = self.link()
        try:
            if needed:
                # Older servers ignore the members that they do not know.
                _check_capable(needed, capabilities_of(link))
            reply = link.request(
                "POST",
                "/v1/envs/",
                body=body,
                content_type=media_type,
                creation_wait=_RESUME_SECONDS if resumes else wait_of(request),
            )
            warnings = reply.headers.get(HEADER.lower())
            if reply.status != HTTPStatus.OK:
                show_header(warnings)
            answer = expect_object(reply, f"{self.url}/v1/envs/")
        except BaseException:
            link.close()
            raise
        handle = self._handle(link, answer["instance_id"])
        handle.learn_node(reply.headers)
        end_at_exit(handle)
        try:
            show_header(warnings)
        except Warning:
            # A warning filter raised it, and the caller does not get the instance.
            handle.end()
            raise
        return handle

    def handle(self, instance_id: str) -> WebHandle | ZeroMQHandle:
        """Return the handle of an existing instance."""
        if self._address.scheme == _ZEROMQ:
            from gym_http_client.envs.zeromq_handle import ZeroMQHandle

            return ZeroMQHandle(
                self._address, instance_id, self._time_limit, self._retries
            )
        return self._handle(self.link(), instance_id)

    def watch(self, instance_id: str, *, plain: bool = False) -> Watching:
        """Watch an instance; the result iterates over its answers to other clients.

        Args:
            instance_id: The instance.
            plain: Whether values are plain JSON, as for thin clients.

        Raises:
            ServerUnreachable: There is no answer.
            ServerError: The server refuses.
        """
        form = "plain" if plain else ""
        return Watching(self._address, instance_id, self._time_limit, form=form)

    def show(
        self,
        instance_id: str,
        *,
        fps: float = 10,
        share: float = 0.1,
        size: int = 640,
    ) -> Showing:
        """Show an instance to people; the result iterates over states and pictures.

        Args:
            instance_id: The instance.
            fps: States a second at most, 1 to 60.
            share: Part of the host's time that drawing may take, 0.01 to 1.
            size: Pixels that the longer side of a picture may have, 16 to 2048.

        Raises:
            ServerUnreachable: There is no answer.
            ServerError: The server refuses, as it does if a parameter is out of range.
        """
        return Showing(
            self._address,
            instance_id,
            self._time_limit,
            fps=fps,
            share=share,
            size=size,
        )

    def _handle(self, link: Requester, instance_id: str) -> WebHandle:
        path = f"/v1/envs/{instance_id}/"
        node_streams = NodeStreams(link, self._address, instance_id)

        def opener(spin_us: int) -> WebSocketOpener:
            return WebSocketOpener(
                self._address,
                path,
                node_streams,
                time_limit=self._time_limit,
                spin_us=spin_us,
                clock=self._retries.clock,
                # Streams do not support proxies.
                wanted=self._streams and proxy_for(self._address) is None,
            )

        def session() -> Session:
            stream = opener(self._spin_us)
            return Session(link, stream, self.url + path, path, retries=self._retries)

        def real_time_session() -> RealTimeSession:
            # Its waits are long, so it does not poll.
            return RealTimeSession(
                self.link(), opener(0), self.url + path, path, retries=self._retries
            )

        return WebHandle(link, instance_id, session, real_time_session, node_streams)

    def __repr__(self) -> str:
        return f"Server({self.url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "time_limit": self._time_limit,
            "retries": self._retries,
            "streams": self._streams,
            "spin_us": self._spin_us,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        url = state.pop("url")
        self.__init__(url, **state)  # type: ignore[misc]


def first_argument(call: str, server: str | Server, **second: Any) -> Server:
    """Return the server that is the first argument of a call, as `Server.of` does.

    Args:
        call: Name of the class or function.
        server: Its first argument.
        **second: Its second argument, by name.

    Raises:
        ValueError: The two are swapped, or the first is no address of a server.
    """
    [(name, value)] = second.items()
    if isinstance(server, str) and "://" not in server:
        shown = repr(value) if isinstance(value, Server) else _shown_url(value)
        if shown:
            raise ValueError(
                f"server is {server!r} and {name} is {shown}: expected the server "
                f"first, as {call}({shown}, {server!r})"
            )
    return Server.of(server)


def _shown_url(value: Any) -> str:
    """Return a URL without its token, quoted; or "" if the value is no URL."""
    if not isinstance(value, str) or "://" not in value:
        return ""
    try:
        return repr(Server(value, token="").url)
    except (ImportError, ValueError):
        return ""


def _check_capable(needed: list[str], capabilities: frozenset[str]) -> None:
    for name in needed:
        if name not in capabilities:
            raise ServerError(
                f"this server cannot {name} instances: expected a newer one, over HTTP",
                code="unsupported",
            )


def _is_zeromq(url: str) -> bool:
    return url.startswith(("tcp://", "zmq+tcp://"))


def _zeromq_address(url: str, token: str | None = None) -> Address:
    check_installed()
    from gym_http_client.zeromq.dealer import address_of

    return address_of(url, token)


def _first_line(path: str) -> str:
    # Editors of Windows may begin a file with a byte order mark.
    lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    return lines[0].strip() if lines else ""
