"""Finding ``observer_missing``: what could not be seen or done beside a database's samples."""

from __future__ import annotations

from collections import Counter
from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_plural
from seatrial.trials.database.analysis.samples import records_of

TOLD_MAX: Final = 3


@from_samples(rank=640, section="Of a database", sees_faults=True, sees_replays=True)
def observer_missing(context: Context) -> list[Finding]:
    """Find the notes that samples of databases bear, the most frequent first.

    Means:
        Something could not be read or done beside the samples of a database, so that a column, the
        split of the reads or a start state is missing or not as asked.

    Decided:
        The samples' own notes, the most frequent first. Note.

    Do:
        Run as root, or give the server's role `pg_monitor`, where what is missing matters.
    """
    counts: Counter[str] = Counter()
    for summary in context.cells:
        for record in records_of(summary.samples):
            counts.update({note.rstrip(".") for note in record.notes})
    if not counts:
        return []
    concerned = [c for c in context.cells if any(r.notes for r in records_of(c.samples))]
    samples = sum(bool(r.notes) for c in concerned for r in records_of(c.samples))
    reported = [note for note, _ in counts.most_common(TOLD_MAX)]
    more = len(counts) - len(reported)
    return [
        Finding(
            kind="observer_missing",
            severity="note",
            cells=identities(concerned),
            sentence=(
                f"Not all could be seen or done in {format_plural(samples, 'sample')} of "
                f"{context.of_cells(concerned)}: {'. '.join(reported)}"
                f"{f', and {more} more' if more > 0 else ''}."
            ),
            cause=(
                "Rights that this user lacks, a kernel or server that does not tell, or a server "
                "too busy to answer. Figures that are there are not touched by it; what is missing "
                "is not judged."
            ),
            evidence={"samples_count": samples, "notes": dict(counts.most_common())},
            next=(
                "Where it matters: run as root, or give the role pg_monitor "
                "(GRANT pg_monitor TO ROLE); 'seatrial check DIR' tells what this machine lets see."
            ),
        )
    ]
