"""What the page shows of a fleet: its nodes, and the node of each instance."""

import os
import signal

import pytest

from tests.support.api import Api, no_content
from tests.support.fleet import fleet
from tests.support.peers.checked_page import CheckedPage
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(120)]


def cells(page: CheckedPage, caption: str) -> list[list[str]]:
    """Return the texts of a table, without its head."""
    found: list[list[str]] = page.run(
        f"[...document.querySelectorAll('[aria-label^=\"{caption}\"] tbody tr')].map("
        "(row) => [...row.cells].map((cell) => cell.innerText.trim()))"
    )
    return found


def test_the_page_shows_nodes_and_the_node_of_each_instance() -> None:
    args = ("--max-instances", "8", "--drain-until-idle", "60")
    with fleet("one", "two", args=args) as (_, (one, two)), CheckedPage() as page:
        page.resize(1400, 1000)
        api = Api(one)
        made = [api.create(node=node) for node in ("one", "one", "two")]
        page.open(one.url)
        expected = [["one", "2 of 8", "ready"], ["two", "1 of 8", "ready"]]
        wait_until(lambda: cells(page, "Nodes") == expected, 20.0, "the nodes")
        page.shows("All is well")
        page.run("location.hash = '#/instances'")
        wait_until(lambda: len(cells(page, "Live")) == 3, 20.0, "the instances")
        shown = {row[0]: row[3] for row in cells(page, "Live")}
        assert [shown[each.id] for each in made] == ["one", "one", "two"]
        page.run(f"location.hash = '#/envs/{made[2].id}'")
        facts = "Object.fromEntries([...document.querySelectorAll('.facts dt')].map("
        facts += "(each) => [each.innerText, each.nextSibling.innerText]))"
        wait_until(lambda: page.run(facts).get("Node") == "two", 20.0, "its node")
        page.run("location.hash = '#/'")
        os.kill(two.pid, signal.SIGTERM)
        expected[1][2] = "draining"
        wait_until(lambda: cells(page, "Nodes") == expected, 20.0, "the drain")
        processes = two.members()
        for each in processes:
            each.suspend()
        expected[1][2] = "missing"
        wait_until(lambda: cells(page, "Nodes") == expected, 30.0, "the end")
        page.shows("The node two is missing")
        for each in processes:
            each.resume()
        for instance in made:
            no_content(instance.close())
        assert page.faults == []
