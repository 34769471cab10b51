"""A JSON parser that refuses NaN, Infinity and repeated keys."""

import json
import re
from typing import Any

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def parse_strictly(text: str) -> Any:
    """Parse JSON; fail on NaN, Infinity and repeated keys."""
    return json.loads(
        text, parse_constant=_refuse_constant, object_pairs_hook=_distinct
    )


def assert_canonical(text: str) -> None:
    """Check the form of an answer: compact, keys sorted, one newline at the end."""
    assert text.endswith("\n"), f"no newline at the end of {text[-40:]!r}"
    assert not text.endswith("\n\n"), f"two newlines at the end of {text[-40:]!r}"
    bare = _STRING.sub('""', text[:-1])
    assert not re.search(r"\s", bare), f"not compact: {text[:200]!r}"
    json.loads(text, object_pairs_hook=_sorted)


def _refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"doubled key among {keys}"
    return dict(pairs)


def _sorted(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    assert keys == sorted(keys), f"keys are not sorted: {keys}"
    return dict(pairs)
