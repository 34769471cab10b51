"""Makes the create request of a recorded instance from a request to resume it."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import msgspec

from gym_http_server.datadir.own_paths import DataDir
from gym_http_server.datadir.recording_files import (
    arguments_file,
    named_by,
    open_existing,
    open_recorded,
    part_name,
    part_numbers,
)
from gym_http_server.errors import CannotResume, NotFound
from gym_http_server.operations.create_bodies import Divided, sealed, small_members
from gym_http_server.operations.instances import CREATE
from gym_http_server.operations.members import read_optional
from gym_http_wire.messages import Form
from gym_http_wire.outline import OutlineError, outline
from gym_http_wire.problems import BadJSON, BadParameter
from gym_http_wire.step_parts import HEADER_START, header_member, header_size

__all__ = ["may_resume", "read_resume"]

#: Parts of a recording, which a host gets one by one, some 30 ms each.
MAX_PARTS = 500

Json = dict[str, Any]
_BESIDE = ("resume", "step", "verify", "label", "for", "node")
#: Members that a recorded request may have; ``arguments`` stands for two of them.
_RECORDED = {*CREATE, "arguments"} - {*_BESIDE, "record"} | {"label"}


def may_resume(body: bytes) -> bool:
    """Whether the body of a create request may be one to resume a recording."""
    # JSON may have any letter as an escape, also in the signature of the binary form.
    return b'"resume"' in body or b"\\u" in body


def read_resume(
    body: bytes, form: int, data_dir: DataDir, owner: str, most: int
) -> bytes | Divided | None:
    """Return the create request of the recording that a request resumes.

    Args:
        body: The body of the request.
        form: Its form, and in the high half that of the answer.
        data_dir: The data directory.
        owner: Token that wants to read the recording; "" may read all.
        most: Bytes that the arguments of an environment may have.

    Returns:
        Its body as JSON; or it is divided, with arguments in the binary form, if they
        are in a file of their own. ``None`` if the request resumes nothing, or is
        malformed, which the supervisor reports.

    Raises:
        NotFound: There is no such recording, or it belongs to another token.
        CannotResume: It has no create request, or its arguments are gone.
        BadParameter: The request has members for which there is no place.
    """
    given = _members(body, form)
    if given is None:
        return None
    directory = read_optional(CREATE, given, ignores=True)["resume"]
    if others := sorted(set(given) & set(CREATE) - {*_BESIDE, "typed"}):
        raise BadParameter(
            f"{others[0]} is {given[others[0]]!r:.80} beside resume, which takes it "
            f"from the recording: expected only {', '.join(_BESIDE[1:])}"
        )
    with named_by("resume"):
        folder = open_existing(data_dir, directory, owner)
    try:
        recorded = _recorded(folder, directory)
        arguments = recorded.pop("arguments", None)
        content = b"" if arguments is None else _arguments(folder, arguments, most)
    finally:
        os.close(folder)
    seed = recorded.get("seed")
    if isinstance(seed, dict):
        # As typed JSON has large integers.
        recorded["seed"] = int(seed["v"])
    members = msgspec.json.encode({**recorded, **given, "typed": True})
    if arguments is None:
        return members
    return Divided(members, sealed(content), str(arguments["sha256"]))


def _members(body: bytes, form: int) -> Json | None:
    """Return the members of a request to resume; ``None`` if it is no such request."""
    try:
        # Large arguments are not decoded for the requests that resume nothing.
        small = msgspec.json.decode(small_members(body, form))
        if small.get("resume") is None:
            return None
        binary = form & 0xF == Form.BINARY
        given: Json = outline(body, ()) if binary else msgspec.json.decode(body)
    except (BadJSON, OutlineError, msgspec.MsgspecError, ValueError, RecursionError):
        return None
    # As in other requests, null is the same as no member.
    return {name: value for name, value in given.items() if value is not None}


def _recorded(folder: int, directory: str) -> Json:
    """Return the create request in the header of the newest part that has a header."""
    numbers = part_numbers(os.listdir(folder))
    if len(numbers) > MAX_PARTS:
        raise CannotResume(
            f"the recording in {directory!r:.120} has {len(numbers)} parts, of which "
            f"each resume adds one: expected at most {MAX_PARTS}; begin a new recording"
        )
    for number in reversed(numbers):
        found = header_member(_beginning(folder, part_name(number)), "request")
        if isinstance(found, dict):
            return {name: found[name] for name in _RECORDED & found.keys()}
        if found is not None:
            break
    raise CannotResume(
        f"the recording in {directory!r:.120} has no create request: expected one that "
        "the member 'record' of a create request began"
    )


def _beginning(folder: int, name: str) -> bytes:
    """Return the beginning of a part, with the whole header."""
    with os.fdopen(open_recorded(folder, name), "rb") as file:
        start = file.read(HEADER_START)
        return start + file.read(header_size(start))


def _arguments(folder: int, described: Any, most: int) -> bytes:
    """Return the content of the file with the arguments of a create request.

    Args:
        folder: Descriptor of the recording's directory.
        described: What the header says about the file.
        most: Bytes that it may have.
    """
    digest = str(described.get("sha256")) if isinstance(described, dict) else ""
    try:
        with os.fdopen(open_recorded(folder, arguments_file(digest)), "rb") as file:
            content = file.read(most + 1)
    except NotFound:
        content = b""
    if len(content) > most or hashlib.sha256(content).hexdigest() != digest:
        raise CannotResume(
            f"the file {arguments_file(digest)!r:.100} with the arguments of the "
            "environment is gone, or not as it was written: expected it beside the "
            "parts of the recording"
        )
    return content
