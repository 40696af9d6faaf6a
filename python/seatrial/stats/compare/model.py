"""What a comparison gives: which differs, by how much, and whether it is real. Pure data."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from seatrial.published import HIDDEN
from seatrial.results.model import Run, Sample
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import Finding
from seatrial.study.cell import FactorValue

Answer = Literal["higher", "lower", "same", "undecided"]
"""Of B against A: surely higher, surely lower, surely the same within what is told, or open."""


class NamedSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of the things that are compared.

    Attributes:
        name: What the user calls it.
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
    """One of the things that are compared.

    Attributes:
        name: What the user calls it: label, run id, target, or file name.
        run: The run that it comes from.
        target: Label of the target where the sides are targets of one run; else empty.
    """

    name: str
    run: Run
    target: str = ""

    @property
    def shown(self) -> NamedSide:
        """What documents say of it."""
        return NamedSide(
            name=self.name,
            target=self.target,
            run_id=self.run.id,
            label=self.run.label,
            started_at=self.run.started_at,
        )


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing in which two fingerprints differ.

    Attributes:
        path: Key path in the fingerprint, such as ``target.stack[sda].scheduler``.
        words: What it is, such as ``I/O scheduler of sda``.
        a: Its value on side A; None where it is unknown.
        b: Its value on side B; None where it is unknown.
        weight: ``likely`` where it usually explains a difference in speed, else ``minor``.
    """

    path: str
    words: str
    a: Any
    b: Any
    weight: Literal["likely", "minor"]


class Entrant(msgspec.Struct, frozen=True, kw_only=True):
    """A side with what was measured of it.

    Attributes:
        side: What it is called and where it comes from.
        samples: Of that side only. Timelines of fewer than 20 slices are not looked at.
    """

    side: Side
    samples: list[Sample]


class Comparand(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one cell on both sides.

    Attributes:
        key: Key of the cell that both have, without the target.
        identity: Its factors, without the target.
        figure: ``iops``, ``bandwidth`` or ``KIND p99`` such as ``read p99``.
        a: On side A.
        b: On side B.
        ratio: B over A, with an interval adjusted for the number of cells.
        p_value: Of no difference, before adjustment; None where it was measured once.
        p_adjusted: After Holm's adjustment over everything that is compared at once.
        answer: What is certain.
        within_share: For ``same``: the difference is surely less than this share.
        rounds_more: How many more rounds would settle it, for ``undecided``; None where that
            cannot be told or is more than a thousand.
        paired: Whether it was compared round by round.
        below_noise: Whether the intervals tell the sides apart, but by no more than an A/A pair
            differs: ``undecided`` then, and more rounds would not help.
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


class Overall(msgspec.Struct, frozen=True, kw_only=True):
    """What is certain of one figure over all common cells together.

    Attributes:
        cells: How many cells it rests on.
        p_value: Of no difference, before adjustment; None where it was measured once.
        p_adjusted: After Holm's adjustment over everything that is compared at once.
        answer: What is certain of the geometric mean ratio.
        within_share: For ``same``: the difference is surely less than this share.
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
    """What two measurements of one and the same thing differ by.

    Attributes:
        source: ``pair``: another measurement of A, which overrules answers below it; ``halves``:
            odd against even rounds of the same sides, told for what it is worth.
        name: Of the other measurement; empty for halves.
        cells: By figure, the 95th percentile over cells of the ratios' distance from 1.
        overall: By figure, the distance from 1 of the geometric mean ratio.
    """

    source: Literal["pair", "halves"]
    name: str = ""
    cells: dict[str, float] = {}
    overall: dict[str, float] = {}


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """B against A.

    Attributes:
        a: The side that is the measure, such as "before".
        b: The side that is judged.
        differences: In the fingerprints, the likeliest reasons first.
        comparands: Of all common cells, rates first, in the order of the plan.
        overall: Geometric mean ratio of each figure over all common cells, by figure.
        only_a: Keys of cells that B lacks.
        only_b: Keys of cells that A lacks.
        noise_share: What an A/A pair showed, as the 95th percentile of its ratios' distance from
            1, of the rates; None where there is no such pair. ``noise`` holds all of it.
        findings: ``regressed``, ``improved``, ``leg_imbalance`` ..., the gravest first.
        warnings: What weakens the comparison, as sentences.
        verdict: One sentence.
        overall_answers: What is certain of each figure of ``overall``, by figure.
        noise: What an A/A pair or the halves of each side showed.
        margin_share: Less than this is called the same.
        paired: Whether rounds were compared one by one.
    """

    a: Annotated[Side, HIDDEN]
    b: Side
    differences: list[Difference]
    comparands: list[Comparand]
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
