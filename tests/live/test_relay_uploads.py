"""Bodies of runs: refusals that store nothing, slow uploads, and other requests."""

import base64
import hashlib
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import xxhash

from gym_http_wire.bundles import BUNDLE, BatchHead, encode_batch, split
from tests.support.api import Api, error, ok
from tests.support.raw import RawConnection, Response, chunked, exchange
from tests.support.runs import Run, body_files, done
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

LIMIT = 1024 * 1024
#: Above the 256 KiB from which a body is a file.
LARGE = bytes(300 * 1024)
DEADLINE_S = 0.6
COLUMNS = {"reward": {"dtype": "float32", "shape": []}}


@pytest.fixture(scope="module")
def relaying() -> Iterator[Api]:
    """A client of a server with a small limit and a short deadline."""
    flags = ("--max-upload", str(LIMIT), "--request-deadline", str(DEADLINE_S))
    with Server(*flags) as server:
        api = Api(server)
        # The relay starts when it is first needed, and stays.
        done(api.get("/v1/runs/"))
        yield api


@pytest.fixture(scope="module")
def shared_run(relaying: Api) -> Run:
    """A run that no test fills."""
    return Run.create(relaying, "shared", columns=COLUMNS)


def digest_of(body: bytes) -> dict[str, str]:
    """Return the header with the digest of a body."""
    digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
    return {"Content-Digest": f"sha-256=:{digest}:"}


