"""Crash trials: any deviation from what was acknowledged is reported, and nothing else."""

from __future__ import annotations

import msgspec
import pytest

from seatrial.cli.outcome import exit_code
from seatrial.errors import EXIT_TRANSACTIONS_LOST
from trials.database.analysis.hand import cell_of, kinds_of, only, record_of, sample_of, summarised

WELL = {
    "crash_checked": 1000.0,
    "crash_lost": 0.0,
    "crash_half": 0.0,
    "crash_unsent": 0.0,
    "crash_altered": 0.0,
    "crash_in_flight": 2.0,
    "crash_in_flight_kept": 1.0,
    "crash_came_back": 1.0,
    "crash_recovery_s": 0.3,
    "crash_index_faults": 0.0,
}


def trial_of(*crashes, settings=None, **factors):
    """A crash trial's summary, with one sample for each crash."""
    cell = cell_of(workload="crash", clients=4, scale=100, **factors)
    record = record_of(settings=settings or {}, waits={})
    samples = [
        msgspec.structs.replace(
            sample_of(cell, round=number, record=record), counters={**WELL, **changes}
        )
        for number, changes in enumerate(crashes)
    ]
    return summarised(*samples)


def test_a_database_that_kept_its_word_is_reported_so():
    summary = trial_of({}, {})
    assert kinds_of(summary) == []
    assert exit_code(summary) == 0
    acknowledged = sum(sample.outcome.completed for sample in summary.cells[0].samples)
    assert (
        f"None of {acknowledged:,} acknowledged transactions lost in 2 crashes" in summary.verdict
    )


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"crash_lost": 3.0}, "3 lost"),
        ({"crash_half": 1.0}, "at least 1 partially applied"),
        ({"crash_unsent": 1.0}, "1 visible but never committed"),
        ({"crash_altered": 2.0}, "2 with altered content"),
        ({"crash_came_back": 0.0, "crash_lost": 9.0}, "no recovery after 1 crash"),
        ({"crash_index_faults": 1.0}, "corrupt tables or indexes after 1 crash"),
    ],
)
def test_a_broken_word_is_critical_and_ends_with_a_code_of_its_own(changes, reported):
    summary = trial_of({}, changes)
    found = only(summary, "transactions_lost")
    assert found.severity == "critical"
    assert reported in found.sentence
    assert exit_code(summary) == EXIT_TRANSACTIONS_LOST
    assert summary.verdict.startswith("Durability violated: ")
    assert f"{reported} in 2 crashes; " in summary.verdict


@pytest.mark.parametrize(
    ("settings", "power_cut", "cause"),
    [
        ({}, "none", "Only the server process was killed"),
        ({}, "honest", "does not pass flushes on"),
        ({}, "lying", "although it had acknowledged"),
        ({"fsync": "off"}, "honest", "fsync is off"),
        ({"synchronous_commit": "off"}, "none", "documented PostgreSQL behaviour"),
    ],
)
def test_the_cause_is_that_of_the_settings_and_of_the_crash(settings, power_cut, cause):
    factors = {} if power_cut == "none" else {"power_cut": power_cut}
    found = only(trial_of({"crash_lost": 3.0}, settings=settings, **factors), "transactions_lost")
    assert cause in found.cause
    assert found.evidence["lost_count"] == 3
