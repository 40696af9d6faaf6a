"""What caches would do for made-up recordings whose answer is known."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from seatrial import _core
from seatrial.trials.cache.analysis import accesses as of_accesses
from seatrial.trials.cache.analysis.accesses import Accesses, accesses_of
from seatrial.trials.cache.analysis.clients import TooFewClientsError
from seatrial.trials.cache.analysis.closed_loop import Storage, operations_per_s
from seatrial.trials.cache.analysis.curves import BEST, curve_of, curve_sizes_bytes, policies
from seatrial.trials.cache.analysis.prediction import CachePrediction, PredictionRequest, predict
from seatrial.trials.cache.analysis.simulations import Simulation
from seatrial.trials.cache.analysis.tiers import _warm_up
from seatrial.trials.cache.report.prediction_phrases import doubts, notable, verdict_line
from seatrial.trials.watch.recording import Recording
from trials.watch.recordings import READ, WRITE, recording

BLOCK = 8192
MS = 10**6
S = 10**9


def blocks_read(
    blocks: np.ndarray | list[int], *, gap_ns: int = MS, read_ns: int = 5 * MS, **columns: object
) -> Recording:
    """A recording of reads of 8 KiB blocks, evenly in time, each as long."""
    count = len(blocks)
    return recording(
        seconds=count * gap_ns / S,
        arrived_ns=np.arange(count) * gap_ns,
        offset_bytes=np.asarray(blocks, dtype=np.int64) * BLOCK,
        length_bytes=[BLOCK] * count,
        device_ns=[read_ns] * count,
        **columns,
    )


def request(**changes: object) -> PredictionRequest:
    usual: dict[str, object] = {
        "memory_bytes": [100 * BLOCK],
        "device_bytes": [],
        "policy": "lru",
        "device_kind": "bcache",
        "block_bytes": BLOCK,
    }
    return PredictionRequest(**{**usual, **changes})  # type: ignore[arg-type]


def predict_caches(made: Recording, **changes: object) -> CachePrediction:
    found = predict(made, request(**changes))
    assert found is not None
    return found


def skewed(count: int, blocks: int = 20_000, seed: int = 3) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.random(count) ** 3 * blocks).astype(np.int64)


def test_memory_that_holds_all_serves_every_read_but_the_first():
    found = predict_caches(blocks_read([*range(100)] * 50))
    (tiers,) = found.tiers
    assert (tiers.memory_share, tiers.disk_share) == (1.0, 0.0)
    assert tiers.is_warm
    # The first of fifty passes brings the blocks in.
    assert tiers.warm_s["90%"] == pytest.approx(0.1, abs=0.15)
    assert tiers.read_ns_mean == 0
    assert found.repeated_share == pytest.approx(0.98)
    assert "800 KiB of cache would serve 98 % of the reads" in verdict_line(found)


def test_a_cycle_that_is_longer_than_memory_defeats_lru_and_not_the_best_policy():
    found = predict_caches(blocks_read([*range(100)] * 20), memory_bytes=[50 * BLOCK])
    assert found.tiers[0].disk_share == 1.0
    at = {each.policy: {p.cache_bytes: p.share for p in each.points} for each in found.curves}
    assert at["lru"][50 * BLOCK] == 0
    assert at[BEST][50 * BLOCK] == pytest.approx(0.47, abs=0.02)
    assert any("the best possible one would serve" in each for each in notable(found))


def test_the_mean_read_is_that_of_the_reads_which_the_storage_serves():
    made = blocks_read(skewed(50_000))
    (tiers,) = predict_caches(made, memory_bytes=[2000 * BLOCK]).tiers
    assert 0.2 < tiers.disk_share < 0.8
    assert tiers.read_ns_mean == pytest.approx(tiers.disk_share * 5 * MS)
    assert tiers.read_ns_p99 == 5 * MS


def test_an_ssd_serves_what_memory_lacks_and_its_latency_counts():
    made = blocks_read(skewed(50_000))
    alone, both = predict_caches(
        made,
        memory_bytes=[500 * BLOCK],
        device_bytes=[0, 20_000 * BLOCK],
        device_ns=[100_000],
    ).tiers
    assert alone.memory_share == pytest.approx(both.memory_share, abs=0.002)
    assert both.device_share > 0.3
    assert both.disk_share == pytest.approx(1 - both.memory_share - both.device_share)
    expected = both.device_share * 100_000 + both.disk_share * 5 * MS
    assert both.read_ns_mean == pytest.approx(expected)
    # Each block is written once, when it is read first.
    distinct = len(np.unique(skewed(50_000)))
    assert both.device_written_bytes_per_day == pytest.approx(distinct * BLOCK / 50 * 86_400)


def test_without_the_ssds_latency_no_response_time_is_given():
    made = blocks_read(skewed(20_000))
    found = predict_caches(made, memory_bytes=[500 * BLOCK], device_bytes=[20_000 * BLOCK])
    assert found.tiers[0].read_ns_mean is None
    assert any("--ssd-like" in each for each in doubts(found, made.about))


def test_a_feed_writes_no_more_than_it_may_and_its_headers_take_memory():
    # 40,000 reads a second of any of 50,000 blocks, of which the feed of 2008 takes 8 MiB.
    random = np.random.default_rng(9)
    made = blocks_read(random.integers(0, 50_000, 400_000), gap_ns=25_000)
    found = predict_caches(
        made,
        memory_bytes=[20_000 * BLOCK],
        device_bytes=[200_000 * BLOCK],
        device_kind="l2arc-2008",
        policy="arc",
    )
    (tiers,) = found.tiers
    per_s = tiers.device_written_bytes_per_day / 86_400
    assert 7 * 2**20 < per_s < 9.5 * 2**20
    # Of each block that only the device holds; memory holds 20,000 of the 50,000.
    alone = per_s * 10 / BLOCK * (1 - 20_000 / 50_000)
    assert tiers.header_bytes == pytest.approx(alone * 200, rel=0.1)
    assert not tiers.is_warm
    assert any(each.startswith("Not warm after") for each in notable(found))


def test_headers_of_a_full_device_take_what_is_known_of_them():
    # 50 GiB in blocks of 8 KiB: 0.6 GiB of memory at 96 bytes, 1.2 GiB at 200 (177 to 223 were
    # measured with zfs-fuse, cache-tier research of November 2026).
    headers = {each.name: each.header_bytes for each in _core.cache_devices()}
    blocks = (50 << 30) // BLOCK
    taken = {name: round(blocks * headers[name] / 2**30, 1) for name in ("l2arc-2.0", "zfs-fuse")}
    assert taken == {"l2arc-2.0": 0.6, "zfs-fuse": 1.2}
    # All of 4,000 blocks are read over and over, of which memory has room for 1,000 with headers.
    random = np.random.default_rng(4)
    made = blocks_read(random.integers(0, 4000, 100_000), gap_ns=500_000)
    found = predict_caches(
        made,
        memory_bytes=[1000 * BLOCK],
        device_bytes=[8000 * BLOCK],
        device_kind="l2arc-2009",
        policy="lru",
    )
    (tiers,) = found.tiers
    room = 1000 * BLOCK - tiers.header_bytes
    assert tiers.header_bytes == pytest.approx((4000 - room / BLOCK) * 200, rel=0.05)
    assert tiers.memory_share == pytest.approx(room / BLOCK / 4000, abs=0.01)
    assert any("of memory" in each and "headers" in each for each in notable(found))


@pytest.mark.parametrize(("theta", "served"), [(1.1, 0.666), (0.9, 0.207), (0.7, 0.126)])
def test_the_pinned_arc_serves_what_zfs_fuse_did(theta: float, served: float):
    # Measured with zfs-fuse 0.7 and fio: 120,000 reads of 1 GiB, room for 13,048 records.
    random = np.random.default_rng(1)
    sums = np.cumsum(np.arange(1, 131_073) ** -theta)
    records = np.searchsorted(sums, random.random(120_000) * sums[-1]).astype(np.uint64)
    hits, by_paper = (
        _core.CacheAccesses(records.data).hits(policy, [13_048], BLOCK)[0] / 120_000
        for policy in ("arc-pinned", "arc")
    )
    assert hits == pytest.approx(served, abs=0.02)
    assert by_paper > served + 0.1


def test_writes_bring_blocks_in_and_are_no_hits():
    made = blocks_read([7, 7, 7, 7], operation=[WRITE, READ, WRITE, READ])
    found = predict_caches(made)
    assert (found.accesses, found.reads, found.repeated_share) == (4, 2, 1.0)


def test_few_reads_are_not_compared_by_their_response_times():
    for count, is_compared in ((4000, False), (50_000, True)):
        made = blocks_read(skewed(count))
        found = predict_caches(made, memory_bytes=[100 * BLOCK, 10_000 * BLOCK])
        assert any("times as many" in each for each in notable(found)) == is_compared
        assert (
            any(each.startswith("Few reads") for each in doubts(found, made.about)) != is_compared
        )


def test_a_recording_of_writes_alone_has_no_prediction():
    assert predict(blocks_read([1, 2], operation=[WRITE, WRITE]), request()) is None


def test_reads_that_are_never_repeated_are_served_by_none():
    assert verdict_line(predict_caches(blocks_read(range(1000)))).startswith(
        "No cache helps: 100 %"
    )


@pytest.mark.parametrize("policy", ["lru", "arc", "linux", "s3-fifo"])
def test_the_band_of_samples_covers_what_all_blocks_give(
    monkeypatch: pytest.MonkeyPatch, policy: str
):
    made = blocks_read(skewed(400_000, 60_000, seed=5))
    whole = accesses_of(made, BLOCK)
    monkeypatch.setattr(of_accesses, "EXACT_ACCESSES_MAX", 100_000)
    monkeypatch.setattr(of_accesses, "SAMPLED_ACCESSES", 40_000)
    sampled = accesses_of(made, BLOCK)
    assert whole is not None
    assert sampled is not None
    assert (whole.share, sampled.share, len(sampled.samples)) == (1.0, 0.1, 4)
    assert sampled.distinct == pytest.approx(whole.distinct, rel=0.05)
    sizes = curve_sizes_bytes(sampled, [])
    exact = curve_of(whole, policy, sizes).points
    bands = curve_of(sampled, policy, sizes).points
    # At the ends of the curve its band is narrower than a block's share.
    covered = [
        band.low - 0.002 <= point.share <= band.high + 0.002
        for band, point in zip(bands, exact, strict=True)
    ]
    assert np.mean(covered) >= 0.9


def test_every_policy_has_a_name_and_a_description():
    assert {"lru", "arc", "linux", "postgresql", BEST} <= policies().keys()
    assert all(policies().values())


def test_clients_get_what_they_got_if_no_cache_helps():
    # 500 reads a second of 5 ms, none of a block that was read before.
    made = blocks_read([*range(20_000)], gap_ns=2 * MS)
    (tiers,) = predict_caches(made, clients=8).tiers
    assert tiers.reads_per_s == pytest.approx(500, rel=0.02)
    assert tiers.read_ns_mean == pytest.approx(5 * MS, rel=0.01)
    assert tiers.read_ns_p99 == pytest.approx(5 * MS, rel=0.02)


def test_clients_ask_for_more_when_memory_serves_them():
    # Of 8 clients at 500 a second, each does other things for 16 - 5 = 11 ms per read.
    made = blocks_read([*range(100)] * 300, gap_ns=2 * MS)
    found = predict_caches(made, clients=8)
    assert found.other_ns == pytest.approx(11 * MS)
    (tiers,) = found.tiers
    assert tiers.memory_share == 1.0
    assert tiers.reads_per_s == pytest.approx(8 / 0.011, rel=0.02)
    assert any("8 clients, each of which waits" in each for each in doubts(found, made.about))
    # The time axis is theirs: the first hundred reads take as long as they took, 0.2 s.
    assert tiers.warm_s["90%"] == pytest.approx(0.2, abs=0.5)


def test_clients_queue_at_an_ssd_as_mean_value_analysis_has_it():
    scattered = [7 * place % 2000 for place in range(40_000)]
    made = blocks_read(scattered, gap_ns=MS // 4, read_ns=2 * MS)
    found = predict_caches(
        made,
        memory_bytes=[0],
        device_bytes=[4000 * BLOCK],
        device_ns=[MS],
        device_servers=1,
        clients=16,
    )
    # At 4,000 a second, 16 clients do other things for 4 - 2 = 2 ms.
    (tiers,) = found.tiers
    assert tiers.device_share == 1.0
    expected = operations_per_s(Storage(1000.0, 1000.0, variation=0.0), 1.0, 0.002, 16)
    assert tiers.reads_per_s == pytest.approx(expected, rel=0.02)
    # A queue of all that wait: 16 clients at 1,000 a second, less the 2 ms.
    assert tiers.read_ns_mean == pytest.approx(14 * MS, rel=0.03)


def test_a_read_of_several_blocks_waits_once():
    made = recording(
        seconds=20.0,
        arrived_ns=np.arange(10_000) * 2 * MS,
        offset_bytes=np.arange(10_000) * 4 * BLOCK,
        length_bytes=[4 * BLOCK] * 10_000,
        device_ns=[5 * MS] * 10_000,
    )
    (tiers,) = predict_caches(made, clients=8).tiers
    assert tiers.reads_per_s == pytest.approx(500, rel=0.02)
    assert tiers.read_ns_mean == pytest.approx(5 * MS, rel=0.01)


def test_a_sample_of_the_blocks_has_the_rate_of_all(monkeypatch: pytest.MonkeyPatch):
    made = blocks_read(skewed(60_000, blocks=3000), gap_ns=2 * MS)
    options = {"clients": 8, "memory_bytes": [1000 * BLOCK]}
    (whole,) = predict_caches(made, **options).tiers
    monkeypatch.setattr(of_accesses, "EXACT_ACCESSES_MAX", 1000)
    monkeypatch.setattr(of_accesses, "SAMPLED_ACCESSES", 30_000)
    found = predict_caches(made, **options)
    assert found.method == "sampled"
    assert found.tiers[0].reads_per_s == pytest.approx(whole.reads_per_s, rel=0.1)
    assert found.tiers[0].read_ns_p99 == pytest.approx(whole.read_ns_p99, rel=0.05)


@pytest.mark.parametrize("caches_blocks", [(300, 0), (0, 300)])
@pytest.mark.parametrize("clients", [None, 8])
def test_the_hottest_block_counts_whether_or_not_it_is_sampled(
    monkeypatch: pytest.MonkeyPatch, caches_blocks: tuple[int, int], clients: int | None
):
    """One block gets 30 % of the reads, and 60 % of the last third."""
    rng = np.random.default_rng(7)
    blocks = rng.integers(1, 20_000, 90_000)
    blocks[60_000:][rng.random(30_000) < 0.6] = 0
    blocks[:60_000][rng.random(60_000) < 0.15] = 0
    made = blocks_read(blocks, gap_ns=2 * MS)
    memory, device = (each * BLOCK for each in caches_blocks)
    options = {
        "memory_bytes": [memory],
        "device_bytes": [device],
        "device_ns": [MS],
        "clients": clients,
    }
    (whole,) = predict_caches(made, **options).tiers
    monkeypatch.setattr(of_accesses, "EXACT_ACCESSES_MAX", 1000)
    monkeypatch.setattr(of_accesses, "SAMPLED_ACCESSES", 30_000)
    found = predict_caches(made, **options)
    (tiers,) = found.tiers
    assert found.method == "sampled"
    assert whole.disk_share == pytest.approx(0.39, abs=0.02)
    assert tiers.disk_share == pytest.approx(whole.disk_share, abs=0.02)
    assert tiers.memory_share == pytest.approx(whole.memory_share, abs=0.02)
    assert tiers.read_ns_mean == pytest.approx(whole.read_ns_mean, rel=0.05)
    assert tiers.read_ns_mean_low < tiers.read_ns_mean < tiers.read_ns_mean_high
    assert tiers.read_ns_p99 == pytest.approx(whole.read_ns_p99, rel=0.05)
    if clients:
        assert tiers.reads_per_s == pytest.approx(whole.reads_per_s, rel=0.05)


def test_a_share_that_was_never_reached_has_no_time():
    """The hits come in the very last slices, so that no mean over nine slices is as high."""
    served = np.zeros((200, 5))
    for index, hits in zip(range(195, 200), (0.3, 0.4, 0.5, 0.505, 0.515), strict=True):
        served[index, [0, 2]] = 1000 * hits, 1000 * (1 - hits)
    found, is_warm = _warm_up(served, 3600.0)
    assert is_warm
    assert found["99%"] is None
    assert found["50%"] > 3000


def test_too_few_clients_cannot_have_sent_a_load():
    # 5 ms each 2 ms: 2.5 in flight.
    made = blocks_read([*range(1000)], gap_ns=2 * MS)
    with pytest.raises(TooFewClientsError, match=r"2\.5 reads were in flight"):
        predict_caches(made, clients=2)
    assert predict_caches(made, clients=3).other_ns == pytest.approx(MS)


def elsewhere(accesses: Accesses, simulations: Sequence[Simulation]) -> list[Any]:
    """Run each simulation as another process would, in any order."""
    sent = pickle.dumps((accesses, list(simulations)))
    found: dict[int, Any] = {}
    for place in random.Random(5).sample(range(len(simulations)), len(simulations)):
        own, calls = pickle.loads(sent)
        function, arguments = calls[place]
        found[place] = function(own, *arguments)
    return [found[place] for place in range(len(simulations))]


@pytest.mark.parametrize("is_sampled", [False, True])
def test_wherever_it_is_simulated_the_figures_are_the_same(monkeypatch, is_sampled):
    if is_sampled:
        monkeypatch.setattr(of_accesses, "EXACT_ACCESSES_MAX", 10_000)
        monkeypatch.setattr(of_accesses, "SAMPLED_ACCESSES", 5_000)
    made = blocks_read(skewed(30_000))
    asked = request(
        policy="linux", memory_bytes=[300 * BLOCK, 3000 * BLOCK], device_bytes=[0, 2000 * BLOCK]
    )
    here = predict(made, asked)
    assert here is not None
    assert here.method == ("sampled" if is_sampled else "exact")
    assert len(here.tiers) == 4
    assert [each.policy for each in here.curves] == ["linux", "lru", BEST]
    assert predict(made, asked, elsewhere) == here


def test_a_scan_passes_a_device_by_once_it_is_long():
    """Scans of 1,000 blocks: from the 512th on, 4 MiB, bcache leaves them to the disks."""
    scans = blocks_read([*range(1000)] * 20)
    device = {"memory_bytes": [0], "device_bytes": [5000 * BLOCK]}
    (bcache,) = (each for each in predict_caches(scans, **device).tiers if each.device_bytes)
    assert bcache.device_share == pytest.approx(0.511, abs=0.02)
    assert bcache.disk_share == pytest.approx(1 - bcache.device_share)
    assert predict_caches(scans, **device).stream_share == pytest.approx(0.489)
    said = " ".join(notable(predict_caches(scans, **device)))
    assert "49 % of the reads are part of sequential streams from 4 MiB on" in said
    # It is never full, and Open-CAS has a limit on a full device alone.
    found = predict_caches(scans, device_kind="open-cas", **device).tiers
    assert [each.disk_share for each in found if each.device_bytes] == [0.0]
    full = {**device, "device_bytes": [900 * BLOCK], "device_kind": "open-cas"}
    (cas,) = (each for each in predict_caches(scans, **full).tiers if each.device_bytes)
    assert cas.device_share > 0.8


def test_what_was_written_is_read_from_bcache_and_not_from_an_l2arc():
    blocks = [*range(0, 2000, 2)]
    made = blocks_read([*blocks, *blocks] * 5, operation=[*[WRITE] * 1000, *[READ] * 1000] * 5)
    device = {"memory_bytes": [100 * BLOCK], "device_bytes": [5000 * BLOCK]}
    served = {}
    for policy, kind in (("lru", "bcache"), ("arc", "l2arc-2.3")):
        found = predict_caches(made, policy=policy, device_kind=kind, **device).tiers
        (served[kind],) = (each.device_share for each in found if each.device_bytes)
    assert served["bcache"] == 1.0
    assert served["l2arc-2.3"] < 0.9
