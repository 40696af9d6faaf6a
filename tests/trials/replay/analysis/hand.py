"""Believable made-up replays: what is in them adds up, by class, by query and over time.

A capture of so many statements a second is played to a server of so much capacity: what is due
and cannot be served yet waits, and that is its lag.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from seatrial._core import Histogram
from seatrial.results.model import OperationResult, Outcome, Sample, Series, Slice, Timeline
from seatrial.results.replay import (
    ReplayAccount,
    ReplayClient,
    ReplayCommits,
    ReplayDelays,
    ReplayErrorExample,
    ReplayErrors,
    ReplayLag,
    ReplayMoment,
    ReplayQuery,
    ReplayRecord,
    ReplayRows,
    ReplayRowsExample,
    ReplaySessions,
)
from seatrial.study.cell import Cell
from trials.database.analysis.hand import COMMIT, columns_of, counters_of, record_of

US_NS = 1_000
MS_NS = 1_000_000
S_NS = 1_000_000_000


@dataclass(frozen=True)
class Kind:
    """A query of the capture: its share of the statements, its times at client and server."""

    name: str
    text: str
    share: float
    client_ns: int
    server_ns: int


KINDS = (
    Kind("select", "SELECT abalance FROM pgbench_accounts WHERE aid = $1", 0.30, 310 * US_NS,
         180 * US_NS),
    Kind("select", "SELECT o.id, o.total, c.name FROM orders o JOIN customers c ON c.id = o.cust "
         "WHERE o.placed_at > $1 AND c.region = $2 ORDER BY o.placed_at DESC LIMIT $3", 0.08,
         9 * MS_NS, 14 * MS_NS),
    Kind("update", "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2", 0.15,
         620 * US_NS, 400 * US_NS),
    Kind("update", "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2", 0.15,
         2_900 * US_NS, 2_100 * US_NS),
    Kind("insert", "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1)", 0.10,
         350 * US_NS, 190 * US_NS),
    Kind("transaction", "BEGIN", 0.1, 90 * US_NS, 20 * US_NS),
    Kind("transaction", "COMMIT", 0.1, 2_200 * US_NS, 1_900 * US_NS),
    Kind("copy", "COPY pgbench_history FROM STDIN", 0.02, 0, 0),
)  # fmt: skip


@dataclass
class Play:
    """A replay to be made.

    Attributes:
        speed: None at maximum speed.
        captured_s: Length of the capture.
        captured_per_s: Its statements a second.
        capacity_per_s: What the server does at most.
        ended_at_share: Of what was to be sent, how much was before it ended.
        failed: Statements that fail, all of them updates.
        new: Of these, those that the capture does not have.
        skipped: Of SELECT, by reason; COPY is skipped for want of its data.
        empty_writes: Of the updates.
        rows_different: Of the statements whose rows the capture tells.
        rolled_back: Of the COMMITs.
        held_s: How long all statements together waited for their order, where that is ``commit``.
        core_share: What the driver used of a core; ``delay_share`` what it lacked.
        factors: Others that its study varies, such as the size of a cache.
    """

    speed: float | None = None
    order: str = "session"
    target: str = "trial"
    captured_s: float = 60.0
    captured_per_s: float = 200.0
    capacity_per_s: float = 900.0
    ended_at_share: float = 1.0
    failed: int = 0
    new: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    empty_writes: int = 0
    rows_different: int = 0
    rolled_back: int = 0
    held_s: float = 4.0
    released_by_lock: int = 0
    released_by_patience: int = 0
    postponed: int = 0
    core_share: float = 0.2
    delay_share: float = 0.02
    ceiling_per_s: float | None = 60_000.0
    end: str = "complete"
    waits: dict[str, int] = field(default_factory=lambda: dict(COMMIT))
    columns: dict[str, Any] = field(default_factory=dict)
    is_remote: bool = False
    alone: bool = True
    wobble: float = 1.0
    factors: dict[str, Any] = field(default_factory=dict)


def cell_of(play: Play) -> Cell:
    """The cell as the plan of a study makes it."""
    factors: dict[str, Any] = {
        "trace": "prod.trace",
        "speed": play.speed or "max",
        "pace": "arrivals",
        "order": play.order,
        "read_only": False,
        **play.factors,
    }
    reported = {name: play.speed for name in ["speed"] if play.speed} | play.factors
    reported |= {name: play.order for name in ["order"] if play.order != "session"}
    tail = "".join(f"/{name}={value}" for name, value in reported.items())
    replay = {
        "trace": "/srv/prod.trace",
        "identity": "4f1c",
        "statements": round(play.captured_s * play.captured_per_s),
        "captured_s": play.captured_s,
        "speed": play.speed,
        "order": play.order,
    }
    load = {"kind": "pgbench", "scale": 10}
    database = {"load": load, "clients": 8, "start": "cold", "replay": replay}
    prefix = "" if play.alone else f"{play.target}/"
    return Cell(
        key=f"{prefix}replay/statement{tail}",
        target=play.target,
        workload="replay",
        kind="replay",
        operation="statement",
        block_size_bytes=0,
        threads=8,
        factors=factors,
        spec={"target": {"kind": "database"}, "accesses": [], "arrival": {"kind": "closed"},
              "database": database},
    )  # fmt: skip


def counts_of(play: Play) -> dict[str, int]:
    """Captured statements by class."""
    total = round(play.captured_s * play.captured_per_s)
    found: dict[str, int] = {}
    for kind in KINDS:
        found[kind.name] = found.get(kind.name, 0) + round(total * kind.share)
    return found


def accounts_of(play: Play) -> dict[str, ReplayAccount]:
    """What became of each class of statements."""
    found = {}
    for name, captured in counts_of(play).items():
        skipped = {"copy": {"copy_data": captured}, "select": play.skipped}.get(name, {})
        sendable = captured - sum(skipped.values())
        sent = round(sendable * play.ended_at_share)
        failed = play.failed if name == "update" else 0
        found[name] = ReplayAccount(
            captured=captured,
            ok=sent - failed,
            failed=failed,
            skipped=dict(skipped),
            not_reached=sendable - sent,
        )
    return found


@dataclass(frozen=True)
class Step:
    """A second of the replay: shares of all that is sent, up to its end, and the lag in it."""

    captured_share: float
    answered_share: float
    lag_ns: float | None


def steps_of(play: Play) -> tuple[list[Step], float]:
    """What happened second by second, and how long the replay lasted."""
    total = play.captured_s * play.captured_per_s
    planned_s = play.captured_s / play.speed if play.speed else play.captured_s
    due_per_s = [_wave(second, planned_s) for second in range(math.ceil(planned_s))]
    whole = sum(due_per_s)
    capacity = play.capacity_per_s * play.wobble
    steps: list[Step] = []
    due = done = 0.0
    second = 0
    lasts_s = 0.0
    while done < total * play.ended_at_share - 1e-6 or second < len(due_per_s):
        due += total * due_per_s[second] / whole if second < len(due_per_s) else 0.0
        ready = due if play.speed else total
        more = min(ready - done, capacity, max(0.0, total * play.ended_at_share - done))
        done += more
        lag = (due - done) / capacity * S_NS + 0.2 * MS_NS
        steps.append(Step(due / total, done / total, lag if play.speed and more else None))
        lasts_s = second + max(more / capacity, 0.05) if more and not play.speed else lasts_s
        lasts_s = second + 1.0 if more and play.speed else lasts_s
        second += 1
    return steps, max(lasts_s, 1.0)


def _wave(second: int, planned_s: float) -> float:
    """A load that rises and falls, as a day's does."""
    return 1.0 + 0.5 * math.sin(2 * math.pi * second / max(planned_s, 2.0))


