"""Verdicts of `seatrial sql compare` on equal databases, and on queries that are 10 % slower.

    bench/before_after.py              the figures of bench/RESULTS.md: 100 comparisons, about half
                                       an hour
    bench/before_after.py --quick      two comparisons, printed and not written: does it run?

One PostgreSQL has four databases: two equal ones, one in which every query does 10 % more work, and
one in which a single query does. A trace of short queries of eight kinds is replayed to all four in
each round, in a new random order. Every comparison has rounds of its own: equal against equal (any
verdict of a difference is false), equal against 10 % slower (found or not), equal against one
slower query (that one found, any other one false). The rounds of the equal ones are also compared
as if they were measured one after the other, and once each.

The work is a loop of PL/pgSQL in each query. How much longer it has to be for a query to take 10 %
longer is measured first.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from command import at_least, parsed_options, run_bench
from own_cluster import own_cluster
from results_page import table

from seatrial import _core
from seatrial.errors import SeatrialError
from seatrial.postgres.connection import connect
from seatrial.postgres.server import Server
from seatrial.results.replay import ReplayRecord
from seatrial.trials.replay.commands.compare_replays import call_figures
from seatrial.trials.replay.compare.model import Answer, MeasuredSide, QueryLabel, Table, Unit
from seatrial.trials.replay.compare.table import compared

SECTION: Final = "before-after"
KINDS: Final = 8
SLOW_KIND: Final = 3
SLOWER: Final = 0.10
LOOPS: Final = 10_000
SESSIONS: Final = 2
SETTINGS: Final = {
    "autovacuum": "off",
    "checkpoint_timeout": "1d",
    "jit": "off",
    "synchronous_commit": "off",
}
LEFT, RIGHT, ALL, ONE = "alike", "alike_too", "all_slower", "one_slower"
DATABASES: Final = (LEFT, RIGHT, ALL, ONE)
DIFFERENT: Final[tuple[Answer, ...]] = ("faster", "slower")
SPIN: Final = """
    CREATE OR REPLACE FUNCTION spin{kind}() RETURNS int LANGUAGE plpgsql AS $$
    BEGIN FOR i IN 1..{loops} LOOP END LOOP; RETURN 0; END $$
