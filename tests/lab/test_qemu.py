"""The emulated machine: what it starts from, and where QEMU is installed, that it does."""

from __future__ import annotations

import io
import subprocess

import pytest

from seatrial.errors import SeatrialError
from seatrial.lab import qemu
from seatrial.lab.packages import installed, set_up
from seatrial.lab.qemu import archive
from seatrial.lab.session import open_lab, run_inside

MODULES = """\
kernel/a.ko: kernel/b.ko kernel/c.ko
kernel/b.ko: kernel/c.ko
kernel/c.ko:
kernel/other.ko: kernel/a.ko
"""


def test_modules_come_after_what_they_need(tmp_path):
    (tmp_path / "modules.dep").write_text(MODULES)
    found = list(qemu._with_dependencies(tmp_path, ("a", "builtin", "b")))
    assert [path.name for path in found] == ["c.ko", "b.ko", "a.ko"]


def test_an_archive_is_what_cpio_takes(machine, tmp_path):
    """Read by the busybox that the guest has; names and contents of every length modulo four."""
    programs = {f"p{'x' * length}": b"y" * length for length in range(6)}
    data = archive(("dev", "sys"), programs)
    busybox = str(machine.packages.root / "usr/bin/busybox")
    command = [busybox, "cpio", "-i", "-d"]
    subprocess.run(command, cwd=tmp_path, input=data, check=True, capture_output=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(["dev", "sys", *programs])
    for name, content in programs.items():
        assert (tmp_path / name).read_bytes() == content
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o755
    assert len(data) % 4 == 0
    assert io.BytesIO(data).read(6) == b"070701"


def test_a_machine_that_is_emulated_runs_a_command(tmp_path):
    if qemu.Qemu.obstacle():
        pytest.skip(qemu.Qemu.obstacle())
    try:
        machine = qemu.Qemu(installed("qemu") or set_up("qemu", print))
    except SeatrialError as error:
        pytest.skip(f"its kernel cannot be had: {error}")
    lines: list[str] = []
    script = "cat /proc/mdstat; cat /sys/block/vdb/serial; echo; uname -r; echo kept >kept; exit 7"
    with open_lab(machine, "emulated", disks=2, disk_bytes=1 << 20, directory=tmp_path) as lab:
        assert lab.devices == ["/dev/vda", "/dev/vdb"]
        argv = ["/bin/sh", "-c", script]
        assert run_inside(lab, argv, shared=tmp_path, report=lines.append) == 7
    assert "[raid5]" in "".join(lines)
    assert "lab-disk-2" in lines
    assert machine.label.split()[-1] in lines
    assert (tmp_path / "kept").read_text() == "kept\n"
