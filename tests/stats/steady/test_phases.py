"""The states that rates go through, reported with their times, and from noise alone none."""

import math

import msgspec
import numpy as np
import pytest

from seatrial.findings.context import Context
from seatrial.findings.summary import summarise_cell
from seatrial.stats.steady import states
from seatrial.stats.steady.phases import phases, snia
from seatrial.stats.steady.states import steady_states
from seatrial.trials.io.findings.left_steady_state import left_steady_state
from seatrial.trials.io.findings.not_steady import not_steady

from ..builders import MS_NS, cell_of, rounds_of, run_of
from ..timed import noisy_counts, timed_sample

WRITE = cell_of(operation="write", block_size_bytes=4096)


def states_of(rates):
    times_s = [0.1 * (place + 1) for place in range(len(rates))]
    return [(p.state, p.start_s, p.end_s) for p in phases([float(r) for r in rates], times_s)]


def shaped(values=200, **stretches):
    """Noise about 1000 with stretches at another level, ``a=(start, end, factor)``."""
    rates = noisy_counts(values, level=1000).astype(float)
    for start, end, factor in stretches.values():
        rates[start:end] *= factor
    return rates


def approx(*expected):
    return [(state, pytest.approx(a), pytest.approx(b)) for state, a, b in expected]


def test_a_flat_rate_is_steady():
    assert states_of(shaped()) == approx(("steady", 0, 20))


def test_fresh_then_steady():
    assert states_of(shaped(a=(0, 60, 4))) == approx(("fresh", 0, 6), ("steady", 6, 20))


def test_fresh_transition_steady():
    rates = shaped(a=(0, 40, 4), b=(40, 80, 2))
    found = states_of(rates)
    assert found == approx(("fresh", 0, 4), ("transition", 4, 8), ("steady", 8, 20))


def test_a_slow_start_is_a_transition():
    found = states_of(shaped(a=(0, 30, 0.4)))
    assert found == approx(("transition", 0, 3), ("steady", 3, 20))


def test_steady_then_left():
    assert states_of(shaped(a=(140, 200, 0.4))) == approx(("steady", 0, 14), ("left", 14, 20))


def test_left_and_back():
    found = states_of(shaped(a=(100, 140, 0.4)))
    assert found == approx(("steady", 0, 10), ("left", 10, 14), ("steady", 14, 20))


def test_a_rate_that_keeps_falling_is_never_steady():
    found = states_of(shaped() * np.linspace(3, 1, 200))
    assert found[0][0] == "fresh"
    assert {state for state, _, _ in found} == {"fresh", "transition"}


@pytest.mark.parametrize("length", [3, 10, 30])
def test_a_freeze_is_no_state(length):
    assert states_of(shaped(a=(100, 100 + length, 0))) == approx(("steady", 0, 20))


def test_five_equal_rounds_are_steady_and_carry_their_mean():
    (phase,) = phases([100.0] * 5, [1, 2, 3, 4, 5])
    assert (phase.state, phase.start_s, phase.end_s) == ("steady", 0, 5)
    assert phase.rate.value == 100


def test_the_rate_of_a_phase_has_an_interval_where_it_is_long_enough():
    first, second = phases(
        shaped(a=(0, 15, 4)).tolist(), [0.1 * (place + 1) for place in range(200)]
    )
    assert first.rate.low is None
    assert second.rate.low < second.rate.value < second.rate.high
    assert second.rate.over == "timeline"


@pytest.mark.parametrize(("rates", "times"), [([1.0], [1.0]), ([1.0, 2.0], [1.0])])
def test_what_is_no_series_is_refused(rates, times):
    with pytest.raises(ValueError, match="do not match"):
        phases(rates, times)


def test_reads_and_writes_are_judged_apart():
    write = noisy_counts(100)
    write[:30] *= 4
    sample = timed_sample({"read": noisy_counts(100, seed=2), "write": write})
    read, write = steady_states([summarise_cell([sample])])
    assert (read.operation, [p.state for p in read.phases]) == ("read", ["steady"])
    assert (write.operation, [p.state for p in write.phases]) == ("write", ["fresh", "steady"])
    assert "fresh at 4,0" in write.sentence
    assert "until 3 s" in write.sentence or "until 3.0 s" in write.sentence


def test_rules_stand_next_to_the_phases():
    (state,) = steady_states([summarise_cell([timed_sample(noisy_counts(150))])])
    assert [rule.rule for rule in state.rules] == ["snia", "fio_deviation", "fio_slope"]
    assert all(rule.met for rule in state.rules)
    (short,) = steady_states([summarise_cell([timed_sample(noisy_counts(30))])])
    assert [rule.rule for rule in short.rules] == ["snia"]


