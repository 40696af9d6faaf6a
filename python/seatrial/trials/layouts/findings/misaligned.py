"""Finding ``misaligned``: what lies on an array does not begin where its stripes or chunks do."""

from __future__ import annotations

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import format_plural
from seatrial.trials.layouts.analysis.samples import variant_of


@from_samples(rank=360, section="Of layouts", sees_faults=True)
def misaligned(context: Context) -> list[Finding]:
    """Find layouts that were built misaligned, those with the same reason merged.

    Means:
        What lies on an array does not begin where its stripes or chunks do.

    Decided:
        What was found as the layout was built: offsets of partitions, volumes and data, and what
        the file system knows of the stripes. Warning; one finding for each reason.

    Do:
        Leave out the option that moves it.
    """
    by_reason: dict[str, list[CellSummary]] = {}
    for summary in context.cells:
        records = [sample.layout for sample in summary.samples if sample.layout]
        for reason in dict.fromkeys(reason for record in records for reason in record.misaligned):
            by_reason.setdefault(reason, []).append(summary)
    return [_finding(reason, concerned) for reason, concerned in by_reason.items()]


def _finding(reason: str, concerned: list[CellSummary]) -> Finding:
    layouts = list(dict.fromkeys(v.label for c in concerned if (v := variant_of(c))))
    named = layouts[0] if len(layouts) == 1 else format_plural(len(layouts), "layout")
    return Finding(
        kind="misaligned",
        severity="warning",
        cells=identities(concerned),
        sentence=f"{named}: {reason.rstrip('.')}.",
        cause=(
            "A request that begins beside a boundary touches two chunks, or two stripes, in place "
            "of one: parity arrays then read what a whole stripe would not need."
        ),
        evidence={"layouts": layouts, "reason": reason},
        next=(
            "Leave out the option that moves it: mkfs.ext4 takes stride and stripe_width, mkfs.xfs "
            "su and sw, LVM --dataalignment, and partitions begin at 1 MiB."
        ),
    )
