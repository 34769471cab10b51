"""The Chromium of the tests leaves no files behind."""

import os
import tempfile

import pytest

from tests.support.peers import chromium

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(60)]


def test_a_browser_that_is_killed_leaves_no_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The path of Chromium's socket must be short.
    with tempfile.TemporaryDirectory(prefix="ghst-", dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        chromium.end_idle()
        with chromium.Chromium() as page:
            assert page.run("6 * 7") == 42
        chromium.end_idle()
        assert os.listdir(folder) == []
