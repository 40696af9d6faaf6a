"""The drives of a run: judged together, refused together, made of files and given back."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from machine.conftest import run
from machine.loops import loops_over
from seatrial.errors import RefusedError, SpaceError, StudyError, TargetError
from seatrial.machine import guard, uses
from seatrial.machine.sysblock import device_size_bytes
from seatrial.machine.undo_journal import UndoJournal
from seatrial.study.layouts.layout import Drives
from seatrial.trials.layouts.build import drives as drives_module
from seatrial.trials.layouts.build.drives import OpenDrives
from seatrial.trials.layouts.build.failing import can_fail, fail_drive
from seatrial.units import MIB


@pytest.fixture
def journal():
    return UndoJournal("drives")


def opening(journal, needed=1, destroy=None, **named):
    return OpenDrives(Drives(**named), journal.run_id, journal, destroy, needed)


def refusal(journal, devices, destroy=None):
    with pytest.raises(RefusedError) as caught:
        opening(journal, devices=[str(each) for each in devices], destroy=destroy).open()
    return str(caught.value)


@pytest.mark.parametrize(
    ("named", "needed", "sentence"),
    [
        ({}, 4, "Use --loop 4x2G"),
        ({"lab": "4x64M"}, 4, "seatrial lab"),
        ({"loop": "3x1M"}, 4, "needs 4 drives, but 3 were given"),
        ({"devices": ["/dev/null"]}, 2, "needs 2 drives, but 1 were given"),
        ({"loop": "many"}, 1, "Example: 6x2G"),
    ],
)
def test_drives_that_are_not_there_are_requested(journal, named, needed, sentence):
    with pytest.raises(StudyError) as caught:
        opening(journal, needed, **named).open()
    assert sentence in str(caught.value)
    assert not journal.path.exists()


def test_files_are_no_drives(journal, image):
    with pytest.raises(TargetError, match="is a regular file"):
        opening(journal, devices=[str(image())]).open()


def test_a_folder_that_is_too_small_is_reported_before_anything_is_made(journal, tmp_path):
    with pytest.raises(SpaceError, match="--loop"):
        opening(journal, 2, loop="2x900T", folder=str(tmp_path)).open()
    assert list(tmp_path.iterdir()) == []
    assert not journal.path.exists()


@pytest.mark.root
class TestLoopDevices:
    def test_they_are_made_of_sparse_files_and_given_back(self, journal, tmp_path):
        with opening(journal, 3, loop="3x64M", folder=str(tmp_path)) as opened:
            assert len(set(opened.paths)) == 3
            assert {device_size_bytes(each) for each in opened.paths} == {64 * MIB}
            held = sum(path.stat().st_blocks for path in tmp_path.glob(".seatrial-*/*.img"))
            assert held * 512 < MIB
            assert len(loops_over(tmp_path)) == 3
        assert loops_over(tmp_path) == []
        assert list(tmp_path.iterdir()) == []
        assert not journal.path.exists()

    def test_they_are_alike_whatever_they_stood_for_before(self, journal, tmp_path):
        def read_ahead(device):
            return Path(f"/sys/block/{Path(device).name}/queue/read_ahead_kb")

        with opening(journal, 2, loop="2x64M", folder=str(tmp_path)) as opened:
            read_ahead(opened.paths[0]).write_text("4096")
        with opening(journal, 2, loop="2x64M", folder=str(tmp_path)) as opened:
            opened.recheck()
            assert {read_ahead(each).read_text() for each in opened.paths} == {"128\n"}

    def test_before_every_build_they_are_whole_and_empty_again(self, journal, tmp_path):
        with opening(journal, 2, loop="2x64M", folder=str(tmp_path)) as opened:
            first, second = map(Path, opened.paths)
            with first.open("r+b") as device:
                device.write(b"left behind")
            fail_drive(str(second))
            assert second.read_bytes() == b""
            opened.recheck()
            assert first.read_bytes()[:11] == bytes(11)
            assert len(second.read_bytes()) == 64 * MIB

    def test_what_still_stands_on_them_is_not_torn_away(self, journal, tmp_path, mounts):
        with opening(journal, loop="1x64M", folder=str(tmp_path)) as opened:
            run("mkfs.ext4", "-q", opened.paths[0])
            point = mounts(opened.paths[0])
            with pytest.raises(TargetError, match=f"is mounted on {point}"):
                opened.recheck()
            assert (point / "lost+found").is_dir()
            run("umount", str(point))

    def test_the_file_that_another_program_attached_meanwhile_is_not_emptied(
        self, journal, tmp_path, image
    ):
        with opening(journal, loop="1x64M", folder=str(tmp_path)) as opened:
            run("losetup", "-d", opened.paths[0])
            theirs = image("theirs.img")
            theirs.write_bytes(b"data" * 1024)
            run("losetup", opened.paths[0], str(theirs))
            with pytest.raises(TargetError, match="no longer attached"):
                opened.recheck()
            assert theirs.read_bytes() == b"data" * 1024
            run("losetup", "-d", opened.paths[0])

    def test_a_failure_on_the_way_leaves_nothing(self, journal, tmp_path, monkeypatch):
        made = []
        attach = drives_module.attach

        def attach_two(*arguments, **options):
            if len(made) == 2:
                raise TargetError(seen="None is free", cause="Others took them", next_step="Wait")
            made.append(attach(*arguments, **options))
            return made[-1]

        monkeypatch.setattr(drives_module, "attach", attach_two)
        with pytest.raises(TargetError, match="None is free"):
            opening(journal, 3, loop="3x64M", folder=str(tmp_path)).open()
        assert len(made) == 2
        assert loops_over(tmp_path) == []
        assert list(tmp_path.iterdir()) == []

    def test_only_drives_of_the_run_can_be_made_to_fail(self, journal, tmp_path, image, loops):
        other = loops(image())
        with opening(journal, loop="1x64M", folder=str(tmp_path)) as opened:
            assert can_fail(opened.paths[0])
            assert not can_fail(str(other))
            with pytest.raises(TargetError, match="pull the drive manually"):
                fail_drive(str(other))
            assert len(other.read_bytes()) == 64 * MIB


@pytest.mark.root
class TestDevices:
    def test_all_that_are_refused_are_reported_at_once_with_what_must_be_given(
        self, journal, image, loops, mounts
    ):
        mounted, full, blank, named = (loops(image(f"{name}.img")) for name in "abcd")
        for device in (mounted, full):
            run("mkfs.ext4", "-q", str(device))
        point = mounts(mounted)
        text = refusal(journal, [mounted, full, blank, named], destroy=str(named))
        assert text.startswith("3 of 4 drives were refused, nothing was written:")
        size = "(64 MiB (67,108,864 bytes), no serial number)"
        assert f"{mounted} {size} is mounted on {point} (ext4)" in text
        assert f"{full} {size} contains ext2/3/4 file system and is not named" in text
        assert f"{blank} {size} contains no known signature and is not named" in text
        assert f"First unmount it with `umount {point}`" in text
        assert f"`--destroy {mounted},{full},{blank},{named}`" in text

    def test_those_that_are_all_named_are_theirs_in_order_and_free_to_be_built_on(
        self, journal, image, loops, tmp_path
    ):
        first, second = loops(image("a.img")), loops(image("b.img"))
        link = tmp_path / "by-id"
        link.symlink_to(second)
        words = f" {first} , {second}"
        with opening(journal, 2, words, devices=[str(link), str(first)]) as opened:
            assert opened.paths == [str(second), str(first)]
            run("mkfs.ext4", "-q", str(first))
            opened.recheck()
        assert not journal.path.exists()

    def test_they_are_judged_again_before_every_build(self, journal, image, loops, mounts):
        device = loops(image())
        with opening(journal, 1, str(device), devices=[str(device)]) as opened:
            run("mkfs.ext4", "-q", str(device))
            point = mounts(device)
            with pytest.raises(RefusedError, match=f"is mounted on {point}"):
                opened.recheck()

    def test_names_that_lead_to_other_disks_than_at_first_are_refused(
        self, journal, image, loops, tmp_path
    ):
        first, second = loops(image("a.img")), loops(image("b.img"))
        link = tmp_path / "by-id"
        link.symlink_to(first)
        with opening(journal, 1, f"{first},{second}", devices=[str(link)]) as opened:
            link.unlink()
            link.symlink_to(second)
            with pytest.raises(RefusedError, match=f"lead to {second}"):
                opened.recheck()

    def test_one_look_at_all_open_files_reports_which_drive_somebody_writes_to(
        self, journal, image, loops, monkeypatch
    ):
        looks = []
        really = uses.open_files

        def look(tree):
            looks.append(really(tree))
            return looks[-1]

        monkeypatch.setattr(uses, "open_files", look)
        free, written = loops(image("a.img")), loops(image("b.img"))
        writer = subprocess.Popen(
            ["sh", "-c", 'exec 5<>"$1"; echo up; read -r _', "sh", str(written)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert writer.stdout.readline() == b"up\n"
            text = refusal(journal, [free, written], destroy=f"{free},{written}")
        finally:
            writer.communicate()
        assert text.startswith("1 of 2 drives were refused")
        assert f"is open for writing by process {writer.pid} (sh)" in text
        assert len(looks) == 1

    def test_a_device_that_was_exchanged_since_it_was_looked_at_is_refused(self, image, loops):
        device = loops(image())
        other = replace(guard.inspect(device), identity=guard.inspect(loops(image("b"))).identity)
        with pytest.raises(RefusedError, match="no longer the target"):
            guard.require_permitted(other, destroy=str(device))
        guard.require_permitted(guard.inspect(device), destroy=str(device))
        guard.permit_write(device, destroy=str(device), bytes_to_write=1).close()

    def test_one_drive_under_two_names_is_refused(self, journal, image, loops, tmp_path):
        device = loops(image())
        link = tmp_path / "link"
        link.symlink_to(device)
        text = refusal(journal, [device, link], destroy=str(device))
        assert f"{device} and {link} are both given" in text

    def test_partitions_are_drives_but_not_next_to_their_disk(self, journal, image, loops):
        disk = loops(image(), "--partscan")
        for number, start in ((1, 2048), (2, 60000)):
            run("addpart", str(disk), str(number), str(start), "40000")
        parts = [f"{disk}p1", f"{disk}p2"]
        with opening(journal, 2, ",".join(parts), devices=parts) as opened:
            assert opened.paths == parts
        for pair in ([disk, parts[1]], [parts[1], disk]):
            text = refusal(journal, pair, destroy=f"{disk},{parts[1]}")
            assert "on the same disk" in text
