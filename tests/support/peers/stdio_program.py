"""A command for ``--env-command``: counts steps, or misbehaves as its argument says.

It uses only the standard library, and speaks the protocol in plain JSON.
"""

import json
import os
import select
import shlex
import struct
import subprocess
import sys
import time

SPACE = {"type": "Discrete", "n": 1000}
HELLO = {
    "type": "hello",
    "protocol": 1,
    "name": "another",
    "observation_space": SPACE,
    "action_space": {"type": "Discrete", "n": 2},
    "capabilities": ["reset", "seed"],
}


def send(message: object) -> None:
    data = json.dumps(message).encode()
    os.write(1, struct.pack("<I", len(data)) + data)


def receive() -> dict:  # type: ignore[type-arg]
    size = read(4)
    return json.loads(read(struct.unpack("<I", size)[0]))  # type: ignore[no-any-return]


def read(size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            os._exit(0)
        data += more
    return data


def begin(how: str) -> None:
    """Send the hello, or something else in its place."""
    hello = dict(HELLO)
    if how == "ends":
        print("no module named simulator", file=sys.stderr)
        sys.exit(3)
    if how == "silent":
        print("still loading", file=sys.stderr, flush=True)
        time.sleep(600)
    if how == "banner":
        print("Welcome to the simulator 3.1, built for speed", flush=True)
        time.sleep(600)
    if how == "huge":
        os.write(1, struct.pack("<I", 300 * 1024 * 1024) + b"{" * 100)
        time.sleep(600)
    if how == "no-spaces":
        hello["action_space"] = {"type": "Nothing"}
    if how == "deaf":
        # An action has more bytes than the buffers between host and command.
        hello["action_space"] = {"type": "MultiBinary", "n": 1_000_000}
    if how == "slow":
        time.sleep(0.5)
    if how == "leaves":
        # As the monitor of a container: it tidies up when this process has ended.
        tidy = shlex.join([sys.executable, "-c", f"open({sys.argv[2]!r}, 'w')"])
        reader, _ = os.pipe()
        shell = ["setsid", "--fork", "sh", "-c", f"cat; {tidy}"]
        subprocess.run(shell, stdin=reader, stdout=2, check=True)
    send(hello)


def answer(how: str, kind: str, place: int) -> dict:  # type: ignore[type-arg]
    """Return the result of a request, or misbehave."""
    if kind == "reset":
        names = ("NAME", "ENV_ID", "STDIO")
        environ = {name: os.environ.get("GYM_EXTERNAL_" + name) for name in names}
        descriptors = sorted(map(int, os.listdir("/proc/self/fd")))
        # The last one is that of the listing itself.
        info = {"environ": environ, "descriptors": descriptors[:-1], "pid": os.getpid()}
        return {"observation": 0, "info": info}
    if kind == "step":
        misbehave(how)
        over = place == 5
        return {
            "observation": place,
            "reward": 1,
            "terminated": over,
            "truncated": False,
        }
    return {}


def misbehave(how: str) -> None:
    if how == "killed":
        print("about to crash", file=sys.stderr, flush=True)
        os.kill(os.getpid(), 9)
    elif how == "closes":
        print("bye", file=sys.stderr, flush=True)
        os.close(1)
        time.sleep(600)
    elif how == "prints":
        print("a debug message of this step", flush=True)
        # Until the host reads no more.
        output = select.poll()
        output.register(1, 0)
        output.poll()
        print("nobody listens to me", file=sys.stderr, flush=True)
        os._exit(5)
    elif how == "children":
        # In a session of its own, and with nothing of its parent's open.
        subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=2)
    elif how == "hangs":
        time.sleep(600)


def main() -> None:
    how = sys.argv[1] if len(sys.argv) > 1 else ""
    begin(how)
    place = 0
    while True:
        request = receive()
        if request["type"] == "ping":
            send({"type": "pong"})
        if "id" not in request or request["type"] == "fault":
            continue
        place = place + 1 if request["type"] == "step" else 0
        result = answer(how, request["type"], place)
        send({"id": request["id"], "result": result})
        if how == "deaf" and request["type"] == "reset":
            time.sleep(600)


if __name__ == "__main__":
    main()
