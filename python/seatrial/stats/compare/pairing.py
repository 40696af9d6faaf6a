"""Matches the cells and rounds of two sides."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from seatrial.errors import UsageError
from seatrial.results.model import Sample, origin_of
from seatrial.stats.compare.model import SideSamples
from seatrial.stats.model import is_broken, natural_order
from seatrial.stats.wording import format_first, format_plural, format_size
from seatrial.study.cell import Cell, FactorValue
from seatrial.study.plan import usual_factors
from seatrial.topic import topics

CELLS_NAMED_MAX = 3
DISCLOSED_FACTORS = ("direct", "data", "compressible_share")
"""Factors that make two cells incomparable if they are the only difference."""
VIRTUAL_ENGINES = ("simulated", "null")

Factors = dict[str, FactorValue]


class CommonCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell of both sides.

    Attributes:
        key: Without the target; as A has it.
        identity: Its factors, as A has them; the target only where there are several.
        a: Its samples on side A.
        b: Its samples on side B.
    """

    key: str
    identity: Factors
    a: list[Sample]
    b: list[Sample]


class MatchedCells(msgspec.Struct, frozen=True, kw_only=True):
    """The matched cells of two sides.

    Attributes:
        cells: The common cells, in order of presentation.
        only_a: Keys, without the target, of those that B lacks.
        only_b: Keys, without the target, of those that A lacks.
        by_identity: Whether cells were matched by their factors, not by their keys.
    """

    cells: list[CommonCell]
    only_a: list[str]
    only_b: list[str]
    by_identity: bool = False


def without_failures(a: SideSamples, b: SideSamples) -> tuple[SideSamples, SideSamples, list[str]]:
    """Return two sides without cells with injected faults, and a warning if there were any.

    A rate over a failure depends on its time and on the length of the sample. If a side has nothing
    else, failures are compared with failures.
    """
    broken = {
        sample.cell.key_without_target for sample in (*a.samples, *b.samples) if is_broken(sample)
    }
    sound = [
        [s for s in each.samples if s.cell.key_without_target not in broken] for each in (a, b)
    ]
    if not broken or not all(sound):
        return a, b, []
    cells = format_plural(len(broken), "test")
    verb = "is" if len(broken) == 1 else "are"
    warning = (
        f"{cells} with injected faults {verb} excluded from the comparison: the rate depends on "
        "the time of the fault. The failure tables show them."
    )
    sides = (msgspec.structs.replace(e, samples=s) for e, s in zip((a, b), sound, strict=True))
    first, second = sides
    return first, second, [warning]


def identity_without_target(cell: Cell) -> Factors:
    """Return a cell's factors without the target."""
    return {name: value for name, value in cell.identity().items() if name != "target"}


def match(a: SideSamples, b: SideSamples) -> MatchedCells:
    """Return the cells of both sides, matched by key, or by factors if no key is common.

    By factors: operation, block size, threads, depth and all other factors except those with usual
    values, without target and workload. Cells with equal factors on one side are not matched.

    Raises:
        UsageError: When no cell is common; it lists the cells of each side, and a factor such as
            ``direct`` if that is the only difference.
    """
    cells_a, cells_b = _by_key(a.samples), _by_key(b.samples)
    if cells_a.keys() & cells_b.keys():
        return _joined(cells_a, cells_b, {key: key for key in cells_a.keys() & cells_b.keys()})
    pairs = _by_signature(cells_a, cells_b, _signature)
    if pairs:
        return _joined(cells_a, cells_b, pairs, by_identity=True)
    raise _nothing_common(a, b, cells_a, cells_b)


def match_regardless(a: SideSamples, b: SideSamples) -> MatchedCells:
    """As :func:`match`, but cells that differ in ``direct`` or ``data`` alone are matched too.

    Raises:
        UsageError: When no cell is common even so.
    """
    cells_a, cells_b = _by_key(a.samples), _by_key(b.samples)
    pairs = _by_signature(cells_a, cells_b, _signature_regardless)
    if cells_a.keys() & cells_b.keys() or not pairs:
        return match(a, b)
    return _joined(cells_a, cells_b, pairs, by_identity=True)


