"""The guard: on files without root, on real loop devices with it."""

import errno
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machine.conftest import need_command, put, run
from seatrial.errors import RefusedError, TargetError
from seatrial.machine import guard
from seatrial.machine.guard import inspect, permit_write, unreadable
from seatrial.machine.marker import write_marker
from seatrial.units import MIB


def refusal(path, destroy=None, bytes_to_write=5 * MIB):
    with pytest.raises(RefusedError) as caught:
        permit_write(path, destroy=destroy, bytes_to_write=bytes_to_write)
    return str(caught.value)


class TestFiles:
    def test_a_file_with_data_is_refused_and_the_sentence_says_how_to_name_it(self, tmp_path):
        path = tmp_path / "accounts.db"
        path.write_bytes(b"payroll" * 1000)
        text = refusal(path)
        assert text.startswith("5 MiB (5,242,880 bytes) would be written to")
        assert str(path) in text
        assert "contains no known signature" in text
        assert f"`--destroy {path}`" in text
        assert path.read_bytes() == b"payroll" * 1000

    def test_an_image_with_a_file_system_is_refused_by_its_name(self, image):
        path = image()
        put(path, 0, b"XFSB")
        assert "contains XFS file system" in refusal(path)

    def test_only_the_exact_path_permits(self, tmp_path):
        path = tmp_path / "old.dat"
        path.write_bytes(b"x")
        (tmp_path / "link.dat").symlink_to(path)
        for wrong in ("", "old.dat", str(tmp_path), f"{path}/", str(tmp_path / "link.dat")):
            text = refusal(path, destroy=wrong)
            assert not wrong or f"--destroy specifies {wrong}" in text
        for several in (f"OTHER,{path}", f"{path}, OTHER"):
            permit_write(path, destroy=several, bytes_to_write=1).close()
        with permit_write(tmp_path / "link.dat", destroy=str(path), bytes_to_write=1) as permit:
            assert permit.path == path
            assert Path(permit.safe_path).read_bytes() == b"x"

    def test_no_word_but_the_path_permits(self, tmp_path):
        path = tmp_path / "old.dat"
        path.write_bytes(b"x")
        # Who uses the file is the same for each word, and takes a look at all processes.
        state = inspect(path)

        @given(word=st.text(max_size=60))
        def refused(word):
            if word != str(path):
                with pytest.raises(RefusedError):
                    guard._judge(state, word, 1)

        refused()
        with pytest.raises(RefusedError):
            permit_write(path, destroy=f"{path}x", bytes_to_write=1)
        guard._judge(state, str(path), 1)

    def test_an_empty_file_is_permitted(self, tmp_path):
        empty = tmp_path / "empty.dat"
        empty.touch()
        permit_write(empty, destroy=None, bytes_to_write=1).close()

    def test_an_empty_file_that_is_written_to_after_the_look_must_be_named(
        self, tmp_path, monkeypatch
    ):
        empty = tmp_path / "empty.dat"
        empty.touch()
        claim = guard._claim

        def fill_then_claim(state, bytes_to_write):
            empty.write_bytes(b"precious")
            return claim(state, bytes_to_write)

        monkeypatch.setattr(guard, "_claim", fill_then_claim)
        assert "All data on it would be lost" in refusal(empty)

    def test_no_marker_next_to_a_file_proves_whose_it_is(self, tmp_path):
        for name in (".seatrial-run1", ".seatrial-run2", "photos"):
            folder = tmp_path / name
            folder.mkdir()
            write_marker(folder, "run1")
            (folder / "data").write_bytes(b"x")
            refusal(folder / "data")

    def test_a_new_file_is_made_and_held(self, tmp_path):
        path = tmp_path / "new.dat"
        with permit_write(path, destroy=None, bytes_to_write=1) as permit:
            assert permit.is_new
            assert path.stat().st_size == 0
            assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_a_file_open_for_writing_elsewhere_is_refused_whatever_is_said(self, tmp_path, child):
        path = tmp_path / "wal.dat"
        path.write_bytes(b"x")
        process = child(
            "import sys; file = open(sys.argv[1], 'r+b'); print(flush=True); input()", str(path)
        )
        process.stdout.readline()
        text = refusal(path, destroy=str(path))
        assert f"is open for writing by process {process.pid}" in text
        assert f"end process {process.pid}" in text
        assert "--destroy does not allow this" in text

    def test_a_reader_elsewhere_does_no_harm(self, tmp_path, child):
        path = tmp_path / "wal.dat"
        path.write_bytes(b"x")
        process = child("import sys; f = open(sys.argv[1]); print(flush=True); input()", str(path))
        process.stdout.readline()
        permit_write(path, destroy=str(path), bytes_to_write=1).close()

    @pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
    def test_a_directory_or_pipe_is_no_target(self, tmp_path, make):
        make(tmp_path / "odd")
        with pytest.raises(TargetError, match="neither a block device nor a regular file"):
            permit_write(tmp_path / "odd", destroy=None, bytes_to_write=1)

    def test_a_missing_file_cannot_be_inspected(self, tmp_path):
        with pytest.raises(TargetError, match="does not exist"):
            inspect(tmp_path / "none")

    def test_a_new_file_in_a_missing_folder_is_an_error(self, tmp_path):
        with pytest.raises(TargetError, match="cannot be opened for writing"):
            permit_write(tmp_path / "none/new.dat", destroy=None, bytes_to_write=1)

    def test_a_target_exchanged_between_check_and_claim_is_refused(self, tmp_path, monkeypatch):
        path = tmp_path / "old.dat"
        path.write_bytes(b"x")
        claim = guard._claim

        def exchange_then_claim(state, bytes_to_write):
            other = tmp_path / "other.dat"
            other.write_bytes(b"precious")
            other.rename(path)
            return claim(state, bytes_to_write)

        monkeypatch.setattr(guard, "_claim", exchange_then_claim)
        assert "no longer the target that was checked" in refusal(path, destroy=str(path))

    def test_a_link_put_in_its_place_between_check_and_claim_is_not_followed(
        self, tmp_path, monkeypatch
    ):
        path = tmp_path / "old.dat"
        path.write_bytes(b"x")
        claim = guard._claim

        def exchange_then_claim(state, bytes_to_write):
            path.rename(tmp_path / "moved.dat")
            path.symlink_to(tmp_path / "moved.dat")
            return claim(state, bytes_to_write)

        monkeypatch.setattr(guard, "_claim", exchange_then_claim)
        with pytest.raises(TargetError, match="cannot be opened for writing"):
            permit_write(path, destroy=str(path), bytes_to_write=1)

    def test_whoever_comes_between_check_and_claim_is_seen(self, tmp_path, monkeypatch):
        path = tmp_path / "old.dat"
        path.write_bytes(b"x")
        use = guard.Use(kind="loop", phrase="backs a loop", release="detach it")
        monkeypatch.setattr(guard, "_uses", lambda state, tree: (use,))
        assert "but it backs a loop" in refusal(path, destroy=str(path))

    def test_verify_reports_one_file_from_another(self, tmp_path):
        (tmp_path / "other").write_bytes(b"x")
        with permit_write(tmp_path / "new", destroy=None, bytes_to_write=1) as permit:
            with (tmp_path / "new").open() as same:
                permit.verify(same.fileno())
            with (tmp_path / "other").open() as other, pytest.raises(RefusedError):
                permit.verify(other.fileno())

    def test_a_serial_number_is_requested_where_there_is_one(self, image):
        state = replace(inspect(image()), kind="block", serial="S3Z9NB0K")
        with pytest.raises(RefusedError) as caught:
            guard._judge(state, str(state.path), 1024)
        text = str(caught.value)
        assert text.startswith("1 KiB (1,024 bytes) would be written to")
        assert "serial S3Z9NB0K" in text
        assert "with its serial number: `--destroy S3Z9NB0K`" in text
        guard._judge(state, "S3Z9NB0K", 1024)

    def test_what_may_not_be_looked_into_is_refused_all_the_same(self, image, monkeypatch):
        def deny(path):
            raise PermissionError(13, "Permission denied")

        path = image()
        monkeypatch.setattr(guard, "read_signatures", deny)
        assert "cannot be inspected (Permission denied)" in refusal(path)
        assert inspect(path).size_bytes == 64 * MIB

    def test_a_read_only_target_cannot_be_used(self, image):
        state = replace(inspect(image()), is_read_only=True)
        with pytest.raises(TargetError, match="read-only"):
            guard._judge(state, str(state.path), 1)


