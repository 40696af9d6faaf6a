"""Sweeps of a run: found among its cells, fitted, predicted, or refused with the reason."""

import re

import msgspec
import pytest

from seatrial.trials.database.analysis.cache_sweep import setting_bytes
from seatrial.trials.database.analysis.model import database_of
from seatrial.units import GIB, MIB

from .hand import PROCESSOR, READ, cell_of, record_of, rounds_of, summarised

RATES_PER_S = {"1512MB": 240.0, "3500MB": 288.0, "5500MB": 359.0}
SIZE_BYTES = 40 * GIB


def samples_of(rates_per_s, *, database_bytes=SIZE_BYTES, counters=None, **rest):
    """Three rounds of each cell, 1 % apart."""
    record = record_of(database_bytes=database_bytes, **rest.pop("record", {}))
    return [
        sample
        for value, rate in rates_per_s.items()
        for sample in rounds_of(
            cell_of(settings={"shared_buffers": value}, **rest),
            [rate, 1.01 * rate, 0.99 * rate],
            record=record,
            counters=counters,
        )
    ]


def ssd_samples(rate_per_s=8000.0, **record):
    reported = {"client_cpu_share": 0.1, "waits": dict(PROCESSOR), "ceiling_per_s": 1e6} | record
    return [
        sample
        for value in RATES_PER_S
        for sample in rounds_of(
            cell_of(target="ssd", alone=False, settings={"shared_buffers": value}),
            [rate_per_s] * 3,
            seconds=3,
            record=record_of(**reported),
            columns={"cpu_idle_share": 0.0, "cpu_iowait_share": 0.0, "server_cpu_cores": 1.9},
        )
    ]


def cold_samples(read_bytes):
    """Cells that wait for reads; so much of each cache was read from the device in a sample."""
    waits = {"record": {"waits": dict(READ)}}
    read_blocks = read_bytes / 8192
    counters = {
        "reads_shared_buffers": 10 * read_blocks,
        "reads_page_cache": 0.0,
        "reads_device": read_blocks,
    }
    return samples_of(RATES_PER_S, counters=counters, **waits)


def test_a_cache_that_was_never_full_says_nothing_of_its_size():
    (sweep,) = database_of(summarised(*cold_samples(80 * MIB))).sweeps
    assert not sweep.fits
    assert sweep.predicted_per_s is None
    assert sweep.sentence.startswith("The samples were too short to fill the cache of 5.37 GiB")
    assert "only 80 MiB were read per sample" in sweep.sentence
    # 20 s read 80 MiB of 5,500 MiB, and half as long again is on the safe side.
    assert "34 min" in sweep.sentence


def test_a_sample_that_was_cut_short_does_not_count_as_a_short_one():
    samples = cold_samples(5600 * MIB)
    cut = msgspec.structs.replace(samples[-1], round=3, status="interrupted", duration_s=3.0)
    (sweep,) = database_of(summarised(*samples, cut)).sweeps
    assert sweep.fits


def test_a_cache_that_was_filled_is_judged_by_the_law():
    (sweep,) = database_of(summarised(*cold_samples(6000 * MIB))).sweeps
    assert sweep.fits


def test_what_the_rate_grew_by_has_the_doubt_of_both_rates():
    (sweep,) = database_of(summarised(*samples_of(RATES_PER_S))).sweeps
    assert sweep.predicted_per_s is not None
    gain = re.search(r"the rate grew (1\.50x \(1\.\d+ to 1\.\d+\)), from 240 tps", sweep.sentence)
    assert gain, sweep.sentence
    low, high = (float(end) for end in re.findall(r"1\.\d+", gain[1])[1:])
    assert low < 1.49
    assert high > 1.50


@pytest.mark.parametrize(
    ("written", "size_bytes"),
    [("128MB", 128 * MIB), ("1GB", GIB), ("16384", 128 * MIB), ("1.5 GB", 1536 * MIB)],
)
def test_settings_are_read_as_postgresql_does(written, size_bytes):
    assert setting_bytes(written) == size_bytes


