"""Handles that access instances over ZeroMQ."""

from __future__ import annotations

from typing import Any

from gym_http_client.calls.real_time_calls import RealTimeCalls
from gym_http_client.envs.create_requests import as_json
from gym_http_client.envs.handles import Handle
from gym_http_client.errors import Failure
from gym_http_client.http.addresses import Address
from gym_http_client.http.error_mapping import error_from_reply
from gym_http_client.http.http1 import Reply
from gym_http_client.http.retries import Retries, Tries, keys, wait_of
from gym_http_client.http.server_warnings import show
from gym_http_client.streaming.handshakes import NoStream
from gym_http_client.zeromq.session import ZeroMQOpener, ZeroMQSession, ZeroMQStream
from gym_http_wire.handshakes import new_session
from gym_http_wire.messages import WARNINGS

__all__ = ["ZeroMQHandle", "create"]


class ZeroMQHandle(Handle[ZeroMQSession]):
    """One instance on a server, over ZeroMQ.

    Args:
        address: The server's.
        instance_id: The instance.
        time_limit: Seconds to wait for each answer.
        retries: How requests are retried.
    """

    def __init__(
        self, address: Address, instance_id: str, time_limit: float, retries: Retries
    ) -> None:
        url = f"{address.url}/v1/envs/{instance_id}/"

        def session() -> ZeroMQSession:
            opener = ZeroMQOpener(
                address, instance_id, time_limit=time_limit, retries=retries
            )
            return ZeroMQSession(opener, url, retries)

        super().__init__(session, address.url, instance_id)
        self._new_session = session
        self._time_limit = time_limit

    def begin_with(self, stream: ZeroMQStream) -> None:
        """Use an open stream, in this process."""
        self._session.get().begin_with(stream)

    def real_time_calls(self) -> RealTimeCalls:
        """Return the real-time calls of the instance, on connections of their own."""
        return RealTimeCalls(self._new_session, self._time_limit)

    def capabilities(self) -> frozenset[str]:
        """Return an empty set: no message of ZeroMQ asks for them."""
        return frozenset()

    def _end(self, seconds: float) -> None:
        self._session.get().end(seconds)

    def release(self) -> None:
        """Close all connections; the instance stays."""
        self._session.get().leave(0.0)

    def _begin_end(self, seconds: float) -> None:
        self._session.get().begin_end(seconds)

    def _finish_end(self, seconds: float) -> None:
        self._session.get().finish_end(seconds)

    def _call_other(
        self, session: ZeroMQSession, method: str, path: str, given: Any
    ) -> Any:
        return session.call(f"{method} {path}", given)


def create(
    address: Address, request: dict[str, Any], time_limit: float, retries: Retries
) -> ZeroMQHandle:
    """Create an instance over ZeroMQ.

    Args:
        address: The server's.
        request: The create request; its arguments may be any values that can be sent.
        time_limit: Seconds to wait for each answer.
        retries: How requests are retried.

    Raises:
        ServerUnreachable: There is no answer.
        ServerError: The server refuses.
        Exception: ``gymnasium.make`` raised it on the server.
    """
    greeting = {
        "create": as_json(request),
        "key": next(keys()),
        "session": new_session(),
    }
    wait = wait_of(request)
    tries = Tries(
        retries.of_creation(wait),
        what=address.url,
        met=False,
        limit=time_limit + wait,
    )
    url = f"{address.url}/v1/envs/"

    def attempt(limit: float) -> ZeroMQStream | Reply:
        try:
            return ZeroMQStream(address, greeting, limit, time_limit)
        except NoStream as none:
            return none.reply

    try:
        stream = tries.run(attempt)
    except Failure as failure:
        raise tries.error(failure, "POST", url, str(greeting["key"])) from failure
    if isinstance(stream, Reply):
        raise error_from_reply(stream, url)
    handle = ZeroMQHandle(address, stream.welcome["instance_id"], time_limit, retries)
    handle.begin_with(stream)
    try:
        show(stream.welcome.get(WARNINGS))
    except Warning:
        # A warning filter raised it, and the caller does not get the instance.
        handle.end()
        raise
    return handle
