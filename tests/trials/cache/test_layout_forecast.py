"""The warm-up of a cache device of Linux, simulated."""

from __future__ import annotations

import math

import pytest

from seatrial.trials.cache.analysis.layout_forecast import LayoutBaseline, forecast_of_layout
from seatrial.units import MIB


def before(**more) -> LayoutBaseline:
    usual = {
        "threads": 8,
        "record_bytes": 8192,
        "granule_bytes": 1,
        "working_set_bytes": 64 * MIB,
        "cache_bytes": 240 * MIB,
        "array_bytes": 252 * MIB,
        "reads_per_s": 200.0,
        "ceiling_per_s": 4000.0,
        "length_s": 120.0,
    }
    return LayoutBaseline(**usual | more)


def reached_s(fills: list[float], level_bytes: float) -> int:
    return next(second for second, fill in enumerate(fills, start=1) if fill >= level_bytes)


def test_bcache_fills_with_every_block_that_is_read():
    found = forecast_of_layout("bcache", before(), 0.0, 7)
    # Until the path is full the array reads 200 blocks/s: half of 8,192 after 20 s.
    assert reached_s(found.fill_bytes, 32 * MIB) == pytest.approx(20.5, abs=1.5)
    assert found.reads_per_s[0] == pytest.approx(200, rel=0.1)
    assert found.reads_per_s[-1] == pytest.approx(4000, rel=0.02)
    assert found.device_share[-1] > 0.99


def test_dm_cache_fills_by_half_then_slowly_and_in_the_end_with_all():
    # As the lab measured: 314 reads/s without it, 16 clients.
    known = {"granule_bytes": 65536, "threads": 16, "reads_per_s": 314.0, "ceiling_per_s": 3000.0}
    found = forecast_of_layout("dm-cache", before(**known), 0.0, 7)
    quarter, half, most = (reached_s(found.fill_bytes, share * 64 * MIB) for share in
                           (0.25, 0.5, 0.9))  # fmt: skip
    assert quarter <= 6
    assert half >= 2 * quarter
    assert 17 <= most <= 28
    assert found.fill_bytes[-1] == pytest.approx(64 * MIB, rel=0.01)
    assert found.reads_per_s[-1] == pytest.approx(3000, rel=0.02)


@pytest.mark.parametrize("kind", ["bcache", "dm-cache"])
def test_a_cache_smaller_than_what_is_read_stays_full_and_serves_its_share(kind):
    found = forecast_of_layout(kind, before(cache_bytes=16 * MIB), 0.0, 7)
    assert max(found.fill_bytes) <= 16 * MIB
    assert found.device_share[-1] == pytest.approx(0.25, abs=0.06)
    assert found.reads_per_s[-1] == pytest.approx(200 / 0.75, rel=0.1)


def test_nothing_is_predicted_of_a_cache_of_writes():
    assert forecast_of_layout("dm-writecache", before(), 0.0, 7) is None


def test_what_it_was_made_from_is_kept():
    found = forecast_of_layout("bcache", before(), -2.0, 7)
    assert found.made_at_s == -2.0
    assert found.assumed["baseline_reads_per_s"] == 200
    assert math.isclose(found.assumed["device_bytes"], 240 * MIB)
