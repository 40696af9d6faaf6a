"""The JSON that fio prints, found among other text, checked and typed.

``--output-format=json,normal`` puts the human-readable print beside the JSON, warnings stand
before it, and a shell that appends runs to one file puts several documents behind each other.
``--status-interval`` does the same with ever newer states of one run, of which the last counts.
The layout is that of fio 3.x (stat.c and client.c of its source), JSON+ included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, field

from seatrial.errors import UsageError
from seatrial.importers.document import Document

MARK: Final = '"fio version"'
SAME_START_S: Final = 2.0
ALL_CLIENTS: Final = "All clients"

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
        total_ios: Requests completed.
        runtime_ms: Time from start to the last completion (``runtime``).
        slat_ns: From creation to submission.
        clat_ns: From submission to completion.
        lat_ns: From creation to completion.
    """

    io_bytes: Count = 0
    total_ios: Count = 0
    runtime_ms: Milliseconds = field(default=0, name="runtime")
    slat_ns: Latency = Latency()
    clat_ns: Latency = Latency()
    lat_ns: Latency = Latency()


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
        sync: Syncs.
        job_runtime_ms: Time of all its threads together (``job_runtime``).
        usr_cpu: Percent of that in user mode.
        sys_cpu: Percent of that in the kernel.
        ctx: Context switches.
        hostname: The machine, with ``--client``.
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
    sync: Sync = Sync()
    job_runtime_ms: Milliseconds = field(default=0, name="job_runtime")
    usr_cpu: Figure = 0.0
    sys_cpu: Figure = 0.0
    ctx: Count = 0
    hostname: str = ""


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
        """Unix time in seconds at which fio started; 0 where it does not tell."""
        elapsed_s = max((job.elapsed_s for job in self.entries), default=0)
        return max(0.0, self.timestamp_s - elapsed_s)


def is_fio(text: str) -> bool:
    """Tell whether a text holds a JSON document of fio, be it whole or cut off."""
    return MARK in text


def is_foreign_json(text: str) -> bool:
    """Tell whether a text is JSON, though not fio's."""
    return text.lstrip()[:1] in ("{", "[") and MARK not in text


def reports(document: Document) -> list[Report]:
    """Return the documents of fio in a text, of several states of one run only the last.

    Raises:
        UsageError: One is cut off, damaged or without jobs.
    """
    found = [_typed(document, content) for content in _contents(document)]
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


def _contents(document: Document) -> Iterator[Any]:
    """Yield every JSON object that begins a line and is fio's."""
    decoder = json.JSONDecoder(parse_constant=_no_number)
    text, at = document.text, 0
    while (at := _next_object(text, at)) >= 0:
        try:
            content, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise _cut_off(document, error) from None
        if isinstance(content, dict) and "fio version" in content:
            yield content


def _next_object(text: str, at: int) -> int:
    """Return where the next object begins a line; -1 where none does."""
    if at == 0 and text.startswith("{"):
        return 0
    found = text.find("\n{", max(0, at - 1))
    return found + 1 if found >= 0 else -1


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is not a number")


def _cut_off(document: Document, error: Exception) -> UsageError:
    line = error.lineno if isinstance(error, json.JSONDecodeError) else 0
    where = f" at line {line}" if line else ""
    reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
    return UsageError(
        seen=f"The JSON in {document.path} ends or breaks off{where}: {reason}",
        cause="fio was stopped before it had printed all of it, or the file was cut or edited",
        next_step="Run fio again with --output=FILE --output-format=json+ and wait for its end",
    )


def _typed(document: Document, content: object) -> Report:
    try:
        return msgspec.convert(content, Report)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(
            seen=f"{document.path} is not as fio writes it: {error}",
            cause="The file was edited, or a version of fio wrote it that is not 3.x",
            next_step="Run fio 3 again with --output-format=json+",
        ) from None


def own_options(report: Report, job: Job) -> dict[str, str]:
    """Return a job's options with the global ones below them."""
    return report.options | job.options


def by_group(entries: Sequence[Job]) -> dict[tuple[str, int], list[Job]]:
    """Return the jobs that ran at the same time on the same machine, together."""
    groups: dict[tuple[str, int], list[Job]] = {}
    for job in entries:
        groups.setdefault((job.hostname, job.groupid), []).append(job)
    return groups
