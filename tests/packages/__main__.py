"""Compares published packages, local beside remote: ``make packages``.

Results are kept in ``build/packages``, one file for a package. When there is one for
each, they are written to the page ``docs/packages.md``.
"""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.packages import page
from tests.packages.checking import Checker
from tests.packages.installing import InstallError, build_wheels, install
from tests.packages.table import PACKAGES, Package
from tests.support.server import ROOT

_BUILD = ROOT / "build" / "packages"


def main() -> None:
    """Compare the packages that the command line names, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.packages")
    known = {package.name: package for package in PACKAGES}
    parser.add_argument("names", nargs="*", metavar="NAME", help="; ".join(known))
    parser.add_argument("--page", action="store_true", help="only write the page")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - known.keys():
        parser.error(f"no package of the table: {', '.join(sorted(unknown))}")
    if not chosen.page:
        wheels = build_wheels(_BUILD / "wheels")
        for name in chosen.names or known:
            _compare(known[name], wheels)
    results = {name: _BUILD / f"{name}.json" for name in known}
    if missing := [name for name, path in results.items() if not path.exists()]:
        print(
            "The page is not written, since these have no results yet: "
            f"{', '.join(missing)}. To compare all: make packages"
        )
        return
    found = {name: json.loads(path.read_text()) for name, path in results.items()}
    (ROOT / "docs" / "packages.md").write_text(page.write(found))
    print("Wrote docs/packages.md")


def _compare(package: Package, wheels: list[Path]) -> None:
    print(f"{package.name}: installing …", flush=True)
    folder = _BUILD / package.name
    result: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "cases": []}
    try:
        installed = install(package, wheels, folder)
    except InstallError as error:
        result["refused"] = str(error)
        print(f"  {error}", flush=True)
    else:
        result |= {"versions": installed.versions, "conflict": installed.conflict}
        for case, outcomes in Checker(package, installed, folder).check():
            found = [asdict(each) for each in outcomes]
            result["cases"].append({"name": str(case), "outcomes": found})
            for each in outcomes:
                print(f"  {case}, {each.way}: {each.kind} {each.detail}", flush=True)
    (_BUILD / f"{package.name}.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
