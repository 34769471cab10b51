"""Pictures of environments are drawn once, without an instance, and kept."""

import io
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from gym_http_server.host.mark import DRAWING
from tests.support import api as calls
from tests.support.api import Api, error, ok
from tests.support.envs import drawn
from tests.support.raw import Response
from tests.support.server import Server
from tests.support.token_file import api_of, write_file
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

PAINTED = "drawn/Painted-v0"
SIZE = (192, 128)


def thumbnail(api: Api, env_id: str, **headers: str) -> Response:
    return api.request("GET", f"/v1/registry/{env_id}/thumbnail/", headers=headers)


def colour_of(answer: Response) -> tuple[int, ...]:
    """Return the colour of a picture's middle, after checks of its headers."""
    assert answer.status == 200
    assert answer.header("Content-Type") == "image/jpeg"
    assert answer.header("Cache-Control") == "private, max-age=3600"
    image = Image.open(io.BytesIO(answer.body))
    assert image.size == SIZE
    pixel = image.getpixel((SIZE[0] // 2, SIZE[1] // 2))
    assert isinstance(pixel, tuple)
    return pixel


def is_near(pixel: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return all(abs(a - b) < 8 for a, b in zip(pixel, wanted, strict=True))


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A copy of the environments, of which a test may make a new version."""
    return Path(shutil.copy(str(drawn.__file__), tmp_path / "drawn_here.py"))


@pytest.fixture
def serve(make_server: Callable[..., Server], module: Path) -> Callable[..., Server]:
    def started(*args: str) -> Server:
        flags = ("--import", "drawn_here", "--sandbox", "off", *args)
        return make_server(*flags, python_path=(module.parent,))

    return started


def drawings(module: Path) -> list[str]:
    return module.with_name("drawings").read_text().split()


def test_a_picture_is_drawn_once_and_again_for_a_new_version(
    serve: Callable[..., Server], module: Path
) -> None:
    server = serve()
    api = Api(server)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(thumbnail, api, PAINTED) for _ in range(4)]
        answers = [each.result() for each in asked]
    assert all(is_near(colour_of(each), drawn.COLOUR) for each in answers)
    assert drawings(module) == ["0"]
    etag = str(answers[0].header("ETag"))
    again = thumbnail(api, PAINTED, **{"If-None-Match": etag})
    assert (again.status, again.body) == (304, b"")
    # No instance was made.
    assert ok(api.get("/v1/instances/"))["ended"] == []
    assert ok(api.get("/v1/events/"))["events"] == []
    assert not server.services("thumbnails")
    assert server.stop() == 0

    data = ("--data-dir", str(server.data_dir))
    later = Api(serve(*data))
    assert thumbnail(later, PAINTED).body == answers[0].body
    assert drawings(module) == ["0"]

    module.write_text(module.read_text().replace("200, 60, 20", "10, 90, 220"))
    newest = serve(*data, "--tokens", write_file(module.parent))
    error(thumbnail(api_of(newest, "reader"), PAINTED), 403, "scope-missing")
    found = thumbnail(api_of(newest, "maker"), PAINTED)
    assert is_near(colour_of(found), (10, 90, 220))
    assert drawings(module) == ["0", "0"]


def test_environments_that_cannot_be_drawn_have_no_picture_and_leave_nothing(
    make_server: Callable[..., Server],
) -> None:
    flags = ("--import", "tests.support.envs.drawn", "--create-deadline", "3")
    server = make_server(*flags, "--sandbox", "on")
    api = Api(server)
    with ThreadPoolExecutor(2) as pool:
        hanging = pool.submit(thumbnail, api, "drawn/Hangs-v0")
        # No other request waits for it.
        instance = api.create()
        instance.reset()
        calls.no_content(instance.close())
        # Neither does one for an unknown name.
        for name in ("drawn/Nothing-v0", "external/none"):
            error(thumbnail(api, name), 404, "not-found")
        error(thumbnail(api, "nothing:Painted-v0"), 403, "env-refused")
        assert not hanging.done()
        assert hanging.result().status == 204
    for name in ("Blind", "Dies", "Hungry"):
        assert thumbnail(api, f"drawn/{name}-v0").status == 204, name
    error(thumbnail(api, "drawn/Painted-v1"), 404, "not-found")
    error(thumbnail(api, "../../etc/passwd"), 404, "not-found")
    # The sandbox refuses the file beside the module.
    assert thumbnail(api, PAINTED).status == 204
    wait_until(lambda: not server.environments(), 5.0, "the end of what it started")
    wait_until(
        lambda: not server.services("thumbnails"), 5.0, "the end of its children"
    )
    assert not list(server.run_dir.glob(f"*/{DRAWING}"))
