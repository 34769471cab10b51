"""The real nginx, with a configuration of ``deploy``, before servers of a test."""

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.drivers import needs
from tests.support.server import ROOT, Server, free_port
from tests.support.wait import wait_until

#: What nginx needs outside of all blocks.
OUTSIDE = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/errors;
"""
#: What it needs in the block of HTTP, with all files in the test's folder.
WITHIN = """
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
"""


@contextlib.contextmanager
def nginx(folder: Path, configuration: str, port: int) -> Iterator[None]:
    """Run nginx until the block ends; skip the test where there is none.

    Args:
        folder: Of its files.
        configuration: The whole of it; ``{folder}`` is replaced.
        port: It listens there.
    """
    with pytest.MonkeyPatch.context() as patch:
        # Debian puts it where only root looks for programs.
        patch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
        needs("nginx")
        path = folder / "main.conf"
        path.write_text(configuration.replace("{folder}", str(folder)))
        command = ["nginx", "-p", str(folder), "-c", str(path)]
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(
                [*command, "-e", str(folder / "errors")], stdout=output, stderr=output
            )
    try:
        wait_until(lambda: _listens(process, port, folder), 20.0, "nginx")
        yield
    finally:
        process.terminate()
        process.wait(10)


def _listens(process: subprocess.Popen[bytes], port: int, folder: Path) -> bool:
    assert process.poll() is None, (folder / "output").read_text()
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    return False


@contextlib.contextmanager
def round_robin(folder: Path, servers: list[Server]) -> Iterator[int]:
    """Run nginx before a fleet, as ``deploy/compose`` does; yield its port."""
    port = free_port()
    text = (ROOT / "deploy" / "compose" / "nginx.conf").read_text()
    upstream = "".join(f"server 127.0.0.1:{each.port}; " for each in servers)
    for old, new in (
        ("    resolver 127.0.0.11 valid=2s;", WITHIN),
        ("server gym:5000 resolve;", upstream),
        ("listen 5000;", f"listen 127.0.0.1:{port};"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    with nginx(folder, OUTSIDE + text, port):
        yield port
