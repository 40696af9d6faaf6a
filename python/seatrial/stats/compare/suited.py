"""What forbids a comparison: the sides measured different things, whatever their cells say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from seatrial.errors import UsageError
from seatrial.results.model import Sample
from seatrial.results.origin import origin_of
from seatrial.stats.compare.model import Entrant
from seatrial.stats.compare.pairing import VIRTUAL_ENGINES, Matched
from seatrial.stats.wording import format_size
from seatrial.topic import topics

ANYWAY: Final = "or compare them regardless with --anyway"


def require_suited(a: Entrant, b: Entrant, matched: Matched, *, anyway: bool) -> list[str]:
    """Return what should forbid the comparison as warnings, if it is wanted anyway.

    Raises:
        UsageError: When something forbids it, and it is not wanted anyway.
    """
    errors = list(_reasons(a, b, matched))
    if errors and not anyway:
        raise errors[0]
    return [f"{error.seen} {error.cause}" for error in errors]


def _reasons(a: Entrant, b: Entrant, matched: Matched) -> Iterator[UsageError]:
    yield from _engines(a, b, matched)
    yield from _labs(a, b)
    yield from _sizes(a, b, matched)
    yield from _ways(a, b, matched)
    for topic in topics():
        yield from topic.unlike(a, b, matched)


def _engines(a: Entrant, b: Entrant, matched: Matched) -> Iterator[UsageError]:
    """Find a simulated or null target against a real one; of an import the engine is unknown."""
    kinds = [
        {_engine_kind(sample.engine) for samples in side for sample in samples}
        for side in ([c.a for c in matched.cells], [c.b for c in matched.cells])
    ]
    only = [next(iter(each)) for each in kinds if len(each) == 1]
    if len(only) == 2 and only[0] != only[1]:
        yield UsageError(
            seen=f"{a.side.name} was measured on a {only[0]} target, {b.side.name} on a "
            f"{only[1]} one",
            cause="A simulation and the engine alone say nothing of a device",
            next_step=f"Compare like with like, {ANYWAY}",
        )


def _labs(a: Entrant, b: Entrant) -> Iterator[UsageError]:
    """Find a side that was measured in the lab against one that was not."""
    of_lab, *others = sorted((a, b), key=lambda each: not _is_of_lab(each))
    if _is_of_lab(of_lab) and not any(_is_of_lab(each) for each in others):
        yield UsageError(
            seen=f"{of_lab.side.name} was measured in the lab, {others[0].side.name} was not",
            cause="In the lab ratios and counts hold, absolute speed does not",
            next_step=f"Compare two runs of the lab, or two of real drives, {ANYWAY}",
        )


def _is_of_lab(entrant: Entrant) -> bool:
    machine = entrant.side.run.fingerprint_before.get("machine")
    return isinstance(machine, dict) and bool(machine.get("lab"))


def _engine_kind(engine: str) -> str:
    return engine if engine in VIRTUAL_ENGINES else "real"


def _sizes(a: Entrant, b: Entrant, matched: Matched) -> Iterator[UsageError]:
    """Find trial files of different size: the smaller one sits in more cache."""
    for cell in matched.cells:
        size_a_bytes, size_b_bytes = _size_bytes(a, cell.a), _size_bytes(b, cell.b)
        if None not in (size_a_bytes, size_b_bytes) and size_a_bytes != size_b_bytes:
            reported = [format_size(each or 0) for each in (size_a_bytes, size_b_bytes)]
            if reported[0] == reported[1]:
                reported = [f"{size_a_bytes} bytes", f"{size_b_bytes} bytes"]
            yield UsageError(
                seen=f"{a.side.name} used {reported[0]} of its target, {b.side.name} {reported[1]} "
                f"({cell.key})",
                cause="Of the smaller one a larger part lies in caches, and a shorter way is "
                "left to seek",
                next_step=f"Measure both with the same --size, {ANYWAY}",
            )
            return


def _size_bytes(entrant: Entrant, samples: Sequence[Sample]) -> int | None:
    """Return the size of the file or range that a cell used; None where it is not known."""
    size_bytes = samples[0].cell.spec.get("target", {}).get("size_bytes")
    if size_bytes:
        return int(size_bytes)
    origin = origin_of(entrant.side.run)
    return origin.file_bytes if origin else None


def _ways(a: Entrant, b: Entrant, matched: Matched) -> Iterator[UsageError]:
    """Find cells that went past the page cache on one side only, or wrote other data."""
    for cell in matched.cells:
        spec_a, spec_b = cell.a[0].cell.spec, cell.b[0].cell.spec
        direct = [spec.get("target", {}).get("direct") for spec in (spec_a, spec_b)]
        data = [spec.get("data", {}).get("kind") for spec in (spec_a, spec_b)]
        if None not in direct and direct[0] != direct[1]:
            past, through = (a, b) if direct[0] else (b, a)
            yield UsageError(
                seen=f"{past.side.name} went past the page cache (O_DIRECT), {through.side.name} "
                f"through it ({cell.key})",
                cause="One measured the device, the other memory",
                next_step=f"Measure both with or both without --buffered, {ANYWAY}",
            )
            return
        if None not in data and data[0] != data[1]:
            yield UsageError(
                seen=f"{a.side.name} wrote data of kind {data[0]!r}, {b.side.name} of kind "
                f"{data[1]!r} ({cell.key})",
                cause="Drives and file systems that compress or leave out zeros are faster with "
                "such data",
                next_step=f"Measure both with the same 'data', {ANYWAY}",
            )
            return
