"""The replay bench's section of RESULTS.md: bars, ratios, and what a statement cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from paired import Bar, median_estimate, paired_ratio, reported
from replay_parts import PARTS
from replay_server import SCALE, SESSIONS, ResourceUse
from results_page import table

from seatrial.stats.model import Estimate
from seatrial.stats.wording import format_plural
from seatrial.units import MB

PGBENCH, AGAIN, SEATRIAL = "pgbench", "pgbench again", "seatrial"
MODES: Final = ("simple", "prepared")
RATE_RATIO_LEAST: Final = 0.95
CPU_RATIO_MOST: Final = 0.85
"""A client that only sends and receives takes 0.71 to 0.74."""
LATE_SHARE_MOST: Final = 0.01
MIXED_S_MOST: Final = 180.0
MEMORY_BYTES_MOST: Final = 16 * MB + SESSIONS * 65_536
LATE_BY: Final = {
    "late_by_session": "its session was still busy",
    "late_by_order": "the order held it back",
    "late_by_connections": "its connection was not there yet",
    "late_by_driver": "the driver was late",
}


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """All that a run of the bench measured.

    Attributes:
        conditions: The machine and the versions, as Markdown items.
        counts: Statements by load.
        spent: By mode and contender, one a round, without what starting takes.
        lags: The reported lag of paced replays, one a round.
        mixed: The replay of the mix.
        command_s: Real time of ``seatrial sql replay`` for the reads of ``prepared``.
        parts: Share of each part of a prepared statement's processor time, by contender; empty
            where that cannot be watched.
        calls: System calls of a prepared statement by name, likewise.
        pgreplay: Its time or its error, by mode; empty without it.
        seed: Of the order.
        loads: Load averages, one per round.
    """

    conditions: Sequence[str]
    counts: Mapping[str, int]
    spent: Mapping[tuple[str, str], Sequence[ResourceUse]]
    lags: Sequence[Mapping[str, Any]]
    mixed: ResourceUse
    command_s: float
    pgreplay: Mapping[str, ResourceUse | str]
    parts: Mapping[str, Mapping[str, float]]
    calls: Mapping[str, Mapping[str, float]]
    seed: int
    loads: Sequence[float]


def section(measured: BenchResult) -> str:
    """Return the bench's section as Markdown."""
    loads = median_estimate(measured.loads, "load")
    counts = ", ".join(f"{name} {count:,}" for name, count in measured.counts.items())
    parts = [
        "## Playing traces",
        f"Written by `bench/replay_speed.py` on {datetime.now(UTC):%Y-%m-%d} (UTC), "
        f"{format_plural(len(measured.loads), 'round')}, order from seed {measured.seed}. "
        f"{SESSIONS} sessions, one thread of the driver and of pgbench (`-c {SESSIONS} -j 1`), "
        f"a database of scale {SCALE} on the same machine, synchronous_commit off. Processor time "
        "is the whole process's, statistics on, without what it takes to start. Intervals are of "
        "at least 95 %, by order statistics over rounds.",
        "\n".join(
            [
                *measured.conditions,
                f"- load average during the rounds: {reported(loads, 1)}",
                f"- statements: {counts}",
            ]
        ),
        table(["figure", "bar", "measured", "verdict"], [*_ratio_rows(measured)]),
        table(["figure, measured once", "bar", "measured", "verdict"], _once_rows(measured)),
        table(
            ["reads at maximum speed", "statements/s", "user, µs", "kernel, µs", "in all, µs"],
            _cost_rows(measured),
        ),
        *_where_it_goes(measured),
        table(["late by more than 1 ms at half of that rate", "% of statements"], _late(measured)),
    ]
    return "\n\n".join(parts)


def _ratio_rows(measured: BenchResult) -> list[list[str]]:
    rows = []
    for mode in MODES:
        for contender in (SEATRIAL, AGAIN):
            above, below = measured.spent[mode, contender], measured.spent[mode, PGBENCH]
            rows.append(_rate_row(f"{mode}, rate, {contender} / {PGBENCH}", above, below))
        for contender in (SEATRIAL, AGAIN):
            above, below = measured.spent[mode, contender], measured.spent[mode, PGBENCH]
            rows.append(_cpu_row(f"{mode}, processor time, {contender} / {PGBENCH}", above, below))
        rows.append(_floor_row(mode, measured))
    shares = [1 - lag["within_1ms"] / lag["paced"] for lag in measured.lags]
    late = Bar(what="late", most=LATE_SHARE_MOST, estimate=median_estimate(shares, "share"))
    within = reported(median_estimate([100 * (1 - share) for share in shares], "percent"), 2)
    least = f"{100 * (1 - LATE_SHARE_MOST):g}"
    return [*rows, ["paced, % sent within 1 ms of due", least, within, late.verdict]]


def _rate_row(what: str, above: Sequence[ResourceUse], below: Sequence[ResourceUse]) -> list[str]:
    """Return a row of a rate; its bar is kept by the time that a statement takes."""
    rates = [spent.per_s for spent in above], [spent.per_s for spent in below]
    ratio = reported(paired_ratio(*rates), 3)
    if AGAIN in what:
        return [what, "", ratio, "the noise"]
    bar = Bar(what=what, most=1 / RATE_RATIO_LEAST, estimate=paired_ratio(*reversed(rates)))
    return [what, f"{RATE_RATIO_LEAST:g} at least", ratio, bar.verdict]


