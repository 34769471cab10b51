"""The modules of --import: their names, and the directories that they are in.

Code is imported only from directories that no other user can write.
"""

from __future__ import annotations

import importlib.machinery
import keyword
import os
import stat
import sys

from gym_http_server.config.settings import Settings
from gym_http_server.errors import StartError

__all__ = ["resolve_imports"]


def resolve_imports(settings: Settings) -> tuple[tuple[str, ...], list[str]]:
    """Return the names of the modules to import, and their directories.

    Raises:
        StartError: A module does not exist, other users can write its directory, or a
            class is named.
    """
    for each in settings.import_:
        _check_names_no_class(each)
    names, folders = [], []
    paths = [each for each in settings.import_ if _is_path(each)]
    if len(paths) < len(settings.import_) or settings.allow_module:
        folders.append(_safe_folder(os.getcwd(), "the working directory"))
    for each in settings.import_:
        if each in paths:
            path = _module_file(each)
            folder, name = os.path.split(path.removesuffix(".py"))
            if folder not in folders:
                folders.append(_safe_folder(folder, "the directory"))
            _check_found(path, name, folders)
            names.append(name)
        else:
            names.append(each)
    return tuple(names), folders


def _check_names_no_class(given: str) -> None:
    module, colon, name = given.rpartition(":")
    if not colon or os.path.exists(given):
        return
    name = name if name.isidentifier() else "MyEnv"
    raise StartError(
        f"cannot import {given!r}: expected a module alone, by its name, as my_envs, "
        f"or its path, as my_envs.py; write --import {module}, and register the class "
        f"there: gymnasium.register('my/{name}-v0', {name})"
    )


def _is_path(module: str) -> bool:
    return "/" in module or module.endswith(".py")


def _module_file(given: str) -> str:
    """Return the absolute path of a Python file, or of a package's directory."""
    path = os.path.abspath(given)
    package = os.path.isfile(os.path.join(path, "__init__.py"))
    if not package and not (path.endswith(".py") and os.path.isfile(path)):
        raise StartError(
            f"cannot import {given!r}: expected a module's name, as my_envs, or the "
            f"path of a Python file or package, and {path} is neither"
        )
    name = os.path.basename(path).removesuffix(".py")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise StartError(
            f"cannot import {given!r}: expected a file name that Python can import, "
            f"of letters, digits and _, and {name!r} is not; rename the file"
        )
    return path


def _check_found(path: str, name: str, folders: list[str]) -> None:
    """Check that importing a name finds a certain file, in all processes."""
    spec = importlib.machinery.PathFinder.find_spec(name, [*sys.path, *folders])
    found = os.path.abspath((spec and spec.origin) or "built-in")
    known = name in sys.builtin_module_names
    if known or found not in (path, os.path.join(path, "__init__.py")):
        raise StartError(
            f"cannot import {path}: another module is named {name!r}, "
            f"{'built into Python' if known else found}; rename the file"
        )


def _safe_folder(folder: str, what: str) -> str:
    """Return a directory, if modules may be imported from it.

    Raises:
        StartError: Other users can write it.
    """
    writers = _writers(folder)
    if writers:
        raise StartError(
            f"{what} {folder} can be written by {writers}, and --import "
            "and --allow-module let modules be imported from there: start the server "
            "in a directory that only you can write"
        )
    return folder


def _writers(folder: str) -> str:
    """Return the other users that can change a directory's content, or ""."""
    owner = os.stat(folder).st_uid
    if owner not in (0, os.geteuid()):
        return f"its owner, user {owner}"
    whole = folder
    while True:
        found = os.stat(folder)
        # In a parent with the sticky bit, others cannot replace the directory.
        if folder == whole or not found.st_mode & stat.S_ISVTX:
            where = "" if folder == whole else f" of {folder}"
            if found.st_mode & stat.S_IWOTH:
                return f"every user{where}"
            if found.st_mode & stat.S_IWGRP and found.st_gid != os.getegid():
                return f"group {found.st_gid}{where}"
        if folder == os.path.dirname(folder):
            return ""
        folder = os.path.dirname(folder)
