"""The supervisor's list of instances."""

import json
import mmap
import os
import time
from types import SimpleNamespace
from typing import Any

from gym_http_server.rundir.status import StatusPage, StatusReader, parse
from gym_http_server.supervisor.figures import Wanted, add_up, listed
from gym_http_server.supervisor.instance import Tombstone, Tombstones
from gym_http_server.supervisor.usage import UNREAD, Usage, Usages


def test_the_last_hundred_that_ended_are_listed() -> None:
    tombstones = Tombstones()
    for number in range(150):
        ended = Tombstone("CartPole-v1", "closed", 0, "a long tail", time.monotonic())
        tombstones.add(f"{number:08x}", ended)
    answer = listed([], tombstones.newest_first(), Wanted(), (0, 64), (), 50.0)
    rows = json.loads(answer)["ended"]
    wanted = [f"{number:08x}" for number in range(149, 49, -1)]
    assert [row["instance_id"] for row in rows] == wanted
    assert "a long tail" not in str(rows)


def test_pages_add_up_as_each_number_alone() -> None:
    readers = [StatusReader() for _ in range(3)]
    for count, reader in enumerate(readers, 1):
        page = StatusPage(reader.file)
        page.begin(10 * count)
        page.finish_step(10 * count + count, 100 * count, count)
        page.add_tick(10**6 * count)
        page.add_left_out(10**6, 10**6, count)
        page.set_last_episode(0.5 * count, 7)
        page.set_streams(count, 2)
        if count == 2:
            page.begin(1 << 62)
        page.close()
    each_alone = [each.read() for each in readers]
    assert [parse(each.read_page()) for each in readers] == each_alone
    total, busy = add_up([each.numbers for each in readers])
    assert busy == [False, True, False]
    for name in ("steps", "episodes", "streams", "timed_steps", "step_ns", "ticks"):
        assert getattr(total, name) == sum(getattr(each, name) for each in each_alone)
    assert (total.steps, total.watchers, total.last_return) == (600, 6, 0.0)
    for name in ("step_counts", "lateness_counts", "lateness_all_counts"):
        columns = zip(*(getattr(each, name) for each in each_alone), strict=True)
        assert getattr(total, name) == tuple(map(sum, columns))
    size = len(readers[0].numbers)
    for reader in readers:
        reader.close()
    assert add_up([]) == (parse(bytes(size)), [])
    # What an environment has written itself spoils no other sum.
    steps = 8 * 2
    written = b"\xff" * (steps + 8) + bytes(size - steps - 8)
    spoilt, _ = add_up([written, bytes(size), written])
    assert (spoilt.busy_since_ns, spoilt.episodes) == (0, 0)


def test_a_figure_is_kept_as_long_as_it_is_fresh() -> None:
    usages = Usages()
    instance = _instance()
    usages.ask([instance])
    before = instance.usage.resident
    # Fresh pages, which memory that the process has freed does not have.
    with mmap.mmap(-1, 40 << 20) as more:
        more.write(b"x" * len(more))
        usages.ask([instance])
        assert instance.usage.resident == before
        instance.usage = instance.usage._replace(at=instance.usage.at - 2.0)
        usages.ask([instance])
        assert instance.usage.resident > before + len(more) // 2


def test_a_scrape_reads_some_usages_at_once_and_ticks_the_others() -> None:
    usages = Usages()
    instances = [_instance() for _ in range(2000)]

    def read() -> int:
        return sum(each.usage is not UNREAD for each in instances)

    usages.tick()
    assert read() == 0
    usages.ask(instances)
    assert 0 < read() < len(instances)
    while read() < len(instances):
        usages.tick()
    before = [each.usage for each in instances]
    assert all(each.resident > 0 and each.cpu_s > 0 for each in before)
    # Until the next scrape, nothing is read.
    usages.tick()
    assert all(each.usage is was for each, was in zip(instances, before, strict=True))


def test_thousands_are_not_looked_at_for_each_list() -> None:
    usages = Usages()
    fresh = Usage(1, 1.0, time.monotonic())
    instances = [_instance() for _ in range(5000)]
    for each in instances:
        each.usage = fresh
    usages.ask(instances)
    instances[0].usage = fresh._replace(at=fresh.at - 5.0)
    before = instances[0].usage
    usages.ask(instances)
    assert instances[0].usage is before


def test_what_was_read_meanwhile_is_not_read_again() -> None:
    usages = Usages()
    instances = [_instance() for _ in range(2000)]
    usages.ask(instances)
    left = [each for each in instances if each.usage is UNREAD]
    fresh = Usage(1, 1.0, time.monotonic())
    for each in left:
        each.usage = fresh
    usages.tick(10.0)
    assert all(each.usage is fresh for each in left)


def test_the_usage_of_an_instance_at_rest_is_read_less_often() -> None:
    usages = Usages()
    instance = _instance()

    def reads_one_of(seconds: float) -> bool:
        read_at = time.monotonic() - seconds
        instance.usage = instance.usage._replace(at=read_at)
        usages.ask([instance])
        return bool(instance.usage.at != read_at)

    usages.ask([instance])
    assert reads_one_of(3.0)
    instance.at_rest = True
    instance.use = time.monotonic_ns() - 10**10, 5
    assert not reads_one_of(3.0)
    # It was used since.
    assert reads_one_of(11.0)
    instance.use = 0, 5
    assert not reads_one_of(59.0)
    assert reads_one_of(60.0)


def _instance() -> Any:
    return SimpleNamespace(pid=os.getpid(), usage=UNREAD, at_rest=False, use=(0, 0))