@pytest.mark.root
class TestLoopDevices:
    @pytest.mark.parametrize(
        ("command", "package", "bears"),
        [
            (["mkfs.ext4", "-q"], "e2fsprogs", "ext2/3/4 file system"),
            (["mkfs.xfs", "-q"], "xfsprogs", "XFS file system"),
            (["mkfs.btrfs", "-q"], "btrfs-progs", "Btrfs file system"),
            (["mkswap", "-q"], "util-linux", "Linux swap"),
        ],
    )
    def test_a_device_that_bears_something_must_be_named(
        self, image, loops, command, package, bears
    ):
        need_command(command[0], package)
        device = loops(image(size_bytes=512 * MIB))
        run(*command, str(device))
        text = refusal(device)
        assert text.startswith("5 MiB (5,242,880 bytes) would be written to")
        assert f"{device} (512 MiB (536,870,912 bytes), no serial number)" in text
        assert f"contains {bears}" in text
        assert f"exact path: `--destroy {device}`" in text
        refusal(device, destroy="loop0")
        permit_write(device, destroy=str(device), bytes_to_write=1).close()

    def test_marks_of_lvm_raid_zfs_and_partition_tables_are_reported(self, image, loops):
        path = image()
        put(path, 512, b"LABELONE")
        put(path, 4096, bytes.fromhex("fc4e2ba9"))
        put(path, 128 * 1024, bytes.fromhex("0cb1ba0000000000"))
        put(path, 64 * MIB - 512, b"EFI PART")
        text = refusal(loops(path))
        for mark in ("LVM2 LVM volume", "md 1.2 RAID", "ZFS RAID", "GPT (backup) partition table"):
            assert mark in text

    def test_a_plain_device_must_be_named_too(self, image, loops):
        device = loops(image())
        assert "contains no known signature" in refusal(device)
        permit_write(device, destroy=str(device), bytes_to_write=1).close()

    def test_a_mounted_device_is_refused_whatever_is_said(self, image, loops, mounts):
        device = loops(image())
        run("mkfs.ext4", "-q", str(device))
        point = mounts(device)
        text = refusal(device, destroy=str(device))
        assert f"is mounted on {point} (ext4)" in text
        assert f"`umount {point}`" in text
        assert inspect(device).uses[0].kind == "mounted"

    def test_a_mounted_device_is_refused_even_to_those_who_may_not_open_it(
        self, image, loops, mounts, monkeypatch
    ):
        device = loops(image())
        run("mkfs.ext4", "-q", str(device))
        point = mounts(device)

        def deny(path):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(guard, "exclusive_use", deny)
        text = refusal(device, destroy=str(device))
        assert f"is mounted on {point} (ext4)" in text
        assert "64 MiB" in text

    def test_a_mounted_btrfs_is_found_though_its_device_number_is_anonymous(
        self, image, loops, mounts
    ):
        need_command("mkfs.btrfs", "btrfs-progs")
        first = loops(image("a.img", 256 * MIB))
        second = loops(image("b.img", 256 * MIB))
        run("mkfs.btrfs", "-q", str(first), str(second))
        run("btrfs", "device", "scan", str(first), str(second))
        point = mounts(first)
        texts = [refusal(device, destroy=str(device)) for device in (first, second)]
        assert any(f"is mounted on {point} (btrfs)" in text for text in texts)
        assert any("one of several devices of a mounted btrfs" in text for text in texts)

    def test_a_mount_in_another_namespace_is_named_with_its_process(self, image, loops, child):
        need_command("unshare", "util-linux")
        device = loops(image())
        run("mkfs.ext4", "-q", str(device))
        code = """
            import subprocess, sys
            script = 'mount "$0" /mnt && echo mounted && read _'
            subprocess.run(["unshare", "--mount", "sh", "-c", script, sys.argv[1]])
        """
        process = child(code, str(device))
        assert process.stdout.readline() == "mounted\n"
        text = refusal(device, destroy=str(device))
        assert "is mounted on /mnt (ext4) in the mount namespace of process" in text
        process.stdin.write("\n")
        process.communicate()

    def test_a_disk_with_a_mounted_partition_is_refused(self, image, loops, mounts):
        need_command("addpart", "util-linux")
        disk = loops(image(), "--partscan")
        # Told to the kernel by hand: it may have been built without readers of partition tables.
        run("addpart", str(disk), "1", "2048", "100000")
        part = Path(f"{disk}p1")
        run("mkfs.ext4", "-q", str(part))
        permit_write(part, destroy=str(part), bytes_to_write=1).close()
        point = mounts(part)
        text = refusal(disk, destroy=str(disk))
        assert f"shares its data with {part.name}, which is mounted on {point}" in text

    def test_swap_is_refused_whatever_is_said(self, image, loops):
        device = loops(image())
        run("mkswap", "-q", str(device))
        run("swapon", str(device))
        try:
            text = refusal(device, destroy=str(device))
        finally:
            run("swapoff", str(device))
        assert "is in use as swap" in text
        assert f"`swapoff {device}`" in text

    def test_a_file_behind_a_loop_device_is_refused_whatever_is_said(self, image, loops):
        path = image()
        device = loops(path)
        assert f"is the backing file of {device}" in refusal(path, destroy=str(path))

    def test_a_device_behind_a_loop_device_is_refused_whatever_is_said(self, image, loops):
        lower = loops(image())
        upper = loops(lower)
        assert f"is the backing file of {upper}" in refusal(lower, destroy=str(lower))

    def test_a_permit_keeps_others_from_mounting_and_from_a_second_permit(self, image, loops):
        device = loops(image())
        run("mkfs.ext4", "-q", str(device))
        with permit_write(device, destroy=str(device), bytes_to_write=1) as permit:
            assert "claimed" in refusal(device, destroy=str(device))
            descriptor = os.open(permit.safe_path, os.O_RDWR | os.O_DIRECT)
            permit.verify(descriptor)
            os.close(descriptor)
        permit_write(device, destroy=str(device), bytes_to_write=1).close()

    def test_a_read_only_device_is_an_error_and_no_refusal(self, image, loops):
        device = loops(image(), "--read-only")
        with pytest.raises(TargetError, match="read-only"):
            permit_write(device, destroy=str(device), bytes_to_write=1)

    def test_a_link_to_a_device_is_judged_as_the_device(self, image, loops, tmp_path):
        device = loops(image())
        link = tmp_path / "by-name"
        link.symlink_to(device)
        assert f"`--destroy {device}`" in refusal(link, destroy=str(link))
        with permit_write(link, destroy=str(device), bytes_to_write=1) as permit:
            assert permit.path == device


def test_root_is_not_reported_to_become_root(monkeypatch):
    denied = os.strerror(errno.EPERM)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "container or sandbox" in str(unreadable(Path("/dev/sdx"), denied))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "sudo" in str(unreadable(Path("/dev/sdx"), denied))
