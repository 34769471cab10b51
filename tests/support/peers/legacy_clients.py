"""The requests of the clients of gym-http-api, recorded client by client.

Each recording holds the header lines and bodies of one client. A request is assembled
from them byte for byte as that client sends it: its slashes, its bodies where it has
nothing to send, its framing, its HTTP version.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.support.raw import chunked

JSON = "Content-Type: application/json"
JSON_UTF8 = "Content-Type: application/json; charset=utf-8"
FORM = "Content-Type: application/x-www-form-urlencoded"
ANY = "Accept: */*"
GZIP = "Accept-Encoding: gzip"
HTML_204 = "Accept: text/html"
JAVA_ACCEPT = "Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"
H2C = (
    "Connection: Upgrade, HTTP2-Settings",
    "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
    "Upgrade: h2c",
)

Slashes = Literal["as the server", "none", "none on POST", "none on spaces"]


@dataclass(frozen=True)
class Recording:
    """The recorded request format of one client."""

    name: str
    lines: tuple[str, ...] = ()
    """Header lines of every request, after Host."""
    body_type: str = JSON
    """The Content-Type line of a request with something to say."""
    empty: bytes = b""
    """The body of reset, close, monitor/close and shutdown."""
    empty_type: str = JSON
    """The Content-Type line of those; empty when there is none."""
    get_lines: tuple[str, ...] = ()
    """More header lines on GET."""
    get_body: bytes | None = None
    """The body of a GET."""
    no_content_lines: tuple[str, ...] = ()
    """More header lines where the answer is a 204."""
    slashes: Slashes = "as the server"
    contains_slash: bool = False
    """Write contains/X/ with a slash."""
    suffix: str = ""
    """What follows every path."""
    chunks: bool = False
    """Bodies are chunked, an empty one too."""
    pretty: bool = False
    """Bodies are indented over several lines."""
    keep_alive: bool = True
    """All requests go over one connection."""
    expects_continue: bool = False
    action: Any = 1
    create: Mapping[str, Any] = field(default_factory=dict)
    step: Mapping[str, Any] = field(default_factory=dict)
    monitor: Mapping[str, Any] = field(default_factory=dict)
    """More keys in the bodies of create, step and monitor/start."""

    def path(self, method: str, path: str) -> str:
        """Write one of the server's paths as the client does."""
        space = path.endswith("_space/")
        bare = (
            self.slashes == "none"
            or (self.slashes == "none on POST" and method == "POST")
            or (self.slashes == "none on spaces" and space)
        )
        if bare:
            path = path.rstrip("/")
        if self.contains_slash and "/contains/" in path:
            path += "/"
        return path + self.suffix

    def get(self, path: str, *, port: int, version: str = "1.1") -> bytes:
        """Write a GET."""
        lines = [*self.lines, *self.get_lines]
        return self._write("GET", path, lines, self.get_body, port, version)

    def post(self, path: str, value: Any, *, port: int, version: str = "1.1") -> bytes:
        """Write a POST with a JSON body."""
        indent = 3 if self.pretty else None
        body = json.dumps(value, indent=indent).encode()
        lines = [*self.lines, self.body_type]
        if path.endswith("/monitor/start/"):
            lines += self.no_content_lines
        return self._write("POST", path, lines, body, port, version)

    def post_empty(self, path: str, *, port: int, version: str = "1.1") -> bytes:
        """Write a POST without content, as the client does."""
        lines = [*self.lines, *([self.empty_type] if self.empty_type else [])]
        if path.endswith("/close/"):
            lines += self.no_content_lines
        return self._write("POST", path, lines, self.empty, port, version)

    def _write(
        self,
        method: str,
        path: str,
        lines: list[str],
        body: bytes | None,
        port: int,
        version: str,
    ) -> bytes:
        lines = [
            f"{method} {self.path(method, path)} HTTP/{version}",
            f"Host: 127.0.0.1:{port}",
            *lines,
        ]
        if not self.keep_alive and not any("Connection:" in line for line in lines):
            lines.append("Connection: close")
        framed = b""
        if body is not None:
            # Chunks do not exist in HTTP/1.0.
            in_chunks = self.chunks and version == "1.1"
            framed = chunked(body) if in_chunks else body
            framing = f"Content-Length: {len(body)}"
            lines.append("Transfer-Encoding: chunked" if in_chunks else framing)
            if self.expects_continue and body:
                lines.append("Expect: 100-continue")
        return "\r\n".join([*lines, "", ""]).encode() + framed


