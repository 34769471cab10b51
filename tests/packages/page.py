"""Writes the page about packages, from the results of a run."""

import platform
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tests.packages.table import PACKAGES, Package
from tests.support.server import ROOT

_HEAD = """\
# Packages with environments

These packages were served by the shipped command, and compared bit by bit with the same
environments in the program itself. `make packages` wrote this page on {date}, with
{together}. To serve one of them:

```sh
.venv/bin/pip install minigrid
.venv/bin/gym-http-server serve --import minigrid
```

```python
from gym_http_client import RemoteEnv

env = RemoteEnv("http://127.0.0.1:5000", "MiniGrid-Fetch-8x8-N3-v0")
```

The client needs no package of the environment. Environments named `made/…` are small
classes in `tests/packages/made` around what a package offers.

- **same**: every value, type and bit is that of the local environment.
"""
_LEGEND = {
    "different": """\
- **differs**: something [is different](#what-is-different) over the server.
""",
    "fails": """\
- **fails**: it raises the same exception
  [without the server](#what-fails-without-the-server-too).
""",
    "unsettled": """\
- **random**: it [differs from itself](#what-is-random) in two local processes.
""",
}
_TABLE = """\
- **-**: it does not render.

| package | version | environment | alone | vector of 4 | rendering |
|---|---|---|---|---|---|
"""
_CELLS = {
    "same": "same",
    "fails": "fails",
    "unsettled": "random",
    "different": "differs",
}
_WAYS = {"single": "alone", "vector": "vector of 4", "rendering": "rendering"}
_SECTIONS = {
    "different": "What is different",
    "fails": "What fails without the server too",
    "unsettled": "What is random",
}
#: Packages that environments have in common. Other differences are newer versions.
_SHARED = {"gymnasium", "mujoco", "numpy"}
_SAME_FILES = {"pygame": "pygame-ce", "opencv-python": "opencv-python-headless"}
_ALONGSIDE = """
## What needs a virtual environment of its own

All others fit into `.venv`, which `make install` makes. These need something else:

"""
_APART = """
To serve one of them, install the two wheels of this repository beside it:

```sh
python3 -m venv metaworld
metaworld/bin/pip install ./clients/python . metaworld
metaworld/bin/gym-http-server serve --import metaworld
```
"""
_REFUSED = """
## What cannot be installed beside the server

A program of its own can provide their environments: the client has fewer requirements
than the server ([`serve_env`](external.md)).
"""
_TAIL = """
## How they were compared

Each environment was played from three seeds, 200 steps from each: alone, in a vector of
four by `vectorization_mode="sync"`, and with a picture after each twentieth step. One
process played the local environment, another one `RemoteEnv` or `RemoteVectorEnv`. What
was compared: spaces, spec, metadata, and all results of `reset`, `step` and `render`.
After a difference, both played four times more: an environment is random if two local
plays differ, or a remote one does not.

`make packages` installs each package into a virtual environment of its own, and takes
about an hour. `make packages PACKAGES="minigrid metaworld"` compares these two anew.
The page is written if all others have results in `build/packages`. The list of packages
is `tests/packages/table.py`.

What was played of some:

"""


def write(results: dict[str, dict[str, Any]]) -> str:
    """Return the page.

    Args:
        results: What was found, by names of packages.
    """
    known = [(package, results[package.name]) for package in PACKAGES]
    details = {
        kind: [line for each in known for line in _details(*each, kind)]
        for kind in _SECTIONS
    }
    parts = [
        _HEAD.format(
            date=_dates(results.values()), together=_together(results.values())
        ),
        *(_LEGEND[kind] for kind in _LEGEND if details[kind]),
        _TABLE,
        *(row for package, result in known for row in _rows(package, result)),
    ]
    for kind, title in _SECTIONS.items():
        if details[kind]:
            parts += [f"\n## {title}\n\n", *details[kind]]
    if apart := [line for each in known for line in _versions(*each)]:
        parts += [_ALONGSIDE, *apart, _APART]
    if refused := [part for each in known for part in _refused(*each)]:
        parts += [_REFUSED, *refused]
    notes = [
        f"- {package.name}: {package.note}\n" for package in PACKAGES if package.note
    ]
    return "".join([*parts, _TAIL, *notes])


def _dates(results: Iterable[dict[str, Any]]) -> str:
    dates = sorted({each["date"] for each in results})
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


def _together(results: Iterable[dict[str, Any]]) -> str:
    """Name the versions that all of them were compared with."""
    versions = [each["versions"] for each in results if "versions" in each]
    common = [f"Python {platform.python_version()}"]
    for name in ("Gymnasium", "NumPy"):
        found = sorted({each[name.lower()] for each in versions})
        common.append(f"{name} {' or '.join(found)}")
    return f"{', '.join(common[:-1])} and {common[-1]}"


def _rows(package: Package, result: dict[str, Any]) -> Iterator[str]:
    if "refused" in result:
        link = "[not installed](#what-cannot-be-installed-beside-the-server)"
        yield f"| {package.name} | {package.version} | {link} | | | |\n"
    for case in result["cases"]:
        outcomes = {each["way"]: _CELLS[each["kind"]] for each in case["outcomes"]}
        cells = " | ".join(outcomes.get(way, "-") for way in _WAYS)
        yield (f"| {package.name} | {package.version} | `{case['name']}` | {cells} |\n")


def _details(package: Package, result: dict[str, Any], kind: str) -> Iterator[str]:
    for case in result["cases"]:
        if found := [each for each in case["outcomes"] if each["kind"] == kind]:
            ways = ", ".join(_WAYS[each["way"]] for each in found)
            detail = _one_line(found[0]["detail"])
            yield f"- {package.name}, `{case['name']}`, {ways}: {detail}\n"


def _one_line(text: str) -> str:
    """Return a message as Markdown, without the addresses of objects."""
    text = re.sub(r" at 0x[0-9a-f]+", "", " ".join(text.split()))
    return f"`{text[:300].replace('`', chr(39))}`"


def _versions(package: Package, result: dict[str, Any]) -> Iterator[str]:
    found = result.get("versions", {})
    other = [
        f"{name} {found[name]} instead of {ours}"
        for name, ours in _pins().items()
        if name in _SHARED and found.get(name, ours) != ours
    ]
    for name, ours in _SAME_FILES.items():
        if name in found:
            other.append(f"`{name}`, whose files replace those of `{ours}`")
    if package.loose:
        other.append(f"not what it requires itself: {_one_line(result['conflict'])}")
    if other:
        yield f"- {package.name}: {', '.join(other)}.\n"


def _pins() -> dict[str, str]:
    text = (ROOT / "requirements.txt").read_text()
    return dict(re.findall(r"^([\w.-]+)(?:\[.*\])?==(\S+)", text, re.MULTILINE))


def _refused(package: Package, result: dict[str, Any]) -> Iterator[str]:
    if "refused" in result:
        yield f"\n{package.name} {package.version}, by pip's words:\n\n"
        yield f"```text\n{result['refused']}\n```\n"
