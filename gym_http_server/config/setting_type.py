"""The type of a setting: how it is declared, named, parsed from text and shown."""

from __future__ import annotations

import dataclasses
from typing import Any

from msgspec import Struct

from gym_http_server.config.units import (
    read_duration,
    read_size,
    show_duration,
    show_size,
)
from gym_http_server.errors import SettingError

__all__ = ["PREFIX", "Setting", "declare", "read_declaration"]

PREFIX = "GHS_"


def declare(
    default: Any,
    help: str,
    *,
    short: str = "",
    least: float | None = None,
    most: float | None = None,
    secret: bool = False,
    choices: tuple[str, ...] = (),
    unit: str = "",
    separator: str = ",",
    word: str = "",
) -> Any:
    """Declare a setting as a field of a dataclass, whose name is the setting's."""
    return dataclasses.field(
        default=default,
        metadata={
            "help": help,
            "short": short,
            "least": least,
            "most": most,
            "secret": secret,
            "choices": choices,
            "unit": unit,
            "separator": separator,
            "word": word,
        },
    )


class Setting(Struct, frozen=True):
    """A row of the table.

    Attributes:
        field: Name of the field of `Settings`.
        kind: ``int``, ``float``, ``str``, ``bool`` or ``tuple``.
        unit: ``bytes`` for sizes, ``s`` for durations, "" for values without a unit.
        separator: What is between several values in the variable.
        word: What a user enters for 0, where that stands for a number that the server
            chooses; "" for other settings.
    """

    field: str
    kind: type
    default: Any
    help: str
    short: str
    least: float | None
    most: float | None
    secret: bool
    choices: tuple[str, ...]
    unit: str
    separator: str
    word: str

    @property
    def name(self) -> str:
        """The setting's name, as users see it."""
        return self.field.rstrip("_")

    @property
    def flag(self) -> str:
        """The long flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return PREFIX + self.name.upper()

    def parse(self, text: str, source: str) -> Any:
        """Parse a value.

        Args:
            text: The value as text.
            source: The flag or variable, for the message.

        Raises:
            SettingError: It is not a value of this setting.
        """
        if self.kind is tuple:
            parts = map(str.strip, text.split(self.separator))
            return tuple(part for part in parts if part)
        if self.kind is str:
            return self._parse_text(text, source)
        if self.kind is bool:
            return self._parse_bool(text, source)
        return self._parse_number(text, source)

    def _parse_text(self, text: str, source: str) -> str:
        if self.choices and text not in self.choices:
            *others, last = self.choices
            expected = f"{', '.join(others)} or {last}"
            raise SettingError(f"{source} is {text!r}: expected {expected}")
        return text

    def _parse_bool(self, text: str, source: str) -> bool:
        words = {"1": True, "true": True, "yes": True, "on": True}
        words |= {"0": False, "false": False, "no": False, "off": False, "": False}
        if text.lower() not in words:
            raise SettingError(f"{source} is {text!r}: expected true or false")
        return words[text.lower()]

    def show(self, value: Any) -> str:
        """Format a value as a user would enter it, sizes and durations with a unit."""
        if self.kind is tuple:
            return self.separator.join(value)
        if self.kind is bool:
            return str(value).lower()
        if self.word and not value:
            return self.word
        if self.unit:
            return show_size(value) if self.unit == "bytes" else show_duration(value)
        return f"{value:g}" if self.kind is float else str(value)

    @property
    def metavar(self) -> str:
        """The placeholder after the flag in the help; "" for flags without a value."""
        if self.choices:
            return "WORD"
        if self.unit:
            return "SIZE" if self.unit == "bytes" else "TIME"
        return {int: "N", float: "N", bool: ""}.get(self.kind, "TEXT")

    def _parse_number(self, text: str, source: str) -> float:
        if self.word and text == self.word:
            return 0
        readers = {"bytes": read_size, "s": read_duration}
        number: Any
        try:
            number = readers.get(self.unit, self.kind)(text)
        except ValueError:
            number = None
        low, high = self.least, self.most
        finite = number is not None and abs(number) != float("inf")
        if (
            not finite
            or number != number
            or (low is not None and number < low)
            or (high is not None and number > high)
        ):
            raise SettingError(f"{source} is {text!r}: expected {self._expected}")
        return number  # type: ignore[no-any-return]

    @property
    def _expected(self) -> str:
        what = "an integer" if self.kind is int else "a number"
        if self.unit:
            what = "a size" if self.unit == "bytes" else "a time"
        low, high = self.least, self.most
        span = f" from {self.show(low)}" if low is not None else ""
        span += f" to {self.show(high)}" if high is not None else ""
        examples = {"bytes": ", as 65536, 512M or 2G", "s": ", as 30, 10s or 5m"}
        if self.word:
            what = f"{self.word} or {what}"
        return what + span + examples.get(self.unit, "")


def read_declaration(field: dataclasses.Field[Any]) -> Setting:
    """Return the setting that a field declares."""
    return Setting(
        field=field.name,
        kind=_kind(field.default),
        default=field.default,
        **field.metadata,
    )


def _kind(default: Any) -> type:
    kinds = (bool, int, float, str, tuple)
    return next(kind for kind in kinds if isinstance(default, kind))
