"""Standard output and standard error that cannot be written: one sentence, and nothing lost."""

import io
import json
import re
import subprocess

import pytest

from cli.command import SEATRIAL, seatrial
from report.json_schema import assert_published
from seatrial.cli import output
from seatrial.results.store import ResultsFile

IO = ("io", "null", "--seconds", "0.2")


def shell(line, folder):
    """Run a line of the shell in which SEATRIAL stands for the program."""
    return subprocess.run(
        ["bash", "-c", line.replace("SEATRIAL", SEATRIAL)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("arguments", ["list", "list --json", "--help", "show last", "export last"])
def test_a_full_device_as_standard_output_is_one_sentence(tmp_path, arguments):
    assert seatrial(*IO, folder=tmp_path).code == 0
    reported = shell(f"SEATRIAL {arguments} > /dev/full", tmp_path)
    assert reported.returncode == 2
    assert reported.stderr.startswith("seatrial: Standard output cannot be written: No space left")
    assert "nternal" not in reported.stderr
    assert reported.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", ["nosuch --json", "show nosuch --json"])
def test_an_error_that_no_document_can_report_is_reported_on_standard_error(tmp_path, arguments):
    assert seatrial(*IO, folder=tmp_path).code == 0
    reported = shell(f"SEATRIAL {arguments} > /dev/full", tmp_path)
    assert reported.returncode == 2
    assert "nosuch" in reported.stderr


def test_a_closed_standard_output_is_one_sentence(tmp_path):
    assert seatrial(*IO, folder=tmp_path).code == 0
    reported = shell("SEATRIAL list >&-", tmp_path)
    assert reported.returncode == 2
    assert reported.stderr.startswith("seatrial: Standard output cannot be written: Bad file")


@pytest.mark.parametrize("way", ["2> /dev/full", "2>&-", "2> >(true)", "2>&1 | true"])
def test_a_run_whose_progress_nobody_can_read_is_measured_whole(tmp_path, way):
    reported = shell(f"SEATRIAL {' '.join(IO)} --rounds 2 {way}", tmp_path)
    assert reported.returncode == 0
    with ResultsFile.open(tmp_path / "results.seatrial", read_only=True) as store:
        run = store.run("last")
        assert run.status == "complete"
        assert len(store.samples(run.id)) == 2


def test_a_run_whose_tables_cannot_be_printed_is_stored(tmp_path):
    reported = shell(f"SEATRIAL {' '.join(IO)} > /dev/full", tmp_path)
    assert reported.returncode == 2
    assert "What was measured is in the results file" in reported.stderr
    with ResultsFile.open(tmp_path / "results.seatrial", read_only=True) as store:
        assert store.run("last").status == "complete"


@pytest.mark.parametrize("way", ["| true", "| head -1"])
def test_a_reader_that_goes_is_no_error(tmp_path, way):
    assert seatrial(*IO, folder=tmp_path).code == 0
    reported = shell(f"SEATRIAL --help {way}; exit ${{PIPESTATUS[0]}}", tmp_path)
    assert (reported.returncode, reported.stderr) == (0, "")


def test_no_file_is_opened_as_standard_output_where_that_was_closed(tmp_path):
    """The results file would be written to by whoever prints."""
    reported = shell(f"SEATRIAL {' '.join(IO)} <&- >&- 2>&-", tmp_path)
    assert reported.returncode == 2
    with ResultsFile.open(tmp_path / "results.seatrial", read_only=True) as store:
        assert store.run("last").status == "complete"


def test_progress_is_a_line_of_json_per_event(tmp_path):
    ended = seatrial(*IO[:2], "--seconds", "1.2", "--progress", "json", "--json", folder=tmp_path)
    assert ended.code == 0, ended.err
    assert ended.document["kind"] == "run"
    events = [json.loads(line) for line in ended.err.splitlines()]
    for each in events:
        assert_published(each)
    assert [each["event"] for each in events] == ["started", "reading", "ended"]
    assert events[0]["left_s_max"] > events[1]["left_s_max"] > events[2]["left_s_max"]
    assert events[1]["reading"]["iops"] > 0
    # A processor that is taken away is a stall of the null target, too.
    assert re.search(r"\d+ stalls?$", events[1]["text"])
    assert {each["test"] for each in events} == {"io: random read 8 KiB, 1 thread"}
    assert [each["completed_per_s"] for each in events[:2]] == [None, None]
    assert events[2]["completed_per_s"] > 0


@pytest.mark.parametrize(("how", "is_silent"), [("none", True), ("plain", False)])
def test_progress_is_silent_or_plain_where_that_is_wanted(tmp_path, how, is_silent):
    ended = seatrial(*IO, "--progress", how, folder=tmp_path)
    assert ended.code == 0
    assert ("Round 1" not in ended.err) == is_silent


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_what_other_programs_read_is_utf_8_in_every_locale(tmp_path, encoding):
    assert seatrial(*IO, "--label", "– µ", folder=tmp_path).code == 0
    reported = shell(f"PYTHONIOENCODING={encoding} SEATRIAL list --json", tmp_path)
    assert reported.returncode == 0, reported
    assert json.loads(reported.stdout)["runs"][0]["label"] == "– µ"


def test_a_terminal_gets_its_own_character_set(tmp_path, monkeypatch):
    former = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    with (tmp_path / "terminal").open("wb") as terminal:
        number = terminal.fileno()
        monkeypatch.setattr(output, "_terminals", {number})
        with output._text(output._Stream(number), former) as text:
            text.write("µ …\n")
    assert (tmp_path / "terminal").read_bytes() == b"\xb5 ?\n"


def test_a_current_directory_that_was_removed_is_named(tmp_path):
    reported = shell("mkdir gone; cd gone; rmdir ../gone; SEATRIAL check .", tmp_path)
    assert reported.returncode == 2
    assert "current directory" in reported.stderr
