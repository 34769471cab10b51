"""Routes of recordings: list them, download their files, and delete them."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from gym_http_server.datadir.recording_files import (
    RecordingFiles,
    delete_recording,
    describe,
    find_recordings,
    is_active,
    open_existing,
    open_recorded,
)
from gym_http_server.services.relay.messages import BodyPieces, Piece
from gym_http_server.web.api.exchange import (
    Answer,
    Environ,
    caller_of,
    empty_answer,
    json_answer,
    read_body,
)
from gym_http_server.web.api.run_bodies import cut_to_range
from gym_http_server.web.api.web import View, Web
from gym_http_server.web.backends.downloads import Download
from gym_http_server.web.backends.transfers import in_thread

__all__ = ["VIEWS"]

#: Recordings that an answer lists at most, the newest.
MAX_LISTED = 1000
_TYPES = {
    "bin": "application/octet-stream",
    "gym": "application/octet-stream",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "mp4": "video/mp4",
}
# Environments made the content: a browser must not show it as a page of the server.
_INERT = (
    ("Content-Disposition", "attachment"),
    ("Content-Security-Policy", "sandbox"),
    ("Cache-Control", "no-cache"),
)


def _list(web: Web, environ: Environ) -> Answer:
    read_body(environ, web.settings.max_body)
    # All other greenlets go on while a disk is slow.
    found = in_thread(_find, web, caller_of(environ).only)
    listed = [_members(each) for each in found[:MAX_LISTED]]
    body = {"recordings": listed, "total": len(found)}
    return json_answer(msgspec.json.encode(body) + b"\n")


def _find(web: Web, owner: str) -> list[RecordingFiles]:
    found = find_recordings(web.data_dir, owner)
    return sorted(found, key=lambda each: (-each.about.began_at, each.directory))


def _describe(web: Web, environ: Environ, directory: str) -> Answer:
    read_body(environ, web.settings.max_body)

    def described() -> RecordingFiles:
        folder = open_existing(web.data_dir, directory, owner)
        try:
            return describe(folder, directory)
        finally:
            os.close(folder)

    owner = caller_of(environ).only
    body = _members(in_thread(described))
    return json_answer(msgspec.json.encode(body) + b"\n")


def _download(web: Web, environ: Environ, directory: str, name: str) -> Answer:
    read_body(environ, web.settings.max_body)

    def opened() -> tuple[int, bool]:
        folder = open_existing(web.data_dir, directory, owner)
        try:
            # In this order: what ends meanwhile has no ETag yet.
            active = is_active(folder)
            return open_recorded(folder, name), active
        finally:
            os.close(folder)

    owner = caller_of(environ).only
    file, active = in_thread(opened)
    found, headers, etag = os.fstat(file), [*_INERT], ""
    if not active:
        # A host writes through memory, which shows in no size or time.
        etag = f'"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"'
        headers.append(("ETag", etag))
    if etag and environ.get("HTTP_IF_NONE_MATCH") == etag:
        os.close(file)
        return Answer(304, headers, b"")
    size = found.st_size
    pieces = BodyPieces([Piece(0, 0, size)] if size else [], memoryview(b""))
    download = Download(pieces, [file])
    status, ranged = cut_to_range(download, environ, etag)
    kind = ("Content-Type", _type(name))
    return Answer(status, [kind, *headers, *ranged], download)


def _delete(web: Web, environ: Environ, directory: str) -> Answer:
    read_body(environ, web.settings.max_body)
    in_thread(delete_recording, web.data_dir, directory, caller_of(environ).only)
    return empty_answer()


def _members(found: RecordingFiles) -> dict[str, Any]:
    about = found.about
    return {
        "active": found.active,
        "began_at": about.began_at or None,
        "bytes": sum(found.files.values()),
        "directory": found.directory,
        "env_id": about.env_id or None,
        "files": [
            {"bytes": size, "name": name, "type": _type(name)}
            for name, size in found.files.items()
        ],
        "instance_id": about.instance_id or None,
        "label": about.label,
        "num_envs": about.num_envs,
        "owner": about.owner or None,
    }


def _type(name: str) -> str:
    return _TYPES[name.rpartition(".")[2]]


VIEWS: dict[str, View] = {
    "recordings": _list,
    "recording": _describe,
    "recording_file": _download,
    "recording_delete": _delete,
}
