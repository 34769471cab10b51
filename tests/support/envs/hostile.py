"""Environments that misbehave at action 1; action 0 is harmless.

A server loads this module with ``--import tests.support.envs.hostile``.
"""

import contextlib
import ctypes
import mmap
import multiprocessing
import os
import signal
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from gym_http_wire.values import binary

#: Prints the IDs of a daemon and of its child, each in a session of its own.
NESTED_DAEMONS = """
import os, time
if os.fork(): os._exit(0)
os.setsid()
child = os.fork()
if child: print(os.getpid(), child, flush=True)
else: os.setsid()
os.close(1)
time.sleep(600)
"""
DAEMON = "import os,time\nif os.fork(): os._exit(0)\nos.setsid()\ntime.sleep(600)"


class Hostile(gymnasium.Env[Any, Any]):
    """The base class, which is harmless; subclasses override what they misuse."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Discrete(1000)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return 0, {"pid": os.getpid()}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        info = self.misbehave() if action else None
        return self.steps, 1.0, False, False, info or {}

    def misbehave(self) -> dict[str, Any] | None:
        """Misbehave; called by action 1."""
        return None


class ManyFiles(Hostile):
    """Leaves many files, and directories without permissions."""

    def __init__(self, count: int = 200_000, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.count = count

    def misbehave(self) -> None:
        for start in range(0, self.count, 10_000):
            folder = f"files{start}"
            os.mkdir(folder)
            # A file system may allow 65,000 links of one file.
            os.close(os.open(f"{folder}/0", os.O_CREAT))
            for number in range(1, 10_000):
                os.link(f"{folder}/0", f"{folder}/{number}")
            os.chmod(folder, 0o555 if start else 0)


class Prints(Hostile):
    """Prints a line."""

    def misbehave(self) -> None:
        print("said aloud", flush=True)


class Segfault(Hostile):
    """Reads memory that is not mapped."""

    def misbehave(self) -> None:
        print("about to read address 0", flush=True)
        ctypes.string_at(0)


class Exit0(Hostile):
    """Ends the process with status 0."""

    def misbehave(self) -> None:
        os._exit(0)


class SystemExits(Hostile):
    """Raises `SystemExit`, which is no `Exception`."""

    def misbehave(self) -> None:
        sys.exit("enough")


class Interrupts(Hostile):
    """Raises `KeyboardInterrupt`, as if somebody had pressed Ctrl-C."""

    def misbehave(self) -> None:
        raise KeyboardInterrupt


class Abort(Hostile):
    """Aborts the process."""

    def misbehave(self) -> None:
        os.abort()


class KillSelf(Hostile):
    """Kills its own process with SIGKILL."""

    def misbehave(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class RealTimeSignal(Hostile):
    """Kills its own process with a signal that has no name."""

    def misbehave(self) -> None:
        os.kill(os.getpid(), signal.SIGRTMIN + 6)


class IgnoreChildren(Hostile):
    """Lets the kernel forget how children ended; kills its own process, too."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    def misbehave(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Loop(Hostile):
    """Loops forever in Python."""

    def misbehave(self) -> None:
        while True:
            pass


class GilLoop(Hostile):
    """Loops forever in C, and holds the interpreter's lock."""

    def misbehave(self) -> None:
        ctypes.PyDLL(None).sleep(600)


class Leak(Hostile):
    """Allocates memory and writes to it."""

    def misbehave(self) -> None:
        hoard = [np.ones(32 << 20, np.uint8) for _ in range(64)]
        time.sleep(600)
        del hoard


