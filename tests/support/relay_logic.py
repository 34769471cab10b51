"""The logic of the relay over a store in a folder, on a clock that tests set."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gym_http_server.operations.members import even_null, read
from gym_http_server.operations.table import RUNS
from gym_http_server.services.relay.calls import Reply, Request
from gym_http_server.services.relay.dispatch import Relay
from gym_http_server.services.relay.files import FileSlice
from gym_http_server.services.relay.messages import RelayHead, RelaySettings
from gym_http_server.services.relay.store import Store
from gym_http_wire.bundles import BUNDLE, BatchHead, encode_batch, split
from gym_http_wire.messages import Op
from gym_http_wire.problems import Problem

MIB = 1024 * 1024
_QUERIES = {row.op: row.query for row in reversed(RUNS)}


class RelayBench:
    """A relay without its process; each call is a transaction.

    Args:
        folder: Directory of the store.
        run: Name of the run that calls are about, which is created.
        new_run: Further members of the request that creates it.

    Attributes:
        now: The time, in seconds since 1970.
        tokens: Tokens of the run, by role.
    """

    def __init__(self, folder: Path, run: str = "pendulum", **new_run: Any) -> None:
        self.now = 1_000_000.0
        self.run = run
        settings = RelaySettings(str(folder), 1024 * MIB, 256 * MIB, 8 * MIB)
        self.store = Store(str(folder), settings.disk_limit, MIB)
        self.relay = Relay(self.store, settings)
        self.settings = settings
        made = self.json(Op.RUN_CREATE, {"run": run, **new_run})
        self.tokens: dict[str, str] = made["tokens"] or {}

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def reopen(self) -> None:
        """Close the store and open it, as a relay that was restarted does."""
        self.store.close()
        self.store = Store(self.settings.folder, self.settings.disk_limit, MIB)
        self.relay = Relay(self.store, self.settings)

    def call(
        self,
        op: Op,
        body: bytes | dict[str, Any] = b"",
        /,
        *,
        final: bool = True,
        role: str = "",
        run: str | None = None,
        token: str = "",
        value: str = "",
        key: str = "",
        content_type: str = "",
        file: bool = False,
        size: int | None = None,
        digest: str | None = None,
        **args: Any,
    ) -> Reply | None:
        """Execute a request; return its reply, or ``None`` if it waits.

        Args:
            op: The operation.
            body: The body; a dictionary is sent as JSON.
            final: Whether it may not wait.
            role: Role whose token of this run it shows.
            run: The run, unless it is the one of this object.
            token: The token that it shows.
            value: Last part of the path.
            key: Its idempotency key.
            content_type: Media type of the body.
            file: Whether the body is in a file.
            size: Announced size of a body.
            digest: SHA-256 of the body in hex, unless it is the right one.
            args: The query.
        """
        query = _QUERIES.get(args.get("op", op), {})
        given = {name: value for name, value in args.items() if name in query}
        args |= read(query, given, is_given=even_null)
        if isinstance(body, dict):
            body = msgspec.json.encode(body)
        name = ""
        if file:
            name = os.urandom(16).hex() + ".body"
            Path(self.store.files.folder, name).write_bytes(body)
        token = self.tokens[role] if role else token
        head = RelayHead(
            self.run if run is None else run,
            hashlib.sha256(token.encode()).hexdigest() if token else "",
            value,
            args,
            key,
            name,
            len(body) if size is None else size,
            hashlib.sha256(body).hexdigest() if digest is None else digest,
            content_type,
        )
        request = Request(op, head, b"" if file else body)
        self.store.begin()
        try:
            return self.relay.reply(request, self.now, final=final)
        finally:
            self.store.commit()
            self.store.clean_up()
            if name:
                self.store.discard(name)

    def json(self, op: Op, body: bytes | dict[str, Any] = b"", /, **given: Any) -> Any:
        """Execute a request and return the JSON of its reply; ``None`` if empty."""
        reply = self.call(op, body, **given)
        assert reply is not None
        return msgspec.json.decode(reply.body) if reply.body else None

    def problem(
        self, op: Op, body: bytes | dict[str, Any] = b"", /, **given: Any
    ) -> Problem:
        """Execute a request that is refused, and return the problem."""
        try:
            reply = self.call(op, body, **given)
        except Problem as problem:
            return problem
        raise AssertionError(f"it was not refused: {reply}")

    def session(self, worker: str = "w1") -> str:
        """Begin a session, and return its ID."""
        return str(self.json(Op.SESSION_CREATE, {"worker": worker})["session"])

    def put(self, session: str, number: int, body: bytes = b"x", **args: Any) -> Any:
        """Put a batch, and return the JSON of the reply."""
        args = {"policy": 0, "count": 1} | args
        return self.json(Op.SAMPLES_PUT, body, session=session, number=number, **args)

    def refused(
        self, session: str, number: int, body: bytes = b"x", **args: Any
    ) -> Problem:
        """Put a batch that is refused, and return the problem."""
        args = {"policy": 0, "count": 1} | args
        return self.problem(
            Op.SAMPLES_PUT, body, session=session, number=number, **args
        )

    def bundle(self, heads: Sequence[tuple[BatchHead, bytes]], **given: Any) -> Any:
        """Put a bundle, and return the JSON of the reply."""
        body = b"".join(encode_batch(head, data) for head, data in heads)
        return self.json(Op.SAMPLES_PUT, body, content_type=BUNDLE, **given)

    def publish(self, data: bytes = b"w", **args: Any) -> Any:
        """Publish weights after the newest ones."""
        if "if_match" not in args:
            known = self.status()["weights"]
            args |= {"if_match": known["etag"]} if known else {"if_none_match": "*"}
        return self.json(Op.WEIGHTS_PUT, data, **args)

    def status(self) -> Any:
        """Return the status of the run, whose sums are checked."""
        status = self.json(Op.RUN_STATUS)
        counts = status["samples"]
        ways = ("waiting", "leased", "consumed", "aside")
        assert counts["sent"] == sum(counts[k] for k in ("stored", "stale", "dropped"))
        assert counts["stored"] == sum(counts[way] for way in ways)
        return status

    def samples(self, after: int = 0, **args: Any) -> list[tuple[BatchHead, bytes]]:
        """Return the batches after a position."""
        return self.batches(self.call(Op.SAMPLES_GET, after=after, **args))

    def batches(self, reply: Reply | None) -> list[tuple[BatchHead, bytes]]:
        """Return the batches of a bundle; none if the reply has none."""
        assert reply is not None
        if reply.status == 204:
            return []
        data = self.body_of(reply)
        return [(head, data[at : at + size]) for head, at, size in split(data)]

    def body_of(self, reply: Reply | None) -> bytes:
        """Return the bytes of a reply in pieces."""
        assert reply is not None
        assert reply.pieces is not None
        parts = []
        for piece in reply.pieces:
            if isinstance(piece, FileSlice):
                data = Path(self.store.files.folder, piece.name).read_bytes()
                parts.append(data[piece.offset : piece.offset + piece.size])
            else:
                parts.append(piece)
        return b"".join(parts)
