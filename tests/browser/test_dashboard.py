"""The dashboard's shell: files and headers, signing in, the list, and new instances."""

import re
from collections.abc import Iterator

import pytest

from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.peers.checked_page import CheckedPage
from tests.support.runs import Run, done
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(120)]

TOKEN = "a-token-for-the-tests"
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
HOSTILE = "<img src=x onerror=alert(1)>"
POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' blob: data:",
    "media-src blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
}
#: For tests in which the token changes nothing, but which sign in with it.
WITH_TOKEN = pytest.mark.parametrize("server", [TOKEN], ids=["token"], indirect=True)
#: Bytes of the page's own files, and with the JavaScript client, without /docs/.
MOST_OWN_BYTES = 180 * 1024
MOST_BYTES = 360 * 1024
#: Files of the page that a browser loads before it shows the first view.
FIRST_FILES, FIRST_BYTES = 20, 60 * 1024


@pytest.fixture(scope="module", params=["", TOKEN], ids=["open", "token"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    flags = ["--token", request.param] if request.param else []
    with Server(*flags, token=request.param or None) as started:
        yield started


@pytest.fixture
def api(server: Server) -> Api:
    return Api(server)


@pytest.fixture
def page(server: Server) -> Iterator[CheckedPage]:
    """A page whose errors, violations and foreign requests fail the test."""
    with CheckedPage() as opened:
        yield opened
        assert opened.faults == []
        assert opened.hosts <= {f"127.0.0.1:{server.port}"}


def test_browsers_get_the_page_and_others_what_v1_gives(api: Api) -> None:
    answer = api.request("GET", "/", headers={**HTML, "Authorization": ""})
    assert answer.status == 200
    assert b"<!doctype html>" in answer.body
    given = set(str(answer.header("Content-Security-Policy")).split("; "))
    assert given == POLICY
    assert answer.header("Referrer-Policy") == "no-referrer"
    assert answer.header("X-Content-Type-Options") == "nosniff"
    etag = str(answer.header("ETag"))
    again = api.request("GET", "/", headers={**HTML, "If-None-Match": etag})
    assert (again.status, again.body) == (304, b"")
    assert ok(api.get("/"))["api"] == "v1"


@WITH_TOKEN
def test_all_files_of_the_page_are_small_together(api: Api) -> None:
    found = {"/dashboard/style.css", "/dashboard/instance.css", "/dashboard/icon.svg"}
    sizes = {}
    waiting = ["/dashboard/js/app.js"]
    while waiting:
        path = waiting.pop()
        found.add(path)
        source = api.request("GET", path).text
        for name in re.findall(r'"(\.\.?/[^"]+\.js)"', source):
            parts = path.split("/")[:-1]
            for part in name.split("/"):
                if part == "..":
                    parts.pop()
                elif part != ".":
                    parts.append(part)
            if (target := "/".join(parts)) not in found:
                found.add(target)
                waiting.append(target)
    for path in found:
        answer = api.request("GET", path, headers={"Authorization": ""})
        assert answer.status == 200, path
        sizes[path] = len(answer.body)
    own = sum(size for path, size in sizes.items() if path.startswith("/dashboard/"))
    assert own <= MOST_OWN_BYTES
    assert sum(sizes.values()) <= MOST_BYTES


@WITH_TOKEN
def test_the_first_view_loads_few_files(server: Server, page: CheckedPage) -> None:
    page.open(f"{server.url}/#token={server.token}" if server.token else server.url)
    page.shows("Ready")
    found = page.run(
        "performance.getEntriesByType('resource').filter(({ name }) => "
        "name.includes('/dashboard/')).map((each) => each.decodedBodySize)"
    )
    assert len(found) <= FIRST_FILES
    assert sum(found) <= FIRST_BYTES


@WITH_TOKEN
def test_families_and_environments_have_pictures(
    server: Server, page: CheckedPage
) -> None:
    def drawn(place: str) -> list[int]:
        """Return the widths of the pictures in tiles."""
        images = f"[...document.querySelectorAll('{place} .thumbnail img')]"
        return list(page.run(f"{images}.map((each) => each.naturalWidth)"))

    page.open(f"{server.url}/#token={server.token}" if server.token else server.url)
    page.shows("Overview")
    page.run("location.hash = '#/new'")
    wait_until(lambda: len(drawn(".families")) > 2, 40.0, "pictures of families")
    wait_until(lambda: drawn(".chosen") == [192], 20.0, "that of CartPole")
    tiles = page.run(
        "[...document.querySelectorAll('.families button')].map((each) => "
        "[each.textContent, each.offsetHeight, each.scrollWidth > each.clientWidth])"
    )
    names = [name for name, _, _ in tiles]
    # All of Gymnasium's that name no package are retired.
    toys, others = (
        next(each for each in names if each.startswith(name))
        for name in ("Toy text", "Others")
    )
    assert names.index(others) > names.index(toys)
    assert len({height for _, height, _ in tiles[1:]}) == 1
    assert not [name for name, _, is_cut in tiles if is_cut]
    options = "[...document.querySelectorAll('[aria-label=Environments] option')]"
    listed = page.run(f"{options}.map((each) => each.textContent)")
    retired = ["(cannot be made)" in each for each in listed]
    assert retired == sorted(retired)
    page.write("[type=search]", "taxi-v")
    wait_until(
        lambda: page.run("document.querySelector('.chosen h2').textContent").startswith(
            "Taxi"
        ),
        10.0,
        "Taxi",
    )
    wait_until(lambda: drawn(".chosen") == [192], 20.0, "that of Taxi")


def test_a_person_makes_finds_and_closes_an_instance(
    server: Server, api: Api, page: CheckedPage
) -> None:
    if server.token:
        page.open(f"{server.url}/")
        page.shows("This server needs a token.")
        page.take_fault("401 (Unauthorized)")
        page.write("input[type=password]", "wrong")
        page.strike("Enter")
        page.shows("The server does not know this token.")
        page.take_fault("401 (Unauthorized)")
        page.run(f"location.hash = '#token={server.token}'")
    else:
        page.open(f"{server.url}/")
    page.shows("slots taken")
    assert TOKEN not in page.run("location.href")
    mine = api.create(label=HOSTILE)
    page.shows(HOSTILE)
    page.run("location.hash = '#/instances'")
    page.shows("Live")
    page.shows(HOSTILE)
    assert page.run("document.querySelectorAll('td img, li img').length") == 0
    page.press(f'[data-key="close {mine.id}"]')
    page.shows("Keep it")
    page.press("dialog button")
    wait_until(lambda: mine.id not in api.instances(), 20.0, "the end")
    page.shows("closed")
    page.run("location.hash = '#/new'")
    page.shows("environments")
    page.write("input[type=search]", "no such environment")
    page.shows("0 environments")
    page.write("input[type=search]", "taxi")
    page.shows("Taxi-v")
    page.save_screenshot("new-instance")
    page.press("button[type=submit]")
    wait_until(lambda: "Taxi-v4" in api.instances().values(), 20.0, "the instance")
    page.shows("Close instance")
    assert page.run("scrollY") == 0
    page.run("location.hash = '#/recordings'")
    page.shows("There are no recordings.")
    watched = next(Instance(api, each) for each in api.instances())
    no_content(
        watched.post("monitor/start/", {"directory": "<b>mine</b>", "steps": True})
    )
    page.run("location.reload()")
    page.shows("<b>mine</b>")
    page.shows("steps.gym")
    page.run("location.hash = '#/runs'")
    page.shows("There are no runs.")
    for each in api.instances():
        Instance(api, each).close()


@WITH_TOKEN
def test_arguments_are_fields_and_the_search_is_left_by_keys(
    server: Server, api: Api, page: CheckedPage
) -> None:
    page.open(f"{server.url}/#token={server.token}" if server.token else server.url)
    page.shows("slots taken")
    page.run("location.hash = '#/new'")
    page.shows("environments")
    page.write("input[type=search]", "rps_v2")
    page.shows("parallel player_0 player_1")
    page.write("input[type=search]", "frozen")
    page.shows("2 environments")
    # The first one is chosen.
    page.shows("gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv")
    page.strike("ArrowDown")
    assert page.run("document.activeElement.tagName") == "SELECT"
    field = (
        "[...document.querySelectorAll('.arguments label')]"
        ".find((each) => each.innerText === %r).querySelector('input')"
    )
    page.run(f"({field % 'map_name'}).value = '8x8'")
    page.run(f"({field % 'is_slippery'}).click()")
    page.run(f"({field % 'desc'}).value = 'SF'")
    page.press("button[type=submit]")
    page.shows("desc is SF: expected JSON")
    page.run(f"({field % 'desc'}).value = ''")
    page.press("button[type=submit]")
    page.shows("Close instance")
    ((instance_id, _),) = api.instances().items()
    made = Instance(api, instance_id)
    assert ok(made.get("observation_space/"))["info"]["n"] == 64
    # On ice that is not slippery, a step to the right goes to the right.
    made.reset()
    assert made.step(2)["observation"] == 1
    made.close()


@WITH_TOKEN
def test_a_run_shows_returns_queue_and_workers(
    server: Server, api: Api, page: CheckedPage
) -> None:
    run = Run.create(api, "cart")
    workers = [run.session(name) for name in ("one", "two")]
    for number in (1, 2, 3):
        done(api.request("POST", run.samples(workers[0], number), data=b"x" * 100))
    episode = {"type": "episode", "mode": "training", "length": 9, "version": 0}
    done(run.post("records/", {**episode, "return": 12.5}))
    page.open(f"{server.url}/#token={server.token}" if server.token else server.url)
    page.shows("slots taken")
    page.run("location.hash = '#/runs'")
    page.shows("Waiting batches")
    page.press("a[href='#/runs/cart']")
    page.shows("2 of 2 workers active · 3 batches wait (300 B)")
    page.shows("two\tactive")
    # The rows are drawn anew each second, and the table keeps the focus.
    page.run("document.querySelector('[aria-label=Workers]').focus()")
    page.shows("episode 1: 12.5")
    done(run.post("records/", {**episode, "return": -3}))
    page.shows("episode 2: -3")
    done(run.post("records/", {**episode, "mode": "evaluation", "return": 7}))
    page.shows("version 0: 7")
    done(api.request("POST", run.samples(workers[1]), data=b"x" * 100))
    page.shows("4 batches")
    assert page.run("document.activeElement.ariaLabel") == "Workers"
    page.save_screenshot("run")
    page.run("location.hash = '#/runs'")
    page.shows("Waiting batches")
    assert api.request("DELETE", run.path()).status == 204
    page.shows("There are no runs.")


@WITH_TOKEN
def test_swagger_ui_sends_requests_with_the_token(
    server: Server, page: CheckedPage
) -> None:
    page.open(f"{server.url}/#token={server.token}" if server.token else server.url)
    page.shows("slots taken")
    page.press("nav a[href='/docs/']")
    page.press("#operations-tag-instances .expand-operation")
    page.press("#operations-instances-env_list_all button")
    page.press("#operations-instances-env_list_all .try-out__btn")
    page.press("#operations-instances-env_list_all .execute")
    page.shows('"all_envs": {}')


def test_scripts_get_no_login_box(server: Server, api: Api) -> None:
    if not server.token:
        return
    for mode, words in (("cors", "Bearer"), ("navigate", "Basic")):
        headers = {"Authorization": "", "Sec-Fetch-Mode": mode}
        answer = api.request("GET", "/v1/envs/", headers=headers)
        error(answer, 401, "unauthorized")
        challenge = str(answer.header("WWW-Authenticate"))
        assert ("Basic" in challenge) == (words == "Basic")


def test_a_server_without_the_dashboard_has_no_page() -> None:
    with Server("--no-dashboard") as server:
        api = Api(server)
        assert ok(api.request("GET", "/", headers=HTML))["api"] == "v1"
        for path in ("/dashboard/index.html", "/docs/", "/docs/swagger-ui.css"):
            error(api.get(path), 404, "not-found")
