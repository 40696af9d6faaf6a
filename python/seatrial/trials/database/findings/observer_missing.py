"""Finding ``observer_missing``: what could not be monitored or prepared for a database."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Final

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_plural
from seatrial.trials.database.analysis.model import records_of

NOTES_SHOWN_MAX: Final = 3


class ObserverMissingFigures(Figures, frozen=True, kw_only=True, tag="observer_missing"):
    samples_count: int
    notes: dict[str, int]
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        notes = list(self.notes)[:NOTES_SHOWN_MAX]
        more = len(self.notes) - len(notes)
        return FindingText(
            sentence=(
                "Monitoring or preparation was incomplete in "
                f"{format_plural(self.samples_count, 'sample')} of {self.concerned}: "
                f"{'. '.join(notes)}"
                f"{f', and {more} more' if more > 0 else ''}."
            ),
            cause=(
                "This user lacks permissions, the kernel or the server does not report the figure, "
                "or the server was too busy to answer. The figures that are present are not "
                "affected; missing ones are not judged."
            ),
            next=(
                "If the missing figures matter, run as root, or grant the role pg_monitor "
                "(GRANT pg_monitor TO ROLE). 'seatrial check DIR' lists what can be monitored here."
            ),
        )


@from_samples(rank=640, section="Databases", sees_faults=True, sees_replays=True)
def observer_missing(context: Context) -> list[Finding]:
    """Find the notes of database samples, the most frequent first.

    Means:
        Something could not be monitored or prepared, so a column or the breakdown of reads is
        missing, or the start state is not the requested one.

    Decided:
        The notes of the samples, the most frequent first. Note.

    Do:
        If the missing figures matter, run as root, or grant the server's role `pg_monitor`.
    """
    counts: Counter[str] = Counter()
    for summary in context.cells:
        for record in records_of(summary.samples):
            counts.update({note.rstrip(".") for note in record.notes})
    if not counts:
        return []
    concerned = [c for c in context.cells if any(r.notes for r in records_of(c.samples))]
    samples = sum(bool(r.notes) for c in concerned for r in records_of(c.samples))
    notes = dict(counts.most_common())
    return [
        Finding(
            severity="note",
            cells=identities(concerned),
            figures=ObserverMissingFigures(
                samples_count=samples,
                notes=notes,
                concerned=context.affected_cells(concerned),
            ),
        )
    ]