def head(run: Run, target: str, *headers: str) -> bytes:
    """Return the head of a POST."""
    lines = [f"POST {target} HTTP/1.1", f"Host: 127.0.0.1:{run.api.server.port}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode()


def too_large(run: Run, target: str) -> Response:
    return run.api.request("POST", target, data=bytes(LIMIT + 1))


def chunked_past_the_limit(run: Run, target: str) -> Response:
    start = head(run, target, "Transfer-Encoding: chunked")
    body = chunked(bytes(LIMIT + 1), 100_000)
    return exchange(run.api.server.port, start + body)


def truncated(run: Run, target: str) -> Response:
    with RawConnection(run.api.server.port) as connection:
        connection.send(head(run, target, f"Content-Length: {len(LARGE) + 1}") + LARGE)
        connection.finish_sending()
        return connection.read_response()


def chunked_and_truncated(run: Run, target: str) -> Response:
    with RawConnection(run.api.server.port) as connection:
        whole = chunked(LARGE, 100_000).removesuffix(b"0\r\n\r\n")
        connection.send(head(run, target, "Transfer-Encoding: chunked") + whole)
        connection.finish_sending()
        return connection.read_response()


def with_digest(body: bytes) -> Callable[[Run, str], Response]:
    def send(run: Run, target: str) -> Response:
        headers = digest_of(body + b"x")
        return run.api.request("POST", target, data=body, headers=headers)

    return send


def encoded(run: Run, target: str) -> Response:
    headers = {"Content-Encoding": "gzip"}
    return run.api.request("POST", target, data=LARGE, headers=headers)


def with_columns(value: Any) -> Callable[[Run, str], Response]:
    def send(run: Run, target: str) -> Response:
        return run.api.request("POST", target, value)

    return send


REFUSALS: dict[str, tuple[Callable[[Run, str], Response], int, str]] = {
    "wrong digest": (with_digest(b"small"), 400, "digest-mismatch"),
    "wrong digest of a file": (with_digest(LARGE), 400, "digest-mismatch"),
    "too large": (too_large, 413, "body-too-large"),
    "chunked past the limit": (chunked_past_the_limit, 413, "body-too-large"),
    "truncated": (truncated, 400, "malformed-request"),
    "chunked and truncated": (chunked_and_truncated, 400, "malformed-request"),
    "Content-Encoding": (encoded, 415, "content-encoding"),
    "another column": (with_columns({"rewards": [1.0]}), 422, "bad-columns"),
    "another shape": (with_columns({"reward": [[1.0]]}), 422, "bad-columns"),
    "another count": (with_columns({"reward": [1.0, 2.0]}), 422, "bad-columns"),
    "no columns": (with_columns([1.0]), 422, "bad-columns"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_batch_is_not_stored(name: str, shared_run: Run) -> None:
    run = shared_run
    send, status, code = REFUSALS[name]
    session = run.session()
    error(send(run, run.samples(session)), status, code)
    assert run.stored()["stored"] == run.stored()["sent"] == 0
    assert done(run.get(f"sessions/{session}/"))["next"] == 1
    wait_until(lambda: not body_files(run.api.server), 5.0, "no files")


TARGETS = [
    ("session={foreign}&number=1&policy=0&count=1", 404, "unknown-session"),
    ("session=nothing&number=1&policy=0&count=1", 404, "unknown-session"),
    ("session=..%2F..%2Fx&number=1&policy=0&count=1", 400, "bad-parameter"),
    ("session={own}&number=0&policy=0&count=1", 400, "bad-parameter"),
    ("session={own}&number=2&policy=0&count=1", 409, "gap"),
    ("session={own}&number=1&policy=1&count=1", 400, "bad-parameter"),
    ("session={own}&number=1&policy=NaN&count=1", 400, "bad-parameter"),
    ("session={own}&number=1&policy=0&count=-1", 400, "bad-parameter"),
    ("session={own}&number=1&count=1&police=0", 400, "bad-parameter"),
]


@pytest.mark.parametrize(("query", "status", "code"), TARGETS)
def test_a_malformed_address_stores_nothing(
    query: str, status: int, code: str, shared_run: Run
) -> None:
    run = shared_run
    other = Run(run.api, "foreign", {})
    run.api.post("/v1/runs/", {"run": other.name})
    query = query.format(foreign=other.session(), own=run.session())
    for body in (b'{"reward": [1.0]}', LARGE):
        answer = run.post(f"samples/?{query}", data=body)
        error(answer, status, code)
    assert run.stored()["stored"] == other.stored()["stored"] == 0
    wait_until(lambda: not body_files(run.api.server), 5.0, "no files")


NAMES = ["../x", "a/b", "", ".x", "x" * 65, "\u00fc", "a\0b", "-x"]


@pytest.mark.parametrize("name", NAMES)
def test_names_with_paths_are_refused(name: str, shared_run: Run) -> None:
    run = shared_run
    for path, member in (("/v1/runs/", "run"), (run.path("sessions/"), "worker")):
        answer = run.api.post(path, {member: name})
        assert answer.status == 400, answer
        assert answer.json()["code"] in ("bad-parameter", "missing-parameter")
    quoted = "".join(f"%{byte:02x}" for byte in name.encode()) or "%20"
    for rest in (f"readers/{quoted}/", f"sessions/{quoted}/", f"weights/{quoted}/"):
        answer = run.put(rest, {"after": 0})
        assert answer.status in (400, 404, 405), answer
    listed = done(run.api.get("/v1/runs/"))["runs"]
    assert {each["run"] for each in listed} <= {"shared", "foreign"}


@pytest.mark.parametrize(
    "path", ["/v1/runs/", "/v1/runs/shared/samples/lease/", "/v1/runs/shared/records/"]
)
def test_nan_is_no_json(path: str, shared_run: Run) -> None:
    body = b'{"run": "nan", "limits": {"lease_s": NaN}, "wait_s": NaN, "return": NaN}'
    answer = shared_run.api.post(path, data=body)
    assert error(answer, 400)["code"] in ("bad-json", "bad-parameter")


def test_the_token_is_checked_before_a_body_is_asked_for(shared_run: Run) -> None:
    run = shared_run
    target = run.samples(run.session())
    size = f"Content-Length: {len(LARGE)}"
    expect = "Expect: 100-continue"
    for extra, status in (
        ("Authorization: Bearer ghr_wrong", 401),
        (f"Authorization: Bearer {run.tokens['observer']}", 403),
        (f"Content-Length: {LIMIT + 1}", 413),
    ):
        sent = extra if extra.startswith("Content-Length") else f"{extra}\r\n{size}"
        with RawConnection(run.api.server.port) as connection:
            connection.send(head(run, target, sent, expect))
            assert connection.read_response().status == status
    worker = f"Authorization: Bearer {run.tokens['worker']}"
    body = b'{"reward": [1.0, 2.0]}'
    with RawConnection(run.api.server.port) as connection:
        connection.send(
            head(run, target, worker, f"Content-Length: {len(body)}", expect)
        )
        assert connection.read_response().status == 100
        connection.send(body)
        assert connection.read_response().status == 422


def test_the_queue_is_checked_before_a_body_is_asked_for(relaying: Api) -> None:
    run = Run.create(relaying, "full", limits={"queue_batches": 1})
    session = run.session()
    done(run.api.request("POST", run.samples(session), data=b"x"))
    with RawConnection(relaying.server.port) as connection:
        size = f"Content-Length: {len(LARGE)}"
        target = run.samples(session, 2)
        connection.send(head(run, target, size, "Expect: 100-continue"))
        answer = connection.read_response()
    error(answer, 429, "queue-full")
    assert int(answer.header("Retry-After") or 0) >= 1
    assert run.stored()["sent"] == 1
    run.api.request("DELETE", run.path())


def test_an_upload_outlives_a_killed_relay(relaying: Api) -> None:
    server = relaying.server
    run = Run.create(relaying, "killed")
    target = run.samples(run.session())
    with RawConnection(server.port) as connection:
        connection.send(head(run, target, f"Content-Length: {2 * len(LARGE)}") + LARGE)
        wait_until(lambda: body_files(server), 5.0, "the file")
        (relay,) = server.services("relay")
        relay.kill()
        # The next one removes the files of which it knows nothing, but not this.
        wait_until(lambda: run.get().status == 200, 20.0, "another relay")
        connection.send(LARGE)
        done(connection.read_response())
    assert len(body_files(server)) == run.stored()["stored"] == 1
    run.api.request("DELETE", run.path())


def test_a_body_is_stored_whole_in_each_framing(relaying: Api, tmp_path: Path) -> None:
    run = Run.create(relaying, "whole")
    session = run.session()
    bodies = [
        b"",
        b"x",
        bytes(range(256)) * 1024,
        bytes(range(256)) * 1025,
        bytes(LIMIT),
    ]
    for number, body in enumerate(bodies, 1):
        target = run.samples(session, number)
        if number % 2:
            done(run.api.request("POST", target, data=body, headers=digest_of(body)))
        else:
            start = head(run, target, "Transfer-Encoding: chunked")
            done(exchange(run.api.server.port, start + chunked(body, 70_000)))
    bundle = run.get("samples/?after=0&max_bytes=99999999")
    assert (bundle.header("Gym-First"), bundle.header("Gym-Last")) == ("1", "5")
    for body in bodies:
        assert body in bundle.body
    file = tmp_path / "policy.npz"
    file.write_bytes(bodies[3])
    address = f"{relaying.server.url}/v1/runs/whole/weights"
    command = ["curl", "-sS", "-f", "-H", "If-None-Match: *", "-T", str(file)]
    subprocess.run([*command, address], check=True, timeout=20, capture_output=True)
    got = run.get("weights/", headers={"Range": "bytes=10-19"})
    assert (got.status, got.body) == (206, bodies[3][10:20])
    assert run.get("weights/").body == bodies[3]
    without = run.api.request("HEAD", run.path("weights/"))
    assert without.header("Content-Length") == str(len(bodies[3]))
    wrong = run.put("weights/policy.npz", data=b"x")
    assert "curl -T" in error(wrong, 404)["message"]
    run.api.request("DELETE", run.path())
    wait_until(lambda: not body_files(relaying.server), 10.0, "no files")


def test_a_request_may_follow_a_large_body_at_once(relaying: Api) -> None:
    run = Run.create(relaying, "following")
    session = run.session()
    body = os.urandom(LIMIT)
    get = f"GET {run.path()} HTTP/1.1\r\nHost: 127.0.0.1:{run.api.server.port}\r\n\r\n"
    with RawConnection(run.api.server.port) as connection:
        for number in (1, 2):
            target = run.samples(session, number)
            post = head(run, target, f"Content-Length: {len(body)}") + body
            connection.send(post + get.encode())
            done(connection.read_response())
            assert done(connection.read_response())["samples"]["stored"] == number
    found = run.get("samples/?after=0&max_bytes=99999999").body
    stored = [found[at : at + size] for _, at, size in split(found)]
    assert stored == [body, body]
    run.api.request("DELETE", run.path())


def trickle(connection: RawConnection, body: bytes, rate: int) -> None:
    """Send a body at so many bytes a second."""
    began = time.monotonic()
    for start in range(0, len(body), 8192):
        while time.monotonic() < began + start / rate:
            time.sleep(0.005)
        connection.send(body[start : start + 8192])


def sha256_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize("known", ["digest", "checksum", "none"])
def test_a_bundle_is_stored_up_to_its_damaged_batch(known: str, relaying: Api) -> None:
    run = Run.create(relaying, f"bundle-{known}")
    session = run.session()
    bodies = [bytes([number]) * 300_000 for number in (1, 2, 3)]
    name, compute, wrong = {
        "checksum": ("checksum", xxhash.xxh3_64_hexdigest, "0" * 16),
    }.get(known, ("digest", sha256_of, "0" * 64))
    sums = ["" if known == "none" else compute(body) for body in bodies]
    sums[1] = wrong
    bundle = b"".join(
        encode_batch(BatchHead(session, number, 0, 1, **{name: value}), body)
        for number, (value, body) in enumerate(zip(sums, bodies, strict=True), 1)
    )
    headers = {"Content-Type": BUNDLE}
    answer = run.api.request("POST", run.path("samples/"), data=bundle, headers=headers)
    problem = error(answer, 400, "digest-mismatch")
    assert (problem["next"], problem["stored"]) == (2, 1)
    (kept,) = split(run.get("samples/?after=0").body)
    assert getattr(kept.head, name) == compute(bodies[0])
    run.api.request("DELETE", run.path())


def test_a_slow_upload_arrives_and_a_stalled_one_does_not(relaying: Api) -> None:
    run = Run.create(relaying, "slow")
    session = run.session()
    size = f"Content-Length: {len(LARGE)}"
    with RawConnection(relaying.server.port) as connection:
        connection.send(head(run, run.samples(session), size))
        # Three times as long as the deadline.
        trickle(connection, LARGE, len(LARGE) // 2)
        assert connection.read_response().status == 201
    began = time.monotonic()
    with RawConnection(relaying.server.port) as connection:
        connection.send(head(run, run.samples(session, 2), size) + LARGE[: 64 * 1024])
        error(connection.read_response(), 408, "request-timeout")
    # A second more than the deadline, for the bytes that arrived.
    assert time.monotonic() - began > DEADLINE_S + 0.8
    assert run.stored()["stored"] == 1
    assert len(body_files(relaying.server)) == 1
    run.api.request("DELETE", run.path())


def test_a_client_that_leaves_in_the_middle_leaves_no_file(shared_run: Run) -> None:
    run = shared_run
    target = run.samples(run.session())
    with RawConnection(run.api.server.port) as connection:
        connection.send(head(run, target, f"Content-Length: {LIMIT}") + LARGE + LARGE)
        wait_until(lambda: body_files(run.api.server), 5.0, "the file")
    wait_until(lambda: not body_files(run.api.server), 5.0, "no files")
    assert run.stored()["stored"] == 0


def open_bodies(server: Server) -> list[str]:
    """List the files of bodies that processes of a server have open."""
    return [
        file.path
        for member in server.members()
        for file in member.open_files()
        if file.path.endswith(".body")
    ]


def test_a_download_that_is_left_closes_its_files(relaying: Api) -> None:
    run = Run.create(relaying, "left")
    first = {"If-None-Match": "*"}
    done(run.put("weights/", data=bytes(LIMIT), headers=first))
    session = run.session()
    # More than the buffers of two sockets hold.
    for number in range(1, 13):
        done(run.api.request("POST", run.samples(session, number), data=bytes(LIMIT)))
    target = run.path("samples/?after=0&max_bytes=99999999")
    for _ in range(3):
        with RawConnection(relaying.server.port) as connection:
            connection.send(head(run, target).replace(b"POST", b"GET", 1))
            wait_until(lambda: open_bodies(relaying.server), 5.0, "the download")
    wait_until(lambda: not open_bodies(relaying.server), 5.0, "no open files")
    request = f"GET {run.path('weights/')} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with RawConnection(relaying.server.port) as connection:
        # Complete requests, which the fast reader reads, on one connection.
        for method in ("GET", "HEAD", "GET"):
            connection.send(request.replace("GET", method).encode())
            answer = connection.read_response(head=method == "HEAD")
            assert answer.header("Content-Length") == str(LIMIT)
            assert answer.body == (b"" if method == "HEAD" else bytes(LIMIT))
        connection.send(
            f"POST {run.path('sessions')} HTTP/1.1\r\nHost: localhost\r\n"
            'Content-Length: 14\r\n\r\n{"worker":"w"}'.encode()
        )
        assert done(connection.read_response())["next"] == 1
    assert not open_bodies(relaying.server)
    run.api.request("DELETE", run.path())


def test_a_client_that_leaves_while_it_waits_takes_no_lease(relaying: Api) -> None:
    run = Run.create(relaying, "leases")
    session = run.session()
    body = b'{"wait_s": 30}'
    with RawConnection(relaying.server.port) as connection:
        target = run.path("samples/lease/")
        connection.send(head(run, target, f"Content-Length: {len(body)}") + body)
        # Nothing shows from outside that it waits: others are served meanwhile.
        assert run.stored()["waiting"] == 0
    began = time.monotonic()

    def nobody_waits() -> bool:
        number = done(run.get(f"sessions/{session}/"))["next"]
        done(run.api.request("POST", run.samples(session, number), data=b"x"))
        return run.stored()["leased"] == 0

    wait_until(nobody_waits, 10.0, "a batch that is not leased")
    assert time.monotonic() - began < 10.0
    run.api.request("DELETE", run.path())


def test_a_request_that_waits_ends_when_the_server_stops() -> None:
    with Server() as server:
        run = Run.create(Api(server), "waits")
        with RawConnection(server.port) as connection:
            target = run.path("samples/?after=0&wait_s=50")
            request = head(run, target).replace(b"POST", b"GET", 1)
            connection.send(request)
            # It is answered before the grace of calls in flight is over.
            began = time.monotonic()
            os.kill(server.pid, signal.SIGTERM)
            answer = connection.read_response()
            assert answer.status in (204, 503), answer
            assert time.monotonic() - began < 5.0
        assert server.stop() == 0


@pytest.mark.alone
def test_small_requests_go_on_during_large_uploads(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    """It prints the latencies, for a run on a quiet machine."""
    api = Api(make_server("--workers", "1"))
    run = Run.create(api, "large")
    instance = api.create()
    session = run.session()
    file = tmp_path / "body"
    file.write_bytes(bytes(50 * 1024 * 1024))
    command = ["curl", "-sS", "-f", "--data-binary", f"@{file}"]
    command += [api.server.url + run.samples(session, number) for number in (1, 2, 3)]

    def steps(go_on: Callable[[int], bool]) -> str:
        times: list[float] = []
        while go_on(len(times)):
            if len(times) % 8 == 0:
                instance.reset()
            began = time.perf_counter()
            ok(instance.post("step/", {"action": 0}))
            times.append(1000 * (time.perf_counter() - began))
        p50, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
        assert p95 < 500
        return f"{len(times)} steps: p50 {p50:.1f} ms, p95 {p95:.1f} ms"

    idle = steps(lambda count: count < 100)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as uploads:
        busy = steps(lambda count: uploads.poll() is None or count < 20)
    assert uploads.returncode == 0
    assert run.stored()["stored"] == 3
    print(f"\nidle: {idle}\nwith uploads: {busy}")
    instance.close()
