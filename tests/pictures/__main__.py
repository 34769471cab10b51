"""Makes pictures of all views with a real server and browser: ``make pictures``.

They are in ``build/pictures``, to look at before a change of the page is finished, with
the moving picture of README. ``--write`` also replaces those in ``docs/pictures``.
"""

import argparse
import tempfile
from pathlib import Path

from PIL import Image

from tests.pictures import moving, views
from tests.pictures.scene import busy_scene, crash, quiet_scene
from tests.support.server import ROOT

OUT = ROOT / "build" / "pictures"
DOCUMENTS = ROOT / "docs" / "pictures"
#: Pictures in documents: how high, from the top, and how large at most.
SHOWN = {
    "overview-light-1400": 900,
    "instance-dark-1400": 900,
    "wall-light-1400": 700,
    "compare-light-1400": 900,
    "run-light-1400": 900,
    "instance-light-390": 844,
}
LARGEST = 150_000
WIDTH = 1000


def main() -> None:
    """Make all pictures, and fail if the page complains about anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.pictures")
    parser.add_argument("--write", action="store_true", help="replace those in docs")
    given = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    complaints: list[str] = []
    with tempfile.TemporaryDirectory(prefix="pictures-") as name:
        folder = Path(name)
        with quiet_scene(folder) as scene:
            complaints += views.make_pictures(scene, views.QUIET, OUT)
            moving.make_moving_picture(scene, OUT / "moving.webp")
        with quiet_scene(folder, "--token", "a-token-for-pictures") as scene:
            complaints += views.make_pictures(scene, views.LOCKED, OUT)
        with busy_scene(folder) as scene:
            complaints += views.make_pictures(scene, views.BUSY, OUT)
            crash(scene)
            complaints += views.make_pictures(scene, views.CRASHED, OUT)
    views.contact_sheet(OUT)
    if given.write:
        _write()
    print(f"{len(list(OUT.glob('*.png')))} pictures are in {OUT}")
    if complaints:
        raise SystemExit("\n".join(complaints))


def _write() -> None:
    """Put the documents' pictures into their folder, as small as they may be."""
    DOCUMENTS.mkdir(exist_ok=True)
    (DOCUMENTS / "moving.webp").write_bytes((OUT / "moving.webp").read_bytes())
    for name, height in SHOWN.items():
        with Image.open(OUT / f"{name}.png") as picture:
            cut = picture.convert("RGB").crop((0, 0, picture.width, height))
        if cut.width > WIDTH:
            size = (WIDTH, round(cut.height * WIDTH / cut.width))
            cut = cut.resize(size, Image.Resampling.LANCZOS)
        path = DOCUMENTS / f"{name}.webp"
        for quality in range(90, 20, -10):
            cut.save(path, quality=quality, method=6)
            if path.stat().st_size <= LARGEST:
                break


if __name__ == "__main__":
    main()
