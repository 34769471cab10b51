"""Idempotency keys: a request with a key is executed once.

A repeated request gets the bytes of the first answer. So a lost answer, a restarted web
worker and the retries of an HTTP library never make an environment step twice.

Draft: draft-ietf-httpapi-idempotency-key-header.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import NamedTuple

import msgspec

from gym_http_wire.frames import Frame, Pieces
from gym_http_wire.messages import AnswerHead, Form, RequestHead, answer_head
from gym_http_wire.problems import AnswerGone, KeyReused

__all__ = [
    "IdempotencyStore",
    "as_replay",
    "request_fingerprint",
]

MAX_ANSWERS = 16
MAX_ANSWER_BYTES = 8 * 1024 * 1024
MAX_KEYS = 1024
_SHORT = 256
_PLAIN = int(Form.PLAIN)


class _Entry(NamedTuple):
    fingerprint: bytes
    answer: Frame
    size: int


def request_fingerprint(frame: Frame, head: RequestHead) -> bytes:
    """Digest everything of a request that determines its answer."""
    body = frame.body
    if isinstance(body, Pieces):
        body = body.join()
    # Media types accepted beside a lossless form do not matter.
    accept = head.accept if frame.form >> 4 == _PLAIN else ()
    if len(body) <= _SHORT and head.value is None and not accept:
        return b"=%c%c%b" % (frame.kind, frame.form, body)
    text = f"{frame.kind} {frame.form} {head.value!r} {accept}".encode()
    return b"#" + hashlib.blake2b(text + b"\0" + body, digest_size=16).digest()


def as_replay(frame: Frame) -> Frame:
    """Mark an answer as a replay."""
    head = answer_head(frame)
    headers = {**head.headers, "Idempotent-Replayed": "true"}
    encoded = msgspec.json.encode(AnswerHead(head.content_type, headers))
    return frame._replace(head=encoded)


class IdempotencyStore:
    """The last keys and answers of one instance.

    Args:
        max_answers: Answers to keep; of further keys only the fact is kept.
    """

    def __init__(self, max_answers: int = MAX_ANSWERS) -> None:
        self._max_answers = max_answers
        self._kept: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0
        # Keys whose answers are not kept, the oldest first. A dictionary is the
        # smallest container that keeps an order, and every host has this.
        self._gone: dict[str, None] = {}

    def __contains__(self, key: object) -> bool:
        """Whether a request with this key has been executed."""
        return key in self._kept or key in self._gone

    def recall(self, key: str, fingerprint: bytes) -> Frame:
        """Return the answer to a request that has been executed before.

        Raises:
            KeyReused: The key was used for another request.
            AnswerGone: The answer is not kept any more.
        """
        entry = self._kept.get(key)
        if entry is None:
            raise AnswerGone(
                f"the request with the Idempotency-Key {key!r:.80} was executed, and "
                "its answer is not kept any more; it is not executed again"
            )
        self.compare(key, entry.fingerprint, fingerprint)
        return entry.answer

    @staticmethod
    def compare(key: str, first: bytes, fingerprint: bytes) -> None:
        """Check that a key is not used for two different requests.

        Raises:
            KeyReused: The requests differ.
        """
        if first != fingerprint:
            raise KeyReused(
                f"the Idempotency-Key {key!r:.80} was used for another request before; "
                "take a new key for each request"
            )

    def keep(self, key: str, fingerprint: bytes, answer: Frame) -> None:
        """Remember the key of an executed request, and its answer for a while."""
        size = len(answer.body) + len(answer.head)
        if size > MAX_ANSWER_BYTES:
            self._forget_answer(key)
            return
        self._kept[key] = _Entry(fingerprint, answer, size)
        self._bytes += size
        while len(self._kept) > self._max_answers or self._bytes > MAX_ANSWER_BYTES:
            oldest, entry = self._kept.popitem(last=False)
            self._bytes -= entry.size
            self._forget_answer(oldest)

    def forget(self, key: str) -> None:
        """Forget a key, so that a request with it is executed again."""
        entry = self._kept.pop(key, None)
        if entry is not None:
            self._bytes -= entry.size
        self._gone.pop(key, None)

    def _forget_answer(self, key: str) -> None:
        self._gone[key] = None
        if len(self._gone) > MAX_KEYS:
            del self._gone[next(iter(self._gone))]
