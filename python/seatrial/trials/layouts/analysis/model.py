"""The results of the analysis of samples on layouts, as plain records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

import msgspec

from seatrial.published import Count, named
from seatrial.results.model import LayoutRecord
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import AnalysedRun, CellSummary, is_breaking, is_broken
from seatrial.study.cell import Cell, FactorValue
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.units import NS_PER_S

CHECKED_BLOCK_BYTES = 4096
"""Unit of the final data check."""

PhaseName = Literal["before", "faulty", "degraded", "rebuild", "scrub", "after"]
"""A phase of a sample with injected faults: before the first fault, with a drive missing, during a
rebuild, during a scrub, and afterwards."""


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One layout, or one leg of it, that a run measured.

    Attributes:
        target: Its name as the target of cells.
        label: Label of the layout.
        factors: What distinguishes it from other layouts (level, chunk and others).
        drives: Number of active drives.
        losses_survived: How many of its drives may fail, in any combination.
    """

    target: str
    label: str
    factors: dict[str, FactorValue]
    drives: int
    losses_survived: int


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """The device I/O that a level needs for one operation of the array (docs/method.md, "Arrays").

    Attributes:
        reads: Device reads; None where only bytes are known, because requests are merged.
        writes: Device writes; None where only bytes are known.
        read_bytes: Bytes read from the drives for each byte requested.
        write_bytes: Bytes written to the drives for each byte requested.
        write_bytes_max: ``write_bytes`` with the worst placement by the file system, at any
            multiple of 4 KiB; equal to ``write_bytes`` where the placement is known.
        read_bytes_max: ``read_bytes`` with the worst placement.
        words: The rule, such as ``min(n-2, 2) + 2``.
    """

    reads: float | None
    writes: float | None
    read_bytes: float
    write_bytes: float
    read_bytes_max: float
    write_bytes_max: float
    words: str


class MemberIo(msgspec.Struct, frozen=True, kw_only=True):
    """The I/O of one drive.

    Attributes:
        drive: Its path.
        role: ``leg 1``, ``spare of leg 1``, ``log``, ``cache``.
        reads: Device reads for each operation of the array.
        writes: Device writes for each operation of the array.
        bytes_ratio: Bytes transferred over the mean of the other drives of the same role; None
            where these transferred nothing.
        busy_share: Share of the time with requests in flight.
        busy_ratio: Busy time over the mean of the other drives of the same role, each at least one
            clock tick of 10 ms; None for a drive that was not busy.
    """

    drive: str
    role: str
    reads: Estimate
    writes: Estimate
    bytes_ratio: Estimate | None
    busy_share: Estimate | None
    busy_ratio: Estimate | None


class Accounting(msgspec.Struct, frozen=True, kw_only=True):
    """The device I/O for each operation of a cell; intervals are over rounds.

    Attributes:
        cell: The cell.
        variant: The layout.
        per: The operation: ``read``, ``write``, ``request``, ``commit``, ``transaction``...
        reads: Device reads for each operation (unit ``count``).
        writes: Device writes for each operation.
        flushes: Flushes of drives for each operation.
        read_bytes: Bytes read from the drives for each byte of the array; None where the operation
            has no size, such as a transaction.
        write_bytes: Bytes written to the drives for each byte of the array.
        rule: What the level needs; None where that is not known.
        members: The I/O of each drive, by role.
        degraded_share: Share of the operations after a drive had failed; 0 without a failure.
    """

    cell: Annotated[Cell, named("key")]
    variant: Annotated[Variant, named("target")]
    per: str
    reads: Estimate
    writes: Estimate
    flushes: Estimate
    read_bytes: Estimate | None
    write_bytes: Estimate | None
    rule: Rule | None
    members: list[MemberIo]
    degraded_share: float = 0.0


class SweepPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One number of drives of a series.

    Attributes:
        drives: Active drives.
        target: The layout, as the target of cells.
        rate: Completed requests per second.
        bandwidth: Bytes per second.
        p99: 99th percentile of the operation's latency; None where it is not known.
    """

    drives: int
    target: str
    rate: Estimate
    bandwidth: Estimate
    p99: Estimate | None


class ArraySaturation(msgspec.Struct, frozen=True, kw_only=True):
    """The number of drives above which the rate no longer increases.

    Attributes:
        drives: That number.
        gain_before: Its rate over that of the next lower number; None if it is the lowest.
        gain_beyond: The largest gain of any higher number.
        drives_max: The highest number measured.
        sentence: Such as ``Read bandwidth saturates at 6 drives: up to 12 drives reach ...``.
    """

    drives: int
    gain_before: Estimate | None
    gain_beyond: Estimate
    drives_max: int
    sentence: str


class SweepSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Results of layouts that differ only in their number of drives.

    Attributes:
        name: Such as ``raid5`` or ``raid5, md+lvm``: distinguishes it from the run's other series.
        factors: Factors of the layouts that do not depend on the number of drives.
        cell: Common factors of the cells, without the target.
        points: By number of drives, at least two.
        saturation: None where the rate still increases significantly, or it is undecided.
    """

    name: str
    factors: dict[str, FactorValue]
    cell: dict[str, FactorValue]
    points: list[SweepPoint]
    saturation: ArraySaturation | None


class LayoutRatio(msgspec.Struct, frozen=True, kw_only=True):
    """Two layouts that differ in one factor, compared round by round.

    Attributes:
        factor: ``level``, ``backend``, ``chunk_kib``, ``filesystem`` ...
        a: The baseline target.
        b: The target compared with it.
        value_a: Value of the factor in A.
        value_b: Value of the factor in B.
        drives: Active drives of A.
        operation: The operation of the compared cells.
        cells: Number of compared cells.
        ratio: Rate of B over A, the geometric mean over the cells, with an interval that is
            adjusted for the number of comparisons.
        p_adjusted: p-value after Holm's adjustment; None where measured once.
        answer: ``higher``, ``lower``, ``same`` or ``undecided``.
        within_share: For ``same``: the difference is significantly smaller than this share.
        rounds_more: How many more rounds would decide it; None if unknown.
    """

    factor: str
    a: str
    b: str
    value_a: FactorValue
    value_b: FactorValue
    drives: int
    operation: str
    cells: int
    ratio: Estimate
    p_adjusted: float | None
    answer: Literal["higher", "lower", "same", "undecided"]
    within_share: float | None = None
    rounds_more: int | None = None


