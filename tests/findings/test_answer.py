"""The answer: four questions, in as few words as the first screen has room for."""

import re

import msgspec
import pytest

from findings.test_verdict import database_cells, finding_of
from seatrial.findings.answer import (
    TILES_MAX,
    VERDICT_LETTERS_MAX,
    answer,
    clipped,
    first_clauses,
    in_one_line,
)
from seatrial.findings.model import Summary
from seatrial.findings.registry import find_in_comparison
from seatrial.findings.summary import summarise_cell
from seatrial.findings.thresholds import evaluate
from seatrial.report.answer_text import answer_text
from seatrial.stats.compare.comparison import compare
from seatrial.stats.steady.states import steady_states
from seatrial.study.thresholds import parse_threshold
from seatrial.units import MIB
from stats.builders import MS_NS, cell_of, rounds_of, run_of, sample_of
from stats.builders import finding_of as stated
from stats.compare.sides import side_with_rates
from stats.timed import noisy_counts, timed_sample

STALL = stated(
    kind="stall",
    severity="critical",
    cells=[],
    evidence={},
    sentence="One 3.1 s I/O stall; requests were pending at the device. More about it.",
    cause="The device.",
    next="Run 'seatrial check'.",
)


def summary_of(cells, findings=(), thresholds=()):
    summary = Summary(run=run_of(), cells=list(cells), findings=list(findings), verdict="")
    results = evaluate([parse_threshold(*each) for each in thresholds], summary)
    return Summary(
        run=summary.run,
        cells=summary.cells,
        findings=summary.findings,
        verdict="",
        thresholds=results,
    )


def test_a_first_run_says_what_the_storage_is_fit_for():
    found = answer(summary_of(database_cells(latency_ns=2 * MS_NS)))
    assert "OLTP up to 5,000 commits/s" in found.verdict
    assert "warehouse" in found.verdict
    assert found.grade == "unknown"
    assert [tile.grade for tile in found.tiles] == [""] * len(found.tiles)
    assert 5 <= len(found.tiles) <= TILES_MAX


def test_the_highest_rate_gives_way_to_what_the_storage_is_not_fit_for():
    cells = database_cells(latency_ns=8 * MS_NS)
    assert answer(summary_of(cells)).verdict == (
        "Fit for warehouse, telemetry and OLTP up to 5,000 commits/s at 16 threads (± 3 %); "
        "marginal for log."
    )
    assert answer(summary_of(cells, [STALL])).verdict == (
        "Fit for OLTP, warehouse and telemetry; marginal for log; 1 critical."
    )


def test_a_slow_disk_is_not_fit():
    found = answer(summary_of(database_cells(latency_ns=90 * MS_NS)))
    assert "not fit for OLTP" in found.verdict


def test_a_chosen_profile_grades_the_figures_that_it_needs():
    found = answer(summary_of(database_cells(latency_ns=90 * MS_NS)), "oltp")
    assert found.verdict.startswith("Not fit for OLTP: 8 KiB random read p99 90.0 ms, commit p99")
    assert found.grade == "poor"
    assert [tile.grade for tile in found.tiles[:3]] == ["poor", "poor", "good"]


def test_the_worst_findings_come_with_what_to_do():
    findings = [STALL, *[finding_of("drifting", cells=[{}] * n) for n in (1, 2, 3)]]
    found = answer(summary_of(database_cells(), findings))
    assert len(found.worst_lines) == 3
    assert found.notes_count == 1
    assert found.next_step == STALL.next
    assert found.verdict.endswith("; 1 critical, 3 warnings.")


@pytest.mark.parametrize("option", ["", " --results x.seatrial", " --results 'a b.seatrial'"])
def test_a_later_comparison_reads_the_same_results_file(option):
    run = msgspec.structs.replace(run_of(), command=f"seatrial io .{option} --rounds 3")
    summary = msgspec.structs.replace(summary_of(database_cells(latency_ns=2 * MS_NS)), run=run)
    named = option.replace("'", '"')
    assert answer(summary).next_step.endswith(f"last{named}'")


def test_a_breached_threshold_comes_first_and_is_red():
    thresholds = [("commit[threads=1].p99_ms", "< 1"), ("commit[threads=1].p99_ms", "< 100")]
    found = answer(summary_of(database_cells(latency_ns=2 * MS_NS), thresholds=thresholds))
    assert found.verdict.startswith("1 of 2 thresholds breached")
    assert found.grade == "poor"
    assert [tile.grade for tile in found.tiles if tile.label == "commits"] == ["poor"]
    text = answer_text(found, 80, colour=False)
    assert "!! commit[threads=1].p99_ms < 1: not met" in text
    assert "p99_ms < 100:" not in text


