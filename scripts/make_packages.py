"""Builds the packages of server and clients: what a release consists of.

    python scripts/make_packages.py FOLDER [python | lua | cpp | js] ...

It packs the files that Git knows, as they are in the working tree, and tells where the
packages are. Python's wheels are built from the sdists, which so prove to be complete.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from build import ProjectBuilder
from build.env import DefaultIsolatedEnv
from pyproject_hooks import quiet_subprocess_runner

ROOT = Path(__file__).resolve().parents[1]


def make_python(source: Path, out: Path) -> None:
    """Build sdists and wheels of client and server.

    All are built in one environment, which takes longer to make than any of them.
    """
    with DefaultIsolatedEnv() as env, tempfile.TemporaryDirectory() as unpacked:
        required: set[str] = set()
        for project in (source / "clients" / "python", source):
            builder = _builder(env, project)
            if more := builder.build_system_requires - required:
                env.install(more)
                required |= more
            sdist = Path(builder.build("sdist", out))
            with tarfile.open(sdist) as archive:
                archive.extractall(unpacked, filter="data")
            name = sdist.name.removesuffix(".tar.gz")
            _builder(env, Path(unpacked, name)).build("wheel", out)


def _builder(env: DefaultIsolatedEnv, project: Path) -> ProjectBuilder:
    return ProjectBuilder.from_isolated_env(env, project, quiet_subprocess_runner)


def make_lua(source: Path, out: Path) -> None:
    """Make a rock, and an archive of the sources with the rockspec that installs it."""
    folder = source / "clients" / "lua"
    (rockspec,) = folder.glob("*.rockspec")
    _run("luarocks", "make", "--deps-mode", "none", "--pack-binary-rock", cwd=folder)
    for rock in folder.glob("*.rock"):
        shutil.copy(rock, out)
    version = rockspec.stem.split("-")[1]
    name = _pack(
        f"gym_http_client-lua-{version}",
        source,
        out,
        {
            each: folder / each
            for each in ("README.md", "examples", "gym_http_client", rockspec.name)
        },
    )
    text = rockspec.read_text(encoding="utf-8")
    text = text.replace("  -- The rock is made in place: luarocks make.\n", "")
    text = text.replace('"file://."', f'"file://{name}"')
    (out / rockspec.name).write_text(text, encoding="utf-8")


def make_cpp(source: Path, out: Path) -> None:
    """Make an archive that CMake adds, fetches or installs."""
    folder = source / "clients" / "cpp"
    (version,) = (
        words.split()[2]
        for words in (folder / "CMakeLists.txt").read_text().splitlines()
        if words.startswith("project(")
    )
    names = ("CMakeLists.txt", "README.md", "cmake", "examples", "include")
    files = {each: folder / each for each in names}
    _pack(f"gym_http_client-cpp-{version}", source, out, files)


def make_js(source: Path, out: Path) -> None:
    """Make the package for npm."""
    _run("npm", "pack", "--pack-destination", out, cwd=source / "clients" / "js")


MAKERS: dict[str, Callable[[Path, Path], None]] = {
    "python": make_python,
    "lua": make_lua,
    "cpp": make_cpp,
    "js": make_js,
}


def copy_sources(folder: Path) -> None:
    """Copy all files that are not ignored by Git, with links as links."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0"):
        # Git still lists a file that was only deleted.
        if name and ((ROOT / name).exists() or (ROOT / name).is_symlink()):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)


def _pack(name: str, source: Path, out: Path, files: dict[str, Path]) -> str:
    """Pack files and the licence into a folder of an archive; return its file name."""
    with tarfile.open(out / f"{name}.tar.gz", "w:gz") as archive:
        for path, file in {**files, "LICENSE": source / "LICENSE"}.items():
            archive.add(file, f"{name}/{path}", filter=_without_owner)
    return f"{name}.tar.gz"


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _run(*words: str | Path, cwd: Path | None = None) -> None:
    """Run a command that is quiet unless it fails."""
    done = subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        command = " ".join(map(str, words))
        raise SystemExit(f"{command}\nfailed:\n{done.stdout}{done.stderr}")


def main() -> None:
    """Build the packages that the command line names, by default all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("packages", nargs="*", metavar="package")
    given = parser.parse_args()
    if unknown := set(given.packages) - MAKERS.keys():
        parser.error(f"there is no package {unknown.pop()}: expected {[*MAKERS]}")
    out = given.folder.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="packages-") as folder:
        copy_sources(Path(folder))
        for name in given.packages or MAKERS:
            MAKERS[name](Path(folder), out)
    for made in sorted(out.iterdir()):
        print(f"{made.stat().st_size / 1024:8.0f} KiB  {made}")


if __name__ == "__main__":
    main()
