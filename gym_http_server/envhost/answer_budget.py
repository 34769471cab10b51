"""Shares: how much of an answer there may be is taken by a part of it."""

from __future__ import annotations

from typing import Any

from gym_http_server.envhost import plain_json
from gym_http_wire.messages import Form
from gym_http_wire.values import binary, typed
from gym_http_wire.values.signing import MAX_SIGNATURE_BYTES

__all__ = ["AnswerBudget"]


class AnswerBudget:
    """Tells which budget of an answer a value takes.

    Args:
        form: Form of the answer.
        limit: Bytes that the answer may have.
    """

    def __init__(self, form: int, limit: int) -> None:
        self._form = form
        self._limit = limit

    def __call__(self, value: list[Any]) -> float:
        """Give the budget that a value takes, 1 if it cannot be told at all."""
        try:
            if self._form == Form.BINARY:
                signature, leaves = binary.split(value)
                size = len(signature) + sum(map(len, leaves))
                return max(size / self._limit, len(signature) / MAX_SIGNATURE_BYTES)
            encode = typed.encode if self._form == Form.TYPED else plain_json.dumps
            return len(encode(value)) / self._limit
        except Exception:
            # It cannot be told: what is gained so far has to do.
            return 1.0
