"""The vectors of the protocol between a server and external environments."""

from collections.abc import Iterator

from tests.conformance.making import Case, answers, conversations, hellos

DESCRIPTION = (
    "Environments elsewhere: hellos, answers and conversations, as in docs/external.md"
)


def cases() -> Iterator[Case]:
    """Yield all cases."""
    yield from hellos.cases()
    yield from answers.cases()
    yield from conversations.cases()