class BestLayout(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest of a run's layouts for one use.

    Attributes:
        use: Such as ``random reads of 8 KiB``.
        among: ``all``, or ``redundant``: those that survive the loss of a drive.
        target: The fastest layout.
        figure: Its rate.
        runner_up: The fastest of the significantly slower layouts; empty without any.
        ratio: The rate of the fastest over that of the runner-up, paired by round.
        equals: Layouts that are not significantly slower.
    """

    use: str
    among: Literal["all", "redundant"]
    target: str
    figure: Estimate
    runner_up: str
    ratio: Estimate | None
    equals: list[str]


class PhaseFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The performance of an array in one phase of a failure.

    Attributes:
        phase: The phase.
        length: Its duration within the sample (unit ``ns``).
        rate: Completed requests per second.
        share: The rate over that of the phase ``before``, by round; None for ``before`` itself.
        p99: Response time of all requests; None where too few completed.
    """

    phase: PhaseName
    length: Estimate
    rate: Estimate
    share: Estimate | None
    p99: Estimate | None


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a cell with injected faults; intervals are over rounds.

    Attributes:
        cell: The cell.
        variant: The layout.
        rounds: Samples with at least one event.
        faults: The faults of the first round, as phrases in order.
        phases: The observed phases.
        lowest_share: The slowest second after the first failure over the rate before it; the lowest
            of all rounds, an extreme value without an interval. None without a rate before.
        lowest_share_before: The slowest second before the failure, as the baseline.
        longest_stall_s: The longest time without a completion after the first failure.
        rebuild_time: Duration of the completed rebuilds (unit ``ns``); None if there are none.
        after_load_count: Rebuilds that ended after the load, and so had the drives to themselves
            for part of their time.
        rebuild_rate: Bytes of a drive rebuilt per second; None where that is not known.
        unfinished_count: Rebuilds that had not ended at the last reading.
        unfinished_share: The largest progress of those; None where that is not known.
        window: Time during which one more failure could have lost data (unit ``ns``); if it never
            could, time from a drive's failure until all drives were in service again. Only of
            rounds in which its end was observed.
        window_open_s: The longest such time that had not ended at the last reading; None if there
            is none.
        exposed: Whether one more failure could have lost data at any time.
        at_stake_bytes: Capacity of the array, or of the leg's whole layout.
        failed_count: Failed requests, over all rounds.
        offered_count: Requests over all rounds.
        corrupt_blocks: Blocks with data that were never written, counted at each read, by the load
            and the final check; None where nothing was checked.
        checked_blocks: Blocks checked, over all rounds.
        unreadable_bytes: Bytes unreadable in the final check; None without that check.
        checked_bytes: Bytes read in the final check, over all rounds.
        wrong_bytes: Bytes that differed from what was written, in blocks of 4 KiB; None without
            that check.
        sums_differ_count: Rounds after which the sums of pgbench's tables, which every transaction
            keeps equal, differed; None without such a database.
        array_failed_count: Rounds in which the array itself failed.
        mismatch_blocks: Mismatches found by scrubs, in blocks of 512 bytes; None without any scrub.
        rebuild_limit_kib_per_s: The rebuild limit; None for the kernel's own.
    """

    cell: Annotated[Cell, named("key")]
    variant: Annotated[Variant, named("target")]
    rounds: int
    faults: list[str]
    phases: list[PhaseFigures]
    lowest_share: float | None
    lowest_share_before: float | None
    longest_stall_s: float
    rebuild_time: Estimate | None
    after_load_count: int
    rebuild_rate: Estimate | None
    unfinished_count: int
    unfinished_share: float | None
    window: Estimate | None
    window_open_s: float | None
    exposed: bool
    at_stake_bytes: int
    failed_count: int
    offered_count: int
    corrupt_blocks: int | None
    checked_blocks: int
    unreadable_bytes: int | None
    array_failed_count: int
    mismatch_blocks: int | None
    rebuild_limit_kib_per_s: int | None
    checked_bytes: Count = 0
    wrong_bytes: int | None = None
    sums_differ_count: int | None = None

    @property
    def wrong_reads(self) -> int:
        """Blocks that were corrupt when the load read them, without those of the final check."""
        at_end = (self.wrong_bytes or 0) // CHECKED_BLOCK_BYTES
        return max(0, (self.corrupt_blocks or 0) - at_end)

    @property
    def window_s(self) -> float:
        """The longer one of ``window`` and ``window_open_s``; 0 without both."""
        closed_s = self.window.value / NS_PER_S if self.window else 0.0
        return max(closed_s, self.window_open_s or 0.0)

    def phase(self, name: PhaseName) -> PhaseFigures | None:
        """Return a phase's figures; None where it was not observed."""
        return next((each for each in self.phases if each.phase == name), None)


class LimitRow(msgspec.Struct, frozen=True, kw_only=True):
    """One rebuild limit: the duration of the rebuild, and the performance during it.

    Attributes:
        limit_kib_per_s: The limit; None for the kernel's own.
        rebuild_time: Duration of the rebuilds that ended (unit ``ns``); None where none did.
        unfinished_count: Rebuilds that had not ended at the last reading.
        after_load_count: Rebuilds that ended after the load.
        share: Rate during the rebuild over that before the fault.
        p99: Response time during the rebuild.
    """

    limit_kib_per_s: int | None
    rebuild_time: Estimate | None
    unfinished_count: int
    after_load_count: int
    share: Estimate | None
    p99: Estimate | None


class LimitTable(msgspec.Struct, frozen=True, kw_only=True):
    """Cells that differ only in their rebuild limit.

    Attributes:
        target: The layout, as the target of cells.
        cell: Their common factors.
        rows: By limit, the kernel's own last.
    """

    target: str
    cell: dict[str, FactorValue]
    rows: list[LimitRow]


class FigurePoint(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a figure.

    Attributes:
        x: Number of drives, or block size in bytes.
        target: The layout, as the target of cells.
        y: The value, in the figure's unit.
    """

    x: int
    target: str
    y: Estimate


class FigureLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a figure.

    Attributes:
        name: What distinguishes it from the other lines.
        operation: ``read``, ``write``, ``copy`` ...
        points: By ``x``.
        saturation: For a line over drives, where it saturates.
    """

    name: str
    operation: str
    points: list[FigurePoint]
    saturation: ArraySaturation | None = None


class MeasuredFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the article "One DVD per second", with what this run measured.

    Attributes:
        number: Its number in the article; 0 for a layout that is not in the article.
        title: Its title.
        against: The quantity ``x``.
        unit: Unit of ``y``: ``B/s``, ``IOPS`` or ``ns`` (of one copy).
        lines: At least one.
    """

    number: int
    title: str
    against: Literal["drives", "block_size_bytes"]
    unit: str
    lines: list[FigureLine]


class LayoutAnalysis(msgspec.Struct, frozen=True, kw_only=True):
    """The analysis of a run's layouts.

    Attributes:
        variants: In the order of the run's cells.
        accounting: For each cell with known counters of its drives and without faults, and for
            reads from a degraded array.
        sweeps: For each workload that was measured with several numbers of drives.
        ratios: Pairs of layouts that differ in one factor.
        best: The fastest layout for each use; empty if there is only one layout.
        recoveries: For each cell with injected faults.
        limits: Rebuild time against performance, where the rebuild limit was a factor.
        figures: The figures of the article for which the run has results.
    """

    variants: list[Variant]
    accounting: list[Accounting]
    sweeps: list[SweepSeries]
    ratios: list[LayoutRatio]
    best: list[BestLayout]
    recoveries: list[Recovery]
    limits: list[LimitTable]
    figures: list[MeasuredFigure]


def layouts_of(analysed: AnalysedRun) -> LayoutAnalysis | None:
    """Return the analysis of a run's layouts; None where it has none."""
    found: LayoutAnalysis | None = analysed.analyses.get("layouts")
    return found


OTHER_FACTORS: Final = (
    *("stripe_kib", "mkfs_options", "mount_options", "logs", "caches", "size_bytes"),
    *("member_bytes", "delay_ms"),
)
"""Other properties that may distinguish two layouts, which no sweep varies."""


def spec_of(record: LayoutRecord) -> LayoutSpec | None:
    """Return the variant of a sample; None if another version wrote the record."""
    try:
        return msgspec.convert(record.layout, LayoutSpec)
    except msgspec.ValidationError:
        return None


def layout_of(summary: CellSummary) -> LayoutSpec | None:
    """Return the variant of a cell; None where it was not measured on a layout."""
    known = (spec_of(sample.layout) for sample in summary.samples if sample.layout)
    return next((spec for spec in known if spec), None)


def is_breaking_summary(summary: CellSummary) -> bool:
    """Return whether a cell injects faults, or a drive failed in one of its samples."""
    return is_breaking(summary.cell) or any(is_broken(sample) for sample in summary.samples)


def variant_of(summary: CellSummary) -> Variant | None:
    """Return the layout of a cell; None where its target is not a layout."""
    spec = layout_of(summary)
    return variant(spec, summary.cell.target) if spec else None


def variant(spec: LayoutSpec, target: str) -> Variant:
    """Return a layout, or the leg of it that a target is."""
    is_leg = leg_of(spec, target) > 0
    drives = spec.drives if is_leg else spec.legs * spec.drives
    others: dict[str, FactorValue] = {
        name: str(value) for name in OTHER_FACTORS if (value := getattr(spec, name))
    }
    return Variant(
        target=target,
        label=spec.label,
        factors=spec.factors() | {"drives": drives} | others,
        drives=drives,
        losses_survived=spec.facts.losses_survived(spec.drives),
    )


def leg_of(spec: LayoutSpec, target: str) -> int:
    """Return which leg of a layout a target is, from 1; 0 for the whole layout."""
    if spec.expose != "legs":
        return 0
    number = target.removeprefix(f"{spec.label}-leg")
    return int(number) if number.isdecimal() else 0


def variants_of(cells: Iterable[CellSummary]) -> list[Variant]:
    """Return the layouts of a run's cells, without duplicates, in the order of the cells."""
    found = (variant_of(summary) for summary in cells)
    return list({each.target: each for each in found if each}.values())
