"""Turns: whose request the relay executes next, and how many in one transaction.

The turns are a deficit round robin (Shreedhar and Varghese, 1995) of runs, and within a
run of its callers: in each round, all get the same time of the relay's thread. How long
a request takes is only known afterwards. So it is paid for then, whether it was
accepted, repeated or refused, and its caller waits until further rounds have paid.

A transaction begins no round after its first request, so that short requests are not
answered after long ones. A run that has spent its round, and then is the only one with
requests, leaves as much time to other runs that were active just before: their next
requests mostly follow an answer.

This module does no I/O, and gets the time from its clock.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from typing import Generic, NamedTuple, TypeVar

__all__ = ["SHARE_SECONDS", "RequestTurn", "Turns"]

#: Seconds after which a transaction takes no further requests.
TRANSACTION_SECONDS = 0.05
#: Seconds that each run, and each caller, gets in a round.
ROUND_SECONDS = 0.02
#: The most that is owed, so that few rounds pay it.
MOST_DEBT_SECONDS = 0.25
#: The most that a run leaves to others at a time.
MOST_REST_SECONDS = 0.1
#: Seconds for which a run counts as active after a request.
ACTIVE_SECONDS = 0.25
#: Seconds that a caller's other requests may take while one of them waits.
SHARE_SECONDS = 0.1

_T = TypeVar("_T")


class RequestTurn(NamedTuple, Generic[_T]):
    """A request whose turn it is.

    Attributes:
        request: The request.
        over: Whether its caller had its share while it waited: others of its requests
            took `SHARE_SECONDS`, and there were requests of other callers.
    """

    request: _T
    over: bool


class _Member:
    """A run or a caller that has requests.

    Attributes:
        balance: Seconds that it may still take in this round.
        used: Seconds that it took since it last had no requests.
        begun: `used` when its round began.
        rests_until: When it may begin a round though it is the only run.
    """

    def __init__(self) -> None:
        self.balance = ROUND_SECONDS
        self.used = 0.0
        self.begun = 0.0
        self.rests_until = -math.inf

    def pay(self, seconds: float) -> None:
        """Pay for a request."""
        self.used += seconds
        self.balance = max(self.balance - seconds, -MOST_DEBT_SECONDS)


_M = TypeVar("_M", bound=_Member)


class _Ring(Generic[_M]):
    """Members that have requests, and take turns.

    Attributes:
        members: All of them, by name.
    """

    def __init__(self) -> None:
        self.members: dict[str, _M] = {}
        # Names of those that have not spent their round, the next one first.
        self._ready: OrderedDict[str, None] = OrderedDict()

    def add(self, name: str, member: _M) -> _M:
        """Add a member, which takes part in this round."""
        self._ready[name] = None
        self.members[name] = member
        return member

    def remove(self, name: str) -> None:
        """Remove a member."""
        del self.members[name]
        self._ready.pop(name, None)

    def next(self, *, begin: bool) -> str | None:
        """Return the name of the member whose turn it is.

        Args:
            begin: Whether rounds may begin.

        Returns:
            The name, or ``None`` if all have spent their round.
        """
        while begin and self.members and self.spent:
            for name, member in self.members.items():
                member.balance += ROUND_SECONDS
                if member.balance > 0:
                    member.begun = member.used
                    self._ready[name] = None
        return next(iter(self._ready), None)

    @property
    def spent(self) -> bool:
        """Whether all members have spent their round."""
        return not self._ready

    def pay(self, name: str, seconds: float) -> None:
        """Pay for a request of a member."""
        member = self.members[name]
        member.pay(seconds)
        if member.balance <= 0:
            self._ready.pop(name, None)
        else:
            self._ready.move_to_end(name)


class _Caller(_Member, Generic[_T]):
    """A caller.

    Attributes:
        requests: Its requests, each with the seconds that this caller and all callers
            had used when it came.
    """

    def __init__(self) -> None:
        super().__init__()
        self.requests: deque[tuple[_T, float, float]] = deque()


class _Run(_Member, Generic[_T]):
    def __init__(self) -> None:
        super().__init__()
        self.callers: _Ring[_Caller[_T]] = _Ring()


class Turns(Generic[_T]):
    """The requests that wait to be executed.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used = 0.0
        self._runs: _Ring[_Run[_T]] = _Ring()
        # The run of the latest request, when it ended, and when one of another run did.
        self._latest = ""
        self._latest_at = self._other_at = -math.inf

    def __bool__(self) -> bool:
        """Whether requests wait."""
        return bool(self._runs.members)

    def add(self, run: str, caller: str, request: _T) -> None:
        """Add a request behind those of the same caller."""
        callers = (self._runs.members.get(run) or self._runs.add(run, _Run())).callers
        queue = callers.members.get(caller) or callers.add(caller, _Caller())
        queue.requests.append((request, queue.used, self._used))

    def due(self) -> float:
        """Return the time from which `take` has a request, if any waits."""
        if len(self._runs.members) != 1 or not self._runs.spent:
            return -math.inf
        ((name, run),) = self._runs.members.items()
        others_at = self._other_at if name == self._latest else self._latest_at
        active = self._clock() - others_at < ACTIVE_SECONDS
        return run.rests_until if active else -math.inf

    def take(self) -> Generator[RequestTurn[_T], None, None]:
        """Iterate over the requests of one transaction, each of which is taken.

        The time until the next one is taken is what a request costs.
        """
        began = now = self._clock()
        if self.due() > now:
            return
        first = True
        while now - began < TRANSACTION_SECONDS:
            name = self._runs.next(begin=first)
            if name is None:
                return
            run = self._runs.members[name]
            caller_name = run.callers.next(begin=first)
            if caller_name is None:
                return
            first = False
            caller = run.callers.members[caller_name]
            request, own, total = caller.requests.popleft()
            own, total = caller.used - own, self._used - total
            try:
                yield RequestTurn(request, SHARE_SECONDS < own < total)
            finally:
                end = self._clock()
                self._pay(name, caller_name, now, end)
            now = end

    def drain(self) -> Generator[RequestTurn[_T], None, None]:
        """Iterate over all requests, which are taken without regard to turns."""
        while self._runs.members:
            name, run = next(iter(self._runs.members.items()))
            caller_name, caller = next(iter(run.callers.members.items()))
            request, *_ = caller.requests.popleft()
            self._pay(name, caller_name, 0.0, 0.0)
            yield RequestTurn(request, False)

    def _pay(self, name: str, caller_name: str, began: float, end: float) -> None:
        """Pay for a request that was taken."""
        seconds = end - began
        self._used += seconds
        if name != self._latest:
            self._latest, self._other_at = name, self._latest_at
        self._latest_at = end
        run = self._runs.members[name]
        run.callers.pay(caller_name, seconds)
        self._runs.pay(name, seconds)
        if run.balance <= 0:
            run.rests_until = end + min(run.used - run.begun, MOST_REST_SECONDS)
        if not run.callers.members[caller_name].requests:
            run.callers.remove(caller_name)
        if not run.callers.members:
            self._runs.remove(name)
