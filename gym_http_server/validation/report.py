"""What came of the checks: for a person as they go, and for a program at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass

__all__ = ["ABSENT", "FAILED", "PASSED", "CheckResult", "Report"]

PASSED, FAILED, ABSENT = "passed", "failed", "absent"


@dataclass(frozen=True)
class CheckResult:
    """How one check ended.

    Attributes:
        id: The check.
        result: `PASSED`, `FAILED` or `ABSENT`.
        expected: What should have come, if it failed.
        actual: What came, if it failed; if it is absent, how that is known.
    """

    id: str
    result: str
    expected: str = ""
    actual: str = ""


class Report:
    """Outcomes, and lines about them.

    Args:
        say: Prints a line.
        busy: Shows which group is being checked, if there is anybody to see it.
    """

    def __init__(
        self,
        say: Callable[[str], object],
        busy: Callable[[str], object] | None = None,
    ) -> None:
        self.outcomes: list[CheckResult] = []
        self._say = say
        self.begin = busy or (lambda name: None)

    @property
    def counts(self) -> Counter[str]:
        """How many checks ended in which way."""
        return Counter(outcome.result for outcome in self.outcomes)

    @property
    def summary(self) -> str:
        """All of it in one line."""
        counts = self.counts
        return ", ".join(f"{counts[each]} {each}" for each in (PASSED, FAILED, ABSENT))

    def group(self, name: str, outcomes: list[CheckResult]) -> None:
        """Take what came of one group, and say it in a line, and one for each wrong."""
        self.outcomes += outcomes
        counts = Counter(outcome.result for outcome in outcomes)
        told = [f"{counts[each]} {each}" for each in (PASSED, FAILED, ABSENT)]
        kept = [words for words in told if not words.startswith("0 ")]
        self._say(f"{name:<14} {', '.join(kept) or 'nothing to check'}")
        for outcome in outcomes:
            if outcome.result == FAILED:
                self._say(f"  WRONG {outcome.id}")
                self._say(f"    expected {outcome.expected}")
                self._say(f"    actual   {outcome.actual}")
            elif outcome.result == ABSENT:
                self._say(f"  absent {outcome.id}: {outcome.actual}")

    def to_json(self, url: str) -> dict[str, object]:
        """Give all of it for a program.

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
