"""The JSON output of fio, checked and typed.

A shell that appends runs to one file concatenates several documents. ``--status-interval`` does the
same with successive states of one run, of which the last counts. The layout is that of the latest
fio (stat.c and client.c of its source), including JSON+; output of older versions is converted to
it first.

fio changed keys and units without a version number of the layout; the keys show which one a
document has. By stat.c and client.c of the tags fio-2.1 to fio-3.42:

======  ==========================================================================================
since   what is new
======  ==========================================================================================
2.1.14  ``total_ios``; before it, only integer IOPS (rounded down) and the run time
2.2.13  ``bins`` (JSON+), by the number of the bucket, with ``FIO_IO_U_PLAT_BITS`` among them
2.20    ``bins`` by the middle of the bucket
2.21    ``io_bytes`` in bytes, along with ``io_kbytes``; before, in KiB, rounded down
2.99    ``slat_ns``, ``clat_ns``, ``lat_ns``; before, ``slat``, ``clat``, ``lat`` in microseconds
3.18    ``N``, the number of requests of a latency; before, all of a direction have one
3.39    of several servers, ``global options`` is a list with an entry for each
======  ==========================================================================================

Values of an unexpected type are passed on: the typed reader refuses them with their position.

``--output-format=json,normal`` prints human-readable output next to the JSON, warnings and a
shell's prompt may precede it, and a log adds its own prefix to every line.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Final, TypeGuard

import msgspec
from msgspec import Meta, field

from seatrial.errors import UsageError
from seatrial.importers.document import Document
from seatrial.units import KIB, NS_PER_US

DIRECTIONS: Final = ("read", "write", "trim", "mixed")
LATENCIES: Final = ("slat", "clat", "lat")
BLOCK_BYTES_MIN: Final = 512
BLOCK_BYTES_MAX: Final = 64 << 20
COUNT_MAX: Final = 2**53
"""Sums over threads and rounds have to fit 63 bits; 8 PiB and 9e15 requests are beyond any run."""
BITS_KEY: Final = "FIO_IO_U_PLAT_BITS"
PLAT_BITS: Final = 6
_SERVER: Final = ("hostname", "port")

Content = dict[str, Any]


def in_latest_layout(content: Content) -> Content:
    """Return a document of fio with the keys and units of the latest layout."""
    found = dict(content)
    shared = content.get("global options")
    by_server: dict[tuple[str, str], Content] = {}
    if isinstance(shared, list):
        by_server = {_server(each): each for each in shared if isinstance(each, dict)}
        found["global options"] = {}
    for name in ("jobs", "client_stats"):
        if isinstance(content.get(name), list):
            found[name] = [_job(each, by_server) for each in content[name]]
    return found


def _server(content: Mapping[str, Any]) -> tuple[str, str]:
    """Return host and port of an entry as text, as either may be damaged."""
    host, port = (str(content.get(name)) for name in _SERVER)
    return host, port


def _job(content: object, by_server: Mapping[tuple[str, str], Content]) -> object:
    if not isinstance(content, dict):
        return content
    found = dict(content)
    for name in DIRECTIONS:
        if isinstance(content.get(name), dict):
            found[name] = _direction(content[name])
    if isinstance(content.get("sync"), dict):
        found["sync"] = _counted(content["sync"])
    if shared := by_server.get(_server(content)):
        own = content.get("job options")
        options = {name: value for name, value in shared.items() if name not in _SERVER}
        found["job options"] = options | (own if isinstance(own, dict) else {})
    return found


def _direction(content: Content) -> Content:
    found = dict(content)
    is_in_us = any(name in content for name in LATENCIES)
    if is_in_us:
        for name in LATENCIES:
            if isinstance(content.get(name), dict):
                found[f"{name}_ns"] = _latency_in_ns(content[name])
        if "io_kbytes" not in content and _is_count(content.get("io_bytes")):
            found["io_bytes"] = content["io_bytes"] * KIB
            _restore_rounded_down(found)
    return _counted(found)


def _restore_rounded_down(found: Content) -> None:
    """Reconstruct requests and bytes that fio rounded to whole IOPS and KiB.

    Requests of one size, a power of two, give both exactly; where none fits, requests are computed
    from the rate, and bytes are unchanged.
    """
    low_bytes = found["io_bytes"]
    fitting = dict(_fitting(found, low_bytes))
    if len(fitting) == 1:
        ((block_bytes, requests),) = fitting.items()
        found |= {"total_ios": requests, "io_bytes": requests * block_bytes}
    elif "total_ios" not in found and (span := _requests_span(found)):
        found["total_ios"] = round(sum(span) / 2)


def _fitting(found: Content, low_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield each block size with the number of requests that agrees with the printed values."""
    span = _requests_span(found)
    block_bytes = BLOCK_BYTES_MIN
    while span and low_bytes and block_bytes <= BLOCK_BYTES_MAX:
        requests = -(-low_bytes // block_bytes)
        if requests * block_bytes < low_bytes + KIB and span[0] <= requests <= span[1]:
            yield block_bytes, requests
        block_bytes *= 2


def _requests_span(found: Content) -> tuple[float, float] | None:
    """Return the fewest and the most requests that agree with the printed values."""
    requests, iops, runtime_ms = (found.get(name) for name in ("total_ios", "iops", "runtime"))
    if _is_count(requests):
        return requests, requests
    if "total_ios" in found or not _is_count(iops) or not _is_count(runtime_ms):
        return None
    return iops * runtime_ms / 1000, (iops + 1) * runtime_ms / 1000


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX


def _is_figure(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _latency_in_ns(content: Content) -> Content:
    """Convert a latency from microseconds to nanoseconds; bins become bucket middles."""
    found = dict(content)
    for name in ("min", "max", "mean", "stddev"):
        if _is_figure(content.get(name)):
            found[name] = content[name] * NS_PER_US
    if isinstance(content.get("percentile"), dict):
        # fio 2.x pads its list with percentiles named 0.00.
        found["percentile"] = {
            percent: value * NS_PER_US if _is_figure(value) else value
            for percent, value in content["percentile"].items()
            if percent != "0.00"
        }
    if isinstance(content.get("bins"), dict):
        found["bins"] = _bins_in_ns(content["bins"])
    return found


def _bins_in_ns(bins: Content) -> Content:
    is_by_number = bins.get(BITS_KEY) == PLAT_BITS
    found: Content = {}
    for bucket, count in bins.items():
        if not bucket.isascii() or not bucket.isdecimal():
            continue
        if count:
            middle_us = _bucket_middle(int(bucket)) if is_by_number else int(bucket)
            found[str(round(middle_us * NS_PER_US))] = count
    return found


def _bucket_middle(number: int) -> float:
    """Return the middle of a bucket of fio's histogram (``plat_idx_to_val`` in its stat.c)."""
    values = 1 << PLAT_BITS
    if number < 2 * values:
        return number
    error_bits = min((number >> PLAT_BITS) - 1, 64)
    return float((1 << (error_bits + PLAT_BITS)) + (number % values + 0.5) * (1 << error_bits))


def _counted(content: Content) -> Content:
    """Return a direction with the number of requests of each of its latencies."""
    found = dict(content)
    for name in LATENCIES:
        latency = content.get(f"{name}_ns")
        if isinstance(latency, dict) and "N" not in latency:
            found[f"{name}_ns"] = latency | {"N": _requests_behind(latency, found)}
    return found


def _requests_behind(latency: Content, direction: Content) -> int:
    is_measured = any(
        _is_figure(latency.get(name)) and latency[name] > 0 for name in ("max", "mean")
    )
    requests = direction.get("total_ios")
    if not is_measured:
        return 0
    if requests and _is_count(requests):
        return int(requests)
    bins = latency.get("bins")
    counts = list(bins.values()) if isinstance(bins, dict) else []
    return sum(counts) if all(map(_is_count, counts)) else 0


MARK: Final = '"fio version"'
_BEGIN: Final = re.compile(rf"\{{(?=\s*{MARK})")
_LINE_BEGIN: Final = re.compile(r"^\{", re.MULTILINE)
_PART: Final = re.compile(r"(?P<digits>\d+)|(?P<blank>\s+)|[^\d\s]+")


def is_fio(text: str) -> bool:
    """Return whether a text contains a JSON document of fio, complete or truncated."""
    return MARK in text


def contents(document: Document) -> list[Content]:
    """Return every JSON object of fio in a text.

    Raises:
        UsageError: One is truncated or damaged, or none begins where one can begin.
    """
    found = list(_objects(document, document.text))
    if not found and (plain := _without_prefixes(document.text)):
        found = list(_objects(document, plain))
    if not found:
        raise UsageError(
            seen=f"{document.path} contains {MARK}, but no complete JSON of fio",
            cause="Its beginning is missing, or other text precedes the JSON",
            next_step="Remove everything that fio did not print",
        )
    return found


def _objects(document: Document, text: str) -> Iterator[Content]:
    """Yield objects that begin with fio's version, or else at the start of a line."""
    beginning = _BEGIN if _BEGIN.search(text) else _LINE_BEGIN
    decoder = json.JSONDecoder(parse_constant=_no_number)
    at = 0
    while begin := beginning.search(text, at):
        try:
            content, at = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError) as error:
            raise _cut_off(document, error) from None
        if isinstance(content, dict) and "fio version" in content:
            yield content


def _without_prefixes(text: str) -> str:
    """Return the lines of a log with the prefix of fio's first line, without it.

    The prefix may contain a time and a process number, so its digits may differ from line to line.
    Other lines are dropped. Empty where fio's JSON does not begin so.
    """
    lines = text.splitlines()
    for first, second in pairwise(lines):
        if MARK in second and first.rstrip().endswith("{"):
            prefix = _prefix(first.rstrip()[:-1])
            found = [prefix.match(line) for line in lines]
            return "\n".join(each.string[each.end() :] for each in found if each)
    return ""


def _prefix(first: str) -> re.Pattern[str]:
    """Return a pattern for a prefix with other digits and blanks."""
    parts = (
        r"\d+" if part["digits"] else r"\s*" if part["blank"] else re.escape(part[0])
        for part in _PART.finditer(first)
    )
    return re.compile("".join(parts))


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is not a number")


def _cut_off(document: Document, error: Exception) -> UsageError:
    line = error.lineno if isinstance(error, json.JSONDecodeError) else 0
    where = f" at line {line}" if line else ""
    reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
    return UsageError(
        seen=f"The JSON in {document.path} is incomplete or invalid{where}: {reason}",
        cause="fio was stopped before it printed all results, or the file was truncated or edited",
        next_step="Run fio again with --output=FILE --output-format=json+ and wait until it ends",
    )


SAME_START_S: Final = 1.0
"""States of one run seem to start less than this apart, as ``elapsed`` is rounded up to seconds."""
SAME_START_WHOLE_S: Final = 2.0
"""The same where the time of printing is also in whole seconds."""
ALL_CLIENTS: Final = "All clients"
_RELEASE: Final = re.compile(r"fio-(\d{1,4}(?:\.\d{1,4}){1,3})")

Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Figure = Annotated[float, Meta(ge=0, le=2.0**60)]
Milliseconds = Annotated[int, Meta(ge=0, le=2**40)]
Seconds = Annotated[int, Meta(ge=0, le=2**36)]
UnixSeconds = Annotated[float, Meta(ge=0, le=2.0**36)]
UnixMilliseconds = Annotated[int, Meta(ge=0, le=2**46)]

Percent = Annotated[str, Meta(pattern=r"^[0-9]{1,3}(\.[0-9]{1,9})?$")]
Middle = Annotated[str, Meta(pattern="^[0-9]{1,18}$")]


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """One of fio's three latencies of one direction, in ns.

    Attributes:
        min: Smallest.
        max: Largest.
        mean: Mean.
        count: Number of requests.
        percentile: By percent, as text.
        bins: Requests by value (the middle of fio's bucket, as text); JSON+ only.
    """

    min: Figure = 0.0
    max: Figure = 0.0
    mean: Figure = 0.0
    count: Count = field(default=0, name="N")
    percentile: dict[Percent, Figure] = {}
    bins: dict[Middle, Count] = {}


class Direction(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the reads, writes or trims of a job.

    Attributes:
        io_bytes: Bytes transferred.
        counted_ios: Requests completed (``total_ios``); None where fio does not print them.
        runtime_ms: Time from start to the last completion (``runtime``).
        slat_ns: From creation to submission.
        clat_ns: From submission to completion.
        lat_ns: From creation to completion.
    """

    io_bytes: Count = 0
    counted_ios: Count | None = field(default=None, name="total_ios")
    runtime_ms: Milliseconds = field(default=0, name="runtime")
    slat_ns: Latency = Latency()
    clat_ns: Latency = Latency()
    lat_ns: Latency = Latency()

    @property
    def total_ios(self) -> int:
        """Requests completed, from the printed values."""
        return self.counted_ios or 0


class Sync(msgspec.Struct, frozen=True, kw_only=True):
    """The syncs of a job: how many, and how long each took."""

    total_ios: Count = 0
    lat_ns: Latency = Latency()


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of fio's list: a thread, or with ``group_reporting`` a whole job.

    Attributes:
        jobname: Its section's name.
        groupid: Jobs of one group ran at the same time.
        error: Number of the error that ended it; 0 for none.
        total_err: Failed requests, with ``continue_on_error``.
        elapsed_s: Seconds since fio started (``elapsed``).
        options: Options without the global ones (``job options``).
        read: Reads.
        write: Writes.
        trim: Trims.
        mixed: All of them together, with ``unified_rw_reporting``.
        sync: Syncs.
        job_runtime_ms: Total time of all its threads (``job_runtime``).
        usr_cpu: Percent of it in user mode.
        sys_cpu: Percent of it in the kernel.
        ctx: Context switches.
        hostname: The machine, with ``--client``.
        port: Port of the server on it.
    """

    jobname: str = ""
    groupid: int = 0
    error: int = 0
    total_err: Count = 0
    elapsed_s: Seconds = field(default=0, name="elapsed")
    options: dict[str, str] = field(default_factory=dict, name="job options")
    read: Direction = Direction()
    write: Direction = Direction()
    trim: Direction = Direction()
    mixed: Direction = Direction()
    sync: Sync = Sync()
    job_runtime_ms: Milliseconds = field(default=0, name="job_runtime")
    usr_cpu: Figure = 0.0
    sys_cpu: Figure = 0.0
    ctx: Count = 0
    hostname: str = ""
    port: int = 0

    @property
    def failed(self) -> int:
        """Failed requests; the error that ended it is one."""
        return self.total_err or int(bool(self.error))

    @property
    def requests(self) -> int:
        """All requests completed, trims included."""
        return sum(each.total_ios for each in (self.read, self.write, self.trim, self.mixed))

    def directions(self, operation: str) -> dict[str, Direction]:
        """Return the results by kind of request, for those with printed values.

        Args:
            operation: The job's operation: ``read``, ``write`` or ``mixed``.
        """
        names = ("read", "write") if operation == "mixed" else (operation,)
        apart = {name: getattr(self, name) for name in names}
        found = {name: each for name, each in apart.items() if each.counted_ios is not None}
        # With unified_rw_reporting=both the sum is listed next to its parts.
        if not found and self.mixed.counted_ios is not None:
            return {operation: self.mixed}
        return found


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """The kernel's counters of a device while fio ran; sectors only since fio 3.36."""

    name: str = ""
    read_ios: Count = 0
    write_ios: Count = 0
    read_sectors: Count | None = None
    write_sectors: Count | None = None
    util: Figure = 0.0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One document of fio.

    Attributes:
        version: Such as ``fio-3.33`` (``fio version``).
        timestamp_s: Unix time at which it was printed (``timestamp``), in whole seconds.
        timestamp_ms: The same in milliseconds; 0 where fio does not print it.
        options: Options of the sections ``[global]`` (``global options``).
        jobs: Jobs on one machine.
        client_stats: Jobs on several machines, and their sums.
        disk_util: Devices.
    """

    version: str = field(default="", name="fio version")
    timestamp_s: UnixSeconds = field(default=0.0, name="timestamp")
    timestamp_ms: UnixMilliseconds = 0
    options: dict[str, str] = field(default_factory=dict, name="global options")
    jobs: list[Job] = []
    client_stats: list[Job] = []
    disk_util: list[Disk] = []

    @property
    def entries(self) -> list[Job]:
        """The jobs, of one machine or of several."""
        return self.client_stats or self.jobs

    @property
    def started_at(self) -> float:
        """Unix time in seconds at which fio started; 0 if unknown.

        Before fio 2.2.10 the longest run time is used as the time since the start.
        """
        elapsed_s: float = max((job.elapsed_s for job in self.entries), default=0)
        if not elapsed_s:
            parts = [each for job in self.entries for each in (job.read, job.write, job.mixed)]
            elapsed_s = max((part.runtime_ms / 1000 for part in parts), default=0)
        return max(0.0, self.timestamp_s - elapsed_s)

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers, such as (2, 1, 4); empty where it is not a release."""
        figures = _RELEASE.match(self.version)
        return tuple(int(part) for part in figures[1].split(".")) if figures else ()


def reports(document: Document, notes: list[str]) -> list[Report]:
    """Return the documents of fio in a text; of several states of one run only the last.

    Args:
        document: The text.
        notes: Receives a note on the states that are not used.

    Raises:
        UsageError: One is truncated, damaged or without jobs.
    """
    found = [_typed(document, content) for content in contents(document)]
    kept = [
        report
        for index, report in enumerate(found)
        if not any(_is_later_state(later, report) for later in found[index + 1 :])
    ]
    if not any(report.entries for report in kept):
        raise UsageError(
            seen=f"{document.path} is a fio result without jobs",
            cause="fio was stopped before its first job started, or could not start one",
            next_step="Check the other output of fio, and run it again",
        )
    if unused := len(found) - len(kept):
        states = "1 intermediate state is" if unused == 1 else f"{unused} intermediate states are"
        notes.append(f"{states} not used (--status-interval).")
    return [report for report in kept if report.entries]


def _is_later_state(later: Report, report: Report) -> bool:
    """Return whether a document is a later state of the same run, and not another run."""
    names = [job.jobname for job in report.entries]
    return (
        [job.jobname for job in later.entries][: len(names)] == names
        and _is_same_start(later, report)
        and later.timestamp_s >= report.timestamp_s
        and any(job.elapsed_s for job in report.entries)
        and all(
            # Counts fall within a run only at the end of its ramp_time.
            after.requests >= before.requests or after.elapsed_s > before.elapsed_s
            for before, after in zip(report.entries, later.entries, strict=False)
        )
    )


def _is_same_start(later: Report, report: Report) -> bool:
    if not (later.timestamp_ms and report.timestamp_ms):
        return abs(later.started_at - report.started_at) < SAME_START_WHOLE_S
    starts_s = [
        each.timestamp_ms / 1000 - max((job.elapsed_s for job in each.entries), default=0)
        for each in (later, report)
    ]
    return abs(starts_s[0] - starts_s[1]) < SAME_START_S


def _typed(document: Document, content: Content) -> Report:
    try:
        report = msgspec.convert(in_latest_layout(content), Report)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(
            seen=f"{document.path} is not valid output of fio: {error}",
            cause="The file was edited, or written by fio before 2.1 or much later than 3.42",
            next_step="Run fio 3 again with --output-format=json+",
        ) from None
    return msgspec.structs.replace(report, client_stats=_servers_apart(report.client_stats))


def _servers_apart(entries: Sequence[Job]) -> list[Job]:
    """Return entries of servers with their port in the name where a machine has several."""
    servers = {(job.hostname, job.port) for job in entries}
    several = [name for name, count in Counter(name for name, _ in servers).items() if count > 1]
    return [
        msgspec.structs.replace(job, hostname=f"{job.hostname}:{job.port}")
        if job.hostname in several
        else job
        for job in entries
    ]


def own_options(report: Report, job: Job) -> dict[str, str]:
    """Return a job's options completed with the global ones."""
    return report.options | job.options
