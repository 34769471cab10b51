"""The structure of the packages, as ``scripts/measure_code.py`` measures it."""

import importlib.util
import sys
from typing import Any

import pytest

from tests.support.server import ROOT

#: Modules with one importer should join it, unless a floor or a topic parts them.
MOST_WITH_ONE_IMPORTER = 0.3


@pytest.fixture(scope="module")
def measures() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location(
        "measure_code", ROOT / "scripts" / "measure_code.py"
    )
    assert spec
    assert spec.loader
    script = importlib.util.module_from_spec(spec)
    sys.modules["measure_code"] = script
    spec.loader.exec_module(script)
    found: dict[str, Any] = script.measure(ROOT)
    return found


def test_no_modules_import_each_other(measures: dict[str, Any]) -> None:
    assert [circle for each in measures.values() for circle in each.circles] == []


def test_no_two_classes_of_a_package_share_a_name(measures: dict[str, Any]) -> None:
    assert {name: each.shared_names for name, each in measures.items()} == {
        name: {} for name in measures
    }


def test_few_modules_of_the_server_have_one_importer(measures: dict[str, Any]) -> None:
    assert measures["gym_http_server"].one_importer <= MOST_WITH_ONE_IMPORTER
