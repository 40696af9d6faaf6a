"""Finding ``interrupted``: the result is partial."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_plural

RESUMABLE: Final = ("run", "study", "db", "lab")
"""Commands with the option --resume."""


class InterruptedFigures(Figures, frozen=True, kw_only=True, tag="interrupted"):
    run_status: str
    samples_count: int
    samples_cut_short_count: int
    context_run_command: Annotated[str, HIDDEN]

    def text(self) -> FindingText:
        text = f"the run has status '{self.run_status}'"
        if self.samples_cut_short_count:
            cut_short = format_plural(self.samples_cut_short_count, "sample")
            text += f" and {cut_short} ended early"
        return FindingText(
            sentence=f"The result is partial: {text}.",
            cause=_CAUSES.get(self.run_status, _CAUSES["interrupted"]),
            next=_next(self.context_run_command),
        )

    def in_short(self, cells_count: int) -> str:
        del cells_count
        return "the result is partial"


@from_samples(rank=300, section="Validity of the figures", sees_faults=True, sees_replays=True)
def interrupted(context: Context) -> list[Finding]:
    """Find a run that did not complete, and samples that were cut short.

    Means:
        The result is partial.

    Decided:
        The run is not marked complete, or a sample was cut short. A figure uses samples cut short
        only if their test has no complete one; their stalls and errors always count. Warning.

    Do:
        Run the same command again with `--resume`.
    """
    concerned = [c for c in context.cells if any(s.status != "complete" for s in c.samples)]
    cut_short = sum(s.status != "complete" for s in context.samples)
    if context.run.status == "complete" and not concerned:
        return []
    figures = InterruptedFigures(
        run_status=context.run.status,
        samples_count=len(context.samples),
        samples_cut_short_count=cut_short,
        context_run_command=context.run.command,
    )
    return [Finding(severity="warning", cells=identities(concerned), figures=figures)]


def is_resumable(command: str) -> bool:
    """Return whether a command line belongs to a command that can resume an unfinished run."""
    return any(word in RESUMABLE for word in command.split()[1:2])


def resuming(command: str, results: str = "") -> str:
    """Return the command line that resumes an unfinished run.

    Args:
        command: Command line of the run.
        results: The results file, quoted, if it is not the one that the command wrote to.
    """
    moved = f" --results {results}" if results else ""
    return f"{command.removesuffix(' --resume')}{moved} --resume"


def _next(command: str) -> str:
    if is_resumable(command):
        return f"Resume it with '{resuming(command)}'."
    return f"Measure it again with '{command}'."


_CAUSES = {
    "interrupted": "The run ended early (Ctrl-C, a signal, or its budget).",
    "running": "The run is still in progress, or it was killed before it could record its end.",
    "failed": "An error ended the run; all samples taken before it are stored.",
}
