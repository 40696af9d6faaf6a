"""Which cells of two sides are the same, and whether their rounds are."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from seatrial.errors import UsageError
from seatrial.results.model import Sample
from seatrial.results.origin import origin_of
from seatrial.stats.broken import is_broken
from seatrial.stats.compare.model import Entrant
from seatrial.stats.order import natural_order
from seatrial.stats.wording import format_plural
from seatrial.study.cell import Cell, FactorValue
from seatrial.study.cells import usual_factors

CELLS_NAMED_MAX = 3
DISCLOSED_FACTORS = ("direct", "data", "compressible_share")
"""Factors that make two cells incomparable, if only they differ."""
VIRTUAL_ENGINES = ("simulated", "null")

Factors = dict[str, FactorValue]


class CommonCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that both sides have.

    Attributes:
        key: Without the target; as A has it.
        identity: Its factors without the target; as A has them.
        a: Its samples on side A.
        b: Its samples on side B.
    """

    key: str
    identity: Factors
    a: list[Sample]
    b: list[Sample]


class Matched(msgspec.Struct, frozen=True, kw_only=True):
    """The cells of two sides.

    Attributes:
        cells: Those that both have, in the order that a reader expects.
        only_a: Keys, without the target, of those that B lacks.
        only_b: Keys, without the target, of those that A lacks.
        by_identity: Whether cells were matched by what they do, not by their keys.
    """

    cells: list[CommonCell]
    only_a: list[str]
    only_b: list[str]
    by_identity: bool = False


def without_failures(a: Entrant, b: Entrant) -> tuple[Entrant, Entrant, list[str]]:
    """Return two sides without cells in which something was broken, and a warning where any were.

    A rate over a failure hangs on when it came and how long one looked. Where a side has nothing
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
    cells = format_plural(len(broken), "cell")
    verb = "is" if len(broken) == 1 else "are"
    warning = (
        f"{cells} in which something was broken {verb} not compared: a rate "
        "over a failure hangs on when it came. The tables of failures have them."
    )
    sides = (msgspec.structs.replace(e, samples=s) for e, s in zip((a, b), sound, strict=True))
    first, second = sides
    return first, second, [warning]


def identity_without_target(cell: Cell) -> Factors:
    """Return a cell's factors without the target."""
    return {name: value for name, value in cell.identity().items() if name != "target"}


def match(a: Entrant, b: Entrant) -> Matched:
    """Return the cells of both sides, matched by key, or by what they do where no key is common.

    By what they do: operation, block size, threads, depth and all other factors but those of
    the usual value, without target and workload. Cells that do the same twice on a side are
    not matched so.

    Raises:
        UsageError: When no cell is common; it names what each side has, and a factor such as
            ``direct`` that alone keeps them apart.
    """
    cells_a, cells_b = _by_key(a.samples), _by_key(b.samples)
    if cells_a.keys() & cells_b.keys():
        return _joined(cells_a, cells_b, {key: key for key in cells_a.keys() & cells_b.keys()})
    pairs = _by_signature(cells_a, cells_b, _signature)
    if pairs:
        return _joined(cells_a, cells_b, pairs, by_identity=True)
    raise _nothing_common(a, b, cells_a, cells_b)


