"""The cost of the order across sessions: one log, replayed in each order.

    bench/order.py                the figures of bench/RESULTS.md: 10 rounds, about ten minutes
    bench/order.py --quick        one round of short loads, printed and not written: does it run?

pgbench does three loads with eight clients on a PostgreSQL that logs all: one in which no two
transactions change the same row, TPC-B, and one in which all change the same few rows. In each
round the trace of each log is played to that server in every order, in a new random order. What
is claimed are ratios within a round: how many times faster than one by one (`strict`), and what is
left of the speed that sessions have which wait for nobody.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from command import at_least, parsed_options, run_bench
from own_cluster import own_cluster
from paired import Bar, median_estimate, paired_ratio, reported
from replay_server import SCALE, SESSIONS, SETTINGS, LoadedServer, Logs, NotPlayedError, ResourceUse
from results_page import table

from seatrial.errors import SeatrialError
from seatrial.stats.wording import format_plural

SECTION: Final = "order"
STRICT, SESSION = "strict", "session"
ORDERS: Final = (SESSION, "commit", "object", "key", STRICT)
EDGE_NS_MOST: Final = 1_000.0
APART, TPC_B, CONTENDED = "apart", "TPC-B", "contended"
OF_TRANSACTION: Final = {APART: 5, TPC_B: 7, CONTENDED: 5}
"""Statements of a transaction by load."""
CONTENDED_SCRIPT: Final = """
\\set low random(1, 4)
\\set high random(5, 8)
\\set x random(1, 1000)
BEGIN;
UPDATE pgbench_accounts SET abalance = (abalance * 3 + :x) % 1000003 WHERE aid = :low;
UPDATE pgbench_accounts SET abalance = (abalance * 7 + :x) % 1000003 WHERE aid = :high;
SELECT abalance FROM pgbench_accounts WHERE aid = :low;
END;
"""


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """All that a run of the bench measured.

    Attributes:
        conditions: The machine and the versions, as Markdown items.
        counts: Statements by load.
        spent: By load and order, one a round.
        seed: Of the order of plays.
        loads: Load averages, one per round.
    """

    conditions: Sequence[str]
    counts: Mapping[str, int]
    spent: Mapping[tuple[str, str], Sequence[ResourceUse]] = field(default_factory=dict)
    seed: int
    loads: Sequence[float]


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    return parsed_options(
        arguments,
        __doc__,
        rounds=10,
        rounds_help="how often each trace is played in each order",
        quick_help="one round of short loads",
        quick={"statements": 4_000},
        own={"--statements": {"type": at_least(1_000), "default": 30_000, "help": "of each load"}},
    )


def measure(options: argparse.Namespace) -> BenchResult:
    """Create a server, capture the loads, run the rounds, remove everything.

    Raises:
        SeatrialError: When there is no PostgreSQL, or it does not run here.
        NotPlayedError: When a load was not played in full.
    """
    with own_cluster("order") as own:
        logs = Logs(own.cluster, own.folder)
        with own.cluster.start(SETTINGS) as server:
            LoadedServer(server, own.cluster).fill()
        counts = captured(logs, own.folder, options.statements)
        spent: dict[tuple[str, str], list[ResourceUse]] = {}
        loads: list[float] = []
        rng = random.Random(options.seed)
        with own.cluster.start(SETTINGS) as server:
            playing = LoadedServer(server, own.cluster)
            for number in range(1, options.rounds + 1):
                pairs = [(load, order) for load in counts for order in ORDERS]
                for load, order in rng.sample(pairs, len(pairs)):
                    playing.vacuum()
                    played = playing.seatrial(logs.trace(load), order=order)
                    spent.setdefault((load, order), []).append(played)
                loads.append(os.getloadavg()[0])
                print(f"round {number} of {options.rounds}", file=sys.stderr)
        return BenchResult(
            conditions=own.conditions,
            counts=counts,
            spent=spent,
            seed=options.seed,
            loads=loads,
        )


def captured(logs: Logs, folder: Path, statements: int) -> dict[str, int]:
    """Capture every load; the statements of each log."""
    script = folder / "contended.sql"
    script.write_text(CONTENDED_SCRIPT)
    loads = {
        APART: "--builtin=simple-update",
        TPC_B: "--builtin=tpcb-like",
        CONTENDED: f"--file={script}",
    }
    counts = {}
    for name, load in loads.items():
        transactions = max(1, statements // OF_TRANSACTION[name] // SESSIONS)
        wanted = [load, "--protocol=prepared", f"--transactions={transactions}"]
        counts[name] = logs.capture(name, *wanted, "--random-seed=1")
        print(f"captured {name}: {counts[name]} statements", file=sys.stderr)
    return counts


def section(measured: BenchResult) -> str:
    """Return the bench's section as Markdown."""
    loads = median_estimate(measured.loads, "load")
    counts = ", ".join(f"{name} {count:,}" for name, count in measured.counts.items())
    bars = [bar_of(load, order, measured) for load in measured.counts for order in ORDERS[2:]]
    worst = max((bar for bar in bars if bar), key=lambda bar: bar.estimate.value)
    return "\n\n".join(
        [
            "## Keeping an order across sessions",
            f"Written by `bench/order.py` on {datetime.now(UTC):%Y-%m-%d} (UTC), "
            f"{format_plural(len(measured.loads), 'round')}, order from seed {measured.seed}. "
            f"{SESSIONS} sessions of pgbench's prepared statements at maximum speed, scale "
            f"{SCALE}, synchronous_commit off; no key of another session in `apart`, eight rows "
            "for all in `contended`. Ratios are taken within each round, intervals are of at least "
            "95 %, by order statistics over rounds.",
            "\n".join(
                [
                    *measured.conditions,
                    f"- load average during the rounds: {reported(loads, 1)}",
                    f"- statements: {counts}",
                ]
            ),
            table(
                ["figure", "bar", "measured", "verdict"],
                [[worst.what, f"{worst.most:,.0f}", reported(worst.estimate, 0), worst.verdict]],
            ),
            *(f"{load}\n\n{of_load(load, measured)}" for load in measured.counts),
        ]
    )


