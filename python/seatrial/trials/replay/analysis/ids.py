"""What became of a replay's ids, as one: how many were mapped, and on what evidence."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from seatrial.results.replay_ids import ReplayIdClass, ReplayIds
from seatrial.stats.wording import format_count, format_plural

REASONS: Final = {
    "several_draws": "several draws can have given it",
    "which_row": "of a batch of rows, and which row is not known",
    "not_drawn": "no draw can have given it before its first use",
    "not_drawn_in_time": "its draw was not answered in time",
    "draw_failed": "the statement that drew it failed here",
    "random": "random values have no order to tell them by",
    "sequence_elsewhere": "its sequence does not stand where the log begins",
    "no_order": "its sequence does not give values in the order of the draws",
    "several_sources": "its values come from several sequences",
    "bound": "a bound (<, >, BETWEEN), which cannot be mapped",
    "spelling": "it is spelled in a way that is not read",
    "expression": "it is a part of an expression, which cannot be mapped",
    "shared": "one value of several columns, and not the same id in all of them",
    "given_again": "its sequence began again, and gave it more than once",
}
"""Why ids were left alone, in words."""

PLACES: Final = {
    "function": "handed to functions",
    "unknown_table": "in statements with tables that are not in the catalogue (temporary ones)",
    "not_understood": "in statements that are not understood",
    "text": "within texts or JSON, without enough evidence that they are ids",
}
"""Where values go of which it is not known whether they are ids, in words."""


class IdSums(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of all columns together.

    Attributes:
        exact: Traced by what came back when captured.
        proved: That one draw alone can have given.
        by_pattern: Known by what the proved ones have in common.
        unresolved: Left alone, by reason, the most frequent first.
        not_generated: That were there before; rightly left alone.
        not_followed: Values that may be ids and were left alone, by where they go, the most
            frequent first.
    """

    exact: int
    proved: int
    by_pattern: int
    unresolved: dict[str, int]
    not_generated: int
    not_followed: dict[str, int] = {}

    @property
    def mapped(self) -> int:
        """Ids that were traced to the draw that gave them."""
        return self.exact + self.proved + self.by_pattern

    @property
    def left_alone(self) -> int:
        """Ids that were not."""
        return sum(self.unresolved.values())

    @property
    def generated(self) -> int:
        """Ids that a draw of the capture gave, as far as is known."""
        return self.mapped + self.left_alone

    @property
    def unresolved_share(self) -> float:
        """Of the generated ones, those that were left alone."""
        return self.left_alone / self.generated if self.generated else 0.0


def id_sums(ids: ReplayIds) -> IdSums:
    """Return the ids of all columns together."""
    reasons: Counter[str] = Counter()
    for each in ids.classes:
        reasons.update(each.unresolved)
    return IdSums(
        exact=sum(each.exact for each in ids.classes),
        proved=sum(each.proved for each in ids.classes),
        by_pattern=sum(each.by_pattern for each in ids.classes),
        unresolved={reason: count for reason, count in reasons.most_common() if count},
        not_generated=sum(each.not_generated for each in ids.classes),
        not_followed={
            place: count for place, count in Counter(ids.not_followed).most_common() if count
        },
    )


def ids_sentence(ids: ReplayIds) -> str:
    """Return what became of the ids: ``16,000 of 16,000 ids were mapped, 0 unresolved``."""
    if ids.mode == "off":
        return "Ids were sent as captured"
    sums = id_sums(ids)
    if not sums.generated:
        return "No statement names an id that the captured server made meanwhile"
    levels = {
        "exact": sums.exact,
        "proved": sums.proved,
        "by pattern": sums.by_pattern,
    }
    reported = ", ".join(f"{format_count(count)} {name}" for name, count in levels.items() if count)
    how = f" ({reported})" if reported else ""
    return (
        f"{format_count(sums.mapped)} of {format_plural(sums.generated, 'id')} were mapped{how}, "
        f"{format_count(sums.left_alone)} unresolved"
    )


def reason_words(reason: str) -> str:
    """Return why ids were left alone, or where they go."""
    return REASONS.get(reason) or PLACES.get(reason) or reason.replace("_", " ")


def not_followed_sentence(ids: ReplayIds) -> str:
    """Return what may be ids in places where these are not followed; empty for nothing."""
    places = id_sums(ids).not_followed
    count = sum(places.values())
    if not count:
        return ""
    reported = "; ".join(f"{format_count(n)} {reason_words(place)}" for place, n in places.items())
    are, ids_words = ("is", "an id") if count == 1 else ("are", "ids")
    return (
        f"{format_plural(count, 'value')} that may be {ids_words} {are} where ids are not "
        f"followed, and left alone: {reported}"
    )


def capture_share(ids: ReplayIds) -> float | None:
    """Return the share of unresolved ids that a capture on the wire would have resolved.

    It has the values that clients were given. An id counts by the draws that can have given it: of
    one of which half gave theirs back, half. None where none are unresolved, where it was such a
    capture, or where it was not counted.
    """
    sums = id_sums(ids)
    if not sums.left_alone or sums.exact:
        return None
    resolved = 0
    for each in ids.classes:
        if each.unresolved_given_back is None:
            return None
        resolved += each.unresolved_given_back
    return resolved / sums.left_alone


def mismatches(ids: ReplayIds) -> list[ReplayIdClass]:
    """Return the columns whose sequence does not stand where the log begins, as far as is known."""
    return [
        each
        for each in ids.classes
        if each.next_value_log is not None
        and each.next_value_target is not None
        and each.next_value_log != each.next_value_target
    ]
