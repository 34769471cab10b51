"""A host in a fresh interpreter.

``python -m gym_http_server.envhost CHANNEL LISTENER START``: two descriptors of
sockets and a `HostStart` in JSON.
"""

import os

# Before NumPy is imported: its libraries start a thread a core otherwise.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import socket
import sys

import msgspec

from gym_http_server.envhost.process import HostStart, run

if __name__ == "__main__":
    channel, listener = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    start = msgspec.json.decode(sys.argv[3], type=HostStart)
    sys.exit(run(start, channel, listener))
