"""Videos, recordings of vectors, and the routes that list and return recordings."""

import contextlib
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import imageio_ffmpeg
import numpy as np
import psutil
import pytest

from gym_http_client import Client, ServerError, recordings
from gym_http_wire.step_records import Kind, StepDecoder
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(data_dir: Path) -> Iterator[Server]:
    """A server with the sandbox on, whose hosts cannot read the data directory."""
    flags = ("--sandbox", "on", "--import", "tests.support.envs.toys")
    with Server(*flags, "--data-dir", str(data_dir)) as running:
        yield running


def frames_of(file: Path, size: tuple[int, int] | None = None) -> list[bytes]:
    """Decode a video with ffmpeg; return its frames, of a size, as raw RGB."""
    width, height = size or size_of(file)
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(file)]
    command += ["-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    count = width * height * 3
    return [raw[start : start + count] for start in range(0, len(raw), count)]


def size_of(file: Path) -> tuple[int, int]:
    reader = imageio_ffmpeg.read_frames(str(file))
    size: tuple[int, int] = next(reader)["size"]
    reader.close()
    return size


def test_a_video_has_a_frame_for_each_reset_and_step(
    server: Server, data_dir: Path
) -> None:
    made = Api(server).create("CartPole-v1", render_mode="rgb_array", label="run 3")
    video = {"every": 2, "size": 320}
    no_content(made.post("monitor/start/", {"directory": "films", "video": video}))
    lengths = []
    for seed in range(3):
        made.reset(seed=seed)
        lengths.append(2)
        while not made.step(seed % 2)["terminated"]:
            lengths[-1] += 1
    (listed,) = ok(Api(server).get("/v1/instances/?search=run%203"))["instances"]
    recorded = listed["recording"]
    assert recorded["video"] is True
    # On a busy machine, ffmpeg may be too slow.
    assert (
        recorded["frames_written"] + recorded["frames_dropped"]
        == lengths[0] + lengths[2]
    )
    no_content(made.post("monitor/close/"))
    folder = data_dir / "films"
    names = sorted(file.name for file in folder.glob("*.mp4"))
    assert names == ["episode-000000.mp4", "episode-000002.mp4"]
    assert all(size_of(folder / name) == (320, 214) for name in names)
    counts = [len(frames_of(folder / name)) for name in names]
    assert sum(counts) == recorded["frames_written"]
    if not recorded["frames_dropped"]:
        assert counts == [lengths[0], lengths[2]]
    with gymnasium.make("CartPole-v1", render_mode="rgb_array") as env:
        env.reset(seed=0)
        local = np.asarray(env.render())
    first = np.frombuffer(frames_of(folder / names[0])[0], np.uint8)
    # The cart is black on white, and H.264 loses a little.
    assert abs(first.mean() - local.mean()) < 3
    made.close()
    described = ok(Api(server).get("/v1/recordings/films/"))
    assert described["env_id"] == "CartPole-v1"
    assert described["label"] == "run 3"
    assert described["active"] is False


@pytest.mark.parametrize("shape", [(20, 30), (20, 30, 1), (20, 30, 4)])
def test_frames_of_any_channels_are_recorded(
    server: Server, data_dir: Path, shape: tuple[int, ...]
) -> None:
    made = make_painted(server, shape)
    directory = f"channels-{len(shape)}-{shape[-1]}"
    body = {"directory": directory, "video": {"every": 1}}
    no_content(made.post("monitor/start/", body))
    made.reset()
    for _ in range(9):
        made.step(0)
    (listed,) = ok(Api(server).get(f"/v1/instances/?search={made.id}"))["instances"]
    recorded = listed["recording"]
    assert (recorded["frames_written"], recorded["failed"]) == (10, False)
    no_content(made.post("monitor/close/"))
    frames = frames_of(data_dir / directory / "episode-000000.mp4", (30, 20))
    assert [round(np.frombuffer(each, np.uint8).mean()) for each in frames] == [
        pytest.approx(number, abs=3) for number in range(10)
    ]
    made.close()


@pytest.mark.parametrize("shape", [(3, 20, 30), (20, 30, 2)])
def test_frames_that_are_no_images_end_the_recording(
    server: Server, shape: tuple[int, ...]
) -> None:
    made = make_painted(server, shape)
    body = {"directory": f"no-images-{shape[0]}", "video": {"every": 1}}
    no_content(made.post("monitor/start/", body))
    answer = made.post("reset/", {})
    warned = answer.header("Gym-Warnings") or ""
    assert "the recording of videos has ended: a frame is an array" in warned
    (listed,) = ok(Api(server).get(f"/v1/instances/?search={made.id}"))["instances"]
    recorded = listed["recording"]
    assert (recorded["frames_written"], recorded["failed"]) == (0, True)
    made.close()


def make_painted(server: Server, shape: tuple[int, ...]) -> Instance:
    """Create an environment whose frames have a shape."""
    return Api(server).create(
        "toys/SlowPaint-v0",
        kwargs={"seconds": 0, "shape": list(shape)},
        render_mode="rgb_array",
        disable_env_checker=True,
    )


def test_a_killed_host_leaves_a_video_that_can_be_played(
    server: Server, data_dir: Path
) -> None:
    made = Api(server).create("Acrobot-v1", render_mode="rgb_array")
    body = {"directory": "shot", "video": {"fps": 30, "size": 64}}
    no_content(made.post("monitor/start/", body))
    made.reset(seed=1)
    ok(made.post("step/", {"actions": [1] * 120}))
    assert ok(Api(server).get("/v1/recordings/shot/"))["active"] is True
    (listed,) = ok(Api(server).get(f"/v1/instances/?search={made.id}"))["instances"]
    written = listed["recording"]["frames_written"]
    assert written > 60
    host = server.host(made.id)
    host.kill()
    psutil.wait_procs([host], 5)

    def ended() -> bool:
        return not ok(Api(server).get("/v1/recordings/shot/"))["active"]

    wait_until(ended, 10, "the end of the recording")
    # All but the last second.
    decoded = len(frames_of(data_dir / "shot" / "episode-000000.mp4"))
    assert decoded >= written - 30


def test_a_vector_is_recorded(server: Server, data_dir: Path) -> None:
    made = Api(server).create("CartPole-v1", num_envs=3, render_mode="rgb_array")
    body = {"directory": "vector", "steps": True, "video": {"every": 1, "size": 64}}
    no_content(made.post("monitor/start/", body))
    with contextlib.closing(gymnasium.make_vec("CartPole-v1", 3)) as envs:
        first, _ = envs.reset(seed=5)
        made.reset(seed=5)
        rows = []
        for _ in range(30):
            made.step([1, 0, 1])
            rows.append(envs.step(np.array([1, 0, 1])))
    no_content(made.post("monitor/close/"))
    records = StepDecoder().feed((data_dir / "vector" / "steps.gym").read_bytes())
    assert records[0].value["num_envs"] == 3
    assert np.array_equal(records[1].value["observation"], first)
    steps = [each.value for each in records if each.kind == Kind.STEP]
    for value, row in zip(steps, rows, strict=True):
        for name, expected in zip(
            ("observation", "reward", "terminated", "truncated"), row[:4], strict=True
        ):
            assert np.array_equal(value[name], expected)
            assert value[name].dtype == expected.dtype
    # Autoreset: the step after the end of an episode is its reset.
    over = np.array([row[2] | row[3] for row in rows])
    ended = [int(index) for index in np.argwhere(over)[:, 1]]
    lines = (data_dir / "vector" / "episodes.jsonl").read_text().splitlines()
    assert [json.loads(line)["env"] for line in lines][: len(ended)] == ended
    videos = [name for name in os.listdir(data_dir / "vector") if "mp4" in name]
    assert len(videos) == ended.count(0) + (not over[-1][0])
    made.close()


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_episodes_of_vectors_are_those_of_single_environments(
    server: Server, data_dir: Path, mode: str
) -> None:
    made = Api(server).create(
        "CartPole-v1", num_envs=2, vectorization_mode="sync", autoreset_mode=mode
    )
    no_content(made.post("monitor/start/", {"directory": mode, "steps": True}))
    made.reset(seed=7)
    for number in range(40):
        step = made.step([1, number // 3 % 2])
        over = [
            any(each)
            for each in zip(step["terminated"], step["truncated"], strict=True)
        ]
        if mode == "disabled" and any(over):
            ok(made.post("reset/", {"options": {"reset_mask": over}}))
    no_content(made.post("monitor/close/"))
    recording = recordings.read(data_dir / mode)
    assert recording.header["autoreset_mode"] == mode
    episodes = list(recording.episodes())
    for number in (0, 1):
        own = [each for each in episodes if each.env == number]
        assert len(own) > 1
        with gymnasium.make("CartPole-v1") as env:
            for index, episode in enumerate(own):
                seed = 7 + number if index == 0 else None
                assert episode.seed == seed
                shown = [env.reset(seed=seed)[0]]
                rows = [env.step(int(action)) for action in episode.actions]
                shown += [row[0] for row in rows]
                assert np.array_equal(episode.observations, shown)
                assert episode.observations[-1].dtype == np.float32
                for place, found in enumerate(
                    (episode.rewards, episode.terminations, episode.truncations), 1
                ):
                    assert found == [row[place] for row in rows]
                assert index == len(own) - 1 or episode.terminations[-1]
    made.close()


def test_videos_that_cannot_be_recorded_are_refused(server: Server) -> None:
    made = Api(server).create("CartPole-v1", render_mode="rgb_array")
    for video, said in (
        ("yes", "video is 'yes'"),
        ({"every": 0}, "video.every is 0"),
        ({"fps": 241}, "video.fps is 241"),
        ({"size": 8.5}, "video.size is 8.5"),
        ({"codec": "av1"}, "video has the unknown member 'codec'"),
    ):
        body = {"directory": "never", "video": video}
        assert said in error(made.post("monitor/start/", body), 400)["message"]
    made.close()
    made = Api(server).create("CartPole-v1")
    answer = made.post("monitor/start/", {"directory": "never", "video": True})
    error(answer, 409, "no-render-mode")
    error(Api(server).get("/v1/recordings/never/"), 404)
    made.close()


def test_files_are_returned_whole_or_in_part(server: Server, data_dir: Path) -> None:
    made = Api(server).create("CartPole-v1")
    no_content(made.post("monitor/start/", {"directory": "a/b", "steps": True}))
    made.reset(seed=1)
    made.step(1)
    api = Api(server)
    (listed,) = [
        each
        for each in ok(api.get("/v1/recordings/"))["recordings"]
        if each["directory"] == "a/b"
    ]
    assert listed["active"] is True
    assert listed["instance_id"] == made.id
    # Its content changes without its size and its time.
    active = api.get("/v1/recordings/a/b/files/steps.gym")
    assert active.header("ETag") is None
    names = [file["name"] for file in listed["files"]]
    assert names == ["episodes.jsonl", "recording.json", "steps.gym"]
    made.close()
    whole = (data_dir / "a/b/steps.gym").read_bytes()
    answer = api.get("/v1/recordings/a/b/files/steps.gym")
    assert answer.body == whole
    etag = answer.header("ETag")
    assert etag
    path = "/v1/recordings/a/b/files/steps.gym"
    part = api.request("GET", path, headers={"Range": "bytes=16-99"})
    assert (part.status, part.body) == (206, whole[16:100])
    assert part.header("Content-Range") == f"bytes 16-99/{len(whole)}"
    known = api.request("GET", path, headers={"If-None-Match": etag})
    assert (known.status, known.body) == (304, b"")
    beyond = api.request("GET", path, headers={"Range": f"bytes={len(whole)}-"})
    assert beyond.status == 416


def test_paths_of_recordings_do_not_leave_the_data_directory(
    server: Server, data_dir: Path
) -> None:
    made = Api(server).create("CartPole-v1")
    no_content(made.post("monitor/start/", {"directory": "inner"}))
    made.close()
    outside = data_dir.parent / "outside"
    outside.mkdir()
    (outside / "episodes.jsonl").write_text("secret")
    (data_dir / "linked").symlink_to(outside)
    (data_dir / "inner" / "steps.gym").symlink_to(outside / "episodes.jsonl")
    (data_dir / "inner" / "notes.txt").write_text("secret")
    files = [
        ("linked/files/episodes.jsonl", 404),
        ("inner/files/steps.gym", 404),
        ("inner/files/notes.txt", 404),
        ("inner/files/.owner", 404),
        ("inner/%2e%2e/%2e%2e/outside/files/episodes.jsonl", 400),
    ]
    directories = [
        ("linked/", 404),
        ("%2e%2e/outside/", 400),
        ("nothing/", 404),
        ("a%5cb/", 400),
        ("instance-ids/", 400),
    ]
    asked = [("GET", *each) for each in files + directories]
    for method, path, status in [*asked, *(("DELETE", *each) for each in directories)]:
        url = f"{server.url}/v1/recordings/{path}"
        request = urllib.request.Request(url, method=method)
        with (
            pytest.raises(urllib.error.HTTPError) as raised,
            urllib.request.urlopen(request, timeout=10),
        ):
            pass
        raised.value.close()
        assert raised.value.code == status, (method, path)
    listed = ok(Api(server).get("/v1/recordings/"))["recordings"]
    (inner,) = [each for each in listed if each["directory"] == "inner"]
    assert [file["name"] for file in inner["files"]] == [
        "episodes.jsonl",
        "recording.json",
    ]
    assert "linked" not in {each["directory"] for each in listed}


def test_a_recording_is_deleted_with_what_is_empty_then(
    server: Server, data_dir: Path
) -> None:
    api = Api(server)
    with contextlib.closing(Client(server.url)) as client:
        made = api.create(
            "CartPole-v1", render_mode="rgb_array", record="kept/gone/deep"
        )
        no_content(made.post("monitor/close/"))
        films = {"directory": "kept/films", "video": True, "steps": True}
        no_content(made.post("monitor/start/", films))
        made.reset(seed=1)
        written = {each.name for each in (data_dir / "kept/films").iterdir()}
        assert written == {
            *("episodes.jsonl", "recording.json", "steps.gym", "episode-000000.mp4")
        }
        with pytest.raises(ServerError, match=f"being written, by instance {made.id}"):
            client.delete_recording("kept/films")
        refused = error(api.request("DELETE", "/v1/recordings/kept/films"), 409)
        assert refused["code"] == "recording-active"
        assert written == {each.name for each in (data_dir / "kept/films").iterdir()}
        made.close()
        (data_dir / "kept/films/notes.txt").write_text("mine")
        (data_dir / "kept/films/episode-000001.mp4").symlink_to("/etc/hostname")

        client.delete_recording("kept/films")
        left = {each.name for each in (data_dir / "kept/films").iterdir()}
        assert left == {"notes.txt", "episode-000001.mp4"}
        client.delete_recording("kept/gone/deep")
        assert [each.name for each in (data_dir / "kept").iterdir()] == ["films"]
        listed = {each["directory"] for each in client.recordings()}
        assert not {"kept/films", "kept/gone/deep"} & listed
        for directory in ("kept/films", "kept/gone/deep"):
            error(api.request("DELETE", f"/v1/recordings/{directory}/"), 404)

        again = api.create("CartPole-v1", record="kept/gone/deep")
        no_content(again.close())
        client.delete_recording("kept/gone/deep")
