"""Loads that a user names: a recording, a run, a log of SQL, or typed figures."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial import _core
from seatrial.cli.files import is_parquet
from seatrial.errors import UsageError, native_errors
from seatrial.lazy import np
from seatrial.stats.cell_estimates import entries_needed
from seatrial.stats.wording import format_count, format_first, format_identity
from seatrial.study.units import parse_size_bytes
from seatrial.topic import topic_of, without_preparation
from seatrial.trials.replay.analysis.pace import ratio_to_capture
from seatrial.trials.replay.commands.compare_sides import content_of, files_of, is_sql_trace
from seatrial.trials.replay.commands.read import temporary_trace
from seatrial.trials.replay.trace import Spread, Trace
from seatrial.trials.watch.topic import WATCHED
from seatrial.units import NS_PER_S, US_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from seatrial.results.model import Run, Sample
    from seatrial.trials.plan.analysis.demand import Demand
    from seatrial.trials.plan.analysis.log_load import LoggedLoad

_TYPED: Final = re.compile(r"[a-z_]+=[^,]")
_FIELDS: Final = ("reads", "writes", "size")
_SERIES: Final = (
    "device_read_per_s",
    "device_write_per_s",
    "device_read_bytes_per_s",
    "device_write_bytes_per_s",
)
SAME_PACE: Final = 0.02


def is_typed(text: str) -> bool:
    """Return whether a load is typed, such as ``reads=3000,writes=500,size=8KiB``."""
    return bool(_TYPED.match(text)) and not Path(text).exists()


def typed_demand(text: str) -> Demand:
    """Return a load that was typed.

    Raises:
        UsageError: when a figure is missing, unknown or no figure.
    """
    from seatrial.trials.plan.analysis.demand import constant_demand  # noqa: PLC0415 - likewise

    found: dict[str, str] = {}
    wrong = ""
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals:
            wrong = wrong or f"{part!r} has no equals sign"
        elif name not in _FIELDS:
            wrong = wrong or f"{name} is not a figure of a load"
        elif name in found:
            wrong = wrong or f"{name} is there twice"
        found[name] = value
    missing = [name for name in _FIELDS if name not in found]
    if wrong or missing:
        raise UsageError(
            seen=f"{text!r} is not a load: {wrong or f'it has no {missing[0]}'}",
            cause="A load has reads and writes per second, and their size; a comma separates them",
            next_step="For example: reads=3000,writes=500,size=8KiB",
        )
    try:
        reads, writes = (_parse_rate_per_s(found[name]) for name in ("reads", "writes"))
        size = parse_size_bytes(found["size"])
    except ValueError as error:
        raise UsageError(
            seen=f"{text!r} is not a load: {error}",
            cause="A figure is not a number, or not above 0",
            next_step="For example: reads=3000,writes=500,size=8KiB",
        ) from None
    if reads + writes == 0:
        raise UsageError(
            seen=f"{text!r} is not a load: nothing is read or written",
            cause="Its reads and writes per second are both 0",
            next_step="For example: reads=3000,writes=500,size=8KiB",
        )
    return constant_demand("typed", reads, writes, size)


def _parse_rate_per_s(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(f"{text} is not a rate")
    return value


class _Slice(msgspec.Struct, frozen=True):
    statements: int
    commits_min: int
    commits_max: int
    busy_us: int


class _Commits(msgspec.Struct, frozen=True):
    """Commits over the time of a trace (crates/trace/src/mix/commits.rs)."""

    slice_us: int
    slices: list[_Slice]
    statements: int
    timed: int
    commit_times: Spread


def log_load_of(reference: str) -> LoggedLoad | None:
    """Return the load of a log of SQL or its trace; None for anything else.

    Raises:
        SeatrialError: when a log cannot be read, or has no times or no statements.
    """
    if is_typed(reference):
        return None
    files = files_of(reference)
    if len(files) == 1 and is_sql_trace(files[0]):
        return _load_of_trace(reference, files[0])
    if not files or {content_of(each) for each in files} != {"log"}:
        return None
    with temporary_trace(files, quiet=True) as trace:
        return _load_of_trace(reference, trace)


def _load_of_trace(reference: str, path: Path) -> LoggedLoad:

    from seatrial.trials.plan.analysis.log_load import logged_load  # noqa: PLC0415 - likewise

    with native_errors():
        shown = msgspec.json.decode(_core.show_trace(path, 0), type=Trace)
        found = msgspec.json.decode(_core.trace_commits(path), type=_Commits)
    if not shown.has_clock:
        raise UsageError(
            seen=f"{reference} has no timestamps",
            cause="A load over time is needed, as credits are spent and earned over time",
            next_step="Log with timestamps: log_line_prefix = '%m [%p] ', see docs/sql.md",
        )
    columns = np.array(
        [
            [each.statements, each.commits_min, each.commits_max, each.busy_us / US_PER_S]
            for each in found.slices
        ],
        dtype=np.float64,
    ).T
    times, ms = found.commit_times, NS_PER_S / 1000
    is_known = times.entries >= entries_needed(99)
    return logged_load(
        reference,
        found.slice_us / US_PER_S,
        columns,
        sessions_max=shown.mix.sessions.at_once_max,
        timed_share=found.timed / found.statements if found.statements else 0.0,
        commit_ms=(times.p50_ns / ms, times.p99_ns / ms) if is_known else None,
    )


def demands_of(reference: str, results: Path) -> list[Demand]:
    """Return the load that a user names, of a run that of each test.

    Args:
        reference: A recording, a run, or typed figures.
        results: The results file of runs.

    Raises:
        UsageError: when it is none of these, or has no reads and writes.
    """
    from seatrial.cli.sources import load_source  # noqa: PLC0415 - not for --help
    from seatrial.trials.plan.analysis.demand import demand_of_recording  # noqa: PLC0415
    from seatrial.trials.watch.recording import read  # noqa: PLC0415 - likewise

    if is_typed(reference):
        return [typed_demand(reference)]
    if is_sql_trace(Path(reference)):
        raise UsageError(
            seen=f"{reference} is a trace of SQL, which holds no block I/O",
            cause="Limits of storage count requests and bytes",
            next_step="Record the disk: `seatrial watch --record FILE`; `seatrial plan` takes a "
            "trace for its commits, and with --io for the means of its block I/O",
        )
    if is_parquet(Path(reference)):
        return [demand_of_recording(read(Path(reference)), reference)]
    source = load_source(reference, results)
    return demands_of_samples(source.run, source.samples)


def demands_of_samples(run: Run, samples: Sequence[Sample]) -> list[Demand]:
    """Return the load of each test: that of its disks, or else its own reads and writes.

    A recording is one test, with all its devices and operations. A test that only prepares others
    counts only if there is nothing else. The rates that a load line tries are no load: it searches
    for one that is too high.

    Raises:
        UsageError: when no sample has any.
    """
    own = without_preparation([each for each in samples if topic_of(each.cell).in_rounds])
    watched = [each for each in own if each.cell.kind == WATCHED]
    tests = [[each] for each in own if each.cell.kind != WATCHED]
    tests += [watched] if watched else []
    found = [each for each in map(_demand_of_test, tests) if each is not None]
    if not found:
        raise UsageError(
            seen=f"The run {run.id} has no reads and writes of a disk",
            cause="It has no counters of block I/O over time, or only a load line, which tries out "
            "rates",
            next_step="Record the load: `seatrial watch --record FILE`",
        )
    return found


def most_bytes(demands: Sequence[Demand]) -> tuple[Demand, str]:
    """Return the load with the highest throughput, and a sentence on one with more requests.

    The sentence is empty if there is none.
    """
    chosen = max(demands, key=lambda demand: float(demand.bytes_per_s.max()))
    other = max(demands, key=lambda demand: float(demand.requests_per_s.max()))
    if other.origin == chosen.origin:
        return chosen, ""
    count = len({each.origin for each in demands})
    iops = format_count(round(float(other.requests_per_s.max())))
    return chosen, (
        f"Of {count} tests, only the one with the highest throughput was judged. Another one had "
        f"more requests, {iops} IOPS: {other.origin}. `seatrial caps` compares limits with all."
    )


def _demand_of_test(samples: Sequence[Sample]) -> Demand | None:
    from seatrial.trials.plan.analysis.demand import (  # noqa: PLC0415 - not for --help
        Demand,
        slot_length_s,
    )

    sample = samples[0]
    targets = format_first([*dict.fromkeys(each.cell.target for each in samples)], 3)
    test = sample.cell.workload
    if sample.cell.kind != WATCHED:
        factors = sample.cell.identity()
        test = format_identity({name: factors[name] for name in factors if name != "target"})
    origin = f"measured, run {sample.run_id}, {targets}, {test}"
    columns, series = _series_of(sample), sample.series
    is_of_disks = columns is not None
    if columns and series and any(series.columns.get("device_flush_per_s", ())):
        origin += ", with flushes, which disks count as writes"
    if not columns and any({"sync", "flush"} & set(each.operations) for each in samples):
        origin += ", without its flushes, which a control group counts as writes"
    columns = columns or _timeline_of(samples)
    if columns is None or not columns[0][:2].sum():
        return None
    values, slot_s = columns
    in_sequence = all(each.cell.parsed.address_kinds == {"sequential"} for each in samples)
    demand = Demand(
        origin=origin,
        slot_s=slot_s,
        reads_per_s=values[0],
        writes_per_s=values[1],
        read_bytes_per_s=values[2],
        write_bytes_per_s=values[3],
        reads_random_share=0.0 if in_sequence else 1.0,
        writes_random_share=0.0 if in_sequence else 1.0,
    )
    pace = ratio_to_capture(samples)
    if pace is not None and pace.value > 0 and abs(pace.value - 1) >= SAME_PACE:
        demand = demand.stretched(
            pace.value,
            f"{origin}, at the captured pace: it was replayed {pace.value:.2g} times as fast",
        )
    return demand if is_of_disks else demand.in_slots_of(slot_length_s(demand.seconds))


def _timeline_of(samples: Sequence[Sample]) -> tuple[NDArray[np.float64], float] | None:
    """Return reads and writes of samples of one time, by slice; None if there are none."""
    slice_s = samples[0].timeline.slice_ns / NS_PER_S
    slices = [each for sample in samples for each in sample.timeline.slices]
    slots = max((each.index for each in slices), default=-1) + 1
    if slots <= 0 or not any({"read", "write"} & set(each.operations) for each in samples):
        return None
    # Slices without completions are absent, also at the end; a slot in part would lower the mean.
    slots = max(slots, int(samples[0].duration_s / slice_s))
    found = np.zeros((4, slots))
    for each in slices:
        if each.operation in ("read", "write"):
            row = 0 if each.operation == "read" else 1
            found[row, each.index] += each.completed / slice_s
            found[row + 2, each.index] += each.transferred_bytes / slice_s
    return found, slice_s


def _series_of(sample: Sample) -> tuple[NDArray[np.float64], float] | None:
    """Return the I/O of the disks by reading of their counters; None if they were not read."""
    series = sample.series
    if series is None or not all(name in series.columns for name in _SERIES):
        return None
    values = np.nan_to_num(
        np.array([[each or 0.0 for each in series.columns[name]] for name in _SERIES], dtype=float)
    )
    return (values, series.period_s) if values.size else None
