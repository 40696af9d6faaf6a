"""Layouts that differ in one thing: what is reported of them, and how often that is false."""

import msgspec
import numpy as np
import pytest

from seatrial.trials.layouts.analysis.model import layouts_of, variant
from seatrial.trials.layouts.analysis.ratios import LayoutCells, layout_ratios, one_difference

from .hand import cell_of, finding_of, kinds, of_run, quick_rounds, spec_of, summary_of

TRIALS = 100
SIZES = (4096, 8192, 65536)


def factors(spec):
    return variant(spec, spec.label).factors


def striped(stripe, **changes):
    backend = f"md+{stripe}"
    label = {"md": "striped-1", "lvm": "striped-2"}[stripe]
    return spec_of("raid5", 4, label=label, backend=backend, legs=2, **changes)


@pytest.mark.parametrize(
    ("a", "b", "factor"),
    [
        (striped("md"), striped("lvm"), "backend"),
        (spec_of("raid0", 4), spec_of("raid5", 4), "level"),
        (spec_of("raid0", 8), spec_of("raid0", 4, legs=2, backend="md+lvm"), "legs"),
        (spec_of(chunk_kib=64), spec_of(chunk_kib=128), "chunk_kib"),
    ],
)
def test_one_factor_is_found(a, b, factor):
    assert one_difference(factors(a), factors(b)) == factor


def test_numbers_of_drives_are_for_the_sweep_and_two_differences_for_nobody():
    assert one_difference(factors(spec_of("raid0", 4)), factors(spec_of("raid0", 6))) == ""
    assert one_difference(factors(spec_of("raid0", 4)), factors(spec_of("raid5", 6))) == ""
    options = factors(spec_of(mount_options=["noatime"]))
    assert one_difference(factors(spec_of()), options) == "mount_options"


def measured(draw, rates, *, rounds, spread, sizes=SIZES):
    """Layouts at so many requests per second, with noise of each round, some shared by all."""
    drift = 0.05 * draw.standard_normal(rounds)
    cells = []
    for spec, rate in rates:
        for size in sizes:
            noise = spread * draw.standard_normal(rounds)
            cell = cell_of(spec, operation="read", block_size_bytes=size)
            cells.append(summary_of(*quick_rounds(spec, rate * np.exp(noise + drift), cell)))
    return cells


def answers(ratio, *, rounds, spread, trials=TRIALS):
    draw = np.random.default_rng(3)
    found = []
    for _ in range(trials):
        pair = [(striped("md"), 1e5), (striped("lvm"), 1e5 * ratio)]
        (reported,) = layout_ratios(LayoutCells(measured(draw, pair, rounds=rounds, spread=spread)))
        assert reported.factor == "backend"
        found.append(reported.answer)
    return found


@pytest.mark.parametrize("rounds", [3, 6])
def test_equal_backends_are_hardly_ever_called_different(rounds):
    found = answers(1.0, rounds=rounds, spread=0.03)
    assert sum(answer in ("higher", "lower") for answer in found) <= 0.1 * TRIALS
    # At most 5 of 100 are promised; of 100 trials up to 10 are likely by chance (p < 0.03).


def test_many_equal_layouts_are_judged_together():
    """Six equal layouts are fifteen pairs; yet at most one run in twenty says anything."""
    draw = np.random.default_rng(11)
    chunks = [
        (spec_of("raid0", 4, label=f"c{chunk}", chunk_kib=chunk), 1e5)
        for chunk in (16, 32, 64, 128, 256, 512)
    ]
    false = 0
    for _ in range(TRIALS):
        cells = measured(draw, chunks, rounds=5, spread=0.03, sizes=[8192])
        ratios = layout_ratios(LayoutCells(cells))
        assert len(ratios) == 15
        false += any(each.answer in ("higher", "lower") for each in ratios)
    assert false <= 0.1 * TRIALS  # as above; of 300 trials 13 were found false


def test_a_difference_of_ten_percent_is_found_with_six_rounds():
    found = answers(0.9, rounds=6, spread=0.03, trials=50)
    assert found.count("lower") >= 45


def test_the_ten_percent_between_md_and_lvm_are_reported_with_an_interval():
    draw = np.random.default_rng(2)
    pair = [(striped("md"), 1e5), (striped("lvm"), 0.9e5)]
    cells = measured(draw, pair, rounds=6, spread=0.02)
    run = of_run(*(sample for part in cells for sample in part.samples))
    found = finding_of(run, "layouts_differ")
    assert "only in backend" in found.sentence
    assert "md+lvm compared with md+md" in found.sentence
    (reported,) = found.evidence["pairs"]
    assert reported["rate_ratio_low"] < 0.9 < reported["rate_ratio_high"]
    assert reported["rate_ratio_high"] < 1


def test_how_fast_files_were_filled_is_not_compared():
    samples = []
    for level, fill_per_s in (("raid0", 1000), ("raid5", 300)):
        spec = spec_of(level, 4)
        samples += quick_rounds(spec, [1000] * 3)
        fill = cell_of(spec, address="sequential", workload="fill", kind="fill")
        samples += quick_rounds(spec, [fill_per_s] * 3, fill)
    (reported,) = layouts_of(of_run(*samples)).ratios
    assert (reported.cells, reported.ratio.value) == (1, 1.0)


def test_syncs_do_not_refine_a_rate():
    """A rate of 20 writes is as coarse with a sync after each of them."""
    cells = []
    for spec in (striped("md"), striped("lvm")):
        samples = quick_rounds(spec, [20] * 3, cell_of(spec, sync_every=1))
        for at, sample in enumerate(samples):
            both = sample.operations | {"sync": sample.operations["write"]}
            total = msgspec.structs.replace(sample.outcome, offered=40, completed=40)
            samples[at] = msgspec.structs.replace(sample, operations=both, outcome=total)
        cells.append(summary_of(*samples))
    measured_cells = LayoutCells(cells)
    (key,) = measured_cells.common("striped-1", "striped-2", "write")
    contrast, _rounds = measured_cells.contrast("striped-1", "striped-2", [key])
    assert contrast.resolution == pytest.approx(2 * 0.5 / 20)


def test_a_small_difference_is_no_finding():
    draw = np.random.default_rng(2)
    pair = [(striped("md"), 1e5), (striped("lvm"), 0.97e5)]
    cells = measured(draw, pair, rounds=8, spread=0.01)
    run = of_run(*(sample for part in cells for sample in part.samples))
    assert "layouts_differ" not in kinds(run)
    (reported,) = layouts_of(run).ratios
    assert reported.answer == "lower"
