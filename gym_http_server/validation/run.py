"""Runs the checks, and closes all of their instances on the server."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase

from gym_http_server.errors import StartError
from gym_http_server.validation.calls import Address, CallFailed
from gym_http_server.validation.checks import Check, CheckGroup
from gym_http_server.validation.document import Document
from gym_http_server.validation.expectations import Absent, Mismatch
from gym_http_server.validation.groups import (
    commands,
    environments,
    errors,
    external,
    handshakes,
    http,
    legacy,
    realtime,
    runs,
    server,
    steps,
    streams,
    transcripts,
    values,
)
from gym_http_server.validation.target import CART_POLE, Target
from gym_http_server.validation.websocket import Closed

__all__ = ["RIGHT", "WRONG", "validate"]

#: The groups, in the order in which they run.
GROUPS = (
    server.SERVER,
    server.DOCUMENT,
    legacy.GROUP,
    steps.NEWER,
    errors.GROUP,
    http.HTTP,
    steps.KEYS,
    values.VALUES,
    values.NUMBERS,
    values.SPACES,
    values.ELEMENTS,
    values.MALFORMED,
    *transcripts.GROUPS,
    handshakes.HANDSHAKES,
    streams.STREAMS,
    *streams.BINARY_GROUPS,
    steps.BATCHES,
    environments.INTERNALS,
    environments.RENDER,
    environments.VECTORS,
    handshakes.TICKETS,
    realtime.REAL_TIME,
    runs.RUNS,
    *server.INSTANCE_GROUPS,
    external.EXTERNAL,
    external.FAILURES,
    *external.MESSAGE_GROUPS,
    commands.COMMANDS,
)

RIGHT, WRONG = 0, 1
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Errors that answers of an unexpected structure can raise.
_UNFORESEEN = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
#: The group of mismatches between answers and the document, reported in the end.
ANSWERS = "answers"


PASSED, FAILED, ABSENT = "passed", "failed", "absent"


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes:
        id: The check.
        result: `PASSED`, `FAILED` or `ABSENT`.
        expected: The expected answer, if it failed.
        actual: The answer, if it failed; if absent, how the server shows that.
    """

    id: str
    result: str
    expected: str = ""
    actual: str = ""


class Report:
    """Collects the results of checks, and prints lines about them.

    Args:
        print_line: Prints a line.
        busy: Shows the current group, on a terminal.
    """

    def __init__(
        self,
        print_line: Callable[[str], object],
        busy: Callable[[str], object] | None = None,
    ) -> None:
        self.outcomes: list[CheckResult] = []
        self._print_line = print_line
        self.begin = busy or (lambda name: None)

    @property
    def counts(self) -> Counter[str]:
        """How many checks ended in which way."""
        return Counter(outcome.result for outcome in self.outcomes)

    @property
    def summary(self) -> str:
        """A summary in one line."""
        counts = self.counts
        return ", ".join(f"{counts[each]} {each}" for each in (PASSED, FAILED, ABSENT))

    def group(self, name: str, outcomes: list[CheckResult]) -> None:
        """Add the results of a group; print a line for it and for each failure."""
        self.outcomes += outcomes
        counts = Counter(outcome.result for outcome in outcomes)
        actual = [f"{counts[each]} {each}" for each in (PASSED, FAILED, ABSENT)]
        kept = [words for words in actual if not words.startswith("0 ")]
        self._print_line(f"{name:<14} {', '.join(kept) or 'nothing to check'}")
        for outcome in outcomes:
            if outcome.result == FAILED:
                self._print_line(f"  WRONG {outcome.id}")
                self._print_line(f"    expected {outcome.expected}")
                self._print_line(f"    actual   {outcome.actual}")
            elif outcome.result == ABSENT:
                self._print_line(f"  absent {outcome.id}: {outcome.actual}")

    def to_json(self, url: str) -> dict[str, object]:
        """Return the report for a program.

        Args:
            url: The server, without a token.
        """
        counts = self.counts
        return {
            "url": url,
            "passed": counts[PASSED],
            "failed": counts[FAILED],
            "absent": counts[ABSENT],
            "checks": [asdict(outcome) for outcome in self.outcomes],
        }


def validate(
    address: Address,
    *,
    only: Iterable[str],
    env_id: str = "",
    as_json: bool,
    timeout_s: float,
    behind_proxy: bool = False,
) -> int:
    """Check a server and print the results.

    Args:
        address: The server.
        only: Names of groups, or patterns of the IDs of checks; all if empty.
        env_id: The environment that the server has; "" is CartPole-v1.
        as_json: Print the report as JSON, and the progress on stderr.
        timeout_s: For each call.
        behind_proxy: Leave out what a proxy before the server refuses itself.

    Returns:
        The exit status: `RIGHT`, or `WRONG` if a check failed.

    Raises:
        StartError: The server does not answer, it cannot make the environment, or
            `only` matches no check.
    """
    print_line = _line_printer(as_json)
    target = Target(address, timeout_s, env_id or CART_POLE, behind_proxy=behind_proxy)
    chosen = _chosen(list(only))
    _greet(target)
    if env_id:
        _check_env(target)
    report = Report(print_line, busy=None if as_json else _busy)
    print_line(f"Checking {address.url}\n")
    leave = _interrupt_handler(target)
    before = {each: signal.signal(each, leave) for each in _ENDINGS}
    try:
        for group, checks in chosen:
            if checks:
                report.begin(group.name)
                report.group(group.name, _run(target, group, checks))
        if not only or ANSWERS in only:
            report.group(ANSWERS, _answers(target))
    finally:
        target.interrupted_by = 0
        for words in target.close_all():
            print_line(f"could not end {words}")
        for number, handler in before.items():
            signal.signal(number, handler)
    print_line(f"\n{report.summary}")
    if as_json:
        print(json.dumps(report.to_json(address.url), indent=2))
    return WRONG if report.counts[FAILED] else RIGHT


