"""``kill -9`` of the whole command while its guest measures: ``seatrial clean`` leaves nothing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from cli.command import ended, seatrial, start
from seatrial.lab.undoing import lab_processes

PATIENCE_S = 40.0
STUDY = """
name = "long"
rounds = { min = 1, max = 1 }

[drives]
lab = "2x64M"

[[layout]]
name = "pair"
backend = "md"
level = "raid1"
drives = 2
filesystem = "ext4"
size = "8MiB"
initial_sync = false

[[workload]]
kind = "io"
operations = "write"
block_sizes = "4KiB"
seconds = 300
"""


@pytest.fixture
def running(machine, lab_environment, tmp_path):
    """A lab in which a study measures; the command, and its environment."""
    (tmp_path / "long.toml").write_text(STUDY)
    environment = {**lab_environment, "TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    process = start(
        *("lab", "long.toml", "--machine", "uml"),
        folder=tmp_path,
        env=environment,
        start_new_session=True,
    )
    give_up_s = time.monotonic() + PATIENCE_S
    while not list(tmp_path.glob("results.seatrial.lab-*/*.seatrial")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < give_up_s, "the study did not begin"
        time.sleep(0.1)
    yield process, environment
    process.kill()
    process.communicate()


def of_the_lab(machine, folder: Path) -> list[int]:
    return list(lab_processes(str(folder), str(machine.program.resolve())))


@pytest.mark.parametrize("group", [False, True])
def test_a_killed_lab_leaves_no_process_image_or_folder(machine, running, tmp_path, group):
    process, environment = running
    (folder,) = (tmp_path / "tmp").glob(".seatrial-*")
    assert of_the_lab(machine, folder)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) >= 2 * (
        64 << 20
    )
    if group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    ended(process)
    cleaned = seatrial("clean", folder=tmp_path, env=environment)
    assert cleaned.code == 0, cleaned.out
    assert of_the_lab(machine, folder) == []
    assert not folder.exists()
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["undo.lock"]
