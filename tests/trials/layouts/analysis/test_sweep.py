"""Figures against the number of drives, and where they stop to grow."""

import numpy as np
import pytest

from seatrial.trials.layouts.analysis.sweep import sweeps

from .hand import (
    cell_of,
    event,
    finding_of,
    kinds,
    of_run,
    quick_rounds,
    sample_of,
    spec_of,
    summary_of,
)

DRIVES = (2, 4, 6, 8, 12)
TRIALS = 200


def swept(rates, *, rounds=6, spread=0.0, draw=None, level="raid0", **cell):
    """Summaries of one workload on layouts of so many drives, with noise between rounds."""
    draw = draw or np.random.default_rng(1)
    found = []
    for drives, rate in rates.items():
        spec = spec_of(level, drives)
        noisy = [rate * np.exp(spread * draw.standard_normal()) for _ in range(rounds)]
        found.append(
            summary_of(*quick_rounds(spec, noisy, cell_of(spec, **{"operation": "read"} | cell)))
        )
    return found


def test_a_series_has_a_point_for_each_number_of_drives():
    (series,) = sweeps(swept({4: 200_000, 2: 100_000, 6: 300_000}))
    assert series.name == "raid0"
    assert [point.drives for point in series.points] == [2, 4, 6]
    assert series.points[0].rate.value == pytest.approx(100_000)
    assert series.saturation is None


def test_series_are_distinguished_by_what_differs():
    cells = swept({2: 1e5, 4: 2e5})
    for drives in (2, 4):
        spec = spec_of("raid0", drives, label=f"lvm-{drives}", backend="lvm")
        cells.append(summary_of(*quick_rounds(spec, [1e5] * 3, cell_of(spec, operation="read"))))
    assert [series.name for series in sweeps(cells)] == ["raid0, md", "raid0, lvm"]


def test_a_cell_in_which_nothing_completed_is_no_point():
    cells = swept({2: 1e5, 4: 2e5})
    spec = spec_of("raid0", 6)
    cells.append(summary_of(sample_of(spec, cell_of(spec, operation="read"), per_slice=0)))
    (series,) = sweeps(cells)
    assert [point.drives for point in series.points] == [2, 4]


def test_an_array_that_was_broken_is_no_point():
    cells = swept({2: 1e5, 4: 2e5})
    spec = spec_of("raid0", 6)
    cell = cell_of(spec, operation="read", fail=[{"deed": "fail"}])
    cells.append(summary_of(sample_of(spec, cell, events=[event(1.0, "failed")])))
    (series,) = sweeps(cells)
    assert [point.drives for point in series.points] == [2, 4]


def test_the_articles_controller_saturates_from_six_drives_on():
    rates = {2: 100_000, 4: 200_000, 6: 290_000, 8: 291_000, 12: 290_000}
    cells = swept(rates, spread=0.02, address="sequential")
    (series,) = sweeps(cells)
    assert series.saturation.drives == 6
    assert series.saturation.sentence.startswith("Read bandwidth saturates at 6 drives")
    samples = [sample for part in cells for sample in part.samples]
    found = finding_of(of_run(*samples), "array_saturated")
    assert found.severity == "note"
    assert len(found.cells) == 2


def test_one_request_at_a_time_gains_nothing_from_the_first_drive_on():
    (series,) = sweeps(swept(dict.fromkeys(DRIVES, 100_000), spread=0.02))
    assert series.saturation.drives == 2
    assert series.saturation.gain_before is None


def judged(rates, *, rounds, spread, trials=TRIALS):
    """Where many simulated series stop to grow; None where that is not said."""
    draw = np.random.default_rng(7)
    found = []
    for _ in range(trials):
        (series,) = sweeps(swept(rates, rounds=rounds, spread=spread, draw=draw))
        found.append(series.saturation.drives if series.saturation else None)
    return found


@pytest.mark.parametrize(("rounds", "spread"), [(3, 0.03), (6, 0.03)])
def test_what_grows_is_hardly_ever_called_saturated(rounds, spread):
    """Growth of 1.1 per step is growth; also that of a sweep that adds 8 % each time."""
    rates = {drives: 1e5 * 1.08**step for step, drives in enumerate(DRIVES)}
    false = [each for each in judged(rates, rounds=rounds, spread=spread) if each is not None]
    assert len(false) <= 0.05 * TRIALS


def test_equal_layouts_are_hardly_ever_said_to_have_grown_first():
    """A/A: nothing grows, so that any stop but at the lowest number is false."""
    false = [
        n for n in judged(dict.fromkeys(DRIVES, 1e5), rounds=6, spread=0.03) if n not in (None, 2)
    ]
    assert len(false) <= 0.05 * TRIALS


def test_a_real_stop_is_mostly_found_with_six_rounds():
    rates = {2: 1e5, 4: 2e5, 6: 3e5, 8: 3e5, 12: 3e5}
    found = judged(rates, rounds=6, spread=0.02, trials=100)
    assert found.count(6) >= 80


def test_broken_runs_report_no_saturation_of_degraded_arrays():
    spec = spec_of("raid5", 4)
    samples = [sample_of(spec, cell_of(spec, fail=[{"deed": "fail"}]), round=n) for n in range(3)]
    assert "array_saturated" not in kinds(of_run(*samples))
