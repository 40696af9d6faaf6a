"""Sums requests by pattern and time slice while a log is read, in bounded memory."""

from __future__ import annotations

import re
from typing import Final

import msgspec


class PageSums(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one pattern.

    Attributes:
        calls: Timed requests that succeeded (status below 400).
        total_s: Their total time.
        errors: Requests of status 400 and above; not included in ``calls``.
        slice_calls: By slice, requests that ended in it.
        slice_total_s: Their total time by slice.
    """

    calls: int
    total_s: float
    errors: int
    slice_calls: dict[int, int]
    slice_total_s: dict[int, float]


class AccessLog(msgspec.Struct, frozen=True, kw_only=True):
    """An access log of one or more files.

    Attributes:
        pages: By pattern with method, such as ``GET /order/:n``.
        begin_s: Time of the first request, in Unix time; None where the log has no times.
        end_s: Time of the last request.
        slice_s: Length of a slice; 0 where the log has no times.
        slices: Number of slices, from that of the first request to that of the last.
        lines: Lines that were read.
        unread: Lines that are not requests.
        untimed: Requests without a time.
        only_errors: Requests of patterns without any success: all had status 400 and above.
        static: Excluded requests of static files (scripts, styles, images).
        others: Requests of patterns beyond the limit.
        others_s: Their time.
        time_source: Column and unit of the time, as a phrase.
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


STATIC: Final = frozenset(
    {
        *("css", "js", "mjs", "map", "png", "jpg", "jpeg", "gif", "svg", "ico", "webp", "avif"),
        *("woff", "woff2", "ttf", "otf", "eot", "mp4", "webm", "mp3", "wasm"),
    }
)
SEGMENT_CHARACTERS_MAX: Final = 64
SEGMENTS_MAX: Final = 12

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_HEX: Final = re.compile(
    r"(?<![0-9A-Za-z])(?=[a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{8,}(?![0-9A-Za-z])"
)
_TOKEN: Final = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[0-9A-Za-z_-]{20,}={0,2}")
_VERSION: Final = re.compile(r"v\d{1,2}(?:\.\d{1,2})?")
_NUMBER: Final = re.compile(r"\d+")
_HOST: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*")


def fold(target: str) -> str:
    """Return the pattern of a request's target: ``/order/17?tab=2`` is ``/order/:n``.

    Query string, fragment and host are removed. Numbers become ``:n`` (``/report-2024.pdf`` is
    ``/report-:n.pdf``), UUIDs ``:uuid``, hexadecimal ids ``:hex``, long mixed tokens ``:id``; an
    API version such as ``v2`` is not an id and is not replaced.
    """
    path = target.partition("?")[0].partition("#")[0].partition(";")[0]
    if not path.startswith("/"):
        path = _HOST.sub("", path, count=1)
    segments = path.split("/")
    folded = [_segment(each) for each in segments[: SEGMENTS_MAX + 1]]
    if len(segments) > SEGMENTS_MAX + 1:
        folded.append("...")
    return "/".join(folded) or "/"


def is_static(pattern: str) -> bool:
    """Return whether a pattern is of a static file."""
    _, dot, ending = pattern.rpartition("/")[2].rpartition(".")
    return bool(dot) and ending.lower() in STATIC


def _segment(segment: str) -> str:
    if segment.isdecimal():
        return ":n"
    if not _NUMBER.search(segment):
        return segment if len(segment) <= SEGMENT_CHARACTERS_MAX else ":id"
    if _VERSION.fullmatch(segment):
        return segment
    folded = _UUID.sub(":uuid", segment)
    folded = _HEX.sub(":hex", folded)
    if _TOKEN.fullmatch(folded):
        return ":id"
    folded = _NUMBER.sub(":n", folded)
    return folded if len(folded) <= SEGMENT_CHARACTERS_MAX else ":id"


SLICES_MAX: Final = 512
PATTERNS_MAX: Final = 2_000
TARGETS_HELD_MAX: Final = 1 << 16
SERVED_BELOW: Final = 400
TOOK_S_MAX: Final = 7 * 86_400.0
"""No request takes longer; a larger number is not a time."""


class _Page:
    """The sums of one pattern; ``timeline`` is ``[calls, total_s]`` by slice since 1970."""

    __slots__ = ("calls", "errors", "timeline", "total_s")

    def __init__(self) -> None:
        self.calls = 0
        self.total_s = 0.0
        self.errors = 0
        self.timeline: dict[int, list[float]] = {}


class Pages:
    """Sums of requests.

    At most 2,000 patterns are distinguished: when there are more, the half with the least time is
    added to the others. There are at most 512 slices: with more, each becomes twice as long.
    Patterns of the last 65,536 targets are cached.
    """

    def __init__(self) -> None:
        self.slice_s = 1
        self.first: int | None = None
        self.last: int | None = None
        self.static = 0
        self.others = 0
        self.others_s = 0.0
        self._pages: dict[str, _Page] = {}
        self._patterns: dict[tuple[str, str], str] = {}

    def take(
        self, method: str, target: str, status: int, took_s: float, at_s: float | None
    ) -> None:
        """Add one request; ``at_s`` is its Unix time; None if unknown."""
        pattern = self._patterns.get((method, target))
        if pattern is None:
            pattern = self._pattern(method, target)
        if not pattern:
            self.static += 1
            return
        page = self._pages.get(pattern)
        if page is None:
            page = self._new(pattern)
        if status >= SERVED_BELOW:
            page.errors += 1
            return
        page.calls += 1
        page.total_s += took_s
        if at_s is None:
            return
        number = int(at_s) // self.slice_s
        if self.first is None or self.last is None or not self.first <= number <= self.last:
            number = self._widened(at_s)
        sums = page.timeline.get(number)
        if sums is None:
            page.timeline[number] = [1, took_s]
        else:
            sums[0] += 1
            sums[1] += took_s

    def finished(self) -> dict[str, PageSums]:
        """Return the sums of patterns with a success, most time first."""
        first = self.first or 0
        served = {pattern: page for pattern, page in self._pages.items() if page.calls}
        return {
            pattern: PageSums(
                calls=page.calls,
                total_s=page.total_s,
                errors=page.errors,
                slice_calls={at - first: int(sums[0]) for at, sums in page.timeline.items()},
                slice_total_s={at - first: sums[1] for at, sums in page.timeline.items()},
            )
            for pattern, page in sorted(served.items(), key=lambda item: -item[1].total_s)
        }

    def only_errors(self) -> dict[str, int]:
        """Return the number of requests of patterns without any success."""
        return {
            pattern: page.errors
            for pattern, page in self._pages.items()
            if page.errors and not page.calls
        }

    def _pattern(self, method: str, target: str) -> str:
        """Return the pattern of a target, by the cache; empty for a static file."""
        if len(self._patterns) >= TARGETS_HELD_MAX:
            self._patterns.clear()
        folded = fold(target)
        pattern = "" if is_static(folded) else f"{method} {folded}"
        self._patterns[(method, target)] = pattern
        return pattern

    def _new(self, pattern: str) -> _Page:
        if len(self._pages) >= PATTERNS_MAX:
            self._evict()
        page = self._pages[pattern] = _Page()
        return page

    def _evict(self) -> None:
        """Add the half of the patterns with the least time to the others."""
        ranked = sorted(self._pages, key=lambda each: self._pages[each].total_s)
        for pattern in ranked[: len(ranked) // 2]:
            page = self._pages.pop(pattern)
            self.others += page.calls
            self.others_s += page.total_s

    def _widened(self, at_s: float) -> int:
        """Return the slice of a time, after lengthening the slices if there are too many."""
        while True:
            number = int(at_s) // self.slice_s
            first = number if self.first is None else min(self.first, number)
            last = number if self.last is None else max(self.last, number)
            if last - first < SLICES_MAX:
                self.first, self.last = first, last
                return number
            self._lengthen()

    def _lengthen(self) -> None:
        self.slice_s *= 2
        if self.first is not None and self.last is not None:
            self.first, self.last = self.first // 2, self.last // 2
        for page in self._pages.values():
            longer: dict[int, list[float]] = {}
            for number, sums in page.timeline.items():
                held = longer.setdefault(number // 2, [0, 0.0])
                held[0] += sums[0]
                held[1] += sums[1]
            page.timeline = longer
