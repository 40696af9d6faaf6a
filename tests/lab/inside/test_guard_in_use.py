"""The guard on loop devices that md, LVM and the device-mapper have taken, active and at rest."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seatrial.errors import RefusedError
from seatrial.machine.guard import inspect, permit_write

LOOP_BYTES = 64 << 20


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def loop(tmp_path: Path, disks: list[str]) -> Iterator[Callable[[], str]]:
    """Attach loop devices; ``disks`` sees to it that nothing is left standing on them."""
    attached: list[str] = []

    def attach() -> str:
        file = tmp_path / f"{len(attached)}.img"
        with file.open("wb") as sparse:
            sparse.truncate(LOOP_BYTES)
        attached.append(run("losetup", "--find", "--show", str(file)).strip())
        return attached[-1]

    yield attach
    for device in attached:
        subprocess.run(["losetup", "-d", device], check=False)


def refusal(device: str, destroy: str | None) -> str:
    with pytest.raises(RefusedError) as caught:
        permit_write(device, destroy=destroy, bytes_to_write=1)
    return str(caught.value)


def is_permitted(device: str) -> bool:
    """Return whether it is once it is named by what the guard asks for."""
    state = inspect(device)
    permit_write(device, destroy=state.destroy_word, bytes_to_write=1).close()
    return True


def test_a_member_of_an_array_that_runs_is_refused_and_one_at_rest_must_be_named(loop):
    members = [loop(), loop()]
    options = ("--run", "--level=1", "--raid-devices=2", "--assume-clean")
    run("mdadm", "--create", "/dev/md5", *options, *members)
    try:
        for member in members:
            text = refusal(member, member)
            assert "is held by md5 (md raid1)" in text
            assert "--destroy does not allow this" in text
        run("mkfs.ext4", "-q", "/dev/md5")
        run("mount", "/dev/md5", "/mnt")
        assert "is held by md5 (md raid1), which is mounted on /mnt" in refusal(
            members[0], members[0]
        )
        assert "is mounted on /mnt (ext4)" in refusal("/dev/md5", inspect("/dev/md5").destroy_word)
        run("umount", "/mnt")
    finally:
        run("mdadm", "--stop", "/dev/md5")
    assert "contains md 1.2 RAID member" in refusal(members[1], None)
    assert is_permitted(members[1])


def test_a_physical_volume_is_refused_while_a_volume_on_it_is_active(loop):
    volume = loop()
    run("pvcreate", "--yes", volume)
    assert "contains LVM2 LVM volume" in refusal(volume, None)
    run("vgcreate", "in-use", volume)
    run("lvcreate", "--yes", "--name", "data", "--size", "16M", "in-use")
    try:
        assert "(LVM volume in--use-data)" in refusal(volume, volume)
        run("mkswap", "-q", "/dev/in-use/data")
        run("swapon", "/dev/in-use/data")
        assert "is in use as swap" in refusal("/dev/in-use/data", "")
        run("swapoff", "/dev/in-use/data")
        run("vgchange", "-an", "in-use")
        assert "LVM2 LVM volume" in refusal(volume, None)
        assert is_permitted(volume)
    finally:
        run("vgremove", "--force", "--yes", "in-use")


def test_what_the_device_mapper_holds_is_refused_whatever_is_said(loop):
    lower = loop()
    sectors = LOOP_BYTES // 512
    run("dmsetup", "create", "others", "--table", f"0 {sectors} linear {lower} 0")
    try:
        text = refusal(lower, lower)
        assert "(device-mapper volume others)" in text
        assert "remove it from dm-" in text
    finally:
        run("dmsetup", "remove", "others")
    assert is_permitted(lower)
