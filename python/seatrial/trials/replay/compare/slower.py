"""What surely is slower by more than somebody would stand, in words; and what may be.

Surely is what the interval's near end says, where there is one, and what is left of the factor
after the noise: a floor that decides whether something is slower at all decides by how much, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from seatrial.trials.replay.compare.model import Batch, BeforeAfter, Change, Overall, Table
from seatrial.trials.replay.compare.settled import Judging, judges
from seatrial.trials.replay.compare.verdict import (
    as_fast_words,
    batch_words,
    change_words,
    once_of,
    speed_words,
)
from seatrial.trials.replay.compare.warnings import noun_of

NAMED_MAX = 3
TEXT_MAX = 60


Answered = Change | Overall | Batch


def slower_by(found: BeforeAfter, share: float) -> list[str]:
    """Return what surely is slower, by more than a share: the whole, then single ones.

    Args:
        found: What was compared.
        share: 0.05 for five percent.
    """
    return _reported(found, lambda each, by: each.answer == "slower" and by > share)


def perhaps_slower_by(found: BeforeAfter, share: float) -> list[str]:
    """Return what was seen to be slower by more than a share, but not surely; as ``slower_by``."""

    def is_open(each: Answered, by: float) -> bool:
        return 1 / each.speed_up.value - 1 > share and not (each.answer == "slower" and by > share)

    return _reported(found, is_open)


def _reported(found: BeforeAfter, is_reported: Callable[[Answered, float], bool]) -> list[str]:
    """Return in words what is to be told, by its answer and by what share it surely is slower."""
    reported = []
    for table in (found.queries, found.pages):
        if table is not None:
            reported += list(_of_table(table, is_reported))
    for batch in found.batches:
        judging = Judging(basis="in_sequence", margin_share=0.0, floor=batch.floor)
        if is_reported(batch, _surely_by(batch, judging)):
            reported.append(batch_words(batch))
    return reported


def _of_table(table: Table, is_reported: Callable[[Answered, float], bool]) -> Iterator[str]:
    once = once_of(table)
    of_whole, of_each = judges(table.basis, table.margin_share, table.floor)
    overall = table.overall
    if overall and is_reported(overall, _surely_by(overall, of_whole)):
        words = speed_words if overall.answer == "slower" else as_fast_words
        yield f"average {noun_of(table.before)} {words(overall.speed_up, once=once)}"
    slow = [each for each in table.changes if is_reported(each, _surely_by(each, of_each))]
    slow.sort(key=lambda each: each.speed_up.value)
    yield from _named(slow, once)


def _named(slow: Sequence[Change], once: str) -> Iterator[str]:
    for each in slow[:NAMED_MAX]:
        text = each.text if len(each.text) <= TEXT_MAX else f"{each.text[: TEXT_MAX - 4]} ..."
        yield f"{text} {change_words(each, once=once).replace('?', '')}"
    if len(slow) > NAMED_MAX:
        yield f"and {len(slow) - NAMED_MAX} more"


def _surely_by(each: Answered, judging: Judging) -> float:
    """Return by what share something surely is slower, or less than 0 where it may be faster."""
    speed_up = each.speed_up
    least = math.exp(-math.log(speed_up.value) - judging.noise_log(speed_up))
    if speed_up.high is not None:
        least = min(least, 1 / speed_up.high)
    return least - 1
