"""fio's bandwidth, IOPS and latency logs as the timeline of a sample.

A line is time (ms), value, direction (0 read, 1 write, 2 trim), block size and more that is not
needed here (fio's HOWTO, "Log File Formats"). The value is KiB/s, requests or ns, depending on the
file's name (``PREFIX_lat.1.log``). A log without ``log_avg_msec`` has a line for each request: the
timeline is exact, and the lines of a latency log are its histograms. With it, a line is a mean over
a window: the requests counted in the JSON are distributed in proportion, provided that the log
agrees with them within 5 %. Histogram logs (``write_hist_log``) are not supported.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from seatrial._core import Histogram
from seatrial.errors import UsageError
from seatrial.grouping import grouped
from seatrial.importers.document import (
    NO_LATENCIES,
    SLICE_NS,
    Document,
    Draft,
    Imported,
    imported,
    no_number,
    open_document,
    reported_operation,
)
from seatrial.results.model import OperationResult, Origin, Slice, Timeline
from seatrial.units import KIB, NS_PER_MS

KINDS: Final = ("lat", "clat", "iops", "bw")
"""Logs that give a timeline, the best first."""
DIRECTIONS: Final = ("read", "write")
DEVIATION_SHARE_MAX: Final = 0.05
SIZE_DEVIATION_SHARE_MAX: Final = 0.02
EPOCH_MS_MIN: Final = 10**11
"""Times from here on are Unix times (``log_unix_epoch``), not times since the job's start."""
ENDING_WINDOWS_MAX: Final = 2
"""A log that ends more windows than this before its job is of a thread that ended then."""
_LINE: Final = re.compile(r"\s*(\d{1,15}),\s*(\d{1,18}),\s*([012]),\s*(\d{1,12})(?:,.*)?")
_LINE_OF_BOTH: Final = re.compile(_LINE.pattern.replace("18}),", r"18}),\s*\d{1,18},", 1))
"""With ``log_window_value=both``, the largest value of the window follows the mean."""
_NAME: Final = re.compile(r"(?P<prefix>.+)_(?P<kind>bw|iops|lat|clat|slat)(?P<number>\.\d+)?\.log")


class Entry(msgspec.Struct, frozen=True):
    """One line of a log.

    Attributes:
        at_ms: Time since the job's start.
        value: KiB/s, requests, or ns, depending on the kind of the log.
        size_bytes: Block size; 0 in a log of means.
    """

    at_ms: int
    value: int
    size_bytes: int


Log = dict[str, list[Entry]]
"""The lines of one file by direction."""


def is_log(text: str) -> bool:
    """Return whether a text consists of lines of a fio log."""
    lines = [line for line in text.splitlines()[:5] if line.strip()]
    return bool(lines) and all(_LINE.fullmatch(line) for line in lines)


def log_of(document: Document, line_of: re.Pattern[str] = _LINE) -> Log:
    """Return the lines of a log; raises UsageError for an invalid line."""
    found: Log = defaultdict(list)
    for number, line in enumerate(document.text.splitlines(), start=1):
        if not line.strip():
            continue
        parts = line_of.fullmatch(line)
        if parts is None:
            raise no_number(document, number, "a line of fio", line[:40], "a line of fio")
        direction = int(parts[3])
        if direction < len(DIRECTIONS):
            entry = Entry(int(parts[1]), int(parts[2]), int(parts[4]))
            found[DIRECTIONS[direction]].append(entry)
    return found


def nearby_logs(
    path: Path, options: Mapping[str, str], threads: Iterable[int], latency: str
) -> dict[str, list[Log]]:
    """Return a job's logs next to its JSON, by kind, one for each thread.

    Args:
        path: Path of the JSON.
        options: The job's options, which name the logs.
        threads: Numbers of its threads.
        latency: ``lat`` or ``clat``: the one of its histogram.

    Raises:
        UsageError: A log is not one of fio.
    """
    line_of = _LINE_OF_BOTH if options.get("log_window_value") == "both" else _LINE
    kinds = {"write_lat_log": latency, "write_iops_log": "iops", "write_bw_log": "bw"}
    found = {}
    for option, kind in kinds.items():
        if option not in options:
            continue
        prefix = options[option] or options.get("name", "")
        numbers = [f".{number}" for number in threads]
        if options.get("per_job_logs") == "0":
            numbers = [""]
        files = [_sibling_file(path, f"{prefix}_{kind}{number}.log") for number in numbers]
        if files and all(files):
            found[kind] = [log_of(open_document(file), line_of) for file in files if file]
    return _since_start(found)


