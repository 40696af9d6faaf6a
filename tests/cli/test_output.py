"""Standard output and standard error that cannot be written: one sentence, and nothing lost."""

import subprocess

import pytest

from cli.command import SEATRIAL, seatrial
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
    told = shell(f"SEATRIAL {arguments} > /dev/full", tmp_path)
    assert told.returncode == 2
    assert told.stderr.startswith("seatrial: Standard output cannot be written: No space left")
    assert "nternal" not in told.stderr
    assert told.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", ["nosuch --json", "show nosuch --json"])
def test_an_error_that_no_document_can_tell_is_told_on_standard_error(tmp_path, arguments):
    assert seatrial(*IO, folder=tmp_path).code == 0
    told = shell(f"SEATRIAL {arguments} > /dev/full", tmp_path)
    assert told.returncode == 2
    assert "nosuch" in told.stderr


def test_a_closed_standard_output_is_one_sentence(tmp_path):
    assert seatrial(*IO, folder=tmp_path).code == 0
    told = shell("SEATRIAL list >&-", tmp_path)
    assert told.returncode == 2
    assert told.stderr.startswith("seatrial: Standard output cannot be written: Bad file")


@pytest.mark.parametrize("way", ["2> /dev/full", "2>&-", "2> >(true)", "2>&1 | true"])
def test_a_run_whose_progress_nobody_can_read_is_measured_whole(tmp_path, way):
    told = shell(f"SEATRIAL {' '.join(IO)} --rounds 2 {way}", tmp_path)
    assert told.returncode == 0
    with ResultsFile.open(tmp_path / "results.seatrial", read_only=True) as store:
        run = store.run("last")
        assert run.status == "complete"
        assert len(store.samples(run.id)) == 2


def test_a_run_whose_tables_cannot_be_printed_is_stored(tmp_path):
    told = shell(f"SEATRIAL {' '.join(IO)} > /dev/full", tmp_path)
    assert told.returncode == 2
    assert "What was measured is in the results file" in told.stderr
    with ResultsFile.open(tmp_path / "results.seatrial", read_only=True) as store:
        assert store.run("last").status == "complete"


@pytest.mark.parametrize("way", ["| true", "| head -1"])
def test_a_reader_that_goes_is_no_error(tmp_path, way):
    assert seatrial(*IO, folder=tmp_path).code == 0
    told = shell(f"SEATRIAL --help {way}; exit ${{PIPESTATUS[0]}}", tmp_path)
    assert (told.returncode, told.stderr) == (0, "")


def test_no_file_is_opened_as_standard_output_where_that_was_closed(tmp_path):
    """The results file would be written to by whoever prints."""
    told = shell(f"SEATRIAL {' '.join(IO)} <&- >&- 2>&-", tmp_path)
    assert told.returncode == 2
    with ResultsFile.open(tmp_path / "results.seatrial", read_only=True) as store:
        assert store.run("last").status == "complete"
