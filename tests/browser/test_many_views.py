"""The page with 500 instances, 50 of them on the wall."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.api import Api
from tests.support.peers.checked_page import CheckedPage
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(400)]

SECONDS = 60.0
ROWS = "document.querySelectorAll('[aria-label=\"Live instances\"] tbody tr').length"
FRAMES = """[...document.querySelectorAll(".tile img")]
  .filter((each) => each.naturalWidth).length"""


@pytest.mark.alone
def test_500_instances_are_listed_and_50_shown_on_the_wall() -> None:
    flags = ("--max-instances", "500", "--create-deadline", "120")
    with Server(*flags) as server, CheckedPage() as page:
        api = Api(server)
        body = {"env_id": "FrozenLake-v1", "render_mode": "rgb_array"}
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda _: api.create(**body), range(500)))
            for _ in pool.map(lambda each: each.reset(), made[:60]):
                pass
        page.resize(1400, 3000)
        page.open(f"{server.url}/")
        page.shows("500 of 500 slots taken")
        page.shows("All slots are taken")
        page.run("location.hash = '#/instances'")
        wait_until(lambda: page.run(ROWS) == 500, SECONDS, "500 rows")
        page.write("input[type=search]", made[17].id)
        wait_until(lambda: page.run(ROWS) == 1, SECONDS, "the one that was searched")
        page.run("location.hash = '#/wall'")
        page.shows("450 more are not shown")
        wait_until(lambda: page.run(FRAMES) == 50, SECONDS, "50 frames")
        assert page.faults == []
