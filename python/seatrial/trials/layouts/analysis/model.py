"""What the analysis of samples on layouts yields. Pure data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

import msgspec

from seatrial.published import Count, named
from seatrial.results.model import LayoutRecord
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import Analysed, CellSummary, is_breaking, is_broken
from seatrial.study.cell import Cell, FactorValue
from seatrial.study.layouts.layout import LayoutSpec

CHECKED_BLOCK_BYTES = 4096
"""What is checked in the end is known to so much."""

PhaseName = Literal["before", "degraded", "rebuild", "scrub", "after"]
"""Of a sample in which something is broken: until then, without a drive, while the array is
rebuilt, while all its data are checked, and with all drives at rest again."""


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One layout, or one leg of it, that a run measured.

    Attributes:
        target: What cells call it.
        label: Of the layout.
        factors: What distinguishes it from other layouts (level, chunk and others).
        drives: Active drives that it lies on.
        losses_survived: Drives of it that may fail, whichever they are.
    """

    target: str
    label: str
    factors: dict[str, FactorValue]
    drives: int
    losses_survived: int


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What a level asks of its drives for one operation of the array (docs/method.md, "Arrays").

    Attributes:
        reads: Device reads for each; None where only bytes are known, for requests are merged.
        writes: Device writes for each; None where only bytes are known.
        read_bytes: Bytes read from the drives for each byte requested.
        write_bytes: Bytes written to the drives for each byte requested.
        write_bytes_max: The same where the file system puts the file as badly as it can, so that
            its blocks begin anywhere on 4 KiB; equal to ``write_bytes`` where that is known.
        read_bytes_max: As ``write_bytes_max``, of what is read.
        words: The rule, such as ``min(n-2, 2) + 2``.
    """

    reads: float | None
    writes: float | None
    read_bytes: float
    write_bytes: float
    read_bytes_max: float
    write_bytes_max: float
    words: str


class MemberWork(msgspec.Struct, frozen=True, kw_only=True):
    """What one drive did.

    Attributes:
        drive: Its path.
        role: ``leg 1``, ``spare of leg 1``, ``log``, ``cache``.
        reads: Device reads for each operation of the array.
        writes: Device writes for each.
        bytes_ratio: Bytes moved over the mean of the drives of the same role; None where nothing
            was moved.
        busy_share: Share of the time in which it had requests.
        busy_ratio: That over the mean of the drives of the same role; None where none was busy.
    """

    drive: str
    role: str
    reads: Estimate
    writes: Estimate
    bytes_ratio: Estimate | None
    busy_share: Estimate | None
    busy_ratio: Estimate | None


class Accounting(msgspec.Struct, frozen=True, kw_only=True):
    """What the drives did for each operation of a cell; intervals are over rounds.

    Attributes:
        cell: What was measured.
        variant: On what.
        per: What one operation is: ``read``, ``write``, ``request``, ``commit``, ``transaction``...
        reads: Device reads for each (unit ``count``).
        writes: Device writes for each.
        flushes: Flushes of drives for each.
        read_bytes: Bytes read from the drives for each byte of the array; None where the operation
            has no bytes of its own, as a transaction.
        write_bytes: Bytes written to the drives for each.
        rule: What the level asks for; None where that is not known.
        members: What each drive did, by role.
        degraded_share: Share of the operations after a drive had failed; 0 of a whole array.
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
    members: list[MemberWork]
    degraded_share: float = 0.0


class SweepPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One number of drives of a series.

    Attributes:
        drives: Active drives.
        target: What cells call the layout.
        rate: Completed requests per second.
        bandwidth: Bytes per second.
        p99: Of the operation; None where it is not known.
    """

    drives: int
    target: str
    rate: Estimate
    bandwidth: Estimate
    p99: Estimate | None


class ArraySaturation(msgspec.Struct, frozen=True, kw_only=True):
    """From how many drives on more of them give no more.

    Attributes:
        drives: From so many on.
        gain_before: Rate there over that at the next lower count; None where it is the lowest.
        gain_beyond: The largest gain of any higher count.
        drives_max: The most that were measured.
        sentence: Such as ``Read bandwidth saturates at 6 drives: up to 12 drives reach ...``.
    """

    drives: int
    gain_before: Estimate | None
    gain_beyond: Estimate
    drives_max: int
    sentence: str


class SweepSeries(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of layouts that differ in nothing but their number of drives.

    Attributes:
        name: Such as ``raid5`` or ``raid5, md+lvm``: distinguishes it from the run's other series.
        factors: Of the layouts, without what the number of drives changes.
        cell: Factors of the cell that all have, without the target.
        points: By number of drives, at least two.
        saturation: None where it significantly still grows, or is undecided.
    """

    name: str
    factors: dict[str, FactorValue]
    cell: dict[str, FactorValue]
    points: list[SweepPoint]
    saturation: ArraySaturation | None


