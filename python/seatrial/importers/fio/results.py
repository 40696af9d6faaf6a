"""fio's JSON and JSON+: jobs become cells, equal jobs become rounds.

A cell is defined by the options (importers/fio/options.py): operation, block size, ``numjobs``,
``iodepth``, pattern; other options that differ between the jobs of the file become factors under
fio's name. Threads of one job that fio lists separately are combined. Mixed jobs keep reads and
writes separate within one sample, and syncs are operations of their own, in no rate as in our runs.

A job written by ``export --format fio-job`` is imported as the original cell: its description
contains kind and target; its key the rest. If its block size, threads or depth were changed
afterwards, it is a different cell.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

import msgspec

from seatrial.errors import UsageError
from seatrial.importers.document import (
    NO_LATENCIES,
    Document,
    Draft,
    Imported,
    factor_value,
    imported,
    key_of,
)
from seatrial.importers.fio.document import Disk, Job, Report, reports
from seatrial.importers.fio.logs import Log, nearby_logs, timed
from seatrial.importers.fio.options import LIMITS, NOT_FACTORS, Access, engine_name, size_bytes
from seatrial.importers.fio.threads import (
    JobResult,
    answered_requests,
    measured_jobs,
    result_of,
    selected_latency,
)
from seatrial.results.model import OperationResult, Origin
from seatrial.study.cell import FactorValue, SpecDocument
from seatrial.units import NS_PER_MS, NS_PER_US, SECTOR_BYTES

_DESCRIPTION: Final = re.compile(r"seatrial kind=(?P<kind>[a-z]+) target=(?P<target>.*)")
_KEY: Final = re.compile(
    r"(?:^|.*/)(?P<workload>[^/]+)/(?P<operation>read|write|mixed|commit|copy)"
    r"/(?P<size>\d{1,10}B|various)/(?P<threads>\d{1,5})t/(?P<depth>\d{1,5})d"
    r"(?P<factors>(?:/[^/=]+=[^/]*(?:/[^/=]+)*)*)"
)
_KINDS: Final = {"fill", "matrix", "sequential", "map", "commit", "four", "mix", "io"}
_IMPLIED: Final = {"matrix": "random", "io": "random", "sequential": "sequential"}
"""The pattern implied by the key of each kind."""


class ExportedCell(msgspec.Struct, frozen=True, kw_only=True):
    """The name and description of an exported job; the attributes of a ``Cell``."""

    key: str
    kind: str
    target: str
    workload: str
    operation: str
    factors: dict[str, FactorValue]


def own_cell(jobname: str, description: str, access: Access) -> ExportedCell | None:
    """Return the cell that a job was exported from; None for any other job."""
    described, key = _DESCRIPTION.fullmatch(description), _KEY.fullmatch(jobname)
    if described is None or key is None or described["kind"] not in _KINDS:
        return None
    size_bytes = 0 if key["size"] == "various" else int(key["size"][:-1])
    requested = (size_bytes, int(key["threads"]), int(key["depth"]))
    if requested != (access.block_size_bytes, access.threads, access.depth):
        return None
    # A value may contain slashes: bs=4k/50:64k/50.
    parts = re.split(r"/(?=[^/=]+=)", key["factors"])
    pairs = [part.split("=", 1) for part in parts if part]
    factors = {name: factor_value(value) for name, value in pairs}
    if described["kind"] in _IMPLIED and "pattern" not in factors:
        factors = {"pattern": _IMPLIED[described["kind"]], **factors}
    return ExportedCell(
        key=jobname,
        kind=described["kind"],
        target=described["target"],
        workload=key["workload"],
        operation=key["operation"],
        factors=factors,
    )


WORKLOAD: Final = "io"
NANOSECONDS_SINCE: Final = (2, 99)
"""The first fio with latency logs in nanoseconds instead of microseconds."""
DURATION_S_MIN: Final = 0.001
_NUMBERED: Final = re.compile(r"[-_. ]?\d+$")


def read(document: Document) -> Imported:
    """Return the run of a text with one or more JSON documents of fio.

    Raises:
        UsageError: A document is truncated, damaged, or has no job that reads or writes.
    """
    notes: list[str] = []
    found = reports(document, notes)
    jobs = [each for report in found for each in measured_jobs(report, notes)]
    known = [each for each in jobs if each.access.operation]
    if len(known) < len(jobs):
        notes.append("Trim jobs are skipped: Seatrial does not measure trims.")
    if not known:
        raise UsageError(
            seen=f"{document.path} contains no results of reads or writes",
            cause="Its jobs only trim, which Seatrial does not measure, or have no request counts",
            next_step="Specify a fio result with reads or writes",
        )
    varying = _varying([each.options for each in known])
    drafts = [_with_logs(document, each, _draft(each, varying, notes), notes) for each in known]
    drafts = _distinguished(known, drafts)
    drafts = _with_disks(found, drafts, notes)
    origin = Origin(
        format="fio-json+" if any(map(_has_histogram, drafts)) else "fio-json",
        file=document.name,
        tool=found[0].version,
        notes=list(dict.fromkeys(notes)),
        file_bytes=_only(draft.spec["target"].get("size_bytes") for draft in drafts),
    )
    return imported(document, origin, drafts, started_at=found[0].started_at or None)


def _only(values: Iterable[int | None]) -> int | None:
    """Return the value if all are the same; else None."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _has_histogram(draft: Draft) -> bool:
    return any(result.response != NO_LATENCIES for result in draft.operations.values())


