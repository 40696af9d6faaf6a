"""``seatrial audit`` on the article's printed tables, on own runs, and on bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import seatrial
from report.json_schema import assert_published, load

RAID5 = Path(__file__).parents[3] / "report" / "bm-flash-2009-raid5.txt"
MATRIX = Path(__file__).parents[1] / "analysis" / "fio-plot.csv"

SIMULATED = """
name = "simulated"
[rounds]
min = 2
max = 2
[[target]]
kind = "simulated"
[[workload]]
kind = "matrix"
operations = ["read"]
block_sizes = ["512", "4KiB", "32KiB", "1MiB"]
threads = [1, 8, 32]
seconds = 0.2
"""


def test_the_articles_table_as_text(tmp_path):
    ended = seatrial("audit", "--tables", RAID5, "--predict", "16k,20", folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    for reported in (
        "Random reads",
        "! 24    21k",
        "! absent    320",
        "Host cost per I/O: 15.9 µs",
        " ! Collapse, seen once. Writes from 64 KiB to 1 MiB collapse: 8 tests",
        "221 MiB/s",
        "16 KiB reads, 20 in flight",
        "62k IOPS (± ",
    ):
        assert reported in ended.out or reported in " ".join(ended.out.split()), reported
    assert max(map(len, ended.out.splitlines())) <= 100


def test_the_articles_table_as_a_document(tmp_path):
    ended = seatrial("audit", RAID5, "--predict", "256,1", "--json", folder=tmp_path)
    assert ended.code == 2, "no drive takes requests of less than a sector"
    ended = seatrial("audit", RAID5, "--predict", "128M,10", "--json", folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert_published(ended.document)
    reads, writes = ended.document["audits"]
    assert (reads["form"], writes["form"]) == ("read", "parity_write")
    assert [gap["kind"] for gap in writes["gaps"]] == ["collapse", "absent"]
    assert [answer["operation"] for answer in ended.document["answers"]] == ["read", "write"]


def test_what_both_documents_hold_is_described_alike():
    own, run = (load(kind)["$defs"] for kind in ("audit", "run"))
    shared = own.keys() & run.keys()
    assert {"TableAudit", "CellTable", "TablePoint", "Gap", "Finding"} <= shared
    assert {name: own[name] for name in shared} == {name: run[name] for name in shared}


def test_a_refusal_of_one_table_next_to_the_answer_of_another(tmp_path):
    table = RAID5.read_text().replace("\n 512B |", "\n; 512B |", 2)
    rows = [line for line in table.splitlines() if not line.startswith("; 512B")]
    cut = tmp_path / "without-512.txt"
    cut.write_text("\n".join(rows) + "\n")
    ended = seatrial("audit", "--tables", cut, "--predict", "512,10", folder=tmp_path)
    assert ended.code == 0, ended.err
    assert "512 B reads, 10 in flight" in ended.out
    reported = " ".join(ended.out.split())
    assert "no prediction. Parity writes had a median error" in reported


def test_a_run_of_ours_is_audited_by_default(tmp_path):
    study = tmp_path / "simulated.toml"
    study.write_text(SIMULATED, encoding="utf-8")
    assert seatrial("study", study, folder=tmp_path).code == 0
    ended = seatrial("audit", "--json", folder=tmp_path)
    assert ended.code == 0, ended.err
    (audit,) = ended.document["audits"]
    assert audit["holds"]
    assert audit["rounds_share_median"] is not None
    assert seatrial("audit", folder=tmp_path).code == 0


def one_size(tmp_path, rows_count=-1):
    """A published matrix of one block size (published.py) as a CSV that an importer reads."""
    rows = [row for row in MATRIX.read_text().splitlines() if row.startswith("test-data02,")]
    cells = [",".join([*row.split(",")[1:5], "4096"]) for row in rows[:rows_count]]
    path = tmp_path / "matrix.csv"
    path.write_text("\n".join(["operation,threads,depth,iops,block_size", *cells, ""]))
    return path


def test_a_table_of_one_block_size_by_threads_and_depth(tmp_path):
    path = one_size(tmp_path)
    ended = seatrial("audit", "--tables", path, "--predict", "4k,4x8", folder=tmp_path)
    assert ended.code == 0, ended.err
    for reported in (
        "measured and predicted IOPS, 4 KiB",
        "IOPS/model",
        "depth 32",
        "Reads saturate at 52,6",
        "4 KiB reads, 32 in flight",
    ):
        assert reported in ended.out or reported in " ".join(ended.out.split()), reported
    assert max(map(len, ended.out.splitlines())) <= 100
    document = seatrial("audit", path, "--predict", "4k,4x8", "--json", folder=tmp_path).document
    assert_published(document)
    assert [(each["concurrency"], each["threads"]) for each in document["answers"]] == [(32, 4)]


def test_too_few_figures_of_one_size_name_what_is_needed(tmp_path):
    ended = seatrial("audit", "--tables", one_size(tmp_path, 5), folder=tmp_path)
    assert ended.code == 2
    assert "at least 7 random reads or writes" in ended.err
    assert "or with one at 3 or more levels of concurrency (threads times depth)" in ended.err
    assert "at least three levels of concurrency (threads times depth)" in " ".join(
        seatrial("audit", "--help", folder=tmp_path).out.split()
    )


@pytest.mark.parametrize(
    "cell",
    ["16k", "16k,", "16k,0", "16k,-3", "big,1", "16k,two", "16k,4x", "16k,x8", "16k,4x0", ",", ""],
)
def test_what_cannot_be_predicted_is_one_sentence(tmp_path, cell):
    ended = seatrial("audit", "--tables", RAID5, f"--predict={cell}", folder=tmp_path)
    assert ended.code == 2
    assert ended.err.startswith("seatrial: Invalid value of --predict")


def test_a_result_without_a_table_says_what_to_measure(tmp_path):
    assert seatrial("io", "null", "--seconds", "0.1", folder=tmp_path).code == 0
    ended = seatrial("audit", "--tables", folder=tmp_path)
    assert ended.code == 2
    assert "has no table that can be audited" in ended.err
    assert "seatrial run DIR" in ended.err


def test_nothing_of_that_name(tmp_path):
    ended = seatrial("audit", "nowhere.json", "--json", folder=tmp_path)
    assert ended.code != 0
    assert ended.document["kind"] == "error"
