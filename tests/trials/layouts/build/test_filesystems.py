"""File systems on arrays: options that fit the stripes, marks of ours on bare drives."""

from __future__ import annotations

import subprocess

import pytest

from machine.conftest import need_command
from seatrial.trials.layouts.build import filesystems
from seatrial.trials.layouts.build.filesystems import make_step, mount_step, too_small
from seatrial.units import MIB
from trials.layouts.build.specs import NAME, variant


def made(spec, *, bare: bool = False, size_bytes: int = 0) -> str:
    return str(make_step(spec, NAME, "/dev/md200", bare=bare, size_bytes=size_bytes))


@pytest.mark.parametrize(
    ("spec", "reported"),
    [
        (variant("md", "raid5", 4), "su=128k,sw=3"),
        (variant("md", "raid6", 8, chunk_kib=64), "su=64k,sw=6"),
        (variant("md", "raid10", 6), "su=128k,sw=3"),
        (variant("md+lvm", "raid5", 4, legs=2), "su=128k,sw=6"),
        (variant("md+lvm", "raid5", 4, legs=2, expose="legs"), "su=128k,sw=3"),
        (variant("md+md", "single", 1, legs=4, stripe_kib=256), "su=256k,sw=4"),
        (variant("md+md", "raid1", 2, legs=4, stripe_kib=256), "su=256k,sw=4"),
    ],
)
def test_xfs_knows_the_chunk_and_how_many_hold_data(spec, reported):
    assert f"-d {reported} /dev/md200" in made(spec)


@pytest.mark.parametrize("spec", [variant("md", "raid1", 2), variant("single", "single", 1)])
def test_what_is_not_striped_is_reported_nothing_of_stripes(spec):
    assert "su=" not in made(spec)


def test_ext4_counts_stripes_in_blocks_whatever_its_size_and_leaves_nothing_for_later():
    reported = made(variant("md", "raid5", 4, chunk_kib=64, filesystem="ext4"))
    assert "-b 4096" in reported, "a small ext4 would have blocks of 1 KiB"
    assert "stride=16,stripe_width=48" in reported
    assert "lazy_itable_init=0,lazy_journal_init=0" in reported


def test_labels_say_whose_they_are_in_the_length_that_each_allows():
    labels = {
        kind: make_step(variant(filesystem=kind), NAME, "/dev/md200", bare=True).details["label"]
        for kind in filesystems.FILESYSTEMS
    }
    assert labels == {
        "xfs": "st-00-3fa2-1",
        "ext4": "st-074500-3fa2-1",
        "jfs": "st-074500-3fa2-1",
        "btrfs": NAME,
    }


def test_options_of_the_study_come_last_before_the_device():
    spec = variant(mkfs_options=["-i", "size=1024"], mount_options=["noatime", "nobarrier"])
    assert made(spec).endswith("-i size=1024 /dev/md200")
    assert str(mount_step(spec, "/dev/md200", "/x")) == (
        "mount -t xfs -o noatime,nobarrier /dev/md200 /x"
    )


def test_a_small_striped_xfs_has_groups_that_hold_its_log():
    assert "agcount=4" in made(variant(), size_bytes=512 * MIB)
    assert "agcount" not in made(variant(), size_bytes=2048 * MIB)
    assert "agcount" not in made(variant())


@pytest.mark.parametrize(
    ("kind", "ends"),
    [
        ("xfs", f"size={64 * MIB} /dev/md200"),
        ("ext4", "/dev/md200 16384"),
        ("jfs", "/dev/md200 16384"),
        ("btrfs", f"-b {64 * MIB} /dev/md200"),
    ],
)
def test_a_bare_drive_is_used_in_part_and_its_mark_recorded(kind, ends):
    spec = variant("single", "single", 1, filesystem=kind, member_bytes=64 * MIB)
    assert made(spec, bare=True).endswith(ends)
    assert make_step(spec, NAME, "/dev/sda", bare=True).undo == "signature"
    assert make_step(spec, NAME, "/dev/md200", bare=False).undo == ""
    assert str(16384) not in made(spec), "an array has its size already"


def test_what_is_too_small_is_said_before():
    assert too_small("xfs", 299 * MIB) == (
        "mkfs.xfs needs at least 300 MiB, but the array has 299 MiB"
    )
    assert too_small("xfs", 300 * MIB) == ""
    assert too_small("none", 0) == ""


@pytest.fixture
def image(tmp_path):
    need_command("mkfs.ext4", "e2fsprogs")
    path = tmp_path / "drive"
    with path.open("wb") as file:
        file.truncate(16 * MIB)
    return path


def test_the_mark_of_a_file_system_is_taken_off_if_its_label_is_ours(image):
    spec = variant("single", "single", 1, filesystem="ext4")
    step = make_step(spec, NAME, str(image), bare=True)
    undo = filesystems.undo_signature
    assert undo(**step.details).outcome == "gone", "nothing was made yet"
    subprocess.run(step.command, check=True, capture_output=True)
    assert undo(**step.details | {"label": "another"}).outcome == "foreign"
    assert undo(**step.details).outcome == "undone"
    assert undo(**step.details).outcome == "gone", "it may be called again"
    image.unlink()
    assert undo(**step.details).detail == "the drive is gone"


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_what_the_programs_are_reported_they_take(tmp_path, kind):
    """On a sparse file, which no kernel needs to know."""
    program = filesystems.FILESYSTEMS[kind].program
    need_command(program.name, program.package)
    path = tmp_path / "array"
    with path.open("wb") as file:
        file.truncate(512 * MIB)
    spec = variant("md", "raid5", 4, filesystem=kind)
    step = make_step(spec, NAME, str(path), bare=False, size_bytes=512 * MIB)
    subprocess.run(step.command, check=True, capture_output=True)
    said = subprocess.run(
        ["blkid", "-p", "-o", "export", str(path)], check=True, capture_output=True, text=True
    )
    assert f"TYPE={kind}" in said.stdout
    assert f"LABEL={step.command[step.command.index('-L') + 1]}" in said.stdout