RECORDINGS = [
    Recording(
        "Python",
        ("User-Agent: python-requests/2.11.1", "Accept-Encoding: gzip, deflate", ANY),
        empty=b"null",
        get_lines=(JSON,),
        create={"seed": 0},
        step={"render": False},
        monitor={"force": True, "resume": False, "video_callable": False},
    ),
    Recording(
        "Lua",
        ("User-Agent: LuaSocket 3.0-rc1", "Connection: close, TE", "TE: trailers"),
        empty=b'""',
        keep_alive=False,
        step={"render": "false", "video_callable": "false"},
        monitor={"force": "true", "resume": "false", "video_callable": "false"},
    ),
    Recording(
        "C++",
        (ANY,),
        slashes="none on spaces",
        pretty=True,
        step={"render": False},
        monitor={"force": True, "resume": False},
    ),
    Recording(
        "Go",
        ("User-Agent: Go-http-client/1.1", GZIP),
        empty=b"{}",
        step={"render": True},
        monitor={"force": True, "resume": False},
    ),
    Recording(
        "Ruby",
        (
            "Accept: */*; q=0.5, application/xml",
            "Accept-Encoding: gzip, deflate",
            "User-Agent: Ruby",
        ),
        empty=b'""',
        keep_alive=False,
    ),
    Recording(
        "JavaScript",
        ("Accept: application/json, text/plain, */*", "User-Agent: axios/0.14.0"),
        body_type="Content-Type: application/json;charset=utf-8",
        empty_type=FORM,
        keep_alive=False,
        step={"render": True},
    ),
    Recording(
        "R",
        (
            "User-Agent: libcurl/7.64.1 r-curl/4.3 httr/1.4.2",
            "Accept-Encoding: deflate, gzip",
            "Accept: application/json, text/xml, application/xml, */*",
        ),
        empty_type="",
        contains_slash=True,
        step={"instance_id": "3c657dbc", "render": False},
    ),
    Recording(
        "Clojure",
        ("User-Agent: Apache-HttpClient/4.5.2 (Java/1.8.0_111)", GZIP),
        keep_alive=False,
        monitor={"force": True, "video-callable": False},
    ),
    Recording(
        "Haskell",
        (GZIP,),
        empty_type="",
        no_content_lines=(HTML_204,),
        get_lines=("Accept: application/json;charset=utf-8,application/json",),
        slashes="none",
        suffix="?",
    ),
    Recording("Rust", empty=b"null", step={"render": True}),
    Recording(
        "Julia",
        empty=b"{}",
        get_lines=(JSON,),
        get_body=b"{}",
        step={"instance_id": "3c657dbc", "render": False},
    ),
    Recording(
        "Matlab",
        (
            "Accept: application/json, application/x-javascript, text/javascript, "
            "text/x-javascript, text/x-json",
            "User-Agent: MATLAB 9.1.0.441655 (R2016b)",
        ),
        body_type=JSON_UTF8,
        empty=b"[]",
        empty_type=JSON_UTF8,
    ),
    Recording(
        "Swift",
        ("Accept: application/json", "Accept-Language: en-us", "User-Agent: xctest"),
        get_lines=(JSON,),
    ),
    Recording("Wolfram", ("User-Agent: Wolfram HTTPClient 11.1.1",), empty=b"{}"),
    Recording(
        "C#",
        body_type=JSON_UTF8,
        empty_type="",
        slashes="none",
        expects_continue=True,
    ),
    Recording(
        "Java",
        ("User-Agent: Java/1.8.0_111", JAVA_ACCEPT, "Connection: keep-alive"),
        empty=b'{"instance_id":"3c657dbc"}',
        step={"render": True},
    ),
    Recording(
        "Java, Retrofit",
        ("Connection: Keep-Alive", GZIP, "User-Agent: okhttp/3.6.0"),
        body_type="Content-Type: application/json; charset=UTF-8",
        empty_type="",
    ),
    Recording(
        "Java, Spring",
        (
            *H2C,
            "User-Agent: Java-http-client/17.0.9",
            "Accept: application/json, application/*+json",
        ),
        empty_type="",
        chunks=True,
    ),
    Recording(
        "OCaml",
        ("User-Agent: ocaml-cohttp/5.0.0",),
        get_lines=(JSON,),
        chunks=True,
        create={"render_mode": None},
    ),
    Recording(
        "Scala",
        ("User-Agent: akka-http/10.0.3",),
        empty=b"{}",
        get_lines=(JSON,),
        get_body=b"{}",
    ),
    Recording(
        "Java, RL4J",
        ("User-Agent: unirest-java/1.3.11", GZIP, "Connection: Keep-Alive"),
        empty=b"{}",
        step={"render": False},
    ),
    Recording("Dart", ("User-Agent: Dart/2.0 (dart:io)", GZIP), body_type=JSON_UTF8),
    Recording("C++, GymRequests", (ANY,), empty=b"null", slashes="none on POST"),
    Recording(
        "F#",
        ("Accept-Encoding: gzip, deflate", "Connection: Keep-Alive"),
        expects_continue=True,
    ),
    Recording(
        "PHP",
        ("User-Agent: GuzzleHttp/6.2.1 curl/7.47.0 PHP/7.0.15",),
        action="1",
    ),
]
