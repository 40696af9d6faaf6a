"""What weakens or forbids a comparison of replays: other traces, and loads not played whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seatrial.errors import UsageError
from seatrial.results.model import Sample
from seatrial.stats.compare.model import Entrant
from seatrial.stats.compare.pairing import Matched
from seatrial.stats.compare.suited import ANYWAY
from seatrial.stats.wording import format_plural
from seatrial.trials.replay.analysis.judgement import judge
from seatrial.trials.replay.analysis.loads import load_differences
from seatrial.trials.replay.analysis.samples import is_of_replay, played, replays
from seatrial.trials.replay.analysis.starts import sides_differ, start_words


def unlike_replays(a: Entrant, b: Entrant, matched: Matched) -> Iterator[UsageError]:
    """Yield why the replays of two sides are not one load: trace, how it was played, the data."""
    for cell in matched.cells:
        if not is_of_replay(cell.a[0].cell):
            continue
        first, second = cell.a[0].cell, cell.b[0].cell
        names = f"{a.side.name} and {b.side.name}"
        identities = {played(each).get("identity") for each in (first, second)} - {None, ""}
        if len(identities) > 1:
            yield UsageError(
                seen=f"{names} played different traces ({cell.key})",
                cause="Other statements take another time, on whatever storage; a trace that bears "
                "the same name may have been read anew",
                next_step=f"Replay the same file on both, {ANYWAY}",
            )
        if reported := load_differences(first, second):
            yield UsageError(
                seen=f"{names} are different loads ({cell.key}): {'; '.join(reported)}",
                cause="Times differ by what is sent and when, on whatever storage",
                next_step=f"Replay the trace in the same way on both, {ANYWAY}",
            )
        if begun := _begun_otherwise(cell.a, cell.b):
            yield UsageError(
                seen=f"{names} did not begin with the same data ({cell.key}): {begun}",
                cause="Replays that begin otherwise are another load",
                next_step="Bring the same snapshot back on both, and replay anew, or compare "
                "regardless with --anyway",
            )


def _begun_otherwise(a: Sequence[Sample], b: Sequence[Sample]) -> str:
    """Return what two sides began with otherwise, in words; empty where that is an estimate."""
    found = [each for each in sides_differ(a, b) if each.what != "rows_estimated"]
    if not found:
        return ""
    more = f" ({format_plural(len(found) - 1, 'more difference')})" if len(found) > 1 else ""
    return f"{start_words(found[0])}{more}"


def unwell_replays(a: Entrant, b: Entrant, matched: Matched) -> Iterator[str]:
    """Yield a sentence for each side that did not play what was captured."""
    for entrant, sides in ((a, [c.a for c in matched.cells]), (b, [c.b for c in matched.cells])):
        wrong = [reasons for samples in sides if (reasons := _reasons(samples))]
        if wrong:
            yield (
                f"On {entrant.side.name} {format_plural(len(wrong), 'replay')} did not do what was "
                f"captured ({wrong[0][0]}): what is compared is not the same load."
            )


def _reasons(samples: Sequence[Sample]) -> list[str]:
    """Return what went wrong in a cell's replays, the gravest of each round."""
    judged = [judge(record) for _, record in replays(samples)]
    return [each.reasons[0] for each in judged if not each.ok]
