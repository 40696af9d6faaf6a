"""fio's JSON and JSON+: jobs become cells, equal jobs become rounds.

A cell is what the options say (importers/fio/options.py): operation, block size, ``numjobs``,
``iodepth``, pattern; options that differ between the jobs of the file and are none of these become
factors under fio's name. The threads of one job that fio lists apart are put together. Mixed jobs
keep reads and writes apart within one sample, and syncs are operations of their own, counted
among the requests as in a run of ours.

A job that ``export --format fio-job`` wrote comes back as the cell that it was written from
(importers/fio/keys.py).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from seatrial.errors import UsageError
from seatrial.importers.building import NO_LATENCIES, Draft, factor_value, imported, key_of
from seatrial.importers.document import Document
from seatrial.importers.fio.document import Disk, Job, Report, reports
from seatrial.importers.fio.keys import OwnCell, own_cell
from seatrial.importers.fio.latency import result_of, taken
from seatrial.importers.fio.logs import Log, logs_beside, timed
from seatrial.importers.fio.options import NOT_FACTORS, Access, engine_name, size_bytes
from seatrial.importers.fio.threads import JobResult, measured_jobs
from seatrial.importers.model import Imported
from seatrial.results.model import OperationResult
from seatrial.results.origin import Origin
from seatrial.study.cell import FactorValue

WORKLOAD: Final = "io"
NANOSECONDS_SINCE: Final = (2, 99)
"""The first fio whose logs of latencies are in nanoseconds; before, in microseconds."""
NS_PER_US: Final = 1000
NS_PER_MS: Final = 1_000_000
SECTOR_BYTES: Final = 512
DURATION_S_MIN: Final = 0.001
_NUMBERED: Final = re.compile(r"[-_. ]?\d+$")


def read(document: Document) -> Imported:
    """Return the run of a text with one or more JSON documents of fio.

    Raises:
        UsageError: A document is cut off, damaged, or has no job that reads or writes.
    """
    found = reports(document)
    notes: list[str] = []
    jobs = [each for report in found for each in measured_jobs(report, notes)]
    known = [each for each in jobs if each.access.operation]
    if len(known) < len(jobs):
        notes.append("Jobs that trim are left out: Seatrial has no such operation.")
    if not known:
        raise UsageError(
            seen=f"{document.path} has no figures of reads or writes",
            cause="Its jobs only trim, which Seatrial does not measure, or count no requests",
            next_step="Name a result of reads or writes, as fio printed it",
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
    """Return the one value that all have; None where they differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _has_histogram(draft: Draft) -> bool:
    return any(result.response != NO_LATENCIES for result in draft.operations.values())


