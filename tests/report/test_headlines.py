"""Figures at the top: one name has one figure, on the page, on the terminal and in the exports."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import click
from hypothesis import given, settings
from hypothesis import strategies as st

from report.exports_hand import make_cell, make_run, make_sample
from report.page_reader import read
from seatrial.cli.outcome import run_text
from seatrial.findings.answer import answer
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.findings.verdict import verdict
from seatrial.report.answer_text import answer_text
from seatrial.report.exports import export
from seatrial.report.page import render
from seatrial.stats.fastest import settings_phrase
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import NO_BREAK_SPACE, format_estimate
from seatrial.trials.io.report.figures import figures_of, figures_of_run
from seatrial.units import KIB, MIB
from stats.builders import finding_of

PATTERNS = {"random", "sequential"}


class Headline(NamedTuple):
    """A figure reported alone, with the cell that it names."""

    operation: str
    figure: str
    settings: str
    workload: str


class Shape(NamedTuple):
    """What a drawn cell does."""

    kind: str
    operation: str
    size_bytes: int
    threads: int
    pattern: str


def run_of(rounds_by_shape: dict[Shape, tuple[int, ...]]) -> Summary:
    samples = []
    for shape, rounds in rounds_by_shape.items():
        cell = make_cell(
            shape.operation, shape.size_bytes, shape.threads, kind=shape.kind, pattern=shape.pattern
        )
        samples += [make_sample(cell, {shape.operation: n}, index=i) for i, n in enumerate(rounds)]
    return summarise(make_run(), samples)


def without_fills(summary: Summary) -> list[CellSummary]:
    """All cells but those that prepare others, if there are others."""
    return [each for each in summary.cells if each.cell.kind != "fill"] or summary.cells


def cell_of(summary: Summary, named: Headline, pattern: str = "") -> CellSummary:
    """The only cell that a headline can be of; a title names the pattern among several."""
    measured = without_fills(summary)
    workloads = {each.cell.workload for each in measured}
    [found] = [
        each
        for each in measured
        if each.cell.operation == named.operation
        and named.settings in _names(each)
        and each.cell.factors["pattern"] in ({pattern} if pattern else PATTERNS)
        and each.cell.workload in ({named.workload} if named.workload else workloads)
        and named.figure in (format_estimate(each.iops), format_estimate(each.bandwidth))
    ]
    return found


def _names(each: CellSummary) -> tuple[str, ...]:
    whole = settings_phrase(each)
    size_was_reported = settings_phrase(each, leave_out=("block_size_bytes",))
    return (whole, size_was_reported, f"{whole}, {each.cell.factors['pattern']}")


FIGURE = r"(?:about )?[\d.,kM]+ (?:IOPS|[kM]?B/s) \([^)]*\)"
WITH = r"with ([^(;]*?)(?: \(workload (\w+)\))?(?= and |[;.]|$)"


def of_title(title: str, workload: str) -> list[Headline]:
    found = re.findall(rf"(read|write)s reach ({FIGURE}) with ([^;]+)", title, re.IGNORECASE)
    return [Headline(operation.lower(), *rest, workload) for operation, *rest in found]


def of_verdict(sentence: str, *, ending: str) -> list[Headline]:
    """What a verdict reports of reads and writes, random or sequential."""
    part = next((each for each in sentence.split("; ") if ending in each), "").rstrip(".")
    reported = re.findall(rf"(read|write)s (?:[^;]*?at random )?(?:at )?({FIGURE})", part, re.I)
    where = re.findall(WITH, part)
    where *= len(reported) if "both with" in part else 1
    return [
        Headline(operation.lower(), figure, *named)
        for (operation, figure), named in zip(reported, where, strict=True)
    ]


def test_what_goes_in_sequence_is_one_figure_and_names_its_cell():
    """The verdict said 1,100 and 3,000 MB/s and the chart 850 and 1,400, of other workloads."""
    summary = run_of(
        {
            Shape("sequential", "read", 64 * KIB, 1, "sequential"): (8000, 8010, 8020),
            Shape("sequential", "read", MIB, 1, "sequential"): (850, 851, 852),
            Shape("sequential", "write", MIB, 1, "sequential"): (1400, 1410, 1390),
            Shape("matrix", "read", MIB, 10, "sequential"): (1100, 1110, 1090),
            Shape("fill", "write", MIB, 4, "sequential"): (3000, 3010, 2990),
        }
    )
    chart = next(each for each in figures_of_run(summary) if each.id == "sequential-bandwidth")
    [reads, writes] = of_title(chart.title, "sequential")
    assert (reads.figure, writes.figure) == ("892 MB/s (± 0.3 %)", "1,470 MB/s (± 2 %)")
    assert of_verdict(summary.verdict, ending="in sequence") == [reads, writes]
    assert summary.verdict.startswith(
        "Reads 892 MB/s (± 0.3 %) and writes 1,470 MB/s (± 2 %) in sequence, both with 1 MiB, "
        "1 thread (workload sequential)"
    )


def test_the_title_leaves_out_what_a_cache_served_as_the_verdict_does():
    summary = run_of(
        {
            Shape("sequential", "read", MIB, 1, "sequential"): (500, 501, 502),
            Shape("sequential", "read", MIB, 8, "sequential"): (9000, 9001, 9002),
        }
    )
    fast = max(summary.cells, key=lambda each: each.iops.value)
    served = finding_of(
        kind="page_cache_served", severity="warning", cells=[fast.cell.identity()], sentence="So.",
        cause="", evidence={}, next="",
    )  # fmt: skip
    reported = of_verdict(verdict(summary.cells, [served]), ending="in sequence")
    [chart] = [
        each
        for each in figures_of(summary.cells, served=[fast.cell.identity()])
        if each.id == "sequential-bandwidth"
    ]
    assert [each.settings for each in reported] == ["1 MiB, 1 thread"]
    assert chart.title.endswith("with 1 MiB, 1 thread; a cache served faster tests")


def test_the_fastest_of_equals_is_that_of_the_least_effort():
    shapes = {
        Shape("sequential", "read", size, threads, "sequential"): (100 * MIB // size,) * 3
        for size in (4 * MIB, MIB)
        for threads in (8, 2)
    }
    [reported] = of_verdict(run_of(shapes).verdict, ending="in sequence")
    assert reported.settings == "1 MiB, 2 threads"


SHAPES = st.one_of(
    st.builds(
        Shape,
        st.just("sequential"),
        st.sampled_from(("read", "write")),
        st.sampled_from((64 * KIB, MIB)),
        st.sampled_from((1, 4)),
        st.just("sequential"),
    ),
    st.builds(
        Shape,
        st.sampled_from(("matrix", "four", "io")),
        st.sampled_from(("read", "write")),
        st.sampled_from((4 * KIB, 8 * KIB, MIB)),
        st.sampled_from((1, 10)),
        st.sampled_from(sorted(PATTERNS)),
    ),
    st.just(Shape("fill", "write", MIB, 1, "sequential")),
)
ROUNDS = st.one_of(
    st.integers(500, 30_000).map(lambda n: (n, n + n // 90, n - n // 80)),
    st.lists(st.integers(1, 30_000), min_size=1, max_size=4).map(tuple),
)


@settings(max_examples=60, deadline=None)
@given(drawn=st.dictionaries(SHAPES, ROUNDS, min_size=1, max_size=9))
def test_every_headline_with_one_name_has_one_figure(drawn: dict[Shape, tuple[int, ...]]):
    summary = run_of(drawn)
    figures = figures_of_run(summary)
    titles = [
        headline
        for each in figures
        if each.id in ("matrix-iops", "matrix-bandwidth", "sequential-bandwidth")
        for view in each.views
        for headline in of_title(view.title, each.id.partition("-")[0])
    ]
    goes_in_sequence = any(
        each.cell.factors["pattern"] == "sequential" for each in without_fills(summary)
    )
    assert bool(of_verdict(summary.verdict, ending="in sequence")) is goes_in_sequence
    # Each figure is that of the one cell that it names.
    for headline in titles:
        assert cell_of(summary, headline)
    for pattern, ending in (("random", "at random"), ("sequential", "in sequence")):
        for headline in of_verdict(summary.verdict, ending=ending):
            assert cell_of(summary, headline, pattern)
    for headline in of_verdict(summary.verdict, ending="in sequence"):
        named = headline.workload or without_fills(summary)[0].cell.workload
        if any(shape.kind == "sequential" for shape in drawn):
            assert named == "sequential"
            assert headline._replace(workload=named) in titles
    assert json.loads(export(summary, "json"))["verdict"] == summary.verdict
    assert summary.verdict in " ".join(run_text(summary).split())


def test_page_and_terminal_open_with_the_same_line_and_have_the_same_sentence():
    summary = run_of(
        {
            Shape("matrix", "read", 8 * KIB, 1, "random"): (500, 501, 502),
            Shape("sequential", "read", MIB, 8, "sequential"): (657, 1967, 11_150),
        }
    )
    page = read(render(summary))
    [sentence] = page.one("details", class_="words").all("p")
    assert sentence.text.replace(NO_BREAK_SPACE, " ") == summary.verdict
    first = answer(summary)
    assert page.one("h1").text.replace(NO_BREAK_SPACE, " ") == first.verdict
    assert answer_text(first, 200).startswith(click.style(first.verdict, bold=True))
    assert "8 KiB random read 501 IOPS; 1 MiB sequential read 2,100 MB/s;" in first.verdict
    assert "2,100 MB/s (median of 3 rounds: 690 to 12,000 MB/s) in sequence" in summary.verdict
    assert summary.verdict in " ".join(run_text(summary).split())
