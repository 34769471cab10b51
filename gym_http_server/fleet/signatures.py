"""Signatures with the fleet token: of records, of callers' identities, of tickets.

Each has a purpose, so that what was signed for one is worth nothing for another.
"""

from __future__ import annotations

import hashlib
import hmac

__all__ = ["Signatures"]


class Signatures:
    """Signs texts, and checks signatures.

    Args:
        token: The fleet token.
    """

    def __init__(self, token: str) -> None:
        key = hashlib.blake2b(token.encode(), person=b"gym fleet").digest()
        # Keyed, it authenticates in a sixth of the time of an HMAC.
        self._keyed = hashlib.blake2b(key=key, digest_size=20)

    def sign(self, purpose: str, *parts: str) -> str:
        """Return the signature of some texts."""
        # The sizes keep a part from moving into its neighbour.
        text = "".join([f"{len(part)}:{part}" for part in (purpose, *parts)])
        keyed = self._keyed.copy()
        keyed.update(text.encode("utf-8", "surrogateescape"))
        return keyed.hexdigest()

    def check(self, signature: str, purpose: str, *parts: str) -> bool:
        """Whether a signature is the one of these texts."""
        made = self.sign(purpose, *parts).encode()
        return hmac.compare_digest(made, signature.encode("utf-8", "surrogateescape"))