def match_regardless(a: Entrant, b: Entrant) -> Matched:
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

    The target is left out of the key, but of a side with several targets, whose cells it tells
    apart.
    """
    has_several_targets = len({sample.cell.target for sample in samples}) > 1
    found: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        cell = sample.cell
        found[cell.key if has_several_targets else cell.key_without_target].append(sample)
    return dict(found)


def _joined(
    cells_a: dict[str, list[Sample]],
    cells_b: dict[str, list[Sample]],
    pairs: dict[str, str],
    *,
    by_identity: bool = False,
) -> Matched:
    """Return both sides joined; ``pairs`` leads from keys of A to keys of B."""
    taken = set(pairs.values())
    return Matched(
        cells=[
            CommonCell(
                key=key,
                identity=identity_without_target(samples[0].cell),
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
    """Return what a cell does, without its names and its usual factors."""
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
    """Return keys of A and B whose cells do the same, if no other cell of their side does."""
    by_signature = []
    for cells in (cells_a, cells_b):
        signatures = {key: signature(samples[0].cell) for key, samples in cells.items()}
        times = Counter(signatures.values())
        by_signature.append({each: key for key, each in signatures.items() if times[each] == 1})
    keys_a, keys_b = by_signature
    return {key: keys_b[each] for each, key in keys_a.items() if each in keys_b}


def _nothing_common(
    a: Entrant, b: Entrant, cells_a: dict[str, list[Sample]], cells_b: dict[str, list[Sample]]
) -> UsageError:
    near = _by_signature(cells_a, cells_b, _signature_regardless)
    seen = (
        f"{a.side.name} and {b.side.name} have no cell in common: {_named(a, cells_a)}; "
        f"{_named(b, cells_b)}"
    )
    if near:
        key_a, key_b = next(iter(near.items()))
        first, second = cells_a[key_a][0].cell, cells_b[key_b][0].cell
        return UsageError(
            seen=seen,
            cause=f"{_disclosed(first, second)}: they measured different things",
            next_step="Measure both the same way, or compare them regardless with --anyway",
        )
    several = [each.side.name for each in (a, b) if _targets_count(each) > 1]
    if len(several) == 1:
        return UsageError(
            seen=seen,
            cause=f"{several[0]} has several targets, and the other side has one",
            next_step=f"Name the target behind a colon, as in {several[0]}:TARGET",
        )
    return UsageError(
        seen=seen,
        cause="Cells are the same when operation, block size, threads, depth and every other "
        "factor are",
        next_step="Look at the cells with `seatrial show`; measure both with one study",
    )


def _targets_count(entrant: Entrant) -> int:
    return len({sample.cell.target for sample in entrant.samples})


def _disclosed(first: Cell, second: Cell) -> str:
    """Say in which of the telling factors two cells differ."""
    usual_a, usual_b = usual_factors(first), usual_factors(second)
    words = []
    for name in DISCLOSED_FACTORS:
        value_a = first.factors.get(name, usual_a.get(name))
        value_b = second.factors.get(name, usual_b.get(name))
        if value_a != value_b:
            words.append(
                f"{name} is {_said(value_a)} on one side and {_said(value_b)} on the other"
            )
    return " and ".join(words)


def _said(value: FactorValue | None) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _named(entrant: Entrant, cells: dict[str, list[Sample]]) -> str:
    if not cells:
        return f"{entrant.side.name} has none"
    keys = list(cells)
    more = len(keys) - CELLS_NAMED_MAX
    listed = ", ".join(keys[:CELLS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"{entrant.side.name} has {format_plural(len(keys), 'cell')} ({listed})"


def is_interleaved(a: Entrant, b: Entrant) -> bool:
    """Tell whether each round of both sides was measured before the next round of either.

    So it is with two targets of one run, whose plan mixes all cells of a round, and with two
    runs of several rounds that were measured in turns. A foreign result has no such plan, and
    often no times.
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
    """Return from when to when (Unix time in s) each round was measured."""
    spans: dict[int, tuple[float, float]] = {}
    for sample in samples:
        begin_s, end_s = sample.started_at, sample.started_at + sample.duration_s
        first_s, last_s = spans.get(sample.round, (begin_s, end_s))
        spans[sample.round] = (min(first_s, begin_s), max(last_s, end_s))
    return spans


def order_warning(a: Entrant, b: Entrant) -> str:
    """Say what the order of two sides that were not interleaved may hide; empty if nothing.

    A simulated device stands on virtual time, on which nothing drifts.
    """
    if _is_virtual(a.samples) and _is_virtual(b.samples):
        return ""
    if undated := [entrant.side.name for entrant in (a, b) if not _is_dated(entrant)]:
        return (
            f"When {' and '.join(undated)} {'were' if len(undated) > 1 else 'was'} measured is not "
            "known: what changed on the machine meanwhile would look like a difference."
        )
    spans = [_whole_span_s(entrant.samples) for entrant in (a, b)]
    (begin_a_s, end_a_s), (begin_b_s, end_b_s) = spans
    if begin_a_s < end_b_s and begin_b_s < end_a_s:
        return (
            f"{a.side.name} and {b.side.name} were measured at the same time: they may have "
            "slowed each other down."
        )
    return (
        f"{a.side.name} and {b.side.name} were measured one after the other: a drift of the "
        "machine between them would look like a difference. One study with both as targets "
        "interleaves them."
    )


def _is_dated(entrant: Entrant) -> bool:
    origin = origin_of(entrant.side.run)
    return origin is None or origin.is_dated


def _is_virtual(samples: Sequence[Sample]) -> bool:
    return all(sample.engine in VIRTUAL_ENGINES for sample in samples)


def _whole_span_s(samples: Sequence[Sample]) -> tuple[float, float]:
    spans = _spans_s(samples).values()
    return min(begin_s for begin_s, _ in spans), max(end_s for _, end_s in spans)
