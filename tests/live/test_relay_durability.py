"""Nothing is confirmed before it is on the disk; and kills lose nothing confirmed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gym_http_wire.bundles import BUNDLE, BatchHead, encode_batch
from tests.support.api import Api
from tests.support.faults.syscalls import Call, preloaded, read_calls, unsynced
from tests.support.raw import Response
from tests.support.server import Server

pytestmark = [pytest.mark.live, pytest.mark.toolchain]

RUN = "/v1/runs/pendulum"
OCTETS = {"Content-Type": "application/octet-stream"}
LARGE = 600_000


def created(answer: Response) -> Response:
    assert answer.status == 201, answer.body
    return answer


def bundle(session: str, numbers: range, size: int) -> bytes:
    return b"".join(
        encode_batch(BatchHead(session, number, 0, 1), bytes(size))
        for number in numbers
    )


def test_answers_follow_the_syncs_of_file_folder_and_wal(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    log = tmp_path / "calls"
    server = make_server(env=preloaded(log))
    api = Api(server)
    created(api.post("/v1/runs/", {"run": "pendulum"}))
    session = created(api.post(f"{RUN}/sessions/", {"worker": "w1"})).json()["session"]
    batch = f"{RUN}/samples/?session={session}&policy=0&count=1&number="
    created(api.post(f"{batch}1", data=b"small", headers=OCTETS))
    created(api.post(f"{batch}2", data=bytes(LARGE), headers=OCTETS))
    for numbers, size in ((range(3, 6), 100), (range(6, 9), LARGE)):
        data = bundle(session, numbers, size)
        headers = {"Content-Type": BUNDLE}
        created(api.post(f"{RUN}/samples/", data=data, headers=headers))
    first = {**OCTETS, "If-None-Match": "*"}
    for kind, size in (("weights", LARGE), ("state", 100)):
        path = f"{RUN}/{kind}/?reader=r&after=4"
        created(api.request("PUT", path, data=bytes(size), headers=first))
    record = b'{"type": "training", "step": 1}'
    lines = {"Content-Type": "application/x-ndjson"}
    created(api.post(f"{RUN}/records/", data=record, headers=lines))
    folder = f"{server.data_dir}/relay"
    calls = read_calls(log)
    answers = [at for at, call in enumerate(calls) if is_created(call)]
    assert len(answers) == 9
    for before, at in zip([0, *answers], answers, strict=False):
        assert not unsynced(calls[:at], folder), calls[at]
        synced = [call.path for call in calls[before:at] if call.name == "sync"]
        assert any(path.endswith("-wal") for path in synced)
    # The three large bodies were files, each written by a web worker.
    begun = {call.path for call in calls if is_body(call) and call.name == "write"}
    assert len(begun) == 3
    (relay,) = {call.pid for call in calls if call.path.endswith("-wal")}
    writers = {call.pid for call in calls if is_body(call) and call.name == "write"}
    assert relay not in writers
    # The position 4 frees one of them, after the commit.
    (removed,) = [
        at for at, call in enumerate(calls) if is_body(call) and call.name == "unlink"
    ]
    assert not unsynced(calls[:removed], folder)
    assert len(os.listdir(f"{folder}/bodies")) == 2


def is_created(call: Call) -> bool:
    return call.name == "send" and call.data.startswith("HTTP/1.1_201")


def is_body(call: Call) -> bool:
    return call.path.endswith(".body")
