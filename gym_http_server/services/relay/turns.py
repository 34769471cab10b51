"""Turns: whose request the relay executes next, and how many in one transaction.

The turns are a deficit round robin (Shreedhar and Varghese, 1995) of runs, and within a
run of its callers: in each round, all get the same time of the relay's thread. How long
a request takes is only known afterwards. So it is paid for then, whether it was
accepted, repeated or refused, and its caller waits until further rounds have paid.

Short requests are not answered after long ones: callers that have not spent their first
round come first, after them a transaction takes no others, and it begins no round after
its first request. A run that has spent its round, and then is the only one with
requests, leaves as much time to other runs that were active just before: their next
requests mostly follow an answer. What is owed stays when the requests are over, so that
this holds for callers that send one after the other, too.

This module does no I/O, and gets the time from its clock.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator
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
    """A run or a caller that has requests, or owes time.

    Attributes:
        waiting: Number of its requests.
        balance: Seconds that it may still take in this round.
        used: Seconds that it took.
        begun: `used` when its round began.
        rests_until: When it may begin a round though no other run has requests.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self.balance = ROUND_SECONDS
        self.used = 0.0
        self.begun = 0.0
        self.rests_until = -math.inf


_M = TypeVar("_M", bound=_Member)


class _Ring(Generic[_M]):
    """Members that take turns.

    Args:
        make: Makes a member.
    """

    def __init__(self, make: Callable[[], _M]) -> None:
        self._make = make
        self._members: dict[str, _M] = {}
        # Those that have requests, and have not spent their round, the next one first:
        # those in their first round, whose turn comes first, and then the others.
        self._new: OrderedDict[str, _M] = OrderedDict()
        self._ready: OrderedDict[str, _M] = OrderedDict()

    @property
    def spent(self) -> bool:
        """Whether all members that have requests have spent their round."""
        return not self._ready and not self._new

    def __iter__(self) -> Iterator[tuple[str, _M]]:
        """Iterate over the members that have requests, and their names."""
        return iter([each for each in self._members.items() if each[1].waiting])

    def add(self, name: str) -> _M:
        """Return a member that has another request, which may be new."""
        member = self._members.get(name)
        if member is None:
            member = self._members[name] = self._new[name] = self._make()
        elif member.balance > 0 and name not in self._new:
            self._ready[name] = member
        member.waiting += 1
        return member

    def next(self, *, begin: bool, new: bool = False) -> tuple[str, _M] | None:
        """Return the member whose turn it is, and its name.

        Args:
            begin: Whether rounds may begin. Then a member must have requests.
            new: Whether it must be in its first round.

        Returns:
            It, or ``None`` if there is none in this round.
        """
        while begin and self.spent:
            for name, member in list(self._members.items()):
                member.balance += ROUND_SECONDS
                if member.balance <= 0:
                    continue
                member.begun = member.used
                if member.waiting:
                    self._ready[name] = member
                else:
                    del self._members[name]
        ready = self._new if new or self._new else self._ready
        return next(iter(ready.items()), None)

    def is_new(self, name: str) -> bool:
        """Whether a member is in its first round."""
        return name in self._new

    def pay(self, name: str, seconds: float) -> _M:
        """Pay for a request of a member, which it no longer has; return the member."""
        member = self._members[name]
        member.waiting -= 1
        member.used += seconds
        member.balance = max(member.balance - seconds, -MOST_DEBT_SECONDS)
        ring = self._new if name in self._new else self._ready
        if member.balance > 0 and member.waiting:
            ring.move_to_end(name)
            return member
        ring.pop(name, None)
        if member.balance > 0:
            # One that owes stays, so that it is not new when it returns.
            del self._members[name]
        return member


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
        self.callers: _Ring[_Caller[_T]] = _Ring(_Caller)


class Turns(Generic[_T]):
    """The requests that wait to be executed.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting = 0
        self._used = 0.0
        self._runs: _Ring[_Run[_T]] = _Ring(_Run)
        # The run of the latest request, when it ended, and when one of another run did.
        self._latest = ""
        self._latest_at = self._other_at = -math.inf

    def __bool__(self) -> bool:
        """Whether requests wait."""
        return self._waiting > 0

    def add(self, run: str, caller: str, request: _T) -> None:
        """Add a request behind those of the same caller."""
        self._waiting += 1
        queue = self._runs.add(run).callers.add(caller)
        queue.requests.append((request, queue.used, self._used))

    def due(self) -> float:
        """Return the time from which `take` has a request, if any waits."""
        if not self._waiting or not self._runs.spent:
            return -math.inf
        name, run = next(iter(self._runs))
        others_at = self._other_at if name == self._latest else self._latest_at
        active = self._clock() - others_at < ACTIVE_SECONDS
        alone = run.waiting == self._waiting
        return run.rests_until if active and alone else -math.inf

    def take(self) -> Generator[RequestTurn[_T], None, None]:
        """Iterate over the requests of one transaction, each of which is taken.

        The time until the next one is taken is what a request costs.
        """
        began = now = self._clock()
        if not self._waiting or self.due() > now:
            return
        first, new = True, False
        while now - began < TRANSACTION_SECONDS:
            found = self._runs.next(begin=first)
            if found is None:
                return
            name, run = found
            of_run = run.callers.next(begin=first, new=new)
            if of_run is None:
                return
            caller_name, caller = of_run
            first, new = False, new or run.callers.is_new(caller_name)
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
        for name, run in self._runs:
            for caller_name, caller in run.callers:
                while caller.requests:
                    request, *_ = caller.requests.popleft()
                    self._pay(name, caller_name, 0.0, 0.0)
                    yield RequestTurn(request, False)

    def _pay(self, name: str, caller_name: str, began: float, end: float) -> None:
        """Pay for a request that was taken."""
        seconds = end - began
        self._waiting -= 1
        self._used += seconds
        if name != self._latest:
            self._latest, self._other_at = name, self._latest_at
        self._latest_at = end
        run = self._runs.pay(name, seconds)
        run.callers.pay(caller_name, seconds)
        if run.balance <= 0:
            run.rests_until = end + min(run.used - run.begun, MOST_REST_SECONDS)