def test_a_threshold_of_an_unknown_figure_is_not_breached():
    thresholds = [(f"commit[threads=1].{name}_ms", "< 1000") for name in ("p99.9", "p50")]
    found = answer(summary_of(database_cells(), thresholds=thresholds))
    assert found.verdict.startswith("1 of 2 thresholds not shown")
    assert found.grade == "unknown"
    assert [tile.grade for tile in found.tiles if tile.label == "commits"] == ["unknown"]
    assert "commit[threads=1].p99.9_ms < 1000: not shown" in answer_text(found, 80, colour=False)


def test_several_targets_show_one_figure_each():
    cells = [
        rounds_of(cell_of(target=target, address="random"), [rate] * 3)
        for target, rate in (("hdd", 100), ("ssd", 9000))
    ]
    found = answer(summary_of(cells))
    assert [tile.label for tile in found.tiles] == [
        "hdd: 8 KiB random read",
        "ssd: 8 KiB random read",
    ]


def test_a_mix_and_not_the_fill_before_it_is_shown():
    fill = cell_of(workload="fill", operation="write", block_size_bytes=MIB, address="sequential")
    mix = cell_of(kind="mix", workload="oltp", operation="mixed")
    found = answer(summary_of([rounds_of(fill, [1800] * 3), rounds_of(mix, [2700] * 3)]))
    assert [(tile.label, tile.cell) for tile in found.tiles] == [("8 KiB mixed I/O", mix.key)]
    commit = cell_of(workload="commit", operation="commit")
    both = answer(summary_of([rounds_of(each, [2700] * 3) for each in (mix, commit)]))
    assert [tile.label for tile in both.tiles] == ["commits", "8 KiB mixed I/O"]
    alone = answer(summary_of([rounds_of(fill, [1800] * 3)]))
    assert [tile.label for tile in alone.tiles] == ["1 MiB sequential write"]


def test_nothing_measured():
    found = answer(summary_of([]))
    assert found.verdict == "Nothing was measured."
    assert found.tiles == []


@pytest.mark.parametrize("width", [60, 80, 100, 160])
@pytest.mark.parametrize("profile", ["", "oltp", "warehouse"])
def test_the_text_fits_its_width_and_breaks_no_figure(width, profile):
    findings = [STALL, finding_of("drifting", cells=[{}] * 7)]
    found = answer(summary_of(database_cells(latency_ns=2 * MS_NS), findings), profile)
    assert len(found.verdict) <= VERDICT_LETTERS_MAX
    text = answer_text(found, width, colour=False)
    assert max(map(len, text.splitlines())) <= width
    assert len(text.splitlines()) <= 26
    for tile in found.tiles:
        assert tile.label in text
    assert not re.search(r"\d\n *[%a-zµ]", text), "a number is parted from its unit"
    figures = [line for line in text.splitlines() if line.startswith(" ")][: len(found.tiles)]
    assert "…" not in "".join(figures)


def test_a_long_interval_of_another_figure_takes_no_interval_away():
    found = answer(summary_of(database_cells(latency_ns=2 * MS_NS)))
    first, second, *_ = (msgspec.structs.replace(each, grade="good") for each in found.tiles)
    value = second.estimate.value
    wide = msgspec.structs.replace(second.estimate, low=value / 9, high=value * 9)
    tiles = [first, msgspec.structs.replace(second, estimate=wide)]
    text = answer_text(msgspec.structs.replace(found, tiles=tiles), 60, colour=False)
    assert re.search(r"8 KiB random read +74k IOPS +± 3 % +good$", text, re.MULTILINE)


def test_words_are_cut_whole():
    assert clipped("one two three", 13) == "one two three"
    assert clipped("one two three", 9) == "one two…"


def test_a_bracket_within_a_sentence_does_not_end_it():
    assert first_clauses("4 GiB of it (58 %) were not requested", 22) == "4 GiB of it (58 %)…"
    assert first_clauses("4 GiB were not requested (58 % of it)", 28) == "4 GiB were not requested"


