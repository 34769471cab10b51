"""Builds small C++ programs of the client, whose headers are compiled once per run.

A program takes a second then, instead of a dozen: nearly all of its time went into the
headers that it includes.
"""

import re
import subprocess
from pathlib import Path

from tests.support import run_locks
from tests.support.drivers import CLIENTS

STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
#: What programs include, and which other one of these is a part of it.
HEADERS = {
    "gym_http_client/stream.hpp": "gym_http_client.hpp",
    "gym_http_client/serve.hpp": "gym_http_client.hpp",
    "gym_http_client.hpp": None,
}

_INCLUDE = re.compile(r"^#include <(gym_http_client.*)>$", re.MULTILINE)
# Clang is faster than GCC. The flags with which a header was compiled must be those of
# all programs, but for warnings.
_CLANG = ("clang++", "-std=c++17", "-pthread", "-I", str(CLIENTS / "cpp/include"))
_HEADER = ("-fpch-instantiate-templates", "-fpch-codegen", "-x", "c++-header")
# The objects have all functions of the headers, also those that cannot be linked.
_LIBRARIES = ("-lcurl", "-ldl", "-Wl,--gc-sections")


def build(source: Path, program: Path, *flags: str | Path) -> None:
    """Build a program of one file, and of objects among the flags.

    It sees what the first of ``HEADERS`` that it includes contains also before its
    other headers, which follow.
    """
    header = _first_header(source)
    objects: list[Path] = []
    part: str | None = header
    while part is not None:
        objects.append(functions(part))
        part = HEADERS[part]
    words = [*_CLANG, *flags, "-include-pch", _compiled(header), source, *objects]
    _run(*words, "-o", program, *_LIBRARIES)


def build_object(source: Path, made: Path, *warnings: str) -> None:
    """Compile a file, to be linked with a program that includes the same header."""
    header = _first_header(source)
    words = [*_CLANG, *warnings, "-include-pch", _compiled(header), "-c", source]
    _run(*words, "-o", made)


def functions(header: str) -> Path:
    """Return an object with the functions of a header, without those of its part."""
    compiled = _compiled(header)
    made = compiled.with_suffix(".o")
    with run_locks.exclusive(f"cpp-{made.parent.name}"):
        if not made.exists():
            _run("clang++", "-pthread", "-c", compiled, "-o", made)
    return made


def _first_header(source: Path) -> str:
    included = _INCLUDE.findall(source.read_text(encoding="utf-8"))
    return next(header for header in HEADERS if header in included)


def _compiled(header: str) -> Path:
    """Return a header in Clang's form, which refers to that of its part."""
    compiled = run_locks.folder() / "cpp" / header.replace("/", "-") / "header.pch"
    part = HEADERS[header]
    before = ["-include-pch", _compiled(part)] if part else []
    with run_locks.exclusive(f"cpp-{compiled.parent.name}"):
        if not compiled.exists():
            compiled.parent.mkdir(parents=True, exist_ok=True)
            source = CLIENTS / "cpp/include" / header
            words = [*_CLANG, *STRICT, "-Wshadow", *before, *_HEADER, source]
            _run(*words, "-o", compiled)
    return compiled


def _run(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, f"{words}\n{done.stderr[-8000:]}"
