"""The finding ``not_recovered``: what the recovery check noted with a sample."""

import pytest

from seatrial.findings.rules.not_recovered import IDLE_COUNTER, RATIO_COUNTER
from seatrial.findings.summary import summarise
from seatrial.measure import recovery
from stats.builders import cell_of, run_of, sample_of


def found(*ratios):
    samples = [
        sample_of(cell_of(), round=place, counters={RATIO_COUNTER: ratio, IDLE_COUNTER: 2e9})
        for place, ratio in enumerate(ratios)
    ]
    reported = summarise(run_of(), samples).findings
    return [finding for finding in reported if finding.kind == "not_recovered"]


def test_a_target_that_did_not_come_back_is_reported_with_the_worst_probe():
    (finding,) = found(1.0, 0.7, 0.55)
    assert finding.severity == "warning"
    assert finding.sentence.startswith("The target had not recovered before 2 samples of ")
    assert "55 % of its initial rate after 4.0 s of idle time" in finding.sentence
    assert finding.evidence["probe_ratio_min"] == pytest.approx(0.55)
    assert len(finding.cells) == 1


def test_what_came_back_is_no_finding():
    assert found(1.0, 0.8, 1.3) == []


def test_the_finding_reads_what_the_recovery_check_writes():
    assert (RATIO_COUNTER, IDLE_COUNTER) == (recovery.PROBE_RATIO, recovery.IDLE_NS)
