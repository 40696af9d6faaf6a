"""``seatrial audit RUN --remeasure``: what it measures, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from measure.simulated import measured_in, run_study
from measure.test_remeasure import CELLS, GAP, GAP_KEYS, study_of
from seatrial.errors import UsageError
from seatrial.measure.rounds import interleaved
from seatrial.stats.cell_estimates import settled
from seatrial.trials.audit.commands import remeasure_gaps

ROOT = Path(__file__).parents[4]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results file with one run of three rounds on a device with a gap."""
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "state"))
    run_study(tmp_path, study_of(gap=GAP, rounds="min = 3, max = 3"), interleaved(settled))
    return tmp_path / "results.seatrial"


def test_gaps_are_measured_again_however_often_they_were_seen(results):
    source, reported = remeasure_gaps("last", results, quiet=True)
    assert reported == "8 outliers were measured again in 2 further rounds."
    assert measured_in(source.samples) == {0: CELLS, 1: CELLS, 2: CELLS, 3: 8, 4: 8}
    assert {s.cell.key for s in source.samples if s.round > 2} == GAP_KEYS
    assert source.run.status == "complete"
    source, _ = remeasure_gaps(source.run.id, results, quiet=True)
    assert measured_in(source.samples)[6] == 8


def test_an_imported_table_cannot_be_measured_again(results):
    table = ROOT / "tests" / "report" / "bm-flash-2009-raid5.txt"
    with pytest.raises(UsageError, match="imported result"):
        remeasure_gaps(str(table), results, quiet=True)


def test_a_run_of_another_results_file_is_refused(results, tmp_path):
    other = tmp_path / "other.seatrial"
    other.write_bytes(results.read_bytes())
    run_study(tmp_path, study_of(), interleaved(settled))
    with pytest.raises(UsageError, match="its results file"):
        remeasure_gaps(f"{results}:last", other, quiet=True)
