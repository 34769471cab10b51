"""The trials that a process serves before it has an instance."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import gc, os
import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gym_http_server.host import process

threads = os.listdir("/proc/self/task")
calls = []
for name in ("reset", "step", "close"):
    def note(self, *args, name=name, method=getattr(CartPoleEnv, name), **kwargs):
        calls.append(name)
        return method(self, *args, **kwargs)
    setattr(CartPoleEnv, name, note)
process.warm_up()
held = os.listdir("/proc/self/fd")
process.warm_up()
gc.collect()
print(calls == 2 * ["reset", *6 * ["step"], "close"])
print(os.listdir("/proc/self/fd") == held)
print(os.listdir("/proc/self/task") == threads)
"""


def test_a_trial_serves_an_environment_and_leaves_nothing_behind() -> None:
    assert run_strictly(PROGRAM).split() == ["True"] * 3


MEMORY = """
import os, re
import gymnasium.envs.classic_control, gymnasium.wrappers
import gym_http_server.supervisor.supervisor
from gym_http_server.host import process
from gym_http_server.supervisor import prefork

def own_kib():
    with open("/proc/self/smaps_rollup") as file:
        return int(re.search(r"Private_Dirty: +(\\d+)", file.read())[1])

def in_child(run):
    pid = os.fork()
    if not pid:
        run()
        os._exit(0)
    os.waitpid(pid, 0)

def host():
    process.warm_up()
    print(own_kib(), flush=True)

def fork_server(gathers, suspends):
    if suspends:
        prefork.suspend_fork_hooks()
    if gathers:
        prefork.gather_code(process.warm_up)
    else:
        process.warm_up()
    for _ in range(8):
        process.warm_up()
    in_child(host)

prefork.arrange_memory()
for choice in ((False, False), (True, False), (True, True)):
    in_child(lambda: fork_server(*choice))
"""


def test_hosts_share_more_memory_if_less_of_it_is_used() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True
    )
    scattered, gathered, without_hooks = map(int, done.stdout.split())
    assert gathered < scattered - 200
    assert without_hooks < gathered - 100


FORKS = """
import os, random, threading
from gym_http_server.supervisor import prefork

ran = []
os.register_at_fork(after_in_child=lambda: ran.append("ours"))
random.seed(1)

def fork():
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    with threading.Lock(), threading.Condition():
        first = threading.main_thread()
        second = threading.Thread(target=lambda: ran.append("thread"))
        second.start()
        second.join()
    print(random.random(), *ran, first is threading.current_thread(), flush=True)
    os._exit(0)

prefork.arrange_memory()
prefork.suspend_fork_hooks()
for _ in range(2):
    fork()
prefork.resume_fork_hooks()
for _ in range(2):
    fork()
"""


def test_only_hooks_of_python_itself_are_suspended() -> None:
    lines = run_strictly(FORKS).splitlines()
    draws, rest = zip(*(line.split(maxsplit=1) for line in lines), strict=True)
    assert rest == ("ours thread True",) * 4
    # Python's own hook seeds the generator.
    assert draws[0] == draws[1]
    assert len(set(draws)) == 3


GATHERED = """
import sys
from gym_http_server.supervisor import prefork
import shapes

before = [each.__code__ for each in shapes.FUNCTIONS]
prefork.gather_code(shapes.run)
after = [each.__code__ for each in shapes.FUNCTIONS]
print(before == after, [a is b for a, b in zip(before, after)])
print(shapes.run(), sys.getprofile())
"""
SHAPES = """
class Square:
    def __init__(self, side): self.side = side
    @property
    def area(self): return self.side * self.side
    @classmethod
    def unit(cls): return cls(1)
    @staticmethod
    def corners(): return 4

def unused(): pass

def run():
    inner = lambda: 3
    return Square.unit().area, Square.corners(), inner()

FUNCTIONS = [
    run, Square.__init__, Square.__dict__["area"].fget,
    Square.__dict__["unit"].__func__, Square.corners, unused,
]
"""


def test_functions_whose_code_moved_do_the_same(tmp_path: Path) -> None:
    (tmp_path / "shapes.py").write_text(SHAPES)
    done = subprocess.run(
        [sys.executable, "-c", GATHERED],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    moved, result = done.stdout.splitlines()
    assert moved == "True [False, False, False, False, False, True]"
    assert result == "(1, 4, 3) None"


def test_an_environment_of_a_module_is_not_tried() -> None:
    program = (
        "import gymnasium\n"
        "from gym_http_server.host import process\n"
        "gymnasium.envs.registration.registry['CartPole-v1'].entry_point = print\n"
        "process.warm_up()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""


def run_strictly(program: str) -> str:
    """Run a program in which warnings are errors; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout
