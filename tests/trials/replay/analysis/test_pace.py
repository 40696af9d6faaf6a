"""Rates against the capture, and lateness, from records whose numbers are known."""

from __future__ import annotations

import msgspec
import pytest

from seatrial.findings.summary import summarise
from seatrial.report.table import rate_text
from seatrial.stats.wording import format_estimate
from seatrial.trials.replay.analysis.model import replays_of, worst_round
from seatrial.trials.replay.analysis.pace import (
    answered_per_s,
    captured_per_s,
    delivered,
    keeps_pace,
    lateness,
    ratio_to_capture,
)
from seatrial.trials.replay.report.tables import rates_table
from stats.builders import run_of
from trials.database.analysis.hand import MACHINE

from .hand import Play, rounds_of, sample_of


def with_replay(sample, **changes):
    return msgspec.structs.replace(sample, replay=msgspec.structs.replace(sample.replay, **changes))


def test_the_capture_s_rate_is_that_of_what_was_to_be_sent():
    samples = [sample_of(Play(captured_s=60.0, captured_per_s=200.0))]
    assert captured_per_s(samples) == pytest.approx(11_760 / 60)  # without COPY


def test_errors_count_as_answered_and_statements_without_an_answer_do_not():
    sample = sample_of(Play(failed=50))
    whole = answered_per_s([sample]).value * sample.duration_s
    assert whole == pytest.approx(11_760)
    lost = msgspec.structs.replace(sample.replay.errors, unanswered=60)
    fewer = answered_per_s([with_replay(sample, errors=lost)]).value * sample.duration_s
    assert fewer == pytest.approx(11_700)


def test_the_ratio_has_an_interval_over_the_rounds():
    ratio = ratio_to_capture(rounds_of(Play()))
    assert ratio.rounds == 3
    assert ratio.low < 4.5 < ratio.high


def test_what_a_speed_requested_is_the_capture_times_the_speed():
    samples = rounds_of(Play(speed=2.5))
    assert delivered(samples, 2.5).value == pytest.approx(1.0, abs=0.01)
    assert delivered(samples, None) is None


def test_a_replay_that_ended_early_is_held_against_nothing():
    samples = [sample_of(Play(speed=1.0, ended_at_share=0.6, end="server_lost"))]
    assert ratio_to_capture(samples) is None
    assert delivered(samples, 1.0) is None
    assert answered_per_s(samples).value > 0


def test_a_capture_without_a_clock_has_no_rate():
    for changes in ({"captured_s": 0.0}, {"trace": {"clock": "no"}}):
        samples = [with_replay(sample_of(Play()), **changes)]
        assert captured_per_s(samples) is None
        assert ratio_to_capture(samples) is None


def test_in_an_old_file_until_shortens_the_capture():
    sample = sample_of(Play())
    lag = msgspec.structs.replace(sample.replay.lag, due_ns_last=None, sent_ns_last=None)
    sample = with_replay(sample, lag=lag)
    reported = sample.cell.spec | {
        "database": sample.cell.spec["database"]
        | {"replay": sample.cell.spec["database"]["replay"] | {"until_s": 30.0}}
    }
    shorter = msgspec.structs.replace(
        sample, cell=msgspec.structs.replace(sample.cell, spec=reported)
    )
    assert captured_per_s([shorter]) == pytest.approx(2 * captured_per_s([sample]))


def test_a_pace_is_kept_however_long_the_last_answer_takes():
    """A report was sent on time at 55 s, and takes 30 s; a log without durations ends there."""
    sample = sample_of(Play(speed=1.0))
    lag = msgspec.structs.replace(
        sample.replay.lag, due_ns_last=55_000_000_000, sent_ns_last=55_000_100_000
    )
    long = msgspec.structs.replace(with_replay(sample, lag=lag, captured_s=55.0), duration_s=85.0)
    assert delivered([long], 1.0).value == pytest.approx(1.0, abs=1e-5)
    late = msgspec.structs.replace(lag, sent_ns_last=110_000_000_000)
    assert delivered([with_replay(long, lag=late)], 1.0).value == pytest.approx(0.5)


