"""Summary of a replay's IDs: how many were mapped, and on what evidence."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from seatrial.results.replay import REPLAY, ReplayContent, ReplayIdClass, ReplayIds, TableDifference
from seatrial.stats.wording import format_count, format_first, format_plural

REASONS: Final = {
    "several_draws": "several inserts may have generated it",
    "which_row": "from a multi-row insert, row unknown",
    "not_drawn": "no insert before its first use may have generated it",
    "not_drawn_in_time": "the insert that generates it was not answered in time",
    "draw_failed": "the statement that generated it failed in the replay",
    "random": "random value without a known order",
    "sequence_elsewhere": "its sequence does not match the start of the log",
    "no_order": "its sequence does not generate values in order",
    "several_sources": "its values come from several sequences",
    "bound": "range condition (<, >, BETWEEN), which cannot be mapped",
    "spelling": "unsupported notation",
    "expression": "part of an expression, which cannot be mapped",
    "shared": "one value for several columns with different IDs",
    "draw_other_rows": "the insert returned another number of rows",
    "draw_returns_nothing": "the insert returns nothing",
    "given_again": "its sequence was restarted and generated it again",
}
"""Why IDs were not mapped, in words."""

LOCATIONS: Final = {
    "function": "function arguments",
    "unknown_table": "statements with tables that are not in the catalogue (temporary tables)",
    "not_understood": "statements that could not be parsed",
    "text": "texts or JSON, without enough evidence that they are IDs",
}
"""Where values occur that may be IDs, in words."""


class IdSums(msgspec.Struct, frozen=True, kw_only=True):
    """IDs of all columns together.

    Attributes:
        exact: Traced by the values returned in the capture.
        proved: Only one insert can have generated them.
        by_pattern: Inferred from a pattern of the proved ones.
        unresolved: Not mapped, by reason, the most frequent first.
        not_generated: Existed before the capture; correctly not mapped.
        not_followed: Values that may be IDs and were not mapped, by where they occur, the most
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
        """IDs that were traced to the insert that generated them."""
        return self.exact + self.proved + self.by_pattern

    @property
    def unmapped(self) -> int:
        """IDs that were not mapped."""
        return sum(self.unresolved.values())

    @property
    def generated(self) -> int:
        """IDs that were generated during the capture, as far as known."""
        return self.mapped + self.unmapped

    @property
    def unresolved_share(self) -> float:
        """Share of the generated IDs that were not mapped."""
        return self.unmapped / self.generated if self.generated else 0.0


def id_sums(ids: ReplayIds) -> IdSums:
    """Return the IDs of all columns together."""
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
            location: count for location, count in Counter(ids.not_followed).most_common() if count
        },
    )


def ids_sentence(ids: ReplayIds) -> str:
    """Return the outcome for IDs: ``16,000 of 16,000 IDs were mapped, 0 unresolved``."""
    if ids.mode == "off":
        return "IDs were sent as captured"
    sums = id_sums(ids)
    if not sums.generated:
        return "No statement uses an ID that was generated during the capture"
    levels = {
        "exact": sums.exact,
        "proved": sums.proved,
        "by pattern": sums.by_pattern,
    }
    parts = ", ".join(f"{format_count(count)} {name}" for name, count in levels.items() if count)
    how = f" ({parts})" if parts else ""
    return (
        f"{format_count(sums.mapped)} of {format_plural(sums.generated, 'ID')} were mapped{how}, "
        f"{format_count(sums.unmapped)} unresolved"
    )


def reason_text(reason: str) -> str:
    """Return why IDs were not mapped, or where they occur."""
    return REASONS.get(reason) or LOCATIONS.get(reason) or reason.replace("_", " ")


def not_followed_sentence(ids: ReplayIds) -> str:
    """Return how many possible IDs occur where IDs are not tracked; empty if there are none."""
    locations = id_sums(ids).not_followed
    count = sum(locations.values())
    if not count:
        return ""
    counts = "; ".join(
        f"{format_count(n)} in {reason_text(location)}" for location, n in locations.items()
    )
    were, ids_phrase = ("was", "an ID") if count == 1 else ("were", "IDs")
    return (
        f"{format_plural(count, 'value')} that may be {ids_phrase} {were} not mapped, because IDs "
        f"are not tracked there: {counts}"
    )


def capture_share(ids: ReplayIds) -> float | None:
    """Return the share of unresolved IDs that a capture on the wire would have resolved.

    Such a capture has the values returned to clients. An ID counts by the share of its candidate
    inserts that returned their values. None if no ID is unresolved, for a capture on the wire, or
    if it was not counted.
    """
    sums = id_sums(ids)
    if not sums.unmapped or sums.exact:
        return None
    resolved = 0
    for each in ids.classes:
        if each.unresolved_given_back is None:
            return None
        resolved += each.unresolved_given_back
    return resolved / sums.unmapped


def capture_helps(ids: ReplayIds) -> bool:
    """Return whether a capture on the wire may have resolved more IDs."""
    return not id_sums(ids).exact and capture_share(ids) != 0


def mismatches(ids: ReplayIds) -> list[ReplayIdClass]:
    """Return the columns whose sequence does not match the start of the log, as far as known."""
    return [
        each
        for each in ids.classes
        if each.next_value_log is not None
        and each.next_value_target is not None
        and each.next_value_log != each.next_value_target
    ]


TABLES_MAX: Final = 3
"""Number of tables that a sentence names."""
COLUMNS_MAX: Final = 3


def content_sentence(content: ReplayContent) -> str:
    """Return the result of the comparison, without a full stop."""
    if not content.against:
        return f"Table contents were not compared: {content.reason}"
    reference = reference_text(content)
    tables = format_plural(content.tables, "table")
    if content.different:
        return f"Rows differ from {reference} in {differences(content)}"
    sentence = f"The rows of {tables} equal {reference} ({format_count(content.rows)} rows)"
    if content.not_compared:
        others = format_plural(len(content.not_compared), "table")
        sentence += f"; {others} {'was' if len(content.not_compared) == 1 else 'were'} not compared"
    if content.not_judged:
        columns = format_first(content.not_judged, COLUMNS_MAX)
        sentence += f"; columns with timestamps or random values ignored: {columns}"
    return sentence


def reference_text(content: ReplayContent) -> str:
    """Return what the rows are compared with: ``the capture``."""
    return str(content.file) if content.against == REPLAY else "the capture"


def differences(content: ReplayContent) -> str:
    """Return which tables differ: ``1 of 5 tables: 36 of 600 rows of public.orders (seen)``."""
    tables = [_difference(each) for each in content.different[:TABLES_MAX]]
    more = len(content.different) - len(tables)
    if more:
        tables.append(f"{format_plural(more, 'more table')}")
    of = f"{format_count(len(content.different))} of {format_plural(content.tables, 'table')}"
    return f"{of}: {', '.join(tables)}"


def _difference(table: TableDifference) -> str:
    rows = max(table.rows_captured, table.rows_now)
    text = f"{format_count(table.rows_different)} of {format_plural(rows, 'row')} of {table.name}"
    if table.rows_captured != table.rows_now:
        captured, now = format_count(table.rows_captured), format_count(table.rows_now)
        text += f" (now {now} rows, captured {captured})"
    columns = format_first([*table.columns], COLUMNS_MAX)
    return f"{text} ({columns})" if columns else text
