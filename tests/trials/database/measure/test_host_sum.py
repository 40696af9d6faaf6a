"""What hosts loaded, added: equal to pooled transactions of the common window, in any order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial._core import Histogram
from seatrial.results.fleet import ClockOffset
from seatrial.results.model import OperationResult, Outcome, Slice, Timeline
from seatrial.trials.database.measure.driver_result import Completions, DriverResult
from seatrial.trials.database.measure.host_load import HostResult
from seatrial.trials.database.measure.host_sum import CommonLoad, HostReport, merged_result

SLICE_NS = 100_000_000
DURATION_S = 2.0
CLOCK = ClockOffset(
    offset_ns=0,
    bound_ns=20_000,
    wall_offset_ns=0,
    round_trip_ns_p50=50_000,
    round_trip_ns_min=40_000,
    read_at_ns=0,
)
TOGETHER = CommonLoad(
    start_ns=10**12,
    start_unix_s=1e9,
    duration_s=DURATION_S,
    slice_ms=100,
    hosts_count=9,
    on_loss="stop",
    lost=[],
)
# When a transaction ended after the host's first one began, and how long it took.
transactions = st.lists(
    st.tuples(st.integers(0, 2_500_000_000), st.integers(1, 3_600_000_000_000)), max_size=60
)
hosts = st.lists(
    st.tuples(transactions, st.integers(-950_000_000, 450_000_000), st.integers(1, 3_000)),
    min_size=1,
    max_size=6,
)


def answer_of(number, done, first_ns, loaded_ms) -> HostReport:
    """A host whose first transaction began so long after the agreed start, or before it."""
    # As they are read from a log: what ended before the start is in the first slice.
    ended = [(max(0, first_ns + at_ns), latency_ns) for at_ns, latency_ns in done]
    slices = [
        Slice(
            index=index,
            operation="transaction",
            completed=len(own),
            transferred_bytes=0,
            response=Histogram.of(own).encode(),
        )
        for index in sorted({at_ns // SLICE_NS for at_ns, _ in ended})
        for own in [[took for at_ns, took in ended if at_ns // SLICE_NS == index]]
    ]
    count = len(done)
    completions = Completions(
        started_at=0.0,
        duration_s=loaded_ms / 1e3,
        outcome=Outcome(
            offered=count, completed=count, failed=0, late_skipped=0, in_flight_at_end=0
        ),
        operations={
            "transaction": OperationResult(
                completed=count,
                failed=0,
                transferred_bytes=0,
                response=Histogram.of([took for _, took in ended]).encode(),
            )
        },
        timeline=Timeline(slice_ns=SLICE_NS, slices=slices),
    )
    return HostReport(
        name=f"host{number}",
        address=f"10.0.0.{number}",
        cpus=1.0,
        part=HostResult(
            result=DriverResult(
                completions=completions,
                interrupted=False,
                cpu_user_s=0.1,
                cpu_system_s=0.1,
                client_cpu_share=None,
            ),
            first_ns=first_ns,
        ),
        before=CLOCK,
        after=CLOCK,
        received_bytes_per_s=0.0,
        sent_bytes_per_s=0.0,
    )


@given(hosts, st.randoms())
def test_merged_equals_pooled_over_the_common_window_in_any_order(given_hosts, draw):
    answers = [answer_of(number, *each) for number, each in enumerate(given_hosts)]
    result = merged_result(TOGETHER, answers)
    mixed = merged_result(TOGETHER, draw.sample(answers, len(answers)))
    assert mixed.completions == result.completions
    # The window in slices: after the start, or the latest first transaction, until the first host
    # has ended.
    first = max(1, -(-max(late_ns for _, late_ns, _ in given_hosts) // SLICE_NS))
    ends_ns = [late_ns + loaded_ms * 1_000_000 for _, late_ns, loaded_ms in given_hosts]
    end_ns = min(*ends_ns, int(DURATION_S * 1e9))
    count = max(0, (end_ns - first * SLICE_NS) // SLICE_NS)
    pooled = [
        took
        for done, late_ns, _ in given_hosts
        for at_ns, took in done
        if first <= (late_ns + at_ns) // SLICE_NS < first + count
    ]
    assert result.completions.outcome.completed == len(pooled)
    assert result.completions.duration_s == pytest.approx(max(count * 0.1, 1e-9))
    merged = result.completions.operations.get("transaction")
    if pooled:
        assert merged.response == Histogram.of(pooled).encode()
    record = result.fleet
    assert sum(host.window_completed for host in record.hosts) == len(pooled)
    assert record.outside_completed == sum(len(host[0]) for host in given_hosts) - len(pooled)


def test_a_late_host_shortens_the_window_and_is_not_averaged():
    steady = [(at_ns, 1_000) for at_ns in range(0, 2_000_000_000, 10_000_000)]
    result = merged_result(
        TOGETHER, [answer_of(1, steady, 0, 2_000), answer_of(2, steady, 250_000_000, 1_700)]
    )
    # From 300 ms to 1,900 ms, 100 a second from each.
    assert result.completions.duration_s == pytest.approx(1.6)
    assert result.completions.started_at == pytest.approx(1e9 + 0.3)
    assert [host.window_completed for host in result.fleet.hosts] == [160, 160]
    assert result.fleet.skew_ns == 250_000_000


def test_hosts_that_load_before_the_start_began_together():
    steady = [(at_ns, 1_000) for at_ns in range(0, 3_000_000_000, 10_000_000)]
    result = merged_result(
        TOGETHER,
        [answer_of(1, steady, -930_000_000, 3_000), answer_of(2, steady, -700_000_000, 3_000)],
    )
    assert result.completions.duration_s == pytest.approx(1.9)
    assert [host.window_completed for host in result.fleet.hosts] == [190, 190]
    assert (result.fleet.skew_ns, result.fleet.hosts[1].lateness_ns) == (0, -700_000_000)