def test_a_slow_server_does_not_keep_the_pace_of_think_times():
    """Statements are due after its answers, so each is sent on time, however late these are."""
    fast = sample_of(Play(speed=1.0))
    database = fast.cell.spec["database"]
    replay = database["replay"] | {"pace": "think_times"}
    spec = fast.cell.spec | {"database": database | {"replay": replay}}
    fast = msgspec.structs.replace(fast, cell=msgspec.structs.replace(fast.cell, spec=spec))
    due_ns = 298_000_000_000
    lag = msgspec.structs.replace(fast.replay.lag, due_ns_last=due_ns, sent_ns_last=due_ns)
    slow = msgspec.structs.replace(with_replay(fast, lag=lag), duration_s=300.0)
    assert delivered([fast], 1.0).value == pytest.approx(1.0, abs=0.05)
    assert delivered([slow], 1.0).value == pytest.approx(0.2)
    summary = summarise(run_of(before=MACHINE), [slow])
    assert replays_of(summary)[0].bottleneck.bound != "pace"
    assert "replay_late" not in {each.kind for each in summary.findings}


def test_at_maximum_speed_nothing_is_late():
    assert lateness([sample_of(Play())]) is None


def test_lateness_is_that_of_the_worst_round():
    calm, late = sample_of(Play(speed=1.0)), sample_of(Play(speed=5.0), round=1)
    found = lateness([calm, late])
    assert found.round == 1
    assert found.late_by["session"] > found.late_by["driver"] > 0
    assert found.within_1ms_share < 0.5


def test_a_lag_grows_only_where_it_significantly_does():
    assert not lateness([sample_of(Play(speed=1.0))]).grows
    grown = sample_of(Play(speed=3.0, captured_s=900.0, captured_per_s=300.0))
    assert lateness([grown]).grows


def test_a_pace_is_kept_only_in_time():
    samples = rounds_of(Play(speed=1.0))
    assert keeps_pace(delivered(samples, 1.0), lateness(samples))
    behind = rounds_of(Play(speed=5.0))
    assert not keeps_pace(delivered(behind, 5.0), lateness(behind))
    assert not keeps_pace(None, None)


def test_the_round_that_is_reported_is_the_one_with_the_most_that_went_wrong():
    well, failed = sample_of(Play()), sample_of(Play(failed=9), round=1)
    lost = sample_of(Play(ended_at_share=0.5, end="server_lost"), round=2)
    assert worst_round([well, failed])[0].round == 1
    assert worst_round([well, failed, lost])[0].round == 2
    assert worst_round([]) is None


def test_a_start_up_phase_is_never_cut_off_a_replay():
    """A slow first third is what the capture asked for, or what its user would have waited."""
    samples = rounds_of(Play(speed=1.0))
    (cell,) = summarise(run_of(before=MACHINE), samples).cells
    assert cell.running_from_s == 0.0
    assert cell.iops.unit == "statements/s"
    assert cell.iops.value == pytest.approx(11_760 / 60, rel=0.01)


@pytest.mark.parametrize("failed", [0, 400])
def test_verdict_and_tables_report_one_rate_of_a_replay(failed):
    """Where statements failed, the verdict had the rate of the others alone."""
    samples = rounds_of(Play(failed=failed, captured_s=20.0))
    summary = summarise(run_of(before=MACHINE), samples)
    (reported,) = replays_of(summary)
    assert reported.answered_per_s == answered_per_s(samples)
    assert f" at {format_estimate(reported.answered_per_s)}" in summary.verdict
    (row,) = rates_table([(reported, summary.cells[0])]).rows
    assert rate_text(reported.answered_per_s) in row


def test_one_round_without_failures_knows_its_interval_in_every_place():
    sample = sample_of(Play(captured_s=20.0))
    summary = summarise(run_of(before=MACHINE), [sample])
    assert replays_of(summary)[0].answered_per_s == summary.cells[0].iops
