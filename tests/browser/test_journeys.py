"""What people do on the dashboard from end to end, and what hostile pages cannot do."""

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from gym_http_client import Client
from tests.support import npm
from tests.support.api import Api, Instance
from tests.support.envs.markup import MARKUP
from tests.support.peers.checked_page import CheckedPage
from tests.support.runs import Run, done
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(180)]

SECONDS = 20.0
TOKEN = "a-token-for-journeys"
#: Views, and what each shows once it is complete.
VIEWS = {
    "#/": "slots taken",
    "#/instances": "slots taken",
    "#/new": "environments",
    "#/wall": "Lander",
    "#/runs": "Training runs",
    "#/compare": "Add instances or runs",
    "#/recordings": "There are no recordings.",
}
#: For tests in which the token changes nothing, but which sign in with it.
WITH_TOKEN = pytest.mark.parametrize("server", [TOKEN], ids=["token"], indirect=True)
#: A page of another origin that tries all that a browser lets it try.
ATTACK = """<!doctype html><title>elsewhere</title>
<form method=post action="%(url)s/v1/envs/%(id)s/close/"></form>
<iframe src="%(url)s/"></iframe>
<script>
const json = '{"env_id": "CartPole-v1"}';
const tries = [
  fetch("%(url)s/v1/envs/", { method: "POST", body: json, mode: "no-cors" }),
  fetch("%(url)s/v1/envs/", { method: "POST", body: json }),
  fetch("%(url)s/v1/instances/", { credentials: "include" }),
  fetch("%(url)s/v1/envs/%(id)s/", { method: "DELETE" }),
  fetch("%(url)s/v1/envs/%(id)s/step/",
    { method: "POST", body: '{"action": 0}', mode: "no-cors" }),
  fetch("%(url)s/v1/shutdown/", { method: "POST", mode: "no-cors" }),
  new Promise((resolve, reject) => {
    const stream = new WebSocket("%(socket)s/v1/envs/%(id)s/stream/");
    stream.onopen = () => stream.send('{"op": "step", "action": 0}');
    stream.onmessage = (event) => resolve(event.data);
    stream.onerror = () => reject(new Error("refused"));
  }),
];
const said = (each) => each.status + " " + (each.value?.type ?? each.value ?? "");
globalThis.outcome = Promise.allSettled(tries).then((found) => found.map(said));
</script>"""


