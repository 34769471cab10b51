"""Builds small C++ programs of the client, whose headers are compiled once per run.

A program takes a second then, instead of a dozen: nearly all of its time went into the
header that it includes.
"""

import re
import subprocess
from pathlib import Path

from tests.support import run_locks
from tests.support.drivers import CLIENTS

_INCLUDE = re.compile(r"^#include <(gym_http_client.*)>$", re.MULTILINE)
# Clang is faster than GCC. The flags with which a header was compiled must be those of
# all programs, but for warnings.
_CLANG = ("clang++", "-std=c++17", "-pthread", "-I", str(CLIENTS / "cpp/include"))
_HEADER = ("-fpch-instantiate-templates", "-fpch-codegen", "-x", "c++-header")
# The object has all functions of the header, also those that cannot be linked.
_LIBRARIES = ("-lcurl", "-ldl", "-Wl,--gc-sections")


def build(source: Path, program: Path, *warnings: str) -> None:
    """Build a program of one file, which includes one header of the client.

    It sees what that header includes also before its other headers, which follow.
    """
    (header,) = _INCLUDE.findall(source.read_text(encoding="utf-8"))
    compiled, functions = _compiled(header)
    words = [*_CLANG, *warnings, "-include-pch", compiled, source, functions]
    _run(*words, "-o", program, *_LIBRARIES)


def _compiled(header: str) -> tuple[Path, Path]:
    """Return a header in Clang's form, and an object with its functions."""
    folder = run_locks.folder() / "cpp" / header.replace("/", "-")
    compiled, functions = folder / "header.pch", folder / "header.o"
    with run_locks.exclusive(folder.name):
        if not functions.exists():
            folder.mkdir(parents=True, exist_ok=True)
            _run(*_CLANG, *_HEADER, CLIENTS / "cpp/include" / header, "-o", compiled)
            _run(*_CLANG, "-c", compiled, "-o", functions)
    return compiled, functions


def _run(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, f"{words}\n{done.stderr[-8000:]}"
