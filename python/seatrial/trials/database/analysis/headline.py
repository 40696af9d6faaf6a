"""What a database did, in the few words at the top of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from seatrial.stats.compare.durability import KEPT
from seatrial.stats.estimates import counted
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import (
    format_duration_s,
    format_estimate,
    format_identity,
    format_interval,
    format_plural,
    format_value,
)
from seatrial.trials.database.analysis.crashes import crash_outcome, crash_words, is_crash_trial
from seatrial.trials.database.analysis.samples import batch_length, specification
from seatrial.trials.database.study.workloads import is_of_database
from seatrial.trials.replay.analysis.pace import answered_per_s, ratio_to_capture
from seatrial.trials.replay.analysis.samples import is_of_replay, replays

READS_ALONE = ("select-only",)
PERCENTILES = ("p99", "p90", "p50")
"""The highest that is known is told."""


def headline_cell(
    cells: Sequence[CellSummary], everywhere: Sequence[CellSummary]
) -> CellSummary | None:
    """Return the cell of a target that stands for it; None where it has none of a database.

    The same on every target where they have it in common. TPC-B before reads alone, because commits
    are what storage is there for; of servers that keep what they acknowledge; of the most data
    (scale, devices), because a database outgrows its caches sooner or later; of those the fastest.

    Args:
        cells: Of the target, in which something completed.
        everywhere: Of all targets.
    """
    measure = _standing_out(everywhere)
    own = [each for each in cells if is_of_database(each.cell)]
    same = [
        each
        for each in own
        if measure and each.cell.key_without_target == measure.cell.key_without_target
    ]
    return same[0] if same else _standing_out(own)


def _standing_out(cells: Sequence[CellSummary]) -> CellSummary | None:
    known = [each for each in cells if is_of_database(each.cell) and not each.blank]
    return max(known, key=lambda each: (_order(each), each.iops.value), default=None)


def _order(summary: CellSummary) -> tuple[bool, bool, bool, bool, int]:
    """Return a key of which the largest stands out: loads before crashes, transactions, data."""
    spec = specification(summary.cell)
    data = max(spec.load.scale, spec.load.devices) if spec else 0
    writes = spec is None or spec.script not in READS_ALONE
    durable = spec is None or all(spec.settings.get(name) != "off" for name in KEPT)
    is_load = not is_crash_trial(summary.cell)
    return is_load, summary.cell.operation != "batch", writes, durable, data


def headline(
    summary: CellSummary, bounds: Mapping[str, str], beside: Sequence[CellSummary] = ()
) -> str:
    """Return a cell's figures: ``2,200 tps (± 3 %) with p99 12 ms (± 4 %) at scale 1000 ...``.

    Args:
        summary: Of a database.
        bounds: What bounds a cell, by its key.
        beside: The cells of its target, none of which may be taken for it.
    """
    apart = _apart(summary, beside)
    if is_crash_trial(summary.cell):
        return crash_words(crash_outcome(summary.samples))
    if is_of_replay(summary.cell):
        return _of_replay(summary, bounds.get(summary.cell.key, "inconclusive"), apart)
    bound = bounds.get(summary.cell.key, "inconclusive")
    ending = "" if bound == "inconclusive" else f", {_BOUND_WORDS.get(bound, bound)}-bound"
    if summary.cell.operation == "batch":
        return f"{_of_batch(summary)}{ending}"
    return f"{format_estimate(summary.iops)}{_tail(summary)} {_where(summary)}{apart}{ending}"


_BOUND_WORDS = {"cpu": "CPU"}


ERRORS_SHARE_MAX = 0.05
"""Failed statements over those that ended well: with more, rate and ratio are of other things."""
_REPLAY_ENDINGS = {
    "pace": ", which is the capture's own pace",
    "order": ", held back by the order",
    "client": ", bound by the client",
    "cpu": ", bound by the server's CPU",
    "lock": ", bound by locks",
    "commit": ", bound by the disk's commits",
    "read": ", bound by the disk's reads",
    "checkpoint": ", bound by checkpoints to disk",
}


def _of_replay(summary: CellSummary, bound: str, apart: str) -> str:
    """Return ``replays prod.trace at 880 statements/s (± 3 %), 4.5x the capture, ...``."""
    samples = counted(summary.samples)
    # Errors were answered, too, and count beside the capture; not where they make up the rate.
    has_errors = summary.failed > ERRORS_SHARE_MAX * summary.completed
    ratio = None if has_errors else ratio_to_capture(samples)
    beside = f", {format_value(ratio)} the capture's rate" if ratio else ""
    name = PurePath(str(summary.cell.factors.get("trace", "a trace"))).name
    rate = answered_per_s(samples) if replays(samples) else summary.iops
    reported = f"replays {name}{apart} at {format_estimate(rate)}{_tail(summary)}{beside}"
    return f"{reported}{_REPLAY_ENDINGS.get(bound, '')}"


def _of_batch(summary: CellSummary) -> str:
    file = summary.cell.factors.get("file", summary.cell.workload)
    real = batch_length(summary.samples, "real")
    if real is None:
        return f"runs {file}"
    doubt = format_interval(real.scaled(1e9, "ns"))
    return f"runs {file} in {format_duration_s(real.value)} ({doubt})"


def _tail(summary: CellSummary) -> str:
    """Return the highest known percentile of the kind of transaction that there is most of."""
    kinds = list(summary.latency)
    if not kinds:
        return ""
    counts = {
        kind: sum(s.operations[kind].completed for s in summary.samples if kind in s.operations)
        for kind in kinds
    }
    kind = max(kinds, key=lambda each: counts[each])
    known = summary.latency[kind]
    name = next((name for name in PERCENTILES if name in known), None)
    of = f" of {kind}" if len(kinds) > 1 else ""
    return f" with {name}{of} {format_estimate(known[name])}" if name else ""


def _apart(summary: CellSummary, beside: Sequence[CellSummary]) -> str:
    """Return what tells a cell from others that the same words would name; empty for none."""
    own = summary.cell.identity()
    others = [
        each.cell.identity()
        for each in beside
        if each.cell.key != summary.cell.key
        and is_of_database(each.cell)
        and _where(each) == _where(summary)
    ]
    names = [name for name in own if any(other.get(name) != own[name] for other in others)]
    reported = {name: own[name] for name in names if name not in ("threads", "trace")}
    words = format_identity({**reported, "operation": summary.cell.operation}) if reported else ""
    return f" ({words})" if words else ""


def _where(summary: CellSummary) -> str:
    spec = specification(summary.cell)
    clients = format_plural(summary.cell.threads, "client")
    if spec is None:
        return f"with {clients}"
    several = f" in each of {spec.processes} processes" if spec.processes > 1 else ""
    if spec.load.devices:
        return f"of {format_plural(spec.load.devices, 'device')} with {clients}{several}"
    at = f"at scale {spec.load.scale} " if spec.load.scale else ""
    return f"{at}with {clients}{several}"
