"""The moving picture of README: an agent in a terminal, and the page beside it."""

import io
import time
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from tests.pictures.scene import EXAMPLES, Scene
from tests.support.peers.checked_page import CheckedPage
from tests.support.wait import wait_until

#: What the page is drawn in, in pixels of CSS, and how large it is in the picture.
PAGE = (1180, 860)
SHOWN = (820, 598)
TERMINAL = (400, SHOWN[1])
SECONDS, PACE = 14.0, 8.0
LARGEST = 1_000_000
FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf"
BACK, TEXT, PROMPT = "#11151c", "#d5dae3", "#6fcf97"
#: The lines of the program that a terminal of this size has room for.
PROGRAM = """\
env = RemoteEnv(url, "LunarLander-v3")
observation, _ = env.reset(seed=1)
while not over:
    action = steer(observation)
    observation, reward, … = env.step(action)"""


def make_moving_picture(scene: Scene, out: Path) -> None:
    """Film the page while an agent runs; write a WebP file."""
    printed = out.with_suffix(".txt")
    command = f"python lander.py {scene.server.url}"
    scene.start(EXAMPLES / "lander.py", scene.server.url, out=printed)
    wait_until(lambda: scene.api.instances(), 30.0, "the instance")
    (id_,) = scene.api.instances()
    frames: list[Image.Image] = []
    with CheckedPage() as page:
        page.resize(*PAGE)
        page.prefer("light")
        page.open(f"{scene.server.url}/#/envs/{id_}")
        page.shows("lander.py")
        wait_until(lambda: "landing 4" in printed.read_text(), 60.0, "landings")
        began, times = time.monotonic(), []
        while time.monotonic() < began + SECONDS:
            due = began + len(frames) / PACE
            time.sleep(max(0.0, due - time.monotonic()))
            times.append(time.monotonic())
            shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            frames.append(_beside(_terminal(command, printed.read_text()), shot))
    printed.unlink()
    durations = [
        round(1000 * (after - before))
        for before, after in zip(times, [*times[1:], times[-1] + 1], strict=True)
    ]
    for quality in (70, 55, 40, 25):
        frames[0].save(
            out,
            save_all=True,
            append_images=frames[1:],
            duration=durations,
            loop=0,
            quality=quality,
            method=4,
            minimize_size=True,
        )
        if out.stat().st_size <= LARGEST:
            return
    raise AssertionError(f"{out} has {out.stat().st_size} bytes, at quality 25")


def _terminal(command: str, printed: str) -> Image.Image:
    """Draw a terminal with a program's command and what it has printed so far."""
    picture = Image.new("RGB", TERMINAL, BACK)
    draw = ImageDraw.Draw(picture)
    font = ImageFont.truetype(FONT, 13)
    draw.text((16, 16), PROGRAM, TEXT, font, spacing=6)
    top = 130
    draw.line((16, top, TERMINAL[0] - 16, top), "#2c3442")
    draw.text((16, top + 14), f"$ {command}", PROMPT, font)
    draw.text((16, top + 40), printed, TEXT, font, spacing=6)
    return picture


def _beside(terminal: Image.Image, page: Image.Image) -> Image.Image:
    whole = Image.new("RGB", (TERMINAL[0] + SHOWN[0], SHOWN[1]))
    whole.paste(terminal, (0, 0))
    whole.paste(page.resize(SHOWN, Image.Resampling.LANCZOS), (TERMINAL[0], 0))
    return whole