def test_a_timeline_of_any_length_is_judged_in_at_most_25_parts(monkeypatch):
    """As docs/method.md has it: equal parts of at least four slices, however many slices."""
    counts = {}

    def counting(values, times_s=None):
        counts[slices] = len(values)
        return snia(values, times_s)

    monkeypatch.setattr(states, "snia", counting)
    for slices in (20, 99, 100, 101, 119, 120, 149, 199, 600):
        steady_states([summarise_cell([timed_sample(noisy_counts(slices))])])
    assert counts == {slices: slices // max(4, math.ceil(slices / 25)) for slices in counts}
    assert max(counts.values()) == 25
    assert min(counts.values()) == 5


def test_short_samples_and_schedules_are_not_judged():
    scheduled = cell_of(arrival={"kind": "fixed", "rate_per_s": 1000})
    assert steady_states([summarise_cell([timed_sample(noisy_counts(19))])]) == []
    assert steady_states([summarise_cell([timed_sample(noisy_counts(50), scheduled)])]) == []


def test_five_rounds_are_judged_and_four_are_not():
    five = steady_states([rounds_of(WRITE, [1000, 700, 500, 400, 300])])
    assert [(s.over, s.round) for s in five] == [("rounds", None)]
    assert not five[0].rules[0].met
    assert steady_states([rounds_of(WRITE, [1000, 700, 500, 400])]) == []


def context_of(*cells):
    return Context(run_of(), list(cells))


def falling(cell=WRITE, values=100, seed=1):
    counts = np.rint(noisy_counts(values, seed=seed) * np.linspace(3, 1, values))
    return summarise_cell([timed_sample(counts, cell)])


def test_a_write_cell_that_keeps_falling_is_not_steady():
    (finding,) = not_steady(context_of(falling()))
    assert finding.severity == "warning"
    assert finding.cells == [WRITE.identity()]
    assert finding.evidence["line_share"] > 0.1
    assert "SNIA" in finding.sentence
    assert "precondition" in finding.next


def test_a_read_cell_alone_raises_nothing_but_a_whole_run_does():
    reads = [falling(cell_of(block_size_bytes=size), seed=size) for size in (4096, 8192, 16384)]
    assert not_steady(context_of(*reads[:2])) == []
    (finding,) = not_steady(context_of(*reads))
    assert "most of the run" in finding.sentence


def test_a_drift_over_rounds_is_reported():
    rates = [int(3000 * 0.93**place) for place in range(14)]
    (finding,) = not_steady(context_of(rounds_of(WRITE, rates)))
    assert finding.evidence["over"] == "rounds"


def test_steady_cells_raise_nothing():
    steady = summarise_cell([timed_sample(noisy_counts(100), WRITE)])
    fresh = noisy_counts(100)
    fresh[:30] *= 4
    settled = summarise_cell([timed_sample(fresh, WRITE)])
    assert not_steady(context_of(steady, settled)) == []
    assert left_steady_state(context_of(steady, settled)) == []


@pytest.mark.parametrize(("spread", "correlation"), [(0.05, 0.5), (0.15, 0.5), (0.1, 0.9)])
def test_noise_alone_raises_neither(spread, correlation):
    trials, raised = 150, 0
    for seed in range(trials):
        counts = noisy_counts(60, level=200, spread=spread, correlation=correlation, seed=seed)
        context = context_of(summarise_cell([timed_sample(counts, WRITE)]))
        raised += bool(not_steady(context)) + bool(left_steady_state(context))
    assert raised <= 0.03 * trials


def test_rounds_of_noise_raise_neither():
    draw = np.random.default_rng(4)
    raised = 0
    for _ in range(200):
        rates = [int(rate) for rate in 1000 * np.exp(0.15 * draw.standard_normal(10))]
        context = context_of(rounds_of(WRITE, rates))
        raised += bool(not_steady(context)) + bool(left_steady_state(context))
    assert raised <= 4


def dropping(cell=WRITE, factor=0.4):
    counts = noisy_counts(100)
    counts[70:] = np.rint(counts[70:] * factor)
    return summarise_cell([timed_sample(counts, cell)])


def test_a_write_level_that_falls_is_likely_a_full_cache():
    (finding,) = left_steady_state(context_of(dropping()))
    assert finding.severity == "warning"
    assert finding.evidence["steady_until_s"] == pytest.approx(7)
    assert finding.evidence["likely"] == "cache_full"
    # 7,000 requests of 4 KiB, less what 400 a second drained in 7 s.
    assert finding.evidence["cache_bytes"] == pytest.approx(4200 * 4096, rel=0.05)
    assert "did not recover" in finding.sentence


def test_a_read_level_that_falls_has_no_cause_without_evidence():
    (finding,) = left_steady_state(context_of(dropping(cell_of())))
    assert finding.evidence["likely"] == "unknown"


def test_heat_is_the_cause_where_the_drive_counted_it():
    health = {"nvme0n1": {"smart": {"throttle_light_count": 3}}}
    after = {"health": {"nvme0n1": {"smart": {"throttle_light_count": 5}}}}
    context = Context(run_of(before={"health": health}, after=after), [dropping()])
    (finding,) = left_steady_state(context)
    assert finding.evidence["likely"] == "heat"
    assert "throttled" in finding.cause


def test_a_fall_that_passed_is_a_note():
    counts = noisy_counts(100)
    counts[50:70] = np.rint(counts[50:70] * 0.4)
    (finding,) = left_steady_state(context_of(summarise_cell([timed_sample(counts, WRITE)])))
    assert finding.severity == "note"
    assert "recovered" in finding.sentence


def test_a_rise_is_no_loss():
    counts = noisy_counts(100)
    counts[70:] *= 3
    assert left_steady_state(context_of(summarise_cell([timed_sample(counts, WRITE)]))) == []


def test_times_of_a_millisecond_slice_are_seconds():
    (state,) = steady_states([summarise_cell([timed_sample(noisy_counts(40))])])
    assert state.phases[-1].end_s == pytest.approx(4.0)
    assert MS_NS == 1_000_000


@pytest.mark.parametrize(
    "shape",
    [
        lambda t: 35_000 * np.exp(-0.46 * t),
        lambda t: 22_000 + 13_000 * np.exp(-3 * t),
        lambda t: 22_000 + 13_000 * t**2,
    ],
    ids=["falling evenly", "falling ever slower", "rising ever faster"],
)
def test_a_smooth_drift_is_never_steady_all_along(shape):
    places = np.linspace(0, 1, 90)
    rates = shape(places) * np.exp(np.random.default_rng(5).normal(size=90) * 0.01)
    found = phases(list(rates), [0.1 * (place + 1) for place in range(90)])
    steady_s = sum(phase.end_s - phase.start_s for phase in found if phase.state == "steady")
    assert steady_s < 4.6
    assert not any(phase.state == "left" for phase in found)


OTHER_TARGET = {
    "target": {"label": "ssd", "stack": [{"name": "sda", "kind": "disk"}]},
    "other_targets": {"nvme": {"label": "nvme", "stack": [{"name": "nvme0n1", "kind": "nvme"}]}},
}
HOT = {"smart": {"throttle_light_count": 3}}, {"smart": {"throttle_light_count": 5}}


@pytest.mark.parametrize(
    ("target", "drive", "likely"),
    [
        ("ssd", "sda", "heat"),
        ("nvme", "sda", "cache_full"),
        ("nvme", "nvme0n1", "heat"),
    ],
)
def test_the_heat_of_another_targets_drive_is_no_cause(target, drive, likely):
    before, after = ({"health": {drive: health}} for health in HOT)
    cell = cell_of(operation="write", target=target)
    context = Context(run_of(before=OTHER_TARGET | before, after=after), [dropping(cell)])
    (finding,) = left_steady_state(context)
    assert finding.evidence["likely"] == likely


def test_heat_in_the_kernel_log_names_no_drive():
    after = {"kernel_log": {"by_kind": {"thermal": 3}}}
    (finding,) = left_steady_state(Context(run_of(after=after), [dropping()]))
    assert finding.evidence["likely"] == "heat"
    assert finding.cause.startswith("Possibly heat")


def test_the_burst_credit_of_another_target_is_no_cause():
    def with_credit(threads, *, target):
        counts = np.concatenate([noisy_counts(40, 300), noisy_counts(60, 100)])
        cell = cell_of(target=target, threads=threads)
        return summarise_cell([timed_sample(counts, cell, started_at=1000.0 * threads)])

    for target, likely in (("cloud", "burst_credit"), ("other", "cache_full")):
        own = dropping(cell_of(operation="write", target=target))
        cells = [own, *(with_credit(threads, target="cloud") for threads in (1, 2, 3))]
        (finding,) = left_steady_state(context_of(*cells))
        assert finding.evidence["likely"] == likely


def test_the_part_of_snias_rule_that_is_broken_is_the_one_reported():
    (finding,) = not_steady(context_of(falling()))
    assert finding.evidence["range_share"] > 0.2
    assert "slope" in finding.sentence
    swinging = msgspec.structs.replace(finding.figures, line_share=0.05, range_share=0.67)
    assert "range over the last five parts of a sample is 67 %" in swinging.text().sentence
    assert "SNIA limit: 20 %" in swinging.text().sentence


def test_fios_rules_are_of_seconds_in_a_sample_of_any_length():
    """In 20 min, a step of the series has two seconds, whose mean hides how they differ."""
    counts = np.tile(np.repeat([17, 23], 10), 600)
    (state,) = context_of(summarise_cell([timed_sample(counts)])).steady
    assert state.rules[1].rule == "fio_deviation"
    assert state.rules[1].met_after is None


def test_slices_that_do_not_fit_into_a_second_have_no_seconds():
    sample = timed_sample(noisy_counts(100))
    timeline = msgspec.structs.replace(sample.timeline, slice_ns=300 * MS_NS)
    sample = msgspec.structs.replace(sample, timeline=timeline, duration_s=30.0)
    (state,) = context_of(summarise_cell([sample])).steady
    assert [rule.rule for rule in state.rules] == ["snia"]
