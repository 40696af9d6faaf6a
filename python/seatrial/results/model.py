"""What a results file holds: runs, samples and their parts, as typed objects.

Nothing here interprets: rates and percentiles are computed when they are asked for, from the
full counts, and are never stored.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from seatrial import _core
from seatrial.processes import Owner
from seatrial.published import HIDDEN, Amount, Count, one_of
from seatrial.results.replay import STATEMENTS, ReplayRecord
from seatrial.results.start import StartRecord
from seatrial.study.cell import Cell

OPERATIONS = tuple(
    dict.fromkeys(
        [
            *("read", "write", "sync", "commit", "copy"),
            *("transaction", "ingest", "query", "batch"),  # of a database
            *STATEMENTS,
        ]
    )
)
"""Kinds of operation. Of a replay they are classes of statements: ``copy`` is a COPY there, and
``transaction`` a BEGIN, a COMMIT and the like."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of every request that a sample offered.

    ``offered = completed + failed + late_skipped + in_flight_at_end``, asserted by the engine at
    the end of every sample.

    Attributes:
        offered: Requests that were to be made.
        completed: Those that ended well.
        failed: Those that ended with an error.
        late_skipped: Those that were not sent, as they were too late.
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
        completed: Requests that ended well.
        failed: Requests that ended with an error.
        transferred_bytes: Bytes that the completed requests moved.
        response: Encoded histogram of response times (ns, from the intended start).
        service: Encoded histogram of service times (ns, from the actual start); None in a closed
            loop, where the two are the same.
        reported_ns: What a foreign result tells of its response times without a histogram, by name
            (``p50`` ... ``p99.9``, ``mean``, ``max``), in ns; empty for what was measured here.
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
    """A time in which requests were outstanding and none completed for longer than a threshold.

    Attributes:
        start_s: From the sample's start.
        length_s: Until the next completion, or the sample's end.
        cause: ``device``, ``filesystem``, ``cgroup_throttle``, ``cpu_quota``, ``generator`` or
            ``unknown``.
        operations: Requests outstanding at the end of the stall, by operation kind.
        depth: Their sum.
        evidence: What the watchdog saw, by name: shares in 0..1, counts, ns.
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
        """Whether the load generator itself was not running, so that the target is not at fault."""
        return self.cause in {"generator", "cpu_quota"}


class ErrorSample(msgspec.Struct, frozen=True, kw_only=True):
    """One failed request, kept as an example (at most 32 a sample).

    Attributes:
        operation: What was asked for.
        offset_bytes: Where in the target.
        length_bytes: How much was asked for.
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
    """One block that did not hold what was written to it.

    Attributes:
        kind: What it held instead.
        offset_bytes: Where in the target.
        detail: What was found, as a phrase.
    """

    kind: Annotated[str, one_of("flipped_bit", "torn_write", "stale", "misplaced", "foreign")]
    offset_bytes: Count
    detail: str


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """How many blocks were checked against what was written, and which were wrong.

    Attributes:
        checked_blocks: Blocks compared with what was written.
        corrupt_blocks: Blocks that differed.
        corruptions: Examples.
    """

    checked_blocks: Count
    corrupt_blocks: Count
    corruptions: list[Corruption] = []


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Readings at equal distances over a sample, of what surrounds it.

    Attributes:
        period_s: Entry ``i`` of each column covers ``[i, i + 1) * period_s`` from the start.
        columns: Equally long columns by name, unit last, such as ``cpu_user_share``,
            ``device_read_per_s`` or ``wal_bytes_per_s``; None where nothing could be read.
    """

    period_s: float
    columns: dict[str, list[float | None]]


class DatabaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is particular to a sample of a database.

    Attributes:
        server: As the server calls itself, such as ``PostgreSQL 15.20``.
        binaries: Where its programs are from: ``installed``, ``wheel``, ``given`` or ``remote``.
        settings: Every setting that is not the server's default, by name, as the server shows it.
        start_state: ``cold``, ``warm``, ``prewarmed`` or ``as_is``.
        cached_bytes: What the page cache held of the data files when the sample began; None if
            unknown.
        database_bytes: Size of its databases on disk when the sample began.
        loaded_s: How long loading them took, once for all samples; None where nothing was loaded.
        loaded_rows: Rows loaded.
        cloned: How the loaded data came to this sample: ``reflink``, ``copy``, ``template``,
            ``reuse``; empty where nothing was loaded, and a database taken as it was.
        cloned_s: How long that took.
        waits: How often active clients were seen in a wait, by ``class:event``; ``CPU`` for none.
        reported: The driver's own totals as it printed them: ``transactions``, ``tps``,
            ``latency_ms_mean``, ``latency_ms_stddev``, ``lag_ms_mean``, ``skipped``, ``failed``,
            with several processes followed by ``_1``, ``_2`` ...; after something was broken
            beside it ``invariant_holds``, 1 where the sums of pgbench's tables agree, else 0.
        client_cpu_share: What the driver used of one core, of that thread that used most if
            known, else of all over their number.
        ceiling_per_s: What the same driver reaches with a server that answers at once.
        batch_s: What a shell's ``time`` tells of a batch: ``real``, ``user``, ``sys``.
        start: What the database held before a replay; None where nobody looked.
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
    reported: dict[str, float] = msgspec.field(default_factory=dict, name="told")
    client_cpu_share: float | None = None
    ceiling_per_s: float | None = None
    batch_s: dict[str, float] = {}
    start: StartRecord | None = None
    notes: list[str] = []


ARRAY_EVENTS: Final = (
    *("failed", "bad_sectors", "rotten", "faltering", "dropping_writes", "replaced"),
    *("rebuild_started", "rebuild_ended", "scrub_started", "scrub_ended"),
    *("array_failed", "fault_failed"),
)
"""What may happen to an array."""
_FORMER_FAULT_FAILED: Final = "deed_failed"
"""What results files of before 2026-11-23 call ``fault_failed``."""


class ArrayEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to an array while a sample lasted, or soon after.

    Attributes:
        at_s: From the sample's start; beyond its end where it happened after.
        what: What it was.
        leg: Which leg, from 1; 0 for the whole.
        member: The drive, as the array's backend calls it; empty where none is meant.
        detail: What was found or said, as a phrase.
        missing: Drives of the leg that do not serve from then on, as its backend tells; None
            where it was not looked at.
    """

    at_s: float
    what: Annotated[str, one_of(*ARRAY_EVENTS, _FORMER_FAULT_FAILED)]
    leg: Count = 0
    member: str = ""
    detail: str = ""
    missing: int | None = None

    def __post_init__(self) -> None:
        """Give an event of an older results file its name of today."""
        if self.what == _FORMER_FAULT_FAILED:
            msgspec.structs.force_setattr(self, "what", "fault_failed")


class LayoutRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is particular to a sample on a layout.

    Attributes:
        layout: The variant as planned: one value for every key of ``[[layout]]``.
        device: The array's device, or the folder of a file system that is one itself.
        built_s: How long building it took, without the synchronisation.
        synced_s: How long its first synchronisation took, at most: its end may have come while the
            file system was made; 0 where there was none.
        usable_bytes: What the array, or the file system on it, holds.
        facts: What the backend tells of it, by name, such as ``metadata`` or ``bitmap``.
        misaligned: What is not aligned, as sentences; empty where all is.
        members: What each drive did during the sample, by path: ``reads``, ``writes``,
            ``flushes`` (requests), ``read_bytes``, ``write_bytes``, ``busy_ns``.
        roles: What each drive was, by path: ``leg 1``, ``spare of leg 1``, ``log``, ``cache``.
        events: What happened, in order of time.
        mismatch_blocks: What a scrub found not to agree, in blocks of 512 bytes; None without.
        unreadable_bytes: What could not be read when all data were checked in the end; None
            where they were not.
        checked_bytes: What was read and checked then.
        wrong_bytes: What of it held something else than was written, in blocks of 4 KiB; None
            where it was not checked.
        rebuild_limit_kib_per_s: The limit that was set for rebuilding; None for the kernel's.
        commands: What built it, as a shell would take it.
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
        cell: What was measured.
        round: The round, from 0.
        position: Place in the order in which the round was measured, from 0.
        started_at: Unix time in seconds.
        duration_s: Measured wall time of the sample.
        status: ``complete`` or ``interrupted``.
        engine: ``io_uring``, ``psync``, ``simulated``, ``null``; ``pgbench``, ``script`` or
            ``replay`` on a database; ``imported`` for a foreign result.
        engine_reason: Why that engine, as a phrase.
        outcome: The accounting equation's terms.
        operations: Results by operation kind, of those kinds that were offered.
        timeline: Completions by time.
        stalls: In order of time.
        stalls_dropped: Stalls beyond the bound of what a sample keeps.
        oldest_in_flight_ns: Age of the oldest request that had not ended; 0 if none.
        errors_count: All failed requests.
        errors: Examples of them.
        counters: Other readings by name, unit last: ``cpu_user_ns``, ``cpu_system_ns``,
            ``kernel_workers_max``, ``watchdog_lateness_ns_max``, ``null_limit_per_s``,
            ``steal_ns``, ``cpu_quota_ns`` (for how long a quota of processor time stopped threads,
            summed over processors), ``device_read_bytes``, ``device_write_bytes``,
            ``temperature_c`` and, for those that the kernel counts, the time in which they grew:
            ``surroundings_ns``.
        verification: Where data were checked.
        series: Readings of machine, device and server, of a database's samples; and of an array
            that something is done to: ``rebuild_share`` (0 to 1), ``missing_members``.
        database: What is particular to a database's sample.
        layout: What is particular to a sample on an array that was built for the trial.
        replay: What is particular to a sample of a replay.
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

    @property
    def completed_per_s(self) -> float:
        """Completed requests of all kinds per second."""
        return self.outcome.completed / self.duration_s if self.duration_s > 0 else 0.0

    @property
    def transferred_bytes_per_s(self) -> float:
        """Bytes moved by completed requests of all kinds per second."""
        total = sum(part.transferred_bytes for part in self.operations.values())
        return total / self.duration_s if self.duration_s > 0 else 0.0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a command: its context and, in the results file, its samples.

    Attributes:
        id: Short and unique, such as ``20261121-074500-3fa2``.
        command: The command line, without secrets.
        label: What the user calls it; empty if unnamed.
        study_name: Name of the study.
        study: The study as written, checked and completed with defaults.
        plan_hash: Identifies the cells, so that a resume continues the same plan.
        seed: Of the order and of the addresses.
        status: ``running``, ``complete``, ``interrupted`` or ``failed``. A run read from a file is
            ``running`` only while its process is, and else ``interrupted``.
        started_at: Unix time in seconds.
        ended_at: Unix time in seconds; None while running or after a kill.
        fingerprint_before: Machine and target before the first sample.
        fingerprint_after: What changed or aged meanwhile: health, temperature, kernel messages.
        seatrial_version: Version that measured.
        process: What measures it while it is running, without the name of its host; else None.
    """

    id: str
    command: str
    label: str = ""
    study_name: str
    study: dict[str, Any]
    plan_hash: str
    seed: Count
    status: Annotated[str, one_of("running", "complete", "interrupted", "failed")]
    started_at: float
    ended_at: float | None = None
    fingerprint_before: dict[str, Any] = {}
    fingerprint_after: dict[str, Any] = {}
    seatrial_version: str
    process: Annotated[Owner | None, HIDDEN] = None
