"""Finding ``misaligned``: partitions, volumes or data are not aligned to stripes or chunks."""

from __future__ import annotations

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import format_plural
from seatrial.trials.layouts.analysis.model import variant_of


@from_samples(rank=360, section="Layouts", sees_faults=True)
def misaligned(context: Context) -> list[Finding]:
    """Find misaligned layouts, merged by reason.

    Means:
        Partitions, volumes or data on an array are not aligned to its stripes or chunks.

    Decided:
        From the layout as built: offsets of partitions, volumes and data, and the stripe geometry
        in the file system. Warning; one finding per reason.

    Do:
        Remove the option that shifts the data.
    """
    by_reason: dict[str, list[CellSummary]] = {}
    for summary in context.cells:
        records = [sample.layout for sample in summary.samples if sample.layout]
        for reason in dict.fromkeys(reason for record in records for reason in record.misaligned):
            by_reason.setdefault(reason, []).append(summary)
    return [_finding(reason, concerned) for reason, concerned in by_reason.items()]


class MisalignedFigures(Figures, frozen=True, kw_only=True, tag="misaligned"):
    layouts: list[str]
    reason: str

    def text(self) -> FindingText:
        count = len(self.layouts)
        named = self.layouts[0] if count == 1 else format_plural(count, "layout")
        return FindingText(
            sentence=f"{named}: {self.reason.rstrip('.')}.",
            cause=(
                "A misaligned request accesses two chunks or two stripes instead of one, and "
                "parity arrays need additional reads (read-modify-write)."
            ),
            next=(
                "Remove the option that shifts the data. Alignment is set by stride and "
                "stripe_width (mkfs.ext4), su and sw (mkfs.xfs), --dataalignment (LVM), and a "
                "partition start at 1 MiB."
            ),
        )


def _finding(reason: str, concerned: list[CellSummary]) -> Finding:
    layouts = list(dict.fromkeys(v.label for c in concerned if (v := variant_of(c))))
    return Finding(
        severity="warning",
        cells=identities(concerned),
        figures=MisalignedFigures(layouts=layouts, reason=reason),
    )
