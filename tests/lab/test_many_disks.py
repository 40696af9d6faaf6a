"""Many disks with many requests at once: the kernel's own thread takes them all, and none is lost.

Without ``short_queues`` mkfs hangs here for ever in most runs.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from seatrial.lab.uml import short_queues
from seatrial.machine.fingerprint.tree import SystemTree

DISKS = 10
PATIENCE_S = 200
TRIMMING = """
mdadm --create /dev/md200 --run --homehost=none --name=a --level=raid0 --raid-devices=5 \
    /dev/ubda /dev/ubdb /dev/ubdc /dev/ubdd /dev/ubde 2>/dev/null
mdadm --create /dev/md201 --run --homehost=none --name=b --level=raid0 --raid-devices=5 \
    /dev/ubdf /dev/ubdg /dev/ubdh /dev/ubdi /dev/ubdj 2>/dev/null
size=$(($(blockdev --getsz /dev/md200) / 256 * 256))
echo "0 $((2 * size)) striped 2 256 /dev/md200 0 /dev/md201 0" | dmsetup create --noudevsync over
dmsetup mknodes
for scheduler in mq-deadline none; do
    for queue in /sys/block/ubd*/queue; do echo $scheduler >$queue/scheduler; done
    for _ in 1 2 3 4; do
        mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/over && echo made
    done
done
"""
LAB = """
import sys
from pathlib import Path
from lab.conftest import lab_machine
from seatrial.lab.session import open_lab, run_inside
shared, command = Path(sys.argv[1]), ["bash", "-c", sys.argv[2]]
with open_lab(lab_machine(), "many", disks=DISKS, disk_bytes=256 << 20, directory=shared) as lab:
    run_inside(lab, command, shared=shared, report=print)
"""


def test_ten_disks_that_are_trimmed_and_zeroed_at_once_do_not_hang(machine, tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", LAB.replace("DISKS", str(DISKS)), str(tmp_path), TRIMMING],
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "SEATRIAL_STATE_DIR": str(tmp_path / "state"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert ended.stdout.count("made") == 8, ended.stdout


@pytest.mark.parametrize(
    ("reported_bytes", "disks", "depth"),
    [("212992", 10, 20), ("212992", 16, 13), ("4096", 16, 4), (None, 10, 20)],
)
def test_the_queues_together_fit_into_the_hosts_socket(tmp_path, reported_bytes, disks, depth):
    folder = tmp_path / "proc/sys/net/core"
    folder.mkdir(parents=True)
    if reported_bytes:
        (folder / "wmem_default").write_text(f"{reported_bytes}\n")
    script = "\n".join(short_queues(disks, SystemTree(tmp_path)))
    assert f"echo {depth} >$q/nr_requests" in script


def test_without_disks_nothing_is_set():
    assert short_queues(0) == []
