"""Block devices and loop devices as targets."""

import os

import pytest

from machine.conftest import run
from seatrial.errors import RefusedError, SeatrialError, TargetError
from seatrial.machine import guard, loop
from seatrial.machine.device import open_device
from seatrial.machine.guard import inspect
from seatrial.machine.loop import attach, detach
from seatrial.machine.undo_journal import UndoJournal
from seatrial.machine.undoers import loop_file
from seatrial.units import MIB


def test_a_file_is_no_device(image):
    with pytest.raises(TargetError, match="regular file, not a block device"):
        open_device(image())


def test_a_loop_device_needs_root(image, monkeypatch):
    monkeypatch.setattr(loop.os, "geteuid", lambda: 1000)
    journal = UndoJournal("run1")
    with pytest.raises(TargetError, match="require root"):
        attach(image(), journal)
    assert not journal.path.exists()


@pytest.mark.root
class TestDevices:
    @pytest.mark.parametrize("sector_bytes", [512, 4096])
    def test_size_and_blocks_are_those_of_the_device(self, image, loops, sector_bytes):
        path = loops(image(), f"--sector-size={sector_bytes}")
        with open_device(path) as device:
            assert device.size_bytes == 64 * MIB
            assert device.logical_block_bytes == sector_bytes
            assert device.physical_block_bytes >= sector_bytes
            assert device.permit is None

    def test_reading_needs_no_leave_even_on_a_mounted_device(self, image, loops, mounts):
        path = loops(image())
        run("mkfs.ext4", "-q", str(path))
        mounts(path)
        with open_device(path, bytes_to_write=0) as device:
            assert device.state.uses[0].kind == "mounted"
        with pytest.raises(RefusedError):
            open_device(path, destroy=str(path), bytes_to_write=4096)

    def test_writing_passes_the_guard_and_holds_the_device(self, image, loops):
        path = loops(image())
        with pytest.raises(RefusedError, match="1 MiB"):
            open_device(path, bytes_to_write=MIB)
        with open_device(path, destroy=str(path), bytes_to_write=MIB) as device:
            assert device.permit is not None
            assert inspect(path).uses[0].kind == "claimed"
        assert inspect(path).uses == ()

    def test_a_device_that_may_not_be_read_is_reported(self, image, loops, monkeypatch):
        def deny(path):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(guard, "exclusive_use", deny)
        path = loops(image())
        with pytest.raises(TargetError, match="cannot be read: Permission denied"):
            open_device(path)

    def test_a_device_without_a_medium_is_reported(self, loops, image):
        path = loops(image())
        run("losetup", "-d", str(path))
        with pytest.raises(TargetError, match="size of 0 bytes"):
            open_device(path)


@pytest.mark.root
class TestLoops:
    def test_attach_records_before_and_detach_settles(self, image):
        path = image()
        with UndoJournal("run1") as journal:
            made = attach(path, journal, direct=True)
            assert loop_file(made.path.name) == str(path)
            assert str(made.path) in journal.path.read_text()
            with open_device(made.path) as device:
                assert device.logical_block_bytes == 512
            assert detach(made, journal).outcome == "undone"
            assert loop_file(made.path.name) == ""
            assert not journal.path.exists()

    def test_a_device_taken_meanwhile_is_passed_over(self, image, loops, monkeypatch):
        """Between asking for a free device and attaching, another process takes it."""
        thief = image("thief.img")
        real = loop.run_command
        stolen = []

        def race(*argv):
            said = real(*argv)
            if argv[1] == "--find" and not stolen:
                stolen.append(loops(thief))
            return said

        monkeypatch.setattr(loop, "run_command", race)
        with UndoJournal("run1") as journal:
            made = attach(image("ours.img"), journal)
            assert made.path != stolen[0]
        assert loop_file(stolen[0].name) == str(thief), "what is not ours is not detached"

    def test_a_failure_leaves_no_record(self, image, monkeypatch):
        real = loop.run_command
        monkeypatch.setattr(
            loop,
            "run_command",
            lambda *argv: real(*argv, *([] if "--find" in argv else ["--wrong"])),
        )
        with UndoJournal("run1") as journal:
            with pytest.raises(SeatrialError, match="losetup"):
                attach(image(), journal)
            assert not journal.path.exists()

    @pytest.mark.parametrize("make", [os.mkdir, lambda path: None])
    def test_only_a_file_can_stand_behind_it(self, tmp_path, make):
        make(tmp_path / "odd")
        with pytest.raises(TargetError, match="not a regular file"):
            attach(tmp_path / "odd", UndoJournal("run1"))
