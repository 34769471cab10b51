"""Commands in messages and documents install packages and extras that exist."""

import re
import tomllib

from tests.support.documents import TEXTS
from tests.support.server import ROOT

SERVER, CLIENT = "pyproject.toml", "clients/python/pyproject.toml"
#: As gymnasium-http-server[envs,fleet], ./clients/python[sb3] or '.[zmq]'.
NAMED = re.compile(
    r"(gym[a-z]*[-_]http[-_][a-z]+|\./clients/python|(?<=')\.)\[([a-z0-9]+(?:,[a-z0-9]+)*)\]"
)


def extras(project: str) -> tuple[str, set[str]]:
    described = tomllib.loads((ROOT / project).read_text(encoding="utf-8"))["project"]
    return described["name"], set(described["optional-dependencies"])


def test_named_packages_and_extras_exist() -> None:
    (server, of_server), (client, of_client) = extras(SERVER), extras(CLIENT)
    known = {server: of_server, ".": of_server}
    known |= {client: of_client, "./clients/python": of_client}
    texts = dict(TEXTS)
    for folder in ("gym_http_server", "clients/python", "examples"):
        for file in (ROOT / folder).rglob("*.py"):
            texts[str(file.relative_to(ROOT))] = file.read_text(encoding="utf-8")
    found = [
        (place, match[1], each)
        for place, text in texts.items()
        for match in NAMED.finditer(text)
        for each in match[2].split(",")
    ]
    assert len(found) > 10
    assert [each for each in found if each[2] not in known.get(each[1], ())] == []
