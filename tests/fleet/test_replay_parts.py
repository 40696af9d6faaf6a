"""Replays of several hosts merged: equal to pooled, in any order, and no statement missing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial._core import Histogram
from seatrial.errors import SeatrialError, UsageError
from seatrial.results.replay import (
    ReplayAccount,
    ReplayClient,
    ReplayCommits,
    ReplayDelays,
    ReplayErrors,
    ReplayLag,
    ReplayMoment,
    ReplayQuery,
    ReplayRecord,
    ReplayRows,
    ReplaySessions,
)
from seatrial.trials.replay.commands.replay import require_parts
from seatrial.trials.replay.measure.hosts import HostReplay, merged_operations, merged_record


def zeros(kind, **values):
    """A structure whose required counts are 0."""
    fields = msgspec.structs.fields(kind)
    return kind(**{each.name: 0 for each in fields if each.required} | values)


def host_of(number, times_ns, captured, slices):
    response = Histogram.of(times_ns).encode()
    account = ReplayAccount(
        captured=captured,
        ok=len(times_ns),
        failed=0,
        skipped={"other_host": captured - len(times_ns)},
    )
    query = zeros(
        ReplayQuery,
        fingerprint="a" * 16,
        text="select ?",
        class_="select",
        ok=len(times_ns),
        service_ns_sum=sum(times_ns),
        service_ns_max=max(times_ns, default=0),
    )
    counts = {"service": response, "response": response, "captured": Histogram.of([]).encode()}
    moments = [ReplayMoment(answered=0, failed=0, captured=0)] * slices
    for each_ns in times_ns:
        place = each_ns % slices
        moment = moments[place]
        moments[place] = msgspec.structs.replace(moment, answered=moment.answered + 1)
    return HostReplay(
        name=f"host{number}",
        parts={
            "operations": {
                "select": {
                    "completed": len(times_ns),
                    "failed": 0,
                    "response": response,
                    "service": response,
                }
            }
        },
        record=ReplayRecord(
            classes={"select": account},
            commits=zeros(ReplayCommits),
            errors=zeros(ReplayErrors),
            rows=zeros(ReplayRows),
            lag=zeros(ReplayLag, paced=len(times_ns)),
            timeline=moments,
            queries=[query] if times_ns else [],
            order=zeros(ReplayDelays),
            sessions=zeros(ReplaySessions, captured=1),
            client=zeros(ReplayClient, cpu_user_ns=number),
            captured_s=1.0,
        ),
        counts={
            "lag": response,
            "driver_lag": response,
            "queries": {"a" * 16: counts} if times_ns else {},
        },
        end="complete",
        words="",
    )


hosts = st.lists(
    st.tuples(st.lists(st.integers(1, 3_600_000_000_000), max_size=40), st.integers(1, 4)),
    min_size=1,
    max_size=5,
)


@given(hosts, st.randoms())
def test_merged_equals_pooled_in_any_order(given_hosts, draw):
    pooled = [each_ns for times_ns, _ in given_hosts for each_ns in times_ns]
    replays = [host_of(n, t, len(pooled), s) for n, (t, s) in enumerate(given_hosts)]
    merged = merged_record(replays, is_whole=True)
    assert merged_record(draw.sample(replays, len(replays)), is_whole=True) == merged
    expected = Histogram.of(pooled)
    assert merged.total.ok == merged.total.captured == len(pooled)
    assert merged.total.skipped == {}
    assert merged.lag.ns_p99 == expected.percentile_ns(99.0)
    assert sum(each.answered for each in merged.timeline) == len(pooled)
    assert merged_operations(replays)["select"]["response"] == expected.encode()
    for query in merged.queries:
        assert query.ok == len(pooled)
        assert query.service_ns_p50 == min(expected.percentile_ns(50.0), max(pooled))


def test_statements_of_a_lost_host_are_named_and_none_else_may_be_missing():
    replays = [host_of(0, [5, 6], 5, 1), host_of(1, [7], 5, 1)]
    assert merged_record(replays, is_whole=False).total.skipped == {"lost_host": 2}
    with pytest.raises(SeatrialError, match="2 of them are missing"):
        merged_record(replays, is_whole=True)


def test_a_statement_that_two_hosts_sent_is_an_error():
    replays = [host_of(0, [5, 6], 3, 1), host_of(1, [7, 8], 3, 1)]
    with pytest.raises(SeatrialError, match="do not add up"):
        merged_record(replays, is_whole=False)


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({"order": "commit"}, "--order commit is given with --ray"),
        ({"read_only": False}, "--ids infer"),
        ({"addresses": ("/mnt/ssd",)}, "the folder /mnt/ssd"),
    ],
)
def test_what_cannot_be_played_in_parts_is_refused(given, seen):
    fit = {"order": "session", "read_only": True, "ids": None, "addresses": ("postgresql://db/x",)}
    require_parts(fit)
    with pytest.raises(UsageError, match=seen):
        require_parts(fit | given)
