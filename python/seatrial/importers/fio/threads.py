"""The jobs of a JSON document of fio, the threads of each put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from seatrial.importers.fio.document import (
    ALL_CLIENTS,
    Direction,
    Job,
    Report,
    by_group,
    own_options,
)
from seatrial.importers.fio.latency import merged, merged_directions
from seatrial.importers.fio.options import Access, access_of, is_set, plain_name

NAMED_MAX: Final = 4
COUNTED_SINCE: Final = (2, 1, 14)
"""The first fio that prints the number of requests."""
NO_OPTIONS: Final = (
    "fio printed no options of a job: operation and block size follow from its figures; pattern, "
    "depth, page cache and target are not known, nor are threads that it does not list."
)
UNCOUNTED: Final = (
    "fio before 2.1.14 prints no number of requests: it follows from the bytes where the block "
    "size is a power of two, else from IOPS without decimals."
)


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
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


def measured_jobs(report: Report, notes: list[str]) -> Iterator[JobResult]:
    """Yield the jobs of a document; what cannot be told apart or taken over is noted."""
    entries = [job for job in report.entries if job.jobname != ALL_CLIENTS]
    found: list[JobResult] = []
    next_thread = 1
    if report.release and report.release < COUNTED_SINCE:
        notes.append(UNCOUNTED)
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
    found = [each for each in found if _has_figures(each, notes)]
    yield from found
    yield from _all_clients(report, found, notes)


def _has_figures(measured: JobResult, notes: list[str]) -> bool:
    """Tell whether fio printed what became of a job's requests; note a job without."""
    job, operation = measured.job, measured.access.operation
    if not operation or job.error or job.directions(operation):
        return True
    notes.append(f"The file has no count of requests of job {job.jobname}, which is left out.")
    return False


def _together(
    report: Report, same: Sequence[Job], first_thread: int, notes: list[str]
) -> Iterator[JobResult]:
    """Yield jobs of one name and group: one of those with equal options, else each.

    Jobs that ran at the same time are threads of one job, and never its rounds.
    """
    options, access = _what_it_did(report, same[0], notes)
    if len(same) > 1 and all(job.options == same[0].options for job in same):
        if any(_has_latency(job) and not _has_bins(job) for job in same):
            notes.append(
                f"fio told the {len(same)} threads of {same[0].jobname} apart and without bins: "
                "their percentiles cannot be put together (use --group_reporting or JSON+)."
            )
        each = access.threads if is_set(options, "group_reporting") else 1
        threads = max(access.threads, len(same) * each)
        yield JobResult(
            job=_merged_job(same),
            options=options,
            access=msgspec.structs.replace(access, threads=threads),
            threads=range(first_thread, first_thread + threads),
            report=report,
        )
        return
    for job in same:
        options, access = _what_it_did(report, job, notes)
        _note_other_threads(job, access, notes)
        threads = access.threads
        yield JobResult(
            job=job,
            options=options,
            access=access,
            threads=range(first_thread, first_thread + threads),
            report=report,
        )
        first_thread += threads


def _what_it_did(report: Report, job: Job, notes: list[str]) -> tuple[dict[str, str], Access]:
    """Return a job's options and what it did; without options, what its figures give away."""
    options = {plain_name(name): text for name, text in own_options(report, job).items()}
    if options:
        return options, _with_all_directions(job, access_of(options), notes)
    if NO_OPTIONS not in notes:
        notes.append(NO_OPTIONS)
    return options, _access_of_figures(job)


def _access_of_figures(job: Job) -> Access:
    """Return what the figures of a job say; of threads and depth they say nothing."""
    parts = {name: getattr(job, name) for name in ("read", "write", "mixed")}
    done = {name: part for name, part in parts.items() if part.total_ios}
    operation = next(iter(done)) if len(done) == 1 else "mixed" if done else "read"
    sizes = {_block_bytes(part) for part in done.values()}
    return Access(
        operation=operation,
        block_size_bytes=sizes.pop() if len(sizes) == 1 else 0,
        threads=1,
        depth=1,
        direct=False,
        dsync=False,
        factors={"pattern": "unknown"},
        arrival={"kind": "closed"},
        sync_every=0,
        sync_kind="fsync",
    )


def _block_bytes(part: Direction) -> int:
    """Return the size of a request where all can have been of it; else 0."""
    size_bytes, rest = divmod(part.io_bytes, part.total_ios)
    return 0 if rest else size_bytes


def _with_all_directions(job: Job, access: Access, notes: list[str]) -> Access:
    """Return a job's access as mixed where it is a group that did more than its options say."""
    other = {"read": job.write, "write": job.read}.get(access.operation)
    if other is None or not other.total_ios:
        return access
    notes.append(
        f"Job {job.jobname} has reads and writes, while its options speak of {access.operation}s "
        "only: fio printed several jobs as one (group_reporting)."
    )
    requests = job.read.total_ios + job.write.total_ios
    factors = access.factors | {"read_share": round(job.read.total_ios / requests, 2)}
    return msgspec.structs.replace(access, operation="mixed", factors=factors)


def _has_latency(job: Job) -> bool:
    return any(part.clat_ns.count or part.lat_ns.count for part in _parts(job))


def _has_bins(job: Job) -> bool:
    return any(part.clat_ns.bins or part.lat_ns.bins for part in _parts(job))


def _parts(job: Job) -> tuple[Direction, ...]:
    return job.read, job.write, job.mixed


def _note_other_threads(job: Job, access: Access, notes: list[str]) -> None:
    """Note a group of jobs that fio printed as one, under the name of its first."""
    longest_ms = max(part.runtime_ms for part in _parts(job))
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
        mixed=merged_directions([job.mixed for job in jobs]),
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


def _all_clients(
    report: Report, found: Sequence[JobResult], notes: list[str]
) -> Iterator[JobResult]:
    """Yield what several servers did together in each job that all of them had.

    fio's own sum is not taken: it adds up jobs that ran one after another.
    """
    hosts = {each.job.hostname for each in found}
    if len(hosts) < 2:
        return
    for name in dict.fromkeys(each.job.jobname for each in found):
        same = [each for each in found if each.job.jobname == name]
        if (
            sorted(each.job.hostname for each in same) != sorted(hosts)
            or len({_apart_from_threads(each.access) for each in same}) > 1
        ):
            notes.append(f"Not all servers had the same job {name}: it has no sum over them.")
            continue
        options = [set(each.options.items()) for each in same]
        yield JobResult(
            job=msgspec.structs.replace(
                _merged_job([each.job for each in same]), hostname=ALL_CLIENTS
            ),
            options=dict(sorted(set.intersection(*options))),
            access=msgspec.structs.replace(
                same[0].access, threads=sum(each.access.threads for each in same)
            ),
            threads=range(0),
            report=report,
        )


def _apart_from_threads(access: Access) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(access, threads=1))
