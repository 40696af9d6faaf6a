"""A prediction of caches on the terminal: the answer first, then tables."""

from __future__ import annotations

from seatrial.catalogue.units import format_money
from seatrial.report.table import NO_FIGURE, Table, without_empty
from seatrial.report.terminal import analysis_text
from seatrial.stats.wording import (
    format_duration_ns,
    format_duration_s,
    format_iops,
    format_rate_bytes,
    format_share,
)
from seatrial.study.units import format_size
from seatrial.trials.cache.analysis.curves import BEST
from seatrial.trials.cache.analysis.money import CacheCost
from seatrial.trials.cache.analysis.prediction import CachePrediction
from seatrial.trials.cache.analysis.tiers import CacheTiers
from seatrial.trials.cache.report.prediction_phrases import (
    confidence,
    notable,
    per_read_phrase,
    share_phrase,
    verdict_line,
)
from seatrial.trials.watch.recording import RecordingMetadata
from seatrial.units import DAY_S

_ROWS: int = 10


def prediction_text(found: CachePrediction, about: RecordingMetadata, next_step: str) -> str:
    """Return a prediction as lines: the answer, what stands out, how certain it is, what next."""
    certain, tables = confidence(found, about), prediction_tables(found)
    return analysis_text(verdict_line(found), notable(found), certain, next_step, tables)


def prediction_tables(found: CachePrediction) -> list[Table]:
    """Return the tables of a prediction; none is empty."""
    return [without_empty(each) for each in _all_tables(found) if each.rows]


def _all_tables(found: CachePrediction) -> tuple[Table, ...]:
    return _tiers_table(found), _costs_table(found), _curve_table(found)


def _costs_table(found: CachePrediction) -> Table:
    return Table(
        id="cache-costs",
        title="Monthly cost of caches",
        labels=2,
        headers=["Memory", "SSD", "Per month", "Reads per second saved", "Each of them per month",
                 "Storage for as many", "Memory alone instead", "SSD worn out after"],
        rows=[_costs_row(each) for each in found.costs],
    )  # fmt: skip


def _costs_row(each: CacheCost) -> list[str]:
    saved = format_iops(each.saved_reads_per_s)
    if each.saved_reads_per_s_low < each.saved_reads_per_s_high:
        ends = (each.saved_reads_per_s_low, each.saved_reads_per_s_high)
        saved += f" ({' to '.join(format_iops(end) for end in ends)})"
    alone = NO_FIGURE
    if each.memory_alone_bytes is not None and each.memory_alone_month is not None:
        alone = f"{format_size(each.memory_alone_bytes)}, {format_money(each.memory_alone_month)}"
    return [
        format_size(each.memory_bytes) if each.memory_bytes else "none",
        format_size(each.device_bytes) if each.device_bytes else "none",
        format_money(each.month),
        saved,
        per_read_phrase(each.month_per_read) if each.month_per_read else NO_FIGURE,
        format_money(each.storage_month) if each.storage_month else NO_FIGURE,
        alone,
        f"{each.worn_out_years:.1f} years" if each.worn_out_years is not None else NO_FIGURE,
    ]


def _tiers_table(found: CachePrediction) -> Table:
    return Table(
        id="cache-tiers",
        title="Share of each tier in the last fifth of the reads",
        labels=2,
        headers=["Memory", "SSD", "Memory serves", "SSD serves", "Storage serves", "95 %",
                 "Reads/s", "Mean read", "p99", "90 % warm after", "Written to the SSD"],
        rows=[_tiers_row(each) for each in found.tiers],
    )  # fmt: skip


def _tiers_row(each: CacheTiers) -> list[str]:
    is_sampled = each.disk_share_low < each.disk_share_high
    warm_s = each.warm_s["90%"]
    written = each.device_written_bytes_per_day
    return [
        format_size(each.memory_bytes) if each.memory_bytes else "none",
        format_size(each.device_bytes) if each.device_bytes else "none",
        format_share(each.memory_share),
        format_share(each.device_share) if each.device_bytes else NO_FIGURE,
        format_share(each.disk_share),
        f"{format_share(each.disk_share_low)} to {format_share(each.disk_share_high)}"
        if is_sampled
        else NO_FIGURE,
        format_iops(each.reads_per_s) if each.reads_per_s is not None else NO_FIGURE,
        format_duration_ns(each.read_ns_mean) if each.read_ns_mean is not None else NO_FIGURE,
        format_duration_ns(each.read_ns_p99) if each.read_ns_p99 is not None else NO_FIGURE,
        format_duration_s(warm_s) if warm_s is not None else "not warm",
        format_rate_bytes(written / DAY_S) if written else NO_FIGURE,
    ]


def _curve_table(found: CachePrediction) -> Table:
    curves = {each.policy: each.points for each in found.curves}
    sizes = [each.cache_bytes for each in curves[found.policy]]
    step = max(1, len(sizes) // _ROWS)
    indexes = sorted({*range(0, len(sizes), step), len(sizes) - 1})
    names = {BEST: "Best possible"}
    return Table(
        id="cache-curve",
        title=f"Share of the reads that a cache of one tier serves ({found.method})",
        labels=1,
        headers=["Cache", *(names.get(policy, policy) for policy in curves)],
        rows=[
            [format_size(sizes[index]), *(share_phrase(each[index]) for each in curves.values())]
            for index in indexes
        ],
    )
