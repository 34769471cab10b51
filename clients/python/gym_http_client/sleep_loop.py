"""A loop that sleeps to the deadlines of a grid, with nothing beside it.

``python sleep_loop.py HZ SECONDS SLACK_NS`` prints p50, p99 and max of its lateness in
ms. `gym_http_client.jitter` runs it as a file, so that nothing else is imported. A
slack of 0 leaves the timer slack as the system has it, 50,000 ns.
"""

import ctypes
import sys
import time

_PR_SET_TIMERSLACK = 29


def main() -> None:
    """Sleep, and print the figures."""
    hz, seconds, slack_ns = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    if slack_ns:
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(slack_ns))
    period = round(1e9 / hz)
    begin = time.monotonic_ns()
    late = []
    for count in range(1, max(1, round(hz * seconds)) + 1):
        due = begin + count * period
        wait = due - time.monotonic_ns()
        if wait > 0:
            time.sleep(wait / 1e9)
        late.append((time.monotonic_ns() - due) / 1e6)
    late.sort()
    print(late[len(late) // 2], late[int(len(late) * 0.99)], late[-1])


if __name__ == "__main__":
    main()
