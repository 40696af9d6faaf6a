"""The trial folder: checks in order, one sentence for each kind of bad directory."""

import errno
import itertools
import os
import re
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machine.conftest import need_command, run
from seatrial.errors import AlignmentError, DirectError, SpaceError, TargetError
from seatrial.machine import direct, file
from seatrial.machine.direct import direct_alignment, kernel_alignment, require_multiple
from seatrial.machine.file import TrialFolder, check_space, no_space
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.undo_journal import UndoJournal
from seatrial.study.units import parse_size_bytes
from seatrial.units import GIB, MIB


@pytest.fixture
def journal():
    return UndoJournal("run1")


def free(monkeypatch, free_bytes):
    blocks = free_bytes // 4096
    status = types.SimpleNamespace(f_blocks=blocks + 1, f_bavail=blocks, f_frsize=4096)
    monkeypatch.setattr(file.os, "statvfs", lambda path: status)


def without_direct(monkeypatch):
    """A file system that refuses O_DIRECT, as some network and all memory file systems did."""
    real_open = os.open

    def refuse(path, flags, *args, **kwargs):
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path))
        return real_open(path, flags, *args, **kwargs)

    monkeypatch.setattr(direct.os, "open", refuse)


def nothing_left(folder, journal):
    return list(folder.iterdir()) == [] and not journal.path.exists()


def test_the_folder_is_made_marked_and_removed_with_all_in_it(tmp_path, journal):
    with TrialFolder(tmp_path, "run1", journal).open(MIB) as folder:
        assert folder.path == tmp_path / ".seatrial-run1"
        folder.file("a.dat").write_bytes(b"x" * 4096)
        assert folder.files() == [folder.path / "a.dat"], "neither marker nor probe are files of it"
        assert journal.path.exists()
    assert nothing_left(tmp_path, journal)


def test_the_folder_can_really_be_used_with_direct_io_in_its_logical_block(tmp_path, journal):
    with TrialFolder(tmp_path, "run1", journal).open(MIB) as folder:
        block_bytes = folder.logical_block_bytes
        assert block_bytes in {512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}
        folder.require_multiple("The block size", 8 * block_bytes)
        with pytest.raises(AlignmentError):
            folder.require_multiple("The block size", 8 * block_bytes + 1)


def test_opening_again_finds_the_files_or_an_empty_folder(tmp_path, journal):
    first = TrialFolder(tmp_path, "run1", journal).open(MIB)
    first.file("a.dat").write_bytes(b"x")
    again = TrialFolder(tmp_path, "run1", journal).open(MIB)
    assert [path.name for path in again.files()] == ["a.dat"]
    assert again.remove().outcome == "undone"
    third = TrialFolder(tmp_path, "run1", journal).open(MIB)
    assert third.files() == []
    third.remove()
    assert nothing_left(tmp_path, journal)


def test_what_a_resumed_run_wrote_before_counts_as_there(tmp_path, journal, monkeypatch):
    folder = TrialFolder(tmp_path, "run1", journal).open(MIB)
    folder.file("a.dat").write_bytes(bytes(8 * MIB))
    free(monkeypatch, 70 * MIB)
    with pytest.raises(SpaceError):
        check_space(tmp_path / ".seatrial-other", 8 * MIB)
    check_space(folder.path, 8 * MIB)
    folder.remove()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../up", "SEATRIAL-TRIAL-FOLDER", "a\0b"])
def test_only_plain_names_are_trial_files(tmp_path, journal, name):
    with pytest.raises(ValueError, match="invalid name"):
        TrialFolder(tmp_path, "run1", journal).file(name)


def test_a_missing_directory_is_named_with_the_command_that_makes_it(tmp_path, journal):
    with pytest.raises(TargetError, match="does not exist") as caught:
        TrialFolder(tmp_path / "none", "run1", journal).open(MIB)
    assert f"`mkdir -p {tmp_path / 'none'}`" in str(caught.value)
    assert caught.value.exit_code == 6


def test_a_file_is_no_directory(tmp_path, journal):
    (tmp_path / "file").touch()
    with pytest.raises(TargetError, match="is not a directory"):
        TrialFolder(tmp_path / "file", "run1", journal).open(MIB)


def test_too_little_space_gives_both_numbers_and_the_option_and_writes_nothing(
    tmp_path, journal, monkeypatch
):
    free(monkeypatch, 1 * GIB)
    with pytest.raises(SpaceError) as caught:
        TrialFolder(tmp_path, "run1", journal).open(4 * GIB, shrink_option="--file-size")
    text = str(caught.value)
    assert "needs 4.2 GiB" in text
    assert "only 1 GiB (1,073,741,824 bytes) are available" in text
    assert "--file-size" in text
    assert caught.value.exit_code == 8
    assert nothing_left(tmp_path, journal)


