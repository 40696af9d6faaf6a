"""The jobs of a JSON document of fio, with the threads of each combined.

fio measures ``slat`` up to the submission, ``clat`` from there to the completion, and ``lat`` over
both. Our response time is ``lat``; fio has bins of it only with ``lat_percentiles=1``, so ``clat``
is used otherwise. A bin is represented by the middle of its bucket, 1.6 % wide (FIO_IO_U_PLAT_BITS
6), and so are percentiles; smallest, largest and mean are exact, and stored so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from seatrial._core import Histogram
from seatrial.grouping import grouped
from seatrial.importers.document import NO_LATENCIES
from seatrial.importers.fio.document import (
    ALL_CLIENTS,
    Direction,
    Job,
    Latency,
    Report,
    own_options,
)
from seatrial.importers.fio.options import Access, access_of, is_set, plain_name
from seatrial.results.model import OperationResult

COUNT_MAX: Final = 2**62
"""A histogram with more requests than this is damaged."""


class SelectedLatency(msgspec.Struct, frozen=True):
    """The selected latency.

    Attributes:
        name: ``lat_ns`` or ``clat_ns``; empty where fio measured none.
        latency: The latency.
        mean_ns_by_name: Means of all three, by name, where measured.
    """

    name: str
    latency: Latency
    mean_ns_by_name: dict[str, float]


def selected_latency(direction: Direction) -> SelectedLatency:
    """Return the most detailed latency of a direction: bins, else percentiles, else a mean."""
    known = {
        name: latency
        for name in ("lat_ns", "clat_ns")
        if (latency := getattr(direction, name)).count
    }
    means = {
        name: getattr(direction, name).mean
        for name in ("slat_ns", "clat_ns", "lat_ns")
        if getattr(direction, name).count
    }
    for part in ("bins", "percentile", "count"):
        for name, latency in known.items():
            if getattr(latency, part):
                return SelectedLatency(name, latency, means)
    return SelectedLatency("", Latency(), means)


def merged(latencies: Sequence[Latency]) -> Latency:
    """Return the combined latency of several threads; percentiles only from bins."""
    known = [latency for latency in latencies if latency.count]
    if len(known) == 1:
        return known[0]
    count = sum(latency.count for latency in known)
    bins: Counter[str] = Counter()
    for latency in known:
        bins.update(latency.bins)
    return Latency(
        min=min((latency.min for latency in known), default=0.0),
        max=max((latency.max for latency in known), default=0.0),
        mean=sum(part.mean * part.count for part in known) / count if count else 0.0,
        count=count,
        bins=dict(bins) if all(latency.bins for latency in known) else {},
    )


def merged_directions(directions: Sequence[Direction]) -> Direction:
    """Return the combined direction of several threads that ran at the same time."""
    return Direction(
        io_bytes=sum(part.io_bytes for part in directions),
        counted_ios=None
        if all(part.counted_ios is None for part in directions)
        else sum(part.total_ios for part in directions),
        runtime_ms=max(part.runtime_ms for part in directions),
        slat_ns=merged([part.slat_ns for part in directions]),
        clat_ns=merged([part.clat_ns for part in directions]),
        lat_ns=merged([part.lat_ns for part in directions]),
    )


LATENCIES_COUNTED_SINCE: Final = (3, 18)
"""The first fio that prints the number of requests of a latency."""


def answered_requests(job: Job, direction: Direction, release: tuple[int, ...]) -> int:
    """Return how many of a direction's requests succeeded: fio counts those that failed as well.

    It leaves them out of bytes and latencies: the number of a latency shows them, where printed.

    Args:
        job: The job.
        direction: Its reads, writes or both.
        release: Version of fio.
    """
    requests = direction.total_ios
    if not job.failed or not requests:
        return requests
    if not direction.io_bytes:
        return 0
    answered = max(direction.lat_ns.count, direction.clat_ns.count)
    if answered and (not release or release >= LATENCIES_COUNTED_SINCE):
        return min(answered, requests)
    return max(0, round(requests * (1 - job.failed / job.requests)))


def result_of(
    completed: int, moved_bytes: int, latency: Latency, failed: int = 0
) -> OperationResult:
    """Return the result of one kind of request.

    Args:
        completed: Requests.
        moved_bytes: Bytes transferred.
        latency: fio's latency.
        failed: Further requests, which failed.
    """
    histogram = histogram_of(latency)
    return OperationResult(
        completed=completed,
        failed=failed,
        transferred_bytes=moved_bytes,
        response=histogram.encode() if histogram else NO_LATENCIES,
        reported_ns=_reported_ns(latency),
    )


def histogram_of(latency: Latency) -> Histogram | None:
    """Return fio's bins as a histogram with fio's exact extremes; None without bins."""
    low_ns, high_ns = round(latency.min), round(latency.max)
    counts: Counter[int] = Counter()
    for middle, count in latency.bins.items():
        # The middle of the outermost buckets may be beyond the extremes.
        counts[min(max(int(middle), low_ns), max(low_ns, high_ns))] += count
    known = sorted(value_ns for value_ns, count in counts.items() if count)
    if not known or counts.total() > COUNT_MAX:
        return None
    _make_exact(counts, known[-1], high_ns)
    if counts.total() > 1:
        _make_exact(counts, known[0], low_ns)
    values_ns = sorted(counts)
    return Histogram.from_counts(values_ns, [counts[value_ns] for value_ns in values_ns])


def _make_exact(counts: Counter[int], middle_ns: int, exact_ns: int) -> None:
    """Move one request of an outermost bin to its exact value."""
    counts[middle_ns] -= 1
    counts[exact_ns] += 1


def _reported_ns(latency: Latency) -> dict[str, float]:
    """Return mean, extremes and fio's percentiles by name."""
    if not latency.count:
        return {}
    figures = {"mean": latency.mean, "min": latency.min, "max": latency.max}
    if not latency.bins:
        figures |= {f"p{float(percent):g}": ns for percent, ns in latency.percentile.items()}
    return figures


