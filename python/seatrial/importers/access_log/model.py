"""What an access log holds, by URL pattern. Pure data."""

from __future__ import annotations

import msgspec


class PageSums(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one pattern.

    Attributes:
        calls: Requests that were served (status below 400) and timed.
        total_s: Their times together.
        errors: Requests of status 400 and above; no part of ``calls``.
        slice_calls: By number of the slice, requests that ended in it.
        slice_total_s: Their times, likewise.
    """

    calls: int
    total_s: float
    errors: int
    slice_calls: dict[int, int]
    slice_total_s: dict[int, float]


class AccessLog(msgspec.Struct, frozen=True, kw_only=True):
    """One access log, or several pieces of one.

    Attributes:
        pages: By pattern with method, such as ``GET /order/:n``.
        begin_s: Time of the first request, in Unix time; None where the log has no times.
        end_s: Of the last one.
        slice_s: Length of a slice; 0 where the log has no times.
        slices: How many there are, from that of the first request to that of the last.
        lines: Lines that were read.
        unread: Lines that are no request.
        untimed: Requests without a time.
        only_errors: Requests of patterns of which none was served: all had status 400 and above.
        static: Requests of static files (scripts, styles, images), which are left out.
        others: Requests of patterns that were too many to be told apart.
        others_s: Their time.
        time_source: Where the time stands, and its unit, as a phrase.
    """

    pages: dict[str, PageSums]
    begin_s: float | None
    end_s: float | None
    slice_s: float
    slices: int
    lines: int
    unread: int
    untimed: int
    only_errors: dict[str, int]
    static: int
    others: int
    others_s: float
    time_source: str
