"""Large create requests are divided: the supervisor gets what is small."""

import hashlib
import json
import os
from typing import Any

import numpy as np
import pytest

from gym_http_server.operations.create_bodies import divide, is_large
from gym_http_wire.messages import Form
from gym_http_wire.problems import BadJSON
from gym_http_wire.values import binary, typed

GIVEN: dict[str, Any] = {
    "env_id": "CartPole-v1",
    "kwargs": {"map": np.zeros(100_000)},
    "label": "a map",
    "wrappers": [{"name": "ClipReward", "kwargs": {"min_reward": np.zeros(9_999)}}],
    "num_envs": 2,
}
SMALL = {"env_id": "CartPole-v1", "label": "a map", "num_envs": 2}


@pytest.mark.parametrize("form", [Form.PLAIN, Form.TYPED, Form.BINARY])
def test_the_supervisor_gets_the_small_members(form: Form) -> None:
    body = (binary if form == Form.BINARY else typed).encode(GIVEN)
    divided = divide(body, form | Form.PLAIN << 4)
    assert json.loads(divided.members) == SMALL
    assert divided.digest == hashlib.sha256(body).hexdigest()
    with divided.memory as memory:
        assert os.pread(memory.fileno(), len(body) + 1, 0) == body
        # Neither the host nor its environment can change it while another reads it.
        again = os.open(f"/proc/self/fd/{memory.fileno()}", os.O_RDWR)
        for change in (
            lambda: os.pwrite(again, b"x", 0),
            lambda: os.ftruncate(again, 0),
            lambda: os.ftruncate(again, 10 * len(body)),
        ):
            with pytest.raises(PermissionError):
                change()
        os.close(again)


def test_small_requests_stay_whole() -> None:
    both = Form.PLAIN | Form.PLAIN << 4
    assert not is_large(b"x" * 16 * 1024, both)
    assert is_large(b"x" * (16 * 1024 + 1), both)
    assert not is_large(b"x", Form.TYPED | Form.BINARY << 4)
    assert is_large(b"x", Form.BINARY)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"a"', b'{"a":}', b"\xff", b"[" * 9999, b'"text"']
)
def test_what_is_no_object_is_refused(body: bytes) -> None:
    for form in (Form.PLAIN, Form.TYPED, Form.BINARY):
        with pytest.raises(BadJSON):
            divide(body, form)
