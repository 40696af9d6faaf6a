"""The jobs of a JSON document of fio, the threads of each put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from seatrial.importers.fio_document import (
    ALL_CLIENTS,
    Job,
    Report,
    by_group,
    own_options,
)
from seatrial.importers.fio_latency import merged, merged_directions
from seatrial.importers.fio_options import BLOCK_BYTES, Access, access_of, plain_name

NAMED_MAX: Final = 4


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """All threads of one job together.

    Attributes:
        job: The job.
        options: Its options, the global ones among them, under their usual names.
        access: What it did.
        threads: The numbers that fio gave its threads, from 1, as its logs bear them.
        report: The document that it stands in.
    """

    job: Job
    options: Mapping[str, str]
    access: Access
    threads: range
    report: Report


def measured_jobs(report: Report, notes: list[str]) -> Iterator[Measured]:
    """Yield the jobs of a document; what cannot be told apart or taken over is noted."""
    entries = [job for job in report.entries if job.jobname != ALL_CLIENTS]
    found: list[Measured] = []
    next_thread = 1
    for (hostname, _), group in by_group(entries).items():
        names = list(dict.fromkeys(job.jobname for job in group))
        if len(names) > 1:
            listed = ", ".join(names[:NAMED_MAX]) + (", ..." if len(names) > NAMED_MAX else "")
            where = f" on {hostname}" if hostname else ""
            notes.append(f"Jobs {listed} ran at the same time{where} and shared the target.")
        for name in names:
            same = [job for job in group if job.jobname == name]
            for each in _together(report, same, next_thread, notes):
                next_thread = each.threads.stop
                found.append(each)
    yield from found
    yield from _all_clients(report, found, notes)


def _together(
    report: Report, same: Sequence[Job], first_thread: int, notes: list[str]
) -> Iterator[Measured]:
    """Yield jobs of one name and group: one where they are the threads of one, else each."""
    options = _options(report, same[0], notes)
    access = access_of(options)
    if len(same) == access.threads > 1:
        if any(_has_latency(job) and not _has_bins(job) for job in same):
            notes.append(
                f"fio told the {len(same)} threads of {same[0].jobname} apart and without bins: "
                "their percentiles cannot be put together (use --group_reporting or JSON+)."
            )
        yield Measured(
            job=_merged_job(same),
            options=options,
            access=access,
            threads=range(first_thread, first_thread + len(same)),
            report=report,
        )
        return
    for job in same:
        options = _options(report, job, notes)
        access = access_of(options)
        _note_other_threads(job, access, notes)
        threads = range(first_thread, first_thread + access.threads)
        first_thread = threads.stop
        yield Measured(job=job, options=options, access=access, threads=threads, report=report)


def _options(report: Report, job: Job, notes: list[str]) -> dict[str, str]:
    """Return a job's options; where fio printed none, what its figures give away."""
    options = {plain_name(name): text for name, text in own_options(report, job).items()}
    if options:
        return options
    note = f"fio printed no options of job {job.jobname}; what it did is inferred from its figures."
    if note not in notes:
        notes.append(note)
    reads, writes = job.read.total_ios, job.write.total_ios
    rw = "randrw" if reads and writes else "randwrite" if writes else "randread"
    requests, moved_bytes = reads + writes, job.read.io_bytes + job.write.io_bytes
    whole = requests and moved_bytes % requests == 0
    return {"rw": rw, "bs": str(moved_bytes // requests if whole else BLOCK_BYTES)}


def _has_latency(job: Job) -> bool:
    return any(part.clat_ns.count or part.lat_ns.count for part in (job.read, job.write))


def _has_bins(job: Job) -> bool:
    return any(part.clat_ns.bins or part.lat_ns.bins for part in (job.read, job.write))


def _note_other_threads(job: Job, access: Access, notes: list[str]) -> None:
    """Note a group of jobs that fio printed as one, under the name of its first."""
    longest_ms = max(job.read.runtime_ms, job.write.runtime_ms)
    if not longest_ms:
        return
    threads = job.job_runtime_ms / longest_ms
    if threads > access.threads + 0.5:
        notes.append(
            f"Job {job.jobname} is a group of about {threads:.0f} threads, while its options speak "
            f"of {access.threads}: fio printed several jobs as one (group_reporting)."
        )


def _merged_job(jobs: Sequence[Job]) -> Job:
    runtime_ms = sum(job.job_runtime_ms for job in jobs)

    def share(name: str) -> float:
        spent: float = sum(getattr(job, name) * job.job_runtime_ms for job in jobs)
        return spent / runtime_ms if runtime_ms else 0.0

    first = jobs[0]
    return msgspec.structs.replace(
        first,
        error=next((job.error for job in jobs if job.error), 0),
        total_err=sum(job.total_err for job in jobs),
        read=merged_directions([job.read for job in jobs]),
        write=merged_directions([job.write for job in jobs]),
        trim=merged_directions([job.trim for job in jobs]),
        sync=msgspec.structs.replace(
            first.sync,
            total_ios=sum(job.sync.total_ios for job in jobs),
            lat_ns=merged([job.sync.lat_ns for job in jobs]),
        ),
        job_runtime_ms=runtime_ms,
        usr_cpu=share("usr_cpu"),
        sys_cpu=share("sys_cpu"),
        ctx=sum(job.ctx for job in jobs),
    )


def _all_clients(report: Report, found: Sequence[Measured], notes: list[str]) -> Iterator[Measured]:
    """Yield what several machines did together, where each of them had one and the same job."""
    total = next((job for job in report.client_stats if job.jobname == ALL_CLIENTS), None)
    hosts = {each.job.hostname for each in found}
    if total is None or len(hosts) < 2:
        return
    if len(found) != len(hosts) or len({each.job.jobname for each in found}) > 1:
        notes.append("The sum over all clients mixes several jobs and is left out.")
        return
    threads = sum(each.access.threads for each in found)
    yield Measured(
        job=msgspec.structs.replace(total, hostname=ALL_CLIENTS),
        options=found[0].options,
        access=msgspec.structs.replace(found[0].access, threads=threads),
        threads=range(0),
        report=report,
    )
