"""A study that imitates a load: what it has, what it says that it lacks, and that it is valid."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from seatrial.study.load import study_from_mapping
from seatrial.trials.watch.analysis.load.comparison import compared, figures_of, sizes_in_common
from seatrial.trials.watch.analysis.load.imitation import imitation_of
from seatrial.trials.watch.analysis.load.profile import LoadProfile, load_of
from seatrial.trials.watch.report.imitation_text import study_text
from trials.watch.recordings import FLUSH, READ, WRITE, recording

COUNT = 4000


def mixed_load(*, seed: int = 1, seconds: float = 100.0) -> LoadProfile:
    """Random reads of two sizes, 30 % sequential writes, a flush every tenth write."""
    random = np.random.default_rng(seed)
    operation = np.where(random.random(COUNT) < 0.3, WRITE, READ)
    operation[np.flatnonzero(operation == WRITE)[::11]] = FLUSH
    lengths = np.where(operation == READ, random.choice([8192, 16384], COUNT, p=[0.7, 0.3]), 4096)
    lengths[operation == FLUSH] = 0
    offsets = random.integers(0, 8192, COUNT) * 16384
    writes = operation == WRITE
    offsets[writes] = (1 << 30) + np.arange(writes.sum()) * 4096
    offsets[operation == FLUSH] = 0
    arrived = np.sort(random.integers(0, int(seconds * 1e9), COUNT))
    return load_of(
        recording(
            seconds=seconds,
            arrived_ns=arrived,
            operation=operation,
            length_bytes=lengths,
            offset_bytes=offsets,
            device_ns=random.integers(10_000, 900_000, COUNT),
        )
    )


def test_a_mix_is_imitated_by_operation_size_and_place_at_its_rate():
    load = mixed_load()
    found = imitation_of(load, "mixed")
    assert found is not None
    study = study_from_mapping(tomllib.loads(study_text(found, "mixed.rec")), "the study")
    fill, workload = study.workloads
    assert (fill.kind, workload.kind) == ("fill", "mix")
    assert workload.arrival == "poisson"
    transfers = sum(each.requests for each in load.mix if each.operation != "flush")
    assert workload.rate_per_s == pytest.approx(transfers / 100)
    assert workload.sync_every == 10
    (access,) = study.accesses
    read, write = access.lines
    assert access.read_share() == pytest.approx(load.mix[0].requests / transfers, abs=1e-3)
    assert {int(each.size_bytes): pytest.approx(each.share, abs=0.04) for each in read.sizes} == {
        8192: 0.7,
        16384: 0.3,
    }
    assert read.random > 0.98
    assert write.random < 0.02
    assert study.targets[0].size_bytes >= load.footprint.unique_bytes
    assert found.left_out == ["Dependencies between requests, and changes of the load over time."]


def test_a_skewed_load_of_one_size_has_its_skew():
    random, count = np.random.default_rng(2), 20_000
    is_hot = random.random(count) < 0.9
    blocks = np.where(is_hot, random.integers(0, 800, count), random.integers(800, 8000, count))
    load = load_of(
        recording(
            seconds=100.0,
            arrived_ns=np.sort(random.integers(0, 10**11, count)),
            offset_bytes=blocks * 4096,
            operation=np.where(random.random(count) < 0.5, READ, WRITE),
        )
    )
    found = imitation_of(load, "hot")
    assert found is not None
    study = study_from_mapping(found.study, "the study")
    workload = study.workloads[1]
    assert (workload.kind, workload.pattern, workload.hot_share) == ("io", "hot_cold", 0.2)
    assert workload.hot_access_share == pytest.approx(load.reuse.hottest["20%"], abs=1e-3)
    assert workload.read_share == pytest.approx(0.5, abs=0.03)


def test_what_a_study_cannot_have_is_named():
    random = np.random.default_rng(2)
    bursts = np.sort(random.integers(0, 100, COUNT)) * 10**9 + random.integers(0, 10**8, COUNT)
    load = load_of(
        recording(
            seconds=100.0,
            arrived_ns=bursts,
            offset_bytes=random.zipf(1.5, COUNT) % 5000 * 8192,
            length_bytes=random.choice([4096, 8192, 700], COUNT),
        )
    )
    found = imitation_of(load, "odd")
    assert found is not None
    study_from_mapping(found.study, "the study")
    named = " ".join(found.left_out)
    for word in ("Skew: ", "Bursts: in windows of", "not multiples of 512 bytes"):
        assert word in named


def test_batches_are_imitated_as_batches():
    random = np.random.default_rng(5)
    sizes = random.geometric(1 / 12, 5000)
    times = np.sort(random.integers(0, 50 * 10**9, len(sizes)))
    arrived_ns = np.repeat(times, sizes)
    load = load_of(
        recording(
            seconds=50.0,
            arrived_ns=arrived_ns,
            offset_bytes=random.integers(0, 5000, len(arrived_ns)) * 8192,
            length_bytes=[8192] * len(arrived_ns),
        )
    )
    found = imitation_of(load, "batches")
    assert found is not None
    workload = study_from_mapping(found.study, "the study").workloads[1]
    assert workload.arrival == "batches"
    assert workload.burst == pytest.approx(12, abs=1)
    assert not any(each.startswith("Bursts") for each in found.left_out)


def test_a_load_without_transfers_is_not_imitated():
    only = load_of(recording(arrived_ns=[0], operation=[FLUSH], length_bytes=[0]))
    assert imitation_of(only, "flush") is None


def test_loads_are_compared_figure_by_figure():
    one, like, twice = mixed_load(), mixed_load(seed=9), mixed_load(seconds=50.0)
    alike = {each.name: each for each in compared(figures_of(one), figures_of(like))}
    assert all(each.is_near for each in alike.values())
    faster = {each.name: each for each in compared(figures_of(one), figures_of(twice))}
    rate = faster["reads and writes per second"]
    assert (rate.b, rate.is_near) == (pytest.approx(2 * (rate.a or 0)), False)
    assert faster["share of reads"].is_near
    assert sizes_in_common(one, like).b == pytest.approx(1, abs=0.03)
    other = load_of(recording(arrived_ns=range(9), length_bytes=[512] * 9))
    assert sizes_in_common(one, other).b == 0
