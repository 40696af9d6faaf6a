"""Finding ``interrupted``: the result is partial."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_plural

RESUMABLE: Final = ("run", "study", "db", "lab")
"""The commands that have --resume."""


@from_samples(rank=300, section="Whose number is it?", sees_faults=True, sees_replays=True)
def interrupted(context: Context) -> list[Finding]:
    """Find a run that did not end by itself, and samples that were cut short.

    Means:
        The result is partial.

    Decided:
        The run is not marked complete, or a sample was cut short. Samples cut short count in a
        figure only where their cell has no whole one; their stalls and errors always count.
        Warning.

    Do:
        The same command again with `--resume`.
    """
    concerned = [c for c in context.cells if any(s.status != "complete" for s in c.samples)]
    cut_short = sum(s.status != "complete" for s in context.samples)
    if context.run.status == "complete" and not concerned:
        return []
    reported = f"the run is marked '{context.run.status}'"
    if cut_short:
        reported += f" and {format_plural(cut_short, 'sample')} ended before their time"
    return [
        Finding(
            kind="interrupted",
            severity="warning",
            cells=identities(concerned),
            sentence=f"The result is partial: {reported}.",
            cause=_CAUSES.get(context.run.status, _CAUSES["interrupted"]),
            evidence={
                "run_status": context.run.status,
                "samples_count": len(context.samples),
                "samples_cut_short_count": cut_short,
            },
            next=_next(context.run.command),
        )
    ]


def is_resumable(command: str) -> bool:
    """Tell whether a command line is of a command that can go on with an unfinished run."""
    return any(word in RESUMABLE for word in command.split()[1:2])


def resuming(command: str, results: str = "") -> str:
    """Return the command line that goes on with the unfinished run of another.

    Args:
        command: Of the run.
        results: The results file, quoted, where it is not the one that the command wrote to.
    """
    moved = f" --results {results}" if results else ""
    return f"{command.removesuffix(' --resume')}{moved} --resume"


def _next(command: str) -> str:
    if is_resumable(command):
        return f"Go on where it stopped with '{resuming(command)}'."
    return f"Measure it again with '{command}'."


_CAUSES = {
    "interrupted": "Somebody or something ended the run early (Ctrl-C, a signal, its budget).",
    "running": "The run is still going, or it was killed before it could say that it ended.",
    "failed": "An error ended the run; what was measured until then is kept.",
}
