"""Environments of published packages, local beside remote, bit by bit.

``make packages`` compares many more; these are small to install.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.packages import playing
from tests.packages.table import Case
from tests.support.server import Server

MADE = Path(playing.__file__).parent / "made"
CASES = {
    "minigrid": Case("MiniGrid-Fetch-8x8-N3-v0", steps=40),
    str(MADE / "mo_vectors.py"): Case(
        "made/MOMountainCar-v0", steps=40, vectorized_by="vector_entry_point"
    ),
    str(MADE / "supersuit_wrappers.py"): Case("made/SuperSuitVectors-v0", steps=40),
}

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def package_server() -> Iterator[Server]:
    """A server with the environments of all packages."""
    flags = [word for module in CASES for word in ("--import", module)]
    with Server(*flags) as started:
        yield started


@pytest.mark.parametrize("way", playing.WAYS)
@pytest.mark.parametrize("module", CASES, ids=lambda module: Path(module).stem)
def test_results_are_the_local_ones(
    package_server: Server, module: str, way: str
) -> None:
    playing.load(module)
    case = asdict(CASES[module])
    makers = playing.remote(case, way, package_server.url), playing.local(case, way)
    remote, local = (
        list(playing.record(make, case, way, seeds=(3, 4))) for make in makers
    )
    assert playing.compare(remote, local) == {}
    assert len(local) > 4 * case["steps"]
