"""Members of requests: what values they may have, and how they are refused.

A *kind* says which values a member may have. `Integer(1, 64)` checks a value of a
body, reads one from the text of a query, refuses others in words, and describes itself
as JSON Schema. A member is a kind with a default and a line of words. An object of
members, as a body or a query, is a mapping of names to them::

    ACT = {
        "sequence": Member(Integer(1), "Number of the request in its session."),
        "valid_s": Member(Seconds(0, 3600), "Time for which the action is valid."),
    }

Hosts, services and web workers read requests by these. A number means the same however
JSON writes it: 10, 10.0 and 1e1 are one integer.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from gym_http_server.errors import did_you_mean
from gym_http_wire.problems import BadParameter, MissingParameter, Problem

__all__ = [
    "MAX_INTEGER",
    "AnyObject",
    "Anything",
    "Choice",
    "Either",
    "Flag",
    "Integer",
    "Kind",
    "ListOf",
    "MapOf",
    "Member",
    "Members",
    "Name",
    "Number",
    "ObjectOf",
    "Seconds",
    "Text",
    "even_null",
    "is_given",
    "object_schema",
    "read",
    "read_optional",
    "read_texts",
    "refusal",
    "unknown_members",
]

#: The largest integer that every JSON reader knows exactly.
MAX_INTEGER = 2**53 - 1
MAX_SHOWN = 80
_LARGEST = sys.float_info.max
# A tuple, since a union is made anew each time.
_REAL = int, float
#: Unknown names that warnings report.
MAX_UNKNOWN = 5
# Each longer text of a number is out of every range, or has digits without effect.
_MAX_DIGITS = 40
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII).fullmatch
_INTEGER = re.compile(r"-?[0-9]+", re.ASCII).fullmatch
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII).fullmatch

Schema = dict[str, Any]
# As types, for programs that make types of a document.
_BLANK = (
    {"type": "string", "maxLength": 0},
    {"type": "array", "items": {}, "maxItems": 0},
)


class Kind(Protocol):
    """The values that a member may have."""

    @property
    def expected(self) -> str:
        """The values in words, to follow "expected"."""

    def read(self, value: Any, name: str) -> Any:
        """Check a value of JSON or of a lossless form, and convert it.

        Args:
            value: The value.
            name: The member, for the refusal.

        Raises:
            BadParameter: It is no value of this kind.
        """

    def parse(self, text: str, name: str) -> Any:
        """Read a value from the text of a query, as `read` does."""

    def schema(self) -> Schema:
        """Return the values as JSON Schema."""


class Integer(Struct, frozen=True):
    """An integer, in any spelling that JSON has for it.

    Attributes:
        least: The least one.
        most: The greatest one; ``None``: there is no limit.
        note: Words after the range: a setting that sets the limit, or a meaning.
    """

    least: int = 0
    most: int | None = MAX_INTEGER
    note: str = ""

    @property
    def expected(self) -> str:
        """The values in words."""
        most = "" if self.most is None else f" to {self.most}"
        return f"an integer from {self.least}{most}{self.note and ' ' + self.note}"

    def read(self, value: Any, name: str) -> int:
        """Check a value; see `Kind.read`."""
        number = value if type(value) is int else _whole(value)
        if (
            number is None
            or number < self.least
            or (self.most is not None and number > self.most)
        ):
            raise refusal(name, value, self.expected)
        return number

    def parse(self, text: str, name: str) -> int:
        """Read a value from text; see `Kind.parse`."""
        number = _number(text)
        if number is None:
            raise refusal(name, text, self.expected)
        return self.read(number, name)

    def schema(self) -> Schema:
        """Return the values as JSON Schema."""
        limits = {} if self.most is None else {"maximum": self.most}
        return {"type": "integer", "minimum": self.least, **limits}


class Number(Struct, frozen=True):
    """A finite number, which stays the integer or float that was sent.

    Attributes:
        least: The least one; ``-math.inf``: any that a float can represent.
        most: The greatest one; ``math.inf``: any that a float can represent.
        above: Whether ``least`` itself is none.
        unit: What is counted, in the plural; "" for plain numbers.
        note: Words after the range: a setting that sets the limit, or a meaning.
    """

    least: float
    most: float
    above: bool = False
    unit: str = ""
    note: str = ""

    @property
    def expected(self) -> str:
        """The values in words."""
        begin = "above" if self.above else "from"
        least = "" if self.least == -math.inf else f" {begin} {self.least:g}"
        most = "" if self.most == math.inf else f" to {self.most:g}"
        what = self.unit or ("a number" if least or most else "a finite number")
        return f"{what}{least}{most}{self.note and ' ' + self.note}"

    def read(self, value: Any, name: str) -> int | float:
        """Check a value; see `Kind.read`."""
        if (
            not isinstance(value, _REAL)
            or isinstance(value, bool)
            or not self.least <= value <= self.most
            or not -_LARGEST <= value <= _LARGEST
            or (self.above and value == self.least)
        ):
            raise refusal(name, value, self.expected)
        return value

    def parse(self, text: str, name: str) -> int | float:
        """Read a value from text; see `Kind.parse`."""
        number = _number(text)
        if number is None:
            raise refusal(name, text, self.expected)
        return self.read(number, name)

    def schema(self) -> Schema:
        """Return the values as JSON Schema."""
        least = "exclusiveMinimum" if self.above else "minimum"
        limits = {least: self.least, "maximum": self.most}
        finite = {name: each for name, each in limits.items() if math.isfinite(each)}
        return {"type": "number", **finite}


def Seconds(
    least: float, most: float, *, above: bool = False, note: str = ""
) -> Number:
    """Return the kind of a time in seconds."""
    return Number(least, most, above, "seconds", note)


class Flag(Struct, frozen=True):
    """True or false."""

    expected: str = "true or false"

    def read(self, value: Any, name: str) -> bool:
        """Check a value; see `Kind.read`."""
        if value is True or value is False:
            return value
        raise refusal(name, value, self.expected)

    def parse(self, text: str, name: str) -> bool:
        """Read a value from text; see `Kind.parse`."""
        # Python's own texts of them are True and False.
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise refusal(name, text, self.expected)

    def schema(self) -> Schema:
        """Return the values as JSON Schema."""
        return {"type": "boolean"}


class Choice(Struct, frozen=True):
    """One of some words."""

    words: Sequence[str]

    @property
    def expected(self) -> str:
        """The values in words."""
        *others, last = map(repr, self.words)
        return f"{', '.join(others)} or {last}" if others else last

    def read(self, value: Any, name: str) -> str:
        """Check a value; see `Kind.read`."""
        if isinstance(value, str) and value in self.words:
            return value
        hint = did_you_mean(value, self.words) if isinstance(value, str) else ""
        raise refusal(name, value, self.expected + hint)

    def parse(self, text: str, name: str) -> str:
        """Read a value from text; see `Kind.parse`."""
        return self.read(text, name)

    def schema(self) -> Schema:
        """Return the values as JSON Schema."""
        return {"enum": list(self.words)}


class Text(Struct, frozen=True):
    """A string.

    Attributes:
        least: Characters that it has at least.
        most: Characters that it has at most.
        printable: Whether line breaks and control characters are refused.
    """

    least: int
    most: int
    printable: bool = False

    @property
    def expected(self) -> str:
        """The values in words."""
        size = f"{self.least} to {self.most}" if self.least else f"up to {self.most}"
        kind = " printable" if self.printable else ""
        return f"a string of {size}{kind} characters"

    def read(self, value: Any, name: str) -> str:
        """Check a value; see `Kind.read`."""
        if (
            not isinstance(value, str)
            or not self.least <= len(value) <= self.most
            or (self.printable and not value.isprintable())
        ):
            raise refusal(name, value, self.expected)
        return value

    def parse(self, text: str, name: str) -> str:
        """Read a value from text; see `Kind.parse`."""
        return self.read(text, name)

    def schema(self) -> Schema:
        """Return the values as JSON Schema."""
        least = {"minLength": self.least} if self.least else {}
        return {"type": "string", **least, "maxLength": self.most}


class Name(Struct, frozen=True):
    """A name of letters, digits and a few signs, as runs, sessions and readers have.

    Attributes:
        chosen: Whether somebody has chosen it: then it begins with a letter or digit.
    """

    chosen: bool = False

    @property
    def expected(self) -> str:
        """The values in words."""
        if self.chosen:
            return "a letter or digit, then up to 63 of A-Z, a-z, 0-9, _, . and -"
        return "1 to 64 of A-Z, a-z, 0-9, _, . and -"

    def read(self, value: Any, name: str) -> str:
        """Check a value; see `Kind.read`."""
        if (
            not isinstance(value, str)
            or not _NAME(value)
            or (self.chosen and value[0] in "_.-")
        ):
            raise refusal(name, value, self.expected)
        return value

    def parse(self, text: str, name: str) -> str:
        """Read a value from text; see `Kind.parse`."""
        return self.read(text, name)

    def schema(self) -> Schema:
        """Return the values as JSON Schema."""
        pattern = "^[A-Za-z0-9_.-]{1,64}$"
        if self.chosen:
            pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
        return {"type": "string", "pattern": pattern}


class Anything(Struct, frozen=True):
    """Any value, which other code checks.

    Attributes:
        described: The values as JSON Schema.
    """

    described: Schema = field(default_factory=dict)
    expected: str = "a value"

    def read(self, value: Any, name: str) -> Any:
        """Return the value."""
        return value

    def parse(self, text: str, name: str) -> str:
        """Return the text."""
        return text

    def schema(self) -> Schema:
        """Return the values as JSON Schema."""
        return dict(self.described)


class _OnlyInBodies:
    """Base class of kinds that bodies have, and queries do not."""

    __slots__ = ()

    def parse(self, text: str, name: str) -> Any:
        """Refuse any text: a row that declares one in a query is wrong."""
        raise TypeError(f"{name} cannot be in a query: {self!r}")


class AnyObject(_OnlyInBodies, Struct, frozen=True):
    """An object whose members other code checks.

    Attributes:
        described: Its members as JSON Schema.
    """

    described: Schema = field(default_factory=dict)
    expected: str = "an object"

    def read(self, value: Any, name: str) -> dict[Any, Any]:
        """Check a value; see `Kind.read`."""
        if isinstance(value, dict):
            return value
        raise refusal(name, value, self.expected)

    def schema(self) -> Schema:
        """Return the values as JSON Schema."""
        if "$ref" in self.described:
            return dict(self.described)
        return {"type": "object", **self.described}


class ListOf(_OnlyInBodies, Struct, frozen=True):
    """A list of values of one kind.

    Attributes:
        kind: Their kind.
        least: Values that it has at least.
        most: Values that it has at most.
        note: Words after their number: what they are.
    """

    kind: Kind
    least: int = 0
    most: int = MAX_INTEGER
    note: str = ""

    @property
    def expected(self) -> str:
        """The values in words."""
        size = f"{self.least} to {self.most}" if self.least else f"up to {self.most}"
        size = str(self.most) if self.least == self.most else size
        return f"a list of {size}{self.note and ' ' + self.note}"

    def read(self, value: Any, name: str) -> list[Any]:
        """Check a value; see `Kind.read`."""
        if not isinstance(value, list | tuple):
            raise refusal(name, value, self.expected)
        if not self.least <= len(value) <= self.most:
            raise BadParameter(
                f"{name} has {len(value)} items: expected {self.expected}"
            )
        if type(self.kind) is Anything:
            return list(value)
        read = self.kind.read
        try:
            return [read(each, name) for each in value]
        except Problem:
            # Few lists are refused, and names of items take long to make.
            return [read(each, f"{name}[{i}]") for i, each in enumerate(value)]

    def schema(self) -> Schema:
        """Return the values as JSON Schema."""
        most = {} if self.most == MAX_INTEGER else {"maxItems": self.most}
        least = {"minItems": self.least} if self.least else {}
        return {"type": "array", "items": self.kind.schema(), **least, **most}


class MapOf(_OnlyInBodies, Struct, frozen=True):
    """An object with any names, whose values are of one kind.

    Attributes:
        kind: Their kind.
        least: Members that it has at least.
        most: Members that it has at most.
    """

    kind: Kind
    least: int
    most: int

    @property
    def expected(self) -> str:
        """The values in words."""
        return f"an object with {self.least} to {self.most} members"

    def read(self, value: Any, name: str) -> dict[str, Any]:
        """Check a value; see `Kind.read`."""
        if not isinstance(value, dict):
            raise refusal(name, value, self.expected)
        if not self.least <= len(value) <= self.most:
            raise BadParameter(
                f"{name} has {len(value)} items: expected {self.expected}"
            )
        return {
            key: self.kind.read(each, f"{name}.{key:.{MAX_SHOWN}}")
            for key, each in value.items()
        }

    def schema(self) -> Schema:
        """Return the values as JSON Schema."""
        return {
            "type": "object",
            "additionalProperties": self.kind.schema(),
            "minProperties": self.least,
            "maxProperties": self.most,
        }


class Either(_OnlyInBodies, Struct, frozen=True):
    """A single value, or a list or an object.

    Attributes:
        one: The kind of the single value.
        many: The kind of the list or object.
    """

    one: Kind
    many: ListOf | ObjectOf

    @property
    def expected(self) -> str:
        """The values in words."""
        return f"{self.one.expected}, or {self.many.expected}"

    def read(self, value: Any, name: str) -> Any:
        """Check a value; see `Kind.read`."""
        if isinstance(value, list | tuple if type(self.many) is ListOf else dict):
            return self.many.read(value, name)
        try:
            return self.one.read(value, name)
        except BadParameter:
            raise refusal(name, value, self.expected) from None

    def schema(self) -> Schema:
        """Return the values as JSON Schema."""
        return _any_of(self.one.schema(), self.many.schema())


def is_given(value: Any) -> bool:
    """Count a value as given, unless it is null."""
    return value is not None


def even_null(value: Any) -> bool:
    """Count every value as given, so that a null without a meaning is refused."""
    return True


class Member(Struct, frozen=True):
    """A member of an object, or a parameter of a query.

    Attributes:
        kind: The values that it may have.
        words: What it means, a line for documents.
        default: What holds without it, in documents; nothing fills it in.
        required: Whether a request without it is refused.
        null: Whether null is a value of its own, instead of counting as absent.
        blank: Whether null, "" and [] count as absent, as in gym-http-api.
    """

    kind: Kind
    words: str = ""
    default: Any = None
    required: bool = False
    null: bool = False
    blank: bool = False

    def schema(self, nulls: bool = False) -> Schema:
        """Return its values as JSON Schema, with words and default as its description.

        Args:
            nulls: Whether null counts as absent.
        """
        schema = self.kind.schema()
        if self.null or ((nulls or self.blank) and not self.required):
            schema = _with_null(schema)
        if self.blank and not self.required:
            schema = _any_of(schema, *_BLANK)
        # Not as JSON Schema's own default: TypeScript's generators make types of it in
        # which the member is never absent.
        default = ""
        if self.default is not None:
            default = f" By default {json.dumps(self.default)}."
        if self.words or default:
            schema["description"] = (self.words + default).strip()
        return schema


Members = Mapping[str, Member]


class ObjectOf(_OnlyInBodies, Struct, frozen=True):
    """An object whose members are declared.

    Attributes:
        members: The members.
        is_given: Whether a member with a value counts as given: not so with null.
    """

    members: Members
    is_given: Callable[[Any], bool] = is_given

    @property
    def expected(self) -> str:
        """The values in words."""
        return f"an object with some of {', '.join(self.members)}"

    def read(self, value: Any, name: str) -> dict[str, Any]:
        """Check a value; see `Kind.read`."""
        prefix = f"{name}."
        return read(self.members, value, name, prefix=prefix, is_given=self.is_given)

    def schema(self) -> Schema:
        """Return the values as JSON Schema."""
        return object_schema(self.members, nulls=self.is_given is not even_null)


def refusal(name: str, value: object, expected: str) -> BadParameter:
    """Return the problem of a member with a value that it cannot have."""
    return BadParameter(f"{name} is {value!r:.{MAX_SHOWN}}: expected {expected}")


def _is_blank(value: Any) -> bool:
    return value is None or (type(value) in (str, list) and not value)


def read(
    members: Members,
    given: Any,
    what: str = "the request",
    *,
    prefix: str = "",
    is_given: Callable[[Any], bool] = is_given,
    ignores: bool = False,
) -> dict[str, Any]:
    """Read an object; return its checked members, without those that are not given.

    Args:
        members: The members that it may have.
        given: The object.
        what: What it is, for the refusal.
        prefix: Stands before names of members in refusals.
        is_given: Whether a member with a value counts as given: not so with null.
        ignores: Whether unknown members are left out, instead of refused.

    Raises:
        MissingParameter: A required member is not given.
        BadParameter: It is no object, or a member is unknown or has another value.
    """
    found = read_optional(
        members, given, what, prefix=prefix, is_given=is_given, ignores=ignores
    )
    for name, member in members.items():
        if member.required and name not in found:
            raise MissingParameter(prefix + name)
    return found


def read_optional(
    members: Members,
    given: Any,
    what: str = "the request",
    *,
    prefix: str = "",
    is_given: Callable[[Any], bool] = is_given,
    ignores: bool = False,
) -> dict[str, Any]:
    """Read an object of which no member is required, as `read` does but faster."""
    if not isinstance(given, dict):
        raise refusal(what, given, "an object")
    found: dict[str, Any] = {}
    for name, value in given.items():
        member = members.get(name)
        if member is None:
            if ignores:
                continue
            raise _unknown(name, members, what)
        if value is None and member.null:
            found[name] = None
        elif is_given(value) and not (member.blank and _is_blank(value)):
            found[name] = member.kind.read(value, prefix + name)
        elif member.null:
            found[name] = None
    return found


def read_texts(members: Members, texts: Mapping[str, str]) -> dict[str, Any]:
    """Read the parameters of a query; all names are known.

    Raises:
        MissingParameter: A required one is not given.
        BadParameter: One has another value.
    """
    found = {name: members[name].kind.parse(text, name) for name, text in texts.items()}
    for name, member in members.items():
        if member.required and name not in found:
            raise MissingParameter(name)
    return found


def unknown_members(
    members: Members,
    given: Iterable[str],
    what: str = "the request",
    otherwise: str = "",
) -> list[str]:
    """Return warnings about names that are no members, a few at most.

    Args:
        members: The members that are known.
        given: The names.
        what: What has them, for the warning.
        otherwise: Words for a name that resembles no member.
    """
    names = [name for name in given if name not in members][:MAX_UNKNOWN]
    return [
        f"the member {name!r:.80} of {what} is unknown"
        f"{did_you_mean(name, members) or otherwise}"
        for name in names
    ]


def object_schema(
    members: Members, *, nulls: bool = False, others: bool = False
) -> Schema:
    """Return an object as JSON Schema.

    Args:
        members: Its members.
        nulls: Whether null counts as absent in those that are not required.
        others: Whether it may have unknown members.
    """
    properties = {name: each.schema(nulls) for name, each in members.items()}
    schema: Schema = {"type": "object", "properties": properties}
    required = [name for name, each in members.items() if each.required]
    if required:
        schema["required"] = required
    return schema if others else schema | {"additionalProperties": False}


def _with_null(schema: Schema) -> Schema:
    if "enum" in schema:
        return schema | {"enum": [*schema["enum"], None]}
    if isinstance(schema.get("type"), str):
        return schema | {"type": [schema["type"], "null"]}
    return _any_of(schema, {"type": "null"}) if schema else schema


def _any_of(*schemas: Schema) -> Schema:
    flat = [s["anyOf"] if s.keys() == {"anyOf"} else [s] for s in schemas]
    return {"anyOf": [each for some in flat for each in some]}


def _unknown(name: object, members: Members, what: str) -> BadParameter:
    known = f"some of {', '.join(members)}" if members else "none"
    hint = did_you_mean(name, members)
    return BadParameter(
        f"{what} has the unknown member {name!r:.80}: expected {known}{hint}"
    )


def _whole(value: Any) -> int | None:
    """Return a number without a fraction as an integer; ``None`` for all else."""
    if isinstance(value, bool) or not isinstance(value, _REAL):
        return None
    # Neither an infinity nor NaN is equal to an integer.
    return int(value) if value % 1 == 0 else None


def _number(text: str) -> int | float | None:
    """Read a number as JSON writes it, leading zeros apart; ``None`` for other text."""
    if len(text) > _MAX_DIGITS:
        return None
    if _INTEGER(text):
        return int(text)
    return float(text) if _NUMBER(text) else None
