"""Tables that a form makes give its parameters back, and no other form is chosen for them."""

import numpy as np
import pytest

from seatrial.trials.audit.analysis.tables import observations_of
from seatrial.trials.audit.queueing.fit import choose, fit
from seatrial.trials.audit.queueing.forms import PARAMETERS, VARIANTS, Variant
from trials.audit.analysis.synthetic import (
    LOCKED_VALUES,
    PARITY_VALUES,
    READ_VALUES,
    SIZES,
    rates,
    table_from,
    table_of,
)

FORMS = [
    ("read", READ_VALUES, 0.02),
    ("locked_write", LOCKED_VALUES, 0.04),
    ("parity_write", PARITY_VALUES, 0.06),
]
IDS = [form for form, _, _ in FORMS]


@pytest.mark.parametrize(("form", "values", "noise_log"), FORMS, ids=IDS)
def test_the_form_that_made_a_table_is_chosen(form, values, noise_log):
    right = 0
    for seed in range(5):
        table = table_of(form, values, noise_log=noise_log, seed=seed)
        right += choose(observations_of(table)).fit.variant.form == form
    assert right >= 4  # a read form that admits one request is nearly a lock


@pytest.mark.parametrize(("form", "values", "noise_log"), FORMS, ids=IDS)
def test_parameters_lie_in_their_intervals(form, values, noise_log):
    """95 % intervals hold the truth in at least 85 % of cases; so do those that are given."""
    held = []
    for seed in range(25):
        observed = observations_of(table_of(form, values, noise_log=noise_log, seed=seed))
        fitted = fit(Variant(form, tuple(values)), observed)
        for name, value in values.items():
            ends = fitted.ends(name)
            if ends is not None:
                held.append(ends[0] <= value <= ends[1])
    assert len(held) > 25 * (len(values) - 2)
    assert np.mean(held) >= 0.85


@pytest.mark.parametrize(("form", "values", "noise_log"), FORMS, ids=IDS)
def test_without_noise_the_parameters_come_back_exactly(form, values, noise_log):
    fitted = fit(Variant(form, tuple(values)), observations_of(table_of(form, values)))
    for name, value in values.items():
        assert fitted.values[name] == pytest.approx(value, rel=0.02), name


def test_what_a_table_does_not_determine_has_no_interval():
    """With one request in flight, what is shared and what is not cannot be told apart."""
    table = table_of("read", READ_VALUES, counts=[1], noise_log=0.01)
    fitted = fit(Variant("read", tuple(READ_VALUES)), observations_of(table))
    assert fitted.ends("admitted_count") is None
    assert fitted.ends("host_service_us") is None
    assert fitted.ends("link_mib_per_s") is not None


def test_one_level_of_concurrency_knows_no_lock():
    table = table_of("locked_write", LOCKED_VALUES, counts=[8], noise_log=0.02)
    assert choose(observations_of(table)).fit.variant.form != "locked_write"


def test_the_name_of_the_operation_decides_nothing():
    reads = table_from(rates("locked_write", LOCKED_VALUES), operation="read", noise_log=0.02)
    assert choose(observations_of(reads)).fit.variant.form == "locked_write"


def test_a_simple_table_gets_few_parameters():
    values = {name: READ_VALUES[name] for name in ("setup_us", "host_service_us", "link_mib_per_s")}
    chosen = [
        len(
            choose(
                observations_of(table_of("read", values, noise_log=0.05, seed=seed))
            ).fit.variant.names
        )
        for seed in range(5)
    ]
    assert np.median(chosen) == 3


def test_a_deep_queue_is_no_trouble():
    values = READ_VALUES | {"admitted_count": 300.0, "setup_us": 900.0}
    table = table_of("read", values, counts=[1, 32, 256, 1024], sizes=SIZES[3:12], noise_log=0.02)
    choice = choose(observations_of(table))
    assert choice.fit.variant.form == "read"
    assert choice.held_out_share_median < 0.05


def test_variants_are_in_order_and_known():
    counts = [len(variant.names) for variant in VARIANTS]
    assert counts == sorted(counts)
    assert {name for variant in VARIANTS for name in variant.names} == set(PARAMETERS)


def test_one_cell_is_no_table():
    with pytest.raises(ValueError, match="at least two cells"):
        choose(observations_of(table_of("read", READ_VALUES, sizes=[4096], counts=[1])))
