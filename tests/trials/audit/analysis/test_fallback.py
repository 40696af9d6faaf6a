"""Where no model holds: it says so, seeks gaps by order alone, and predicts nothing."""

import numpy as np
import pytest

from findings.analyses import analyses_of
from seatrial.errors import UsageError
from seatrial.findings.context import Context
from seatrial.trials.audit.analysis.audit import audit_table, expected_at_least
from seatrial.trials.audit.analysis.predict import predict
from seatrial.trials.audit.findings.gap import gap
from stats.builders import run_of
from trials.audit.analysis.synthetic import COUNTS, READ_VALUES, SIZES, rates, table_from, table_of


def nonsense(seed, spread_log=2.0):
    random = np.random.default_rng(seed)
    return {(s, c): float(random.lognormal(8, spread_log)) for s in SIZES for c in COUNTS}


def superlinear():
    """In order, yet like none of the forms: ten requests in flight do a hundred times of one."""
    gains = dict(zip(COUNTS, (1.0, 100.0, 101.0), strict=True))
    flat_until = SIZES[6]
    return {
        (size, count): 1000.0 * gains[count] * min(1.0, flat_until / size)
        for size in SIZES
        for count in COUNTS
    }


@pytest.mark.parametrize("seed", range(6))
def test_nonsense_holds_no_model_and_raises_no_wall_of_gaps(seed):
    audit = audit_table(table_from(nonsense(seed)))
    assert (audit.form, audit.holds) == ("none", False)
    assert audit.parameters == []
    assert audit.predictions == {}
    assert "No model fits" in audit.sentence
    assert "by order alone" in audit.sentence
    assert audit.gaps == []
    with pytest.raises(UsageError, match="No model fits"):
        predict(audit, 8192, 10)


def test_order_finds_a_gap_where_no_model_holds():
    by_place = superlinear()
    assert not audit_table(table_from(by_place)).holds
    by_place[SIZES[6], 40] /= 5
    audit = audit_table(table_from(by_place))
    assert not audit.holds
    assert [key for gap in audit.gaps for key in gap.keys] == [f"matrix/read/{SIZES[6]}B/40t/1d"]


def test_absent_cells_are_reported_even_so():
    by_place = nonsense(1)
    by_place[SIZES[3], 10] = 0.0
    assert [gap.kind for gap in audit_table(table_from(by_place)).gaps] == ["absent"]


def test_expectations_hold_for_any_sound_table():
    for values in (READ_VALUES, READ_VALUES | {"admitted_count": 30.0}):
        table = table_from(rates("read", {k: v for k, v in values.items() if k != "sub_page_us"}))
        expected = expected_at_least(table)
        assert len(expected) > 30
        for point in table.points:
            if point.key in expected:
                assert point.iops.value >= expected[point.key] * 0.999


def test_writes_below_a_page_may_be_half_as_fast_as_those_of_a_page():
    by_place = rates("read", {k: v for k, v in READ_VALUES.items() if k != "sub_page_us"})
    table = table_from({at: rate * (0.55 if at[0] < 4096 else 1) for at, rate in by_place.items()})
    expected = expected_at_least(table)
    small = [p for p in table.points if p.block_size_bytes < 4096 and p.key in expected]
    assert small
    assert all(point.iops.value >= expected[point.key] for point in small)


def test_a_witness_alone_is_not_believed():
    by_place = rates("read", READ_VALUES)
    by_place[4 << 20, 1] *= 50  # one absurd cell says that all smaller ones should be faster
    table = table_from(by_place)
    expected = expected_at_least(table)
    short = [p for p in table.points if expected.get(p.key, 0.0) > 1.5 * p.iops.value]
    assert short == []


def test_the_sentence_of_a_model_names_both_errors():
    once = audit_table(table_of("read", READ_VALUES, noise_log=0.03))
    assert "measured once, so the difference between rounds is unknown" in once.sentence
    assert once.rounds_share_median is None
    thrice = audit_table(table_of("read", READ_VALUES, noise_log=0.03, rounds=3))
    assert "rounds of one test differ by " in thrice.sentence
    assert thrice.rounds_share_median == pytest.approx(0.03, abs=0.015)


@pytest.mark.parametrize(("rounds", "severity"), [(1, "note"), (3, "warning")])
def test_a_collapse_seen_once_by_order_alone_is_a_note(rounds, severity):
    """Single figures that scatter by a third make such a collapse in every other table."""
    by_place = superlinear()
    for size in SIZES[4:6]:
        by_place[size, 40] /= 5
    audit = audit_table(table_from(by_place, rounds=rounds))
    context = Context(run_of(), [], analyses_of(audits=[audit]))
    (found,) = gap(context)
    assert found.evidence["class"] == "collapse"
    assert not found.evidence["is_by_model"]
    assert found.severity == severity