def sample_of(play: Play, round: int = 0) -> Sample:  # noqa: A002
    """One round of a replay."""
    cell = cell_of(play)
    steps, duration_s = steps_of(play)
    accounts = accounts_of(play)
    slices, operations = _operations(accounts, steps)
    record = replay_record(play, accounts, steps, duration_s)
    total = record.total
    seconds = max(1, math.ceil(duration_s))
    series = Series(period_s=1.0, columns=columns_of(seconds, **play.columns))
    if play.is_remote:
        seen = {n: v for n, v in series.columns.items() if n.startswith("backends")}
        series = Series(period_s=1.0, columns=seen)
    return Sample(
        cell=cell,
        round=round,
        position=0,
        started_at=1_795_247_100.0 + 100 * round,
        duration_s=duration_s,
        status="interrupted" if play.end == "interrupted" else "complete",
        engine="replay",
        outcome=Outcome(
            offered=total.sent,
            completed=total.ok,
            failed=total.failed,
            late_skipped=0,
            in_flight_at_end=0,
        ),
        operations=operations,
        timeline=Timeline(slice_ns=S_NS, slices=slices),
        counters=counters_of(seconds) if not play.is_remote else {"observer_looks": 10.0 * seconds},
        series=series,
        database=record_of(
            waits=play.waits,
            client_cpu_share=play.core_share,
            ceiling_per_s=play.ceiling_per_s,
        ),
        replay=record,
    )


