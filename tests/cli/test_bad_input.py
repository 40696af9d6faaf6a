"""Bad input to the real command: one clear paragraph, its own exit code, nothing written."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import subprocess
from pathlib import Path

import click
import pytest

from cli.command import Ended, seatrial
from cli.test_outputs import commands
from report.json_schema import assert_published
from seatrial import _core
from seatrial.cli.options import FiniteRange
from seatrial.errors import EXIT_CODES
from seatrial.units import MIB
from trials.replay.study.traces import make_trace

NOBODY = 65534
WITHOUT_OVERRIDE = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
"""Root that must keep to the rights of files, as everybody else must."""


def test_a_check_of_a_directory_that_cannot_be_written_is_not_ready(tmp_path):
    (tmp_path / "kept").mkdir(mode=0o555)
    prefix = WITHOUT_OVERRIDE if os.geteuid() == 0 else ()
    reported = seatrial("check", "kept", folder=tmp_path, prefix=prefix)
    assert reported.code == 0
    assert "is not writable" in " ".join(reported.out.split())
    assert "seatrial run" not in reported.out
    found = seatrial("check", "kept", "--json", folder=tmp_path, prefix=prefix).document
    assert "is not writable" in found["obstacle"]
    assert seatrial("check", ".", "--json", folder=tmp_path).document["obstacle"] == ""


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, with what it holds; the journals' own folder must hold none."""
    assert list(folder.glob("state/*.jsonl")) == []
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and "state" not in path.parts
    }


def assert_refused(
    folder: Path, arguments: list[str | Path], code: int, *said: str, prefix: tuple[str, ...] = ()
) -> None:
    """The command refuses, in text and as JSON, and changes no file."""
    before = contents(folder)
    in_text = seatrial(*arguments, folder=folder, prefix=prefix)
    as_json = seatrial(*arguments, "--json", folder=folder, prefix=prefix)
    assert contents(folder) == before
    assert_text(in_text, code, said)
    assert_document(as_json, code, said)


def assert_text(reported: Ended, code: int, said: tuple[str, ...]) -> None:
    assert (reported.code, reported.out) == (code, ""), reported
    assert "Traceback" not in reported.err
    if reported.err.startswith("Usage: "):
        assert code == 2
        return
    (line,) = reported.err.splitlines()
    assert line.startswith("seatrial: ")
    for part in said:
        assert part in line


def assert_document(reported: Ended, code: int, said: tuple[str, ...]) -> None:
    assert reported.code == code, reported
    assert reported.err == ""
    assert reported.document["kind"] == "error"
    assert_published(reported.document)
    assert reported.document["exit_code"] == code
    sentences = [reported.document[name] for name in ("seen", "cause", "next")]
    assert all(sentence[-1] in ".!?" for sentence in sentences)
    for part in said:
        assert any(part in sentence for sentence in sentences)


