"""The engine bench's section of RESULTS.md: bars, ratios, and what a request cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from contenders import (
    FIO_DEFAULTS,
    FIO_PSYNC,
    FIO_SAME_BATCH,
    FIO_TUNED,
    SEATRIAL,
    SEATRIAL_AGAIN,
    SEATRIAL_PSYNC,
    BenchTarget,
)
from footprint import HourMemory
from paired import Bar, median_estimate, paired_ratio, pooled_ratio, reported
from results_page import table
from rounds import Cost

from seatrial.stats.model import Estimate
from seatrial.stats.wording import format_plural

NULL: Final = "null"
BARS_OF_RATIOS: Final = {(SEATRIAL, FIO_TUNED): 0.70, (SEATRIAL, FIO_DEFAULTS): 0.50}
USER_NS_MOST: Final = 50.0
HELP_MS_MOST: Final = 150.0
IMPORT_MS_MOST: Final = 120.0
HOUR_MIB_MOST: Final = 64.0
BELOW: Final = {
    FIO_TUNED: SEATRIAL,
    FIO_SAME_BATCH: SEATRIAL,
    FIO_DEFAULTS: SEATRIAL,
    FIO_PSYNC: SEATRIAL_PSYNC,
    SEATRIAL_AGAIN: SEATRIAL,
}
"""Compared pairs: the second over the first."""


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """All that a run of the bench measured.

    Attributes:
        targets: What was read.
        skipped: Targets that were not available, and why.
        conditions: The machine and the versions, as Markdown items.
        costs: By target and contender.
        starts_ms: Processor time by command, one value per round.
        command_line_ms: What the command line takes beyond the engine; None when not measured.
        hour: Memory for an hour of samples; None when not measured.
        rounds: How many.
        seconds: Length of a sample.
        seed: Of the order.
        fio: Its version.
        loads: Load averages, one per round.
    """

    targets: Sequence[BenchTarget]
    skipped: Mapping[str, str]
    conditions: Sequence[str]
    costs: Mapping[str, Mapping[str, Cost]]
    starts_ms: Mapping[str, Sequence[float]]
    command_line_ms: float | None
    hour: HourMemory | None
    rounds: int
    seconds: float
    seed: int
    fio: str
    loads: Sequence[float]


def section(measured: BenchResult) -> str:
    """Return the bench's section as Markdown."""
    parts = [
        "## Engine: processor time per request",
        _introduction(measured),
        "### Bars",
        table(
            ["figure", "bar", "measured", "verdict"],
            [
                [bar.what, f"{bar.most:g}", reported(bar.estimate, bar.digits), bar.verdict]
                for bar in bars(measured)
            ],
        ),
        "### Ratios, paired inside each round",
        "The kernel's part of a ratio is Seatrial's kernel time over all of the other's time: what "
        "the ratio would be if Seatrial took no time of its own. How a command's time divides into "
        "user and kernel is sampled by the kernel's tick: the sum is exact, the parts are rough.",
        table(["target", "ratio", "median", "lowest", "highest"], _ratio_rows(measured)),
        "### What one request cost (illustration only)",
        table(
            ["target", "who", "user ns", "kernel ns", "total ns", "requests/s"],
            _cost_rows(measured),
        ),
        _footprint_lines(measured),
    ]
    return "\n\n".join(part for part in parts if part)


def bars(measured: BenchResult) -> list[Bar]:
    """Return every bar that this run can judge."""
    found = []
    for (above, below), most in BARS_OF_RATIOS.items():
        estimates = {
            target: paired_ratio(costs[above].total_ns, costs[below].total_ns)
            for target, costs in measured.costs.items()
            if below in costs
        }
        estimates |= _pooled(measured, above, below)
        found += [
            Bar(what=f"{above} / {below}, {target}", most=most, estimate=estimate)
            for target, estimate in estimates.items()
        ]
    if NULL in measured.costs:
        user = median_estimate(measured.costs[NULL][SEATRIAL].user_ns, "ns")
        found.append(Bar(what="user ns per NOP", most=USER_NS_MOST, estimate=user, digits=0))
    for name, most in (("help", HELP_MS_MOST), ("import", IMPORT_MS_MOST)):
        if name in measured.starts_ms:
            start = median_estimate(measured.starts_ms[name], "ms")
            found.append(Bar(what=_START_WORDS[name], most=most, estimate=start, digits=0))
    if measured.hour is not None:
        once = median_estimate([measured.hour.recorded_mib], "MiB")
        what = "an hour of recording, MiB"
        found.append(Bar(what=what, most=HOUR_MIB_MOST, estimate=once, digits=0))
    return found


