"""Finding ``files_ended_early``: a file workload ended before its time, by files or by bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.model import Sample
from seatrial.stats.cell_estimates import counted
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import format_plural
from seatrial.study.units import format_seconds
from seatrial.trials.filebench.study import FILEBENCH

OUT_OF_FILES: Final = "files_ended_by_out_of_files"
LIMIT: Final = "files_ended_by_limit"


class FilesEndedEarlyFigures(Figures, frozen=True, kw_only=True, tag="files_ended_early"):
    samples_count: int
    out_of_files_count: int
    duration_s_min: float
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        after = format_seconds(self.duration_s_min)
        ended = format_plural(self.samples_count, "sample")
        if self.out_of_files_count:
            return FindingText(
                sentence=f"{ended} of {self.concerned} ran out of files, the first after {after}.",
                cause="A thread found no file to open, create or delete, as the set is too small "
                "for the duration",
                next="Use more files (--set nfiles=NUMBER) or a shorter --seconds; if the "
                "workload should end this way, add to its file: set mode quit firstdone",
            )
        return FindingText(
            sentence=f"{ended} of {self.concerned} reached the limit of written bytes, the first "
            f"after {after}.",
            cause="A sample ends when it has written as much as the plan allows",
            next="Raise it (--limit), or measure for a shorter time (--seconds)",
        )


@from_samples(rank=236, section="Time")
def files_ended_early(context: Context) -> list[Finding]:
    """Find file workloads that ended before their time because of files or bytes.

    Means:
        A sample of a file workload is shorter than planned: a thread found no file that it could
        open, create or delete, or as much was written as the plan allows.

    Decided:
        The engine says why a sample ended. Warning.

    Do:
        Use more files or a shorter duration; raise the limit of written bytes.
    """
    own = [each for each in context.cells if each.cell.kind == FILEBENCH]
    return [
        finding
        for reason in (OUT_OF_FILES, LIMIT)
        if (finding := _ended_by(reason, own, context)) is not None
    ]


def _ended_by(reason: str, own: Sequence[CellSummary], context: Context) -> Finding | None:
    early = {each.cell.key: _early(each, reason) for each in own}
    concerned = [each for each in own if early[each.cell.key]]
    if not concerned:
        return None
    samples = [sample for each in concerned for sample in early[each.cell.key]]
    figures = FilesEndedEarlyFigures(
        samples_count=len(samples),
        out_of_files_count=len(samples) if reason == OUT_OF_FILES else 0,
        duration_s_min=min(each.duration_s for each in samples),
        concerned=context.affected_cells(concerned),
    )
    return Finding(severity="warning", cells=identities(concerned), figures=figures)


def _early(summary: CellSummary, reason: str) -> list[Sample]:
    return [each for each in counted(summary.samples) if reason in each.counters]
