"""Records of replays, made up: one that is well, and one in which every part holds something."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from results.builders import make_cell, make_database_sample
from seatrial.results.model import Sample
from seatrial.results.replay import (
    ReplayAccount,
    ReplayClassRows,
    ReplayClient,
    ReplayCommits,
    ReplayDelays,
    ReplayErrorExample,
    ReplayErrors,
    ReplayIdClass,
    ReplayIdExample,
    ReplayIdPattern,
    ReplayIds,
    ReplayLag,
    ReplayMoment,
    ReplayQuery,
    ReplayRecord,
    ReplayRows,
    ReplayRowsExample,
    ReplaySessions,
)

NO_ERRORS = ReplayErrors(same=0, other=0, new=0, gone=0, captured=0, unanswered=0)
ROWS = ReplayRows(
    compared=0,
    equal=0,
    tags_compared=900,
    tags_different=0,
    writes=400,
    empty_writes=0,
    reads=500,
    empty_reads=100,
)
SESSIONS = ReplaySessions(
    captured=8, captured_open_max=8, connected=8, open_max=8, refused=0, lost=0, never_ended=0
)
LAG = ReplayLag(
    paced=0,
    within_1ms=0,
    ns_p50=0,
    ns_p99=0,
    ns_max=0,
    late_by_session=0,
    late_by_order=0,
    late_by_connections=0,
    late_by_driver=0,
    driver_ns_p99=80_000,
    driver_ns_max=900_000,
)
WELL = ReplayRecord(
    classes={
        "select": ReplayAccount(captured=500, ok=500, failed=0),
        "update": ReplayAccount(captured=400, ok=400, failed=0),
        "transaction": ReplayAccount(captured=200, ok=200, failed=0),
    },
    commits=ReplayCommits(captured=100, committed=100, rolled_back=0),
    errors=NO_ERRORS,
    rows=ROWS,
    lag=LAG,
    order=ReplayDelays(
        delayed=0, waited_ns=0, released_by_lock=0, released_by_patience=0, read_further=0
    ),
    sessions=SESSIONS,
    client=ReplayClient(
        cpu_user_ns=10_000_000,
        cpu_system_ns=20_000_000,
        run_delay_ns=0,
        idle_ns=100_000_000,
        memory_bytes_max=9_000_000,
        read_ahead_max=500,
    ),
    captured_s=41.0,
)

IDS = ReplayIds(
    mode="infer",
    classes=[
        ReplayIdClass(
            column="public.orders.id",
            source="public.orders_id_seq",
            referring=["public.lines.order_id"],
            draws=16_000,
            draws_given_back=8_000,
            drawn_now=16_010,
            uses=16_020,
            exact=0,
            proved=12_000,
            by_pattern=3_997,
            unresolved={"several_draws": 2, "draw_failed": 1},
            unresolved_given_back=1,
            not_generated=20,
            next_value_target=101,
            next_value_log=101,
            rewritten=15_800,
            gaps=10,
        ),
        ReplayIdClass(column="public.tokens.id", source="random", draws=40, drawn_now=40),
    ],
    patterns=[
        ReplayIdPattern(
            draw_text="insert into orders (customer) values ($1) returning id",
            use_text="update orders set total = $1 where id = $2",
            column="public.orders.id",
            proved_own=12_000,
            proved_other=0,
            is_trusted=True,
            uses=3_997,
        )
    ],
    examples=[
        ReplayIdExample(
            reason="several_draws",
            column="public.orders.id",
            value="4711",
            text="update orders set total = 17 where id = 4711",
            number=8_123,
            session="6740b1c2.3f1",
            candidates=2,
        )
    ],
    not_followed={"function": 5},
    returning_added=12,
    waited_ns=41_000_000,
    volatile={"time": 30, "random": 0, "last_drawn": 4},
    forms_not_understood=1,
)

FULL = replace(
    WELL,
    classes={
        "select": ReplayAccount(captured=900, ok=890, failed=2, skipped={"dependent": 8}),
        "copy": ReplayAccount(captured=5, ok=0, failed=0, skipped={"copy_data": 5}),
        "transaction": ReplayAccount(captured=200, ok=190, failed=0, not_reached=10),
    },
    commits=ReplayCommits(captured=100, committed=94, rolled_back=1),
    errors=ReplayErrors(
        same=1,
        other=0,
        new=1,
        gone=0,
        captured=1,
        unanswered=0,
        examples=[
            ReplayErrorExample(
                kind="new",
                captured_sqlstate="",
                sqlstate="42P01",
                message='relation "orders" does not exist',
                text="select * from orders where id = $1",
                count=1,
                number=17,
                session="6740b1c2.3f1",
            )
        ],
    ),
    rows=ReplayRows(
        compared=400,
        equal=399,
        tags_compared=1080,
        tags_different=1,
        writes=50,
        empty_writes=0,
        reads=890,
        empty_reads=12,
        examples=[
            ReplayRowsExample(
                text="select 1", captured=1, rows=None, tag="SELECT", count=1, number=3
            )
        ],
        by_class={
            "select": ReplayClassRows(
                compared=300, expected_rows=500, observed_rows=498, different=1
            ),
            "update": ReplayClassRows(
                compared=100,
                expected_rows=100,
                observed_rows=100,
                expected_errors=1,
                observed_errors=2,
            ),
        },
    ),
    lag=replace(
        LAG,
        paced=1080,
        within_1ms=1076,
        ns_p50=30_000,
        ns_p99=900_000,
        ns_max=4_000_000,
        late_by_session=1,
        late_by_order=1,
        late_by_connections=1,
        late_by_driver=1,
    ),
    timeline=[
        ReplayMoment(answered=600, failed=1, captured=610, lag_ns_mean=3e4, sessions=8),
        ReplayMoment(answered=482, failed=1, captured=495, sessions=8),
    ],
    queries=[
        ReplayQuery(
            **dict.fromkeys(
                [n for n in ReplayQuery.__struct_fields__ if n.startswith(("cap", "ser", "r"))],
                7,
            ),
            fingerprint="00c0ffee00c0ffee",
            text="select 1",
            class_="select",
            ok=890,
            failed=2,
        )
    ],
    order=replace(
        WELL.order,
        delayed=3,
        waited_ns=9_000,
        released_by_lock=1,
        mode="key",
        edges=1_400,
        edge_ns=310.0,
        statement_ns=620.0,
        delayed_by={"object": 1, "key": 2},
        postponed=1,
    ),
    ids=IDS,
    sessions=replace(SESSIONS, never_ended=1),
    client=ReplayClient(
        cpu_user_ns=20_000_000,
        cpu_system_ns=30_000_000,
        run_delay_ns=1_000_000,
        idle_ns=900_000_000,
        memory_bytes_max=40 << 20,
        read_ahead_max=64,
    ),
    captured_s=60.2,
    trace={"files": "postgresql.csv", "masked": "no"},
)


def make_replay_record(**changes: Any) -> ReplayRecord:
    """A replay in which every part holds something, but for these."""
    return replace(FULL, **changes)


def record_of(**parts: Any) -> ReplayRecord:
    """A replay that is well but for these parts."""
    return replace(WELL, **parts)


def with_errors(*examples: ReplayErrorExample, **counts: int) -> ReplayRecord:
    """A replay of which these errors are examples; the counts are theirs unless given."""
    sums = {
        kind: sum(each.count for each in examples if each.kind == kind)
        for kind in ("same", "other", "new", "gone", "unanswered")
    }
    return record_of(errors=replace(NO_ERRORS, **sums | counts, examples=list(examples)))


def error(kind: str, *, now: str = "", captured: str = "", count: int = 1) -> ReplayErrorExample:
    return ReplayErrorExample(
        kind=kind,
        captured_sqlstate=captured,
        sqlstate=now,
        message="the server's words",
        text="select $1",
        count=count,
        number=7,
        session="672f.1",
    )


def make_replay_sample(index: int = 0) -> Sample:
    """A sample as a replay gives it."""
    cell = replace(
        make_cell("statement", 0, 1), key="replay/statement/trace=prod.trace", kind="replay"
    )
    sample = make_database_sample(index)
    return replace(sample, cell=cell, engine="replay", replay=make_replay_record())