def _since_start(logs: dict[str, list[Log]]) -> dict[str, list[Log]]:
    """Return the logs of a job with times since its start, also if fio logged Unix times."""
    every = [log for each in logs.values() for log in each]
    first_ms = _first_ms(every)
    if first_ms < EPOCH_MS_MIN:
        return logs
    # A line of means is written at the end of its window.
    base_ms = first_ms - (0 if _each_request_has_a_line(every) else _window_ms(every))
    return {kind: [_moved(log, base_ms) for log in each] for kind, each in logs.items()}


def _moved(log: Log, base_ms: int) -> Log:
    return {
        direction: [
            msgspec.structs.replace(entry, at_ms=max(0, entry.at_ms - base_ms)) for entry in lines
        ]
        for direction, lines in log.items()
    }


def _first_ms(logs: Iterable[Log]) -> int:
    return min((e.at_ms for log in logs for lines in log.values() for e in lines), default=0)


def _sibling_file(path: Path, name: str) -> Path | None:
    """Return a log by its name as given to fio, or by its last part, next to a file."""
    for candidate in (path.parent / name, path.parent / Path(name).name):
        if candidate.is_file() and candidate.stat().st_size:
            return candidate
    return None


class Timed(msgspec.Struct, frozen=True):
    """A timeline from logs.

    Attributes:
        timeline: The timeline.
        histograms: Response times by operation kind, where each request has a line.
        note: What is not exact about it; empty if nothing.
    """

    timeline: Timeline
    histograms: dict[str, Histogram]
    note: str = ""


def timed(
    logs: Mapping[str, Sequence[Log]], totals: Mapping[str, OperationResult], duration_s: float
) -> Timed | None:
    """Return the timeline of a sample; None where its logs do not agree with its requests.

    Args:
        logs: By kind, one for each thread.
        totals: Result of each operation kind.
        duration_s: Duration of the sample.
    """
    first_ms = _first_ms(log for each in logs.values() for log in each)
    # With log_alternate_epoch, times count from another clock's zero.
    if not logs or first_ms > duration_s * 1000 + SLICE_NS // NS_PER_MS:
        return None
    kind = next(kind for kind in KINDS if kind in logs)
    if _each_request_has_a_line(logs[kind]):
        return _exact(kind, logs[kind], totals, duration_s)
    rates = next((kind for kind in ("iops", "bw") if kind in logs), None)
    return _apportioned(rates, logs[rates], totals, duration_s) if rates else None


def _each_request_has_a_line(logs: Sequence[Log]) -> bool:
    return all(entry.size_bytes for log in logs for lines in log.values() for entry in lines)


