"""All that commands print of stored runs fits the width, and no figure is broken."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from report.comparison_hand import full_comparison
from report.sample_run import sample_summary
from report.stored_runs import LONG_LABEL, store_runs
from seatrial.cli import compare_command, sources, stored_runs
from seatrial.cli.main import seatrial
from seatrial.findings import summary as summaries
from seatrial.report.comparison_page import comparison_table, differences_table, overall_table
from seatrial.report.table import Group, Table, as_text, fitted
from seatrial.report.tables import tables
from trials.replay.report.replay_hand import paced, troubled
from trials.replay.study.traces import make_trace

WIDTHS = (60, 80, 100, 160)
VERDICT_LETTERS_MAX = 100
ANSWER_LINES_MAX = 25
LINES_MAX = 30
BM_FLASH = Path(__file__).with_name("bm-flash-2009-raid5.txt")
ANSWERED = (
    ("show", "quick"),
    ("show", "quick", "--profile", "oltp"),
    ("show", "targets"),
    ("show", "database"),
    ("show", "replay"),
    ("show", "paced"),
    ("show", "several"),
    ("show", "sweep"),
    ("show", "lab"),
    ("show", "loadline"),
    ("compare", "quick", LONG_LABEL),
    ("compare", "targets"),
    ("compare", "database"),
    ("sql", "compare", "replay", "paced", "--anyway"),
    ("audit", "quick", "--predict", "16k,20"),
    ("audit", str(BM_FLASH)),
    ("check", "."),
)
OTHERS = (
    ("list",),
    ("sql", "show", "a.trace"),
    ("sql", "read", "a.log", "--output", "again.trace", "--force"),
    ("report", "loadline", "--output", "page.html", "--force"),
)
UNIT = r"(?:%|[nµm]?s|min|h|[KMGT]i?B|\w+/s|IOPS|tps)(?:[.,;:) ]|$)"
FIGURE_ENDS = re.compile(r"(?:^|[ (])[\d.,]*\d[kM]?$|[^ ] [±<]$|\([±<]$")
NEXT_BEGINS = re.compile(rf" *(?:{UNIT}|\d)")


@pytest.fixture(scope="module")
def stored_in(tmp_path_factory):
    """A folder with stored runs and traces, where each run is analysed once for all widths."""
    folder = tmp_path_factory.mktemp("widths")
    store_runs(folder / "results.seatrial")
    make_trace(folder / "a.trace")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(stored_runs, "stored_summary", functools.cache(stored_runs.stored_summary))
        patch.setattr(sources, "load_source", functools.cache(sources.load_source))
        patch.setattr(compare_command, "sides_of", functools.cache(compare_command.sides_of))
        patch.setattr(compare_command, "compared", _once(compare_command.compared, id))
        patch.setattr(summaries, "summarise", _once(summaries.summarise, lambda run: run.id))
        yield folder


def _once(function, key_of):
    """Return a function that returns the same again where its first argument is the same."""
    known = {}

    def remembering(first, *others, **named):
        key = key_of(first)
        if key not in known:
            known[key] = function(first, *others, **named)
        return known[key]

    return remembering


def printed(arguments: Sequence[str], width: int) -> str:
    done = CliRunner().invoke(seatrial, arguments, env={"COLUMNS": str(width)})
    assert done.exception is None, (arguments, done.output, done.exception)
    return done.output


def overlong(text: str, width: int) -> list[str]:
    """Return the lines that are too long, unless a single word makes them so."""
    return [line for line in text.splitlines() if len(line) > width and len(line.split()) > 1]


def broken(text: str) -> list[tuple[str, str]]:
    """Return lines with a figure that goes on in the next one, as ``... 30`` and ``MB/s ...``."""
    return [
        (line, following)
        for line, following in itertools.pairwise(text.splitlines())
        if FIGURE_ENDS.search(line) and NEXT_BEGINS.match(following)
        if not any("  " in each.strip() for each in (line, following))  # rows of a table
    ]


@pytest.mark.parametrize("arguments", ANSWERED, ids=" ".join)
def test_a_stored_run_at_every_width(stored_in, arguments):
    verdict = printed([*arguments, "--quiet"], 100).rstrip("\n")
    assert len(verdict) <= VERDICT_LETTERS_MAX
    assert "\n" not in verdict
    for width in WIDTHS:
        first = printed(arguments, width)
        whole = printed([*arguments, "--tables"], width)
        for text in (first, whole):
            assert overlong(text, width) == [], width
            assert broken(text) == [], width
            if arguments[0] != "check":  # the machine may have changed meanwhile
                assert " ".join(text.partition("\n\n")[0].split()) == verdict
        if arguments[0] != "check":
            assert whole.startswith(first[: first.rindex("Next:")])
    lines = printed(arguments, 80).splitlines()
    assert len(lines) <= LINES_MAX
    answer = [line for line in lines if not line.startswith(("More:", "Note:", "Report:"))]
    assert len(answer) <= ANSWER_LINES_MAX


@pytest.mark.parametrize("arguments", OTHERS, ids=" ".join)
def test_other_commands_at_every_width(stored_in, arguments):
    for width in WIDTHS:
        text = printed(arguments, width)
        assert text
        assert overlong(text, width) == [], width
        assert broken(text) == [], width


def test_a_broken_figure_is_found():
    assert broken("reads at 450 MB/s (±\n3 %) and")
    assert broken("of the link at 300\nMB/s (link)")
    assert broken("rate (82\n% to 84 %)")
    assert not broken("Block size |  IOPS      ±\n4 KiB      | 11.0k  ± 4 %")
    assert not broken("in 2 of\n3 rounds")


def stored() -> list[Table]:
    return [
        *tables(sample_summary()),
        differences_table(full_comparison()),
        comparison_table(full_comparison()),
        overall_table(full_comparison()),
        *tables(paced()),
        *tables(troubled()),
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_longer_and_no_text_is_broken(width):
    for table in stored():
        text = as_text(table, width)
        assert max(map(len, text.splitlines())) <= width, f"{table.title}\n{text}"
        fitting, left_out = fitted(table, width)
        words = " ".join(text.split())
        for row in fitting.rows:
            for figure in row[fitting.labels :]:
                assert " ".join(figure.split()) in words, f"{table.title}: {figure}"
        for name in left_out:
            assert name in words


def test_labels_stay_and_a_figure_keeps_its_interval():
    table = Table(
        id="t",
        title="Wide",
        labels=1,
        headers=["Test", "IOPS", "±", "MB/s", "±", "p99.9"],
        rows=[["read 4 KiB", "12,000", "± 3 %", "49", "± 3 %", "1.2 ms"]],
    )
    fitting, left_out = fitted(table, 36)
    assert fitting.headers == ["Test", "IOPS", "±", "p99.9"], "the narrower one came back"
    assert left_out == ["MB/s"]
    fitting, left_out = fitted(table, 26)
    assert fitting.headers == ["Test", "IOPS", "±"]
    assert left_out == ["p99.9", "MB/s"]
    assert "Not shown at 26 columns:" in " ".join(as_text(table, 26).split("\n"))


def test_the_last_figures_of_a_group_are_not_left_out_one_by_one():
    table = Table(
        id="t",
        title="Groups",
        labels=1,
        headers=["Block size", *["MB/s", "±"] * 3],
        groups=[Group("", 1), *(Group(f"{count} threads", 2) for count in (1, 10, 40))],
        rows=[["4 KiB", *["410", "± 3 %"] * 3]],
    )
    fitting, left_out = fitted(table, 45)
    assert left_out == ["40 threads"]
    assert fitting.headers == ["Block size", *["MB/s", "±"] * 2]


def test_long_labels_are_clipped_before_figures_are_left_out():
    table = Table(
        id="t",
        title="Queries",
        labels=1,
        headers=["Query", "Calls", "Mean"],
        rows=[["SELECT abalance FROM pgbench_accounts WHERE aid = ?", "1,200", "3 ms"]],
    )
    text = as_text(table, 40)
    assert re.search(r"^SELECT abalance .*…\s+1,200\s+3 ms$", text, re.MULTILINE)
    assert "Not shown" not in text


def test_clipped_labels_that_differ_at_their_ends_stay_different():
    labels = [
        f"one-machine: random read, 8 KiB, {count} threads, scale {scale}"
        for count in (1, 10)
        for scale in (1, 10, 100)
    ]
    rows = [[label, "1,200"] for label in [*labels, "commits of one database, 8 KiB, 10 threads"]]
    table = Table(id="t", title="Tests", labels=1, headers=["Test", "IOPS"], rows=rows)
    fitting, _ = fitted(table, 50)
    found = [row[0] for row in fitting.rows]
    assert max(map(len, found)) == 43
    assert len(set(found)) == len(rows)
    assert found[1].endswith("…1 threads, scale 10")
    rows = [[f"matrix: 10 clients, scale {scale}, limit 256 MiB", "9"] for scale in (10, 30)]
    fitting, _ = fitted(msgspec.structs.replace(table, rows=rows), 31)
    assert [row[0] for row in fitting.rows] == [
        "matrix: 10 clie…scale 10…",
        "matrix: 10 clie…scale 30…",
    ]


def test_a_table_of_labels_alone_has_a_line_for_each_text():
    headers = ["Run", "Label", "Study", "Status", "Started"]
    row = ["20261124-164638-0c14", "before the new kernel", "quick", "complete", "2026-11-24 16:46"]
    text = as_text(Table(id="r", title="Runs", labels=5, headers=headers, rows=[row]), 60)
    assert all(each in text for each in row)
    assert max(map(len, text.splitlines())) <= 60
