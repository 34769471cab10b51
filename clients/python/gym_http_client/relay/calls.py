"""Relay calls: one method for each request about a training run."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import quote, urlencode

from requests.utils import DEFAULT_CA_BUNDLE_PATH

from gym_http_client.http.addresses import Address
from gym_http_client.http.error_mapping import error_from_reply, json_object
from gym_http_client.http.http1 import Reply
from gym_http_client.http.json_requests import json_of, plain_json
from gym_http_client.http.requester import Requester, Transport
from gym_http_client.http.requests_transport import (
    RequestsTransport,
    needs_requests,
    new_session,
)
from gym_http_client.http.retries import Retries
from gym_http_client.http.socket_transport import SocketTransport
from gym_http_wire.bundles import BUNDLE, BundleError, split

__all__ = ["Blob", "RelayCalls", "Role", "content_digest"]

Role = Literal["worker", "trainer", "observer"]

_JSON = "application/json"
_JSON_LINES = "application/x-ndjson"
_BYTES = "application/octet-stream"
# Batches are larger than the answers of instances: --max-upload is 256 MiB by default.
_MAX_ANSWER = 512 * 1024 * 1024


class Blob(NamedTuple):
    """Weights, or the state of a trainer, as bytes.

    Attributes:
        data: The bytes.
        etag: Their ETag.
        version: The version of weights; 0 for a state.
        content_type: Media type of the bytes.
    """

    data: bytes
    etag: str
    version: int
    content_type: str


def content_digest(data: bytes | memoryview) -> str:
    """Return the value of the header Content-Digest for a body."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"


