"""What weakens a comparison, as sentences."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from seatrial.results.model import Sample
from seatrial.results.origin import origin_of
from seatrial.stats.compare.durability import unlike_servers
from seatrial.stats.compare.figures import COMPLETED
from seatrial.stats.compare.model import Comparand, Comparison, Entrant
from seatrial.stats.compare.pairing import Matched, order_warning
from seatrial.stats.wording import format_duration_s, format_identity, format_plural, format_share
from seatrial.topic import topic_of, topics

LENGTH_RATIO_MAX = 1.5
NAMED_MAX = 3


def warnings_of(
    a: Entrant, b: Entrant, matched: Matched, reported: Comparison, unlike_starts: Sequence[str]
) -> list[str]:
    """Return what weakens a comparison, the gravest first.

    Args:
        a: The measure.
        b: What is judged.
        matched: Their cells.
        reported: What was found, but for warnings and verdict.
        unlike_starts: Keys of cells of which some samples have a start-up phase and others none.
    """
    found = [
        *_zeros(a, b, matched),
        *(words for topic in topics() for words in topic.weakened(a, b, matched)),
        *unlike_servers(a, b),
        "" if reported.paired else order_warning(a, b),
        _unknown_surroundings(a),
        _unknown_surroundings(b),
        _unfinished(a),
        _unfinished(b),
        *_once(reported.comparands),
        _unlike_lengths(a, b, matched),
        _unlike_starts(a, b, unlike_starts),
        _below_noise(reported),
        "" if not matched.by_identity else _by_identity(a, b),
        _one_sided(a, matched.only_a, b),
        _one_sided(b, matched.only_b, a),
    ]
    return [sentence for sentence in found if sentence]


def _zeros(a: Entrant, b: Entrant, matched: Matched) -> Iterator[str]:
    for entrant, sides in ((a, [c.a for c in matched.cells]), (b, [c.b for c in matched.cells])):
        blank = [
            cell.key
            for cell, samples in zip(matched.cells, sides, strict=True)
            if any(sample.outcome.completed == 0 for sample in samples)
        ]
        if blank:
            yield (
                f"On {entrant.side.name} nothing completed in some round of "
                f"{format_plural(len(blank), 'cell')} ({_listed(blank, a, b)}): a ratio of what is "
                "left has no interval and no part in the overall ratio."
            )


def _unknown_surroundings(entrant: Entrant) -> str:
    if entrant.side.run.fingerprint_before:
        return ""
    imported = "it was imported" if origin_of(entrant.side.run) else "no fingerprint was taken"
    return (
        f"Nothing is known of the machine and target of {entrant.side.name}, as {imported}: what "
        "differs there cannot be told."
    )


def _unfinished(entrant: Entrant) -> str:
    run = entrant.side.run
    if run.status == "complete":
        return ""
    return f"{entrant.side.name} is a partial result: its run is {run.status}."


def _once(comparands: Sequence[Comparand]) -> Iterator[str]:
    rates = [each for each in comparands if each.figure in COMPLETED]
    once = [each for each in rates if min(each.a.rounds, each.b.rounds) < 2]
    if once:
        which = "Every cell was" if len(once) == len(rates) else _cells_were(len(once))
        yield (
            f"{which} measured once on one side or both: whether a difference is real cannot be "
            "told. Measure several rounds."
        )


def _cells_were(count: int) -> str:
    return f"{format_plural(count, 'cell was', 'cells were')}"


def _unlike_lengths(a: Entrant, b: Entrant, matched: Matched) -> str:
    """Say when samples of one side are much longer: caches, bursts and heat look different then."""
    # What ends with its bytes, or its trace, is shorter on the faster side; that is no fault.
    timed = [
        _length_s(cell.b) / _length_s(cell.a)
        for cell in matched.cells
        if not cell.a[0].cell.spec.get("limit", {}).get("bytes")
        and _length_s(cell.a) > 0
        and not topic_of(cell.a[0].cell).has_given_work(cell.a[0].cell)
    ]
    if not timed:
        return ""
    typical = statistics.median(timed)
    if 1 / LENGTH_RATIO_MAX < typical < LENGTH_RATIO_MAX:
        return ""
    lengths = [
        format_duration_s(statistics.median(_length_s(each) for each in samples))
        for samples in ([c.a for c in matched.cells], [c.b for c in matched.cells])
    ]
    return (
        f"Samples are {lengths[0]} long on {a.side.name} and {lengths[1]} on {b.side.name}: "
        "caches, burst credit and heat show in the longer ones only."
    )


def _unlike_starts(a: Entrant, b: Entrant, unlike: Sequence[str]) -> str:
    """Say where some samples of a cell have a start-up phase, and others have none."""
    if not unlike:
        return ""
    return (
        f"Not every round of {format_plural(len(unlike), 'cell')} ({_listed(unlike, a, b)}) has a "
        "start-up phase: all are compared from where it ends, and what it cost or gave is not "
        "compared."
    )


def _length_s(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.duration_s for sample in samples)


def _below_noise(reported: Comparison) -> str:
    count = sum(each.below_noise for each in reported.comparands)
    if not count or not reported.noise:
        return ""
    floor = format_share(reported.noise_share or 0)
    differ = "differs" if count == 1 else "differ"
    return (
        f"{format_plural(count, 'figure')} {differ} by no more than {reported.a.name} "
        f"and {reported.noise.name}, which are the same thing "
        f"(95 % of cells within {floor}): not called real."
    )


def _by_identity(a: Entrant, b: Entrant) -> str:
    return (
        f"The cells of {a.side.name} and {b.side.name} have no key in common; they are matched "
        "by operation, block size, threads, depth and the other factors that both name."
    )


def _one_sided(entrant: Entrant, keys: Sequence[str], other: Entrant) -> str:
    if not keys:
        return ""
    return (
        f"{format_plural(len(keys), 'cell')} of {entrant.side.name} ({_listed(keys, entrant)}) "
        f"{'has' if len(keys) == 1 else 'have'} no counterpart on {other.side.name}."
    )


def _listed(keys: Sequence[str], *entrants: Entrant) -> str:
    """Return the first few cells of these keys, which are without the target, in words."""
    samples = [sample for entrant in entrants for sample in entrant.samples]
    cells = {sample.cell.key_without_target: sample.cell for sample in samples}
    reported = []
    for key in keys[:NAMED_MAX]:
        identity = cells[key].identity()
        del identity["target"]
        reported.append(format_identity(identity))
    more = len(keys) - NAMED_MAX
    return "; ".join(reported) + (f" and {more} more" if more > 0 else "")
