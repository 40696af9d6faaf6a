"""The content of a results file: runs, samples and their parts, as typed objects.

Nothing here interprets: rates and percentiles are computed on demand from the full counts, and
never stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Annotated, Any, Final

import msgspec

from seatrial import _core
from seatrial.fingerprint import Fingerprint, FingerprintAfter
from seatrial.process_identity import OwnerProcess
from seatrial.published import AS_KEPT, HIDDEN, Amount, Count, one_of
from seatrial.results.cache import CacheRecord
from seatrial.results.fleet import FleetRecord
from seatrial.results.replay import STATEMENTS, ReplayRecord
from seatrial.study.cell import Cell
from seatrial.units import NS_PER_S


def merged_histogram(histograms: Iterable[_core.Histogram]) -> _core.Histogram:
    """Return one histogram with the entries of all, merged exactly; empty without any."""
    return reduce(_core.Histogram.merged, histograms, _core.Histogram.of([]))


class StartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a database at the beginning of a sample, as far as it was read.

    Attributes:
        lsn: WAL position of the server; empty where that may not be read.
        checkpoint_lsn: The last checkpoint of copied data files; empty for any other database,
            whose server continues to be written to by others.
        sequences: The next value of each, by schema and name; None for an exhausted one.
        rows: Rows of each table that was counted, by schema and name.
        contents: A fingerprint of the rows of each table that was read completely, independent of
            their order, by schema and name; empty where the database was migrated for the sample.
        rows_estimated: Estimated rows of each other table, by ``ANALYZE``; None where it never ran.
        unread: Sequences and tables that the user may not read.
        restored: How the database was provided: ``reflink``, ``copy``, ``template``, ``reuse``,
            ``restore`` (the user's command); empty where it was used as it was.
        lsn_unrestored: WAL position before the user's command; empty without one.
        source_rows_written: Rows inserted, updated or deleted in the source database of the copy,
            since its server counts; None for others.
        duration_s: How long reading this state took.
    """

    lsn: str = ""
    checkpoint_lsn: str = ""
    sequences: dict[str, int | None] = {}
    rows: dict[str, int] = {}
    contents: dict[str, str] = {}
    rows_estimated: dict[str, float | None] = {}
    unread: list[str] = []
    restored: str = ""
    lsn_unrestored: str = ""
    source_rows_written: int | None = None
    duration_s: float = 0.0


IMPORTED: Final = "imported"
"""The engine of samples that another tool measured."""
SYNC: Final = "sync"

OPERATIONS = tuple(
    dict.fromkeys(
        [
            *("read", "write", SYNC, "commit", "copy"),
            *("transaction", "ingest", "query", "batch"),  # of a database
            *STATEMENTS,
        ]
    )
)
"""Kinds of operation. In a replay they are classes of statements: ``copy`` is a COPY, and
``transaction`` a BEGIN, a COMMIT and the like."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The accounting of every request that a sample offered.

    ``offered = completed + failed + late_skipped + in_flight_at_end``, asserted by the engine at
    the end of every sample.

    Attributes:
        offered: Requests that were due.
        completed: Those that succeeded.
        failed: Those that ended with an error.
        late_skipped: Those that were not sent because they were too late.
        in_flight_at_end: Those that had not ended when the sample did.
    """

    offered: Count
    completed: Count
    failed: Count
    late_skipped: Count
    in_flight_at_end: Count


class OperationResult(msgspec.Struct, frozen=True, kw_only=True):
    """One operation kind of a sample.

    Attributes:
        completed: Requests that succeeded.
        failed: Requests that ended with an error.
        transferred_bytes: Bytes transferred by completed requests.
        response: Encoded histogram of response times (ns, from the intended start).
        service: Encoded histogram of service times (ns, from the actual start); None in a closed
            loop, where the two are the same.
        reported_ns: Response times of an imported result without a histogram, by name (``p50`` ...
                ``p99.9``, ``mean``, ``max``), in ns; empty for what was measured here.
    """

    completed: int
    failed: int
    transferred_bytes: int
    response: bytes
    service: bytes | None = None
    reported_ns: dict[str, float] = {}

    def response_histogram(self) -> _core.Histogram:
        """Return the response times (ns) as a histogram."""
        return _core.Histogram.decode(self.response)

    def service_histogram(self) -> _core.Histogram:
        """Return the service times (ns) as a histogram."""
        return _core.Histogram.decode(self.service or self.response)


