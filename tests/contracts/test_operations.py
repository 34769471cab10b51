"""The rows of operations: what is made of them is up to date, and one row suffices."""

import importlib.util
import subprocess
import sys
from types import ModuleType

import pytest
from msgspec.structs import replace

from gym_http_server.operations.instances import CREATE
from gym_http_server.operations.members import Choice, Integer, Member, read
from gym_http_server.operations.table import OPERATIONS
from gym_http_server.web.api.exchange import read_parameters
from gym_http_server.web.api.service import CAPABILITIES
from gym_http_wire.problems import BadParameter
from tests.support.server import ROOT

SCRIPT = ROOT / "scripts" / "make_openapi.py"
# Of a create request. A server without capabilities for them ignores no other.
KNOWN_EVERYWHERE = {
    *("env_id", "kwargs", "seed", "render_mode", "max_episode_steps", "wrappers"),
    *("disable_env_checker", "num_envs", "vectorization_mode", "vector_kwargs"),
    *("autoreset_mode", "hosts", "wait_s", "for", "exact_id", "label", "realtime"),
    "typed",
}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that makes the document."""
    spec = importlib.util.spec_from_file_location("make_openapi", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_document_is_made_of_rows_and_words() -> None:
    made = subprocess.run(
        [sys.executable, SCRIPT], capture_output=True, text=True, check=False
    )
    assert (made.returncode, made.stdout, made.stderr) == (0, "", ""), made.stdout


def test_a_parameter_is_added_in_one_place(script: ModuleType) -> None:
    row = OPERATIONS["env_updates"]
    colour = Member(Choice(("red", "blue")), "Colour of the updates.")
    row = replace(row, query={**row.query, "colour": colour})
    assert read_parameters({"QUERY_STRING": "colour=red"}, row.query) == {
        "colour": "red"
    }
    with pytest.raises(BadParameter, match=r"^colour is 'rad': expected 'red' or"):
        read_parameters({"QUERY_STRING": "colour=rad"}, row.query)
    with pytest.raises(BadParameter, match="did you mean 'colour'"):
        read_parameters({"QUERY_STRING": "colours=red"}, row.query)
    problems = {name: {"status": 500} for name in row.problems}
    made = script.merged(row, {"tags": []}, problems)
    assert made["parameters"][-1] == {
        "name": "colour",
        "in": "query",
        "description": "Colour of the updates.",
        "schema": {"enum": ["red", "blue"]},
    }


def test_a_member_of_a_body_is_added_in_one_place(script: ModuleType) -> None:
    row = OPERATIONS["env_act"]
    assert row.body is not None
    row = replace(
        row, body={**row.body, "weight": Member(Integer(1, 9), "Its weight.")}
    )
    assert row.body is not None
    assert read(row.body, {"action": 1, "weight": 2.0}) == {"action": 1, "weight": 2}
    with pytest.raises(BadParameter, match="weight is 10: expected an integer from 1"):
        read(row.body, {"weight": 10})
    with pytest.raises(BadParameter, match="did you mean 'weight'"):
        read(row.body, {"weights": 1})
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Act"}}}
    schemas: dict[str, dict[str, object]] = {}
    script.add_body(row, {"requestBody": {"content": content}}, schemas)
    assert schemas["Act"]["properties"]["weight"] == {  # type: ignore[index]
        "type": ["integer", "null"],
        "minimum": 1,
        "maximum": 9,
        "description": "Its weight.",
    }


def test_a_new_member_of_a_create_has_a_capability() -> None:
    """An older server ignores it; so clients ask `GET /v1/` before they send it."""
    beside_resume = {"step", "verify"}
    assert set(CREATE) - KNOWN_EVERYWHERE - beside_resume <= set(CAPABILITIES)
