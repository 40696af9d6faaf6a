"""The printed tables of bm-flash come out cell for cell as they were published."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from seatrial.errors import UsageError
from seatrial.findings.summary import summarise
from seatrial.importers import read_results
from seatrial.report.exports import export
from seatrial.results.model import known_duration_s, origin_of
from seatrial.units import MIB

from .published import BLANKS, PRINTS, published

ARTICLE = """Text before it.

test:/benchmark# ./bm-flash /ssd/test.txt

{raid0}

However, other configurations had gaps:

test:/benchmark# ./bm-flash /ssd/test.txt

{raid5}

Notice the drop | in performance.
"""


@pytest.fixture
def article(tmp_path) -> Path:
    """Both prints in one text with prose around them, as the article has them."""
    raid0, raid5 = (path.read_text(encoding="utf-8") for path in PRINTS.values())
    place = tmp_path / "article.txt"
    place.write_text(ARTICLE.format(raid0=raid0, raid5=raid5), encoding="utf-8")
    return place


def figures(samples):
    """Printed IOPS and MiB/s by cell, of the samples of one matrix."""
    return {
        (s.cell.operation, s.cell.block_size_bytes, s.cell.threads): (
            s.completed_per_s,
            math.floor(s.transferred_bytes_per_s / MIB * 10) / 10,
        )
        for s in samples
        if s.cell.kind == "matrix"
    }


@pytest.mark.parametrize("configuration", PRINTS)
def test_every_printed_cell_is_the_published_one(configuration):
    imported = read_results(PRINTS[configuration])
    found, reported = figures(imported.samples), published(configuration)
    assert found.keys() == reported.keys()
    for cell, (iops, bandwidth) in found.items():
        assert iops == reported[cell][0]
        assert bandwidth == pytest.approx(float(reported[cell][1]), abs=0.1)


def test_exactly_the_four_blank_cells_are_named():
    blanks = {name: origin_of(read_results(path).run).blank_cells for name, path in PRINTS.items()}
    raid0, raid5 = blanks.values()
    assert raid0 == []
    assert {(b.operation, b.block_size_bytes, b.threads) for b in raid5} == BLANKS
    assert len(raid5) == len(BLANKS)


def test_two_printouts_of_one_text_are_two_targets(article):
    imported = read_results(article)
    targets = list(dict.fromkeys(sample.cell.target for sample in imported.samples))
    assert targets == ["article-1", "article-2"]
    for target, configuration in zip(targets, PRINTS, strict=True):
        own = [sample for sample in imported.samples if sample.cell.target == target]
        assert {key: iops for key, (iops, _) in figures(own).items()} == {
            key: iops for key, (iops, _) in published(configuration).items()
        }


def test_the_fill_is_a_cell_with_its_size_and_time():
    imported = read_results(PRINTS["raid5-4ssd-1controller"])
    (fill,) = [sample for sample in imported.samples if sample.cell.kind == "fill"]
    assert fill.operations["write"].transferred_bytes == 4 << 30
    assert known_duration_s(fill) == 3.0
    assert origin_of(imported.run).file_bytes == 4 << 30


def test_a_rate_is_exact_measured_once_and_for_no_known_time():
    imported = read_results(PRINTS["raid5-4ssd-1controller"])
    summary = summarise(imported.run, imported.samples)
    cells = [part for part in summary.cells if part.cell.kind == "matrix"]
    assert {(part.iops.low, part.iops.high, part.iops.rounds) for part in cells} == {
        (None, None, 1)
    }
    outlier = next(p for p in cells if (p.cell.operation, p.cell.block_size_bytes) == ("read", 512))
    assert outlier.iops.value == 24
    assert outlier.bandwidth.value == pytest.approx(12.2 * 1024, rel=1e-4)
    assert not any(known_duration_s(sample) for part in cells for sample in part.samples)


@pytest.mark.parametrize("path", PRINTS.values(), ids=list(PRINTS))
def test_exported_as_bm_flash_it_is_the_same_print_again(path):
    imported = read_results(path)
    printed = export(summarise(imported.run, imported.samples), "bm-flash")

    def words(text: str) -> list[list[str]]:
        return [line.replace("|", " ").split() for line in text.splitlines() if "|" in line]

    assert words(printed) == words(path.read_text(encoding="utf-8"))


def test_a_table_in_any_order_with_other_threads_and_a_prompt_is_read(tmp_path):
    place = tmp_path / "x"
    place.write_text(
        "root@db:~# bm-flash /dev/sdb\n\nWrite Tests:\n\nBlock |   2 threads\n Size | IOPS BW\n"
        "      |\n   2K |  7  14.0K\n\nroot@db:~# \n",
        encoding="utf-8",
    )
    (sample,) = read_results(place).samples
    assert sample.cell.key == "matrix/write/2048B/2t/1d"
    assert (sample.completed_per_s, sample.transferred_bytes_per_s) == (7, 14 * 1024)


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("28061   13.7M", "28o61   13.7M", ["line 8", "10 threads, IOPS", "'28o61'"]),
        ("28061   13.7M", "28061   13.7Q", ["line 8", "10 threads, BW", "'13.7Q'"]),
        ("28061   13.7M", "28061", ["line 8", "10 threads, BW"]),
        (" 512B |    24", " 5x2B |    24", ["line 8", "Size", "'5x2B'"]),
        ("10 threads ", "ten threads ", ["line 5", "ten threads"]),
    ],
)
def test_a_text_in_a_number_is_named_with_line_and_column(tmp_path, before, after, named):
    text = PRINTS["raid5-4ssd-1controller"].read_text(encoding="utf-8")
    place = tmp_path / "edited.txt"
    place.write_text(text.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_results(place)
    assert all(part in str(caught.value) for part in named)


def test_a_print_cut_off_below_its_heading_is_refused(tmp_path):
    place = tmp_path / "cut.txt"
    place.write_text("Read Tests:\n\nBlock |   1 thread    |  10 threads\n", encoding="utf-8")
    with pytest.raises(UsageError, match="no figures below it"):
        read_results(place)


def test_a_print_that_lacks_rows_of_the_writes_says_so(tmp_path):
    text = PRINTS["raid5-4ssd-1controller"].read_text(encoding="utf-8")
    place = tmp_path / "short.txt"
    place.write_text("\n".join(text.splitlines()[:-3]), encoding="utf-8")
    notes = origin_of(read_results(place).run).notes
    assert any("may be truncated" in note for note in notes)