class Slice(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One operation kind in one slice of the timeline; slices without completions are absent."""

    index: int
    operation: str
    completed: int
    transferred_bytes: int
    response: bytes


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Completions by time: slice ``i`` covers ``[i, i + 1) * slice_ns`` from the sample's start.

    ``slice_ns`` is 100 ms by default and doubles whenever a long sample would outgrow its memory.
    """

    slice_ns: int
    slices: list[Slice]


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """A time longer than a threshold with outstanding requests and no completion.

    Attributes:
        start_s: From the sample's start.
        length_s: Until the next completion, or the sample's end.
        cause: ``device``, ``filesystem``, ``cgroup_throttle``, ``cpu_quota``, ``generator`` or
            ``unknown``.
        operations: Requests outstanding at the end of the stall, by operation kind.
        depth: Their sum.
        evidence: Readings of the watchdog by name: shares in 0..1, counts, ns.
    """

    start_s: Amount
    length_s: Amount
    cause: Annotated[
        str,
        one_of("device", "filesystem", "cgroup_throttle", "cpu_quota", "generator", "unknown"),
    ]
    operations: dict[str, Count]
    depth: Count
    evidence: dict[str, Any] = {}

    @property
    def is_of_generator(self) -> bool:
        """Whether the load generator itself did not run, so that the target is not the cause."""
        return self.cause in {"generator", "cpu_quota"}

    @property
    def is_of_stopped_generator(self) -> bool:
        """Whether it did not run, and no wait for a CPU was seen: it was stopped or paused."""
        if self.cause != "generator" or not self.evidence:
            return False
        length_ns = self.length_s * NS_PER_S
        waited_ns = self.evidence.get("run_delay_ns", 0) + self.evidence.get("steal_ns", 0)
        waited_ns += self.evidence.get("cpu_steal_share_max", 0.0) * length_ns
        return bool(2 * waited_ns < length_ns)


class ErrorSample(msgspec.Struct, frozen=True, kw_only=True):
    """One failed request, kept as an example (at most 32 a sample).

    Attributes:
        operation: The operation.
        offset_bytes: Its offset in the target.
        length_bytes: Its length.
        errno: The system's number.
        name: The system's name, such as EIO.
        at_s: From the sample's start.
    """

    operation: str
    offset_bytes: Count
    length_bytes: Count
    errno: Count
    name: str
    at_s: Amount


class Corruption(msgspec.Struct, frozen=True, kw_only=True):
    """One block whose content is not what was written to it.

    Attributes:
        kind: Kind of the actual content.
        offset_bytes: Its offset in the target.
        detail: Details, as a phrase.
    """

    kind: Annotated[str, one_of("flipped_bit", "torn_write", "stale", "misplaced", "foreign")]
    offset_bytes: Count
    detail: str


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """How many blocks were compared with what was written, and which differed.

    Attributes:
        checked_blocks: Blocks compared with what was written.
        corrupt_blocks: Blocks that differed.
        corruptions: Examples.
    """

    checked_blocks: Count
    corrupt_blocks: Count
    corruptions: list[Corruption] = []


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Equidistant readings over a sample of machine, device and server.

    Attributes:
        period_s: Entry ``i`` of each column covers ``[i, i + 1) * period_s`` from the start.
        columns: Equally long columns by name, unit last, such as ``cpu_user_share``,
            ``device_read_per_s`` or ``wal_bytes_per_s``; None for a missing reading.
    """

    period_s: float
    columns: dict[str, list[float | None]]


class DatabaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Database-specific part of a sample.

    Attributes:
        server: The server's name and version, such as ``PostgreSQL 15.20``.
        binaries: Source of its programs: ``installed``, ``wheel``, ``given`` or ``remote``.
        settings: All settings other than the server's defaults, by name, as the server shows them.
        start_state: ``cold``, ``warm``, ``prewarmed`` or ``as_is``.
        cached_bytes: Bytes of the data files in the page cache when the sample began; None if
            unknown.
        database_bytes: Size of its databases on disk when the sample began.
        loaded_s: How long loading took, once for all samples; None where nothing was loaded.
        loaded_rows: Rows loaded.
        cloned: How the loaded data was provided to this sample: ``reflink``, ``copy``,
            ``template``, ``reuse``; empty where nothing was loaded, or the database was used as it
            was.
        cloned_s: How long that took.
        waits: How often active clients were observed in a wait, by ``class:event``; ``CPU`` for
            none.
        reported: The driver's own totals as it printed them: ``transactions``, ``tps``,
            ``latency_ms_mean``, ``latency_ms_stddev``, ``lag_ms_mean``, ``skipped``, ``failed``,
            with several processes followed by ``_1``, ``_2`` ...; after an injected fault
            ``invariant_holds``, 1 where the sums of pgbench's tables agree, else 0.
        client_cpu_share: Share of one core that the driver used: of its busiest thread if known,
            else of all divided by their number.
        ceiling_per_s: Rate of the same driver with a server that answers immediately.
        batch_s: The times by a shell's ``time`` for a batch: ``real``, ``user``, ``sys``.
        start: The content of the database before a replay; None where it was not read.
        locale: Locale of a database that was loaded from an archive or from SQL; empty for others.
        locale_captured: Locale of the database of the archive; empty if unknown.
        notes: What could not be read or done, as sentences.
    """

    server: str
    binaries: str
    settings: dict[str, str] = {}
    start_state: str
    cached_bytes: int | None = None
    database_bytes: int = 0
    loaded_s: float | None = None
    loaded_rows: int = 0
    cloned: str = ""
    cloned_s: float = 0.0
    waits: dict[str, int] = {}
    reported: dict[str, float] = {}
    client_cpu_share: float | None = None
    ceiling_per_s: float | None = None
    batch_s: dict[str, float] = {}
    start: StartRecord | None = None
    locale: str = ""
    locale_captured: str = ""
    notes: list[str] = []


ARRAY_EVENTS: Final = (
    *("failed", "bad_sectors", "rotten", "faltering", "dropping_writes", "replaced"),
    *("rebuild_started", "rebuild_ended", "scrub_started", "scrub_ended"),
    *("array_failed", "fault_failed"),
)
"""Events of an array."""
_FORMER_FAULT_FAILED: Final = "deed_failed"
"""Name of ``fault_failed`` in results files before 2026-11-23."""


class ArrayEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of an array during a sample, or soon after.

    Attributes:
        at_s: From the sample's start; after its end for later events.
        what: The kind of event.
        leg: Which leg, from 1; 0 for the whole array.
        member: The drive, by the backend's name; empty if none is concerned.
        detail: Details, as a phrase.
        missing: Failed or missing drives of the leg from then on, by its backend; None where
            unknown.
    """

    at_s: float
    what: Annotated[str, one_of(*ARRAY_EVENTS, _FORMER_FAULT_FAILED)]
    leg: Count = 0
    member: str = ""
    detail: str = ""
    missing: int | None = None

    def __post_init__(self) -> None:
        """Rename an event of an older results file."""
        if self.what == _FORMER_FAULT_FAILED:
            msgspec.structs.force_setattr(self, "what", "fault_failed")


class LayoutRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Layout-specific part of a sample.

    Attributes:
        layout: The variant as planned: one value for every key of ``[[layout]]``.
        device: The array's device, or the folder of a file system that is the array.
        built_s: How long building took, without the synchronisation.
        synced_s: Upper bound of the time of its first synchronisation, which may have ended while
            the file system was created; 0 without one.
        usable_bytes: Capacity of the array, or of the file system on it.
        facts: Facts reported by the backend, by name, such as ``metadata`` or ``bitmap``.
        misaligned: What is misaligned, as sentences; empty if nothing is.
        members: I/O of each drive during the sample, by path: ``reads``, ``writes``,
            ``flushes`` (requests), ``read_bytes``, ``write_bytes``, ``busy_ns``.
        roles: Role of each drive, by path: ``leg 1``, ``spare of leg 1``, ``log``, ``cache``.
        events: Events in order of time.
        mismatch_blocks: Mismatches found by a scrub, in blocks of 512 bytes; None without one.
        unreadable_bytes: Bytes that could not be read in the final check of all data; None without
            one.
        checked_bytes: Bytes read and checked then.
        wrong_bytes: Bytes of these that differ from what was written, in blocks of 4 KiB; None
            without a check.
        rebuild_limit_kib_per_s: The configured limit for rebuilding; None for the kernel's.
        commands: The shell commands that built it.
        notes: What could not be read or done, as sentences.
    """

    layout: dict[str, Any]
    device: str
    built_s: Amount
    synced_s: Amount = 0.0
    usable_bytes: Count = 0
    facts: dict[str, str] = {}
    misaligned: list[str] = []
    members: dict[str, dict[str, float]] = {}
    roles: dict[str, str] = {}
    events: list[ArrayEvent] = []
    mismatch_blocks: int | None = None
    unreadable_bytes: int | None = None
    checked_bytes: Count = 0
    wrong_bytes: int | None = None
    rebuild_limit_kib_per_s: int | None = None
    commands: list[str] = []
    notes: list[str] = []


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One cell measured once.

    Attributes:
        id: Set by the results file; 0 before it is stored.
        run_id: The run that it belongs to.
        cell: The measured cell.
        round: The round, from 0.
        position: Position in the order in which the round was measured, from 0.
        started_at: Unix time in seconds.
        duration_s: Measured wall time of the sample.
        status: ``complete`` or ``interrupted``.
        engine: ``io_uring``, ``psync``, ``simulated``, ``null``; ``pgbench``, ``script`` or
            ``replay`` on a database; ``imported`` for an imported result.
        engine_reason: Why that engine, as a phrase.
        outcome: The accounting equation's terms.
        operations: Results by operation kind, for the kinds that were offered.
        timeline: Completions by time.
        stalls: In order of time.
        stalls_dropped: Stalls beyond the limit of a sample.
        oldest_in_flight_ns: Age of the oldest request that had not ended; 0 if none.
        errors_count: Number of failed requests.
        errors: Examples of them.
        counters: Other readings by name, unit last: ``cpu_user_ns``, ``cpu_system_ns``,
            ``kernel_workers_max``, ``watchdog_lateness_ns_max``, ``null_limit_per_s``,
            ``steal_ns``, ``cpu_quota_ns`` (time for which a CPU quota stopped threads, summed over
            processors), ``device_read_bytes``, ``device_write_bytes``, ``temperature_c`` and
            ``counters_elapsed_ns``, the time in which the kernel's counters grew.
        verification: Set where data was checked.
        series: Readings of machine, device and server for samples of a database; for an array with
            injected faults ``rebuild_share`` (0 to 1) and ``missing_members``.
        database: Database-specific part.
        layout: Part specific to arrays that were built for the trial.
        replay: Replay-specific part.
        cache: Part specific to a real cache device.
        fleet: Part specific to several hosts that measured together.
    """

    id: int = 0
    run_id: str = ""
    cell: Cell
    round: int
    position: int
    started_at: float
    duration_s: float
    status: str = "complete"
    engine: str
    engine_reason: str = ""
    outcome: Outcome
    operations: dict[str, OperationResult]
    timeline: Timeline
    stalls: list[Stall] = []
    stalls_dropped: int = 0
    oldest_in_flight_ns: int = 0
    errors_count: int = 0
    errors: list[ErrorSample] = []
    counters: dict[str, float] = {}
    verification: Verification | None = None
    series: Series | None = None
    database: DatabaseRecord | None = None
    layout: LayoutRecord | None = None
    replay: ReplayRecord | None = None
    cache: CacheRecord | None = None
    fleet: FleetRecord | None = None

    @property
    def unrated_kind(self) -> str:
        """Kind of operation that no rate counts: syncs of ``sync_every``; empty without any."""
        return SYNC if self.cell.parsed.has_syncs else ""

    @property
    def completed_syncs(self) -> int:
        """Completed syncs of ``sync_every``: they are part of writes, not requests."""
        synced = self.operations.get(self.unrated_kind)
        return synced.completed if synced else 0

    @property
    def offered_requests(self) -> int:
        """Requests that were due, whatever became of them, without completed syncs."""
        return self.outcome.offered - self.completed_syncs

    @property
    def completed_per_s(self) -> float:
        """Completed requests per second, without the syncs of ``sync_every``."""
        completed = self.outcome.completed - self.completed_syncs
        return completed / self.duration_s if self.duration_s > 0 else 0.0

    @property
    def operations_per_s(self) -> float:
        """Completed requests and syncs per second: the work of the load generator."""
        return self.outcome.completed / self.duration_s if self.duration_s > 0 else 0.0

    @property
    def transferred_bytes_per_s(self) -> float:
        """Bytes transferred by completed requests of all kinds per second."""
        total = sum(part.transferred_bytes for part in self.operations.values())
        return total / self.duration_s if self.duration_s > 0 else 0.0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a command: its context and, in the results file, its samples.

    Attributes:
        id: Short and unique, such as ``20261121-074500-3fa2``.
        command: The command line, without secrets.
        label: The user's name for the run; empty if unnamed.
        note: The user's note; empty if none.
        study_name: Name of the study.
        study: The study as written, checked and completed with defaults.
        plan_hash: Identifies the cells, so that a resume continues the same plan.
        seed: Seed of the order and of the addresses.
        status: ``running``, ``complete``, ``interrupted`` or ``failed``. A run read from a file is
            ``running`` only while its process exists, and otherwise ``interrupted``.
        started_at: Unix time in seconds.
        ended_at: Unix time in seconds; None while running or after a kill.
        fingerprint_before: Machine and target before the first sample.
        fingerprint_after: What changed meanwhile: health, temperature, kernel messages.
        seatrial_version: Version that measured.
        process: The measuring process while the run is active, without the host name; else None.
        edited_at: Unix time in seconds of the last change of label or note; None if never.
    """

    id: str
    command: str
    label: str = ""
    note: str = ""
    study_name: str
    study: dict[str, Any]
    plan_hash: str
    seed: Count
    status: Annotated[str, one_of("running", "complete", "interrupted", "failed")]
    started_at: float
    ended_at: float | None = None
    fingerprint_before: Annotated[Fingerprint, AS_KEPT] = Fingerprint()
    fingerprint_after: Annotated[FingerprintAfter, AS_KEPT] = FingerprintAfter()
    seatrial_version: str
    process: Annotated[OwnerProcess | None, HIDDEN] = None
    edited_at: Annotated[float | None, HIDDEN] = None


REPORTED_MARK: Final = "†"
"""The source of a figure that another tool computed; a note of the run explains it."""
ASSUMED_DURATION: Final = "assumed_duration_s"
"""Counter of a sample whose duration is a placeholder because its source has none."""


class BlankCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that an imported table names without a figure.

    Attributes:
        workload: As of the neighbouring cells.
        operation: ``read`` or ``write``.
        block_size_bytes: Size of one request.
        threads: Concurrent workers.
        depth: Requests that each keeps in flight.
    """

    workload: str
    operation: str
    block_size_bytes: int
    threads: int
    depth: int = 1


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The source of an imported run; stored as ``run.study["imported"]``.

    Attributes:
        format: ``fio-json``, ``fio-json+``, ``fio-log``, ``bm-flash``, ``pgbench-log`` or
            ``csv``.
        file: Name of the file, without its folder.
        tool: The tool that wrote it, with its version if known.
        blank_cells: Cells that the source names without a figure.
        notes: What could not be imported, as sentences.
        file_bytes: Size of the tested file or range; None if unknown.
        is_dated: Whether the source contains the time of measurement; otherwise the times of run
            and samples are the file's last modification.
    """

    format: str
    file: str
    tool: str
    blank_cells: list[BlankCell] = []
    notes: list[str] = []
    file_bytes: int | None = None
    is_dated: bool = True


def origin_of(run: Run) -> Origin | None:
    """Return the source of an imported run; None for a run that was measured here."""
    imported: Any = run.study.get("imported")
    return None if imported is None else msgspec.convert(imported, Origin)


def known_duration_s(sample: Sample) -> float | None:
    """Return the duration of a sample; None for an imported rate without a time."""
    return None if ASSUMED_DURATION in sample.counters else sample.duration_s
