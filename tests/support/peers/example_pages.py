"""Serves the pages of the examples, each on a separate port."""

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.drivers import needs


@contextlib.contextmanager
def served_page(program: Path) -> Iterator[str]:
    """Run the program that serves a page, and return the page's origin."""
    needs("node", "chromium")
    with subprocess.Popen(
        ["node", str(program), "0"], stdout=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stdout
        found = re.search(r"--allow-origin (\S+)", serving.stdout.readline())
        assert found
        try:
            yield found[1]
        finally:
            serving.terminate()