"""
TEXTS: Final = (
    "SELECT spin0(), v FROM t WHERE id = {n}",
    "SELECT spin1(), sum(v) FROM t WHERE id BETWEEN {n} AND {n} + 20",
    "UPDATE t SET v = v + spin2() WHERE id = {n}",
    "SELECT spin3(), count(*) FROM t WHERE id < {n} % 100",
    "SELECT spin4(), a.v, b.v FROM t a JOIN t b ON b.id = a.v WHERE a.id = {n}",
    "INSERT INTO h (id, v) VALUES ({n}, spin5())",
    "SELECT spin6(), max(v) FROM t WHERE id IN ({n}, {n} + 7)",
    "SELECT spin7(), v FROM t ORDER BY id DESC LIMIT 5",
)


class NotPlayedError(Exception):
    """A replay failed."""


@dataclass
class BenchResult:
    """Results of the comparisons, one entry each.

    Attributes:
        rounds: Rounds of a comparison; twice as many with one slower query.
        factor: Loops of a slower query over those of the others.
        tables: Tables by kind of comparison.
        play_s: Mean duration of a replay.
    """

    rounds: int
    factor: float
    tables: dict[str, list[Table]] = field(default_factory=dict)
    play_s: float = 0.0


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    return parsed_options(
        arguments,
        __doc__,
        rounds=25,
        rounds_help="rounds of each comparison; of the one slower query twice as many",
        rounds_min=2,
        quick_help="two comparisons of four rounds",
        quick={"rounds": 4, "comparisons": 2, "statements": 80, "pairs": 2},
        own={
            "--comparisons": {"type": at_least(1), "default": 100, "help": "of each kind"},
            "--statements": {"type": at_least(KINDS), "default": 400, "help": "of the trace"},
            "--pairs": {
                "type": at_least(1),
                "default": 100,
                "help": "of replays that measure the work",
            },
        },
    )


def measure(options: argparse.Namespace) -> tuple[BenchResult, list[str]]:
    """Create a server and its databases, replay, compare, remove everything.

    Raises:
        SeatrialError: When there is no PostgreSQL, or it does not run here.
        NotPlayedError: When a replay failed.
    """
    with own_cluster("before-after") as own:
        trace = captured(own.folder, options)
        with own.cluster.start(SETTINGS) as server:
            for name in DATABASES:
                fill(server, name)
            factor = slower_by(server, trace, options.pairs)
            for name, kinds in ((ALL, range(KINDS)), (ONE, [SLOW_KIND])):
                spin(server, name, dict.fromkeys(kinds, factor))
            return comparisons(server, trace, options, factor), own.conditions


def captured(folder: Path, options: argparse.Namespace) -> Path:
    """Write the statements to a log and read it into a trace."""
    rng = random.Random(options.seed)
    log, trace = folder / "statements.sql", folder / "statements.trace"
    texts = [TEXTS[n % KINDS].format(n=rng.randrange(1, 10_000)) for n in range(options.statements)]
    rng.shuffle(texts)
    log.write_text("".join(f"{text};\n" for text in texts))
    spec = {"logs": [str(log)], "output": str(trace), "format": "raw", "sessions": SESSIONS}
    reading = _core.start_sql_read(json.dumps(spec))
    reading.wait(1e6)
    accounting = json.loads(reading.result())["accounting"]
    if accounting["executable"] != options.statements:
        raise NotPlayedError(f"the statements were not read in full: {accounting}")
    return trace


def run_sql(server: Server, name: str, *texts: str) -> None:
    """Send statements to a database."""
    with contextlib.closing(connect(server.address.with_dbname(name))) as connection:
        for text in texts:
            connection.execute(text.encode())


def fill(server: Server, name: str) -> None:
    """Create a database with its tables and functions."""
    run_sql(server, "postgres", f"CREATE DATABASE {name}")
    run_sql(
        server,
        name,
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t SELECT i, i % 1000 FROM generate_series(1, 20000) AS i",
        "CREATE TABLE h (id int, v int)",
        "ANALYZE",
    )
    spin(server, name, {})


def spin(server: Server, name: str, factors: dict[int, float]) -> None:
    """Create the functions of a database, those of some kinds with longer loops."""
    for kind in range(KINDS):
        loops = round(LOOPS * factors.get(kind, 1.0))
        run_sql(server, name, SPIN.format(kind=kind, loops=loops))


def play(server: Server, name: str, trace: Path, number: int) -> Unit:
    """Replay the trace to a database once.

    Raises:
        NotPlayedError: When a statement failed.
    """
    address = server.address
    address_keys = {
        "host": address.host,
        "port": address.port,
        "user": address.user,
        "database": name,
    }
    spec: dict[str, Any] = {"trace": str(trace), "server": address_keys, "speed": None}
    begin_s = time.time()
    playback = _core.start_sql_playback(
        json.dumps({**spec, "slice_ms": 100, "stall_threshold_ms": 500})
    )
    playback.wait(1e6)
    played = playback.result()
    record = msgspec.json.decode(played.record_json, type=ReplayRecord)
    if played.end != "complete" or record.total.ok != record.total.captured:
        raise NotPlayedError(f"a replay ended {played.end}: {record.total}")
    return Unit(
        number=number,
        measured=call_figures(record),
        begin_s=begin_s,
        covered_s=time.time() - begin_s,
    )


def slower_by(server: Server, trace: Path, pairs: int) -> float:
    """Return the factor of the loops' length with which a query takes 10 % longer.

    Replays scatter by more than that, so it takes many pairs, and loops of twice the length, from
    which the factor is interpolated.
    """
    shares = []
    for number in range(pairs):
        seconds = {}
        # Alternating order: neither side always comes second.
        for factor in ((1.0, 2.0), (2.0, 1.0))[number % 2]:
            spin(server, ALL, dict.fromkeys(range(KINDS), factor))
            unit = play(server, ALL, trace, number)
            seconds[factor] = sum(each.total_s for each in unit.measured.values())
        shares.append(seconds[2.0] / seconds[1.0] - 1)
    return 1 + SLOWER / statistics.median(shares)


def comparisons(
    server: Server, trace: Path, options: argparse.Namespace, factor: float
) -> BenchResult:
    """Replay rounds and compare them."""
    rng = random.Random(options.seed)
    reported = BenchResult(rounds=options.rounds, factor=factor)
    began_s = time.perf_counter()
    plays = 0
    for number in range(options.comparisons):
        units: dict[str, list[Unit]] = {name: [] for name in DATABASES}
        for round_number in range(2 * options.rounds):
            order = list(DATABASES if round_number < options.rounds else (LEFT, ONE))
            rng.shuffle(order)
            for name in order:
                units[name].append(play(server, name, trace, round_number))
                plays += 1
        for what, table_ in compared_all(units, options.rounds):
            reported.tables.setdefault(what, []).append(table_)
        print(f"comparison {number + 1} of {options.comparisons}", file=sys.stderr)
    reported.play_s = (time.perf_counter() - began_s) / plays
    return reported


def compared_all(units: dict[str, list[Unit]], rounds: int) -> Iterator[tuple[str, Table]]:
    """Yield every comparison of some rounds."""

    def side(name: str, own: Sequence[Unit]) -> MeasuredSide:
        keys = dict.fromkeys(key for unit in own for key in unit.measured)
        labels = {key: QueryLabel(key, "select") for key in keys}
        return MeasuredSide(name=name, kind="replay", clock="client", units=own, labels=labels)

    alike = units[LEFT][:rounds]
    yield "alike", compared(side(LEFT, alike), side(RIGHT, units[RIGHT]))
    yield "all slower", compared(side(LEFT, alike), side(ALL, units[ALL]))
    yield "one slower", compared(side(LEFT, units[LEFT]), side(ONE, units[ONE]))
    half = rounds // 2
    yield "one after the other", compared(side(LEFT, alike[:half]), side(RIGHT, alike[half:]))
    yield "once each", compared(side(LEFT, alike[:1]), side(RIGHT, alike[-1:]))


def section(options: argparse.Namespace, reported: BenchResult, conditions: list[str]) -> str:
    """Return the section of the page."""
    rows = []
    for what, tables in reported.tables.items():
        overall = [bool(e.overall) and _is_different(e.overall.answer) for e in tables]
        queries = [[c for c in each.changes if _is_different(c.answer)] for each in tables]
        slow = [_is_found(each) for each in tables]
        others = [any(change.key != _slow_key() for change in found) for found in queries]
        either = [average or bool(found) for average, found in zip(overall, queries, strict=True)]
        # A ratio of times, as the planted slow-down; the speed-up is its reciprocal.
        distances = [abs(1 / e.overall.speed_up.value - 1) for e in tables if e.overall]
        rows.append(
            [
                what,
                str(tables[0].before.units),
                str(sum(overall)),
                str(sum(map(bool, queries))),
                str(sum(either)),
                f"{sum(slow)} (others: {sum(others)})" if what == "one slower" else "",
                f"{100 * statistics.median(distances):.1f} %",
            ]
        )
    lines = [
        "## Before and after: false verdicts, and a slow-down of 10 %",
        "",
        f"{options.comparisons} comparisons of each kind, of {KINDS} kinds of queries; a replay "
        f"has {options.statements:,} statements and takes {reported.play_s:.2f} s. Alike, one "
        "after the other and once each: every verdict is false. Of one slower query twice as many "
        "rounds.",
        "",
        *conditions,
        f"- 10 % longer are loops of {reported.factor:.3f} times the length",
        "",
        table(
            ["compared", "rounds", "average called different", "with a query called different",
             "with either", "the slow query found", "average time apart, median"],
            rows,
        ),
    ]  # fmt: skip
    return "\n".join(lines)


def _is_different(answer: Answer) -> bool:
    return answer in DIFFERENT


def _slow_key() -> str:
    """Return the fingerprint of the slower query."""
    return _core.fingerprint_sql(TEXTS[SLOW_KIND].format(n=1))[0]


def _is_found(found: Table) -> bool:
    key = _slow_key()
    return any(change.key == key and change.answer == "slower" for change in found.changes)


if __name__ == "__main__":
    run_bench(
        SECTION,
        options_of(sys.argv[1:]),
        lambda options: section(options, *measure(options)),
        (NotPlayedError, SeatrialError),
    )
