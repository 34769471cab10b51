"""What an instance does, as lines for people."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["WatchOutput"]

_WIDTH = 80
#: Numbers of an array that a line shows; of a larger one it shows dtype and shape.
_MAX_SHOWN = 16
_OK = 200


class Copy(Protocol):
    """The copy of an answer, as the Python client gives it."""

    @property
    def op(self) -> str:
        """Name of the operation."""

    @property
    def number(self) -> int:
        """Count of the answers since the watching began; 0 is one from before."""

    @property
    def dropped(self) -> int:
        """Answers directly before it that were left out."""

    @property
    def status(self) -> int:
        """Status as of HTTP."""

    @property
    def value(self) -> Any:
        """What the environment gave, or the problem."""


class WatchOutput:
    """Writes answers as lines, and adds up the rewards of an episode."""

    def __init__(self) -> None:
        self._steps = 0
        self._return = 0.0
        # Whether all steps of the present episode were seen.
        self._whole = False

    def lines(self, copy: Copy) -> list[str]:
        """Return the lines for the copy of an answer."""
        lines = []
        if copy.dropped:
            self._whole = False
            lines.append(f"        … {copy.dropped} more, faster than this is printed")
        if copy.status != _OK:
            said = copy.value.get("message", copy.value)
            lines.append(_fit(f"{copy.number:>6}  {copy.op:<6}  failed: {said}"))
            return lines
        described = getattr(self, f"_{copy.op}", _brief)(copy.value)
        lines.append(_fit(f"{copy.number:>6}  {copy.op:<6}  {described}"))
        return lines + self._episode(copy)

    def _reset(self, value: dict[str, Any]) -> str:
        self._steps, self._return, self._whole = 0, 0.0, True
        return f"observation {_brief(value['observation'])}"

    def _step(self, value: dict[str, Any]) -> str:
        ends = [
            f"{name} "
            for name in ("terminated", "truncated")
            if _is_scalar(value[name]) and value[name]
        ]
        reward, observation = _brief(value["reward"]), _brief(value["observation"])
        return f"reward {reward}  {''.join(ends)}observation {observation}"

    def _render(self, value: Any) -> str:
        frame = value["rendered"] if isinstance(value, dict) else value
        return _brief(frame)

    def _episode(self, copy: Copy) -> list[str]:
        """Return the line for the end of an episode, if it has ended."""
        if copy.op != "step" or not _is_scalar(copy.value["reward"]):
            return []
        self._steps += 1
        self._return += float(copy.value["reward"])
        if not (copy.value["terminated"] or copy.value["truncated"]):
            return []
        whole, self._whole = self._whole, False
        if not whole:
            return ["        episode over"]
        steps = "1 step" if self._steps == 1 else f"{self._steps} steps"
        return [f"        episode over after {steps}, return {self._return:g}"]


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or getattr(value, "shape", None) == ()


def _brief(value: Any) -> str:
    """Return a value in a few words; arrays of many numbers by dtype and shape."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        count = 1
        for length in shape:
            count *= length
        if count > _MAX_SHOWN:
            lengths = "x".join(map(str, shape))
            return f"{value.dtype} array of {lengths}"
        value = value.tolist()
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        members = (f"{name}: {_brief(each)}" for name, each in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{' '.join(map(_brief, value[: _MAX_SHOWN + 1]))}]"
    return repr(value)


def _fit(line: str) -> str:
    """Shorten a line to 80 characters, without control characters."""
    line = "".join(char if char.isprintable() else " " for char in line)
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
