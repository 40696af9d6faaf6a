"""Bad input: one clear sentence, a next step, an exit code of its own, nothing written."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

from seatrial.errors import EXIT_CODES

from .command import seatrial

SMALL = ("--size", "1MiB", "--seconds", "0.1")


def listing(folder: Path) -> list[str]:
    """All that lies in a folder, but for the state folder that a journal may have made."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.relative_to(folder).parts[0] != "state"
    )


def assert_refused(folder: Path, *arguments: str | Path, code: int, says: tuple[str, ...]) -> None:
    """The command fails with this code and these words, in text and as JSON; nothing changes."""
    before = listing(folder)
    ended = seatrial(*arguments, folder=folder)
    assert ended.code == code, ended.err
    assert code in EXIT_CODES
    assert ended.out == ""
    assert "Traceback" not in ended.err
    for words in says:
        assert words in ended.err
    error = seatrial(*arguments, "--json", folder=folder).document
    assert (error["kind"], error["exit_code"]) == ("error", code)
    assert all(error[part] for part in ("seen", "cause", "next"))
    assert listing(folder) == before


def test_a_directory_that_does_not_exist(tmp_path):
    assert_refused(tmp_path, "run", tmp_path / "gone", code=6, says=("does not exist", "mkdir"))


def test_too_little_space(tmp_path):
    says = ("TiB", "free", "--size")
    assert_refused(tmp_path, "io", tmp_path, "--size", "100TiB", code=8, says=says)


def test_a_size_that_is_no_multiple_of_the_logical_block(tmp_path):
    arguments = ("io", tmp_path, "--block-size", "700", *SMALL)
    assert_refused(tmp_path, *arguments, code=9, says=("700", "multiple of"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name = ", ("line 1", "TOML")),
        ('name = "a"\n[[workload]]\nkind = "matrx"\n', ("line 3", "matrx", "matrix")),
        ('name = "a"\n[[workload]]\nkind = "fill"\nsecnds = 1\n', ("secnds", "seconds")),
    ],
)
def test_a_malformed_study(tmp_path, text, says):
    study = tmp_path / "odd.toml"
    study.write_text(text, encoding="utf-8")
    says = ("odd.toml", *says)
    assert_refused(tmp_path, "study", study, "--target", tmp_path, code=2, says=says)


@pytest.mark.parametrize("command", ["list", "show", "export", "report"])
def test_a_corrupt_results_file_is_left_as_it_is(tmp_path, command):
    odd = tmp_path / "odd.seatrial"
    odd.write_bytes(os.urandom(5000))
    content = odd.read_bytes()
    arguments = (command, "--results", odd)
    assert_refused(tmp_path, *arguments, code=7, says=("not a results file",))
    assert odd.read_bytes() == content


def test_a_corrupt_results_file_is_not_measured_into(tmp_path):
    odd = tmp_path / "odd.seatrial"
    odd.write_bytes(os.urandom(5000))
    arguments = ("io", tmp_path, *SMALL, "--results", odd)
    assert_refused(tmp_path, *arguments, code=7, says=("not a results file",))


def test_a_results_file_of_a_newer_schema(tmp_path):
    newer = tmp_path / "newer.seatrial"
    assert seatrial("io", "null", *SMALL, "--results", newer, folder=tmp_path).code == 0
    with contextlib.closing(sqlite3.connect(newer)) as connection:
        connection.execute("PRAGMA user_version = 9999")
        connection.commit()
    assert_refused(tmp_path, "list", "--results", newer, code=11, says=("newer",))


def test_a_results_file_that_is_not_there_is_not_made(tmp_path):
    assert_refused(tmp_path, "list", code=7, says=("There is no results file",))


def test_a_run_that_is_not_there(tmp_path):
    assert seatrial("io", "null", *SMALL, folder=tmp_path).code == 0
    assert_refused(tmp_path, "show", "nothing", code=2, says=("nothing", "seatrial list"))


def test_an_existing_file_is_not_overwritten(tmp_path):
    precious = tmp_path / "precious.dat"
    precious.write_bytes(b"x" * (1 << 20))
    arguments = ("io", precious, "--operation", "write", "--seconds", "0.1")
    assert_refused(tmp_path, *arguments, code=5, says=("--destroy", "precious.dat"))
    assert precious.read_bytes() == b"x" * (1 << 20)


@pytest.mark.parametrize("arguments", [("rnu", "."), ("io",), ("io", ".", "--bogus")])
def test_a_command_line_that_is_not_one(tmp_path, arguments):
    assert_refused(tmp_path, *arguments, code=2, says=("seatrial",))


def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: needs root, for loop devices and other users")


@pytest.fixture
def loop(tmp_path):
    as_root()
    backing = tmp_path / "disk.img"
    backing.write_bytes(b"")
    os.truncate(backing, 64 << 20)
    made = subprocess.run(
        ["losetup", "--find", "--show", backing], capture_output=True, check=False, text=True
    )
    if made.returncode != 0:
        pytest.skip(f"NOT TESTED: no loop device here: {made.stderr.strip()}")
    device = made.stdout.strip()
    yield device
    subprocess.run(["losetup", "--detach", device], check=True)


@pytest.mark.root
def test_a_block_device_without_destroy(tmp_path, loop):
    arguments = ("io", loop, "--operation", "write", "--seconds", "0.1")
    assert_refused(tmp_path, *arguments, code=5, says=("would be written", "--destroy"))


@pytest.mark.root
def test_a_mounted_device_even_with_destroy(tmp_path, loop):
    place = tmp_path / "mounted"
    place.mkdir()
    subprocess.run(["mkfs.ext4", "-q", loop], check=True)
    subprocess.run(["mount", loop, place], check=True)
    try:
        arguments = ("io", loop, "--operation", "write", "--destroy", loop)
        assert_refused(tmp_path, *arguments, code=5, says=("mounted", "umount"))
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.root
def test_a_file_system_without_direct_io(tmp_path):
    as_root()
    place = tmp_path / "memory"
    place.mkdir()
    if subprocess.run(["mount", "-t", "ramfs", "none", place], check=False).returncode != 0:
        pytest.skip("NOT TESTED: this kernel mounts no ramfs")
    try:
        says = ("O_DIRECT", "--buffered")
        assert_refused(tmp_path, "io", place, *SMALL, code=10, says=says)
        assert seatrial("io", place, *SMALL, "--buffered", folder=tmp_path).code == 0
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.root
def test_a_directory_that_is_not_writable(tmp_path):
    as_root()
    place = tmp_path / "read-only"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=512M", "none", place], check=True)
    try:
        assert_refused(tmp_path, "io", place, *SMALL, code=6, says=("cannot be written",))
    finally:
        subprocess.run(["umount", place], check=True)
