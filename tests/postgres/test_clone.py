"""Cloning a folder: all is kept, blocks are shared only on request, failures leave nothing."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from machine.conftest import need_command, run
from seatrial.errors import SpaceError, TargetError
from seatrial.postgres import clone as room
from seatrial.postgres.clone import clone_folder, folder_size_bytes
from seatrial.postgres.page_cache import sync_file_system
from seatrial.units import MIB


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    (folder / "base/1").mkdir(parents=True)
    (folder / "base/1/255").write_bytes(os.urandom(300_000))
    (folder / "empty").touch()
    with (folder / "sparse").open("wb") as file:
        file.write(b"begin")
        file.seek(8 * MIB)
        file.write(b"end")
        file.truncate(16 * MIB)
    (folder / "link").symlink_to("base/1/255")
    (folder / "base").chmod(0o750)
    (folder / "empty").chmod(0o600)
    os.utime(folder / "empty", (1, 2))
    return folder


def reported(folder: Path) -> dict[str, object]:
    """All that matters of a folder, by name."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        link = str(path.readlink()) if path.is_symlink() else ""
        times = None if path.is_symlink() else status.st_mtime
        owner = (status.st_uid, status.st_gid)
        found[str(path.relative_to(folder))] = (status.st_mode, owner, times, link, content)
    return found


@pytest.mark.parametrize("how", ["auto", "copy"])
def test_a_clone_is_the_same_and_holes_stay_holes(source, tmp_path, how):
    source.chmod(0o700)
    cloned = clone_folder(source, tmp_path / "copy", how)
    assert reported(tmp_path / "copy") == reported(source)
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700
    assert cloned.size_bytes == 300_000 + 16 * MIB == folder_size_bytes(source)
    assert cloned.elapsed_s > 0
    assert (tmp_path / "copy/sparse").stat().st_blocks * 512 < MIB
    (tmp_path / "copy/base/1/255").write_bytes(b"changed")
    assert (source / "base/1/255").stat().st_size == 300_000


def test_everything_is_synced_before_it_returns(source, tmp_path, monkeypatch):
    synced = []

    def noted(folder):
        synced.append(reported(folder))
        sync_file_system(folder)

    monkeypatch.setattr(room, "sync_file_system", noted)
    clone_folder(source, tmp_path / "copy")
    assert synced == [reported(source)], "once, when all is there"


def test_what_is_there_already_is_not_touched(source, tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy/mine").write_text("kept")
    with pytest.raises(TargetError, match=r"could not be cloned.*exist"):
        clone_folder(source, tmp_path / "copy")
    assert (tmp_path / "copy/mine").read_text() == "kept"


def test_a_full_file_system_is_reported_and_the_half_copy_is_removed(source, tmp_path, monkeypatch):
    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(room.os, "sendfile", full)
    with pytest.raises(SpaceError, match=r"no space for another 16\.3 MiB"):
        clone_folder(source, tmp_path / "copy", "copy")
    assert not (tmp_path / "copy").exists()


def test_a_file_that_shrinks_meanwhile_does_not_go_unseen(source, tmp_path, monkeypatch):
    monkeypatch.setattr(room.os, "sendfile", lambda *_arguments: 0)
    with pytest.raises(TargetError, match="could not be cloned"):
        clone_folder(source, tmp_path / "copy", "copy")


def test_where_blocks_cannot_be_shared_that_is_reported(source, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "_share_file", lambda source, target: False)
    with pytest.raises(TargetError, match=r"cannot share blocks.*btrfs"):
        clone_folder(source, tmp_path / "copy", "reflink")
    assert not (tmp_path / "copy").exists()
    assert clone_folder(source, tmp_path / "copy", "auto").how == "copy"


def test_another_way_is_no_way(source, tmp_path):
    with pytest.raises(ValueError, match="no method of cloning"):
        clone_folder(source, tmp_path / "copy", "hardlink")


@pytest.mark.root
def test_owners_are_kept(source, tmp_path):
    os.chown(source / "base/1/255", 4711, 4712)
    os.chown(source / "link", 4713, 4714, follow_symlinks=False)
    clone_folder(source, tmp_path / "copy")
    assert reported(tmp_path / "copy") == reported(source)


@pytest.mark.root
def test_blocks_are_shared_on_btrfs_and_a_copy_shares_none(image, loops, mounts, source):
    need_command("mkfs.btrfs", "btrfs-progs")
    device = loops(image("btrfs.img", 256 * MIB))
    run("mkfs.btrfs", "-q", str(device))
    point = mounts(device)
    subprocess.run(["cp", "-a", "--sparse=always", source, point / "source"], check=True)
    shared = clone_folder(point / "source", point / "shared", "auto")
    assert shared.how == "reflink"
    assert reported(point / "shared") == reported(source)
    assert clone_folder(point / "source", point / "copied", "copy").how == "copy"
    assert reported(point / "copied") == reported(source)
    first = [extents(point / name / "base/1/255") for name in ("source", "shared", "copied")]
    assert first[0] == first[1]
    assert first[0] != first[2]


def extents(path: Path) -> list[str]:
    """Where a file's blocks lie on the device."""
    lines = run("filefrag", "-v", "-s", str(path)).splitlines()
    return [line.split(":")[2] for line in lines if line.strip()[:1].isdigit() and ".." in line]