NAMED_MAX: Final = 4
COUNTED_SINCE: Final = (2, 1, 14)
"""The first fio that prints the number of requests."""
NO_OPTIONS: Final = (
    "fio printed no job options: operation and block size are derived from its figures; "
    "pattern, depth, page cache and target are unknown, and threads without results are "
    "missing."
)
UNCOUNTED: Final = (
    "fio before 2.1.14 prints no number of requests: it is derived from the bytes if the block "
    "size is a power of two, otherwise from IOPS without decimals."
)


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """All threads of one job together.

    Attributes:
        job: The job.
        options: Its options, including the global ones, under their usual names.
        access: Its access.
        threads: fio's numbers of its threads, from 1, as in the names of its logs.
        report: Its document.
    """

    job: Job
    options: Mapping[str, str]
    access: Access
    threads: range
    report: Report


def measured_jobs(report: Report, notes: list[str]) -> Iterator[JobResult]:
    """Yield the jobs of a document; what is ambiguous or cannot be imported is noted."""
    entries = [job for job in report.entries if job.jobname != ALL_CLIENTS]
    found: list[JobResult] = []
    next_thread = 1
    if report.release and report.release < COUNTED_SINCE:
        notes.append(UNCOUNTED)
    for (hostname, _), group in grouped(entries, lambda job: (job.hostname, job.groupid)).items():
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
    """Return whether fio printed a job's request counts; note a job without."""
    job, operation = measured.job, measured.access.operation
    if not operation or job.error or job.directions(operation):
        return True
    notes.append(f"The file has no request count for job {job.jobname}, which is skipped.")
    return False


def _together(
    report: Report, same: Sequence[Job], first_thread: int, notes: list[str]
) -> Iterator[JobResult]:
    """Yield jobs of one name and group: combined if their options are equal, else separately.

    Jobs that ran at the same time are threads of one job, never its rounds.
    """
    options, access = _options_and_access(report, same[0], notes)
    if len(same) > 1 and all(job.options == same[0].options for job in same):
        if any(_has_latency(job) and not _has_bins(job) for job in same):
            notes.append(
                f"fio reported the {len(same)} threads of {same[0].jobname} separately and "
                "without histogram bins: their percentiles cannot be merged (use "
                "--group_reporting or JSON+)."
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
        options, access = _options_and_access(report, job, notes)
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


def _options_and_access(
    report: Report, job: Job, notes: list[str]
) -> tuple[dict[str, str], Access]:
    """Return a job's options and access; without options, inferred from its figures."""
    options = {plain_name(name): text for name, text in own_options(report, job).items()}
    if options and not _lacks_own_options(job, options):
        return options, _with_all_directions(job, access_of(options), notes)
    if options:
        notes.append(
            f"fio printed no options of job {job.jobname} on {job.hostname}: operation, block size "
            "and threads are derived from its figures; pattern and depth are unknown."
        )
        known = access_of(options)
        access = msgspec.structs.replace(
            _access_of_figures(job), threads=max(1, round(_threads(job))), direct=known.direct
        )
        return options, access
    if NO_OPTIONS not in notes:
        notes.append(NO_OPTIONS)
    return options, _access_of_figures(job)


def _lacks_own_options(job: Job, options: Mapping[str, str]) -> bool:
    """Return whether fio, as a client, lost the options of a job of several threads.

    Without any ``rw``, a job reads.
    """
    is_read = not (job.write.total_ios or job.mixed.total_ios)
    return bool(job.hostname) and not job.options and "rw" not in options and not is_read


def _access_of_figures(job: Job) -> Access:
    """Return the access inferred from a job's figures, without threads and depth."""
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
    """Return the size of a request if all may have the same; else 0."""
    size_bytes, rest = divmod(part.io_bytes, part.total_ios)
    return 0 if rest else size_bytes


def _with_all_directions(job: Job, access: Access, notes: list[str]) -> Access:
    """Return a job's access as mixed if its group did more than its options say."""
    other = {"read": job.write, "write": job.read}.get(access.operation)
    if other is None or not other.total_ios:
        return access
    notes.append(
        f"Job {job.jobname} has reads and writes, but its options specify {access.operation}s "
        "only: fio merged several jobs (group_reporting)."
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
    threads = _threads(job)
    if threads > access.threads + 0.5:
        notes.append(
            f"Job {job.jobname} is a group of about {threads:.0f} threads, but its options "
            f"specify {access.threads}: fio merged several jobs (group_reporting)."
        )


def _threads(job: Job) -> float:
    """Return how many threads an entry stands for, by their run time; 0 if unknown."""
    longest_ms = max(part.runtime_ms for part in _parts(job))
    return job.job_runtime_ms / longest_ms if longest_ms else 0.0


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
    """Yield the combined result of several servers for each job that all of them had.

    fio's own sum is not used: it adds up jobs that ran one after another.
    """
    hosts = {each.job.hostname for each in found}
    if len(hosts) < 2:
        return
    for name in dict.fromkeys(each.job.jobname for each in found):
        same = [each for each in found if each.job.jobname == name]
        if (
            sorted(each.job.hostname for each in same) != sorted(hosts)
            or len({_without_threads(each.access) for each in same}) > 1
        ):
            notes.append(f"Job {name} differs between servers, so it has no total.")
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


def _without_threads(access: Access) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(access, threads=1))
