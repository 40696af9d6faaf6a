"""Merged equals pooled: of raw latencies, for any number of hosts, in any order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial._core import Histogram
from seatrial.fleet.merge import HostSample, merge
from seatrial.results.model import Slice, Timeline

SLICE_NS = 100_000_000

requests = st.lists(
    st.tuples(
        st.integers(0, 2_000_000_000),  # when it completed, after the host's start
        st.integers(1, 3_600_000_000_000),  # its latency
        st.sampled_from(["read", "write"]),
    ),
    max_size=60,
)
hosts = st.lists(
    st.tuples(requests, st.integers(0, 3_000_000), st.sampled_from([1, 2, 4])),
    min_size=1,
    max_size=5,
)


def sample_of(number, done, start_ns, factor):
    """A host's sample whose slices are ``factor`` times as long, as after a long sample."""
    slice_ns = SLICE_NS * factor
    by_slice = {}
    for at_ns, latency_ns, operation in done:
        by_slice.setdefault((at_ns // slice_ns, operation), []).append(latency_ns)
    slices = [
        Slice(
            index=index,
            operation=operation,
            completed=len(values),
            transferred_bytes=8192 * len(values),
            response=Histogram.of(values).encode(),
        )
        for (index, operation), values in sorted(by_slice.items())
    ]
    timeline = Timeline(slice_ns=slice_ns, slices=slices)
    return HostSample(
        name=f"host{number}",
        start_ns=start_ns,
        end_ns=start_ns + 2_000_000_000,
        timeline=timeline,
    )


@given(hosts, st.randoms())
def test_merged_equals_pooled_in_any_order(given_hosts, draw):
    samples = [sample_of(n, *each) for n, each in enumerate(given_hosts)]
    merged = merge(samples)
    shuffled = draw.sample(samples, len(samples))
    assert merge(shuffled) == merged
    longest_ns = max(each.timeline.slice_ns for each in samples)
    window_ns = 2_000_000_000 // longest_ns * longest_ns
    assert merged.duration_ns == window_ns
    for operation in ("read", "write"):
        pooled = [
            latency_ns
            for done, _, _ in given_hosts
            for at_ns, latency_ns, which in done
            if which == operation and at_ns < window_ns
        ]
        found = merged.operations.get(operation)
        assert (found.completed if found else 0) == len(pooled)
        if found:
            assert found.response == Histogram.of(pooled).encode()
            assert found.transferred_bytes == 8192 * len(pooled)


@given(hosts)
def test_the_parts_of_hosts_add_up_to_the_whole(given_hosts):
    samples = [sample_of(n, *each) for n, each in enumerate(given_hosts)]
    merged = merge(samples)
    total = sum(part.completed for part in merged.operations.values())
    assert total == sum(sum(part.completed.values()) for part in merged.parts.values())
    assert total == sum(sum(part.per_slice) for part in merged.parts.values())
    assert total == sum(each.completed for each in merged.timeline.slices)


def test_only_the_common_window_counts():
    """A host that started 250 ms late, and one that ended 500 ms early."""
    every_50_ms = [(at_ns, 1_000, "read") for at_ns in range(0, 2_000_000_000, 50_000_000)]
    early = sample_of(0, every_50_ms, 0, 1)
    late = sample_of(1, every_50_ms, 250_000_000, 1)
    short = HostSample(name="short", start_ns=0, end_ns=1_500_000_000, timeline=early.timeline)
    merged = merge([early, late, short])
    # From 250 ms to 1,500 ms: 13 slices, of which those that are added are 50 ms apart.
    assert merged.duration_ns == 1_300_000_000
    assert merged.start_ns == 250_000_000
    assert {name: sum(p.completed.values()) for name, p in merged.parts.items()} == {
        "host0": 26,
        "host1": 26,
        "short": 26,
    }
    assert merged.unaligned_ns_max == 50_000_000


def test_hosts_that_never_ran_together_have_no_window():
    first = sample_of(0, [(0, 1_000, "read")], 0, 1)
    second = sample_of(1, [(0, 1_000, "read")], 5_000_000_000, 1)
    merged = merge([first, second])
    assert (merged.duration_ns, merged.operations) == (0, {})


def test_nothing_to_merge():
    with pytest.raises(ValueError, match="nothing to merge"):
        merge([])