def _exact(
    kind: str, logs: Sequence[Log], totals: Mapping[str, OperationResult], duration_s: float
) -> Timed | None:
    slices, histograms = [], {}
    last = max(0, int(duration_s * 1000) * NS_PER_MS // SLICE_NS)
    for operation in totals:
        entries = [entry for log in logs for entry in log.get(operation, [])]
        if len(entries) != totals[operation].completed:
            if operation in DIRECTIONS:
                return None
            continue
        by_slice = grouped(entries, lambda e: min(last, e.at_ms * NS_PER_MS // SLICE_NS))
        slices += [
            Slice(
                index=index,
                operation=operation,
                completed=len(lines),
                transferred_bytes=sum(entry.size_bytes for entry in lines),
                response=_times(kind, lines).encode(),
            )
            for index, lines in by_slice.items()
        ]
        if kind in ("lat", "clat"):
            histograms[operation] = _times(kind, entries)
    return Timed(_in_order(SLICE_NS, slices), histograms)


def _times(kind: str, lines: Sequence[Entry]) -> Histogram:
    if kind not in ("lat", "clat"):
        return Histogram.of([])
    counts = Counter(entry.value for entry in lines)
    return Histogram.from_counts(list(counts), list(counts.values()))


def _in_order(slice_ns: int, slices: Sequence[Slice]) -> Timeline:
    ordered = sorted(slices, key=lambda part: (part.index, part.operation))
    return Timeline(slice_ns=slice_ns, slices=ordered)


def _apportioned(
    kind: str, logs: Sequence[Log], totals: Mapping[str, OperationResult], duration_s: float
) -> Timed | None:
    """Return a timeline from means: the counts, distributed in proportion to the log."""
    window_ms = _window_ms(logs)
    slices: list[Slice] = []
    for operation in totals:
        if operation not in DIRECTIONS or not totals[operation].completed:
            continue
        counted = totals[operation]
        moved = _by_window([log.get(operation, []) for log in logs], window_ms, duration_s)
        whole = sum(moved)
        if kind == "bw":
            whole *= KIB * counted.completed / max(1, counted.transferred_bytes)
        if abs(whole - counted.completed) > DEVIATION_SHARE_MAX * counted.completed:
            return None
        slices += _shared_out(operation, counted, moved)
    note = (
        f"The timeline is derived from fio's {kind} log, whose lines are means over {window_ms} ms."
    )
    return Timed(_in_order(window_ms * NS_PER_MS, slices), {}, note)


def _window_ms(logs: Sequence[Log]) -> int:
    """Return the usual interval between two lines of a thread and direction."""
    steps = [
        after.at_ms - before.at_ms
        for log in logs
        for lines in log.values()
        for before, after in pairwise(lines)
    ]
    return max(1, sorted(steps)[len(steps) // 2]) if steps else SLICE_NS // NS_PER_MS


def _by_window(
    threads: Sequence[Sequence[Entry]], window_ms: int, duration_s: float
) -> list[float]:
    """Return the work of the threads in each window: the integral of the log's rates.

    fio writes no line for the window in which a job ends: the last rate is used for it, or every
    imported job would seem to slow down at its end.
    """
    end_ms = int(duration_s * 1000)
    count = max(1, -(-end_ms // window_ms))
    moved = [0.0] * count
    for lines in threads:
        before_ms = 0
        for entry in lines:
            _spread(moved, window_ms, before_ms, entry.at_ms, entry.value / 1000)
            before_ms = max(before_ms, entry.at_ms)
        if lines and end_ms - before_ms < ENDING_WINDOWS_MAX * window_ms:
            _spread(moved, window_ms, before_ms, end_ms, lines[-1].value / 1000)
    return moved


def _spread(moved: list[float], window_ms: int, from_ms: int, to_ms: int, per_ms: float) -> None:
    """Distribute a constant rate between two times to the windows."""
    while from_ms < to_ms:
        window = from_ms // window_ms
        until_ms = min(to_ms, (window + 1) * window_ms)
        if window >= len(moved):
            moved[-1] += per_ms * (to_ms - from_ms)
            return
        moved[window] += per_ms * (until_ms - from_ms)
        from_ms = until_ms


def _shared_out(
    operation: str, counted: OperationResult, moved: Sequence[float]
) -> Iterable[Slice]:
    """Yield slices whose requests and bytes add up exactly to the counts."""
    whole = sum(moved)
    so_far, requests_before, bytes_before = 0.0, 0, 0
    for index, part in enumerate(moved):
        so_far += part
        share = so_far / whole if index < len(moved) - 1 else 1.0
        requests = round(counted.completed * share)
        moved_bytes = round(counted.transferred_bytes * share)
        if requests > requests_before:
            yield Slice(
                index=index,
                operation=operation,
                completed=requests - requests_before,
                transferred_bytes=moved_bytes - bytes_before,
                response=NO_LATENCIES,
            )
            requests_before, bytes_before = requests, moved_bytes


def read(document: Document) -> Imported:
    """Return the run of a log alone, with the logs of the same job next to it.

    Raises:
        UsageError: Its name does not show its kind, a line is invalid, or the logs contain only
            mean latencies, from which no rate can be computed.
    """
    name = _NAME.fullmatch(document.name)
    if name is None:
        raise UsageError(
            seen=f"{document.path} is a fio log whose name does not show its kind",
            cause="Bandwidth, IOPS and latency logs look alike; fio names them _bw, _iops, _lat",
            next_step="Restore the name that fio used, such as run_iops.1.log",
        )
    logs = {}
    for kind in KINDS:
        file = _sibling_file(document.path, f"{name['prefix']}_{kind}{name['number'] or ''}.log")
        if file:
            logs[kind] = [log_of(open_document(file))]
    logs = _since_start(logs)
    totals = _totals(logs)
    duration_s = _last_ms(logs) / 1000
    found = timed(logs, totals, duration_s) if totals and duration_s else None
    if found is None and "bw" in logs and not totals:
        raise UsageError(
            seen=f"{document.path} contains mean bandwidths, but no requests",
            cause="With log_avg_msec, fio logs no block size, so requests cannot be counted",
            next_step="Add fio's _iops log of the same job in the same directory, or import "
            "fio's JSON",
        )
    if found is None:
        raise UsageError(
            seen=f"{document.path} contains mean latencies, but no rate",
            cause="The matching IOPS or bandwidth log is missing, or does not agree",
            next_step="Add fio's _iops or _bw log of the same job in the same directory",
        )
    origin = Origin(
        format="fio-log",
        file=document.name,
        tool="fio",
        notes=[
            "A log contains no job options: depth, pattern and target are unknown, and each "
            "thread has a separate log. Import fio's JSON together with its logs.",
            *([found.note] if found.note else []),
        ],
    )
    return imported(document, origin, [_draft(name["prefix"], totals, found, duration_s)])


def _last_ms(logs: Mapping[str, Sequence[Log]]) -> int:
    return max(
        (e.at_ms for each in logs.values() for log in each for part in log.values() for e in part),
        default=0,
    )


def _totals(logs: Mapping[str, Sequence[Log]]) -> dict[str, OperationResult]:
    """Return requests and bytes by direction, from the logs themselves."""
    for kind in KINDS:
        if kind in logs and _each_request_has_a_line(logs[kind]):
            return {
                direction: reported_operation(len(lines), sum(entry.size_bytes for entry in lines))
                for direction, lines in logs[kind][0].items()
            }
    duration_s = _last_ms(logs) / 1000
    sums = {
        kind: {
            direction: sum(_by_window([lines], _window_ms(logs[kind]), duration_s))
            for direction, lines in logs[kind][0].items()
        }
        for kind in ("iops", "bw")
        if kind in logs
    }
    return {
        direction: reported_operation(
            round(requests), round(sums.get("bw", {}).get(direction, 0.0) * KIB)
        )
        for direction, requests in sums.get("iops", {}).items()
    }


def _draft(
    target: str, totals: Mapping[str, OperationResult], found: Timed, duration_s: float
) -> Draft:
    operations = {
        kind: msgspec.structs.replace(result, response=found.histograms[kind].encode())
        if kind in found.histograms
        else result
        for kind, result in totals.items()
    }
    return Draft(
        target=target,
        workload="io",
        kind="io",
        operation="mixed" if len(operations) > 1 else next(iter(operations)),
        block_size_bytes=_block_bytes(totals.values()),
        threads=1,
        factors={"pattern": "unknown"},
        duration_s=duration_s,
        operations=operations,
        parts={"timeline": found.timeline},
    )


def _block_bytes(results: Iterable[OperationResult]) -> int:
    """Return the block size by requests and bytes; 0 where it is not a usual one."""
    sizes = set()
    for result in results:
        mean_bytes = result.transferred_bytes / max(1, result.completed)
        near_bytes = 1 << max(0, round(mean_bytes).bit_length() - 1)
        nearest_bytes = min(near_bytes, 2 * near_bytes, key=lambda each: abs(each - mean_bytes))
        is_near = abs(nearest_bytes - mean_bytes) <= SIZE_DEVIATION_SHARE_MAX * mean_bytes
        sizes.add(nearest_bytes if is_near else 0)
    return sizes.pop() if len(sizes) == 1 else 0
