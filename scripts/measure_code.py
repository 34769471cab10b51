#!/usr/bin/env python3
"""Prints measures of the code's structure, for one state of it or several.

    scripts/measure_code.py              # the working tree
    scripts/measure_code.py v0.1 .       # two states beside each other
    scripts/measure_code.py /path/to/a/package

An argument is a directory or a commit of this repository. A directory with an
``__init__.py`` is measured as one package; otherwise the packages that lie in it and
in its ``clients/python`` are, but for tests and benchmarks. For each package:

- modules: files that end in .py
- lines: of these files
- one importer: share of modules, each ``__init__`` apart, that exactly one other module
  of these packages imports
- median, longest function: in lines, from ``def`` to the end; nested ones count, too
- circles: groups of modules that import each other, in functions and for types as well
- shared class names: names of classes at the top level of two modules or more
"""

import argparse
import ast
import io
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = (".", "clients/python")
LEFT_OUT = {"tests", "benchmarks"}


@dataclass
class Module:
    """What is measured of one file.

    Attributes:
        name: Its dotted name.
        is_package: Whether the file is an ``__init__.py``.
        lines: How many.
        functions: Lines of each function, by the function's qualified name.
        classes: Names of the classes at the top level.
        imported: Dotted names that it imports, which need not be modules.
    """

    name: str
    is_package: bool
    lines: int
    functions: dict[str, int] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    imported: set[str] = field(default_factory=set)


@dataclass
class Measures:
    """Measures of one package; the module's docstring explains each."""

    modules: int
    lines: int
    one_importer: float
    median_function: float
    longest_function: int
    longest_name: str
    circles: list[list[str]]
    shared_names: dict[str, list[str]]


def measure(folder: pathlib.Path) -> dict[str, Measures]:
    """Measure the packages in a folder, by their names."""
    modules = {each.name: each for root in packages(folder) for each in read(root)}
    imports = {name: imports_of(each, modules) for name, each in modules.items()}
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for name, targets in imports.items():
        for target in targets:
            importers[target].add(name)
    circles = circles_in(imports)
    return {
        root.name: _measures(root.name, modules, importers, circles)
        for root in packages(folder)
    }


def packages(folder: pathlib.Path) -> list[pathlib.Path]:
    """Find the directories of the packages to measure."""
    if (folder / "__init__.py").exists():
        return [folder]
    found = [
        path.parent
        for place in FOLDERS
        for path in sorted((folder / place).glob("*/__init__.py"))
    ]
    return [path for path in found if path.name not in LEFT_OUT]


def read(package: pathlib.Path) -> Iterator[Module]:
    """Read all modules of a package."""
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        source = path.read_text(encoding="utf-8")
        module = Module(name, is_package, len(source.splitlines()))
        _look_into(module, ast.parse(source))
        yield module


def _look_into(module: Module, tree: ast.Module) -> None:
    module.classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    package = module.name if module.is_package else module.name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            module.imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            module.imported.update(f"{base}.{alias.name}" for alias in node.names)
    for name, node in _functions(tree, module.name):
        module.functions[name] = (node.end_lineno or node.lineno) - node.lineno + 1


def _functions(
    node: ast.AST, prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}.{child.name}"
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, child
        yield from _functions(child, name)


def imports_of(module: Module, modules: Mapping[str, Module]) -> set[str]:
    """Return the modules that a module imports.

    ``from package import name`` imports the module of that name, if there is one, and
    otherwise the package.
    """
    found = set()
    for name in module.imported:
        while name and name not in modules:
            name = name.rpartition(".")[0]
        if name and name != module.name:
            found.add(name)
    return found


def circles_in(imports: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in imports[name]:
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in imports:
        if name not in index:
            visit(name)
    return sorted(found)


def _measures(
    package: str,
    modules: Mapping[str, Module],
    importers: Mapping[str, set[str]],
    circles: list[list[str]],
) -> Measures:
    own = [each for each in modules.values() if _is_in(each.name, package)]
    lengths = {name: n for each in own for name, n in each.functions.items()}
    longest = max(lengths, key=lambda name: lengths[name], default="")
    classes: dict[str, list[str]] = {}
    for each in own:
        for name in each.classes:
            classes.setdefault(name, []).append(each.name)
    counted = [each.name for each in own if not each.is_package]
    single = [name for name in counted if len(importers[name]) == 1]
    return Measures(
        modules=len(own),
        lines=sum(each.lines for each in own),
        one_importer=len(single) / max(1, len(counted)),
        median_function=statistics.median(lengths.values() or [0]),
        longest_function=lengths.get(longest, 0),
        longest_name=longest,
        circles=[each for each in circles if _is_in(each[0], package)],
        shared_names={k: v for k, v in sorted(classes.items()) if len(v) > 1},
    )


def _is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def measure_state(state: str) -> dict[str, Measures]:
    """Measure a directory, or a commit of this repository."""
    if pathlib.Path(state).is_dir():
        return measure(pathlib.Path(state).resolve())
    with tempfile.TemporaryDirectory() as folder:
        command = ["git", "-C", str(ROOT), "archive", state]
        packed = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        return measure(pathlib.Path(folder))


def report(states: Mapping[str, Mapping[str, Measures]]) -> Iterator[str]:
    """Write a table for each package, with a column for each state."""
    names = dict.fromkeys(name for found in states.values() for name in found)
    for package in names:
        columns = [found.get(package) for found in states.values()]
        rows = [("", *states), *_rows(columns)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        yield package
        for row in rows:
            cells = zip(row, widths, strict=True)
            yield "  " + "  ".join(f"{cell:<{width}}" for cell, width in cells).rstrip()
        for state, found in zip(states, columns, strict=True):
            for circle in found.circles if found else ():
                yield f"  circle in {state}: {', '.join(circle)}"
            for name, places in (found.shared_names if found else {}).items():
                yield f"  {name} in {state}: {', '.join(places)}"
        yield ""


def _rows(columns: Iterable[Measures | None]) -> Iterator[tuple[str, ...]]:
    found = list(columns)

    def row(title: str, show: Callable[[Measures], str]) -> tuple[str, ...]:
        return (title, *(show(each) if each else "-" for each in found))

    yield row("modules", lambda each: str(each.modules))
    yield row("lines", lambda each: str(each.lines))
    yield row("one importer", lambda each: f"{each.one_importer:.0%}")
    yield row("median function", lambda each: f"{each.median_function:g}")
    yield row(
        "longest function",
        lambda each: f"{each.longest_function} ({each.longest_name})",
    )
    yield row("circles", lambda each: str(len(each.circles)))
    yield row("shared class names", lambda each: str(len(each.shared_names)))


def main(words: list[str]) -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("state", nargs="*", default=[str(ROOT)])
    states = parser.parse_args(words).state
    print("\n".join(report({state: measure_state(state) for state in states})))


if __name__ == "__main__":
    main(sys.argv[1:])