class LayoutRatio(msgspec.Struct, frozen=True, kw_only=True):
    """Two layouts that differ in one factor, compared round by round.

    Attributes:
        factor: The one: ``level``, ``backend``, ``chunk_kib``, ``filesystem`` ...
        a: Target that is the measure.
        b: Target that is judged.
        value_a: Of the factor.
        value_b: Of the factor.
        drives: Active drives of either.
        operation: Whose cells were compared.
        cells: How many both have.
        ratio: Rate of B over A, the geometric mean over the cells, with an interval that is
            adjusted for all that is compared.
        p_adjusted: Of no difference, after Holm's adjustment; None where measured once.
        answer: ``higher``, ``lower``, ``same`` or ``undecided``.
        within_share: For ``same``: the difference is significantly smaller.
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


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """Which of a run's layouts does one thing fastest.

    Attributes:
        use: What, such as ``random reads of 8 KiB``.
        among: ``all``, or ``redundant``: those that survive the loss of a drive.
        target: The fastest.
        figure: Its rate.
        runner_up: The fastest of those that are significantly slower; empty without any.
        ratio: Its rate over that one's, paired by round; None without one.
        equals: Others that may be as fast.
    """

    use: str
    among: Literal["all", "redundant"]
    target: str
    figure: Estimate
    runner_up: str
    ratio: Estimate | None
    equals: list[str]


class PhaseFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What an array did in one phase of a failure.

    Attributes:
        phase: Which.
        length: How long it lasted within the sample (unit ``ns``).
        rate: Completed requests per second in it.
        share: That over the rate before, by round; None of ``before`` itself.
        p99: Response time of all requests in it; None where too few completed to know it.
    """

    phase: PhaseName
    length: Estimate
    rate: Estimate
    share: Estimate | None
    p99: Estimate | None


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a cell in whose samples something was broken; intervals are over rounds.

    Attributes:
        cell: What was measured.
        variant: On what.
        rounds: Samples in which something happened.
        faults: What was done, as phrases in order, of the first round.
        phases: Those that were seen.
        lowest_share: The slowest second after the first failure over the rate before; the lowest of
            all rounds, which is no mean and has no interval. None without a rate before.
        lowest_share_before: The slowest second before it, for what is usual; the lowest, too.
        longest_stall_s: The longest time without a completion after the first failure.
        rebuild_time: How long the rebuild took, of those that ended (unit ``ns``); None of none.
        after_load_count: Rebuilds that ended after the load had: part of their time they had the
            drives for themselves.
        rebuild_rate: Bytes of a drive rebuilt per second; None where that is not known.
        unfinished_count: Rebuilds that had not ended when they were last looked at.
        unfinished_share: How much of those was done at most; None where that is not known.
        window: How long one more failure could have lost data (unit ``ns``); where it never could,
            from a drive's failure until all were there again. Of rounds in which it was seen to
            end.
        window_open_s: The longest that did not end, until it was last looked at; None of none.
        exposed: Whether one more failure could have lost data at any time.
        at_stake_bytes: What the array, or the leg's whole layout, holds.
        failed_count: Requests that failed, over all rounds.
        offered_count: Requests over all rounds.
        corrupt_blocks: Blocks that held what nobody wrote, each time that one was read, by the load
            and in the end; None where nothing was checked.
        checked_blocks: Over all rounds.
        unreadable_bytes: What could not be read in the end; None where that was not tried.
        checked_bytes: What was read and checked in the end, over all rounds.
        wrong_bytes: What of it held something else than was written, in blocks of 4 KiB; None
            where that was not looked for.
        sums_differ_count: Rounds after which the sums of pgbench's tables, which every transaction
            keeps equal, differed; None where no such database ran.
        array_failed_count: Rounds in which the array itself failed.
        mismatch_blocks: What scrubs found, in blocks of 512 bytes; None without any.
        rebuild_limit_kib_per_s: The limit that was set; None for the kernel's own.
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
        """Blocks that were wrong when the load read them; of those in the end see wrong_bytes."""
        at_end = (self.wrong_bytes or 0) // CHECKED_BLOCK_BYTES
        return max(0, (self.corrupt_blocks or 0) - at_end)

    def phase(self, name: PhaseName) -> PhaseFigures | None:
        """Return a phase's figures; None where it was not seen."""
        return next((each for each in self.phases if each.phase == name), None)