def _by_key(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    """Return the samples by key, in the order in which cells first appear.

    The key omits the target, except on a side with several targets, to distinguish their cells.
    """
    has_several_targets = _has_several_targets(samples)
    found: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        cell = sample.cell
        found[cell.key if has_several_targets else cell.key_without_target].append(sample)
    return dict(found)


def _has_several_targets(samples: Iterable[Sample]) -> bool:
    return len({sample.cell.target for sample in samples}) > 1


def _joined(
    cells_a: dict[str, list[Sample]],
    cells_b: dict[str, list[Sample]],
    pairs: dict[str, str],
    *,
    by_identity: bool = False,
) -> MatchedCells:
    """Return both sides joined; ``pairs`` leads from keys of A to keys of B."""
    taken = set(pairs.values())
    names_targets = not by_identity and _has_several_targets(itertools.chain(*cells_a.values()))
    identity_of = Cell.identity if names_targets else identity_without_target
    return MatchedCells(
        cells=[
            CommonCell(
                key=key,
                identity=identity_of(samples[0].cell),
                a=samples,
                b=cells_b[pairs[key]],
            )
            for key, samples in sorted(
                cells_a.items(), key=lambda item: natural_order(item[1][0].cell)
            )
            if key in pairs
        ],
        only_a=[key for key in cells_a if key not in pairs],
        only_b=[key for key in cells_b if key not in taken],
        by_identity=by_identity,
    )


Signature = tuple[tuple[str, str], ...]


def _signature(cell: Cell) -> Signature:
    """Return the factors of a cell, without its names and usual values."""
    usual = usual_factors(cell)
    factors = identity_without_target(cell)
    return tuple(
        sorted(
            (name, str(value))
            for name, value in factors.items()
            if name != "workload" and usual.get(name) != value
        )
    )


def _signature_regardless(cell: Cell) -> Signature:
    return tuple((name, value) for name, value in _signature(cell) if name not in DISCLOSED_FACTORS)


def _by_signature(
    cells_a: dict[str, list[Sample]],
    cells_b: dict[str, list[Sample]],
    signature: Callable[[Cell], Signature],
) -> dict[str, str]:
    """Return keys of A and B with equal factors, if unique on their sides."""
    by_signature = []
    for cells in (cells_a, cells_b):
        signatures = {key: signature(samples[0].cell) for key, samples in cells.items()}
        times = Counter(signatures.values())
        by_signature.append({each: key for key, each in signatures.items() if times[each] == 1})
    keys_a, keys_b = by_signature
    return {key: keys_b[each] for each, key in keys_a.items() if each in keys_b}


def _nothing_common(
    a: SideSamples,
    b: SideSamples,
    cells_a: dict[str, list[Sample]],
    cells_b: dict[str, list[Sample]],
) -> UsageError:
    near = _by_signature(cells_a, cells_b, _signature_regardless)
    seen = (
        f"{a.side.name} and {b.side.name} have no test in common: {_named(a, cells_a)}; "
        f"{_named(b, cells_b)}"
    )
    if near:
        key_a, key_b = next(iter(near.items()))
        first, second = cells_a[key_a][0].cell, cells_b[key_b][0].cell
        return UsageError(
            seen=seen,
            cause=f"The tests differ: {_disclosed(first, second)}",
            next_step=f"Measure both the same way, {ANYWAY}",
        )
    several = [each.side.name for each in (a, b) if targets_count(each) > 1]
    if len(several) == 1:
        return UsageError(
            seen=seen,
            cause=f"{several[0]} has several targets, and the other side has one",
            next_step=f"Specify the target after a colon, as in {several[0]}:TARGET",
        )
    return UsageError(
        seen=seen,
        cause="Tests match if operation, block size, threads, depth and all other factors are "
        "equal",
        next_step="List the tests with `seatrial show`; measure both with one study",
    )


def targets_count(one_side: SideSamples) -> int:
    """Return how many targets a side has."""
    return len({sample.cell.target for sample in one_side.samples})


def _disclosed(first: Cell, second: Cell) -> str:
    """Report in which of the disclosed factors two cells differ."""
    usual_a, usual_b = usual_factors(first), usual_factors(second)
    words = []
    for name in DISCLOSED_FACTORS:
        value_a = first.factors.get(name, usual_a.get(name))
        value_b = second.factors.get(name, usual_b.get(name))
        if value_a != value_b:
            a, b = map(_value_text, (value_a, value_b))
            words.append(f"{name} is {a} on one side and {b} on the other")
    return " and ".join(words)


def _value_text(value: FactorValue | None) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _named(one_side: SideSamples, cells: dict[str, list[Sample]]) -> str:
    if not cells:
        return f"{one_side.side.name} has no tests"
    keys = list(cells)
    listed = format_first(keys, CELLS_NAMED_MAX)
    return f"{one_side.side.name} has {format_plural(len(keys), 'test')} ({listed})"


def is_interleaved(a: SideSamples, b: SideSamples) -> bool:
    """Return whether each round of both sides was measured before the next round of either.

    True for two targets of one run, whose plan interleaves all cells of a round, and for two runs
    of several rounds measured alternately. An imported result has no such plan, and often no times.
    """
    if not a.samples or not b.samples or not _is_dated(a) or not _is_dated(b):
        return False
    if a.side.run.id == b.side.run.id and a.side.run.id and origin_of(a.side.run) is None:
        return True
    spans_a, spans_b = _spans_s(a.samples), _spans_s(b.samples)
    common = sorted(spans_a.keys() & spans_b.keys())
    if len(common) < 2:
        return False
    return all(
        max(spans_a[this][1], spans_b[this][1]) <= min(spans_a[later][0], spans_b[later][0])
        for this, later in itertools.pairwise(common)
    )


def _spans_s(samples: Iterable[Sample]) -> dict[int, tuple[float, float]]:
    """Return start and end (Unix time in s) of each round."""
    spans: dict[int, tuple[float, float]] = {}
    for sample in samples:
        begin_s, end_s = sample.started_at, sample.started_at + sample.duration_s
        first_s, last_s = spans.get(sample.round, (begin_s, end_s))
        spans[sample.round] = (min(first_s, begin_s), max(last_s, end_s))
    return spans


def order_warning(a: SideSamples, b: SideSamples) -> str:
    """Return a warning about the order of two sides that were not interleaved; empty if none.

    A simulated device uses virtual time, on which nothing drifts.
    """
    if _is_virtual(a.samples) and _is_virtual(b.samples):
        return ""
    if undated := [one_side.side.name for one_side in (a, b) if not _is_dated(one_side)]:
        return (
            f"The time at which {' and '.join(undated)} {'were' if len(undated) > 1 else 'was'} "
            "measured is unknown: a change of the machine in between would appear as a "
            "difference."
        )
    spans = [_whole_span_s(one_side.samples) for one_side in (a, b)]
    (begin_a_s, end_a_s), (begin_b_s, end_b_s) = spans
    if begin_a_s < end_b_s and begin_b_s < end_a_s:
        return (
            f"{a.side.name} and {b.side.name} were measured at the same time: they may have "
            "slowed each other down."
        )
    return (
        f"{a.side.name} and {b.side.name} were measured one after the other: a change of the "
        "machine in between would appear as a difference. A study with both as targets "
        "interleaves them."
    )


def _is_dated(one_side: SideSamples) -> bool:
    origin = origin_of(one_side.side.run)
    return origin is None or origin.is_dated


def _is_virtual(samples: Sequence[Sample]) -> bool:
    return all(sample.engine in VIRTUAL_ENGINES for sample in samples)


def _whole_span_s(samples: Sequence[Sample]) -> tuple[float, float]:
    spans = _spans_s(samples).values()
    return min(begin_s for begin_s, _ in spans), max(end_s for _, end_s in spans)


ANYWAY: Final = "or compare them with --anyway"


def require_suited(
    a: SideSamples, b: SideSamples, matched: MatchedCells, *, anyway: bool
) -> list[str]:
    """Return the obstacles to a comparison as warnings, if it is requested anyway.

    Raises:
        UsageError: When there is an obstacle, and the comparison is not requested anyway.
    """
    errors = list(_reasons(a, b, matched))
    if errors and not anyway:
        raise errors[0]
    return [f"{error.seen} {error.cause}" for error in errors]


def _reasons(a: SideSamples, b: SideSamples, matched: MatchedCells) -> Iterator[UsageError]:
    yield from _engines(a, b, matched)
    yield from _labs(a, b)
    yield from _sizes(a, b, matched)
    yield from _access_differences(a, b, matched)
    for topic in topics():
        yield from topic.comparison_obstacles(a, b, matched)


def _engines(a: SideSamples, b: SideSamples, matched: MatchedCells) -> Iterator[UsageError]:
    """Find a simulated or null target compared with a real one; imports have no known engine."""
    kinds = [
        {_engine_kind(sample.engine) for samples in side for sample in samples}
        for side in ([c.a for c in matched.cells], [c.b for c in matched.cells])
    ]
    only = [next(iter(each)) for each in kinds if len(each) == 1]
    if len(only) == 2 and only[0] != only[1]:
        yield UsageError(
            seen=f"{a.side.name} was measured on a {only[0]} target, {b.side.name} on a "
            f"{only[1]} target",
            cause="Results of a simulated target or of the null target do not apply to a device",
            next_step=f"Compare targets of the same kind, {ANYWAY}",
        )


def _labs(a: SideSamples, b: SideSamples) -> Iterator[UsageError]:
    """Find a side measured in the lab compared with one that was not."""
    of_lab, *others = sorted((a, b), key=lambda each: not _is_of_lab(each))
    if _is_of_lab(of_lab) and not any(_is_of_lab(each) for each in others):
        yield UsageError(
            seen=f"{of_lab.side.name} was measured in the lab, {others[0].side.name} was not",
            cause="In the lab, ratios and counts are valid, but absolute speed is not",
            next_step=f"Compare two lab runs, or two runs on real drives, {ANYWAY}",
        )


def _is_of_lab(one_side: SideSamples) -> bool:
    return bool(one_side.side.run.fingerprint_before.machine.lab)


def _engine_kind(engine: str) -> str:
    return engine if engine in VIRTUAL_ENGINES else "real"


def _sizes(a: SideSamples, b: SideSamples, matched: MatchedCells) -> Iterator[UsageError]:
    """Find trial files of different size: more of the smaller one fits in caches."""
    for cell in matched.cells:
        size_a_bytes, size_b_bytes = _size_bytes(a, cell.a), _size_bytes(b, cell.b)
        if size_a_bytes is None or size_b_bytes is None:
            continue
        if abs(size_a_bytes - size_b_bytes) > max(_rounded_bytes(cell.a), _rounded_bytes(cell.b)):
            texts = [format_size(each) for each in (size_a_bytes, size_b_bytes)]
            if texts[0] == texts[1]:
                texts = [f"{size_a_bytes} bytes", f"{size_b_bytes} bytes"]
            yield UsageError(
                seen=f"{a.side.name} used {texts[0]} of its target, {b.side.name} {texts[1]} "
                f"({cell.key})",
                cause="A larger part of a smaller file fits into caches, and seeks are shorter",
                next_step=f"Measure both with the same --size, {ANYWAY}",
            )
            return


def _rounded_bytes(samples: Sequence[Sample]) -> int:
    """Return what a range may lack because fio gives each thread an equal part, in whole blocks."""
    cell = samples[0].cell
    is_split = "offset_increment" in (cell.parsed.fio_options or {})
    return cell.threads * cell.block_size_bytes if is_split else 0


def _size_bytes(one_side: SideSamples, samples: Sequence[Sample]) -> int | None:
    """Return the size of the file or range that a cell used; None if unknown."""
    size_bytes = samples[0].cell.parsed.target.size_bytes
    if size_bytes:
        return int(size_bytes)
    origin = origin_of(one_side.side.run)
    return origin.file_bytes if origin else None


def _access_differences(
    a: SideSamples, b: SideSamples, matched: MatchedCells
) -> Iterator[UsageError]:
    """Find cells with direct I/O on one side only, with another kind of sync or other data."""
    for cell in matched.cells:
        spec_a, spec_b = cell.a[0].cell.spec, cell.b[0].cell.spec
        direct = [spec.get("target", {}).get("direct") for spec in (spec_a, spec_b)]
        data = [spec.get("data", {}).get("kind") for spec in (spec_a, spec_b)]
        if None not in direct and direct[0] != direct[1]:
            past, through = (a, b) if direct[0] else (b, a)
            yield UsageError(
                seen=f"{past.side.name} used direct I/O (O_DIRECT), {through.side.name} the page "
                f"cache ({cell.key})",
                cause="One measured the device, the other the page cache",
                next_step=f"Measure both with or both without --buffered, {ANYWAY}",
            )
            return
        syncs = [spec.get("sync_kind") for spec in (spec_a, spec_b) if spec.get("sync_every")]
        if len(syncs) == 2 and None not in syncs and syncs[0] != syncs[1]:
            yield UsageError(
                seen=f"{a.side.name} called {syncs[0]} after writes, {b.side.name} {syncs[1]} "
                f"({cell.key})",
                cause="fsync also makes times and other attributes of the file durable",
                next_step=f"Measure both with the same --sync-kind, {ANYWAY}",
            )
            return
        if None not in data and data[0] != data[1]:
            yield UsageError(
                seen=f"{a.side.name} wrote {data[0]!r} data, {b.side.name} {data[1]!r} data "
                f"({cell.key})",
                cause="Drives and file systems with compression or zero detection write such "
                "data faster",
                next_step=f"Measure both with the same 'data', {ANYWAY}",
            )
            return
