"""Finding ``gap``: cells that deviate strongly from the rest of their table."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_size
from seatrial.trials.audit.analysis.gaps import gap_limit_log
from seatrial.trials.audit.analysis.model import (
    Gap,
    GapKind,
    GapStatus,
    TableAudit,
    TablePoint,
    audits_of,
)
from seatrial.trials.audit.analysis.tables import identity_of

NOTES: Final[tuple[GapKind, ...]] = ("start_transient", "noise")
"""Classes that explain figures; the others may change a decision.

A gap found by order alone and seen once is a note whatever its class: if single figures vary by a
third, two or three such gaps per table are noise.
"""


@from_samples(rank=180, section="Time")
def gap(context: Context) -> list[Finding]:
    """Find the gaps of all audited tables, one finding each.

    Means:
        Tests of a table of block sizes, threads and queue depths deviate strongly from the rest of
        the table. Classes: `start_transient` (the first measured tests are too slow), `collapse`
        (adjacent block sizes are too slow; with one block size, adjacent threads and depths),
        `too_fast` (a cache served the test, burst credit applied, or its blocks had never been
        written), `absent` (an imported table lists the test without a figure), `noise` (a single
        test). Status: `seen_once`, `persistent` (in every round), `transient` (in some rounds).

    Decided:
        Compared with the model of the table if one fits (method.md, "Models and gaps"): the
        logarithm of observed over predicted is below -max(4 × scatter, ln 1.5), or above max(6 ×
        scatter, ln 1.75), in every round or with the whole interval, or twice as far in one round.
        If tests contradict each other by order, the model is fitted to those that are correct in
        the likeliest interpretation; if another interpretation is nearly as likely, the cause
        mentions it. If no model fits, tests are compared by order alone (any storage is monotonic
        in block size and concurrency), which finds fewer gaps. A gap seen once proves nothing: in
        two sweeps over one shared virtual disk, the gap of the first did not recur in the second.
        Warning for `collapse`, `too_fast`, `absent` and all persistent gaps; otherwise note, also
        for a `collapse` seen once by order alone.

    Do:
        `seatrial audit RUN` shows the table next to its model. Gaps seen once are measured again
        automatically if rounds allow; otherwise repeat the test with `seatrial io`. For persistent
        gaps, check timeline and stalls. Do not plan with a `too_fast` test before it has been
        measured for longer than caches and burst credit last.
    """
    several = len({each.cell.target for each in context.cells}) > 1
    return [
        _finding(context.run.id, audit, each, several=several)
        for audit in audits_of(context)
        for each in audit.gaps
        if _is_reported(audit, each)
    ]


def _is_reported(audit: TableAudit, each: Gap) -> bool:
    """Return whether to report a gap here; ``nothing_completed`` reports measured absent cells."""
    return each.kind != "bound_broken" and (each.kind != "absent" or audit.table.imported)


class GapFigures(Figures, frozen=True, kw_only=True, tag="gap"):
    class_: GapKind = msgspec.field(name="class")
    status: GapStatus
    cells_count: int
    observed_over_predicted_ratio: float
    gap_limit_log: float | None
    scale_log: float | None
    rounds_share_median: float | None
    is_by_model: bool
    drain_mib_per_s: float | None
    each: Annotated[Gap, HIDDEN]
    run_id: Annotated[str, HIDDEN]
    audit: Annotated[TableAudit, HIDDEN]
    points: Annotated[list[TablePoint], HIDDEN]
    is_of_several_targets: Annotated[bool, HIDDEN]

    def text(self) -> FindingText:
        sentence = self.each.sentence
        if self.is_of_several_targets:
            sentence = f"On {self.audit.table.target}, {sentence[0].lower()}{sentence[1:]}"
        return FindingText(
            sentence=sentence,
            cause=self.each.cause,
            next=_next(self.run_id, self.audit, self.each, self.points[0]),
        )


def _finding(run_id: str, audit: TableAudit, each: Gap, *, several: bool) -> Finding:
    points = [point for point in audit.table.points if point.key in each.keys]
    return Finding(
        severity=gap_severity(audit, each),
        cells=[identity_of(audit.table, point) for point in points],
        figures=GapFigures(
            class_=each.kind,
            status=each.status,
            cells_count=len(points),
            observed_over_predicted_ratio=each.ratio,
            gap_limit_log=None if audit.scale_log is None else gap_limit_log(audit.scale_log),
            scale_log=audit.scale_log,
            rounds_share_median=audit.rounds_share_median,
            is_by_model=audit.holds,
            drain_mib_per_s=each.drain_mib_per_s,
            each=each,
            run_id=run_id,
            audit=audit,
            points=points,
            is_of_several_targets=several,
        ),
    )


def gap_severity(audit: TableAudit, each: Gap) -> str:
    """Return the severity of a gap: ``warning``, or ``note`` if it only explains figures."""
    is_by_order_once = not audit.holds and each.status == "seen_once" and each.kind != "absent"
    is_note = is_by_order_once or (each.kind in NOTES and each.status != "persistent")
    return "note" if is_note else "warning"


def _next(run_id: str, audit: TableAudit, each: Gap, point: TablePoint) -> str:
    if each.kind == "start_transient":
        return (
            "Wait between the fill and the first test, or measure several rounds, whose order "
            "differs."
        )
    if each.kind == "too_fast":
        return _next_of_too_fast(audit, point)
    if each.status == "persistent":
        return (
            "Check the timeline, the stalls and the slowest requests of these tests in the report "
            "('seatrial report')."
        )
    if not audit.table.imported:
        return f"Measure it again to confirm it: 'seatrial audit {run_id} --remeasure'."
    return f"Measure it again to confirm it: '{_io_command(audit, point)} --rounds 5'."


def _next_of_too_fast(audit: TableAudit, point: TablePoint) -> str:
    return (
        "Do not plan with this figure before it has been measured for longer than caches and "
        "burst credit last, on previously written blocks and more data than the caches can hold: "
        f"'{_io_command(audit, point)} --seconds 120 --rounds 3'."
    )


def _io_command(audit: TableAudit, point: TablePoint) -> str:
    size = format_size(point.block_size_bytes).replace(" ", "")
    depth = f" --depth {point.depth}" if point.depth > 1 else ""
    return (
        f"seatrial io TARGET --operation {audit.table.operation} --block-size {size} "
        f"--threads {point.threads}{depth}"
    )
