"""Makes the vectors, and shows how they differ from those that are committed.

    python -m tests.conformance.generate [FOLDER]

writes them into FOLDER, a new one unless told, and never over the committed ones:
whoever means the difference copies the files.
"""

import argparse
import difflib
import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.conformance.making import Case

VECTORS = Path(__file__).parent / "vectors"
KINDS = (
    "values",
    "numbers",
    "spaces",
    "elements",
    "frames",
    "signatures",
    "malformed",
    "errors",
    "websocket",
    "transcripts",
    "external",
    "bundles",
)


def content_of(kind: str) -> dict[str, Any]:
    """Make the content of one file."""
    module = importlib.import_module(f"tests.conformance.making.{kind}")
    made: list[Case] = list(module.cases())
    return {"description": module.DESCRIPTION, "cases": made}


def text_of(content: dict[str, Any]) -> str:
    """Write a file, one case a line, so that a difference shows which one it is."""
    lines = ",\n".join(json.dumps(case, ensure_ascii=True) for case in content["cases"])
    description = json.dumps(content["description"])
    return f'{{"description": {description},\n"cases": [\n{lines}\n]}}\n'


def main() -> None:
    """Write all files and print the difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", nargs="?", type=Path, help="where to write; a temporary one if absent"
    )
    folder: Path = parser.parse_args().folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    if folder.resolve() == VECTORS.resolve():
        sys.exit("these are the committed ones: write somewhere else, and compare")
    for kind in KINDS:
        name = f"{kind}.json"
        text = text_of(content_of(kind))
        (folder / name).write_text(text, encoding="utf-8")
        old = VECTORS / name
        before = old.read_text(encoding="utf-8") if old.exists() else ""
        for line in difflib.unified_diff(
            before.splitlines(), text.splitlines(), f"committed/{name}", name, "", "", 0
        ):
            print(line[:200])
    print(f"written to {folder}; copy what is meant into {VECTORS}")


if __name__ == "__main__":
    main()
