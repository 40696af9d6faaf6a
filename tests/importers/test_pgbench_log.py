"""pgbench's logs of others: threads are found, runs become rounds, unknown values are marked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from cli.command import seatrial
from seatrial import _core
from seatrial.errors import UsageError
from seatrial.findings.summary import summarise
from seatrial.importers import pgbench_log, read_jobs, read_results
from seatrial.results.model import origin_of
from seatrial.results.store import ResultsFile
from trials.database.measure.null_runs import PROGRAMS, columns, logged, needs_pgbench, null_server

AT = 1_795_219_200
"""2026-11-21, as Unix time in seconds."""


def lines(clients: Iterable[int], seconds: float = 2.0, tail: str = "", at: float = AT) -> str:
    """Return lines of clients that each need 10 ms for a transaction, ended in order."""
    text = []
    for number in range(round(seconds * 100)):
        end_us = round(at * 1e6) + (number + 1) * 10_000
        place = f"{end_us // 1_000_000} {end_us % 1_000_000}"
        text += [f"{client} {number} 10000 0 {place}{tail}\n" for client in clients]
    return "".join(text)


def write(folder: Path, **texts: str) -> list[Path]:
    paths = []
    for name, text in texts.items():
        paths.append(folder / name.replace("__", "."))
        paths[-1].write_text(text)
    return paths


@needs_pgbench
def test_a_real_log_gives_pgbench_s_own_figures(tmp_path):
    with null_server(tmp_path) as server:
        printed, paths = logged(
            PROGRAMS[0], server, tmp_path / "pgbench_log", "-c4", "-j2", "-T1", "-P1"
        )
    imported = read_results(paths[1])
    (sample,) = imported.samples
    assert sample.outcome.completed == printed["transactions"] == len(columns(paths))
    assert sample.completed_per_s == pytest.approx(printed["tps"], rel=0.02)
    histogram = sample.operations["transaction"].response_histogram()
    assert float(f"{histogram.mean_ns / 1e6:.3f}") == printed["latency_ms_mean"]
    assert (sample.cell.threads, sample.cell.target) == (4, "pgbench_log")
    assert sample.engine == "imported"
    assert imported.run.started_at == pytest.approx(sample.started_at)


def test_the_cell_says_what_is_not_known(tmp_path):
    write(tmp_path, log__77=lines([0, 1]), log__77__1=lines([2]), log__78=lines([0]))
    imported = read_results(tmp_path / "log.77")
    (sample,) = imported.samples
    assert sample.cell.key == "pgbench/transaction/3c/scale=unknown"
    assert (sample.cell.kind, sample.cell.operation) == ("pgbench", "transaction")
    assert sample.cell.factors == {"scale": "unknown"}
    assert (sample.outcome.completed, sample.duration_s) == (600, 2.0)
    assert sample.started_at == AT
    assert len(sample.timeline.slices) == 20 + 1  # what ends at 2.0 s is in the slice behind it
    origin = origin_of(imported.run)
    assert origin
    assert (origin.format, origin.is_dated) == ("pgbench-log", True)
    assert "contains no scale" in origin.notes[0]
    summary = summarise(imported.run, imported.samples)
    assert not summary.cells[0].blank


def test_any_thread_stands_for_its_process(tmp_path):
    write(tmp_path, log__77=lines([0]), log__77__1=lines([1]), log__77__2=lines([2]))
    digests = set()
    for name in ("log.77", "log.77.1", "log.77.2"):
        imported = read_results(tmp_path / name)
        assert [sample.outcome.completed for sample in imported.samples] == [600]
        digests.add(imported.run.id)
    assert len(digests) == 1
    # A process whose number is the last of a prefix is not a thread of a file that is not there.
    (own,) = write(tmp_path, more__3__991=lines([0]))
    assert read_results(own).samples[0].outcome.completed == 200


def test_processes_at_the_same_time_are_one_sample_and_others_are_rounds(tmp_path):
    paths = write(
        tmp_path,
        log__80=lines([0, 1], at=AT + 60),
        log__81=lines([0, 1], at=AT + 61),
        log__77=lines([0, 1]),
        log__78=lines([0, 1], at=AT + 1.5),
        log__78__1=lines([2, 3], at=AT + 1.5),
    )
    imported = read_results(*paths)
    reported = [(each.round, each.started_at - AT, each.cell.threads) for each in imported.samples]
    assert reported == [(0, 0, 4), (0, 60, 2)]
    rounds = read_results(*paths[1:3])
    assert [(each.round, each.started_at - AT) for each in rounds.samples] == [(0, 0), (1, 61)]
    assert {each.cell.key for each in rounds.samples} == {"pgbench/transaction/2c/scale=unknown"}
    together = read_results(*paths[:2]).samples[0].cell
    assert together.factors["processes"] == 2
    assert together.key == "pgbench/transaction/2c/scale=unknown/processes=2"


@pytest.mark.parametrize(
    ("tails", "has_lag", "has_retries"),
    [
        (("",), False, False),
        ((" 812",), True, False),
        ((" 0", " 3", " 40"), True, False),
        ((" 0",), False, True),
        ((" 0", " 0", " 2"), False, True),
        ((" 10001",), False, True),
        ((" 812 1",), True, True),
    ],
)
def test_the_seventh_column_is_reported_by_what_stands_in_it(tmp_path, tails, has_lag, has_retries):
    texts = [lines([0], 0.5, tail, AT + place) for place, tail in enumerate(tails)]
    (path,) = write(tmp_path, log__77="".join(texts))
    imported = read_results(path)
    service = imported.samples[0].operations["transaction"].service
    assert (service is not None) == has_lag
    assert ("rate" in imported.samples[0].cell.factors) == has_lag
    notes = origin_of(imported.run).notes
    assert any("seventh column" in note for note in notes) == (has_lag != has_retries)
    if tails == (" 812",):
        assert _core.Histogram.decode(service).max_ns == (10_000 - 812) * 1000


def test_skipped_and_failed_transactions_are_kept_apart(tmp_path):
    text = lines([0], 0.1, " 300") + f"0 10 skipped 0 {AT} 200000 0\n"
    (skipped,) = read_results(*write(tmp_path, log__77=text)).samples
    assert (skipped.outcome.offered, skipped.outcome.late_skipped) == (11, 1)
    text = lines([0], 0.1, " 0") + f"0 10 deadlock 0 {AT} 200000 4\n"
    (failed,) = read_results(*write(tmp_path, log__78=text)).samples
    assert (failed.outcome.offered, failed.outcome.failed, failed.errors_count) == (11, 1, 1)
    assert failed.errors[0].name == "deadlock"


def test_a_stall_and_a_line_that_was_cut_off_are_reported(tmp_path):
    text = lines([0], 0.1) + f"0 10 600000 0 {AT} 700000\n0 11 9"
    imported = read_results(*write(tmp_path, log__77=text))
    (stall,) = imported.samples[0].stalls
    assert (stall.start_s, stall.length_s, stall.cause) == (0.1, 0.6, "unknown")
    assert "last line is truncated in 1 of the files" in origin_of(imported.run).notes[-1]


def test_what_cannot_be_read_together_is_refused(tmp_path):
    plain, rated, text = write(
        tmp_path, log__77=lines([0]), log__78=lines([0], tail=" 300"), note="nothing of pgbench\n"
    )
    for paths, sentence in (
        ((plain, rated), "have different columns"),
        ((plain, text), "note is not a pgbench log"),
        ((text, text), "2 files are specified, but"),
        ((plain, tmp_path / "missing"), "missing"),
    ):
        with pytest.raises(UsageError, match=sentence):
            read_results(*paths)


def test_a_damaged_line_is_reported_with_its_place(tmp_path):
    text = lines([0], 1)
    (path,) = write(tmp_path, log__77=text + "0 1 x 0 7 7\n" + text)
    with pytest.raises(UsageError, match=r'log\.77, line 101: "0 1 x 0 7 7"'):
        read_results(path)
    with pytest.raises(UsageError, match=r"line 301: .* 2\.990 s before the line above it"):
        read_results(*write(tmp_path, log__79=lines([0], 3) + text))
    imported = read_results(*write(tmp_path, log__78=text + text))
    assert imported.samples[0].outcome.completed == 200
    assert "99 lines are earlier" in origin_of(imported.run).notes[-1]


def test_a_sample_of_the_transactions_is_refused(tmp_path):
    every = lines([0, 1]).splitlines(keepends=True)
    (path,) = write(tmp_path, log__77="".join(line for line in every if " 7 10000" not in line))
    with pytest.raises(UsageError, match="after number 6 of client 0 follows 8"):
        read_results(path)


def test_a_log_of_aggregates_is_none(tmp_path):
    text = "".join(f"{AT + second} 97 1000 12000 3 40\n" for second in range(9))
    (path,) = write(tmp_path, log__77=text)
    assert not pgbench_log.is_log(path)
    with pytest.raises(UsageError):
        read_results(path)


def test_the_command_line_stores_and_shows_it(tmp_path):
    names = ["log.77", "log.77.1", "log.78"]
    write(tmp_path, log__77=lines([0]), log__77__1=lines([1]), log__78=lines([0, 1], at=AT + 9))
    stored = seatrial("import", *names, "--json", folder=tmp_path)
    assert stored.code == 0, stored.err
    assert stored.document["run"]["study"]["imported"]["format"] == "pgbench-log"
    with ResultsFile.open(tmp_path / "results.seatrial", read_only=True) as store:
        run = store.run("last")
        assert [sample.outcome.completed for sample in store.samples(run.id)] == [400, 400]
    shown = seatrial("show", "last", folder=tmp_path)
    assert (shown.code, "2 clients" in shown.out) == (0, True), shown.err
    assert seatrial("compare", "log.77", "log.78", folder=tmp_path).code == 0
    refused = seatrial("import", "log.77", "missing", folder=tmp_path)
    assert (refused.code, "missing" in refused.err) == (2, True)
    assert read_jobs(tmp_path / "log.77") is None
