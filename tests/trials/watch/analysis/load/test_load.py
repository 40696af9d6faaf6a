"""Properties of a load, each against one that is known or counted in a simpler way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial import _core
from seatrial.trials.watch.analysis.load import blocks, reuse
from seatrial.trials.watch.analysis.load.arrivals import arrivals_of
from seatrial.trials.watch.analysis.load.footprint import footprint_of, unique_bytes
from seatrial.trials.watch.analysis.load.mix import mix_of
from seatrial.trials.watch.analysis.load.over_time import rates_of
from seatrial.trials.watch.analysis.load.profile import concurrency_of, load_of
from seatrial.trials.watch.analysis.load.reuse import reuse_of
from seatrial.trials.watch.analysis.load.sequential import sequentiality_of
from seatrial.units import KIB
from trials.watch.recordings import DISCARD, FLUSH, READ, WRITE, recording


def test_operations_sizes_and_latencies_are_counted():
    found = mix_of(
        recording(
            arrived_ns=range(6),
            operation=[READ, READ, READ, WRITE, WRITE, FLUSH],
            length_bytes=[4096, 8192, 8192, 512, 512, 0],
            device_ns=[10, 20, 30, 40, -1, 7],
            queue_ns=[1, 2, -1, 4, -1, -1],
            failed=[False, True, False, False, False, False],
        )
    )
    read, write, flush = found
    assert (read.operation, read.requests, read.failed) == ("read", 3, 1)
    assert [(each.length_bytes, each.requests) for each in read.sizes] == [(8192, 2), (4096, 1)]
    # Too few know a percentile: only the longest is reported.
    assert (read.latency_ns, write.latency_ns) == ({"p100": 30}, {"p100": 44})
    assert (flush.transferred_bytes, flush.sync) == (0, 0)


def test_a_discard_transfers_nothing():
    recorded = recording(
        arrived_ns=range(3),
        operation=[READ, WRITE, DISCARD],
        length_bytes=[4096, 8192, 1 << 30],
        process=[0, 0, 1],
        processes=("postgres", "fstrim"),
    )
    found = load_of(recorded)
    assert found.arrivals is not None
    assert found.arrivals.bytes_per_s == pytest.approx(12288 / 10)
    own = [(each.name, each.transferred_bytes) for each in found.processes]
    assert own == [("postgres", 12288), ("fstrim", 0)]
    assert [each.transferred_bytes for each in found.devices] == [12288]
    rates = rates_of(recorded)
    assert {name: each[0] * rates.window_s for name, each in rates.bytes_per_s.items()} == {
        "read": pytest.approx(4096),
        "write": pytest.approx(8192),
        "discard": 0,
    }


def test_streams_that_alternate_are_sequential_and_one_process_does_not_continue_another():
    count = 100
    one, other = np.arange(count) * 4096, 1 << 30 | np.arange(count) * 4096
    offsets = np.stack([one, other], axis=1).ravel()
    alternating = recording(arrived_ns=range(2 * count), offset_bytes=offsets)
    (found,) = sequentiality_of(alternating)
    assert (found.requests, found.sequential, found.runs) == (200, 198, 2)
    assert found.run_bytes_mean == count * 4096
    by_turns = recording(
        arrived_ns=range(count),
        offset_bytes=one,
        process=np.arange(count) % 2,
        processes=("a", "b"),
    )
    (found,) = sequentiality_of(by_turns)
    assert (found.sequential, found.runs) == (0, count)


def test_a_run_that_is_interrupted_for_longer_than_the_window_ends():
    between = [1 << 30 | number << 20 for number in range(16)]
    (found,) = sequentiality_of(recording(arrived_ns=range(18), offset_bytes=[0, *between, 4096]))
    assert found.sequential == 0
    (found,) = sequentiality_of(
        recording(arrived_ns=range(17), offset_bytes=[0, *between[:15], 4096])
    )
    assert found.sequential == 1


ranges = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 20), st.integers(0, 3)), min_size=1, max_size=40
)


@given(ranges)
def test_unique_bytes_are_those_of_a_set(drawn: list[tuple[int, int, int]]):
    drawn = sorted(drawn)
    begins, lengths, groups = (np.array(column) for column in zip(*drawn, strict=True))
    found = unique_bytes(begins, begins + lengths, groups, 4)
    for group in range(4):
        wanted = {b + i for b, n, own in drawn if own == group for i in range(n)}
        assert found[group] == len(wanted)


def test_the_footprint_of_two_devices_does_not_overlap_and_only_grows():
    found = footprint_of(
        recording(
            seconds=6.0,
            arrived_ns=np.arange(6) * 10**9,
            operation=[READ, WRITE, READ, WRITE, READ, READ],
            device=[0, 1, 0, 1, 0, 1],
            offset_bytes=[0, 0, 2048, 4096, 1 << 40, 0],
        )
    )
    assert found.read_bytes == 6 * KIB + 4 * KIB + 4 * KIB
    assert found.written_bytes == 8 * KIB
    assert found.unique_bytes == 6 * KIB + 4 * KIB + 8 * KIB
    assert found.so_far_bytes == sorted(found.so_far_bytes)
    assert found.so_far_bytes[0] == 4 * KIB
    assert sum(found.over_time_bytes) == 6 * 4 * KIB
    (second,) = found.working_sets
    assert (second.window_s, second.windows, second.max_bytes) == (1.0, 6, 4 * KIB)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 9), min_size=20, max_size=60), st.integers(1, 9))
def test_the_hit_ratio_is_that_of_a_cache(blocks: list[int], kept: int):
    cache: list[int] = []
    hits = 0
    for block in blocks:
        if block in cache:
            hits += 1
            cache.remove(block)
        cache = [block, *cache][:kept]
    (found,) = _core.CacheAccesses(np.array(blocks, np.uint64)).lru_hit_ratios([kept])
    assert found == pytest.approx(hits / len(blocks))


def test_a_sampled_curve_lies_around_the_exact_one(monkeypatch: pytest.MonkeyPatch):
    random = np.random.default_rng(3)
    count = 300_000
    offsets = (random.pareto(1.1, count) * 500).astype(np.int64) % 60_000 * 4096
    load = recording(arrived_ns=range(count), offset_bytes=offsets)
    exact = reuse_of(load)
    monkeypatch.setattr(reuse, "EXACT_ACCESSES_MAX", 100_000)
    monkeypatch.setattr(reuse, "SAMPLED_ACCESSES", 60_000)
    sampled = reuse_of(load)
    assert exact is not None
    assert sampled is not None
    assert (exact.method, sampled.method, sampled.sampled_share) == ("exact", "sampled", 0.2)
    sizes = [each.cache_bytes for each in exact.hit_ratios]
    shares = [each.share for each in exact.hit_ratios]
    trues = np.interp([each.cache_bytes for each in sampled.hit_ratios], sizes, shares)
    pairs = list(zip(sampled.hit_ratios, trues, strict=True))
    assert np.mean([abs(each.share - true) for each, true in pairs]) < 0.02
    assert np.mean([each.low <= true <= each.high for each, true in pairs]) > 0.8
    assert exact.hottest["10%"] == pytest.approx(sampled.hottest["10%"], abs=0.05)


def test_the_skew_of_a_sampled_recording_is_counted_for_all_blocks(monkeypatch):
    """One block of 3,000 gets most of the accesses, and is in few samples."""
    monkeypatch.setattr(blocks, "_CHUNK_ACCESSES", 1000)
    rng = np.random.default_rng(3)
    offsets = rng.integers(1, 3000, 20_000) * 4096
    offsets[rng.random(20_000) < 0.6] = 0
    load = recording(arrived_ns=range(20_000), offset_bytes=offsets)
    exact = reuse_of(load)
    monkeypatch.setattr(reuse, "EXACT_ACCESSES_MAX", 10_000)
    monkeypatch.setattr(reuse, "SAMPLED_ACCESSES", 2_000)
    sampled = reuse_of(load)
    assert exact is not None
    assert sampled is not None
    counts = np.sort(np.unique(offsets, return_counts=True)[1])[::-1]
    assert exact.hottest["1%"] == counts[: round(len(counts) / 100)].sum() / 20_000
    assert (sampled.method, sampled.hottest) == ("sampled", exact.hottest)


def test_poisson_arrivals_have_an_index_of_1_and_bursts_a_larger_one():
    random = np.random.default_rng(5)
    poisson = np.sort(random.integers(0, 100 * 10**9, 50_000))
    found = arrivals_of(recording(seconds=100.0, arrived_ns=poisson))
    assert found.requests_per_s == 500
    tenth = next(each for each in found.dispersion if each.window_s == 0.1)
    assert tenth.low < 1 < tenth.high
    bursts = poisson // 10**9 * 10**9 + poisson % 10**7
    found = arrivals_of(recording(seconds=100.0, arrived_ns=bursts))
    tenth = next(each for each in found.dispersion if each.window_s == 0.1)
    assert tenth.low > 100


def test_times_of_whole_seconds_say_nothing_of_shorter_windows():
    arrived = np.sort(np.random.default_rng(1).integers(0, 1000, 4000)) * 10**9
    found = arrivals_of(recording(seconds=1000.0, arrived_ns=arrived))
    assert found.resolution_ns == 10**9
    assert [each.window_s for each in found.dispersion] == [10.0]


def test_requests_in_flight_are_counted():
    second = 10**9
    found = concurrency_of(
        recording(
            seconds=4.0,
            arrived_ns=[0, second // 2, 2 * second],
            device_ns=[second, second // 2, second],
            queue_ns=[0, second // 2, -1],
        )
    )
    assert found is not None
    assert found.mean == pytest.approx(3 / 4)
    assert found.busy_share == pytest.approx(2.5 / 4)
    assert found.found == {"p50": 0, "p99": 1, "p100": 1}
    assert sum(found.over_time) * found.window_s == pytest.approx(3)


def test_what_is_unknown_stays_unknown():
    load = load_of(recording(arrived_ns=range(3), processes=("fio (1)",)))
    assert load.concurrency is None
    assert load.mix[0].latency_ns == {}
    assert [each.name for each in load.processes] == [""]
    assert load.relations == []
    only = load_of(recording(arrived_ns=[0], operation=[FLUSH], length_bytes=[0]))
    assert only.reuse is None
    assert (only.sequentiality, only.footprint.unique_bytes) == ([], 0)


def test_a_recording_without_requests_has_a_load():
    load = load_of(recording(arrived_ns=[]))
    assert (load.requests, load.mix, load.arrivals.requests_per_s) == (0, [], 0)


def test_one_request_at_the_very_end_has_no_burstiness():
    load = load_of(recording(seconds=100.0, arrived_ns=[100 * 10**9]))
    assert load.arrivals is not None
    assert load.arrivals.dispersion == []


def test_blocks_of_two_devices_are_never_the_same():
    device = [0, 1, 0, 1]
    found = reuse_of(recording(arrived_ns=range(4), device=device, offset_bytes=[0, 0, 4096, 4096]))
    assert found is not None
    assert found.repeated_share == 0
    again = reuse_of(recording(arrived_ns=range(4), device=device, offset_bytes=[8192] * 4))
    assert again is not None
    assert again.repeated_share == 0.5
