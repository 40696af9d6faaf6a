"""What the lab is made of: whole or not at all, its versions known, older ones kept while used."""

from __future__ import annotations

import fcntl
from pathlib import Path

import msgspec
import pytest

from seatrial.errors import TargetError
from seatrial.lab import packages, session
from seatrial.lab.packages import PackageSet, installed, set_up
from seatrial.machine.fingerprint.tree import CommandOutput


def complete_record() -> bytes:
    """The record of a set that lacks no tool."""
    return msgspec.json.encode({"versions": dict.fromkeys(packages.TOOLS, "1.0")})


def quiet(_step: str) -> None:
    """Told of steps."""


def test_a_set_is_whole_and_knows_its_versions(apt):
    made = set_up("uml", quiet)
    assert made == installed("uml")
    assert made.versions["user-mode-linux"] == "1.0"
    assert "libaio1" in made.versions, "a library that this machine's is not used for"
    assert "libc6" not in made.versions, "it is installed here"
    assert (made.root / "usr/bin/linux.uml").read_text() == "x"
    assert not (made.folder / "debs").exists()


def test_folders_are_merged_as_the_hosts_are(apt):
    root = set_up("uml", quiet).root
    for name in ("bin", "sbin", "lib"):
        assert (root / name).is_symlink() == Path("/", name).is_symlink()
    assert (root / "sbin/mdadm").read_text() == "x"


def test_half_a_download_is_never_taken_for_a_set(apt, monkeypatch):
    monkeypatch.setenv("FAILS", "1")
    with pytest.raises(TargetError, match="apt-get update") as raised:
        set_up("uml", quiet)
    assert "no network" in raised.value.seen
    assert installed("uml") is None
    assert list(apt.iterdir()) == []


def test_what_is_there_is_used_again(apt, monkeypatch):
    made = set_up("uml", quiet)
    monkeypatch.setenv("FAILS", "1")
    assert set_up("uml", quiet) == made


def test_a_newer_version_takes_the_place_of_one_that_nobody_uses(apt, monkeypatch):
    older = set_up("uml", quiet)
    monkeypatch.setenv("VERSION", "2.0")
    newer = set_up("uml", quiet)
    assert newer.versions["mdadm"] == "2.0"
    assert not older.folder.exists()


def test_a_lab_that_runs_keeps_its_own(apt, monkeypatch):
    older = set_up("uml", quiet)
    monkeypatch.setenv("VERSION", "2.0")
    with older.in_use():
        newer = set_up("uml", quiet)
        assert (older.root / "usr/bin/linux.uml").exists()
    assert installed("uml") == newer


def test_absent_lists_are_reported(apt, monkeypatch):
    monkeypatch.setattr(packages, "run_command", lambda *_: CommandOutput(100, "", "E: x"))
    with pytest.raises(TargetError, match="apt-get update"):
        set_up("uml", quiet)


def test_without_any_set_the_command_that_fetches_one_is_named(apt):
    with pytest.raises(TargetError, match="seatrial lab --setup"):
        session.machines("auto")


def test_a_set_that_lacks_a_tool_is_fetched_again(apt):
    folder = apt / "qemu"
    folder.mkdir(parents=True)
    (folder / "packages.json").write_bytes(complete_record())
    assert installed("qemu") is not None
    versions = dict.fromkeys(packages.TOOLS[1:], "1.0")
    (folder / "packages.json").write_bytes(msgspec.json.encode({"versions": versions}))
    assert installed("qemu") is None


def test_an_emulator_that_is_not_installed_is_named(apt, monkeypatch):
    folder = apt / "qemu-1"
    folder.mkdir(parents=True)
    (apt / "qemu").symlink_to(folder)
    (folder / "packages.json").write_bytes(complete_record())
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("seatrial.lab.qemu.program_path", lambda _name: None)
    with pytest.raises(TargetError, match="apt-get install qemu-system-x86"):
        session.machines("auto")


def test_the_lock_of_a_set_is_shared_by_labs(tmp_path):
    (tmp_path / "lock").touch()
    made = PackageSet(name="uml", folder=tmp_path, versions={})
    with (
        made.in_use(),
        made.in_use(),
        (tmp_path / "lock").open() as other,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
