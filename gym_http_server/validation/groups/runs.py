"""The training relay: runs, samples in and out, weights, state and records."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import struct
from collections.abc import Iterator
from typing import Any

from gym_http_server.validation.calls import CallFailed, Response
from gym_http_server.validation.checks import CheckGroup, Checks
from gym_http_server.validation.expectations import Absent, equal, that
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.target import Target, code_of

__all__ = ["RUNS"]

checks = Checks()
RUNS = CheckGroup("runs", lambda: checks, lambda t: t.needs("runs"))

BUNDLE = "application/vnd.gym-http.bundle"
_BATCH = 160
_START = struct.Struct("<IIHBBI")
_FIRST = {"If-None-Match": "*"}


class TargetRun:
    """A run on the server that is checked.

    Attributes:
        name: Its name.
        tokens: The token of each role.
    """

    def __init__(self, target: Target, name: str, tokens: dict[str, str]) -> None:
        self._target = target
        self.name = name
        self.tokens = tokens

    def call(self, method: str, rest: str, *args: Any, **more: Any) -> Response:
        """Send a request below the route of the run."""
        return self._target.call(method, f"/v1/runs/{self.name}/{rest}", *args, **more)

    def done(self, method: str, rest: str, *args: Any, **more: Any) -> dict[str, Any]:
        """Send a request, expect that it succeeds, and return the JSON."""
        answer = self.call(method, rest, *args, **more)
        that(answer.status in (200, 201), f"200 or 201 for {method} {rest}", answer)
        return dict(answer.json())

    def session(self, worker: str = "w1") -> str:
        """Begin a session."""
        begun = self.done("POST", "sessions/", {"worker": worker})
        equal(begun["next"], 1, "number of the first batch")
        return str(begun["session"])

    def send(
        self, session: str, number: int, body: bytes = b"a", **query: int
    ) -> Response:
        """Send a batch."""
        more = "".join(f"&{k}={v}" for k, v in ({"policy": 0} | query).items())
        path = f"samples/?session={session}&number={number}&count=1{more}"
        return self.call("POST", path, body=body)


@contextlib.contextmanager
def _made(target: Target, **options: Any) -> Iterator[TargetRun]:
    """Create a run, and delete it in the end."""
    name = f"validate-{secrets.token_hex(4)}"
    try:
        answer = target.post("/v1/runs/", {"run": name, **options})
        if code_of(answer) in ("scope-missing", "storage-full", "relay-taken"):
            raise Absent(f"no run can be created here: {code_of(answer)}")
        equal(answer.status, 201, "status of a created run")
        yield TargetRun(target, name, answer.json()["tokens"])
    finally:
        # Also if the answer was lost.
        with contextlib.suppress(CallFailed):
            target.call("DELETE", f"/v1/runs/{name}/")


def _bundle(*batches: tuple[dict[str, Any], bytes]) -> bytes:
    found = b""
    for head, body in batches:
        text = json.dumps(head).encode()
        text += b" " * (-len(text) % 8)
        found += _START.pack(len(body), len(text), 0, _BATCH, 0, 0) + text + body
    return found


def _batches(answer: Response) -> list[tuple[dict[str, Any], bytes]]:
    """Split a bundle by the documented form."""
    equal(answer.status, 200, "status of batches")
    equal(answer.media, BUNDLE, "media type of batches")
    found, data = [], answer.body
    while data:
        that(len(data) >= _START.size, "a whole header", data)
        size, head_size, *rest = _START.unpack_from(data)
        equal(rest, [0, _BATCH, 0, 0], "the rest of a header")
        end = _START.size + head_size
        that(len(data) >= end + size, "a whole batch", data)
        head = json.loads(data[_START.size : end])
        found.append((head, data[end : end + size]))
        data = data[end + size :]
    positions = [head["position"] for head, _ in found]
    if positions and "gym-first" in answer.headers:
        equal(answer.headers["gym-first"], str(positions[0]), "Gym-First")
        equal(answer.headers.get("gym-last"), str(positions[-1]), "Gym-Last")
    return found


@checks("creation")
def _creation(target: Target) -> None:
    with _made(target, limits={"max_lag": 7}) as run:
        for role in ("worker", "trainer", "observer"):
            token = run.tokens.get(role, "")
            that(token.startswith("ghr_") and len(token) == 47, "a token", token)
        same = {"run": run.name, "limits": {"max_lag": 7}}
        again = target.post("/v1/runs/", same)
        equal((again.status, again.json()["tokens"]), (200, None), "a run again")
        problem(target.post("/v1/runs/", {"run": run.name}), "run-exists", 409)
        status = run.done("GET", "")
        equal((status["run"], status["limits"]["max_lag"]), (run.name, 7), "its status")
        names = [each["run"] for each in target.get("/v1/runs/").json()["runs"]]
        that(run.name in names, "the run in the list", names)
    problem(target.get(f"/v1/runs/{run.name}/"), "unknown-run", 404)


@checks("refused-creations")
def _refused(target: Target) -> None:
    deadlock = {"samples_per_insert": 4, "min_size": 10, "error_buffer": 1}
    for wrong in (
        {"run": "../run"},
        {"run": ""},
        {"run": "r", "limit": {}},
        {"run": "r", "limits": {"queue": 1}},
        {"run": "r", "limits": {"stale": "ignore"}},
        {"run": "r", "limits": {"limiter": deadlock}},
        {"run": "r", "columns": {"x": {"dtype": "object", "shape": []}}},
    ):
        answer = target.post("/v1/runs/", wrong)
        that(answer.status == 400, f"400 for {wrong}", answer)


@checks("roles")
def _roles(target: Target) -> None:
    with _made(target) as run, _made(target) as other:

        def status_of(token: str, method: str, rest: str, **more: Any) -> int:
            headers = {"Authorization": f"Bearer {token}"} | more.pop("headers", {})
            answer = run.call(method, rest, token=False, headers=headers, **more)
            return answer.status

        allowed = {
            ("GET", ""): {"worker", "trainer", "observer"},
            ("GET", "samples/?after=0"): {"trainer"},
            ("GET", "records/"): {"trainer", "observer"},
            ("PUT", "weights/"): {"trainer"},
            ("GET", "tokens/"): set(),
        }
        for (method, rest), roles in allowed.items():
            for role, token in run.tokens.items():
                more: dict[str, Any] = {"body": b"w"} if method == "PUT" else {}
                status = status_of(token, method, rest, headers=_FIRST, **more)
                expected = "no 403" if role in roles else "403"
                holds = (status == 403) == (role not in roles)
                that(holds, f"{expected} for {role} and {method} {rest}", status)
        for token in other.tokens.values():
            equal(status_of(token, "GET", ""), 403, "status for another run's token")
        wrong = "ghr_" + "A" * 43
        equal(status_of(wrong, "GET", ""), 401, "status for an unknown token")


@checks("batches-once-and-in-order")
def _once(target: Target) -> None:
    with _made(target) as run:
        session = run.session()
        first = run.send(session, 1, b"one")
        equal((first.status, first.json()["position"]), (201, 1), "the first batch")
        again = run.send(session, 1, b"one")
        equal((again.status, again.json()["stored"]), (200, False), "it again")
        problem(run.send(session, 1, b"other"), "key-reused", 422)
        gap = problem(run.send(session, 3, b"three"), "gap", 409)
        equal(gap.get("next"), 2, "the number that is expected")
        equal(run.send(session, 3, b"three", dropped=1).status, 201, "status")
        problem(run.send("unknown", 1), "unknown-session", 404)
        problem(run.send(session, 4, policy=1), "bad-parameter", 400)
        got = _batches(run.call("GET", "samples/?after=0"))
        equal([body for _, body in got], [b"one", b"three"], "the batches")
        equal([head["number"] for head, _ in got], [1, 3], "their numbers")
        shown = run.done("GET", f"sessions/{session}/")
        equal((shown["worker"], shown["next"]), ("w1", 4), "the session")
        _sums(run, stored=2, dropped=1, repeated=1)


def _sums(run: TargetRun, **expected: int) -> None:
    samples = run.done("GET", "")["samples"]
    sent = samples["stored"] + samples["stale"] + samples["dropped"]
    equal(samples["sent"], sent, "sent = stored + stale + dropped")
    parts = ("waiting", "leased", "consumed", "aside")
    stored = sum(samples[name] for name in parts)
    equal(samples["stored"], stored, f"stored = {' + '.join(parts)}")
    for name, count in expected.items():
        equal(samples[name], count, name)


@checks("digests")
def _digests(target: Target) -> None:
    with _made(target) as run:
        session = run.session()
        path = f"samples/?session={session}&number=1&policy=0&count=1"
        for body, status in ((b"other", 400), (b"batch", 201)):
            digest = base64.b64encode(hashlib.sha256(b"batch").digest()).decode()
            headers = {"Content-Digest": f"sha-256=:{digest}:"}
            answer = run.call("POST", path, body=body, headers=headers)
            equal(answer.status, status, "status of a batch with a digest")


@checks("bundles")
def _bundles(target: Target) -> None:
    with _made(target) as run:
        head = {"session": run.session(), "policy": 0, "count": 2}
        heads = [{**head, "number": number} for number in (1, 2)]
        bundle = _bundle((heads[0], b"one"), (heads[1], b""))
        media = {"Content-Type": BUNDLE}
        for stored in (2, 0):
            done = run.done("POST", "samples/", body=bundle, headers=media)
            actual = (done["stored"], done["repeated"], done["next"])
            equal(actual, (stored, 2 - stored, 3), "stored, repeated and next")
        got = _batches(run.call("GET", "samples/?after=0&wait_s=5"))
        equal([body for _, body in got], [b"one", b""], "the batches")
        equal(got[1][0]["worker"], "w1", "worker")
        one = _batches(run.call("GET", "samples/?after=1&max_bytes=1"))
        equal([each["position"] for each, _ in one], [2], "the next one")
        equal(run.call("GET", "samples/?after=2").status, 204, "status without any")
        cut = run.call("POST", "samples/", body=bundle[:-1] + b"xx", headers=media)
        that(cut.status == 400, "400 for a malformed bundle", cut)


@checks("readers")
def _readers(target: Target) -> None:
    with _made(target) as run:
        session = run.session()
        for number in (1, 2):
            run.send(session, number)
        equal(run.done("PUT", "readers/r/", {"after": 1})["after"], 1, "after")
        problem(run.call("PUT", "readers/r/", {"after": 0}), "position-passed", 409)
        problem(run.call("PUT", "readers/r/", {"after": 3}), "bad-parameter", 400)
        gone = problem(run.call("GET", "samples/?after=0"), "samples-gone", 410)
        equal(gone.get("first"), 2, "the first position that is kept")
        _sums(run, waiting=1, consumed=1)
        equal(run.call("DELETE", "readers/r/").status, 204, "status")
        problem(run.call("GET", "readers/r/"), "unknown-reader", 404)


@checks("leases")
def _leases(target: Target) -> None:
    with _made(target) as run:
        run.send(run.session(), 1, b"one")

        def lease() -> dict[str, Any]:
            ((head, body),) = _batches(run.call("POST", "samples/lease/", {}))
            equal(body, b"one", "the batch")
            return head

        head = lease()
        equal(head["delivery"], 1, "delivery")
        equal(run.call("POST", "samples/lease/", {}).status, 204, "status of no other")
        _sums(run, leased=1, waiting=0)
        given = {"leases": [head["lease"]]}
        equal(run.done("POST", "samples/nack/", given)["nacked"], 1, "nacked")
        head = lease()
        equal(head["delivery"], 2, "delivery")
        given = {"leases": [head["lease"], "unknown"]}
        acked = run.done("POST", "samples/ack/", given)
        equal((acked["acked"], acked["unknown"]), (1, ["unknown"]), "acked and unknown")
        _sums(run, leased=0, consumed=1)


@checks("weights")
def _weights(target: Target) -> None:
    with _made(target) as run:
        problem(run.call("GET", "weights/"), "no-weights", 404)
        problem(run.call("PUT", "weights/", body=b"w"), "precondition-required", 428)
        made = run.call("PUT", "weights/", body=b"weights", headers=_FIRST)
        etag = made.headers.get("etag", "")
        expected = f'"1-{hashlib.sha256(b"weights").hexdigest()[:12]}"'
        equal((made.status, etag), (201, expected), "status and ETag")
        for status, body in ((200, b"weights"), (412, b"others")):
            answer = run.call("PUT", "weights/", body=body, headers=_FIRST)
            equal(answer.status, status, "status of first weights again")
        known = {"If-None-Match": etag}
        answer = run.call("GET", "weights/?wait_s=0.1", headers=known)
        equal(answer.status, 304, "status while there are no others")
        following = {"If-Match": etag}
        answer = run.call("PUT", "weights/", body=b"others", headers=following)
        equal((answer.status, answer.json()["version"]), (201, 2), "the next version")
        newest = run.call("GET", "weights/", headers=known)
        actual = (newest.body, newest.headers.get("gym-version"))
        equal(actual, (b"others", "2"), "the newest weights, and Gym-Version")
        equal(run.call("GET", "weights/1/").body, b"weights", "version 1")
        part = run.call("GET", "weights/1/", headers={"Range": "bytes=2-3"})
        equal((part.status, part.body), (206, b"ig"), "a range")
        beyond = run.call("GET", "weights/1/", headers={"Range": "bytes=7-"})
        problem(beyond, "range-not-satisfiable", 416)


@checks("state-with-position")
def _state(target: Target) -> None:
    with _made(target) as run:
        run.send(run.session(), 1)
        problem(run.call("GET", "state/"), "no-state", 404)
        path = "state/?reader=trainer&after=1"
        made = run.call("PUT", path, body=b"state", headers=_FIRST)
        equal(made.status, 201, "status")
        equal(run.done("GET", "readers/trainer/")["after"], 1, "the reader's position")
        equal(run.call("GET", "state/").body, b"state", "the state")
        wrong = run.call("PUT", path, body=b"other", headers=_FIRST)
        problem(wrong, "version-conflict", 412)


@checks("old-weights")
def _stale(target: Target) -> None:
    with _made(target, limits={"max_lag": 0, "stale": "refuse"}) as run:
        session = run.session()
        run.done("PUT", "weights/", body=b"w", headers=_FIRST)
        refused = problem(run.send(session, 1), "stale", 409)
        equal(refused.get("next"), 2, "the next number")
        stored = run.send(session, 2, policy=1)
        equal((stored.status, stored.json()["stale"]), (201, False), "a new batch")
        _sums(run, stale=1, stored=1)


@checks("full-queue")
def _full(target: Target) -> None:
    with _made(target, limits={"queue_batches": 1}) as run:
        session = run.session()
        run.send(session, 1)
        full = run.send(session, 2)
        problem(full, "queue-full", 429)
        that("retry-after" in full.headers, "a header Retry-After", full)
        run.done("PUT", "readers/r/", {"after": 1})
        equal(run.send(session, 2).status, 201, "status when there is room")


@checks("records")
def _records(target: Target) -> None:
    with _made(target) as run:
        run.done("PUT", "weights/", body=b"w", headers=_FIRST)
        episode = {"type": "episode", "mode": "evaluation", "length": 9, "version": 1}
        lines = [json.dumps(episode | {"return": float(n)}) for n in range(5)]
        lines.append('{"type": "training", "step": 7, "loss": 0.5}')
        body = "\n".join(lines).encode()
        path = f"records/?session={run.session()}&number=1"
        equal(run.done("POST", path, body=body)["stored"], 6, "stored")
        equal(run.call("POST", path, body=body).status, 200, "status of them again")
        got = run.call("GET", "records/?type=episode&limit=10")
        found = [json.loads(line) for line in got.body.splitlines()]
        actual = [each["return"] for each in found]
        equal(actual, [0.0, 1.0, 2.0, 3.0, 4.0], "returns")
        best = run.done("GET", "")["weights"]["best"]
        equal((best["version"], best["mean"]), (1, 2.0), "the best version")
        equal(run.call("GET", "weights/best/").body, b"w", "its weights")
        problem(run.call("POST", "records/", body=b"{"), "bad-parameter", 400)