def _varying(jobs: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the options that differ between jobs and affect the measurement."""
    names = dict.fromkeys(name for options in jobs for name in options)
    return [
        name
        for name in names
        if name not in NOT_FACTORS and len({options.get(name) for options in jobs}) > 1
    ]


def _draft(measured: JobResult, varying: Sequence[str], notes: list[str]) -> Draft:
    job, options, access = measured.job, measured.options, measured.access
    own = own_cell(job.jobname, options.get("description", ""), access)
    factors: dict[str, FactorValue] = access.factors | {
        name: factor_value(options[name]) for name in varying if name in options
    }
    operations = _operations(measured, own, notes)
    # No rate counts syncs, also where no option says how many there are.
    sync_every = access.sync_every or int("sync" in operations)
    parts = job.directions(access.operation).values()
    runtime_ms = max((part.runtime_ms for part in parts), default=0)
    duration_s = runtime_ms / 1000 or job.job_runtime_ms / 1000 / access.threads
    if not duration_s and not job.error:
        notes.append(
            f"Job {job.jobname} lasted less than one millisecond: its rate is a lower bound."
        )
    if job.error:
        name = errno.errorcode.get(job.error, "unknown")
        notes.append(f"Job {job.jobname} ended with error {job.error} ({name}).")
    return Draft(
        target=own.target if own else job.hostname or _target(options),
        workload=own.workload if own else WORKLOAD,
        kind=own.kind if own else WORKLOAD,
        operation=own.operation if own else access.operation,
        block_size_bytes=access.block_size_bytes,
        threads=access.threads,
        depth=access.depth,
        factors=own.factors if own else factors,
        key=own.key if own else "",
        spec=_spec(options, access) | ({"sync_every": sync_every} if sync_every else {}),
        started_at=measured.report.started_at or None,
        duration_s=max(DURATION_S_MIN, duration_s),
        operations=operations,
        errors_count=job.failed,
        counters=_counters(job),
    )


def _with_logs(document: Document, measured: JobResult, draft: Draft, notes: list[str]) -> Draft:
    """Return a draft with the timeline of its logs, if they are next to the JSON."""
    done = list(measured.job.directions(measured.access.operation).values())
    latency = selected_latency(done[0]).name if done else ""
    kind = latency.removesuffix("_ns") or "lat"
    try:
        logs = nearby_logs(document.path, measured.options, measured.threads, kind)
    except UsageError as error:
        notes.append(f"The logs of job {measured.job.jobname} are ignored: {error.seen}.")
        return draft
    if not logs or measured.job.hostname:
        return draft
    release = measured.report.release
    if release and release < NANOSECONDS_SINCE:
        logs = {name: _in_ns(log) if name == kind else log for name, log in logs.items()}
    is_unified = "mixed" in draft.operations
    found = None if is_unified else timed(logs, draft.operations, draft.duration_s)
    if found is None:
        notes.append(
            f"The logs of job {measured.job.jobname} do not match its request count, or contain "
            "only mean latencies: they are ignored."
        )
        return draft
    notes += [found.note] if found.note else []
    operations = {
        name: msgspec.structs.replace(result, response=found.histograms[name].encode())
        if name in found.histograms and result.response == NO_LATENCIES
        else result
        for name, result in draft.operations.items()
    }
    parts = {"timeline": found.timeline}
    return msgspec.structs.replace(draft, operations=operations, parts=parts)


def _in_ns(logs: Sequence[Log]) -> list[Log]:
    """Convert latency logs from microseconds, as older versions of fio write them."""
    return [
        {
            direction: [
                msgspec.structs.replace(entry, value=entry.value * NS_PER_US) for entry in lines
            ]
            for direction, lines in log.items()
        }
        for log in logs
    ]


def _operations(
    measured: JobResult, own: ExportedCell | None, notes: list[str]
) -> dict[str, OperationResult]:
    """Return the results of reads, writes and syncs; for a commit those of the write."""
    job, access = measured.job, measured.access
    is_commit = own is not None and own.operation == "commit"
    results = {}
    if access.operation == "mixed" and "mixed" in job.directions("mixed"):
        notes.append(
            "fio combined reads and writes (unified_rw_reporting): they are one operation here."
        )
    for name, direction in job.directions(access.operation).items():
        latency = selected_latency(direction)
        if latency.name == "clat_ns" and not is_commit:
            notes.append(
                "Percentiles are fio's clat, measured from submission (with lat_percentiles=1 "
                "fio measures from the creation of a request, as Seatrial does)."
            )
        completed = answered_requests(job, direction, measured.report.release)
        failed = min(job.failed, direction.total_ios - completed)
        results[name] = result_of(completed, direction.io_bytes, latency.latency, failed)
    if access.arrival["kind"] != "closed" or {"rate", "rate_iops"} & access.factors.keys():
        notes.append(
            "fio measures latency from the actual start of a request: with a rate limit, the "
            "queueing time before it is not included."
        )
    if is_commit:
        # A write of our own export includes its flush.
        is_whole = access.dsync or measured.report.version.startswith("seatrial-")
        return {"commit": results["write"] if is_whole else _commit(results["write"], notes)}
    # fio 3.33 does not add up the number of syncs when it combines threads.
    if syncs := max(job.sync.total_ios, job.sync.lat_ns.count):
        results["sync"] = result_of(syncs, 0, job.sync.lat_ns)
    return results


def _commit(written: OperationResult, notes: list[str]) -> OperationResult:
    """Return commits from writes that fio measured apart from their flush: without latency."""
    notes.append(
        "fio measures a write and its fdatasync separately: the time of a commit is not available."
    )
    return msgspec.structs.replace(written, response=NO_LATENCIES, reported_ns={})


def _target(options: Mapping[str, str]) -> str:
    """Return the target's label: the file, device or directory without its folder."""
    path = options.get("filename") or options.get("directory") or ""
    names = [PurePosixPath(part).name or part for part in path.split(":") if part]
    return ":".join(names) or "fio"


def _spec(options: Mapping[str, str], access: Access) -> SpecDocument:
    """Return the engine's specification (docs/engine.md), as far as the options determine it."""
    if not options:
        return {"target": {}}
    target: dict[str, FactorValue] = {
        "path": options.get("filename") or options.get("directory") or "",
        "direct": access.direct,
        "dsync": access.dsync,
    }
    spec: SpecDocument = {
        "target": target,
        "threads": access.threads,
        "depth": access.depth,
        "engine": engine_name(options),
        "arrival": {"kind": "think"} if _is_limited(access) else access.arrival,
        "sync_every": access.sync_every,
        "sync_kind": access.sync_kind,
        "fio_options": dict(options),
    }
    kb_base = options.get("kb_base", "1024")
    try:
        start_bytes = size_bytes(options.get("offset", "0"), kb_base)
        each_bytes = size_bytes(options["size"], kb_base)
        # Without a name, each thread has its own file.
        step_bytes = (
            size_bytes(options.get("offset_increment", "0"), kb_base)
            if "filename" in options
            else each_bytes
        )
    except (KeyError, ValueError):  # a device without a size, or shares of it in percent
        return spec
    range_bytes = each_bytes + step_bytes * (access.threads - 1)
    target["size_bytes"] = start_bytes + range_bytes
    spec["range"] = {"start_bytes": start_bytes, "length_bytes": range_bytes}
    return spec


def _is_limited(access: Access) -> bool:
    """Return whether a job without a schedule was slower than its target could be."""
    return access.arrival["kind"] == "closed" and any(name in access.factors for name in LIMITS)


def _counters(job: Job) -> dict[str, float]:
    """Return CPU time as in our samples, and the means of fio's three latencies."""
    counters = {"context_switches": float(job.ctx)}
    if job.job_runtime_ms:  # printed since fio 3.10
        counters["cpu_user_ns"] = job.usr_cpu / 100 * job.job_runtime_ms * NS_PER_MS
        counters["cpu_system_ns"] = job.sys_cpu / 100 * job.job_runtime_ms * NS_PER_MS
    for direction in ("read", "write", "mixed"):
        for name, mean_ns in selected_latency(getattr(job, direction)).mean_ns_by_name.items():
            counters[f"{direction}_{name.removesuffix('_ns')}_mean_ns"] = mean_ns
    return counters


def _distinguished(jobs: Sequence[JobResult], drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts with the job's name as a factor where nothing else distinguishes cells.

    Equal jobs are rounds of one cell, unless they ran at the same time or their names differ in
    more than a number at the end. Without options, such a number may be that of the depth.
    """
    by_key: dict[str, list[int]] = {}
    for index, draft in enumerate(drafts):
        by_key.setdefault(draft.key or f"{draft.target}/{key_of(draft)}", []).append(index)
    apart = list(drafts)
    for indexes in by_key.values():
        names = {
            _NUMBERED.sub("", jobs[index].job.jobname)
            if jobs[index].options
            else jobs[index].job.jobname
            for index in indexes
        }
        groups = {(id(jobs[index].report), jobs[index].job.groupid) for index in indexes}
        if len(names) > 1 or len(groups) < len(indexes):
            for index in indexes:
                factors = drafts[index].factors | {"job": jobs[index].job.jobname}
                apart[index] = msgspec.structs.replace(drafts[index], factors=factors, key="")
    return apart


def _with_disks(found: Sequence[Report], drafts: Sequence[Draft], notes: list[str]) -> list[Draft]:
    """Return the drafts with the device's counters, if they can only belong to one."""
    disks = [disk for report in found for disk in report.disk_util]
    if not disks:
        return list(drafts)
    names = ", ".join(dict.fromkeys(disk.name for disk in disks))
    notes.append(f"Underlying devices reported by fio: {names}.")
    if len(drafts) != 1 or len(disks) != 1:
        return list(drafts)
    counters = drafts[0].counters | _disk_counters(disks[0])
    return [msgspec.structs.replace(drafts[0], counters=counters)]


def _disk_counters(disk: Disk) -> dict[str, float]:
    counters = {
        "device_read_requests": float(disk.read_ios),
        "device_write_requests": float(disk.write_ios),
        "device_busy_share": disk.util / 100,
    }
    if disk.read_sectors is not None and disk.write_sectors is not None:
        counters["device_read_bytes"] = float(disk.read_sectors * SECTOR_BYTES)
        counters["device_write_bytes"] = float(disk.write_sectors * SECTOR_BYTES)
    return counters