def _interrupt_handler(target: Target) -> Callable[[int, object], None]:
    """Make the handler of signals that interrupt: it prevents the next call.

    An exception raised by a handler could be lost, or leave a lock locked.
    A second signal ends the program at once.
    """

    def leave(number: int, frame: object) -> None:
        target.interrupted_by = number
        signal.signal(number, signal.SIG_DFL)

    return leave


def _line_printer(as_json: bool) -> Callable[[str], None]:
    def print_line(line: str) -> None:
        print(line, file=sys.stderr if as_json else sys.stdout, flush=True)

    return print_line


def _busy(name: str) -> None:
    if sys.stdout.isatty():
        print(f"{name:<14} …", end="\r", flush=True)


def _chosen(only: list[str]) -> list[tuple[CheckGroup, list[Check]]]:
    chosen = []
    for group in GROUPS:
        checks = list(group.made())
        if only and group.name not in only:
            checks = [
                check
                for check in checks
                if any(fnmatchcase(check.id, pattern) for pattern in only)
            ]
        chosen.append((group, checks))
    if not any(checks for _, checks in chosen) and ANSWERS not in only:
        known = ", ".join([*(group.name for group in GROUPS), ANSWERS])
        raise StartError(
            f"--only names no check: expected a group ({known}) or the ID of a check, "
            "in which * may stand for anything"
        )
    return chosen


def _greet(target: Target) -> None:
    """Request the server's description of itself.

    Raises:
        StartError: The server does not answer.
    """
    try:
        about = target.get("/v1/")
        document = target.get("/openapi.json")
    except CallFailed as error:
        raise StartError(str(error)) from None
    if about.status == 401:
        raise StartError(
            f"{target.address.url} requires a token: pass it with --token-file, "
            "GHS_TOKEN or --token"
        )
    try:
        actual = about.json() if about.status == 200 else None
        target.about = actual if isinstance(actual, dict) else None
        if document.status == 200:
            target.document = Document(document.json())
    except (Mismatch, AttributeError, TypeError):
        # The checks report it.
        return


def _check_env(target: Target) -> None:
    """Make an instance of the environment that was named.

    Raises:
        StartError: It cannot be made.
    """
    try:
        target.create(target.env_id).close()
    except (Absent, Mismatch, CallFailed) as error:
        raise StartError(
            f"--env is {target.env_id!r}, which {target.address.url} does not make: "
            f"{error}"
        ) from None


def _run(target: Target, group: CheckGroup, checks: list[Check]) -> list[CheckResult]:
    try:
        group.needs(target)
    except Absent as absent:
        return [CheckResult(group.name, ABSENT, actual=str(absent))]
    except (Mismatch, CallFailed, Closed) as error:
        return [_failed(group.name, error)]
    outcomes = []
    for check in checks:
        target.go_on()
        outcome = _outcome(target, check)
        outcomes.append(outcome)
        if outcome.result == FAILED and not _is_there(target):
            words = f"no answer any more, after {check.id}"
            outcomes.append(
                CheckResult(
                    f"{group.name}.alive", FAILED, "a server that goes on", words
                )
            )
            break
    return outcomes


def _outcome(target: Target, check: Check) -> CheckResult:
    try:
        check.run(target)
    except Absent as absent:
        return CheckResult(check.id, ABSENT, actual=str(absent))
    except (Mismatch, CallFailed, Closed) as error:
        return _failed(check.id, error)
    except _UNFORESEEN as error:
        # The answer has a structure that the check cannot process.
        words = f"{type(error).__name__}: {error}"
        return CheckResult(check.id, FAILED, "an answer of the documented build", words)
    return CheckResult(check.id, PASSED)


def _failed(id: str, error: Exception) -> CheckResult:
    if isinstance(error, Mismatch):
        return CheckResult(id, FAILED, error.expected, error.actual)
    return CheckResult(id, FAILED, "an answer", str(error))


def _is_there(target: Target) -> bool:
    try:
        target.get("/v1/envs/")
    except CallFailed:
        return False
    return True


def _answers(target: Target) -> list[CheckResult]:
    if target.document is None:
        return [CheckResult(ANSWERS, ABSENT, actual="there is no OpenAPI document")]
    return [
        _failed(f"{ANSWERS}.{key}", mismatch)
        if mismatch
        else CheckResult(f"{ANSWERS}.{key}", PASSED)
        for key, mismatch in sorted(target.against_document.items())
    ]
