"""The JSON that fio prints, checked and typed.

A shell that appends runs to one file puts several documents behind each other.
``--status-interval`` does the same with ever newer states of one run, of which the last counts.
The layout is that of the latest fio (stat.c and client.c of its source), JSON+ included; what
older ones print is rewritten in it first (importers/fio/versions.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, field

from seatrial.errors import UsageError
from seatrial.importers.document import Document
from seatrial.importers.fio.text import contents
from seatrial.importers.fio.versions import in_latest_layout

SAME_START_S: Final = 2.0
ALL_CLIENTS: Final = "All clients"
_RELEASE: Final = re.compile(r"fio-(\d{1,4}(?:\.\d{1,4}){1,3})")

Count = Annotated[int, Meta(ge=0, le=2**62)]
Figure = Annotated[float, Meta(ge=0, le=2.0**63)]
Milliseconds = Annotated[int, Meta(ge=0, le=2**40)]
Seconds = Annotated[int, Meta(ge=0, le=2**36)]
UnixSeconds = Annotated[float, Meta(ge=0, le=2.0**36)]

Percent = Annotated[str, Meta(pattern=r"^[0-9]{1,3}(\.[0-9]{1,9})?$")]
Middle = Annotated[str, Meta(pattern="^[0-9]{1,19}$")]


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """One of fio's three latencies of one direction, in ns.

    Attributes:
        min: Smallest.
        max: Largest.
        mean: Mean.
        count: Requests that it rests on.
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
    """What became of the reads, writes or trims of a job.

    Attributes:
        io_bytes: Bytes moved.
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
        """Requests completed, as far as fio prints them."""
        return self.counted_ios or 0


class Sync(msgspec.Struct, frozen=True, kw_only=True):
    """The syncs of a job: how many, and how long each took."""

    total_ios: Count = 0
    lat_ns: Latency = Latency()


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of fio's list: a thread, or with ``group_reporting`` all of a job.

    Attributes:
        jobname: Its section's name.
        groupid: Jobs of one group ran at the same time.
        error: Number of the error that ended it; 0 for none.
        total_err: Requests that failed, where ``continue_on_error`` went on.
        elapsed_s: Seconds since fio started (``elapsed``).
        options: As given, but for the global ones (``job options``).
        read: Reads.
        write: Writes.
        trim: Trims.
        mixed: All of them as one, with ``unified_rw_reporting``.
        sync: Syncs.
        job_runtime_ms: Time of all its threads together (``job_runtime``).
        usr_cpu: Percent of that in user mode.
        sys_cpu: Percent of that in the kernel.
        ctx: Context switches.
        hostname: The machine, with ``--client``.
        port: Of the server on it.
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

    def directions(self, operation: str) -> dict[str, Direction]:
        """Return what was done, by kind of request, of those that fio printed figures of.

        Args:
            operation: What the job does: ``read``, ``write`` or ``mixed``.
        """
        names = ("read", "write") if operation == "mixed" else (operation,)
        apart = {name: getattr(self, name) for name in names}
        found = {name: each for name, each in apart.items() if each.counted_ios is not None}
        # With unified_rw_reporting=both the sum stands beside its parts.
        if not found and self.mixed.counted_ios is not None:
            return {operation: self.mixed}
        return found


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel counted of a device while fio ran; sectors only since fio 3.36."""

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
        timestamp_s: Unix time at which it was printed (``timestamp``).
        options: Of the sections ``[global]`` (``global options``).
        jobs: Of one machine.
        client_stats: Of several machines, and of all of them together.
        disk_util: Devices.
    """

    version: str = field(default="", name="fio version")
    timestamp_s: UnixSeconds = field(default=0.0, name="timestamp")
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
        """Unix time in seconds at which fio started; 0 where it does not tell.

        Before fio 2.2.10 the longest run time stands in for the time that fio was at work.
        """
        elapsed_s: float = max((job.elapsed_s for job in self.entries), default=0)
        if not elapsed_s:
            parts = [each for job in self.entries for each in (job.read, job.write, job.mixed)]
            elapsed_s = max((part.runtime_ms / 1000 for part in parts), default=0)
        return max(0.0, self.timestamp_s - elapsed_s)

    @property
    def release(self) -> tuple[int, ...]:
        """The version as figures, such as (2, 1, 4); empty where it is of no release."""
        figures = _RELEASE.match(self.version)
        return tuple(int(part) for part in figures[1].split(".")) if figures else ()


def reports(document: Document) -> list[Report]:
    """Return the documents of fio in a text, of several states of one run only the last.

    Raises:
        UsageError: One is cut off, damaged or without jobs.
    """
    found = [_typed(document, content) for content in contents(document)]
    kept = [
        report
        for place, report in enumerate(found)
        if not any(_is_later_state(later, report) for later in found[place + 1 :])
    ]
    if not any(report.entries for report in kept):
        raise UsageError(
            seen=f"{document.path} is a result of fio without any job",
            cause="fio was stopped before its first job began, or could not start one",
            next_step="Look at what fio printed beside it, and run it again",
        )
    return [report for report in kept if report.entries]


def _is_later_state(later: Report, report: Report) -> bool:
    names = [job.jobname for job in report.entries]
    return (
        [job.jobname for job in later.entries][: len(names)] == names
        and abs(later.started_at - report.started_at) < SAME_START_S
        and later.timestamp_s >= report.timestamp_s
        and any(job.elapsed_s for job in report.entries)
    )


def _typed(document: Document, content: dict[str, Any]) -> Report:
    try:
        report = msgspec.convert(in_latest_layout(content), Report)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(
            seen=f"{document.path} is not as fio writes it: {error}",
            cause="The file was edited, or a fio older than 2.1 or much newer than 3.42 wrote it",
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
    """Return a job's options with the global ones below them."""
    return report.options | job.options


def by_group(entries: Sequence[Job]) -> dict[tuple[str, int], list[Job]]:
    """Return the jobs that ran at the same time on the same machine, together."""
    groups: dict[tuple[str, int], list[Job]] = {}
    for job in entries:
        groups.setdefault((job.hostname, job.groupid), []).append(job)
    return groups