@pytest.mark.parametrize("written", ["", "auto", "12 parsecs", "-1"])
def test_what_is_no_size_is_none(written):
    assert setting_bytes(written) is None


def test_a_sweep_is_fitted_and_predicts_the_next_size():
    (sweep,) = database_of(summarised(*samples_of(RATES_PER_S))).sweeps
    assert (sweep.target, sweep.workload, sweep.factor) == ("trial", "pgbench", "shared_buffers")
    assert sweep.where == {"scale": 100, "threads": 10}
    assert sweep.sizes_bytes == [1512 * MIB, 3500 * MIB, 5500 * MIB]
    assert sweep.next_size_bytes == 11000 * MIB
    assert sweep.fits
    assert sweep.predicted_per_s.low < 407 < sweep.predicted_per_s.high
    assert sweep.sentence.startswith("A cache of 10.7 GiB, twice the largest, ")


def test_a_target_that_the_processor_bounds_reports_its_time():
    """As the article's SSD did: 0.122 ms of the 2.8 to 4.2 ms are the processor's."""
    hdd = samples_of(RATES_PER_S, target="hdd", alone=False)
    sweeps = database_of(summarised(*hdd, *ssd_samples())).sweeps
    (sweep,) = [each for each in sweeps if each.target == "hdd"]
    assert sweep.cpu_s.value == pytest.approx(1 / 8000, rel=0.01)
    assert sweep.cpu_s.low == sweep.cpu_s.high
    assert sweep.predicted_per_s.value == pytest.approx(426, abs=2)


def test_a_target_that_something_else_bounds_is_an_upper_end_of_it():
    hdd = samples_of(RATES_PER_S, target="hdd", alone=False)
    bound_by_commits = ssd_samples(waits={"IO:WALSync": 1000})
    sweeps = database_of(summarised(*hdd, *bound_by_commits)).sweeps
    (sweep,) = [each for each in sweeps if each.target == "hdd"]
    assert 0 <= sweep.cpu_s.low < sweep.cpu_s.high <= 1.01 / 8000


def test_the_memory_limit_is_a_cache_too():
    samples = [
        sample
        for size, rate in zip((1, 2, 4), (240.0, 290.0, 350.0), strict=True)
        for sample in rounds_of(
            cell_of(memory_limit_bytes=size * GIB),
            [rate] * 3,
            record=record_of(database_bytes=SIZE_BYTES),
        )
    ]
    (sweep,) = database_of(summarised(*samples)).sweeps
    assert sweep.factor == "memory_limit_bytes"
    assert sweep.next_size_bytes == 8 * GIB


@pytest.mark.parametrize(
    ("rates_per_s", "database_bytes", "reason"),
    [
        ({"1GB": 200.0, "2GB": 240.0}, SIZE_BYTES, "2 sizes are too few"),
        (
            {"1GB": 200.0, "1024MB": 201.0, "2GB": 240.0, "4GB": 300.0},
            SIZE_BYTES,
            "the same size, 1 GiB",
        ),
        ({"1GB": 200.0, "2GB": 240.0, "4GB": 290.0}, 3 * GIB, "holds the whole database"),
        ({"1GB": 200.0, "2GB": 240.0, "4GB": 290.0}, 7 * GIB, "would hold the whole database"),
        ({"1GB": 200.0, "2GB": 201.0, "4GB": 199.0}, SIZE_BYTES, "no significant effect"),
        ({"1GB": 200.0, "2GB": 500.0, "4GB": 510.0, "8GB": 1500.0}, SIZE_BYTES, "does not fit"),
    ],
    ids=["two sizes", "a size twice", "it fits", "the next fits", "flat", "no law"],
)
def test_what_is_no_law_is_refused_with_the_reason(rates_per_s, database_bytes, reason):
    samples = samples_of(rates_per_s, database_bytes=database_bytes)
    (sweep,) = database_of(summarised(*samples)).sweeps
    assert not sweep.fits
    assert sweep.predicted_per_s is None
    assert reason in sweep.sentence
    assert len(sweep.time_s) == len(rates_per_s)


def test_one_size_is_no_sweep():
    assert database_of(summarised(*samples_of({"1GB": 200.0}))).sweeps == []
