"""The streams of a load, found again in arrivals whose truth is known."""

from __future__ import annotations

import tomllib

import msgspec
import numpy as np
import pytest

from seatrial.study.load import study_from_mapping
from seatrial.trials.watch.analysis.load.imitation import imitation_of
from seatrial.trials.watch.analysis.load.profile import load_of
from seatrial.trials.watch.analysis.load.streams import (
    BURST_GAP_NS,
    BURSTS_MAX,
    GROUPS_MAX,
    Burst,
    Stream,
    bursts_of,
    grouped_sizes_bytes,
    streams_of,
)
from seatrial.trials.watch.recording import Recording
from seatrial.trials.watch.report.imitation_text import study_text
from trials.watch.recordings import FLUSH, WRITE, recording

SECONDS = 100.0
PAUSE_NS, WRITE_NS, FLUSH_NS = 2_000_000, 300_000, 200_000
BACKGROUND_BATCH, LARGE_BATCH = 40, 12


def chain(random: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Log writes and their flushes, each pair after a pause since the one before."""
    count = int(SECONDS * 1e9 / (PAUSE_NS + WRITE_NS + FLUSH_NS))
    pauses = random.exponential(PAUSE_NS, count).astype(np.int64)
    begins = np.cumsum(pauses) + np.arange(count) * (WRITE_NS + FLUSH_NS)
    begins = begins[begins < SECONDS * 1e9 - 1e6]
    arrived = np.concatenate([begins, begins + WRITE_NS])
    operation = np.repeat([WRITE, FLUSH], len(begins))
    took = np.repeat([WRITE_NS, FLUSH_NS], len(begins))
    length_bytes = np.repeat([16384, 0], len(begins))
    return arrived, operation, took, length_bytes, np.ones(len(arrived), dtype=np.int64)


def batches(
    random: np.random.Generator, mean: int, per_s: float, length_bytes: int
) -> tuple[np.ndarray, ...]:
    """Writes in the background, in geometric batches at random times."""
    sizes = random.geometric(1 / mean, int(per_s * SECONDS / mean))
    times = np.sort(random.integers(0, int(SECONDS * 1e9), len(sizes)))
    arrived = np.repeat(times, sizes)
    count = len(arrived)
    alike = (np.full(count, value) for value in (WRITE, 900_000, length_bytes, 0))
    operation, took, lengths, is_sync = alike
    return arrived, operation, took, lengths, is_sync


def known() -> Recording:
    random = np.random.default_rng(3)
    parts = [
        chain(random),
        batches(random, BACKGROUND_BATCH, 500.0, 8192),
        batches(random, LARGE_BATCH, 40.0, 512 << 10),
    ]
    arrived, operation, took, length, is_sync = (
        np.concatenate(each) for each in zip(*parts, strict=True)
    )
    order = np.argsort(arrived, kind="stable")
    return recording(
        seconds=SECONDS,
        arrived_ns=arrived[order],
        operation=operation[order],
        device_ns=took[order],
        length_bytes=length[order],
        is_sync=is_sync[order],
        offset_bytes=random.integers(0, 10_000, len(arrived)) * 8192,
    )


def parts_of(found: list[Stream]) -> tuple[Stream, Stream, Stream]:
    log = next(each for each in found if each.is_sync)
    small = next(each for each in found if not each.is_sync and not each.is_large)
    large = next(each for each in found if each.is_large)
    return log, small, large


def test_chain_and_bursts_are_told_apart_with_their_parameters():
    found = streams_of(known())
    assert len(found) == 3
    log, small, large = parts_of(found)
    assert log.pause_s == pytest.approx(PAUSE_NS / 1e9, rel=0.03)
    assert log.flushes == log.requests
    assert log.bursts == []
    assert (small.pause_s, large.pause_s) == (None, None)
    assert met(small.bursts) == pytest.approx(2 * BACKGROUND_BATCH - 1, rel=0.25)
    assert met(large.bursts) == pytest.approx(2 * LARGE_BATCH - 1, rel=0.25)
    assert large.in_flight_max >= LARGE_BATCH


def test_a_checkpoint_is_a_stream_of_its_own():
    random = np.random.default_rng(5)
    log = chain(random)
    begins = random.integers(0, int(SECONDS * 1e9), 30)
    arrived = np.sort((begins[:, None] + np.arange(200) * 20_000).ravel())
    alike = (np.full(len(arrived), value) for value in (WRITE, 900_000, 8192, 1))
    parts = [(*log, np.zeros(len(log[0]), int)), (arrived, *alike, np.ones(len(arrived), int))]
    columns = [np.concatenate(each) for each in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    names = ("arrived_ns", "operation", "device_ns", "length_bytes", "is_sync", "process")
    values = {name: column[order] for name, column in zip(names, columns, strict=True)}
    found = streams_of(recording(seconds=SECONDS, **values))
    commits, checkpoint = found
    assert commits.requests == int(((log[0] >= 0) & (log[1] == WRITE)).sum())
    assert commits.pause_s is not None
    assert checkpoint.requests == len(arrived)
    assert checkpoint.pause_s is None
    assert {each.requests for each in checkpoint.bursts} <= {200, 400}


@pytest.mark.parametrize("mean", [3, 30, 200])
def test_few_bursts_are_as_uneven_as_all_of_them(mean):
    random = np.random.default_rng(mean)
    arrived = batches(random, mean, 20.0 * mean, 8192)[0]
    sizes = np.diff([0, *np.flatnonzero(np.diff(arrived) > BURST_GAP_NS) + 1, len(arrived)])
    found = bursts_of(arrived)
    assert len(found) <= BURSTS_MAX
    assert sum(each.count for each in found) == len(sizes)
    assert met(found) == pytest.approx(float((sizes**2).sum() / sizes.sum()), rel=0.05)


def test_requests_that_come_alone_are_no_bursts():
    random = np.random.default_rng(1)
    assert bursts_of(np.sort(random.integers(0, int(SECONDS * 1e9), 2000))) == []


def test_groups_of_a_burst_keep_their_spacing_and_pauses():
    group = np.arange(32) * 3000
    burst = np.concatenate([group + number * 600_000 for number in range(4)])
    arrived = (np.arange(50)[:, None] * 200_000_000 + burst).ravel()
    pause_s = 600e-6 - 31 * 3e-6
    for found in bursts_of(arrived):
        assert [each.requests for each in found.groups] == [32] * 4
        assert [each.spacing_s for each in found.groups] == pytest.approx([3e-6] * 4)
        assert [each.pause_s for each in found.groups] == pytest.approx([pause_s] * 3 + [0.0])


def test_a_burst_of_many_groups_keeps_those_with_the_longest_pauses():
    random = np.random.default_rng(2)
    gaps = np.concatenate([np.tile([2000] * 9 + [100_000], 60), [700_000], [2000] * 9])
    arrived = random.integers(0, 10**6) + np.append(0, np.cumsum(gaps))
    (found,) = bursts_of(arrived)
    assert len(found.groups) == GROUPS_MAX
    assert found.requests == len(arrived)
    lasts_s = sum((each.requests - 1) * each.spacing_s + each.pause_s for each in found.groups)
    assert lasts_s == pytest.approx((arrived[-1] - arrived[0]) / 1e9)
    assert max(each.pause_s for each in found.groups) == pytest.approx(700e-6)


def met(bursts: list[Burst]) -> float:
    """How many requests a request finds in its burst."""
    sizes = np.array([each.requests for each in bursts for _ in range(each.count)], float)
    return float((sizes**2).sum() / sizes.sum())


def test_many_sizes_become_sixteen_of_the_same_mean():
    lengths = np.random.default_rng(1).integers(1, 320, 5000) * 4096
    found = grouped_sizes_bytes(lengths)
    assert len(found) <= 16
    assert all(size % 4096 == 0 for size, _ in found)
    assert sum(count for _, count in found) == 5000
    mean = sum(size * count for size, count in found) / 5000
    assert mean == pytest.approx(float(lengths.mean()), rel=0.01)


def test_a_study_has_a_stream_for_each():
    recorded = known()
    found = imitation_of(load_of(recorded), "database", streams_of(recorded))
    assert found is not None
    study = study_from_mapping(tomllib.loads(study_text(found, "database.rec")), "the study")
    (access,) = study.accesses
    for each in access.streams():
        # With its defaults written out, it can be read again.
        assert msgspec.convert(msgspec.to_builtins(each), type(each)) == each
    streams = {each.arrival: each for each in access.streams()}
    think = streams["think"]
    assert think.pause_s == pytest.approx(PAUSE_NS / 1e9, rel=0.03)
    assert (think.depth, think.sync_every) == (1, 1)
    bursts = sorted(
        sum(burst.share * sum(group.requests for group in burst.groups) for burst in each.bursts)
        / sum(burst.share for burst in each.bursts)
        for each in access.streams()
        if each.bursts is not None
    )
    assert bursts == [
        pytest.approx(LARGE_BATCH, rel=0.15),
        pytest.approx(BACKGROUND_BATCH, rel=0.15),
    ]
    assert any("after the end of the last one and its flush" in each for each in found.imitated)
