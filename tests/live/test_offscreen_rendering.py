"""MuJoCo's environments on a machine without a display."""

from pathlib import Path

import pytest

from tests.support.api import Api, Instance, error, ok
from tests.support.server import Server

pytestmark = pytest.mark.live

#: The names that PyOpenGL tries.
LIBRARIES = [
    f"{name}.so{version}"
    for name in ("libEGL", "libOSMesa")
    for version in ("", *(f".{number}" for number in range(10)))
]


@pytest.fixture
def no_libraries(tmp_path: Path) -> dict[str, str]:
    """Environment variables with which no library for OpenGL can be loaded."""
    for name in LIBRARIES:
        (tmp_path / name).write_text("not a library")
    return {"LD_LIBRARY_PATH": str(tmp_path), "DISPLAY": ""}


def test_without_libraries_they_run_and_say_what_drawing_needs(
    no_libraries: dict[str, str],
) -> None:
    # Other tests set the variable, for their own process.
    with Server(env=no_libraries, prefix=("env", "-u", "MUJOCO_GL")) as server:
        api = Api(server)
        body = {"env_id": "HalfCheetah-v5", "render_mode": "rgb_array"}
        instance = Instance(api, ok(api.post("/v1/envs/", body))["instance_id"])
        ok(instance.post("reset/", {"seed": 1}))
        assert len(ok(instance.post("step/", {"action": [0.0] * 6}))["observation"])
        message = error(instance.get("render/"), 502, "env-error")["message"]
        assert "install libegl1, libopengl0 and libgl1-mesa-dri" in message
        # The instance lives.
        ok(instance.post("step/", {"action": [0.0] * 6}))
        assert instance.close().status == 204
