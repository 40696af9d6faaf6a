"""Closed loops whose rate is known from a formula."""

from __future__ import annotations

import pytest

from seatrial.trials.cache.analysis.closed_loop import Storage, calibrated, operations_per_s


def test_one_client_waits_for_nobody():
    for variation in (0.0, 1.0):
        storage = Storage(100.0, 100.0, variation)
        assert operations_per_s(storage, 2.0, 0.03, 1) == pytest.approx(1 / (0.03 + 2 / 100))


def test_a_storage_that_serves_all_at_once_is_a_delay():
    storage = Storage(alone_per_s=100.0, most_per_s=1e9)
    assert operations_per_s(storage, 2.0, 0.03, 4) == pytest.approx(4 / 0.05, rel=1e-4)


def test_many_clients_get_what_the_storage_serves():
    storage = Storage(100.0, 100.0)
    assert operations_per_s(storage, 2.0, 0.001, 200) == pytest.approx(50.0, rel=1e-6)


def test_a_storage_at_random_is_the_machine_repair_model():
    # Two clients, think time z, service s, both at random: 2 (s + z) / (2 s^2 + 2 s z + z^2),
    # from the three states of the chain.
    served_s, delay_s = 0.02, 0.03
    expected = 2 * (served_s + delay_s) / (2 * served_s**2 + 2 * served_s * delay_s + delay_s**2)
    storage = Storage(1 / served_s, 1 / served_s)
    assert operations_per_s(storage, 1.0, delay_s, 2) == pytest.approx(expected)


def test_reads_that_take_equally_long_let_clients_wait_less():
    random, equal = (
        operations_per_s(Storage(100.0, 100.0, variation), 1.0, 0.03, 4) for variation in (1, 0)
    )
    assert random * 1.03 < equal <= 100.0


def test_clients_between_whole_numbers_lie_between():
    storage = Storage(100.0, 100.0)
    low, middle, high = (operations_per_s(storage, 1.0, 0.02, each) for each in (2, 2.5, 3))
    assert middle == pytest.approx((low + high) / 2)


def test_a_known_rate_scales_the_storage():
    scaled = calibrated(Storage(100.0, 150.0, 0.2), 2.0, 0.01, 4, 70.0)
    assert operations_per_s(scaled, 2.0, 0.01, 4) == pytest.approx(70.0, rel=1e-3)
    assert scaled.most_per_s / scaled.alone_per_s == pytest.approx(1.5)


def test_without_reads_only_the_delay_counts():
    assert operations_per_s(Storage(100.0, 100.0), 0.0, 0.02, 8) == pytest.approx(400.0)


def test_nobody_or_no_time_is_refused():
    with pytest.raises(ValueError, match="needs a client"):
        operations_per_s(Storage(1.0, 1.0), 1.0, 1.0, 0)
    with pytest.raises(ValueError, match="takes no time"):
        operations_per_s(Storage(1.0, 1.0), 0.0, 0.0, 1)
