"""The result of a comparison: differences, their size and significance. Pure data."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from seatrial.published import HIDDEN
from seatrial.results.model import Run, Sample
from seatrial.stats.estimate import AtLeast, Estimate
from seatrial.stats.model import Finding
from seatrial.study.cell import FactorValue

Answer = Literal["higher", "lower", "same", "undecided"]
"""B compared with A: significantly higher, significantly lower, equivalent, or undecided."""


class NamedSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of the compared sides.

    Attributes:
        name: Its name for the user.
        target: Label of the target, where it is one target of a run; else empty.
        run_id: The run that it comes from.
        label: What the user calls the run; empty if unnamed.
        started_at: Unix time in seconds.
    """

    name: str
    target: str
    run_id: str
    label: str
    started_at: float


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the compared sides.

    Attributes:
        name: Its name for the user: label, run id, target, or file name.
        run: The run that it comes from.
        target: Label of the target where the sides are targets of one run; else empty.
    """

    name: str
    run: Run
    target: str = ""

    @property
    def shown(self) -> NamedSide:
        """Its representation in documents."""
        return NamedSide(
            name=self.name,
            target=self.target,
            run_id=self.run.id,
            label=self.run.label,
            started_at=self.run.started_at,
        )


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between two fingerprints.

    Attributes:
        path: Key path in the fingerprint, such as ``target.stack[sda].scheduler``.
        words: Description, such as ``I/O scheduler of sda``.
        a: Its value on side A; None if unknown.
        b: Its value on side B; None if unknown.
        weight: ``likely`` for a usual cause of a difference in speed, else ``minor``.
    """

    path: str
    words: str
    a: Any
    b: Any
    weight: Literal["likely", "minor"]


class SideSamples(msgspec.Struct, frozen=True, kw_only=True):
    """A side with its samples.

    Attributes:
        side: Its name and origin.
        samples: Samples of that side only. Timelines of fewer than 20 slices are ignored.
    """

    side: Side
    samples: list[Sample]


class FigureComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one cell on both sides.

    Attributes:
        key: Key of the common cell, without the target.
        identity: Its factors; the target only where a side has several.
        figure: ``iops``, ``bandwidth`` or ``KIND p99`` such as ``read p99``.
        a: On side A.
        b: On side B.
        ratio: B over A, with an interval adjusted for the number of cells.
        p_value: P-value for no difference, before adjustment; None if measured once.
        p_adjusted: After Holm's adjustment over all simultaneous comparisons.
        answer: The conclusion; ``lower`` for a rate of which B completed nothing in any round, and
            A something in each.
        within_share: For ``same``: the difference is significantly smaller than this share.
        rounds_more: For ``undecided``: how many more rounds would decide it; None if unknown or
            more than a thousand.
        paired: Whether rounds were compared in pairs.
        below_noise: Whether the difference is significant, but no larger than that of an A/A
            control: ``undecided`` then, and more rounds would not help.
    """

    key: str
    identity: dict[str, FactorValue]
    figure: str
    a: Estimate
    b: Estimate
    ratio: Estimate
    p_value: float | None
    p_adjusted: float | None
    answer: Answer
    within_share: float | None = None
    rounds_more: int | None = None
    paired: bool = False
    below_noise: bool = False


class OneSidedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A percentile of one cell that is known on one side only, so that it cannot be compared.

    Attributes:
        key: Key of the common cell, without the target.
        identity: Its factors; the target only where a side has several.
        figure: As of a FigureComparison.
        known_on: The side that has it: ``a`` or ``b``.
        unanswered: The most requests that a round of the other side skipped or never ended, where
            these hide the percentile; 0 where too few requests ended.
        nothing_completed: Whether no request of this kind completed on the other side, which left
            requests unanswered or failed some of this kind.
        at_least: Lower bound on the other side; None if unknown.
    """

    key: str
    identity: dict[str, FactorValue]
    figure: str
    known_on: Literal["a", "b"]
    unanswered: int
    nothing_completed: bool
    at_least: AtLeast | None

    @property
    def is_lost(self) -> bool:
        """Whether B is certainly worse: it left requests unanswered or failed them, unlike A."""
        return self.known_on == "a" and (self.unanswered > 0 or self.nothing_completed)


class Overall(msgspec.Struct, frozen=True, kw_only=True):
    """The conclusion for one figure over all common cells.

    Attributes:
        cells: Number of cells.
        p_value: P-value for no difference, before adjustment; None if measured once.
        p_adjusted: After Holm's adjustment over all simultaneous comparisons.
        answer: The conclusion for the geometric mean ratio.
        within_share: For ``same``: the difference is significantly smaller than this share.
        rounds_more: As of a cell.
        below_noise: As of a cell.
    """

    cells: int
    p_value: float | None
    p_adjusted: float | None
    answer: Answer
    within_share: float | None = None
    rounds_more: int | None = None
    below_noise: bool = False


class NoiseFloor(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between two measurements of the same thing.

    Attributes:
        source: ``pair``: an A/A control, which overrides smaller differences; ``halves``: odd and
            even rounds of the same sides, for information only.
        name: Name of the other measurement; empty for halves.
        cells: By figure, the 95th percentile over cells of the ratios' distance from 1.
        overall: By figure, the distance from 1 of the geometric mean ratio.
    """

    source: Literal["pair", "halves"]
    name: str = ""
    cells: dict[str, float] = {}
    overall: dict[str, float] = {}

    @property
    def share(self) -> float | None:
        """That of the first figure, a rate if there is one; None without any."""
        return next(iter(self.cells.values()), None)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """B against A.

    Attributes:
        a: The baseline, such as "before".
        b: The side compared with it.
        differences: In the fingerprints, the likeliest causes first.
        comparands: All common cells, rates first, in the order of the plan.
        overall: Geometric mean ratio of each figure over all common cells, by figure.
        only_a: Keys of cells that B lacks.
        only_b: Keys of cells that A lacks.
        blank_a: Keys of common cells of which nothing completed on A, so that no ratio is known.
        cells_count: Number of common cells, also of those without a figure.
        noise_share: Noise floor of an A/A control for rates: the 95th percentile of its ratios'
            distance from 1; None without a control. ``noise`` has the details.
        findings: ``regressed``, ``improved``, ``leg_imbalance`` ..., the most severe first.
        warnings: Limitations of the comparison, as sentences.
        verdict: One sentence.
        overall_answers: Conclusion for each figure of ``overall``, by figure.
        noise: Noise floor of an A/A control, or of the halves of each side.
        margin_share: Smaller differences count as the same.
        paired: Whether rounds were compared in pairs.
        one_sided: Percentiles that are known on one side only.
    """

    a: Annotated[Side, HIDDEN]
    b: Side
    differences: list[Difference]
    comparands: list[FigureComparison]
    overall: dict[str, Estimate]
    only_a: list[str]
    only_b: list[str]
    noise_share: float | None
    findings: list[Finding]
    warnings: list[str]
    verdict: str
    overall_answers: dict[str, Overall] = {}
    noise: NoiseFloor | None = None
    margin_share: float = 0.05
    paired: bool = False
    one_sided: list[OneSidedFigure] = []
    blank_a: list[str] = []
    cells_count: Annotated[int, HIDDEN]