@pytest.fixture(scope="module", params=["", TOKEN], ids=["open", "token"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    flags = ["--token", request.param] if request.param else []
    flags += ["--import", "tests.support.envs.markup"]
    flags += ["--import", "tests.support.envs.hostile"]
    with Server(*flags, token=request.param or None) as started:
        yield started


@pytest.fixture
def page(server: Server) -> Iterator[CheckedPage]:
    """A page whose errors, violations and foreign requests fail the test."""
    with CheckedPage() as opened:
        yield opened
        assert opened.faults == []
        assert opened.hosts <= {f"127.0.0.1:{server.port}"}


@pytest.fixture
def stranger() -> Iterator[CheckedPage]:
    """A page of another origin, which may fail."""
    with CheckedPage() as opened:
        yield opened


def sign_in(page: CheckedPage, server: Server) -> None:
    """Open the page as somebody who knows the token, if there is one."""
    page.open(f"{server.url}/")
    if server.token:
        # The page asked without a token at first.
        page.take_fault("401 (Unauthorized)")
        page.write("input[type=password]", server.token)
        page.strike("Enter")
    page.shows("slots taken")


def steps_of(instance: Instance) -> int:
    """Return the number of steps that an instance has taken."""
    return int(instance.get("").json()["steps"])


def pace_of(page: CheckedPage, instance: Instance) -> float:
    """Hold a key for five seconds; return the steps per second."""
    before, began = steps_of(instance), time.monotonic()
    page.hold("ArrowUp")
    wait_until(lambda: time.monotonic() > began + 5, SECONDS, "five seconds of play")
    page.release("ArrowUp")
    took = time.monotonic() - began
    return (steps_of(instance) - before) / took


def train(server: Server, instance: Instance, episodes: int) -> None:
    """Play episodes of an instance with the Python client, and leave it open."""
    user = f":{server.token}@" if server.token else ""
    with Client(server.url.replace("//", f"//{user}")) as client:
        for _ in range(episodes):
            client.env_reset(instance.id)
            over = False
            while not over:
                action = client.env_action_space_sample(instance.id)
                _, _, over, _ = client.env_step(instance.id, action)


@pytest.mark.alone
@WITH_TOKEN
def test_a_person_starts_plays_watches_and_closes(
    server: Server, page: CheckedPage
) -> None:
    sign_in(page, server)
    page.press("header a[href='#/new']")
    page.shows("environments")
    page.write("input[type=search]", "lander")
    page.shows("LunarLander-v3")
    chosen = "document.querySelector('form select').value"
    while page.run(chosen) != "LunarLander-v3":
        page.press("form select", "ArrowDown")
    page.press("button[type=submit]")
    page.shows("Sample and step")
    ((instance_id, made),) = Api(server).instances().items()
    assert made == "LunarLander-v3"
    instance = Instance(Api(server), instance_id)
    picture = "document.querySelector('.frame-picture')?.naturalWidth"
    page.press("[aria-label='Reset the environment']")
    wait_until(lambda: page.run(picture) == 600, SECONDS, "a frame")
    page.press("[aria-label='Sample and step']")
    page.shows("terminated")
    page.press("[aria-label='Play by keyboard']")
    # Five seconds at the speed for which the environment is made; a machine that is
    # busy with something else for a moment gets another five.
    paces: list[float] = []
    while max(paces, default=0.0) < 0.8 * 50:
        assert len(paces) < 3, paces
        paces.append(pace_of(page, instance))
    page.strike("Escape")
    played = instance.get("episodes/").json()["total"]
    train(server, instance, 3)
    curve = "Number(document.querySelector('.curve-plot').ariaValueMax)"
    wait_until(lambda: page.run(curve) >= played + 2, SECONDS, "the curve to grow")
    page.press("[aria-label='Close instance']")
    page.shows("Its clients lose it")
    page.press("dialog button")
    wait_until(lambda: not Api(server).instances(), SECONDS, "the instance to close")


@WITH_TOKEN
def test_an_instance_that_sleeps_in_a_step_is_closed_at_once(
    server: Server, stranger: CheckedPage
) -> None:
    instance = Api(server).create("hostile/Slow-v0", kwargs={"seconds": 30})
    instance.reset()
    with ThreadPoolExecutor() as pool:
        pool.submit(instance.post, "step/", {"action": 1})
        rows = "/v1/instances/?state=busy"
        wait_until(lambda: Api(server).get(rows).json()["instances"], SECONDS, "a step")
        sign_in(stranger, server)
        stranger.run(f"location.hash = '#/envs/{instance.id}'")
        stranger.shows("hostile/Slow-v0")
        stranger.press("[aria-label='Close instance']")
        stranger.shows("Its clients lose it")
        stranger.press("dialog button")
        wait_until(lambda: not Api(server).instances(), 10.0, "the instance to close")


@WITH_TOKEN
def test_texts_of_a_hostile_environment_are_shown_letter_by_letter(
    server: Server, page: CheckedPage
) -> None:
    api = Api(server)
    instance = api.create("markup/Markup-v0", render_mode="ansi", label=MARKUP[:60])
    sign_in(page, server)
    page.run(f"location.hash = '#/envs/{instance.id}'")
    page.shows("Sample and step")
    page.press("[aria-label='Reset the environment']")
    page.shows(f"drawn {MARKUP}")
    page.choose_tab("Log")
    page.shows(f"reset {MARKUP}")
    page.choose_tab("By hand")
    answer = "document.querySelector('.answer').innerText"
    assert page.run(answer).count(json.dumps(MARKUP)[1:-1]) >= 3
    page.press(".by-hand select", "ArrowDown")
    page.press("[aria-label='Step with this action']")
    page.shows(f"raised {MARKUP}")
    # The console has the refused request, as any.
    page.faults[:] = [each for each in page.faults if "Failed to load" not in each]
    for view in (*VIEWS, f"#/envs/{instance.id}"):
        page.run(f"location.hash = '{view}'")
        page.shows("Instances")
        inserted = "document.querySelectorAll('img[src=x], main script').length"
        assert page.run(inserted) == 0
    instance.close()


@contextlib.contextmanager
def elsewhere(content: str) -> Iterator[str]:
    """Serve a page from another origin; yield its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = content.encode() if self.path == "/" else b""
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{served.server_port}"
        finally:
            served.shutdown()
            thread.join()


def test_a_page_elsewhere_changes_and_reads_nothing(
    server: Server, stranger: CheckedPage
) -> None:
    instance = Api(server).create("CartPole-v1")
    instance.reset()
    before = steps_of(instance)
    socket = server.url.replace("http", "ws")
    content = ATTACK % {"url": server.url, "id": instance.id, "socket": socket}
    with elsewhere(content) as origin:
        stranger.open(f"{origin}/")
        outcome = stranger.run("globalThis.outcome")
        # Answers that nobody can read, and refusals.
        allowed = {"rejected ", "fulfilled opaque"}
        assert set(outcome) <= allowed, outcome
        assert len(outcome) == 7
        refused = "frame-ancestors"
        wait_until(
            lambda: any(refused in each for each in stranger.faults),
            SECONDS,
            "the refusal of the frame",
        )
        stranger.run("void setTimeout(() => document.forms[0].submit())")

        def place() -> str:
            try:
                return str(stranger.run("location.origin"))
            except AssertionError as error:
                # The page is left in the middle of the question.
                if "navigated" not in str(error):
                    raise
                return ""

        wait_until(
            lambda: place() == server.url,
            SECONDS,
            "the answer to the form",
        )
    assert list(Api(server).instances()) == [instance.id]
    assert steps_of(instance) == before
    instance.close()


@WITH_TOKEN
def test_views_are_accessible_and_fit_a_telephone(
    server: Server, page: CheckedPage
) -> None:
    if server.token:
        page.open(f"{server.url}/")
        page.shows("This server needs a token.")
        page.run((npm.tools() / "node_modules/axe-core/axe.min.js").read_text())
        assert violations(page) == []
        page.take_fault("401 (Unauthorized)")
        return
    instance = Api(server).create("LunarLander-v3", render_mode="rgb_array")
    instance.reset()
    run = Run.create(Api(server), "seen")
    done(Api(server).request("POST", run.samples(run.session()), data=b"x"))
    page.resize(360, 740)
    sign_in(page, server)
    page.run((npm.tools() / "node_modules/axe-core/axe.min.js").read_text())
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        shown = {**VIEWS, f"#/envs/{instance.id}": "Sample and step"}
        shown |= {"#/runs": "seen", "#/runs/seen": "1 of 1 workers active"}
        for view, words in shown.items():
            page.run(f"location.hash = '{view}'")
            page.shows(words)
            assert violations(page) == [], (scheme, view)
            assert page.run("document.documentElement.scrollWidth") <= 360, view
    instance.close()
    assert run.api.request("DELETE", run.path()).status == 204


#: Names a control, also after it was drawn anew.
NAME = """(each) => [each.tagName, each.getAttribute("aria-label"), each.type,
  each.textContent.slice(0, 40)].join(" ")"""
#: What a person reaches by Tab, in the order of the page.
CONTROLS = """[...document.querySelectorAll(
  "a[href], button, input, select, textarea, summary, [tabindex]")]
  .filter((each) => each.tabIndex >= 0 && !each.disabled && each.checkVisibility())"""


@WITH_TOKEN
@pytest.mark.parametrize("view", ["#/", "#/instances", "#/new", "#/wall", "one"])
def test_tab_reaches_every_control_in_the_order_of_the_page(
    server: Server, page: CheckedPage, view: str
) -> None:
    instance = Api(server).create("LunarLander-v3", render_mode="rgb_array")
    instance.reset()
    sign_in(page, server)
    page.run(f"location.hash = '{f'#/envs/{instance.id}' if view == 'one' else view}'")
    first = {
        "#/instances": instance.id,
        "#/new": "CartPole-v1",
        "one": "Sample and step",
    }
    page.shows(({**VIEWS, **first})[view])
    page.run(f"globalThis.shown = {NAME}")
    wanted = json.loads(page.run(f"JSON.stringify({CONTROLS}.map(shown))"))
    assert len(wanted) > 8
    page.run(f"{CONTROLS}[0].focus()")
    walked = wanted[:1]
    for _ in wanted[1:]:
        page.strike("Tab")
        walked.append(page.run("shown(document.activeElement)"))
    assert walked == wanted
    instance.close()


@WITH_TOKEN
@pytest.mark.parametrize("key", ["open", "close"])
def test_the_focus_stays_in_a_row_that_is_drawn_anew(
    server: Server, page: CheckedPage, key: str
) -> None:
    instance = Api(server).create()
    sign_in(page, server)
    page.run("location.hash = '#/instances'")
    page.shows(instance.id)
    row = f"document.querySelector('[data-key=\"{key} {instance.id}\"]')"
    page.run(f"{row}.focus(); {row}.isOld = true")
    wait_until(lambda: page.run(f"!{row}.isOld"), SECONDS, "another row")
    assert page.run("document.activeElement.dataset.key") == f"{key} {instance.id}"
    instance.close()


def violations(page: CheckedPage) -> list[str]:
    """Return the serious violations that axe-core finds."""
    found = page.run("axe.run().then((each) => JSON.stringify(each.violations))")
    return [
        f"{each['id']}: {[node['html'][:120] for node in each['nodes']][:3]}"
        for each in json.loads(found)
        if each["impact"] in ("serious", "critical")
    ]
