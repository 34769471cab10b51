"""The rows of operations: what is made of them is up to date, and one row suffices."""

import subprocess
import sys

from tests.support.server import ROOT


def test_the_document_is_made_of_rows_and_words() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make_openapi.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (made.returncode, made.stdout, made.stderr) == (0, "", ""), made.stdout
