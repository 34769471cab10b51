"""The server names a module that it cannot import, with the reason, in one line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.server import Server

WORDLESS = """
class Wordless(Exception):
    def __str__(self):
        raise RuntimeError
raise Wordless
"""


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import os; os._exit(3)", "it ended the process (exit status 3)"),
        ("import os; os.kill(os.getpid(), 40)", "it ended the process (signal 40)"),
        ("import sys; sys.exit(4)", "SystemExit: 4"),
        ("raise ValueError('half: \\ud800')", "ValueError: half: ?"),
        (WORDLESS, "Wordless: <exception str() failed>"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named(
    launch_server: Callable[..., Server], tmp_path: Path, source: str, reason: str
) -> None:
    (tmp_path / "odd_module.py").write_text(source)
    server = launch_server("--import", "odd_module", python_path=(tmp_path,))
    assert server.wait_exit() == 1
    output = "gym-http-server: cannot import the module 'odd_module': "
    (line,) = [each for each in server.stderr.splitlines() if each.startswith(output)]
    assert reason in line
