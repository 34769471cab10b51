"""Following: collects the episodes of instances while other clients play them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gym_http_client.calls.client import Client
from gym_http_client.errors import ServerError, ServerUnreachable
from gym_http_client.http.retries import Retries

__all__ = ["News", "follow"]

#: A server is busy or about to stop, or a proxy does not reach it.
_PASSING = frozenset({408, 429, 502, 503, 504})


class News(NamedTuple):
    """What happened to an instance since its last news.

    Attributes:
        instance_id: The instance.
        episodes: The episodes that ended, as the server describes them.
        missed: Number of episodes that ended before them, but are not known: the
            server keeps the last 1000.
        away: Why the server does not answer at present; the follower goes on trying.
        over: Why the instance has no more news; ``None`` as long as it may have.
    """

    instance_id: str
    episodes: Sequence[dict[str, Any]] = ()
    missed: int = 0
    away: str | None = None
    over: str | None = None


def follow(
    url: str,
    instance_ids: Sequence[str],
    *,
    every: float = 0.5,
    token: str | None = None,
) -> Iterator[News]:
    """Iterate over the news of instances until all of them have ended.

    One thread polls each instance, since an instance answers after its present step,
    which may be long.

    Args:
        url: The server's address.
        instance_ids: The instances.
        every: Seconds between two requests for an instance.
        token: The server's token, as for `Client`.
    """
    news: queue.SimpleQueue[News | BaseException] = queue.SimpleQueue()
    stop = threading.Event()
    for instance_id in instance_ids:
        follower = _Follower(instance_id, news, stop, every)
        client = Client(url, token=token, retries=Retries(total=0.0))
        threading.Thread(target=follower.run, args=[client], daemon=True).start()
    try:
        running = len(instance_ids)
        while running:
            each = news.get()
            if isinstance(each, BaseException):
                raise each
            running -= each.over is not None
            yield each
    finally:
        stop.set()


class _Follower:
    """Polls one instance, in a thread."""

    def __init__(
        self,
        instance_id: str,
        news: queue.SimpleQueue[News | BaseException],
        stop: threading.Event,
        every: float,
    ) -> None:
        self._id = instance_id
        self._news = news
        self._stop = stop
        self._every = every
        self._next = 0
        self._away = False

    def run(self, client: Client) -> None:
        """Poll until the instance ends or the iteration is over."""
        try:
            with client:
                while self._poll(client) and not self._stop.wait(self._every):
                    pass
        except BaseException as error:
            self._news.put(error)

    def _poll(self, client: Client) -> bool:
        """Ask for new episodes once; return whether there may be more."""
        try:
            answer = client.env_episodes(self._id, self._next)
        except ServerError as error:
            passing = isinstance(error, ServerUnreachable)
            if not passing and error.status_code not in _PASSING:
                self._end(client, error)
                return False
            if not self._away:
                self._away = True
                self._news.put(News(self._id, away=error.message))
            return True
        self._away = False
        episodes = answer["episodes"]
        if episodes:
            missed = episodes[0]["number"] - self._next
            self._next = episodes[-1]["number"] + 1
            self._news.put(News(self._id, episodes, missed))
        reason = answer.get("reason")
        if reason is not None:
            # It has ended, and nothing follows.
            missed = max(0, answer["total"] - self._next)
            self._news.put(News(self._id, missed=missed, over=reason))
        return reason is None

    def _end(self, client: Client, error: ServerError) -> None:
        """Report the end, and how many episodes ended after the last answer."""
        missed, why = 0, error.message
        try:
            ended = client.instances()["ended"]
        except ServerError:
            # The token may not list instances.
            ended = []
        for each in ended:
            if each["instance_id"] == self._id:
                why = str(each["reason"])
                missed = max(0, int(each.get("episodes") or 0) - self._next)
        self._news.put(News(self._id, missed=missed, over=why))