def _operations(
    accounts: dict[str, ReplayAccount], steps: list[Step]
) -> tuple[list[Slice], dict[str, OperationResult]]:
    slices: list[Slice] = []
    operations = {}
    for name, account in accounts.items():
        if not account.sent:
            continue
        own = [kind for kind in KINDS if kind.name == name]
        whole = Histogram.of([])
        for index, count in enumerate(_parts(account.ok, steps)):
            if not count:
                continue
            lag_ns = steps[index].lag_ns or 0.0
            times = [
                round(own[i % len(own)].client_ns * (1 + 0.3 * ((i * 7) % 10)) + lag_ns)
                for i in range(count)
            ]
            histogram = Histogram.of(times)
            whole = whole.merged(histogram)
            slices.append(
                Slice(
                    index=index,
                    operation=name,
                    completed=count,
                    transferred_bytes=0,
                    response=histogram.encode(),
                )
            )
        operations[name] = OperationResult(
            completed=account.ok,
            failed=account.failed,
            transferred_bytes=0,
            response=whole.encode(),
        )
    return sorted(slices, key=lambda each: each.index), operations


def _parts(count: int, steps: list[Step]) -> list[int]:
    """A count shared out over the steps as what was answered in them."""
    last = steps[-1].answered_share or 1.0
    ends = [round(count * step.answered_share / last) for step in steps]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def replay_record(
    play: Play, accounts: dict[str, ReplayAccount], steps: list[Step], duration_s: float
) -> ReplayRecord:
    sent = sum(account.sent for account in accounts.values())
    commits = round(play.captured_s * play.captured_per_s * 0.1)
    reached = round(commits * play.ended_at_share)
    return ReplayRecord(
        classes=accounts,
        commits=ReplayCommits(
            captured=commits, committed=reached - play.rolled_back, rolled_back=play.rolled_back
        ),
        errors=_errors(play),
        rows=_rows(play, accounts),
        lag=_lag(play, sent, steps, duration_s),
        timeline=_timeline(accounts, steps),
        timeline_slice_s=1.0,
        queries=_queries(accounts),
        order=ReplayDelays(
            delayed=900 if play.order == "commit" else 0,
            waited_ns=round(play.held_s * S_NS) if play.order == "commit" else 0,
            released_by_lock=play.released_by_lock,
            released_by_patience=play.released_by_patience,
            read_further=0,
            postponed=play.postponed,
        ),
        sessions=ReplaySessions(
            captured=24, captured_open_max=8, connected=24, open_max=8, refused=0, lost=0,
            never_ended=1,
        ),
        client=ReplayClient(
            cpu_user_ns=round(play.core_share * 0.4 * duration_s * S_NS),
            cpu_system_ns=round(play.core_share * 0.6 * duration_s * S_NS),
            run_delay_ns=round(play.delay_share * duration_s * S_NS),
            idle_ns=round(max(0.0, 1 - play.core_share - play.delay_share) * duration_s * S_NS),
            memory_bytes_max=14_680_064,
            read_ahead_max=2_048,
        ),
        captured_s=play.captured_s,
        end=play.end,
        words="57P01: terminating connection due to administrator command"
        if play.end == "server_lost"
        else "",
        trace={"files": "2", "masked": "no"},
    )  # fmt: skip


def _errors(play: Play) -> ReplayErrors:
    same = play.failed - play.new
    examples = []
    if same:
        examples.append(
            ReplayErrorExample(
                kind="same", captured_sqlstate="23505", sqlstate="23505",
                message='duplicate key value violates unique constraint "accounts_pkey"',
                text=KINDS[2].text, count=same, number=120, session="672f.1",
            )
        )  # fmt: skip
    if play.new:
        examples.append(
            ReplayErrorExample(
                kind="new", captured_sqlstate="", sqlstate="40P01", message="deadlock detected",
                text=KINDS[3].text, count=play.new, number=480, session="672f.3",
            )
        )  # fmt: skip
    return ReplayErrors(
        same=same, other=0, new=play.new, gone=0, captured=same, unanswered=0, examples=examples
    )


