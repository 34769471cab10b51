"""gunicorn with the server's worker class and a small application for tests."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any, Self

import psutil

from tests.support import processes
from tests.support.raw import RawConnection, Response

ROOT = Path(__file__).resolve().parents[2]
HOST = "Host: t\r\n"
CHUNKED = b"POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
# A header that the worker does not parse itself, without other effects.
ODD = "X-Odd: 1\r\n"
DEADLINE = 1.0
KEEPALIVE = 2
SEND_TIMEOUT = 1.0
# Long enough for a busy machine: later events would not happen at all.
SLACK = 4.0

APPLICATION = """
    import builtins
    import ctypes
    import gc
    import json
    import os
    import pathlib
    import socket
    import sys
    import time

    taken = []


    def application(environ, start_response):
        status, body = "200 OK", b""
        words = environ["PATH_INFO"].strip("/").split("/")
        read = environ["wsgi.input"].read
        if words[0] == "echo":
            body = read()
        elif words[0] == "sleep":
            time.sleep(float(words[1]))
        elif words[0] == "late":
            time.sleep(float(words[1]))
            body = b"%d" % len(read())
        elif words[0] == "limit" and len(read(1025)) > 1024:
            status = "413 Content Too Large"
        elif words[0] == "big":
            body = b"x" * int(words[1])
        elif words[0] == "raise":
            raise getattr(builtins, words[1])
        elif words[0] == "take":
            client = environ["gunicorn.socket"]
            taken.append(os.dup(client.fileno()))
            if words[1] == "replaced":
                ours, theirs = socket.socketpair()
                os.dup2(ours.fileno(), client.fileno())
                ours.close()
                theirs.close()
            raise StopIteration
        elif words[0] == "give":
            os.write(taken[-1], read())
        elif words[0] == "get":
            try:
                body = os.read(taken[-1], 100)
            except BlockingIOError:
                pass
        elif words[0] == "clients":
            gc.collect()
            names = [type(known).__name__ for known in gc.get_objects()]
            body = b"%d" % names.count("ClientSocket")
        elif words[0] == "environ":
            kinds = (str, bool, tuple)
            told = {k: v for k, v in environ.items() if isinstance(v, kinds)}
            told |= {"body": read().decode(), "gunicorn": "wsgi.early_hints" in environ}
            body = json.dumps(told).encode()
        elif words[0] == "early":
            start_response(status, [("Content-Type", "text/plain")])(b"early, ")
            return [b"late"]
        elif words[0] == "pieces":
            start_response(status, [("X-Number", words[1]), ("Keep-Alive", "no")])
            return (piece.encode() for piece in words[1:])
        elif words[0] == "wrong":
            start_response(status, [("X-Wrong", "a\\r\\nb"), ("Content-Length", "0")])
            return [b""]
        elif words[0] == "empty":
            start_response("204 No Content", [("Content-Type", "text/plain")])
            return [b""]
        elif words[0] == "short":
            start_response(status, [("Content-Length", "2")])
            return [b"long"]
        elif words[0] == "twice":
            start_response(status, [])
            start_response(status, [])
        elif words[0] == "again":
            start_response(status, [])
            status = "500 Oh"
            headers = [("Content-Length", "0")]
            try:
                raise ValueError
            except ValueError:
                start_response(status, headers, sys.exc_info())
            return [b""]
        elif words[0] == "stuck":
            pathlib.Path("stuck").touch()
            ctypes.PyDLL(None).sleep(60)
        headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
        start_response(status, headers)
        return [body]
"""

CONFIGURATION = """
    from gym_http_server.web.gunicorn_worker.worker import Worker

    Worker.request_deadline_s = {deadline}
    Worker.send_timeout_s = {send_timeout}
    worker_class = "gym_http_server.web.gunicorn_worker.worker.Worker"
    control_socket_disable = True
    keepalive = {keepalive}
    graceful_timeout = {graceful}
    worker_connections = {connections}
    workers = {workers}
    backlog = 4096
    loglevel = "warning"
"""


class Gunicorn:
    """gunicorn with the worker, on a free port."""

    def __init__(
        self,
        folder: Path,
        *,
        deadline: float = DEADLINE,
        keepalive: int = KEEPALIVE,
        send_timeout: float = SEND_TIMEOUT,
        graceful: int = 20,
        connections: int = 1000,
        workers: int = 1,
    ) -> None:
        self.folder = folder
        (folder / "tiny.py").write_text(textwrap.dedent(APPLICATION))
        configuration = textwrap.dedent(CONFIGURATION).format(**locals())
        (folder / "conf.py").write_text(configuration)
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port: int = listener.getsockname()[1]
        command = [sys.executable, "-m", "gunicorn", "--config", "conf.py"]
        command += ["--bind", f"fd://{listener.fileno()}", "tiny:application"]
        with listener, (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment(folder),
                pass_fds=[listener.fileno()],
                stderr=log,
            )

    def __enter__(self) -> Self:
        try:
            self.health_s()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        left = {psutil.Process(self.pid)} if self.process.poll() is None else set()
        processes.kill(processes.descendants(self.pid) | left)
        self.process.wait(10)

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def client(self) -> "Client":
        return Client(self.port)

    def call(self, request: bytes) -> Response:
        with self.client() as client:
            client.send(request)
            return client.read_response()

    def health_s(self) -> float:
        began = time.monotonic()
        assert self.call(b"GET /health HTTP/1.0\r\n\r\n").status == 200
        return time.monotonic() - began

    def stop(self) -> float:
        """Send SIGTERM and return the seconds until the end."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0
        return time.monotonic() - began


def environment(*folders: Path) -> dict[str, str]:
    paths = [ROOT, ROOT / "clients/python", *folders]
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}


class Client(RawConnection):
    """A connection that works with `select`, and sends all data or fails."""

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def readable(self, timeout: float) -> bool:
        return bool(select.select([self], [], [], timeout)[0])

    def call(self, request: bytes) -> Response:
        self.send(request)
        return self.read_response()


def post(path: str, body: bytes = b"", extra: str = HOST) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{with_host(extra)}\r\n".encode() + body


def get(path: str, extra: str = HOST) -> bytes:
    return f"GET {path} HTTP/1.1\r\n{with_host(extra)}\r\n".encode()


def with_host(headers: str) -> str:
    """Add the Host header that HTTP/1.1 requires, unless there is one."""
    return headers if "host:" in headers.lower() else HOST + headers


def check_problem(response: Response, status: int, code: str) -> dict[str, Any]:
    problem: dict[str, Any] = response.json()
    assert response.status == problem["status"] == status
    assert problem["code"] == code
    assert problem["type"] == f"urn:gym-http:{code}"
    assert problem["message"] == problem["detail"] != ""
    assert set(problem) == {
        *("code", "detail", "instance", "message"),
        *("request_id", "status", "title", "type"),
    }
    compact = json.dumps(problem, sort_keys=True, separators=(",", ":"))
    assert response.body == compact.encode() + b"\n"
    assert response.content_type == "application/json"
    assert response.header("Connection") == "close"
    return problem


def time_to_end(client: Client, least: float, most: float) -> bytes:
    began = time.monotonic()
    got = client.read_to_end()
    assert least <= time.monotonic() - began < most
    return got