class IgnoreTerm(Hostile):
    """Ignores SIGTERM, and does not return from its close."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def close(self) -> None:
        time.sleep(600)


class Children(Hostile):
    """Starts processes: a plain one, and one that leaves session and parent."""

    def misbehave(self) -> dict[str, Any]:
        plain = subprocess.Popen([sys.executable, "-c", "import time;time.sleep(600)"])
        subprocess.run([sys.executable, "-c", DAEMON], check=True)
        return {"plain": plain.pid}


class CutName(Hostile):
    """Starts a process with a name that the kernel cuts in a character."""

    def misbehave(self) -> None:
        name = os.path.join(os.getcwd(), "umgebung-1äöüß")
        os.symlink("/bin/sleep", name)
        subprocess.Popen([name, "600"])


class Daemonise(Hostile):
    """Starts a process that leaves session, parent and environment variables."""

    def misbehave(self) -> dict[str, Any]:
        started = subprocess.run(
            ["/bin/sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"],
            env={"PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            check=True,
        )
        return {"daemon": int(started.stdout)}


class LeaksShared(Hostile):
    """Allocates memory that it could share with another process, without end."""

    def misbehave(self) -> None:
        kept = []
        while True:
            kept.append(mmap.mmap(-1, 16 << 20))
            kept[-1].write(bytes(16 << 20))


class ForgesResults(Hostile):
    """Writes a result of its own to all pipes, and ends."""

    def misbehave(self) -> None:
        body = binary.encode({"error": 5, "plain": 7})
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if stat.S_ISFIFO(os.fstat(int(name)).st_mode) and int(name) > 2:
                    os.write(int(name), struct.pack("<Q", len(body)) + body)
        os._exit(3)


class DiesBesideItsFork(Hostile):
    """Leaves a fork, which has its descriptors, and ends."""

    def misbehave(self) -> None:
        if os.fork():
            os._exit(3)
        os.setsid()
        time.sleep(600)


class OutlivesBranches(Hostile):
    """Starts daemons, and returns their states when no other branch lives."""

    def misbehave(self) -> dict[str, Any]:
        daemon = subprocess.run(
            [sys.executable, "-c", NESTED_DAEMONS],
            stdout=subprocess.PIPE,
            check=True,
        )
        parent = os.getppid()
        siblings = f"/proc/{parent}/task/{parent}/children"
        while Path(siblings).read_text().split() != [str(os.getpid())]:
            time.sleep(0.01)
        pids = [int(each) for each in daemon.stdout.split()]
        states = [Path(f"/proc/{pid}/stat").read_text().split()[2] for pid in pids]
        return {"daemons": pids, "states": states}


class ForkReturns(Hostile):
    """Forks, and both processes go on."""

    def __init__(self, when: str = "step", render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        if when == "init":
            os.fork()

    def misbehave(self) -> None:
        os.fork()


class ForkEnds(Hostile):
    """Forks a process that does some work and ends normally."""

    def misbehave(self) -> dict[str, Any]:
        pid = os.fork()
        if pid == 0:
            os._exit(7)
        return {"status": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}


class Spam(Hostile):
    """Prints 100 MB."""

    def misbehave(self) -> None:
        line = "x" * (1 << 20)
        for _ in range(100):
            print(line)


class Burst(Hostile):
    """Prints 1.5 GB, then one last line, and aborts."""

    def misbehave(self) -> None:
        block = b"x" * (1 << 20)
        for _ in range(1500):
            os.write(1, block)
        print("the last word", file=sys.stderr)
        os.abort()


class RaiseKeyError(Hostile):
    """Raises a `KeyError`."""

    def misbehave(self) -> None:
        raise KeyError("no such thing")


class RaiseEOFError(Hostile):
    """Raises an `EOFError`, as a broken pipe does."""

    def misbehave(self) -> None:
        raise EOFError("no more input")


class HugeAnswer(Hostile):
    """Returns more than the limit of an answer's size."""

    def misbehave(self) -> dict[str, Any]:
        return {"much": "x" * (80 << 20)}


class CloseDescriptors(Hostile):
    """Closes descriptors that it does not own."""

    def misbehave(self) -> None:
        os.closerange(3, 256)


class ReadEnvironment(Hostile):
    """Returns its environment variables and its working directory."""

    def misbehave(self) -> dict[str, Any]:
        return {"environ": dict(os.environ), "cwd": os.getcwd()}


class Slow(Hostile):
    """Takes steps slowly."""

    def __init__(self, seconds: float = 2.0, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.seconds = seconds

    def misbehave(self) -> None:
        time.sleep(self.seconds)


class SlowInit(Hostile):
    """Takes long to be created."""

    def __init__(self, seconds: float = 120.0, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        time.sleep(seconds)


class DiesInWorker(Hostile):
    """Kills its process when it is created, if that is a worker of a vector."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        if multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)


class FailInit(Hostile):
    """Raises an exception when it is created."""

    def __init__(self, how: str = "raise", render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        if how == "die":
            ctypes.string_at(0)
        raise RuntimeError("not today")


for _kind in Hostile.__subclasses__():
    gymnasium.register(f"hostile/{_kind.__name__}-v0", _kind)
gymnasium.register("hostile/Harmless-v0", Hostile)
