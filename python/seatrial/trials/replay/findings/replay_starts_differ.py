"""Finding ``replay_starts_differ``: samples of a replay did not begin with the same data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_plural
from seatrial.trials.replay.analysis.starts import StartDifference, start_differences, start_words

ORDER: Final = ("rows", "contents", "sequence", "source", "restore", "checkpoint", "rows_estimated")
"""What tells most comes first."""


@from_samples(rank=70, section="Of a replay", sees_replays=True)
def replay_starts_differ(context: Context) -> list[Finding]:
    """Find replays whose samples began with other rows, sequences or files than the first.

    Means:
        The samples of a replay did not all begin with the same data: with another number of rows in
        a table, or other values in them, another next value of a sequence, or, of copied files, at
        another checkpoint; or the database that is copied was written to, or the command that
        restores did nothing. Their times cannot be compared.

    Decided:
        Before each sample the state is looked at: sequences, rows and contents (tables are read up
        to 64 MiB of them, the smallest first; of larger ones the estimate of `ANALYZE` counts,
        which may differ by 10 %), the last checkpoint of copied files, rows written to a database
        that is copied. A command did nothing if it wrote less than 512 bytes of log after a replay
        that wrote more, and not all tables were read
        ([method.md](method.md#replays-from-one-snapshot)). It is held against the first sample with
        the same data and schema, whatever the target. Critical, and exit code 4; warning where only
        estimates differ. With `clone = "reuse"` data go on from sample to sample on demand, and are
        not compared.

    Do:
        Try the restore by hand; see that nobody else is connected; load all targets with the same
        dump.
    """
    found = start_differences(sample for each in context.cells for sample in each.samples)
    if not found:
        return []
    ordered = sorted(found, key=lambda each: ORDER.index(each.what))
    concerned = {each.sample.cell.key for each in found}
    cells = [each for each in context.cells if each.cell.key in concerned]
    starts = {(each.sample.cell.key, each.sample.round) for each in found}
    return [
        Finding(
            kind="replay_starts_differ",
            severity="warning" if _is_estimated(found) else "critical",
            cells=identities(cells),
            sentence=f"{context.of_cells(cells)}: the replays did not begin with the same data; "
            f"{start_words(ordered[0])}{_others(len(ordered) - 1)}.",
            cause=(
                "Estimates of ANALYZE differ by more than chance; the tables were too large to be "
                "counted."
                if _is_estimated(found)
                else "What should bring the snapshot back did not, or somebody else works in the "
                "database, or the targets were loaded with different data. Replays that begin "
                "otherwise are another load: their times say nothing of the storage."
            ),
            evidence={
                "differences_count": len(found),
                "starts_count": len(starts),
                **{f"{what}_count": sum(each.what == what for each in found) for what in ORDER},
            },
            next=(
                "Try the restore by hand and compare the tables named; see to it that nobody else "
                "is connected, then measure anew."
            ),
        )
    ]


def _others(count: int) -> str:
    return f" ({format_plural(count, 'more difference')})" if count else ""


def _is_estimated(found: Sequence[StartDifference]) -> bool:
    return all(each.what == "rows_estimated" for each in found)
