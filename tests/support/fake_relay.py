"""A relay in memory, for tests of trainers without a server."""

from __future__ import annotations

import hashlib
import threading
from typing import Any, Self

from gym_http_client import ServerError
from gym_http_client.relay.batches import COLUMNS_TYPE, encode_columns
from gym_http_client.relay.calls import Blob
from gym_http_wire.bundles import BatchHead, encode_batch


class FakeRelay:
    """What the calls of one trainer need, as the contract of the API says.

    Attributes:
        fail: Names of calls of which the next one is not executed.
        lose: Names of calls of which the next one is executed, and then fails.
    """

    def __init__(self, limiter: dict[str, Any] | None = None) -> None:
        self.batches: list[tuple[BatchHead, bytes]] = []
        self.readers: dict[str, dict[str, Any]] = {}
        self.blobs: dict[str, list[Blob]] = {"weights": [], "state": []}
        self.records: list[dict[str, Any]] = []
        self.first = 1
        self.run = "r"
        self.limiter = limiter
        self.fail: set[str] = set()
        self.lose: set[str] = set()
        self.calls: list[str] = []
        self.asked: list[int] = []
        self._changed = threading.Condition()

    def add(self, worker: str = "w1", policy: int = 0, **columns: Any) -> None:
        """Add a batch of columns."""
        self.add_bytes(encode_columns(columns), COLUMNS_TYPE, worker, policy)

    def add_bytes(
        self, body: bytes, content_type: str, worker: str = "w1", policy: int = 0
    ) -> None:
        """Add a batch of any media type."""
        with self._changed:
            position = len(self.batches) + 1
            head = BatchHead(
                *("s", position, policy, 1),
                content_type=content_type,
                position=position,
                worker=worker,
                lag=self.version - policy,
            )
            self.batches.append((head, body))
            self._changed.notify_all()

    @property
    def version(self) -> int:
        """The newest version of the weights."""
        return len(self.blobs["weights"])

    def status(self) -> dict[str, Any]:
        """As ``RelayCalls.status``."""
        self._called("status")
        newest = {name: blobs[-1:] for name, blobs in self.blobs.items()}
        described: dict[str, Any] = {
            name: {"etag": blobs[0].etag, "version": blobs[0].version}
            if blobs
            else None
            for name, blobs in newest.items()
        }
        after = self.readers.get("trainer", {}).get("after", 0)
        limiter = None
        if self.limiter is not None:
            limiter = {"inserts": len(self.batches), "min_diff": 0.0}
        return {
            **described,
            "limits": {"limiter": self.limiter},
            "limiter": limiter,
            "samples": {"transitions_waiting": len(self.batches) - after},
            "workers": [{"worker": "w1", "state": "lost", "mean_return": 7.0}],
        }

    def reader(self, name: str) -> dict[str, Any] | None:
        """As ``RelayCalls.reader``."""
        self._called("reader")
        return self.readers.get(name)

    def commit(self, reader: str, after: int, draws: int | None = None) -> Any:
        """As ``RelayCalls.commit``."""
        self._called("commit")
        known = self.readers.get(reader, {"after": 0, "draws": None})
        if after < known["after"]:
            raise ServerError("passed", 409, code="position-passed")
        self.readers[reader] = {"after": after, "draws": draws or known["draws"]}
        self._lost("commit")
        return self.readers[reader]

    def view_samples(self, after: int, **_: Any) -> bytes | None:
        """As ``RelayCalls.view_samples``, with at most two batches."""
        self._called("samples")
        with self._changed:
            self.asked.append(after)
            if after + 1 < self.first:
                body = {"first": self.first}
                raise ServerError("gone", 410, code="samples-gone", body=body)
            self._changed.wait_for(lambda: len(self.batches) > after, 0.02)
            found = self.batches[after : after + 2]
        return b"".join(encode_batch(*each) for each in found) or None

    def put_weights(self, data: bytes, **options: Any) -> Any:
        """As ``RelayCalls.put_weights``."""
        return self._put("weights", data, **options)

    def put_state(self, data: bytes, **options: Any) -> Any:
        """As ``RelayCalls.put_state``."""
        return self._put("state", data, **options)

    def weights(self, version: Any = None, **_: Any) -> Blob | None:
        """As ``RelayCalls.weights``."""
        blobs = self.blobs["weights"]
        if not blobs:
            return None
        return blobs[-1] if version in (None, "best") else blobs[version - 1]

    def state(self) -> Blob | None:
        """As ``RelayCalls.state``."""
        self._called("state")
        return (self.blobs["state"] or [None])[-1]

    def put_records(self, records: list[dict[str, Any]]) -> Any:
        """As ``RelayCalls.put_records``."""
        self.records += records
        return {"stored": len(records)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def abandon(self) -> None:
        """Do nothing: no call waits long."""

    def close(self) -> None:
        """Do nothing."""

    def _put(
        self,
        kind: str,
        data: bytes,
        *,
        etag: str | None,
        content_type: str,
        reader: str | None = None,
        after: int | None = None,
        draws: int | None = None,
    ) -> Any:
        self._called(f"put_{kind}")
        blobs = self.blobs[kind]
        digest = hashlib.sha256(data).hexdigest()[:12]
        newest = blobs[-1] if blobs else None
        if newest is None or not newest.etag.endswith(f'-{digest}"'):
            if etag != (newest.etag if newest else None):
                raise ServerError("another", 412, code="version-conflict")
            version = len(blobs) + 1
            newest = Blob(data, f'"{version}-{digest}"', version, content_type)
            blobs.append(newest)
        if reader is not None and after is not None:
            self.commit(reader, after, draws)
        self._lost(f"put_{kind}")
        return {"version": newest.version, "etag": newest.etag, "bytes": len(data)}

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.fail:
            self.fail.discard(name)
            raise ServerError(f"{name} fails", 500, code="server-error")

    def _lost(self, name: str) -> None:
        if name in self.lose:
            self.lose.discard(name)
            raise ServerError(f"the answer of {name} is lost")