class RelayCalls:
    """The requests about one training run.

    All of them are retried, except those that delete something. Threads may share it,
    one call at a time. Answers are JSON objects as the API documents them.

    Args:
        url: The server's address.
        run: Name of the run.
        token: A token of the run or of the server; else the one in the address, else
            the one in the environment variable ``GHS_TOKEN``.
        time_limit: Seconds for the connection, and then for each part of a request and
            of its answer, in each try.
        retries: How requests are retried.
    """

    def __init__(
        self,
        url: str,
        run: str,
        *,
        token: str | None = None,
        time_limit: float = 60.0,
        retries: Retries | None = None,
    ) -> None:
        self.run = run
        self._retries = retries or Retries()
        self._requester = Requester(
            url,
            token=token,
            time_limit=time_limit,
            retries=self._retries,
            transport=self._new_transport,
        )
        self.url = self._requester.url
        self._route = f"/v1/runs/{quote(run, safe='')}/"

    def __repr__(self) -> str:
        return f"RelayCalls({self.url!r}, {self.run!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later call opens it again."""
        self._requester.close()

    def abandon(self) -> None:
        """End the call that another thread waits for, as if it were cut off."""
        self._requester.interrupt()

    # Runs and tokens

    def create(
        self,
        *,
        limits: Mapping[str, Any] | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Create the run; the answer has a token for each role, shown only once.

        Raises:
            ServerError: ``run-exists``: it exists with other limits or columns.
        """
        body: dict[str, Any] = {"run": self.run}
        if limits is not None:
            body["limits"] = dict(limits)
        if columns is not None:
            body["columns"] = dict(columns)
        return self._json("POST", "/v1/runs/", body)

    def runs(self) -> list[dict[str, Any]]:
        """List all runs of the server."""
        return list(self._json("GET", "/v1/runs/")["runs"])

    def status(self) -> dict[str, Any]:
        """Return the state of the run: its queue, rates, workers and limits."""
        return self._json("GET", self._route)

    def delete(self) -> None:
        """Delete the run with its samples, weights, records and tokens."""
        self._send("DELETE", self._route)

    def create_token(self, role: Role) -> dict[str, Any]:
        """Create a further token of the run."""
        return self._json("POST", f"{self._route}tokens/", {"role": role})

    def tokens(self) -> list[dict[str, Any]]:
        """List the tokens of the run, without their secrets."""
        return list(self._json("GET", f"{self._route}tokens/")["tokens"])

    def revoke_token(self, token_id: str) -> None:
        """Revoke a token of the run."""
        self._send("DELETE", self._path("tokens", token_id))

    # Samples in

    def create_session(self, worker: str) -> dict[str, Any]:
        """Create a session, which numbers the batches of one spool."""
        return self._json("POST", f"{self._route}sessions/", {"worker": worker})

    def session(self, session: str) -> dict[str, Any]:
        """Return the worker of a session and its next numbers."""
        return self._json("GET", self._path("sessions", session))

    def end_session(self, session: str) -> None:
        """Report that the worker of a session leaves."""
        self._send("DELETE", self._path("sessions", session))

    def put_batch(
        self,
        body: bytes,
        *,
        session: str,
        number: int,
        policy: int,
        count: int,
        dropped: int = 0,
        content_type: str = _BYTES,
    ) -> dict[str, Any]:
        """Send one batch; the members are those of `BatchHead`."""
        query: dict[str, Any] = {"session": session, "number": number}
        query |= {"policy": policy, "count": count}
        if dropped:
            query["dropped"] = dropped
        return self._upload("POST", "samples/", query, body, content_type)

    def put_bundle(
        self,
        bundle: bytes | memoryview,
        meanwhile: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Send several batches of one session, whose heads have their checksums.

        Args:
            bundle: The batches.
            meanwhile: Called while the relay stores them, unless a proxy is used.
        """
        path = self._bundle_path(bundle)
        # The server checks the checksums in the heads.
        reply = self._requester.request(
            "POST", path, bundle, content_type=BUNDLE, meanwhile=meanwhile
        )
        return self._object(self._checked(reply, path), path)

    def send_bundle_ahead(self, bundle: bytes | memoryview) -> None:
        """Send a large bundle but for its end, which `put_bundle` then sends.

        So the server receives it while the relay still stores the one before it, which
        was sent by other calls. Any call but that of `put_bundle` discards it.

        Raises:
            Failure: It could not be sent.
        """
        path = self._bundle_path(bundle)
        self._requester.send_ahead(path, bundle, content_type=BUNDLE)

    def _bundle_path(self, bundle: bytes | memoryview) -> str:
        """Return the path to send a bundle to, which names its session."""
        # So the relay knows it before the body arrives. It refuses what is no bundle.
        with contextlib.suppress(BundleError):
            for batch in split(bundle):
                return self._query("samples/", {"session": batch.head.session})
        return self._query("samples/", {})

    # Samples out

    def samples(
        self,
        after: int,
        *,
        max_bytes: int | None = None,
        wait_s: float | None = None,
        reader: str | None = None,
    ) -> bytes | None:
        """Return a bundle of the batches after a position, or None if there are none.

        Args:
            after: Position of the last known batch; 0 to begin.
            max_bytes: Size of the bundle at most, unless its first batch is larger.
            wait_s: Seconds that the server waits for a batch; 50 at most.
            reader: Name of the reader.

        Raises:
            ServerError: ``samples-gone``: they were removed; ``body["first"]`` is the
                first position that is kept.
        """
        found = self.view_samples(
            after, max_bytes=max_bytes, wait_s=wait_s, reader=reader
        )
        return None if found is None else bytes(found)

    def view_samples(
        self,
        after: int,
        *,
        max_bytes: int | None = None,
        wait_s: float | None = None,
        reader: str | None = None,
    ) -> bytes | memoryview | None:
        """Return what `samples` returns, a large bundle in the memory it came in."""
        query = _given(after=after, max_bytes=max_bytes, wait_s=wait_s, reader=reader)
        reply = self._send("GET", self._query("samples/", query))
        return None if reply.status == 204 else reply.content

    def commit(
        self, reader: str, after: int, draws: int | None = None
    ) -> dict[str, Any]:
        """Report that a reader needs the batches up to a position no longer.

        Args:
            reader: Name of the reader.
            after: The position.
            draws: Number of transitions that were drawn for training in all, for the
                limiter of the run.
        """
        body = _given(after=after, draws=draws)
        return self._json("PUT", self._path("readers", reader), body)

    def reader(self, name: str) -> dict[str, Any] | None:
        """Return the position of a reader, or None if it has never committed."""
        path = self._path("readers", name)
        reply = self._send("GET", path, missing="unknown-reader")
        return None if reply.status == 404 else self._object(reply, path)

    def delete_reader(self, name: str) -> None:
        """Delete a reader, so that batches are no longer kept for it."""
        self._send("DELETE", self._path("readers", name))

    def lease(
        self,
        *,
        max_bytes: int | None = None,
        max_batches: int | None = None,
        wait_s: float | None = None,
    ) -> bytes | None:
        """Lease batches: each goes to one consumer, which must acknowledge it in time.

        Returns:
            A bundle; each of its heads has a ``lease``. None if there are no batches.
        """
        body = _given(max_bytes=max_bytes, max_batches=max_batches, wait_s=wait_s)
        return _bundle(self._send("POST", f"{self._route}samples/lease/", body))

    def ack(self, leases: Sequence[str]) -> dict[str, Any]:
        """Report that leased batches were used, so that none of them comes again."""
        path = f"{self._route}samples/ack/"
        return self._json("POST", path, {"leases": list(leases)})

    def nack(self, leases: Sequence[str]) -> dict[str, Any]:
        """Return leased batches, so that they are leased again at once."""
        path = f"{self._route}samples/nack/"
        return self._json("POST", path, {"leases": list(leases)})

    def aside(self, after: int = 0) -> bytes | None:
        """Return a bundle of the batches that were leased too often."""
        return _bundle(
            self._send("GET", self._query("samples/aside/", {"after": after}))
        )

    # Weights and state

    def weights(
        self,
        version: int | Literal["best"] | None = None,
        *,
        known: str | None = None,
        wait_s: float = 0.0,
    ) -> Blob | None:
        """Return the weights of a version, by default the newest.

        Args:
            version: The version; ``"best"`` is the one with the highest mean return in
                evaluations.
            known: ETag of the known weights.
            wait_s: Seconds that the server waits for others than the known; 50 at most.

        Returns:
            The weights; None if there are none, or only the known ones.
        """
        part = "weights/" if version is None else f"weights/{version}/"
        return self._blob(part, known, wait_s, "no-weights")

    def put_weights(
        self,
        data: bytes,
        *,
        etag: str | None = None,
        content_type: str = _BYTES,
        reader: str | None = None,
        after: int | None = None,
        draws: int | None = None,
    ) -> dict[str, Any]:
        """Publish the next version of the weights.

        Args:
            data: The weights.
            etag: ETag of the version that they follow; None for the first.
            content_type: Media type of the weights.
            reader: Name of a reader that is moved in the same commit.
            after: Its position.
            draws: Its draws; see `commit`.

        Raises:
            ServerError: ``version-conflict``: somebody else published a version.
        """
        query = _given(reader=reader, after=after, draws=draws)
        return self._upload("PUT", "weights/", query, data, content_type, etag)

    def state(self, *, known: str | None = None) -> Blob | None:
        """Return the state of the trainer, or None if none was stored."""
        return self._blob("state/", known, 0.0, "no-state")

    def put_state(
        self,
        data: bytes,
        *,
        etag: str | None = None,
        content_type: str = _BYTES,
        reader: str | None = None,
        after: int | None = None,
        draws: int | None = None,
    ) -> dict[str, Any]:
        """Store the state of the trainer; the arguments are those of `put_weights`."""
        query = _given(reader=reader, after=after, draws=draws)
        return self._upload("PUT", "state/", query, data, content_type, etag)

    # Records

    def put_records(
        self,
        records: Iterable[Mapping[str, Any]],
        *,
        session: str | None = None,
        number: int | None = None,
    ) -> dict[str, Any]:
        """Send records of episodes or of training steps.

        Args:
            records: JSON objects with ``type`` and the members of that type.
            session: The session that numbers them, so that none is stored twice.
            number: Number of this request among those of the session, from 1.
        """
        lines = [json.dumps(plain_json(dict(each))) for each in records]
        body = "".join(f"{line}\n" for line in lines).encode()
        query = _given(session=session, number=number)
        return self._upload("POST", "records/", query, body, _JSON_LINES)

    def records(
        self,
        after: int = 0,
        *,
        kind: Literal["episode", "training"] | None = None,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return the records after a position."""
        query = _given(after=after, type=kind, limit=limit)
        path = self._query("records/", query)
        reply = self._send("GET", path)
        return [json.loads(line) for line in reply.body.splitlines()]

    def _new_transport(self, address: Address) -> Transport:
        # A large body may take longer than a request, as long as it goes on.
        clock = self._retries.clock
        if needs_requests(address):
            return RequestsTransport(
                address,
                new_session(address, netrc=True),
                max_body=_MAX_ANSWER,
                clock=clock,
                limits_each_part=True,
            )
        return SocketTransport(
            address,
            max_body=_MAX_ANSWER,
            clock=clock,
            # Trust the certificates of requests, or of SSL_CERT_FILE if it is set.
            ca_file=None if os.environ.get("SSL_CERT_FILE") else DEFAULT_CA_BUNDLE_PATH,
            limits_each_part=True,
        )

    def _path(self, kind: str, name: str) -> str:
        return f"{self._route}{kind}/{quote(name, safe='')}/"

    def _query(self, part: str, query: Mapping[str, Any]) -> str:
        path = self._route + part
        return f"{path}?{urlencode(query)}" if query else path

    def _json(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        return self._object(self._send(method, path, body), path)

    def _object(self, reply: Reply, path: str) -> dict[str, Any]:
        return json_of(reply, self.url + path)

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        missing: str | None = None,
    ) -> Reply:
        """Send a request; return an answer of success, or 404 with the code given."""
        data = b"" if body is None else json.dumps(plain_json(body)).encode()
        reply = self._requester.request(
            method,
            path,
            data,
            content_type=None if body is None else _JSON,
            headers=headers,
        )
        if (
            reply.status == 404
            and missing
            and json_object(reply).get("code") == missing
        ):
            return reply
        return self._checked(reply, path)

    def _upload(
        self,
        method: str,
        part: str,
        query: Mapping[str, Any],
        data: bytes | memoryview,
        content_type: str,
        etag: str | None = None,
    ) -> dict[str, Any]:
        headers = [("Content-Digest", content_digest(data))]
        if method == "PUT":
            headers += [("If-None-Match", "*") if etag is None else ("If-Match", etag)]
        path = self._query(part, query)
        reply = self._requester.request(
            method, path, data, content_type=content_type, headers=tuple(headers)
        )
        return self._object(self._checked(reply, path), path)

    def _blob(
        self, part: str, known: str | None, wait_s: float, missing: str
    ) -> Blob | None:
        path = self._query(part, {"wait_s": wait_s} if wait_s else {})
        headers = (("If-None-Match", known),) if known else ()
        reply = self._send("GET", path, headers=headers, missing=missing)
        if reply.status in (304, 404):
            return None
        found = reply.headers
        return Blob(
            reply.body,
            found.get("etag", ""),
            int(found.get("gym-version") or 0),
            found.get("content-type", _BYTES),
        )

    def _checked(self, reply: Reply, path: str) -> Reply:
        if reply.status < 300 or reply.status == 304:
            return reply
        raise error_from_reply(reply, self.url + path)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _bundle(reply: Reply) -> bytes | None:
    return None if reply.status == 204 else reply.body
