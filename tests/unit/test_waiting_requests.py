"""Requests that wait for a clock, and the modules that only their hosts load."""

import subprocess
import sys

from gym_http_server.host.realtime.line import Line, Waiting
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op


def waiting(sender: str, session: str, number: int, op: Op = Op.STEP) -> Waiting[str]:
    """Return a request that waits."""
    return Waiting(sender, Frame(op, number), session, False, session)


def test_requests_of_one_session_keep_their_order_and_others_pass() -> None:
    line: Line[str] = Line()
    for each in (
        waiting("a", "s", 1),
        waiting("a", "s", 2, Op.RENDER),
        waiting("b", "", 1),
        waiting("c", "", 2, Op.RENDER),
    ):
        line.add(each)

    def renders(each: Waiting[str]) -> bool:
        return each.frame.kind == Op.RENDER

    first = line.take(renders)
    assert first is not None
    assert first.sender == "c"
    assert line.take(renders) is None
    step = line.take(lambda each: True)
    assert step is not None
    assert (step.sender, step.frame.number) == ("a", 1)
    second = line.take(renders)
    assert second is not None
    assert (second.session, second.frame.number) == ("s", 2)
    assert [each.sender for each in line.requests] == ["b"]


def test_requests_of_a_client_that_left_are_dropped() -> None:
    line: Line[str] = Line()
    for number, sender in enumerate(("a", "b", "a")):
        line.add(waiting(sender, "", number))
    assert line.count("a") == 2
    line.drop("a")
    assert [each.sender for each in line.take_all()] == ["b"]
    assert not line.requests


def test_hosts_without_a_clock_load_nothing_of_real_time() -> None:
    program = (
        "import sys, gym_http_server.supervisor.__main__\n"
        "from gym_http_server.host import process\n"
        "process.warm_up()\n"
        "print([name for name in sys.modules if 'server.host.realtime' in name])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
