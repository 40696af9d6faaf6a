"""Requests summed by pattern and by slice of time while a log is read, in bounded memory."""

from __future__ import annotations

from typing import Final

from seatrial.importers.access_log.folding import fold, is_static
from seatrial.importers.access_log.model import PageSums

SLICES_MAX: Final = 512
PATTERNS_MAX: Final = 2_000
TARGETS_HELD_MAX: Final = 1 << 16
SERVED_BELOW: Final = 400
TOOK_S_MAX: Final = 7 * 86_400.0
"""No request takes longer; a figure above is no time."""


class _Page:
    """One pattern while it is summed; ``timeline`` is ``[calls, total_s]`` by slice since 1970."""

    __slots__ = ("calls", "errors", "timeline", "total_s")

    def __init__(self) -> None:
        self.calls = 0
        self.total_s = 0.0
        self.errors = 0
        self.timeline: dict[int, list[float]] = {}


class Pages:
    """Sums of requests.

    At most 2,000 patterns are told apart: when there are more, the half with the least time goes
    to the others. At most 512 slices: with more, each becomes twice as long. A target that was
    folded before is looked up, of the last 65,536 ones.
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
        """Add one request; ``at_s`` is when it was logged, in Unix time; None of no known time."""
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
        """Return the sums of patterns that were served, those with the most time first."""
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
        """Return the requests of patterns of which none was served."""
        return {
            pattern: page.errors
            for pattern, page in self._pages.items()
            if page.errors and not page.calls
        }

    def _pattern(self, method: str, target: str) -> str:
        """Return the pattern of a target, and keep it; empty for a static file."""
        if len(self._patterns) >= TARGETS_HELD_MAX:
            self._patterns.clear()
        folded = fold(target)
        pattern = "" if is_static(folded) else f"{method} {folded}"
        self._patterns[(method, target)] = pattern
        return pattern

    def _new(self, pattern: str) -> _Page:
        if len(self._pages) >= PATTERNS_MAX:
            self._let_go()
        page = self._pages[pattern] = _Page()
        return page

    def _let_go(self) -> None:
        """Put the half of the patterns with the least time to the others."""
        ranked = sorted(self._pages, key=lambda each: self._pages[each].total_s)
        for pattern in ranked[: len(ranked) // 2]:
            page = self._pages.pop(pattern)
            self.others += page.calls
            self.others_s += page.total_s

    def _widened(self, at_s: float) -> int:
        """Return the slice of a time, after slices were made so long that they are few enough."""
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