@given(needed_bytes=st.integers(1, 10**13), free_bytes=st.integers(0, 10**13))
def test_space_is_granted_just_when_the_reserve_stays(needed_bytes, free_bytes):
    with pytest.MonkeyPatch.context() as patch:
        free(patch, free_bytes)
        usable_bytes = free_bytes // 4096 * 4096
        reserve_bytes = max(needed_bytes * 0.05, 64 * MIB)
        folder = Path("/nowhere/.seatrial-run1")
        if needed_bytes + reserve_bytes <= usable_bytes:
            check_space(folder, needed_bytes)
        elif needed_bytes + reserve_bytes > usable_bytes + 1:
            with pytest.raises(SpaceError) as caught:
                check_space(folder, needed_bytes)
            fits = re.search(r"at most (.*) for all files", caught.value.next_step)
            if fits is None:
                assert "larger file system" in caught.value.next_step
                assert usable_bytes < 65 * MIB
                return
            fits_bytes = parse_size_bytes(fits[1])
            assert 0 < fits_bytes < needed_bytes
            check_space(folder, fits_bytes)


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (errno.EACCES, "not have write permission"),
        (errno.EROFS, "read-only"),
        (errno.EDQUOT, "quota"),
        (errno.EIO, "device is failing"),
    ],
)
def test_a_directory_that_cannot_be_written_says_why(tmp_path, journal, monkeypatch, number, cause):
    def fail(self, *args, **kwargs):
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "mkdir", fail)
    with pytest.raises(TargetError, match=cause) as caught:
        TrialFolder(tmp_path, "run1", journal).open(MIB)
    assert os.strerror(number) in str(caught.value)
    assert nothing_left(tmp_path, journal)


def test_a_marker_that_cannot_be_written_leaves_no_folder(tmp_path, journal, monkeypatch):
    def fill_up(folder, run_id):
        (folder / "SEATRIAL-TRIAL-FOLDER").touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(file, "write_marker", fill_up)
    with pytest.raises(TargetError, match="no inodes left"):
        TrialFolder(tmp_path, "run1", journal).open(MIB)
    assert nothing_left(tmp_path, journal)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_write_permission_is_refused_by_the_system(tmp_path, journal):
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(TargetError, match="not have write permission"):
        TrialFolder(tmp_path / "closed", "run1", journal).open(MIB)


def test_something_else_under_the_folders_name_is_not_touched(tmp_path, journal):
    taken = tmp_path / ".seatrial-run1"
    taken.mkdir()
    (taken / "thesis.tex").write_text("x")
    with pytest.raises(TargetError, match="was not created by this run"):
        TrialFolder(tmp_path, "run1", journal).open(MIB)
    assert (taken / "thesis.tex").read_text() == "x"
    assert not journal.path.exists()


def test_an_empty_folder_that_a_kill_left_unmarked_is_used(tmp_path, journal):
    (tmp_path / ".seatrial-run1").mkdir()
    with TrialFolder(tmp_path, "run1", journal).open(MIB):
        pass
    assert nothing_left(tmp_path, journal)


def test_a_file_system_without_direct_io_is_reported_by_name_and_nothing_is_left(
    tmp_path, journal, monkeypatch
):
    without_direct(monkeypatch)
    with pytest.raises(DirectError, match="does not support O_DIRECT") as caught:
        TrialFolder(tmp_path, "run1", journal).open(MIB)
    assert caught.value.exit_code == 10
    assert str(tmp_path) in str(caught.value)
    assert nothing_left(tmp_path, journal)


def test_without_direct_io_wanted_none_is_needed(tmp_path, journal, monkeypatch):
    without_direct(monkeypatch)
    with TrialFolder(tmp_path, "run1", journal).open(MIB, direct=False) as folder:
        assert folder.logical_block_bytes == 1
        folder.require_multiple("The block size", 513)


def test_the_smallest_alignment_that_works_is_found(tmp_path, monkeypatch):
    """A device with 4 KiB blocks, acted: smaller writes fail with EINVAL."""
    write = os.pwrite

    def pwrite(descriptor, data, offset_bytes):
        if len(data) % 4096 or offset_bytes % 4096:
            raise OSError(errno.EINVAL, "Invalid argument")
        return write(descriptor, data, offset_bytes)

    monkeypatch.setattr(direct.os, "pwrite", pwrite)
    assert direct_alignment(tmp_path) == 4096
    assert list(tmp_path.iterdir()) == []


def test_the_kernels_own_word_counts_where_it_is_stricter(tmp_path, monkeypatch):
    monkeypatch.setattr(direct, "kernel_alignment", lambda descriptor: 16384)
    assert direct_alignment(tmp_path) == 16384
    monkeypatch.setattr(direct, "kernel_alignment", lambda descriptor: 0)
    with pytest.raises(DirectError):
        direct_alignment(tmp_path)


