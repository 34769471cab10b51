"""Which processes may use the sockets of the run directory."""

import socket
import subprocess
import sys
from pathlib import Path

from gym_http_server.processes.peer_credentials import PeerCredentials

CALLER = """
import socket, sys
with socket.socket(socket.AF_UNIX) as sock:
    sock.connect(sys.argv[1])
    sock.recv(1)
"""


def test_a_caller_whose_session_has_lost_its_leader(tmp_path: Path) -> None:
    """As a launcher that nohup or Slurm started from a process that has ended."""
    path = str(tmp_path / "socket")
    with (
        subprocess.Popen(["cat"], stdin=subprocess.PIPE) as supervisor,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        listener.bind(path)
        listener.listen()
        words = ["sh", "-c", '"$@" &', "sh", sys.executable, "-c", CALLER, path]
        subprocess.run(words, start_new_session=True, check=True)
        with listener.accept()[0] as sock:
            assert PeerCredentials(supervisor.pid).permits(sock)
