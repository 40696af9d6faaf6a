"""Finding ``replay_starts_differ``: samples of a replay did not start with the same data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import FLATTENED, HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_plural
from seatrial.trials.replay.analysis.starts import (
    StartDifference,
    start_difference_text,
    start_differences,
)

ORDER: Final = ("rows", "contents", "sequence", "source", "restore", "checkpoint", "rows_estimated")
"""The most informative first."""


class ReplayStartsDifferFigures(Figures, frozen=True, kw_only=True, tag="replay_starts_differ"):
    differences_count: int
    starts_count: int
    others: Annotated[dict[str, int], FLATTENED]
    concerned: Annotated[AffectedCells, HIDDEN]
    first: Annotated[StartDifference, HIDDEN]
    is_estimated: Annotated[bool, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{self.concerned}: the replays did not start with the same data: "
                f"{start_difference_text(self.first)}{_others(self.differences_count - 1)}."
            ),
            cause=(
                "Row estimates of ANALYZE differ by more than chance; the tables were too large "
                "to count."
                if self.is_estimated
                else "The restore did not bring back the snapshot, another client writes to the "
                "database, or the targets were loaded with different data. Replays with different "
                "data are different loads, so their times cannot be compared."
            ),
            next=(
                "Run the restore by hand and compare these tables. Make sure that no other client "
                "is connected, then measure again."
            ),
        )


@from_samples(rank=70, section="Replays", sees_replays=True)
def replay_starts_differ(context: Context) -> list[Finding]:
    """Find replays whose samples started with other rows, sequences or files than the first.

    Means:
        The samples of a replay did not all start with the same data: row counts or contents of a
        table, the next value of a sequence, or the last checkpoint of copied files differ; or the
        source database was written to, or the restore command did nothing. Their times cannot be
        compared.

    Decided:
        The state before each sample is recorded: sequences, row counts and contents (up to 64 MiB
        of tables are read, the smallest first; for larger ones the estimate of `ANALYZE` is used,
        which may differ by 10 %), the last checkpoint of copied files, rows written to the source
        database. A restore command did nothing if it wrote less than 512 bytes of WAL after a
        replay that wrote more, and not all tables were read
        ([method.md](method.md#replays-from-one-snapshot)). The state is compared with the first
        sample with the same data and schema, on any target. Critical, and exit code 4; warning if
        only estimates differ. With `clone = "reuse"` each sample continues with the data of the
        previous one, and nothing is compared.

    Do:
        Run the restore by hand, make sure that no other client is connected, and load all targets
        from the same dump.
    """
    found = start_differences(sample for each in context.cells for sample in each.samples)
    if not found:
        return []
    ordered = sorted(found, key=lambda each: ORDER.index(each.what))
    first = ordered[0]
    is_estimated = _is_estimated(found)
    concerned = {each.sample.cell.key for each in found}
    cells = [cell for cell in context.cells if cell.cell.key in concerned]
    starts = {(each.sample.cell.key, each.sample.round) for each in found}
    return [
        Finding(
            severity="warning" if is_estimated else "critical",
            cells=identities(cells),
            figures=ReplayStartsDifferFigures(
                differences_count=len(found),
                starts_count=len(starts),
                others={
                    f"{what}_count": sum(each.what == what for each in found) for what in ORDER
                },
                concerned=context.affected_cells(cells),
                first=first,
                is_estimated=is_estimated,
            ),
        )
    ]


def _others(count: int) -> str:
    return f" ({format_plural(count, 'more difference')})" if count else ""


def _is_estimated(found: Sequence[StartDifference]) -> bool:
    return all(each.what == "rows_estimated" for each in found)