def test_data_that_do_not_come_back_are_no_direct_io(tmp_path, monkeypatch):
    def preadv(descriptor, buffers, offset_bytes):
        buffers[0][:] = bytes(len(buffers[0]))
        return len(buffers[0])

    monkeypatch.setattr(direct.os, "preadv", preadv)
    with pytest.raises(DirectError):
        direct_alignment(tmp_path)


@given(size_bytes=st.integers(0, 2**50), shift=st.integers(9, 16))
def test_only_whole_blocks_pass_and_the_nearest_are_named(size_bytes, shift):
    block_bytes = 1 << shift
    if size_bytes % block_bytes == 0:
        require_multiple("The size", size_bytes, block_bytes)
        return
    with pytest.raises(AlignmentError) as caught:
        require_multiple("The size", size_bytes, block_bytes)
    assert str(caught.value).startswith(f"The size is {size_bytes} bytes, not a multiple")
    named = [int(number) for number in re.findall(r"\d+", caught.value.next_step)]
    assert all(number % block_bytes == 0 and number > 0 for number in named)
    assert named[-1] == -(-size_bytes // block_bytes) * block_bytes


@pytest.mark.root
class TestRealFileSystems:
    @pytest.mark.parametrize(
        ("kind", "sector_bytes"), list(itertools.product(["ext4", "xfs", "btrfs"], [512, 4096]))
    )
    def test_the_logical_block_is_that_of_the_device_and_at_least_the_file_systems(
        self, image, loops, mounts, kind, sector_bytes
    ):
        packages = {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}
        need_command(f"mkfs.{kind}", packages[kind])
        if f"\t{kind}\n" not in Path("/proc/filesystems").read_text():
            pytest.skip(f"needs a kernel with {kind}")
        device = loops(image(size_bytes=512 * MIB), f"--sector-size={sector_bytes}")
        run(f"mkfs.{kind}", "-q", str(device))
        point = mounts(device)
        # btrfs serves smaller requests through the page cache, silently.
        expected_bytes = 4096 if kind == "btrfs" else sector_bytes
        with TrialFolder(point, "run1", UndoJournal("run1")).open(MIB) as folder:
            assert folder.logical_block_bytes == expected_bytes
        assert not (point / ".seatrial-run1").exists()

    def test_a_file_system_without_direct_io(self, mounts, journal):
        point = mounts("ramfs", "-t", "ramfs")
        with pytest.raises(DirectError, match=f"the ramfs file system on {point}"):
            direct_alignment(point)
        assert list(point.iterdir()) == []

    def test_a_file_system_mounted_read_only(self, mounts, journal):
        point = mounts("tmpfs", "-t", "tmpfs", "-o", "ro,size=200m")
        with pytest.raises(TargetError, match="mounted read-only"):
            TrialFolder(point, "run1", journal).open(MIB)
        assert not journal.path.exists()

    def test_a_file_system_that_is_really_full(self, mounts, journal):
        point = mounts("tmpfs", "-t", "tmpfs", "-o", "size=80m")
        with pytest.raises(SpaceError):
            TrialFolder(point, "run1", journal).open(17 * MIB)
        with TrialFolder(point, "run1", journal).open(15 * MIB):
            pass

    def test_the_journal_knows_on_which_mount_the_folder_lies(self, mounts, journal):
        point = mounts("tmpfs", "-t", "tmpfs")
        TrialFolder(point, "run1", journal).open(MIB).close()
        run("umount", str(point))
        (found,) = journal.undo_all()
        assert found.outcome == "failed"
        assert f"{point} is not mounted" in found.detail
        journal.done(1)

    def test_the_kernels_word_agrees_with_the_devices(self, image, loops):
        device = loops(image(), "--sector-size=4096")
        descriptor = os.open(device, os.O_RDONLY)
        try:
            reported_bytes = kernel_alignment(descriptor)
        finally:
            os.close(descriptor)
        if reported_bytes is None:
            pytest.skip("needs Linux 6.1 for STATX_DIOALIGN")
        name = device.name
        assert reported_bytes == LIVE.integer(f"/sys/block/{name}/queue/logical_block_size") == 4096


def test_a_file_system_without_an_account_of_its_space_is_not_called_full(monkeypatch, tmp_path):
    status = types.SimpleNamespace(f_blocks=0, f_bavail=0, f_frsize=4096)
    monkeypatch.setattr(file.os, "statvfs", lambda path: status)
    file.check_space(tmp_path / "folder", 1 << 40)


def test_an_exhausted_quota_is_not_a_full_file_system(tmp_path):
    error = no_space(tmp_path / ".seatrial-run1" / "trial.dat", "write", by_quota=True)
    assert error.exit_code == 8
    assert error.seen.startswith(f"The quota of {tmp_path} ")
    assert "df -h" not in error.next_step
