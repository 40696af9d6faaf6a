"""The headline of a database in a report: its rate, latency and bottleneck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from seatrial.stats.cell_estimates import counted, estimate_of_rounds
from seatrial.stats.compare.comparison import KEPT
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import (
    format_duration_s,
    format_estimate,
    format_identity,
    format_interval,
    format_plural,
    format_value,
)
from seatrial.trials.database.analysis.crashes import crash_outcome, crash_text, is_crash_trial
from seatrial.trials.database.analysis.model import batch_length, batch_times_s, specification
from seatrial.trials.database.study.cost import OFF, READ_ONLY_SCRIPTS
from seatrial.trials.database.study.workloads import is_of_database
from seatrial.trials.replay.analysis.model import is_replay, replays
from seatrial.trials.replay.analysis.pace import answered_per_s, ratio_to_capture

PERCENTILES = ("p99", "p90", "p50")
"""The highest known one is reported."""


def headline_cell(
    cells: Sequence[CellSummary], all_cells: Sequence[CellSummary]
) -> CellSummary | None:
    """Return the representative cell of a target; None if it has no database cell.

    The same cell on every target, if they have it in common. TPC-B is preferred to reads alone,
    because commits depend on storage most; then durable servers; then the most data (scale,
    devices), because most databases outgrow their caches; then the highest rate.

    Args:
        cells: Cells of the target, with at least one completed request.
        all_cells: Cells of all targets.
    """
    measure = _representative(all_cells)
    on_target = [cell for cell in cells if is_of_database(cell.cell)]
    same = [
        each
        for each in on_target
        if measure and each.cell.key_without_target == measure.cell.key_without_target
    ]
    return same[0] if same else _representative(on_target)


def _representative(cells: Sequence[CellSummary]) -> CellSummary | None:
    known = [cell for cell in cells if is_of_database(cell.cell) and not cell.blank]
    return max(known, key=lambda cell: (_order(cell), cell.iops.value), default=None)


def _order(summary: CellSummary) -> tuple[bool, bool, bool, bool, int]:
    """Return a sort key; the largest is representative: loads before crashes, then data."""
    spec = specification(summary.cell)
    data = max(spec.load.scale, spec.load.devices) if spec else 0
    writes = spec is None or spec.script not in READ_ONLY_SCRIPTS
    settings = spec.settings.items() if spec else ()
    durable = not any(name in KEPT and value.lower() in OFF for name, value in settings)
    is_load = not is_crash_trial(summary.cell)
    return is_load, summary.cell.operation != "batch", writes, durable, data


def headline(
    summary: CellSummary, bounds: Mapping[str, str], alongside: Sequence[CellSummary] = ()
) -> str:
    """Return a cell's figures: ``2,200 tps (± 3 %) with p99 12 ms (± 4 %) at scale 1000 ...``.

    Args:
        summary: Summary of a database.
        bounds: What bounds a cell, by its key.
        alongside: All cells of its target; the figures name what distinguishes it from them.
    """
    distinguishing = _distinguishing_text(summary, alongside)
    if is_crash_trial(summary.cell):
        return crash_text(crash_outcome(summary.samples))
    if is_replay(summary.cell):
        return _replay_headline(
            summary, bounds.get(summary.cell.key, "inconclusive"), distinguishing
        )
    bound = bounds.get(summary.cell.key, "inconclusive")
    ending = "" if bound == "inconclusive" else f", {_BOUND_NAMES.get(bound, bound)}-bound"
    if summary.cell.operation == "batch":
        return f"{_batch_headline(summary)}{ending}"
    rate = format_estimate(summary.iops)
    return f"{rate}{_tail_text(summary)} {cell_phrase(summary)}{distinguishing}{ending}"


_BOUND_NAMES = {"cpu": "CPU"}


ERRORS_SHARE_MAX = 0.05
"""Failed over successful statements: with more, rate and ratio describe other work."""
_REPLAY_ENDINGS = {
    "pace": ", the captured rate",
    "order": ", limited by statement order",
    "client": ", client-bound",
    "cpu": ", CPU-bound",
    "lock": ", lock-bound",
    "standby": ", standby-bound",
    "commit": ", commit-bound",
    "read": ", read-bound",
    "checkpoint": ", checkpoint-bound",
}


def rate_per_s(summary: CellSummary) -> Estimate:
    """Return what a cell completed, and of a replay what was answered, errors included."""
    samples = counted(summary.samples)
    return answered_per_s(samples) if replays(samples) else summary.iops


def _replay_headline(summary: CellSummary, bound: str, distinguishing: str) -> str:
    """Return ``replays prod.trace at 880 statements/s (± 3 %), 4.5x the capture, ...``."""
    samples = counted(summary.samples)
    # Errors are answers, too, and count in the comparison with the capture, unless they dominate.
    has_errors = summary.failed > ERRORS_SHARE_MAX * summary.completed
    ratio = None if has_errors else ratio_to_capture(samples)
    alongside = f", {format_value(ratio)} the capture's rate" if ratio else ""
    name = PurePath(str(summary.cell.factors.get("trace", "a trace"))).name
    rate = format_estimate(rate_per_s(summary))
    text = f"replays {name}{distinguishing} at {rate}{_tail_text(summary)}{alongside}"
    return f"{text}{_REPLAY_ENDINGS.get(bound, '')}"


def _batch_headline(summary: CellSummary) -> str:
    file = summary.cell.factors.get("file", summary.cell.workload)
    real = batch_length(summary.samples, "real")
    if real is None:
        return f"runs {file}"
    doubt = format_interval(real.scaled(1e9, "ns"))
    return f"runs {file} in {format_duration_s(real.value)} ({doubt})"


@dataclass(frozen=True)
class Tail:
    """The highest known percentile of the most frequent kind of transaction."""

    kind: str
    percentile: str
    estimate: Estimate


def tail_of(summary: CellSummary) -> Tail | None:
    """Return the tail latency of a cell; None if no percentile is known."""

    def count(kind: str) -> int:
        return sum(s.operations[kind].completed for s in summary.samples if kind in s.operations)

    kind = max(summary.latency, key=count, default="")
    latency = summary.latency.get(kind, {})
    name = next((name for name in PERCENTILES if name in latency), "")
    return Tail(kind, name, latency[name]) if name else None


def _tail_text(summary: CellSummary) -> str:
    tail = tail_of(summary)
    if tail is None:
        return ""
    of = f" of {tail.kind}" if len(summary.latency) > 1 else ""
    return f" with {tail.percentile}{of} {format_estimate(tail.estimate)}"


def _distinguishing_text(summary: CellSummary, alongside: Sequence[CellSummary]) -> str:
    """Return what distinguishes a cell from others with the same words; empty if nothing."""
    own = summary.cell.identity()
    others = [
        each.cell.identity()
        for each in alongside
        if each.cell.key != summary.cell.key
        and is_of_database(each.cell)
        and cell_phrase(each) == cell_phrase(summary)
    ]
    names = [name for name in own if any(other.get(name) != own[name] for other in others)]
    shown = {name: own[name] for name in names if name not in ("threads", "trace")}
    text = format_identity({**shown, "operation": summary.cell.operation}) if shown else ""
    return f" ({text})" if text else ""


def cell_phrase(summary: CellSummary) -> str:
    """Return scale, clients or devices of a test, such as ``at scale 10 with 10 clients``."""
    spec = specification(summary.cell)
    clients = format_plural(summary.cell.threads, "client")
    if spec is None:
        return f"with {clients}"
    several = f" in each of {spec.processes} processes" if spec.processes > 1 else ""
    if spec.load.devices:
        return f"of {format_plural(spec.load.devices, 'device')} with {clients}{several}"
    at = f"at scale {spec.load.scale} " if spec.load.scale else ""
    return f"{at}with {clients}{several}"


def database_figure(quantity: str, summary: CellSummary) -> Estimate | str | None:
    """Return the transactions per second of a cell, a batch's time, or why there is none."""
    if quantity not in ("tps", "real"):
        return None
    if summary.blank:
        return summary.blank
    return summary.iops if quantity == "tps" else _real(summary)


def _real(summary: CellSummary) -> Estimate | str:
    """Return the elapsed time of a batch, or why it is not known for every round."""
    times_s = batch_times_s(summary.samples, "real")
    rounds = len(counted(summary.samples))
    if len(times_s) < rounds:
        all_rounds = format_plural(rounds, "round")
        return f"it failed in {rounds - len(times_s)} of {all_rounds}"
    return estimate_of_rounds([time_s * 1e9 for time_s in times_s], "ns")
