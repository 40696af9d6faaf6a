"""The rank of a run's figures among its own earlier runs."""

from __future__ import annotations

import json

import msgspec
import pytest
from click.testing import CliRunner

from report.index_sample import repeated_runs, store_runs
from seatrial import _core
from seatrial.cli.main import seatrial
from seatrial.findings.answer import answer
from seatrial.findings.ranks import RUNS_MIN, comparable_runs, ranked
from seatrial.findings.summary import summarise
from seatrial.findings.tile import Tile
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


def test_a_latency_is_ranked_by_how_much_shorter_it_is():
    *earlier, (run, samples) = repeated_runs(RATES)
    summary = summarise(run, samples)
    cell = next(each for each in summary.cells if each.latency)
    operation, percentiles = next(iter(cell.latency.items()))
    name, estimate = next(iter(percentiles.items()))
    tile = Tile(
        label=f"{operation} {name}",
        estimate=estimate,
        test="",
        cell=cell.cell.key,
        better="lower",
    )
    found = msgspec.structs.replace(answer(summary), tiles=[tile])
    slow, fast = (
        [[longer(each, factor) for each in samples] for _, samples in earlier] for factor in (4, 0)
    )
    (reported,) = ranked(found, summary.cells, slow).tiles
    assert reported.rank == "shorter than 100 % of 4 earlier runs"
    (reported,) = ranked(found, summary.cells, fast).tiles
    assert reported.rank == "shorter than 0 % of 4 earlier runs"


def longer(sample, factor):
    """The sample with requests that all take so many times the highest response time, or 1 µs."""
    operations = {
        kind: msgspec.structs.replace(
            each,
            response=_core.Histogram.of(
                [max(1_000, each.response_histogram().max_ns * factor)] * each.completed
            ).encode(),
        )
        for kind, each in sample.operations.items()
    }
    return msgspec.structs.replace(sample, operations=operations)


def test_only_earlier_runs_of_the_same_study_count():
    runs = [run for run, _ in repeated_runs(RATES)]
    assert [each.id for each in comparable_runs(runs[2], runs)] == [runs[1].id, runs[0].id]


@pytest.mark.parametrize(
    ("arguments", "page"),
    [
        (["show"], ""),
        (["show", "--json"], ""),
        (["report", "--output", "page.html"], "page.html"),
        (["report", "--all", "--output", "pages"], "pages/{run}.html"),
    ],
)
def test_terminal_page_and_document_show_it(tmp_path, monkeypatch, arguments, page):
    monkeypatch.chdir(tmp_path)
    with ResultsFile.open(tmp_path / "results.seatrial", create=True) as store:
        *_, last = store_runs(store, RATES)
    done = CliRunner().invoke(seatrial, arguments, env={"COLUMNS": "160"})
    assert done.exception is None, done.output
    text = (tmp_path / page.format(run=last)).read_text() if page else done.output
    assert "faster than 50 % of 4 earlier runs" in text.replace("\N{NO-BREAK SPACE}", " ")
    if "--json" in arguments:
        ranks = [each["rank"] for each in json.loads(done.output)["answer"]["tiles"]]
        assert "faster than 50 % of 4 earlier runs" in ranks