def bar_of(load: str, order: str, measured: BenchResult) -> Bar | None:
    """Return the bar on what an edge costs; None where there are fewer edges than statements."""
    edge_ns = [one.reported["record"]["order"]["edge_ns"] for one in measured.spent[load, order]]
    if None in edge_ns:
        return None
    return Bar(
        what=f"time for an edge, ns, of the order where it is longest ({order}, {load})",
        most=EDGE_NS_MOST,
        estimate=median_estimate(edge_ns, "ns"),
        digits=0,
    )


def of_load(load: str, measured: BenchResult) -> str:
    """Return the rows of a load by order."""
    per_s = {order: [spent.per_s for spent in measured.spent[load, order]] for order in ORDERS}
    rows = []
    for order in ORDERS:
        spent = measured.spent[load, order]
        cpu_us = [(one.cpu_user_s + one.cpu_system_s) / one.statements * 1e6 for one in spent]
        rows.append(
            [
                order,
                reported(median_estimate(per_s[order], "statements/s"), 0),
                reported(paired_ratio(per_s[order], per_s[STRICT]), 2),
                reported(paired_ratio(per_s[order], per_s[SESSION]), 2),
                reported(median_estimate(each("held", spent, 100), "percent"), 1),
                reported(median_estimate(each("released_by_lock", spent, 100), "percent"), 1),
                f"{median_estimate(each('edges', spent), 'edges').value:.1f}",
                ordering_ns(spent),
                reported(median_estimate(cpu_us, "us"), 1),
            ]
        )
    head = ["order", "statements/s", "of strict", "of session", "delayed by order, %"]
    head += ["released by lock, %", "edges each", "ordering, ns each", "driver, µs each"]
    return table(head, rows)


def ordering_ns(spent: Sequence[ResourceUse]) -> str:
    """Return the time that ordering a statement took; empty where no such order was kept."""
    each_ns = [one.reported["record"]["order"]["statement_ns"] for one in spent]
    return "" if None in each_ns else reported(median_estimate(each_ns, "ns"), 0)


def each(name: str, spent: Sequence[ResourceUse], times: int = 1) -> list[float]:
    """Return what the order reported under a name, for each statement, once a round."""
    return [times * one.reported["record"]["order"][name] / one.statements for one in spent]


if __name__ == "__main__":
    run_bench(
        SECTION,
        options_of(sys.argv[1:]),
        lambda options: section(measure(options)),
        (NotPlayedError, SeatrialError),
    )
