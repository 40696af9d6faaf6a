"""The Markdown says what the terminal says, and nothing measured becomes markup."""

from __future__ import annotations

import re

from report.exports_hand import make_cell, make_finding, make_summary, make_threshold, summary_with
from seatrial.report.exports import FORMATS, export
from seatrial.report.exports.markdown import as_markdown
from seatrial.report.tables import tables


def matrix():
    return [
        summary_with(make_cell("read", 4096, threads), (iops, iops * 0.97, iops * 1.03))
        for threads, iops in ((1, 12_000.0), (10, 74_000.0))
    ]


def test_thresholds_are_reported():
    results = [make_threshold(), make_threshold(met=True)]
    text = export(make_summary(matrix(), thresholds=results), "markdown")
    assert "## Thresholds\n\n- **breached**: matrix.p99\\_ms \\< 5: not met, 9 ms" in text
    assert "\n- **kept**: matrix" in text


def test_a_small_run_reads_so():
    text = export(make_summary(matrix(), [make_finding()]), "markdown")
    assert text == (
        "# quick\n"
        "\n"
        "Reads 8 KiB at 74k IOPS.\n"
        "\n"
        "- Run: 20261121-074500-3fa2\n"
        "- Study: quick\n"
        "- Status: complete\n"
        "- Started: 2026-11-21 07:45 UTC, 2 min 1 s\n"
        "- Seatrial: 0.1.0\n"
        "\n"
        "## Findings\n"
        "\n"
        "- **critical**, stall: All reads stood still once, for 0.5 s. The device. "
        "seatrial io /mnt/ssd\n"
        "\n"
        "## Block size against threads, ssd: read\n"
        "\n"
        "| Block size | 1 thread IOPS | 1 thread MB/s | 1 thread ± "
        "| 10 threads IOPS | 10 threads MB/s | 10 threads ± |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        "| 4 KiB | 12.0k | 49 | ± 3 % | 74k | 303 | ± 3 % |\n"
    )


def test_every_row_has_as_many_cells_as_the_heading():
    for table in tables(make_summary(matrix())):
        lines = as_markdown(table).splitlines()
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {len(table.headers) + 1}


def test_what_was_measured_cannot_become_markup():
    hostile = "x|y <script>*a* `b` [c](d)\n# e"
    finding = make_finding(sentence=hostile, severity="note")
    cell = summary_with(make_cell(target=hostile), (100.0, 99.0, 101.0))
    text = export(make_summary([cell], [finding]), "markdown")
    assert not re.search(r"(?<!\\)<|(?<!\\)`|(?<!\\)\[|^# e", text, re.MULTILINE)


def test_every_format_writes_a_run_that_measured_nothing():
    for name in set(FORMATS) - {"bm-flash"}:  # it prints a matrix or says that there is none
        assert export(make_summary([]), name).endswith("\n")
