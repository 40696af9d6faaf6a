"""Odd cells measured again: exactly these, within the budget, and then known to persist or not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cli.command import seatrial
from measure.simulated import measured_in, run_study
from seatrial.findings.summary import summarise
from seatrial.measure.rounds import REMEASURED, interleaved, remeasuring
from seatrial.stats.cell_estimates import settled
from seatrial.trials.audit.analysis import audit_tables
from seatrial.trials.audit.analysis.guide import outlier_keys

USUAL = interleaved(settled, outlier_keys)
GAP = "gaps = [{ from_bytes = 32768, to_bytes = 65536, slowdown_factor = 3 }]"
GAP_KEYS = {f"matrix/read/{size}B/{t}t/1d" for size in (32768, 65536) for t in (1, 2, 4, 16)}
ROWS = 9
CELLS = ROWS * 4


def study_of(*, gap: str = "", rounds: str = "min = 1, max = 1", budget: str = "") -> str:
    return f"""
    name = "gap"
    rounds = {{ {rounds} }}
    {budget}

    [[target]]
    kind = "simulated"
    size = "1GiB"

    [target.model]
    channels = 4
    read = {{ base_us = 80, per_kib_us = 0.6 }}
    noise_share = 0.02
    {gap}

    [[workload]]
    kind = "matrix"
    operations = "read"
    seconds = 0.5
    block_sizes = {{ from = "4KiB", to = "1MiB" }}
    threads = [1, 2, 4, 16]
    """


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "state"))
    return tmp_path


def gaps_of(run, samples):
    summary = summarise(run, samples)
    return [gap for audit in audit_tables(run, summary.cells) for gap in audit.gaps]


def again(samples):
    return [sample for sample in samples if REMEASURED in sample.counters]


def test_a_gap_of_the_device_is_measured_again_and_persists(folder):
    run, end, samples = run_study(folder, study_of(gap=GAP), USUAL)
    assert end.reason.endswith("8 outliers were measured again in 2 further rounds.")
    assert {sample.cell.key for sample in again(samples)} == GAP_KEYS
    assert measured_in(samples) == {0: CELLS, 1: 8, 2: 8}
    (gap,) = gaps_of(run, samples)
    assert (gap.kind, gap.status) == ("collapse", "persistent")
    assert set(gap.keys) == GAP_KEYS


def test_a_hiccup_is_measured_again_and_has_passed(folder, monkeypatch):
    victim = "matrix/read/65536B/4t/1d"

    def freeze(key, round_number):
        spans = [{"start_s": 0.05, "length_s": 0.44}]
        return {"freezes": spans} if (key, round_number) == (victim, 0) else {}

    run, end, samples = run_study(
        folder, study_of(), USUAL, model_changes=freeze, monkeypatch=monkeypatch
    )
    assert end.reason.endswith("1 outlier was measured again in 2 further rounds.")
    assert [sample.cell.key for sample in again(samples)] == [victim, victim]
    (gap,) = gaps_of(run, samples)
    assert (gap.keys, gap.status) == ([victim], "transient")


def test_a_plain_device_has_nothing_to_measure_again(folder):
    _, end, samples = run_study(folder, study_of(), USUAL)
    assert end.reason == "The only round was measured."
    assert len(samples) == CELLS


def test_a_gap_seen_in_all_rounds_needs_no_more(folder):
    run, _, samples = run_study(folder, study_of(gap=GAP, rounds="min = 3, max = 3"), USUAL)
    assert again(samples) == []
    assert [gap.status for gap in gaps_of(run, samples)] == ["persistent"]


def test_a_study_may_ask_for_none(folder):
    rounds = "min = 1, max = 1, remeasure = 0"
    run, _, samples = run_study(folder, study_of(gap=GAP, rounds=rounds), USUAL)
    assert len(samples) == CELLS
    assert [gap.status for gap in gaps_of(run, samples)] == ["seen_once"]


def test_a_spent_budget_ends_it_with_a_sentence(folder):
    budget = "[budget]\ntime_s = 0.001"
    _, end, samples = run_study(folder, study_of(gap=GAP, budget=budget), USUAL)
    assert len(samples) == CELLS
    assert end.reason.endswith(
        "The time budget of 0 s was used up while 8 outliers were measured again."
    )


def test_what_was_measured_again_before_an_interrupt_is_not_outlier_again(folder):
    run, _, samples = run_study(folder, study_of(gap=GAP), USUAL)
    assert outlier_keys(run, samples) == []


def test_a_stored_run_is_measured_again_where_it_is_reported(folder):
    rounds = "min = 1, max = 1, remeasure = 0"
    run, _, samples = run_study(folder, study_of(gap=GAP, rounds=rounds), USUAL)
    both, end, more = run_study(
        folder, study_of(gap=GAP, rounds=rounds), remeasuring(outlier_keys), resume=run
    )
    assert (both.id, both.status) == (run.id, "complete")
    assert end.reason == "8 outliers were measured again in 2 further rounds."
    assert more[: len(samples)] == samples
    assert measured_in(more) == {0: CELLS, 1: 8, 2: 8}


def test_an_unfinished_run_stays_unfinished(folder):
    run, _, _ = run_study(folder, study_of(rounds="min = 1, max = 1, remeasure = 0"), USUAL)
    cut = msgspec.structs.replace(run, status="interrupted")
    both, end, _ = run_study(folder, study_of(), remeasuring(outlier_keys), resume=cut)
    assert both.status == "interrupted"
    assert end.reason == "There are no outliers; nothing was measured."


def test_the_command_measures_outlier_cells_again(folder):
    (folder / "study.toml").write_text(study_of(gap=GAP))
    ended = seatrial("study", "study.toml", folder=folder)
    assert ended.code == 0, ended
    assert "8 outliers were measured again in 2 further rounds." in ended.out


def test_exactly_so_many_rounds_means_so_many(folder):
    (folder / "study.toml").write_text(study_of(gap=GAP))
    ended = seatrial("study", "study.toml", "--rounds", "1", "--json", folder=folder)
    assert ended.code == 0, ended
    assert len(ended.document["samples"]) == CELLS