def _cpu_row(what: str, above: Sequence[ResourceUse], below: Sequence[ResourceUse]) -> list[str]:
    ratio = paired_ratio(
        *([spent.cpu_s / spent.statements for spent in all_] for all_ in (above, below))
    )
    if AGAIN in what:
        return [what, "", reported(ratio, 3), "the noise"]
    bar = Bar(what=what, most=CPU_RATIO_MOST, estimate=ratio)
    return [what, f"{CPU_RATIO_MOST:g} at most", reported(ratio, 3), bar.verdict]


def _floor_row(mode: str, measured: BenchResult) -> list[str]:
    """Return what is left of the ratio where our own code takes no time at all."""
    kernel = [spent.cpu_system_s / spent.statements for spent in measured.spent[mode, SEATRIAL]]
    all_ = [spent.cpu_s / spent.statements for spent in measured.spent[mode, PGBENCH]]
    what = f"{mode}, {SEATRIAL}'s kernel time alone / {PGBENCH}'s processor time"
    return [what, "", reported(paired_ratio(kernel, all_), 3), "were ours none"]


def _where_it_goes(measured: BenchResult) -> list[str]:
    """Return the tables of what a prepared statement costs by part; none where unwatched."""
    tables = []
    if all(measured.parts.values()):
        head = ["a prepared statement's processor time, by samples of one play, µs"]
        cost_us = {name: _cost_us(measured, name) for name in measured.parts}
        scaled = {
            name: {part: share * cost_us[name] for part, share in parts.items()}
            for name, parts in measured.parts.items()
        }
        tables.append(_next_to_each_other(head, PARTS, scaled))
    if all(measured.calls.values()):
        names = sorted({name for calls in measured.calls.values() for name in calls})
        head = ["system calls for a prepared statement"]
        tables.append(_next_to_each_other(head, names, measured.calls))
    return tables


def _cost_us(measured: BenchResult, contender: str) -> float:
    costs = [one.cpu_s / one.statements for one in measured.spent["prepared", contender]]
    return 1e6 * median_estimate(costs, "s").value


def _next_to_each_other(
    head: list[str], names: Sequence[str], of: Mapping[str, Mapping[str, float]]
) -> str:
    rows = [[name, *(f"{each.get(name, 0):.2f}" for each in of.values())] for name in names]
    return table([*head, *of], rows)


def _once_rows(measured: BenchResult) -> list[list[str]]:
    mixed = measured.mixed
    grown_bytes = mixed.reported["grown_bytes"]
    mixed_bar, memory_bar = (
        Bar(what="", most=most, estimate=median_estimate([value], unit))
        for most, value, unit in (
            (MIXED_S_MOST, mixed.duration_s, "s"),
            (MEMORY_BYTES_MOST, float(grown_bytes), "bytes"),
        )
    )
    statements = f"{mixed.statements:,} statements of pgbench's three scripts"
    rows = [
        [
            f"{statements} replayed, s",
            f"{MIXED_S_MOST:g}",
            f"{mixed.duration_s:.0f}",
            mixed_bar.verdict,
        ],
        [
            f"memory at its peak beyond an idle process, {statements}, MB",
            f"{MEMORY_BYTES_MOST / MB:.1f}",
            f"{grown_bytes / MB:.1f}",
            memory_bar.verdict,
        ],
        [
            f"`seatrial sql replay` of {measured.counts['prepared']:,} reads, with its null "
            "ceiling, analysis and report, s",
            "",
            f"{measured.command_s:.0f}",
            "",
        ],
    ]
    for mode, spent in measured.pgreplay.items():
        figures = spent if isinstance(spent, str) else _pgreplay_reported(measured, mode, spent)
        rows.append([f"pgreplay, the same reads, {mode}", "", figures, ""])
    return rows


def _pgreplay_reported(measured: BenchResult, mode: str, spent: ResourceUse) -> str:
    ours = measured.spent[mode, SEATRIAL]
    rate = median_estimate([each.per_s / spent.per_s for each in ours], "ratio")
    return (
        f"{spent.per_s:,.0f}/s, {spent.cpu_s / spent.statements * 1e6:.0f} µs each; "
        f"seatrial is {reported(rate, 1)} times as fast"
    )


def _cost_rows(measured: BenchResult) -> list[list[str]]:
    def figure(each: Sequence[ResourceUse], of: Callable[[ResourceUse], float], digits: int) -> str:
        return reported(median_estimate([of(spent) for spent in each], ""), digits)

    return [
        [
            f"{mode}, {name}",
            figure(spent, lambda one: one.per_s, 0),
            figure(spent, lambda one: one.cpu_user_s / one.statements * 1e6, 1),
            figure(spent, lambda one: one.cpu_system_s / one.statements * 1e6, 1),
            figure(spent, lambda one: one.cpu_s / one.statements * 1e6, 1),
        ]
        for (mode, name), spent in sorted(measured.spent.items())
    ]


def _late(measured: BenchResult) -> list[list[str]]:
    def percent(name: str) -> Estimate:
        shares = [100 * lag[name] / lag["paced"] for lag in measured.lags]
        return median_estimate(shares, "percent")

    return [[words, reported(percent(name), 2)] for name, words in LATE_BY.items()]
