"""The pages of ``audit`` and ``check``: where requested; first screen and findings in them."""

from __future__ import annotations

from pathlib import Path

from cli.command import seatrial
from report.page_reader import embedded, read

RAID5 = Path(__file__).parents[1] / "report" / "bm-flash-2009-raid5.txt"


def test_an_audit_writes_a_page(tmp_path: Path):
    ended = seatrial(
        "audit", RAID5, "--predict", "16k,20", "--tables", "-o", "audit.html", folder=tmp_path
    )
    assert (ended.code, ended.err) == (0, "")
    assert "Random reads" in ended.out, "the terminal has it all the same"
    document = read((tmp_path / "audit.html").read_text())
    assert document.one("h1").text.replace("\N{NO-BREAK SPACE}", " ") == (
        "A model fits 2 of 2 tables (median error 7 %); 3 gaps."
    )
    tiles = document.all("li", class_="tile")
    assert tiles[0].one("p", class_="label").text.startswith("Predicted read, 16")
    assert tiles[0].one("p", class_="value").text == "62k IOPS"
    assert len(tiles) == 6
    assert document.one(id="findings").all("li", class_="finding warning")
    audits = document.one(id="audits")
    assert "Model fits" in audits.text
    assert [
        table.one("caption").text for table in audits.all("table") if table.all("caption")
    ] == []
    assert len(audits.all("table")) == 4, "parameters and cells of reads and writes"
    assert document.one(id="origin")
    assert [each["id"] for each in embedded(document)["figures"]] == [
        "matrix-iops",
        "matrix-bandwidth",
    ]
    assert len(document.one(id="key").all("svg")) == 2


def test_a_check_writes_a_page_that_says_what_the_terminal_says(tmp_path: Path):
    ended = seatrial("check", ".", "--tables", "-o", "check.html", folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    document = read((tmp_path / "check.html").read_text())
    assert document.one("section", class_="next")
    findings = document.one(id="findings")
    severities = [each.text for each in findings.all("p", class_="severity")]
    assert len(severities) == sum(line.startswith("   why: ") for line in ended.out.splitlines())
    assert [each.text for each in document.one(id="abilities").all("h3")] == [
        "Database server",
        "Layouts",
    ]
    assert "kernel" in document.one(id="machine").text


def test_a_page_replaces_no_other_file(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")
    for command in (("audit", RAID5), ("check", ".")):
        ended = seatrial(*command, "-o", "notes.txt", folder=tmp_path)
        assert ended.code != 0
        assert (tmp_path / "notes.txt").read_text() == "mine"
