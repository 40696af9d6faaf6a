"""Finding ``not_repeatable``: the rounds of a cell do not agree."""

from __future__ import annotations

from seatrial.findings.context import Context, identities, number
from seatrial.findings.rule import from_samples
from seatrial.stats.estimates import counted, rounds_needed
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.running import running_per_s
from seatrial.stats.wording import format_cell, format_count, format_iops, format_share
from seatrial.topic import topic_of

SPREAD_RATIO_MAX = 1.5
PRECISION_SHARE_DEFAULT = 0.05


@from_samples(rank=450, section="Time", sees_replays=True)
def not_repeatable(context: Context) -> list[Finding]:
    """Find cells whose rounds differ by half or more, and cells wider than was asked.

    Means:
        The rounds of a cell do not agree, or not well enough.

    Decided:
        Warning: the fastest round is more than 1.5 times the slowest, or a round completed nothing.
        Note: the interval is still wider than the study asked after its last round; the note tells
        how many rounds the asked precision would take if they spread like those measured. A cell
        measured once is not judged.

    Do:
        Look at timeline and stalls of the slow round; measure the cell alone and longer; allow more
        rounds or longer samples.
    """
    precision_share = asked_precision_share(context)
    own = [c for c in context.cells if not topic_of(c.cell).judges_rounds(c.cell)]
    repeated = [c for c in own if c.iops.rounds > 1]
    spread = [c for c in repeated if spread_ratio(c) > SPREAD_RATIO_MAX]
    wide = [c for c in repeated if c not in spread and _is_wide(c, precision_share)]
    found = [_spread_finding(context, spread)] if spread else []
    return found + ([_wide_finding(context, wide, precision_share)] if wide else [])


def asked_precision_share(context: Context) -> float:
    """Return the share within which the study asked each interval to be."""
    return number(context.run.study, "rounds", "precision") or PRECISION_SHARE_DEFAULT


def rounds_per_s(summary: CellSummary) -> list[float]:
    """Return the rate of each round in its running phase."""
    return [running_per_s(sample) for sample in counted(summary.samples)]


def spread_ratio(summary: CellSummary) -> float:
    """Return the fastest round over the slowest; infinite where a round completed nothing."""
    rates = rounds_per_s(summary)
    if max(rates) == 0:
        return 1.0
    return max(rates) / min(rates) if min(rates) > 0 else float("inf")


def _is_wide(summary: CellSummary, precision_share: float) -> bool:
    share = summary.iops.half_width_share
    return share is not None and share > precision_share


def _spread_finding(context: Context, concerned: list[CellSummary]) -> Finding:
    worst = max(concerned, key=spread_ratio)
    rates = rounds_per_s(worst)
    slowest, fastest = format_iops(min(rates)), format_iops(max(rates))
    command = topic_of(worst.cell).command_for(worst.cell)
    nouns = {"tps": "transactions", "statements/s": "statements"}
    unit = nouns.get(worst.iops.unit, "requests")
    return Finding(
        kind="not_repeatable",
        severity="warning",
        cells=identities(concerned),
        sentence=(
            f"The rounds of {context.of_cells(concerned)} do not agree; the worst "
            f"({format_cell(worst.cell)}) did {slowest} {unit}/s in one round and {fastest} in "
            f"another of {len(rates)}."
        ),
        cause=(
            "Something changed between rounds: a cache that fills and drains, garbage collection, "
            "heat, burst credit of a cloud volume, a noisy neighbour, or a stall in one round. "
            "The rounds are in random order, so it is not the order."
        ),
        evidence={
            "cells_count": len(concerned),
            "spread_ratio_max": max(rates) / min(rates) if min(rates) > 0 else None,
            "spread_ratio_allowed": SPREAD_RATIO_MAX,
            "worst_cell": worst.cell.key,
            "worst_rounds_per_s": rates,
        },
        next=(
            "Look at the timeline and the stalls of the slow round; measure the cell alone and "
            f"longer with '{command}' to see whether it settles, and at which of the two rates."
        ),
    )


def _wide_finding(
    context: Context, concerned: list[CellSummary], precision_share: float
) -> Finding:
    shares = [c.iops.half_width_share or 0.0 for c in concerned]
    needed = [rounds_needed(c.iops, precision_share) for c in concerned]
    known = [rounds for rounds in needed if rounds is not None]
    if len(known) == len(needed):
        reported = f"about {format_count(max(known))} rounds would reach it everywhere"
    else:
        reported = "more than a thousand rounds would not reach it everywhere"
    return Finding(
        kind="not_repeatable",
        severity="note",
        cells=identities(concerned),
        sentence=(
            f"The interval of {context.of_cells(concerned)} is wider than the asked "
            f"± {format_share(precision_share)} (up to ± {format_share(max(shares))}); {reported}."
        ),
        cause="The budget of rounds or time ended before the rounds agreed well enough.",
        evidence={
            "cells_count": len(concerned),
            "precision_share_asked": precision_share,
            "half_width_share_max": max(shares),
            "rounds_measured_min": min(c.iops.rounds for c in concerned),
            "rounds_needed_max": max(known) if len(known) == len(needed) else None,
        },
        next="Allow more rounds or a longer budget in the study, or longer samples.",
    )