def test_a_run_without_a_leading_figure_does_not_say_that_nothing_completed(monkeypatch):
    for name, nothing in (("_tiles", []), ("_fit", "")):
        monkeypatch.setattr(f"seatrial.findings.answer.{name}", lambda *_, found=nothing: found)
    cells = database_cells()
    verdict = answer(summary_of(cells)).verdict
    assert verdict == f"{len(cells)} tests measured; --tables shows the figures."


def test_confidence_counts_as_95_percent_intervals_only_those_over_rounds():
    def confidence(rates, **rest):
        return answer(summary_of([rounds_of(cell_of(address="random"), rates, **rest)])).confidence

    assert "95 % intervals of the figures above up to ±" in confidence([1000, 1010, 990])
    assert "95 %" not in confidence([1000, 1100, 2300])
    once = summarise_cell([timed_sample(noisy_counts(100), cell_of(address="random"))])
    found = answer(summary_of([once])).confidence
    assert found.startswith("Measured once; the figures above vary by up to ±")
    assert "within one round" in found


def test_a_finding_keeps_the_spelling_of_a_side():
    sides = [
        side_with_rates(name, [[rate * each for each in (1, 1.01, 0.99, 1.0)]], run_id="1")
        for name, rate in (("a.db", 1000), ("c.db", 500))
    ]
    (reported,) = compare(sides[0], sides[1:])
    (finding,) = find_in_comparison(reported)
    assert in_one_line(finding).startswith("c.db is slower")


def test_a_test_that_ended_by_its_bytes_says_so():
    def confidence(kind="io", duration_s=0.028, completed=1024, operation="write"):
        limit = {"duration_s": 1.0, "bytes": 1024 * 8192}
        cell = cell_of(operation="write", kind=kind, limit=limit)
        sample = sample_of(cell, completed=completed, duration_s=duration_s)
        if operation == "mixed":
            half = msgspec.structs.replace(
                sample.operations["write"], transferred_bytes=completed * 4096
            )
            mixed = msgspec.structs.replace(cell, operation="mixed")
            sample = msgspec.structs.replace(
                sample, cell=mixed, operations={"read": half, "write": half}
            )
        return answer(summary_of([summarise_cell([sample])])).confidence

    assert "1 of 1 test reached limit_bytes early, after 28 ms" in confidence()
    assert "1 of 1 test reached limit_bytes early, after 28 ms" in confidence(operation="mixed")
    assert "limit_bytes" not in confidence(kind="fill")
    assert "limit_bytes" not in confidence(kind="recording")
    assert "limit_bytes" not in confidence(duration_s=0.9)
    assert "limit_bytes" not in confidence(completed=100)


def test_a_run_that_reached_steady_state_over_its_rounds_is_not_too_short_for_it():
    cells = [rounds_of(cell_of(address="random"), [1000] * 6)]
    summary = summary_of(cells)
    assert "too short to show steady state" in answer(summary).confidence
    steady = steady_states(cells)
    assert "steady" not in answer(msgspec.structs.replace(summary, steady=steady)).confidence


def test_an_imported_rate_of_unknown_duration_is_not_called_too_short():
    cell = cell_of(address="random")
    known = sample_of(cell, completed=1000, duration_s=3.0)
    assumed = msgspec.structs.replace(known, counters={"assumed_duration_s": 1.0})
    found = answer(summary_of([summarise_cell([known]), summarise_cell([assumed])]))
    assert found.confidence == "Measured once."


@pytest.mark.parametrize("width", [60, 72, 80, 100, 160])
def test_a_graded_figure_keeps_its_grade_at_any_width(width):
    found = answer(summary_of(database_cells(latency_ns=90 * MS_NS)), "oltp")
    lines = answer_text(found, width, colour=False).splitlines()
    figures = [line for line in lines if line.startswith(" ")]
    for tile, line in zip(found.tiles, figures, strict=False):
        assert tile.grade in line


def test_what_a_profile_needs_and_is_not_known_is_named_with_its_reason():
    cells = [rounds_of(cell_of(), [20])]
    text = answer_text(answer(summary_of(cells), "oltp"), 200, colour=False)
    (unknown,) = re.findall(r"^Unknown: +(.*)", text, re.MULTILINE)
    reads, others = unknown.split("; ")
    assert reads == "random read p99 (too few requests for p99)"
    assert others == "commit p99 (not measured)"
    assert "Unknown:" not in answer_text(answer(summary_of(cells)), 80, colour=False)
