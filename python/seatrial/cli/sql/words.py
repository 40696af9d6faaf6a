"""Words of the commands of ``seatrial sql``: reasons, times, bars."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Final

from seatrial.stats.wording import format_duration_s, moment

BARS: Final = "▁▂▃▄▅▆▇█"
NOTHING: Final = " "


def words_of(reason: str) -> str:
    """Return a reason's name as words: ``copy_data`` is ``copy data``."""
    return reason.replace("_", " ")


def span_text(started_at: float, ended_at: float) -> str:
    """Return a span of the clock: ``2026-11-21 07:45 UTC to 08:03 UTC, 18 min``.

    Args:
        started_at: Its begin, as Unix time in s.
        ended_at: Its end, likewise.
    """
    length = format_duration_s(ended_at - started_at)
    begin, end = moment(started_at), moment(ended_at)
    same_day = begin[:10] == end[:10]
    if begin == end:
        second = datetime.datetime.fromtimestamp(started_at, datetime.UTC).strftime("%S")
        return f"{begin.removesuffix(' UTC')}:{second} UTC, {length}"
    return f"{begin} to {end[11:] if same_day else end}, {length}"


def bars(values: Sequence[float]) -> str:
    """Return one sign a value, as high as its share of the largest; blank for zero."""
    highest = max(values, default=0)
    return "".join(_bar(value / highest) if value > 0 else NOTHING for value in values)


def _bar(share: float) -> str:
    return BARS[min(len(BARS) - 1, int(share * len(BARS)))]