class LimitRow(msgspec.Struct, frozen=True, kw_only=True):
    """One limit of rebuilding: what it costs in time, and what it spares the service.

    Attributes:
        limit_kib_per_s: The limit; None for the kernel's own.
        rebuild_time: How long the rebuild took (unit ``ns``); None where none ended.
        after_load_count: As of a recovery.
        share: Rate while it ran over that before.
        p99: Response time while it ran.
    """

    limit_kib_per_s: int | None
    rebuild_time: Estimate | None
    after_load_count: int
    share: Estimate | None
    p99: Estimate | None


class LimitTable(msgspec.Struct, frozen=True, kw_only=True):
    """Cells that differ in nothing but the limit of rebuilding.

    Attributes:
        target: What cells call the layout.
        cell: Their common factors.
        rows: By limit, the kernel's own last.
    """

    target: str
    cell: dict[str, FactorValue]
    rows: list[LimitRow]


class FigurePoint(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a figure.

    Attributes:
        x: Number of drives, or block size in bytes, as the figure has it.
        target: What cells call the layout.
        y: In the figure's unit.
    """

    x: int
    target: str
    y: Estimate


class FigureLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a figure.

    Attributes:
        name: What distinguishes it from the others.
        operation: ``read``, ``write``, ``copy`` ...
        points: By ``x``.
        saturation: Against drives: from how many on there is no more.
    """

    name: str
    operation: str
    points: list[FigurePoint]
    saturation: ArraySaturation | None = None


class DrawnFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the article "One DVD per second", with what this run measured.

    Attributes:
        number: Its number there; 0 where the article shows other layouts in the same way.
        title: What it shows.
        against: What ``x`` is.
        unit: Of ``y``: ``B/s``, ``IOPS`` or ``ns`` (of one copy).
        lines: At least one.
    """

    number: int
    title: str
    against: Literal["drives", "block_size_bytes"]
    unit: str
    lines: list[FigureLine]


class LayoutAnalysis(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is particular to a run's layouts.

    Attributes:
        variants: In the order of the run's cells.
        accounting: Of each cell of which the drives' counters are known and nothing was broken, and
            of reads from an array that a drive was missing from.
        sweeps: Of each workload that several numbers of drives have in common.
        ratios: Layouts that differ in one factor.
        best: Which layout is best for what; empty where there is one only.
        recoveries: Of each cell in whose samples something was broken.
        limits: Rebuild time against service, where the limit of rebuilding was a factor.
        figures: Those of the article that the run has lines for.
    """

    variants: list[Variant]
    accounting: list[Accounting]
    sweeps: list[SweepSeries]
    ratios: list[LayoutRatio]
    best: list[Best]
    recoveries: list[Recovery]
    limits: list[LimitTable]
    figures: list[DrawnFigure]


def layouts_of(analysed: Analysed) -> LayoutAnalysis | None:
    """Return what is particular to the layouts of a run; None where it has none."""
    found: LayoutAnalysis | None = analysed.analyses.get("layouts")
    return found


OTHER_FACTORS: Final = (
    *("stripe_kib", "mkfs_options", "mount_options", "logs", "caches", "size_bytes"),
    *("member_bytes", "delay_ms"),
)
"""Other properties that may distinguish two layouts, which no sweep varies."""


def spec_of(record: LayoutRecord) -> LayoutSpec | None:
    """Return the variant that a sample was taken on; None of a record of another version."""
    try:
        return msgspec.convert(record.layout, LayoutSpec)
    except msgspec.ValidationError:
        return None


def layout_of(summary: CellSummary) -> LayoutSpec | None:
    """Return the variant of a cell; None where it was not measured on a layout."""
    known = (spec_of(sample.layout) for sample in summary.samples if sample.layout)
    return next((spec for spec in known if spec), None)


def is_breaking_summary(summary: CellSummary) -> bool:
    """Return whether a cell breaks something, or something broke in one of its samples."""
    return is_breaking(summary.cell) or any(is_broken(sample) for sample in summary.samples)


def variant_of(summary: CellSummary) -> Variant | None:
    """Return what a cell was measured on; None where that is no layout."""
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
    """Return which leg of a layout a target is, from 1; 0 where it is the whole."""
    if spec.expose != "legs":
        return 0
    number = target.removeprefix(f"{spec.label}-leg")
    return int(number) if number.isdecimal() else 0


def variants_of(cells: Iterable[CellSummary]) -> list[Variant]:
    """Return what a run's cells were measured on, each once, in the order of the cells."""
    found = (variant_of(summary) for summary in cells)
    return list({each.target: each for each in found if each}.values())
