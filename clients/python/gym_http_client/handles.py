"""Servers and handles: what an adapter holds of a server, and of one instance there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_http_client.addresses import Address
from gym_http_client.http1 import Reply
from gym_http_client.links import Link
from gym_http_client.openings import WebSocketOpenings
from gym_http_client.processes import PerProcess
from gym_http_client.proxied import proxy_for
from gym_http_client.raising import refusal, told_by
from gym_http_client.retries import Retries, wait_of
from gym_http_client.sessions import Session
from gym_http_client.watching import Watching
from gym_http_client.zeromq import check_installed
from gym_http_wire.messages import MEDIA_TYPES, Form
from gym_http_wire.values import binary

if TYPE_CHECKING:
    from gym_http_client.zeromq.handles import ZeroMQHandle

__all__ = ["Handle", "Server"]

_ZEROMQ = "tcp"

_BINARY = MEDIA_TYPES[Form.BINARY]
_JSON = MEDIA_TYPES[Form.PLAIN]


class Server:
    """A server, and what one needs to use it.

    Args:
        url: As ``http://127.0.0.1:5000``; or ``tcp://127.0.0.1:5556``, where it is
            started with ``--zmq``, which needs pyzmq.
        token: The server's token; else the one in ``token_file``, in the URL, in the
            environment variable ``GHS_TOKEN``, or in the file that
            ``GHS_TOKEN_FILE`` names. It is never pickled nor shown.
        token_file: A file whose first line is the token.
        time_limit: Seconds for each try of a request.
        retries: How requests are sent again when their answers are lost.
        streams: Whether environments are driven over streams, where that works;
            else every step is a request of its own.
        spin_us: Microseconds to look for an answer on a stream before sleeping,
            while there are idle cores.
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
        """Give the server of a URL, or the server itself."""
        return server if isinstance(server, Server) else cls(server)

    def link(self) -> Link:
        """Give a connection of one's own.

        Raises:
            ValueError: The address is of ZeroMQ.
        """
        if self._address.scheme == _ZEROMQ:
            raise ValueError(f"{self.url} is no address of HTTP, which this is done by")
        return Link(
            self.url,
            token=self._token,
            time_limit=self._time_limit,
            retries=self._retries,
        )

    def create(self, request: dict[str, Any]) -> Handle | ZeroMQHandle:
        """Create an instance.

        Args:
            request: The body of the create request, as JSON can say it.

        Raises:
            ServerError: The server refuses.
            Exception: What ``gymnasium.make`` raised in the server.
        """
        if self._address.scheme == _ZEROMQ:
            from gym_http_client.zeromq import handles

            return handles.create(
                self._address, request, self._time_limit, self._retries
            )
        link = self.link()
        body = json.dumps(request, allow_nan=False).encode()
        try:
            reply = link.request(
                *("POST", "/v1/envs/", body),
                content_type=_JSON,
                creation_wait=wait_of(request),
            )
            told = _told(reply, f"{self.url}/v1/envs/")
        except BaseException:
            link.close()
            raise
        return self._handle(link, told["instance_id"])

    def handle(self, instance_id: str) -> Handle | ZeroMQHandle:
        """Give the handle of an instance that exists."""
        if self._address.scheme == _ZEROMQ:
            from gym_http_client.zeromq.handles import ZeroMQHandle

            return ZeroMQHandle(
                self._address, instance_id, self._time_limit, self._retries
            )
        return self._handle(self.link(), instance_id)

    def watch(self, instance_id: str) -> Watching:
        """Watch an instance: iterate over what it answers to others.

        Args:
            instance_id: The instance.

        Raises:
            ServerUnreachable: There is no answer.
            ServerError: The server refuses.
        """
        return Watching(self._address, instance_id, self._time_limit)

    def _handle(self, link: Link, instance_id: str) -> Handle:
        path = f"/v1/envs/{instance_id}/"

        def session() -> Session:
            openings = WebSocketOpenings(
                self._address,
                path,
                time_limit=self._time_limit,
                spin_us=self._spin_us,
                clock=self._retries.clock,
                # A proxy between has to be asked in its own way.
                wanted=self._streams and proxy_for(self._address) is None,
            )
            return Session(link, openings, self.url + path, path, retries=self._retries)

        return Handle(link, instance_id, session)

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


class Handle:
    """One instance on a server.

    Args:
        link: The connection to the server; the handle's own.
        instance_id: The instance.
        session: Makes a session of it.
    """

    def __init__(
        self, link: Link, instance_id: str, session: Callable[[], Session]
    ) -> None:
        self._link = link
        self._path = f"/v1/envs/{instance_id}/"
        self._request = link.request
        self._session = PerProcess(session, Session.abandon)

    @property
    def transport(self) -> str:
        """What steps go over: ``"stream"``, or ``"rest"`` without or before one."""
        return self._session.get().transport

    def ask(self, method: str, path: str, given: Any = None) -> Any:
        """Ask something of the instance, in the binary form both ways.

        Args:
            method: ``GET`` or ``POST``.
            path: What follows the instance in the path.
            given: What is sent with a POST.

        Returns:
            What was answered, as it left the environment.

        Raises:
            ServerUnreachable: There is no answer.
            ServerError: The server refuses.
            Exception: What the environment raised.
        """
        session = self._session.get()
        if session.carries(method, path):
            return session.ask(path, given)
        # It must not come before what was sent earlier.
        session.drain()
        path = self._path + path
        body = binary.encode(given) if method == "POST" else b""
        reply = self._request(method, path, body, content_type=_BINARY, accept=_BINARY)
        if reply.status == 200 and reply.headers["content-type"] == _BINARY:
            return binary.decode(reply.body)
        return _told(reply, self._link.url + path)

    def send(self, path: str, given: Any) -> None:
        """Ask for a reset, a step or a picture, and return at once.

        Args:
            path: What follows the instance in the path.
            given: What is sent.
        """
        self._session.get().send(path, given)

    def receive(self) -> Any:
        """Give the answer to the oldest `send` whose answer was not given yet.

        Raises:
            ServerUnreachable: There is no answer.
            ServerError: The server refuses.
            Exception: What the environment raised.
        """
        return self._session.get().receive()

    def end(self) -> None:
        """End the instance, if it has not ended yet."""
        self._session.get().close()
        self._request("POST", self._path + "close/")
        self._link.close()


def _told(reply: Reply, url: str) -> Any:
    told = told_by(reply)
    if reply.status == 200 and told:
        return told
    raise refusal(reply, url)


def _is_zeromq(url: str) -> bool:
    return url.startswith(("tcp://", "zmq+tcp://"))


def _zeromq_address(url: str, token: str | None = None) -> Address:
    check_installed()
    from gym_http_client.zeromq.dealers import address_of

    return address_of(url, token)


def _first_line(path: str) -> str:
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return lines[0].strip() if lines else ""
