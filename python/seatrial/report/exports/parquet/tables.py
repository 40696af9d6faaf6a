"""The tables of ``seatrial export --format parquet``, each declared once.

A table is a structure, a column is one of its attributes. Its type in Python decides the type of
the column, and the text below ``Attributes`` is its documentation: docs/parquet.md is generated
from here (tools/generate/parquet.py). No type is nested and no integer unsigned, so that DuckDB,
Spark and PostgreSQL read all of them.
"""

from __future__ import annotations

import typing
from typing import Annotated, Final

import msgspec

MOMENT: Final = msgspec.Meta(extra={"column": "moment"})
"""Marks Unix time in seconds that becomes a timestamp with time zone, in microseconds."""
Moment = Annotated[float, MOMENT]


class Row(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row of a table."""


class RunRow(Row, frozen=True, kw_only=True):
    """One run: its context, the machine, and fingerprints as JSON.

    Attributes:
        run_id: Identifies the run in all tables and in all results files.
        label: The user's name for the run; empty if unnamed.
        note: The user's note; empty if none.
        command: The command line, without secrets.
        study_name: Name of the study.
        study_json: The study as measured, with defaults.
        plan_hash: Identifies the tests; equal for runs of one plan.
        seed: Seed of the order and the addresses, as text because it may exceed 63 bits.
        status: ``complete``, ``interrupted``, ``failed`` or ``running``.
        started_at: Start of the run.
        ended_at: End of the run; NULL while running or after a kill.
        seatrial_version: Version of Seatrial that measured the run.
        imported_format: Format of an imported result, such as ``fio-json``; NULL for a run that
            Seatrial measured.
        host: Make, processor and number of CPUs of the machine. This and the other facts of the
            machine are NULL if unknown. Host names are not stored.
        kernel: Version of the kernel.
        distribution: The operating system.
        cpu_model: The processor.
        cpus_online: Number of CPUs.
        memory_bytes: Size of the memory.
        virtualisation: The hypervisor, or ``none``.
        container: The kind of container, or ``none``.
        is_of_lab: Whether the run was measured in the lab's kernel: ratios and counts are valid,
            absolute speed is not.
        fingerprint_before_json: What was known about machine and targets before the run.
        fingerprint_after_json: What changed during the run.
    """

    run_id: str
    label: str
    note: str
    command: str
    study_name: str
    study_json: str
    plan_hash: str
    seed: str
    status: str
    started_at: Moment
    ended_at: Moment | None
    seatrial_version: str
    imported_format: str | None
    host: str | None
    kernel: str | None
    distribution: str | None
    cpu_model: str | None
    cpus_online: int | None
    memory_bytes: int | None
    virtualisation: str | None
    container: str | None
    is_of_lab: bool
    fingerprint_before_json: str
    fingerprint_after_json: str


class TargetRow(Row, frozen=True, kw_only=True):
    """One target of a run, and the file system and devices under it.

    Attributes:
        run_id: The run.
        target: Label of the target in the study.
        path: The path that was measured; NULL if the target has none.
        kind: ``file``, ``directory``, ``device``, or ``absent`` if it did not exist yet.
        filesystem: Type of the file system; NULL if the target is a device.
        mount_options: Its mount options, separated by commas.
        drive: Models of the physical devices, separated by commas; NULL if unknown.
        firmware: Their firmware.
        transport: How they are connected: ``pcie``, ``sata``, ``virtio`` ...
        scheduler: Their I/O schedulers.
        write_cache: Their write caches.
        physical_devices: Number of physical devices.
        physical_size_bytes: The sum of their sizes; NULL if one of them is unknown.
    """

    run_id: str
    target: str
    path: str | None
    kind: str | None
    filesystem: str | None
    mount_options: str | None
    drive: str | None
    firmware: str | None
    transport: str | None
    scheduler: str | None
    write_cache: str | None
    physical_devices: int
    physical_size_bytes: int | None


class SampleRow(Row, frozen=True, kw_only=True):
    """One sample: a test measured once, with its factors and outcomes.

    Attributes:
        run_id: The run.
        cell_key: Identifies the test within the run; stable between runs of one plan.
        round: The round, from 0. Run, test and round identify a sample in all tables.
        target: Label of the target in the study.
        workload: Name of the workload in the study.
        kind: Kind of the workload.
        operation: What the test does: ``read``, ``write``, ``mixed`` ...
        block_size_bytes: Size of one request; 0 if the workload has a distribution of sizes.
        threads: Concurrent workers; 0 if unknown.
        depth: Requests that each worker keeps in flight.
        factors_json: The workload's other factors by name, such as ``pattern``.
        position: Position in the order of its round, from 0.
        started_at: Start of the sample.
        duration_s: Measured wall-clock time; NULL for an imported rate without a duration.
        status: ``complete`` or ``interrupted``.
        engine: Engine that measured: ``io_uring``, ``psync``, ``pgbench``, ``imported`` ...
        engine_reason: Why that engine was used.
        offered: Requests that were due: the sum of the next four columns.
        completed: Requests that succeeded.
        failed: Requests that ended with an error.
        late_skipped: Requests that were not sent because they were too late.
        in_flight_at_end: Requests that had not ended when the sample did.
        completed_per_s: Completed requests per second over the whole sample, including its
            start-up phase, without the syncs of ``sync_every``; table ``figures`` has the rates
            that reports show.
        transferred_bytes: Bytes of completed requests.
        transferred_bytes_per_s: Bytes of completed requests per second, over the whole sample.
        oldest_in_flight_ns: Age of the oldest request that had not ended; 0 if none.
        stalls: Number of stalls, excluding those beyond the limit of a sample.
        stalls_dropped: Stalls beyond that limit.
        errors_count: Failed requests, of which table ``errors`` has examples.
        checked_blocks: Blocks compared with what was written; NULL if data was not checked.
        corrupt_blocks: Blocks that differed; NULL if data was not checked.
        database_json: Record of a sample of a database; NULL for other samples.
        layout_json: Record of a sample on an array that was built for it; NULL for other samples.
        replay_json: Record of a sample of a replay; NULL for other samples.
        cache_json: Record of a sample of a cache device; NULL for other samples.
        fleet_json: Record of a sample of several hosts; NULL for other samples.
    """

    run_id: str
    cell_key: str
    round: int
    target: str
    workload: str
    kind: str
    operation: str
    block_size_bytes: int
    threads: int
    depth: int
    factors_json: str
    position: int
    started_at: Moment
    duration_s: float | None
    status: str
    engine: str
    engine_reason: str
    offered: int
    completed: int
    failed: int
    late_skipped: int
    in_flight_at_end: int
    completed_per_s: float | None
    transferred_bytes: int
    transferred_bytes_per_s: float | None
    oldest_in_flight_ns: int
    stalls: int
    stalls_dropped: int
    errors_count: int
    checked_blocks: int | None
    corrupt_blocks: int | None
    database_json: str | None
    layout_json: str | None
    replay_json: str | None
    cache_json: str | None
    fleet_json: str | None


class SampleKeyRow(Row, frozen=True, kw_only=True):
    """A row that belongs to a sample.

    Attributes:
        run_id: The run.
        cell_key: The test.
        round: The round, from 0.
    """

    run_id: str
    cell_key: str
    round: int


class OperationRow(SampleKeyRow, frozen=True, kw_only=True):
    """One kind of request of a sample, with its percentiles.

    Percentiles are computed from the sample's full bucket counts. A percentile is NULL if fewer
    than ten requests are above it. Never average percentiles: add up ``buckets`` instead.

    Attributes:
        operation: ``read``, ``write``, ``sync``, ``transaction`` ...
        completed: Requests that succeeded.
        failed: Requests that ended with an error.
        transferred_bytes: Bytes of completed requests.
        response_ns_min: Shortest response time, from when a request was due; NULL if none
            completed.
        response_ns_mean: Exact mean of response times.
        response_ns_p50: Median response time.
        response_ns_p90: Response time that 90 % do not exceed.
        response_ns_p99: Response time that 99 % do not exceed.
        response_ns_p99_9: Response time that 99.9 % do not exceed.
        response_ns_max: Longest response time.
        service_ns_min: Shortest service time, from when a request was sent. All service times are
            NULL in a closed loop, where they equal the response times.
        service_ns_mean: Exact mean of service times.
        service_ns_p50: Median service time.
        service_ns_p90: Service time that 90 % do not exceed.
        service_ns_p99: Service time that 99 % do not exceed.
        service_ns_p99_9: Service time that 99.9 % do not exceed.
        service_ns_max: Longest service time.
        reported_ns_json: Response times of an imported result without counts, by name, as its
            source reports them; NULL for other results.
    """

    operation: str
    completed: int
    failed: int
    transferred_bytes: int
    response_ns_min: int | None
    response_ns_mean: float | None
    response_ns_p50: int | None
    response_ns_p90: int | None
    response_ns_p99: int | None
    response_ns_p99_9: int | None
    response_ns_max: int | None
    service_ns_min: int | None
    service_ns_mean: float | None
    service_ns_p50: int | None
    service_ns_p90: int | None
    service_ns_p99: int | None
    service_ns_p99_9: int | None
    service_ns_max: int | None
    reported_ns_json: str | None


class BucketRow(SampleKeyRow, frozen=True, kw_only=True):
    """One bucket of a histogram of a sample. Buckets without entries are absent.

    Attributes:
        operation: Kind of request.
        time: ``response`` or ``service``; a closed loop has only response times.
        low_ns: Lower bound, inclusive.
        high_ns: Upper bound, exclusive; at most 0.8 % above the lower one.
        count: Requests in the bucket.
    """

    operation: str
    time: str
    low_ns: int
    high_ns: int
    count: int


class SliceRow(SampleKeyRow, frozen=True, kw_only=True):
    """One kind of request in one slice of a timeline. Slices without completions are absent.

    Attributes:
        operation: Kind of request.
        slice: Number of the slice, from 0.
        start_ns: Start of the slice, from the sample's start.
        length_ns: Length of the slice.
        completed: Requests that succeeded in the slice.
        transferred_bytes: Bytes of these requests.
    """

    operation: str
    slice: int
    start_ns: int
    length_ns: int
    completed: int
    transferred_bytes: int


class SliceBucketRow(SampleKeyRow, frozen=True, kw_only=True):
    """One bucket of the response times of one slice of a timeline. This is the largest table.

    Attributes:
        operation: Kind of request.
        slice: Number of the slice, from 0.
        low_ns: Lower bound, inclusive.
        high_ns: Upper bound, exclusive.
        count: Requests in the bucket.
    """

    operation: str
    slice: int
    low_ns: int
    high_ns: int
    count: int


class SeriesRow(SampleKeyRow, frozen=True, kw_only=True):
    """One reading of the machine, a device or the server during a sample.

    Attributes:
        name: What was read, with the unit last, such as ``device_read_per_s``.
        start_s: Start of the reading's period, from the sample's start.
        length_s: Length of the period.
        value: The reading, in the unit in its name; NULL if nothing could be read.
    """

    name: str
    start_s: float
    length_s: float
    value: float | None


class CounterRow(SampleKeyRow, frozen=True, kw_only=True):
    """One counter of a sample.

    Attributes:
        name: What was counted, with the unit last, such as ``cpu_user_ns``.
        value: The value, in the unit in its name.
    """

    name: str
    value: float


class StallRow(SampleKeyRow, frozen=True, kw_only=True):
    """One stall: requests outstanding and none completed for longer than a threshold.

    Attributes:
        start_s: Start, from the sample's start.
        length_s: Time until the next completion, or until the sample's end.
        cause: ``device``, ``filesystem``, ``cgroup_throttle``, ``cpu_quota``, ``generator`` or
            ``unknown``.
        depth: Requests outstanding at the end of the stall.
        operations_json: The same, by kind of request.
        evidence_json: Readings of the watchdog, by name.
    """

    start_s: float
    length_s: float
    cause: str
    depth: int
    operations_json: str
    evidence_json: str


class ErrorRow(SampleKeyRow, frozen=True, kw_only=True):
    """One failed request, as an example; there are at most 32 per sample.

    Attributes:
        operation: Kind of request.
        offset_bytes: Its offset in the target.
        length_bytes: Its length.
        errno: Error number of the system.
        name: Its name, such as EIO.
        at_s: When it failed, from the sample's start.
    """

    operation: str
    offset_bytes: int
    length_bytes: int
    errno: int
    name: str
    at_s: float


class CorruptionRow(SampleKeyRow, frozen=True, kw_only=True):
    """One block whose content is not what was written to it, as an example.

    Attributes:
        kind: Kind of the actual content: ``flipped_bit``, ``torn_write``, ``stale``,
            ``misplaced`` or ``foreign``.
        offset_bytes: Its offset in the target.
        detail: Details, as a phrase.
    """

    kind: str
    offset_bytes: int
    detail: str


class FigureRow(Row, frozen=True, kw_only=True):
    """One figure of a test over its rounds, as reports show it. Computed by the exporting version.

    Attributes:
        run_id: The run.
        cell_key: The test.
        operation: Kind of request of a response time; NULL for rates, which cover all kinds.
        figure: ``completed_per_s`` or ``transferred_bytes_per_s``; for response times, ``mean``,
            ``p50``, ``p90``, ``p99``, ``p99.9`` or ``max``.
        value: The figure.
        low: Lower end of the 95 % interval; NULL if it is unknown.
        high: Upper end of the interval; NULL if it is unknown.
        rounds: Number of rounds.
        unit: Unit of value and interval.
        over: Basis of the interval: ``rounds``; ``timeline``, within the only round; ``range``, the
            median and the extremes of rounds that differ widely; or ``reported`` by another tool.
    """

    run_id: str
    cell_key: str
    operation: str | None
    figure: str
    value: float
    low: float | None
    high: float | None
    rounds: int
    unit: str
    over: str


class FindingRow(Row, frozen=True, kw_only=True):
    """One finding of a run. Computed by the exporting version.

    Attributes:
        run_id: The run.
        position: Position among the run's findings, from 0; the most severe first.
        kind: Stable name, explained in docs/findings.md.
        severity: ``critical``, ``warning`` or ``note``.
        sentence: What was observed.
        cause: The likely cause.
        next: The recommended next step.
        cells_json: Factors of the affected tests; empty if it concerns the machine or the run.
        evidence_json: The figures on which the finding is based.
    """

    run_id: str
    position: int
    kind: str
    severity: str
    sentence: str
    cause: str
    next: str
    cells_json: str
    evidence_json: str


TABLES: Final[dict[str, type[Row]]] = {
    "runs": RunRow,
    "targets": TargetRow,
    "samples": SampleRow,
    "operations": OperationRow,
    "buckets": BucketRow,
    "slices": SliceRow,
    "slice_buckets": SliceBucketRow,
    "series": SeriesRow,
    "counters": CounterRow,
    "stalls": StallRow,
    "errors": ErrorRow,
    "corruptions": CorruptionRow,
    "figures": FigureRow,
    "findings": FindingRow,
}
"""Every table by its name, which is also that of its file: ``<name>.parquet``."""

ANALYSED: Final = frozenset({"figures", "findings"})
"""Tables that need the analysis of each run; all others are as stored."""


class Column(msgspec.Struct, frozen=True):
    """A column of a table.

    Attributes:
        name: Its name, unit last.
        type: ``text``, ``integer``, ``real``, ``boolean`` or ``moment``.
        is_optional: Whether it may be NULL.
    """

    name: str
    type: str
    is_optional: bool


_TYPES: Final = {str: "text", bool: "boolean", int: "integer", float: "real"}


def columns_of(table: type[Row]) -> list[Column]:
    """Return the columns of a table in order."""
    hints = typing.get_type_hints(table, include_extras=True)
    return [_column(name, hints[name]) for name in table.__struct_fields__]


def _column(name: str, hint: object) -> Column:
    parts = [part for part in typing.get_args(hint) if part is not type(None)]
    is_optional = type(None) in typing.get_args(hint)
    inner = parts[0] if is_optional else hint
    if getattr(inner, "__metadata__", ()) == (MOMENT,):
        return Column(name, "moment", is_optional)
    return Column(name, _TYPES[typing.cast("type", inner)], is_optional)
