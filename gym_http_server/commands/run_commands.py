"""The command ``runs``: shows the training runs of a server, and exports them.

It uses the Python client, which is imported late, since it imports Gymnasium.
"""

from __future__ import annotations

import csv
import datetime
import importlib
import json
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_http_server.commands import terminal_output
from gym_http_server.commands.client_commands import (
    Place,
    as_json_option,
    on_server,
    print_json,
)
from gym_http_server.commands.terminal_output import (
    Column,
    amount,
    duration,
    printable,
    size,
)
from gym_http_server.errors import StartError

if TYPE_CHECKING:
    from gym_http_client.relay import Batch, RelayCalls

__all__ = ["runs"]

#: Seconds between two pictures of a live table.
_PERIOD_S = 2.0
_CLEAR = "\x1b[H\x1b[2J"
_RECORDS_AT_ONCE = 1000

_BATCH_FIELDS = (
    *("position", "file", "worker", "session", "number", "policy", "lag", "count"),
    "received",
)

_RUNS = (
    Column("RUN", least=8, weight=2),
    Column("AGE", right=True),
    Column("WORKERS", right=True),
    Column("WEIGHTS", right=True),
    Column("USED", right=True),
)
_WORKERS = (
    Column("WORKER", least=8, weight=2),
    Column("STATE"),
    Column("SENT", right=True),
    Column("WAITING", right=True),
    Column("WEIGHTS", right=True),
    Column("LAG", right=True),
    Column("SEEN", right=True),
    Column("RETURN", right=True),
)
_READERS = (
    Column("READER", least=8, weight=2),
    Column("AFTER", right=True),
    Column("BEHIND", right=True),
    Column("DRAWS", right=True),
    Column("SEEN", right=True),
)


@click.command()
@on_server
@click.argument("run", default="")
@click.argument("action", default="", metavar="[export]")
@click.option("--once", is_flag=True, help="Print the table once, also on a terminal.")
@click.option(
    "--samples",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="With export: write the batches there, as npz.",
)
@click.option(
    "--records",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With export: write the records to this file, as CSV.",
)
@click.option(
    "--tensorboard",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="With export: write the records there, for TensorBoard.",
)
@as_json_option
def runs(
    place: Place,
    run: str,
    action: str,
    once: bool,
    samples: Path | None,
    records: Path | None,
    tensorboard: Path | None,
    as_json: bool,
) -> None:
    """Show the training runs of a server, or one of them.

    On a terminal, the table is live until Ctrl-C. With export, write the batches that
    the run still has, or its records, to files.
    """
    wanted = bool(samples or records or tensorboard)
    if action not in ("", "export") or wanted != (action == "export"):
        raise click.UsageError(
            "to export, name the run and the files: runs URL RUN export --samples DIR, "
            "--records FILE or --tensorboard DIR"
        )
    if action:
        with _calls(place, run) as calls:
            _export(calls, samples, records, tensorboard)
        return
    with _calls(place, run or "-") as calls:
        if as_json:
            print_json(calls.status() if run else {"runs": calls.runs()})
            return
        live = sys.stdout.isatty() and not once
        while True:
            shown = _run_lines(calls.status()) if run else _runs_table(calls)
            click.echo(_fitted(shown) if live else shown)
            if not live:
                return
            time.sleep(_PERIOD_S)


def _calls(place: Place, run: str) -> RelayCalls:
    from gym_http_client import Retries
    from gym_http_client.relay import RelayCalls

    return RelayCalls(place.url, run, token=place.token, retries=Retries(total=0.0))


def _fitted(shown: str) -> str:
    """Clear the terminal, and cut what is below its last line."""
    height = shutil.get_terminal_size((80, 24)).lines
    return _CLEAR + "\n".join(shown.split("\n")[: height - 1])


def _runs_table(calls: RelayCalls) -> str:
    rows = [
        [
            each["run"],
            duration(_age_s(each["created"])),
            amount(each["workers"]),
            str(each["version"] or "-"),
            f"{duration(_age_s(each['last']))} ago",
        ]
        for each in calls.runs()
    ]
    if not rows:
        return f"There are no runs at {calls.url}."
    return terminal_output.table(_RUNS, rows)


