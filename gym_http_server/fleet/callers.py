"""How a node proves to another one for which caller it acts: by a signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gym_http_server.errors import NodeAway
from gym_http_server.fleet.records import Record
from gym_http_server.fleet.signatures import Signatures

__all__ = ["SCHEME", "CallerSignatures", "ForwardedCaller", "SignedParts"]

#: How a node authenticates itself, in the header Authorization: fast requests have it.
SCHEME = "Fleet "
_PURPOSE = "call"
_PROOF_PURPOSE = "answer"
_STREAM_PURPOSE = "stream"
_NONE = "-"
#: Proofs that a process remembers, one for each boot.
MOST_PROOFS = 4096


class ForwardedCaller(NamedTuple):
    """The caller for whom another node acts.

    Attributes:
        name: Name of its token; "" if the fleet has a single token, or none.
        run_token: SHA-256 of its token in hex, if it is a run's.
    """

    name: str = ""
    run_token: str = ""


class SignedParts(NamedTuple):
    """What is signed of a request, besides its caller.

    Attributes:
        method: As ``POST``.
        target: The path, with the query.
        request_id: Its ID.
        key: Its idempotency key, or "".
    """

    method: str
    target: str
    request_id: str
    key: str


class CallerSignatures:
    """Signs requests to other nodes, and checks those of other nodes.

    Args:
        signatures: Made with the fleet token.
        own: Returns this node's record.
    """

    def __init__(self, signatures: Signatures, own: Callable[[], Record]) -> None:
        self._signatures = signatures
        self._own = own
        # By boot.
        self._proofs: dict[str, str] = {}

    def proof(self, boot: str, accept: str = "") -> str:
        """Return what a node's answers show to other nodes: that it has the token.

        It is the same for all answers of a boot, so that their heads repeat. Clients
        do not get it, nor do hosts, which send the answers that begin streams.

        Args:
            boot: Name of the node's start.
            accept: Sec-WebSocket-Accept of an answer that begins a stream, or "".
        """
        if accept:
            return self._signatures.sign(_STREAM_PURPOSE, boot, accept)
        found = self._proofs.get(boot)
        if found is None:
            if len(self._proofs) >= MOST_PROOFS:
                self._proofs.clear()
            found = self._signatures.sign(_PROOF_PURPOSE, boot)
            self._proofs[boot] = found
        return found

    def own_proof(self, accept: str = "") -> str:
        """Return what an answer of this node shows to other nodes."""
        return self.proof(self._own().boot, accept)

    def sign(self, node: Record, caller: ForwardedCaller, parts: SignedParts) -> str:
        """Return the header by which this node acts for a caller at another one."""
        name, run_token = caller.name or _NONE, caller.run_token or _NONE
        texts = node.boot, *parts, name, run_token
        signature = self._signatures.sign(_PURPOSE, *texts)
        return f"{SCHEME}{name} {run_token} {node.boot} {signature}"

    def read(self, header: str, parts: SignedParts) -> ForwardedCaller | None:
        """Return the caller for whom a node acts; ``None`` if the header is forged.

        Raises:
            NodeAway: The other node means an earlier start of this one.
        """
        fields = header.removeprefix(SCHEME).split(" ")
        if len(fields) != 4:
            return None
        name, run_token, boot, signature = fields
        texts = boot, *parts, name, run_token
        if not self._signatures.check(signature, _PURPOSE, *texts):
            return None
        own = self._own()
        if boot != own.boot:
            raise NodeAway(
                f"the node {own.name} of this fleet was started again; send the "
                "request again",
                headers={"Retry-After": "1"},
            )
        return ForwardedCaller(
            name if name != _NONE else "", run_token if run_token != _NONE else ""
        )
