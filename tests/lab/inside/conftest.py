"""Fixtures of tests that run inside the lab, as root of its guest.

Every path of the host is there, everything may be written, and nothing of it stays. What a test
leaves behind fails it: arrays, device-mapper devices and mounts are looked for at its end.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

WIPED_BYTES = 4 << 20


if "SEATRIAL_LAB_SHARED" in os.environ:

    def pytest_runtest_logreport(report: pytest.TestReport) -> None:
        """Tell outside what became of a test, at once: the guest may not live to its end."""
        if report.when != "call" and report.outcome == "passed":
            return
        words = report.longreprtext if report.failed else ""
        if report.skipped:
            words = str(
                report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            )
        path, _, test = report.nodeid.partition("::")
        reported = {
            "test": f"{Path(path).name}::{test.partition('[')[0]}",
            "outcome": report.outcome,
            "words": words + "".join(f"\n--- {name}\n{text}" for name, text in report.sections),
        }
        with Path(os.environ["SEATRIAL_LAB_SHARED"], "outcomes.jsonl").open("a") as file:
            file.write(json.dumps(reported) + "\n")
            file.flush()
            os.fsync(file.fileno())


@pytest.fixture
def disks() -> Iterator[list[str]]:
    """The lab's disks, eight of 256 MiB, such as ``/dev/ubda``: blank, and free again."""
    devices = os.environ["SEATRIAL_LAB_DISKS"].split(",")
    for device in devices:
        wipe(device)
    yield devices
    left = leftovers()
    clear_away()
    assert left == [], "the test left these behind"


@pytest.fixture(autouse=True)
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for the undo journals of one test."""
    folder = tmp_path / "state"
    folder.mkdir()
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(folder))
    return folder


def wipe(device: str) -> None:
    """Overwrite the first and last 4 MiB, where all signatures lie."""
    with open(device, "r+b", buffering=0) as disk:  # noqa: PTH123 - a device, unbuffered
        size_bytes = disk.seek(0, os.SEEK_END)
        for offset_bytes in (0, size_bytes - WIPED_BYTES):
            disk.seek(offset_bytes)
            disk.write(bytes(WIPED_BYTES))
        os.fsync(disk.fileno())


def leftovers() -> list[str]:
    """What stands on the disks: arrays, device-mapper devices, mounts."""
    blocks = sorted(path.name for path in Path("/sys/block").iterdir())
    found = [f"/dev/{name}" for name in blocks if name.startswith(("md", "dm-"))]
    mounts = [line.split()[:2] for line in Path("/proc/mounts").read_text().splitlines()]
    return found + [f"{source} on {point}" for source, point in mounts if source[:5] == "/dev/"]


def clear_away() -> None:
    """Take apart what a failed test left, so that the next one has blank disks."""
    for line in reversed(Path("/proc/mounts").read_text().splitlines()):
        source, point = line.split()[:2]
        if source.startswith("/dev/"):
            run("umount", "-l", point)
    run("vgchange", "-an")
    run("dmsetup", "remove_all", "--force")
    for path in sorted(Path("/sys/block").glob("md*"), reverse=True):
        run("mdadm", "--stop", f"/dev/{path.name}")
    run("dmsetup", "remove_all", "--force")


def run(*argv: str) -> None:
    subprocess.run(argv, check=False, capture_output=True)
