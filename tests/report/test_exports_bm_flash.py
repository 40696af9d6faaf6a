"""The two printouts of "One DVD per second" come out as they went in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from report.exports_hand import make_cell, make_sample, make_summary, summarised, summary_with
from seatrial.errors import UsageError
from seatrial.report.exports import export
from seatrial.stats.model import CellSummary

KIB, MIB, GIB = 1024, 1024**2, 1024**3
UNITS = {"K": KIB, "M": MIB, "G": GIB, "B": 1}
ROW = re.compile(r"^ *(\d+)([BKM]) \|(.*)$")
CELL = re.compile(r"^ *(\d+) +(\d+\.\d)([KM]) *$")
THREADS = (1, 10, 40)
SAMPLE_S = 1000.0


def printout(name: str) -> str:
    return (Path(__file__).parent / f"bm-flash-2009-{name}.txt").read_text()


def cells_of(text: str) -> dict[tuple[str, int, int], str]:
    """Read a bm-flash printout: the text of each cell by operation, block size and threads."""
    cells = {}
    operation = ""
    for line in text.splitlines():
        if line.endswith(" Tests:"):
            operation = line.split()[0].lower()
        if row := ROW.match(line):
            size_bytes = int(row[1]) * UNITS[row[2]]
            for threads, figures in zip(THREADS, row[3].split("|"), strict=False):
                if figures.strip():
                    cells[operation, size_bytes, threads] = figures.strip()
    return cells


def measured(operation: str, size_bytes: int, threads: int, figures: str) -> CellSummary:
    """A sample whose rate, cut off as bm-flash cuts it, prints these figures."""
    printed = CELL.match(figures)
    assert printed, figures
    per_s, rate, unit = int(printed[1]), float(printed[2]), UNITS[printed[3]]
    low = max(per_s, rate * unit / size_bytes)
    high = min(per_s + 1, (rate + 0.1) * unit / size_bytes)
    assert low < high, f"no rate prints {figures!r} at {size_bytes} bytes"
    completed = round((low + high) / 2 * SAMPLE_S)
    cell = make_cell(operation, size_bytes, threads)
    return summarised([make_sample(cell, {operation: completed}, duration_s=SAMPLE_S)])


def nothing(operation: str, size_bytes: int, threads: int) -> CellSummary:
    sample = make_sample(make_cell(operation, size_bytes, threads), {operation: 0})
    return summarised([sample], blank="0 completed, oldest in flight 4.2 s")


def fill() -> CellSummary:
    return summarised([make_sample(make_cell("write", MIB, kind="fill"), {"write": 4096}, 3.0)])


def test_the_printout_of_twelve_ssds_comes_out_byte_by_byte():
    text = printout("raid0")
    cells = [measured(*key, figures) for key, figures in cells_of(text).items()]
    assert len(cells) == 14 * 3 * 2
    exported = export(make_summary([fill(), *cells]), "bm-flash")
    assert "\n".join(line.rstrip() for line in exported.splitlines()) == text.rstrip("\n")


def test_the_printout_with_the_gaps_keeps_its_cells_and_names_its_blanks():
    text = printout("raid5")
    found = cells_of(text)
    sizes = sorted({size_bytes for _, size_bytes, _ in found})
    blanks = [
        (operation, size_bytes, threads)
        for operation in ("read", "write")
        for size_bytes in sizes
        for threads in THREADS
        if (operation, size_bytes, threads) not in found
    ]
    # The collapse: 256K at 40 threads, 512K at 10 and 40, 1M at 40 printed nothing at all.
    assert blanks == [
        ("write", 256 * KIB, 40),
        ("write", 512 * KIB, 10),
        ("write", 512 * KIB, 40),
        ("write", MIB, 40),
    ]
    cells = [measured(*key, figures) for key, figures in found.items()]
    exported = export(
        make_summary([fill(), *cells, *(nothing(*key) for key in blanks)]), "bm-flash"
    )
    again = cells_of(exported)
    assert {key: again[key] for key in found} == found
    assert {again[key] for key in blanks} == {"0    0.0K"}
    assert exported.count("0 completed, oldest in flight 4.2 s.") == len(blanks)
    assert "256K write, 40 threads: 0 completed, oldest in flight 4.2 s.\n" in exported


def test_a_cell_that_was_not_measured_keeps_the_columns_in_their_place():
    cells = [
        measured("read", 4096, 1, "29158  113.8M"),
        measured("read", 8192, 1, "30170  235.7M"),
        measured("read", 8192, 10, "61824  483.0M"),
    ]
    lines = export(make_summary(cells), "bm-flash").splitlines()
    assert "Filling" not in lines[0]
    assert [line.index("|", 10) for line in lines[2:] if line] == [22] * 5


def test_block_sizes_are_not_cut_off():
    cells = [summary_with(make_cell("read", size, 1), (9.0, 9.0, 9.0)) for size in (1024, 1536)]
    text = export(make_summary(cells), "bm-flash")
    assert [line.split()[0] for line in text.splitlines() if "|" in line][-2:] == ["1K", "1536B"]


def test_several_depths_are_several_tables_that_are_named():
    cells = [
        summary_with(make_cell("read", 4096, 1, depth=depth), (1000.0 * depth, 990.0, 1010.0))
        for depth in (1, 8)
    ]
    text = export(make_summary(cells), "bm-flash")
    assert text.count("Read Tests:") == 2
    assert "target ssd, workload matrix, depth 8\n" in text


@pytest.mark.parametrize("kind", ["four", "sequential", "commit"])
def test_what_is_no_random_matrix_is_left_out(kind):
    other = summary_with(make_cell("read", 4096, 1, kind=kind), (1000.0, 990.0, 1010.0))
    walk = summary_with(make_cell("read", 4096, 1, pattern="sequential"), (1.0, 1.0, 1.0))
    with pytest.raises(UsageError, match="has no random matrix"):
        export(make_summary([other, walk]), "bm-flash")
    one = summary_with(make_cell("read", 4096, 1), (1000.0, 990.0, 1010.0))
    assert export(make_summary([other, walk, one]), "bm-flash").count("Tests:") == 1