def _varying(jobs: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the options that differ between jobs and say something of what was measured."""
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
    parts = job.directions(access.operation).values()
    runtime_ms = max((part.runtime_ms for part in parts), default=0)
    duration_s = runtime_ms / 1000 or job.job_runtime_ms / 1000 / access.threads
    if not duration_s and not job.error:
        notes.append(
            f"Job {job.jobname} lasted less than a millisecond by fio's clock: its rate is a floor."
        )
    errors_count = job.total_err or int(bool(job.error))
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
        spec=_spec(options, access),
        started_at=measured.report.started_at or None,
        duration_s=max(DURATION_S_MIN, duration_s),
        operations=operations,
        errors_count=errors_count,
        counters=_counters(job),
    )


def _with_logs(document: Document, measured: JobResult, draft: Draft, notes: list[str]) -> Draft:
    """Return a draft with the timeline of its logs, where they lie beside the JSON."""
    done = list(measured.job.directions(measured.access.operation).values())
    latency = taken(done[0]).name if done else ""
    kind = latency.removesuffix("_ns") or "lat"
    logs = logs_beside(document.path, measured.options, measured.threads, kind)
    if not logs or measured.job.hostname:
        return draft
    release = measured.report.release
    if release and release < NANOSECONDS_SINCE:
        logs = {name: _in_ns(log) if name == kind else log for name, log in logs.items()}
    is_unified = "mixed" in draft.operations
    found = None if is_unified else timed(logs, draft.operations, draft.duration_s)
    if found is None:
        notes.append(
            f"The logs of job {measured.job.jobname} do not add up to its requests, or hold means "
            "of latencies only: they are left out."
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
    """Return latency logs of a fio that wrote microseconds."""
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
    measured: JobResult, own: OwnCell | None, notes: list[str]
) -> dict[str, OperationResult]:
    """Return what became of reads, writes and syncs; of a commit the write stands for it."""
    job, access = measured.job, measured.access
    is_commit = own is not None and own.operation == "commit"
    results = {}
    if access.operation == "mixed" and "mixed" in job.directions("mixed"):
        notes.append(
            "fio printed reads and writes as one (unified_rw_reporting): they are of a kind here."
        )
    for name, direction in job.directions(access.operation).items():
        latency = taken(direction)
        if latency.name == "clat_ns" and not is_commit:
            notes.append(
                "Percentiles are fio's clat: they count from the submission (with "
                "lat_percentiles=1 fio counts from the creation of a request, as Seatrial does)."
            )
        results[name] = result_of(direction.total_ios, direction.io_bytes, latency.latency)
    if access.arrival["kind"] != "closed":
        notes.append(
            "fio counts latencies from the actual start of a request: under a rate they leave out "
            "how long it waited for its turn."
        )
    if is_commit:
        return {"commit": _commit(results["write"], access, notes)}
    # fio 3.33 forgets to add up the number of syncs where it puts threads together.
    if syncs := max(job.sync.total_ios, job.sync.lat_ns.count):
        results["sync"] = result_of(syncs, 0, job.sync.lat_ns)
        notes.append(
            "Syncs count among the requests, as in a run of Seatrial; fio leaves them out."
        )
    return results


def _commit(written: OperationResult, access: Access, notes: list[str]) -> OperationResult:
    """Return commits from writes; their latency only where the write itself is durable."""
    if access.dsync:
        return written
    notes.append("fio times a write and its fdatasync apart: the time of a commit is not reported.")
    return msgspec.structs.replace(written, response=NO_LATENCIES, reported_ns={})


def _target(options: Mapping[str, str]) -> str:
    """Return what cells call the target: the file, device or directory without its folder."""
    place = options.get("filename") or options.get("directory") or ""
    names = [PurePosixPath(part).name or part for part in place.split(":") if part]
    return ":".join(names) or "fio"


def _spec(options: Mapping[str, str], access: Access) -> dict[str, Any]:
    """Return what an engine would be told (docs/engine.md), as far as the options say it."""
    if not options:
        return {"target": {}}
    target: dict[str, Any] = {
        "path": options.get("filename") or options.get("directory") or "",
        "direct": access.direct,
        "dsync": access.dsync,
    }
    spec: dict[str, Any] = {
        "target": target,
        "threads": access.threads,
        "depth": access.depth,
        "engine": engine_name(options),
        "arrival": access.arrival,
        "sync_every": access.sync_every,
        "sync_kind": access.sync_kind,
        "fio_options": dict(options),
    }
    try:
        range_bytes = size_bytes(options["size"], options.get("kb_base", "1024"))
    except (KeyError, ValueError):  # a device without a size, or a share of it in percent
        return spec
    # Without a name for it, each thread has a file of its own.
    own_files = 1 if "filename" in options else access.threads
    target["size_bytes"] = range_bytes * own_files
    spec["range"] = {"start_bytes": 0, "length_bytes": range_bytes * own_files}
    return spec


def _counters(job: Job) -> dict[str, float]:
    """Return CPU time as an analysis knows it, and the means of fio's three latencies."""
    counters = {"context_switches": float(job.ctx)}
    if job.job_runtime_ms:  # printed since fio 3.10
        counters["cpu_user_ns"] = job.usr_cpu / 100 * job.job_runtime_ms * NS_PER_MS
        counters["cpu_system_ns"] = job.sys_cpu / 100 * job.job_runtime_ms * NS_PER_MS
    for direction in ("read", "write", "mixed"):
        for name, mean_ns in taken(getattr(job, direction)).mean_ns_by_name.items():
            counters[f"{direction}_{name.removesuffix('_ns')}_mean_ns"] = mean_ns
    return counters


def _distinguished(jobs: Sequence[JobResult], drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts with the job's name as a factor where nothing else tells cells apart.

    Equal jobs are rounds of one cell, unless they ran at the same time or bear names that differ
    in more than a number at their end.
    """
    by_key: dict[str, list[int]] = {}
    for place, draft in enumerate(drafts):
        by_key.setdefault(draft.key or f"{draft.target}/{key_of(draft)}", []).append(place)
    apart = list(drafts)
    for places in by_key.values():
        names = {_NUMBERED.sub("", jobs[place].job.jobname) for place in places}
        groups = {(id(jobs[place].report), jobs[place].job.groupid) for place in places}
        if len(names) > 1 or len(groups) < len(places):
            for place in places:
                factors = drafts[place].factors | {"job": jobs[place].job.jobname}
                apart[place] = msgspec.structs.replace(drafts[place], factors=factors, key="")
    return apart


def _with_disks(found: Sequence[Report], drafts: Sequence[Draft], notes: list[str]) -> list[Draft]:
    """Return the drafts with what the device counted, where it can only have been of one."""
    disks = [disk for report in found for disk in report.disk_util]
    if not disks:
        return list(drafts)
    names = ", ".join(dict.fromkeys(disk.name for disk in disks))
    notes.append(f"Devices beneath it, by fio: {names}.")
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