_START_WORDS: Final = {
    "help": "`seatrial --help`, ms of processor time",
    "import": "`import seatrial`, ms of processor time",
    "python": "`python -c pass`, ms of processor time",
}


def _pooled(measured: BenchResult, above: str, below: str) -> dict[str, Estimate]:
    """Return the ratio over all targets together, if there are several."""
    pairs = [
        (costs[above].total_ns, costs[below].total_ns)
        for costs in measured.costs.values()
        if below in costs
    ]
    return {"all targets": pooled_ratio(pairs)} if len(pairs) > 1 else {}


def _introduction(measured: BenchResult) -> str:
    loads = median_estimate(measured.loads, "load")
    lines = [
        f"Written by `bench/engine_speed.py` on {datetime.now(UTC):%Y-%m-%d} (UTC), "
        f"{format_plural(measured.rounds, 'round')} of samples of {measured.seconds:g} s, "
        f"order from seed {measured.seed}.",
        "Processor time is user and kernel time of the whole process and its io_uring workers, "
        "less that of the same command with almost no time to read; 4 KiB random reads, one "
        "thread, depth 128 (psync: depth 1). Seatrial records every latency and the timeline; "
        "fio keeps its latencies. Intervals are of at least 95 %, by order statistics over "
        "rounds.",
        "\n".join(
            [
                *measured.conditions,
                f"- {measured.fio}; tuned: fixedbufs, registerfiles, nonvectored, batches of 32",
                f"- load average during the rounds: {reported(loads, 1)}, "
                f"{min(measured.loads):.1f} to {max(measured.loads):.1f} in all",
                *(f"- {target.name}: {target.what}" for target in measured.targets),
                *(f"- {name}: skipped, {why}" for name, why in measured.skipped.items()),
            ]
        ),
    ]
    return "\n\n".join(lines)


def _ratio_rows(measured: BenchResult) -> list[list[str]]:
    """Return each ratio with its extremes, and the kernel's part of ratios with bars."""
    rows = []
    for target, costs in measured.costs.items():
        for below, above in BELOW.items():
            if below not in costs:
                continue
            theirs = costs[below].total_ns
            rows.append(_ratio_row(target, f"{above} / {below}", costs[above].total_ns, theirs))
            if (above, below) in BARS_OF_RATIOS:
                kernel = f"the kernel's part of {above} / {below}"
                rows.append(_ratio_row(target, kernel, costs[above].system_ns, theirs))
    return rows


def _ratio_row(
    target: str, what: str, above_ns: Sequence[float], below_ns: Sequence[float]
) -> list[str]:
    ratios = [above / below for above, below in zip(above_ns, below_ns, strict=True)]
    middle = reported(median_estimate(ratios, "ratio"), 2)
    return [target, what, middle, f"{min(ratios):.2f}", f"{max(ratios):.2f}"]


def _cost_rows(measured: BenchResult) -> list[list[str]]:
    return [
        [
            target,
            contender,
            *(
                reported(median_estimate(values, "ns"), 0)
                for values in (cost.user_ns, cost.system_ns, cost.total_ns)
            ),
            f"{median_estimate(cost.per_s, 'IOPS').value:,.0f}",
        ]
        for target, costs in measured.costs.items()
        for contender, cost in costs.items()
    ]


def _footprint_lines(measured: BenchResult) -> str:
    lines = [
        f"- {_START_WORDS[name]}: {reported(median_estimate(values, 'ms'), 0)}"
        for name, values in measured.starts_ms.items()
    ]
    if measured.command_line_ms is not None:
        lines.append(
            f"- `seatrial io` beyond the engine's own process for the same cell: "
            f"{measured.command_line_ms:.0f} ms of processor time, measured once"
        )
    if measured.hour is not None:
        hour = measured.hour
        lines.append(
            f"- an hour on a simulated device whose latencies scatter widely "
            f"({hour.completed:,} requests): {hour.recorded_mib:.0f} MiB at its peak, slices of "
            f"{hour.slice_ms:g} ms left; {hour.handed_over_mib:.0f} MiB for the moment in which "
            f"Python has a copy of its own, measured once"
        )
    return "\n".join(["### Costs other than requests", "", *lines])