def _rows(play: Play, accounts: dict[str, ReplayAccount]) -> ReplayRows:
    writes = accounts["update"].ok
    examples = []
    if play.rows_different:
        examples.append(
            ReplayRowsExample(
                text=KINDS[1].text, captured=20, rows=3, tag="SELECT 3",
                count=play.rows_different, number=77,
            )
        )  # fmt: skip
    return ReplayRows(
        compared=1_000,
        equal=1_000 - play.rows_different,
        tags_compared=sum(account.ok for account in accounts.values()),
        tags_different=play.rolled_back,
        writes=writes,
        empty_writes=play.empty_writes,
        reads=accounts["select"].ok,
        empty_reads=0,
        examples=examples,
    )


def _lag(play: Play, sent: int, steps: list[Step], duration_s: float) -> ReplayLag:
    known = sorted(step.lag_ns for step in steps if step.lag_ns is not None)
    late_share = sum(lag > MS_NS for lag in known) / len(known) if known else 0.0
    late = round(sent * late_share)
    return ReplayLag(
        paced=sent if play.speed else 0,
        within_1ms=sent - late if play.speed else 0,
        ns_p50=round(known[len(known) // 2]) if known else 0,
        ns_p99=round(known[-1]) if known else 0,
        ns_max=round(known[-1] * 1.2) if known else 0,
        late_by_session=late - late // 20,
        late_by_order=0,
        late_by_connections=0,
        late_by_driver=late // 20,
        driver_ns_p99=340 * US_NS,
        driver_ns_max=7 * MS_NS,
        due_ns_last=round(play.captured_s / play.speed * S_NS) if play.speed else 0,
        sent_ns_last=round(duration_s * S_NS) if play.speed else 0,
    )


def _timeline(accounts: dict[str, ReplayAccount], steps: list[Step]) -> list[ReplayMoment]:
    every = accounts.values()
    sent = (_parts(account.sent, steps) for account in every)
    answered = [sum(parts) for parts in zip(*sent, strict=True)]
    wrong = (_parts(account.failed, steps) for account in every)
    failed = [sum(parts) for parts in zip(*wrong, strict=True)]
    captured = sum(each.captured for each in accounts.values())
    ends = [round(captured * step.captured_share) for step in steps]
    due = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    return [
        ReplayMoment(
            answered=answered[place],
            failed=failed[place],
            captured=due[place],
            lag_ns_mean=step.lag_ns,
            lag_ns_max=None if step.lag_ns is None else round(step.lag_ns * 1.4),
            response_ns_mean=(step.lag_ns or 0.0) + 900 * US_NS if answered[place] else None,
            sessions=8 if answered[place] else 0,
        )
        for place, step in enumerate(steps)
    ]


def _queries(accounts: dict[str, ReplayAccount]) -> list[ReplayQuery]:
    found = []
    for number, kind in enumerate(KINDS):
        account = accounts[kind.name]
        own = [each for each in KINDS if each.name == kind.name]
        place = own.index(kind)
        ok = account.ok // len(own) + (place < account.ok % len(own))
        if not ok:
            continue
        found.append(
            ReplayQuery(
                fingerprint=f"{number:016x}",
                text=kind.text,
                class_=kind.name,
                ok=ok,
                failed=account.failed if place == 0 else 0,
                service_ns_sum=ok * kind.client_ns,
                service_ns_p50=kind.client_ns,
                service_ns_p95=kind.client_ns * 2,
                service_ns_p99=kind.client_ns * 3,
                service_ns_max=kind.client_ns * 9,
                response_ns_p50=kind.client_ns + 40 * US_NS,
                response_ns_p99=kind.client_ns * 3 + 90 * US_NS,
                captured_known=ok,
                captured_ns_sum=ok * kind.server_ns,
                captured_ns_p50=kind.server_ns,
                captured_ns_p95=kind.server_ns * 2,
                captured_ns_p99=kind.server_ns * 4,
                rows=ok,
            )
        )
    return sorted(found, key=lambda each: -each.service_ns_sum)


def rounds_of(play: Play, rounds: int = 3) -> list[Sample]:
    """Rounds of one replay whose server is a little faster or slower each time."""
    return [
        sample_of(changed(play, wobble=1.0 + 0.01 * (number - 1)), number)
        for number in range(rounds)
    ]


def changed(play: Play, **changes: Any) -> Play:
    return Play(**{**vars(play), **changes})


def adds_up(record: ReplayRecord) -> bool:
    """Whether classes, queries and time say the same of a record."""
    total = record.total
    sent_over_time = sum(each.answered for each in record.timeline)
    of_queries = sum(query.ok for query in record.queries)
    return (
        all(each.adds_up for each in record.classes.values())
        and sent_over_time == total.sent
        and of_queries == total.ok
        and sum(each.captured for each in record.timeline) == total.captured
    )
