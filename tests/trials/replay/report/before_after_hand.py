"""Comparisons of before and after, made by hand: every answer, pages, batches, hostile texts."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal

from seatrial.stats.estimate import Estimate
from seatrial.trials.replay.compare.model import (
    Batch,
    BeforeAfter,
    CallFigures,
    Change,
    Floor,
    OneSided,
    Overall,
    ServerWork,
    Side,
    Table,
)
from seatrial.trials.replay.compare.verdict import verdict

QUERIES = (
    # text, class, calls, mean before (ms), speed-up, spread
    ("SELECT abalance FROM pgbench_accounts WHERE aid = ?", "select", 40_000, 4.2, 7.9, 0.06),
    ("UPDATE pgbench_accounts SET abalance = abalance + ? WHERE aid = ?", "update", 12_000, 9.8,
     6.3, 0.08),
    ("COMMIT", "transaction", 12_000, 8.1, 11.2, 0.05),
    ("SELECT o.id, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer WHERE "
     "o.placed_at > ? AND c.region = ? ORDER BY o.placed_at DESC LIMIT ?", "select", 900, 140.0,
     3.1, 0.1),
    ("SELECT count(*) FROM lines WHERE product = ANY (?)", "select", 300, 90.0, 0.55, 0.12),
    ("INSERT INTO orders (customer, placed_at) VALUES (?, ?) RETURNING id", "insert", 9_000, 2.2,
     2.4, 0.1),
    ("INSERT INTO lines (order_id, product, pieces) VALUES (?, ?, ?)", "insert", 27_000, 0.9, 1.9,
     0.1),
    ("SELECT nextval('orders_id_seq')", "select", 9_000, 0.031, 1.01, 0.02),
    ("UPDATE sessions SET seen_at = now() WHERE token = ?", "update", 30_000, 0.35, 0.78, 0.05),
    ("DELETE FROM sessions WHERE seen_at < ?", "delete", 24, 310.0, 1.4, 0.6),
    ("SELECT * FROM products WHERE name LIKE ?", "select", 2_200, 12.0, 1.3, 0.5),
    ("BEGIN", "transaction", 12_000, 0.019, 1.0, 0.03),
)  # fmt: skip


def ratio(
    value: float,
    spread: float | None,
    rounds: int = 10,
    over: Literal["rounds", "timeline"] = "rounds",
) -> Estimate:
    low, high = (None, None) if spread is None else (value / (1 + spread), value * (1 + spread))
    return Estimate(value=value, low=low, high=high, rounds=rounds, unit="ratio", over=over)


def make_change(  # noqa: PLR0917 - one row of QUERIES
    text: str = "SELECT ?",
    kind: str = "select",
    calls: float = 1_000,
    mean_ms: float = 2.0,
    factor: float = 2.0,
    spread: float | None = 0.1,
    **changes: Any,
) -> Change:
    """One query, ``factor`` times as fast after."""
    before_s = calls * mean_ms / 1e3
    speed_up = changes.pop("speed_up", None) or ratio(factor, spread)
    low, high = speed_up.low or 0.0, speed_up.high or math.inf
    answer = "faster" if low > 1.05 else "slower" if high < 0.95 else "undecided"
    more = {"within_share": 0.04} if answer == "undecided" and high < 1.05 and low > 0.95 else {}
    values = {
        "key": f"{abs(hash(text)) % 16**16:016x}",
        "text": text,
        "kind": kind,
        "before": CallFigures(calls=calls, total_s=before_s),
        "after": CallFigures(calls=calls, total_s=before_s / factor),
        "speed_up": speed_up,
        "saved_s": before_s - before_s / factor,
        "p_value": 0.001,
        "p_adjusted": 0.004,
        "answer": "same" if more else answer,
        **more,
    }
    return Change(**values | changes)


def make_overall(changes: list[Change], **others: Any) -> Overall:
    before_s = math.fsum(change.before.total_s for change in changes)
    after_s = before_s - math.fsum(change.saved_s for change in changes)
    logs = [math.log(change.speed_up.value) for change in changes]
    counts = [change.answer for change in changes]
    plans = [change.plan_changed for change in changes if change.plan_changed is not None]
    values = {
        "speed_up": ratio(before_s / after_s, 0.05),
        "geometric": ratio(math.exp(sum(logs) / len(logs)), 0.07),
        "answer": "faster",
        "p_value": 0.0001,
        "below_floor": False,
        "within_share": None,
        "rounds_more": None,
        "before_s": before_s,
        "after_s": after_s,
        "plans_changed": sum(plans) if plans else None,
        **{name: counts.count(name) for name in ("faster", "slower", "same", "undecided")},
    }
    return Overall(**values | others)


def make_side(name: str, **changes: Any) -> Side:
    values = {
        "name": name,
        "kind": "replay",
        "clock": "client",
        "units": 10,
        "covered_s": 42.0,
        "calls": 154_424.0,
        "total_s": 640.0,
    }
    return Side(**values | changes)


def make_table(changes: list[Change] | None = None, **others: Any) -> Table:
    found = all_queries() if changes is None else changes
    values = {
        "before": make_side("hdd"),
        "after": make_side("ssd", total_s=120.0),
        "basis": "interleaved",
        "overall": make_overall(found) if found else None,
        "changes": sorted(found, key=lambda each: -each.before.total_s),
        "floor": Floor(source="pair", name="hdd again", overall=1.03, query=1.09),
    }
    return Table(**values | others)


def make_work(**known: float) -> ServerWork:
    """What the server did for a query, of 300 calls that wrote nothing."""
    return ServerWork(calls=300, wal_bytes=0, **known)


def all_queries() -> list[Change]:
    """Every answer; two are slower, one of them with another plan."""
    found = [make_change(*query) for query in QUERIES]
    work = {
        "server_before": make_work(exec_s=0.09, blocks_hit=120, blocks_read=4),
        "server_after": make_work(exec_s=0.16, blocks_hit=90, blocks_read=800),
        "plan_before": "Aggregate(Bitmap Heap Scan(lines: lines_product))",
        "plan_after": "Aggregate(Seq Scan(lines))",
        "plan_changed": True,
    }
    found[4] = make_change(*QUERIES[4], **work)
    found[0] = make_change(
        *QUERIES[0], plan_before="Index Scan(accounts_pkey)",
        plan_after="Index Scan(accounts_pkey)", plan_changed=False,
    )  # fmt: skip
    return found


def pages_table() -> Table:
    """Pages of a web server, one capture of each side, as in an access log."""
    pages = (
        ("GET /", 20_000, 180.0, 2.2),
        ("GET /offer/?", 90_000, 420.0, 2.6),
        ("GET /report/?/month", 1_200, 5_300.0, 4.9),
        ("POST /basket", 8_000, 260.0, 1.5),
        ("GET /health", 100_000, 1.1, 1.0),
    )
    changes = [
        make_change(
            text, "page", calls, mean, factor,
            speed_up=ratio(factor, 0.06, rounds=1, over="timeline"),
            answer="faster" if factor > 1.7 else "undecided", p_value=None, p_adjusted=None,
        )
        for text, calls, mean, factor in pages
    ]  # fmt: skip
    side = {"kind": "web", "clock": "server", "units": 1, "covered_s": 86_400.0, "calls": 219_200.0}
    overall = make_overall(changes, speed_up=ratio(2.6, 0.04, 1, "timeline"), p_value=None)
    return make_table(
        changes,
        before=make_side("access-may-19.log", **side),
        after=make_side("access-may-22.log", **side),
        basis="once",
        overall=overall,
        floor=Floor(source="usual", overall=1.7, query=1.7),
        warnings=["Both were measured once each: nothing is tested."],
    )


def make_batch(name: str = "nightly maintenance", **changes: Any) -> Batch:
    values = {
        "name": name,
        "before_s": [20_886.451],
        "after_s": [1_834.747],
        "speed_up": ratio(20_886.451 / 1_834.747, None, 1),
        "answer": "faster",
        "p_value": None,
        "floor": 1.7,
    }
    return Batch(**values | changes)


def make_before_after(**changes: Any) -> BeforeAfter:
    found = BeforeAfter(**{"queries": make_table()} | changes)
    return BeforeAfter(
        queries=found.queries,
        pages=found.pages,
        batches=found.batches,
        verdict=verdict(found),
        warnings=found.warnings,
    )


@functools.cache
def full_before_after() -> BeforeAfter:
    """Queries, pages and batches as in the article of 2009, with what each side lacks."""
    lacking = [
        OneSided(key="1", text="TRUNCATE staging", measured=CallFigures(calls=3, total_s=4.1))
    ]
    newer = [
        OneSided(key="2", text="SELECT ? FROM new_table", measured=CallFigures(calls=9, total_s=1))
    ]
    return make_before_after(
        queries=make_table(
            only_before=lacking,
            only_after=newer,
            warnings=["10 % of the time of hdd is of queries that ssd lacks."],
        ),
        pages=pages_table(),
        batches=[
            make_batch(),
            make_batch(
                "import",
                before_s=[340.0, 352.0, 361.0],
                after_s=[300.0, 330.0, 420.0],
                speed_up=ratio(1.02, 0.4, 3),
                answer="undecided",
                p_value=0.8,
            ),
        ],
    )