def _age_s(created: str) -> float:
    made = datetime.datetime.fromisoformat(created)
    return max(0.0, (datetime.datetime.now(datetime.UTC) - made).total_seconds())


def _run_lines(status: dict[str, Any]) -> str:
    samples, rates, disk = status["samples"], status["rates"], status["disk"]
    limits = status["limits"]
    oldest = f", oldest {duration(samples['oldest_s'])}" if samples["waiting"] else ""
    lags = [f"{lag}: {amount(n)}" for lag, n in status["lag"].items() if n]
    facts = {
        "run": f"{status['run']}, for {duration(_age_s(status['created']))}",
        "weights": _weights(status["weights"]),
        "queue": f"{amount(samples['waiting'])} batches, {size(samples['bytes'])} of "
        f"{size(limits['queue_bytes'])}{oldest}",
        # In full, so that the sums can be seen to hold.
        "sent": f"{samples['sent']:,} = {samples['stored']:,} stored + "
        f"{samples['stale']:,} stale + {samples['dropped']:,} dropped",
        "stored": f"{samples['stored']:,} = {samples['waiting']:,} waiting + "
        f"{samples['leased']:,} leased + {samples['consumed']:,} consumed + "
        f"{samples['aside']:,} aside",
        "rates": f"{rates['batches_s']:.1f} batches/s, "
        f"{amount(rates['transitions_s'])} transitions/s, {size(rates['bytes_s'])}/s",
        "lag": ", ".join(lags) or "-",
        "limiter": _limiter(status["limiter"]),
        "records": f"{amount(status['records']['episodes'])} episodes, "
        f"{amount(status['records']['training_steps'])} training steps",
        "disk": f"{size(disk['used'])} of {size(disk['limit'])} used, "
        f"{size(disk['free'])} free",
    }
    parts = ["\n".join(f"{k:<8}  {printable(v)}" for k, v in facts.items() if v)]
    if status["workers"]:
        rows = [_row_of_worker(each) for each in status["workers"]]
        parts.append(terminal_output.table(_WORKERS, rows))
    if status["readers"]:
        rows = [_row_of_reader(each) for each in status["readers"]]
        parts.append(terminal_output.table(_READERS, rows))
    return "\n\n".join(parts)


def _weights(weights: dict[str, Any] | None) -> str:
    if weights is None:
        return "none yet"
    words = f"version {weights['version']}, {duration(weights['age_s'])} old"
    best = weights["best"]
    if best is None:
        return words
    mean = f"{best['mean']:.6g} in {best['evaluations']} evaluations"
    return f"{words}; best is {best['version']}, mean return {mean}"


def _limiter(limiter: dict[str, Any] | None) -> str:
    if limiter is None:
        return ""
    waits = ", inserts wait" if limiter["inserts_wait"] else ""
    return (
        f"{amount(limiter['inserts'])} inserted, {amount(limiter['draws'])} drawn; "
        f"difference {limiter['diff']:.6g} in "
        f"{limiter['min_diff']:.6g} to {limiter['max_diff']:.6g}{waits}"
    )


def _row_of_worker(each: dict[str, Any]) -> list[str]:
    mean = each["mean_return"]
    return [
        each["worker"],
        each["state"],
        amount(each["sent"]),
        size(each["waiting_bytes"]),
        str(each["version"]),
        str(each["lag"]),
        duration(each["seen_s"]),
        "-" if mean is None else f"{mean:.6g}",
    ]


def _row_of_reader(each: dict[str, Any]) -> list[str]:
    return [
        each["reader"],
        str(each["after"]),
        amount(each["behind"]),
        amount(each["draws"]),
        duration(each["seen_s"]),
    ]


