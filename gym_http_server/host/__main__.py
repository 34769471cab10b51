"""Starts a host in a fresh interpreter.

``python -m gym_http_server.host CHANNEL LISTENER START``: descriptors of two sockets
and of a file in memory that holds a `HostStart` as JSON.
"""

import os

# Before NumPy is imported: its libraries start a thread a core otherwise.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import socket
import sys

import msgspec

from gym_http_server.config.inherited_settings import read_and_close
from gym_http_server.host.process import HostStart, run
from gym_http_server.processes.titles import set_title

if __name__ == "__main__":
    channel, listener = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    start = msgspec.json.decode(read_and_close(int(sys.argv[3])), type=HostStart)
    # Some environments parse it.
    del sys.argv[1:]
    set_title(f"{start.instance_id} {start.request.env_id}")
    sys.exit(run(start, channel, listener))
