"""The rank of a run's figures among its own earlier runs."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from report.index_sample import repeated_runs, store_runs
from seatrial.cli.main import seatrial
from seatrial.findings.answer import answer
from seatrial.findings.ranks import RUNS_MIN, comparable_runs, ranked
from seatrial.findings.summary import summarise
from seatrial.results.store import ResultsFile

RATES = (1.0, 1.1, 0.9, 1.2, 1.05)


def answer_of_last(rates, profile=""):
    *earlier, (run, samples) = repeated_runs(rates)
    summary = summarise(run, samples)
    return ranked(answer(summary, profile), summary.cells, [each for _, each in earlier])


def test_the_rank_is_the_share_of_slower_runs_in_the_same_test():
    ranks = {each.label: each.rank for each in answer_of_last(RATES).tiles}
    assert "faster than 50 % of 4 earlier runs" in ranks.values()


def test_too_few_earlier_runs_and_graded_figures_have_no_rank():
    assert not any(each.rank for each in answer_of_last(RATES[-RUNS_MIN:]).tiles)
    assert not any(each.rank for each in answer_of_last(RATES, "oltp").tiles)


def test_only_earlier_runs_of_the_same_study_count():
    runs = [run for run, _ in repeated_runs(RATES)]
    assert [each.id for each in comparable_runs(runs[2], runs)] == [runs[1].id, runs[0].id]


@pytest.mark.parametrize("command", ["show", "report"])
def test_terminal_and_page_show_it(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    with ResultsFile.open(tmp_path / "results.seatrial", create=True) as store:
        store_runs(store, RATES)
    arguments = ["report", "--output", "page.html"] if command == "report" else ["show"]
    done = CliRunner().invoke(seatrial, arguments, env={"COLUMNS": "160"})
    assert done.exception is None, done.output
    text = (tmp_path / "page.html").read_text() if command == "report" else done.output
    assert "faster than 50 % of 4 earlier runs" in text.replace("\N{NO-BREAK SPACE}", " ")