def _export(
    calls: RelayCalls,
    samples: Path | None,
    records: Path | None,
    tensorboard: Path | None,
) -> None:
    try:
        if tensorboard is not None:
            writer = _event_writer(tensorboard)
            count = _write_events(_records(calls), writer)
            writer.close()
            click.echo(f"wrote {count} records to {tensorboard}")
        if records is not None:
            count = _write_csv(list(_records(calls)), records)
            click.echo(f"wrote {count} records to {records}")
        if samples is not None:
            count = _write_samples(calls, samples)
            click.echo(f"wrote {count} batches to {samples}")
    except OSError as error:
        raise StartError(f"cannot write the export: {error}") from None


def _records(calls: RelayCalls) -> Iterator[dict[str, Any]]:
    """Iterate over all records of the run."""
    after = 0
    while part := calls.records(after, limit=_RECORDS_AT_ONCE):
        yield from part
        after = part[-1]["position"]


def _write_csv(records: list[dict[str, Any]], path: Path) -> int:
    """Write records as CSV, with a column for each member that one of them has."""
    first = ["position", "time", "type"]
    names = dict.fromkeys([*first, *(name for each in records for name in each)])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for each in records:
            writer.writerow([_cell(each.get(name)) for name in names])
    return len(records)


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (dict, list, bool)) else value


def _event_writer(folder: Path) -> Any:
    try:
        module = importlib.import_module("tensorboardX")
    except ModuleNotFoundError:
        raise StartError(
            "--tensorboard needs tensorboardX, which is not installed: pip install "
            "tensorboardX"
        ) from None
    return module.SummaryWriter(str(folder))


def _write_events(records: Iterator[dict[str, Any]], writer: Any) -> int:
    """Write records as scalars.

    Training steps are numbered by their ``step``; episodes, of each mode, by their
    order.
    """
    counts: Counter[str] = Counter()
    for each in records:
        if each["type"] == "training":
            name, step = "training", each.get("step")
        else:
            name = str(each.get("mode"))
            step = counts[name] + 1
        counts[name] += 1
        if not isinstance(step, int):
            continue
        for member, value in each.items():
            if member in ("position", "time", "step"):
                continue
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                writer.add_scalar(f"{name}/{member}", value, step, each["time"])
    return counts.total()


def _write_samples(calls: RelayCalls, folder: Path) -> int:
    """Write each batch to a file, and a table of them to ``batches.csv``."""
    from gym_http_client.relay.batches import batches_of

    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    with (folder / "batches.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(_BATCH_FIELDS)
        for bundle in _bundles(calls):
            for batch in batches_of(bundle):
                head, name = batch.head, _write_batch(batch, folder)
                row = (head.position, name, head.worker, head.session, head.number)
                table.writerow((*row, head.policy, head.lag, head.count, head.received))
                count += 1
    return count


def _bundles(calls: RelayCalls) -> Iterator[bytes]:
    """Iterate over all batches that the run has, without committing a position."""
    from gym_http_wire.bundles import split

    after = _first(calls) - 1
    while (bundle := calls.samples(max(after, 0))) is not None:
        yield bundle
        after = max(place.head.position for place in split(bundle))


def _first(calls: RelayCalls) -> int:
    return int(calls.status()["samples"]["first"])


def _write_batch(batch: Batch, folder: Path) -> str:
    """Write a batch as npz, or as it is if it has no columns; return the file's name.

    A column that is no array is a text in JSON.
    """
    from gym_http_client.relay import BadBatch, save_weights

    stem = f"{batch.position:010d}"
    try:
        columns = batch.columns
    except BadBatch:
        # Of another media type, or damaged: to be looked at.
        (folder / f"{stem}.bin").write_bytes(batch.data)
        return f"{stem}.bin"
    arrays = {_member(name): _array(value) for name, value in columns.items()}
    (folder / f"{stem}.npz").write_bytes(save_weights(arrays, what="columns"))
    return f"{stem}.npz"


def _member(name: str) -> str:
    """Return a name that leads out of no folder when the file is unpacked."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", str(name))


def _array(value: Any) -> Any:
    if getattr(value, "dtype", None) is not None and value.dtype.kind != "O":
        return value
    if isinstance(value, (bool, int, float, str)):
        return value
    from gym_http_client.http.json_requests import plain_json

    return json.dumps(plain_json(value))
