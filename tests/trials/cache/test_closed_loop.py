"""Closed loops whose rate is known from a formula."""

from __future__ import annotations

import pytest

from seatrial.trials.cache.analysis.closed_loop import Station, operations_per_s, scaled_to


def test_one_client_waits_for_nobody():
    station = Station(visits=2.0, rates_per_s=(100.0,))
    assert operations_per_s([station], 0.03, 1) == pytest.approx(1 / (0.03 + 2 / 100))


def test_a_station_for_each_client_is_a_delay():
    station = Station(visits=2.0, rates_per_s=(100.0, 200.0, 300.0, 400.0))
    assert operations_per_s([station], 0.03, 4) == pytest.approx(4 / 0.05)


def test_many_clients_get_what_the_slowest_station_serves():
    stations = [Station(2.0, (100.0,)), Station(1.0, (500.0,))]
    assert operations_per_s(stations, 0.001, 200) == pytest.approx(50.0, rel=1e-6)


def test_two_equal_stations_serve_as_the_formula_says():
    # Balanced stations of service time s and n clients: n / (s * (n + stations - 1)).
    stations = [Station(1.0, (100.0,)) for _ in range(3)]
    assert operations_per_s(stations, 0.0, 5) == pytest.approx(5 / (0.01 * 7))


def test_clients_between_whole_numbers_lie_between():
    station = [Station(1.0, (100.0,))]
    low, middle, high = (operations_per_s(station, 0.02, each) for each in (2, 2.5, 3))
    assert middle == pytest.approx((low + high) / 2)


def test_a_known_rate_scales_the_stations():
    stations = [Station(2.0, (100.0, 150.0))]
    (scaled,) = scaled_to(stations, 0.01, 4, 90.0)
    assert operations_per_s([scaled], 0.01, 4) == pytest.approx(90.0, rel=1e-3)
    assert scaled.rates_per_s[1] / scaled.rates_per_s[0] == pytest.approx(1.5)


def test_nobody_or_no_time_is_refused():
    with pytest.raises(ValueError, match="needs a client"):
        operations_per_s([], 1.0, 0)
    with pytest.raises(ValueError, match="takes no time"):
        operations_per_s([], 0.0, 1)
