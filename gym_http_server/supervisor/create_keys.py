"""Create requests that carry a key: each makes one instance, however often it comes."""

from __future__ import annotations

from gym_http_core.idempotency import IdempotencyStore, as_replay, request_fingerprint
from gym_http_server.supervisor.instance import Instance
from gym_http_server.supervisor.request_socket import RequestSocket
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op, RequestHead
from gym_http_wire.problems import DiskFull, ExternalAway

__all__ = ["CreateKeys"]

_NOT_BEGUN = (ExternalAway.default_status, DiskFull.default_status)


class CreateKeys:
    """The keys of create requests, and what came of them."""

    def __init__(self) -> None:
        self._done = IdempotencyStore(max_answers=1024)
        self._making: dict[str, tuple[bytes, Instance]] = {}

    def joined(self, key: str, frame: Frame, connection: RequestSocket) -> bool:
        """Answer a request that has come before, at once or when its making ends.

        Returns:
            Whether it has come before.

        Raises:
            KeyReused: Another request came with this key.
        """
        print_ = _print(frame)
        if key in self._making:
            first, instance = self._making[key]
            self._done.compare(key, first, print_)
            instance.creators.append(connection)
            return True
        if key in self._done:
            connection.answer(as_replay(self._done.recall(key, print_)))
            return True
        return False

    def begin(self, key: str, frame: Frame, instance: Instance) -> None:
        """Note that a request is being carried out."""
        instance.create_key = key
        self._making[key] = (_print(frame), instance)

    def over(self, instance: Instance, frame: Frame) -> None:
        """Note what came of it: what its host said, or how that ended without a word.

        That is final, since the client takes it as such: a duplicate that comes late
        must not make an instance that nobody waits for. What found no room, or no
        environment that is connected, and may find some when its client asks again
        under the same key, never began.
        """
        print_, making = self._making.get(instance.create_key, (b"", None))
        if making is not instance:
            return
        del self._making[instance.create_key]
        if frame.status in _NOT_BEGUN:
            return
        self._done.keep(instance.create_key, print_, frame)


def _print(frame: Frame) -> bytes:
    return request_fingerprint(frame._replace(kind=Op.CREATE), RequestHead())