@pytest.fixture
def place(tmp_path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


def test_every_code_that_is_expected_here_is_documented():
    assert set(range(13)) == set(EXIT_CODES)


class TestTargets:
    def test_a_directory_that_is_missing(self, tmp_path):
        assert_refused(tmp_path, ["run", "absent"], 6, "does not exist", "`mkdir ")
        assert_refused(tmp_path, ["io", "absent"], 6, "does not exist")

    def test_a_file_in_place_of_a_directory(self, tmp_path):
        (tmp_path / "diary").write_text("kept")
        assert_refused(tmp_path, ["run", "diary"], 6, "is not a directory", "seatrial io diary")

    def test_a_directory_that_is_not_writable(self, tmp_path, place):
        prefix: tuple[str, ...] = ()
        if os.geteuid() == 0:
            os.chown(place, NOBODY, NOBODY)
            prefix = WITHOUT_OVERRIDE
        place.chmod(0o555)
        command = ["io", place, "--size", "1MiB", "--seconds", "0.1"]
        try:
            assert_refused(
                tmp_path,
                command,
                6,
                "is not writable: Permission denied",
                "ls -ld",
                prefix=prefix,
            )
        finally:
            place.chmod(0o755)

    @pytest.mark.root
    def test_a_directory_on_a_read_only_file_system(self, tmp_path, place):
        need_root()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=512M", "none", place], check=True)
        try:
            command = ["io", place, "--size", "1MiB", "--seconds", "0.1"]
            assert_refused(tmp_path, command, 6, "is not writable: Read-only file system")
        finally:
            subprocess.run(["umount", place], check=True)

    def test_too_little_space(self, tmp_path, place):
        command = ["io", place, "--size", "100TiB"]
        assert_refused(tmp_path, command, 8, "The trial needs", "are available", "--size")

    def test_a_size_that_is_no_multiple_of_the_logical_block(self, tmp_path, place):
        command = ["io", place, "--block-size", "700"]
        assert_refused(tmp_path, command, 9, "700 bytes, not a multiple of", "Use multiples of")
        command = ["io", place, "--size", "1000001"]
        assert_refused(tmp_path, command, 9, "1000001 bytes, not a multiple of")

    def test_a_file_that_holds_data_is_not_written_to(self, tmp_path):
        (tmp_path / "diary").write_bytes(b"kept " * 10_000)
        command = ["io", "diary", "--operation", "write", "--buffered", "--block-size", "512"]
        word = f"--destroy {tmp_path / 'diary'}"
        assert_refused(tmp_path, command, 5, "would be written to", word)
        assert_refused(tmp_path, [*command, "--destroy", "/dev/other"], 5, "--destroy specifies")

    @pytest.mark.root
    def test_a_file_system_without_o_direct(self, tmp_path, place):
        need_root()
        subprocess.run(["mount", "-t", "ramfs", "ramfs", place], check=True)
        try:
            command = ["io", place, "--size", "1MiB", "--seconds", "0.1"]
            assert_refused(
                tmp_path, command, 10, "ramfs", "does not support O_DIRECT", "--buffered"
            )
            assert seatrial(*command, "--buffered", folder=tmp_path).code == 0
            assert list(place.iterdir()) == []
        finally:
            subprocess.run(["umount", place], check=True)


@pytest.mark.root
class TestDevices:
    @pytest.fixture
    def device(self, tmp_path):
        """A loop device over a file of random data in the folder that must not change."""
        need_root()
        backing = tmp_path / "backing.img"
        backing.write_bytes(os.urandom(16 * MIB))
        losetup = ["losetup", "--find", "--show", backing]
        done = subprocess.run(losetup, check=True, capture_output=True, text=True)
        yield done.stdout.strip()
        subprocess.run(["losetup", "-d", done.stdout.strip()], check=True)

    def test_writing_to_a_device_needs_its_name_on_purpose(self, tmp_path, device):
        command = ["io", device, "--operation", "write"]
        assert_refused(tmp_path, command, 5, f"would be written to {device}", f"--destroy {device}")
        named_wrongly = [*command, "--destroy", "WD-1234"]
        assert_refused(tmp_path, named_wrongly, 5, "--destroy specifies WD-1234")

    def test_a_mounted_device_is_refused_whatever_is_named(self, tmp_path, device, place):
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        subprocess.run(["mount", device, place], check=True)
        try:
            command = ["io", device, "--operation", "write", "--destroy", device]
            reported = seatrial(*command, "--json", folder=tmp_path)
            assert reported.code == 5
            assert f"is mounted on {place}" in reported.document["seen"]
            assert "--destroy does not allow this" in reported.document["cause"]
            assert f"umount {place}" in reported.document["next"]
        finally:
            subprocess.run(["umount", place], check=True)
        subprocess.run(["fsck.ext4", "-fn", device], check=True, capture_output=True)

    def test_a_device_whose_data_are_given_up_is_written_to(self, tmp_path, device):
        """The other side: the refusals above are not for want of any way."""
        command = ["io", device, "--operation", "write", "--seconds", "0.1", "--destroy", device]
        before = contents(tmp_path)["backing.img"]
        assert seatrial(*command, folder=tmp_path).code == 0
        assert contents(tmp_path)["backing.img"] != before


class TestStudies:
    def refused(self, folder: Path, text: str, *said: str) -> None:
        (folder / "study.toml").write_text(text)
        assert_refused(folder, ["study", "study.toml"], 2, *said)

    def test_a_study_that_is_no_toml(self, tmp_path):
        self.refused(tmp_path, 'name = "x"\n[[target]\n', "study.toml, line 2", "invalid TOML")

    def test_a_misspelt_key(self, tmp_path):
        text = '[[workload]]\nkind = "matrix"\nblock_size = 512\n'
        expected = "study.toml, line 3: workload[0].block_size"
        self.refused(tmp_path, text, expected, "Did you mean 'block_sizes'?")

    def test_a_misspelt_value(self, tmp_path):
        text = '[[workload]]\nkind = "matrx"\n'
        self.refused(tmp_path, text, "study.toml, line 2: workload[0].kind", "matrx", "'matrix'")

    def test_a_value_of_the_wrong_kind(self, tmp_path):
        text = '[[workload]]\nkind = "io"\nseconds = "long"\n'
        self.refused(tmp_path, text, "study.toml, line 3: workload[0].seconds", "number")

    def test_a_study_that_is_missing(self, tmp_path):
        assert_refused(
            tmp_path, ["study", "absent.toml"], 2, "'absent.toml' is neither a study file", "quick"
        )

    def test_an_option_that_makes_no_sense(self, tmp_path, place):
        assert_refused(tmp_path, ["io", place, "--threads", "0"], 2, "--threads is 0")
        assert_refused(tmp_path, ["io", place, "--threads", "many"], 2, "not a valid integer")
        assert_refused(tmp_path, ["io", place, "--size", "4 parsecs"], 2, "4 parsecs")


READERS = (["list"], ["show"], ["export", "--format", "csv"], ["report"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    """A results file with a run in it."""
    folder = tmp_path_factory.mktemp("whole")
    assert seatrial("io", "null", "--seconds", "0.1", folder=folder).code == 0
    return (folder / "results.seatrial").read_bytes()


class TestResultsFiles:
    def refused(self, folder: Path, code: int, *said: str) -> None:
        """By the command that would add to it, and by all that read it."""
        assert_refused(folder, ["io", "null", "--seconds", "0.1"], code, *said)
        before = contents(folder)
        for command in READERS:
            assert_document(seatrial(*command, "--json", folder=folder), code, said)
        assert contents(folder) == before

    def test_of_a_newer_schema(self, tmp_path, whole):
        path = tmp_path / "results.seatrial"
        path.write_bytes(whole)
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA user_version = 99")
        connection.commit()
        connection.close()
        self.refused(tmp_path, 11, "has schema 99", "A newer version", "pip install -U seatrial")

    def test_cut_off(self, tmp_path, whole):
        (tmp_path / "results.seatrial").write_bytes(whole[: len(whole) // 2])
        self.refused(tmp_path, 7, "is damaged")

    def test_of_another_kind(self, tmp_path):
        (tmp_path / "results.seatrial").write_bytes(b"a diary of 2008\n" * 100)
        self.refused(tmp_path, 7, "is not a results file of Seatrial")

    def test_missing(self, tmp_path):
        for command in READERS:
            reported = seatrial(*command, "--json", folder=tmp_path)
            assert_document(reported, 7, ("does not exist",))
        assert contents(tmp_path) == {}

    def test_where_nothing_can_be_written(self, tmp_path, place):
        prefix: tuple[str, ...] = ()
        if os.geteuid() == 0:
            os.chown(place, NOBODY, NOBODY)
            prefix = WITHOUT_OVERRIDE
        place.chmod(0o555)
        command = ["io", "null", "--seconds", "0.1", "--results", place / "results.seatrial"]
        try:
            assert_refused(tmp_path, command, 7, "cannot be written", prefix=prefix)
        finally:
            place.chmod(0o755)

    def test_a_run_that_it_does_not_hold(self, tmp_path, whole):
        (tmp_path / "results.seatrial").write_bytes(whole)
        assert_refused(tmp_path, ["show", "absent"], 2, "contains no run 'absent'", "seatrial list")


class TestUsage:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["frobnicate"],
            ["io"],
            ["io", "null", "--frobnicate"],
            ["export", "--format", "xls"],
            ["compare", "a", "b", "--fail-if-slower", "nan"],
        ],
    )
    def test_a_command_line_that_is_none(self, tmp_path, arguments):
        assert_refused(tmp_path, arguments, 2)

    def test_a_misspelt_command_is_guessed(self, tmp_path):
        assert "Did you mean 'study'?" in seatrial("stady", folder=tmp_path).err


def test_no_range_of_numbers_has_nan() -> None:
    types = [each.type for _, command in commands() for each in command.params]
    assert {type(each) for each in types if isinstance(each, click.FloatRange)} == {FiniteRange}
    for wrong in ("nan", "inf"):
        with pytest.raises(click.BadParameter, match="finite"):
            FiniteRange(min=0).convert(wrong, None, None)


def need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root for mounts and loop devices")
    if not Path("/dev/loop-control").exists():
        pytest.skip("needs the kernel's loop devices")


@pytest.mark.parametrize("held", [b"", b"abcdef"])
@pytest.mark.parametrize("size", [(), ("--size", "1MiB")])
def test_a_file_that_holds_no_block_is_refused_with_what_it_holds(
    tmp_path: Path, held: bytes, size: tuple[str, ...]
) -> None:
    path = tmp_path / "short"
    path.write_bytes(held)
    reported = seatrial("io", path, *size, folder=tmp_path)
    assert reported.code == 8
    assert (f"short, is only {len(held)} B long" if held else "short, is empty") in reported.err
    assert "--size 0" not in reported.err
    assert_refused(tmp_path, ["io", path, *size], 8, "of at least 512 B")


def test_where_neither_room_nor_budget_suffices_the_room_is_reported(tmp_path: Path) -> None:
    """A larger budget would not help."""
    for command in (["run", tmp_path], ["study", "quick", "--target", tmp_path]):
        assert_refused(tmp_path, [*command, "--size", "900PiB"], 8, "are available", "--size")
    small = ["run", tmp_path, "--size", "32MiB", "--write-budget", "1MiB"]
    assert_refused(tmp_path, small, 2, "--write-budget")


OPTIONS_OF_STUDY = [
    ("--seconds", "-1"),
    ("--rounds", "0"),
    ("--budget", "-5"),
    ("--size", "0"),
    ("--size", "nothing"),
    ("--write-budget", "0"),
    ("--seed", "-1"),
    ("--loop", "much"),
]


@pytest.mark.parametrize("study", ["quick", "next-xraid", "telemetry", "raid-sweep"])
@pytest.mark.parametrize("options", [(), *OPTIONS_OF_STUDY])
def test_only_options_that_the_command_has_are_named(
    tmp_path: Path, study: str, options: tuple[str, ...]
) -> None:
    """Of a shipped study that needs files which are yet to be made, too."""
    reported = seatrial("study", study, "--plan", *options, folder=tmp_path)
    assert reported.code == 0 or reported.err, reported
    known = seatrial("study", "--help", folder=tmp_path).out
    for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", reported.err):
        assert re.search(rf"{option}\b", known), reported.err


def test_a_damaged_trace_is_refused_and_nothing_else_is_printed(tmp_path: Path, capfd) -> None:
    """Some damage makes the Parquet library panic: to the user that is a damaged file only."""
    trace = make_trace(tmp_path / "x.trace")
    whole = trace.read_bytes()
    for at in range(4, len(whole)):
        trace.write_bytes(whole[:at] + bytes([whole[at] ^ 2]) + whole[at + 1 :])
        try:
            _core.show_trace(trace, 1)
        except _core.NativeError as error:
            if "do not fit each other" in str(error):
                break
    else:
        pytest.fail("no such damage was found")
    assert capfd.readouterr() == ("", "")
