"""The head dies while a study is measured: what was committed is there, and the rest follows."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from fleet.shared_lab import LabRequest, lab_of, stored, study_of
from seatrial.errors import EXIT_PARTIAL

pytestmark = [pytest.mark.ray, pytest.mark.root, pytest.mark.slow]

ROUNDS = 5
REQUEST = LabRequest(hosts_count=1)


def test_a_run_without_its_head_ends_with_a_sentence_and_goes_on_elsewhere(lab, target, tmp_path):
    path, results = tmp_path / "study.toml", tmp_path / "results.seatrial"
    study = study_of(target, "[1]", workload="threads = 1\nseconds = 1")
    path.write_text(study.replace("min = 3\nmax = 3", f"min = {ROUNDS}\nmax = {ROUNDS}"))
    command = [sys.executable, "-m", "seatrial", "study", str(path), "--results", str(results)]
    command += ["--no-report", "--progress", "none", "--ray"]
    with lab_of(REQUEST, f"head-dies-{os.getpid()}") as doomed:
        conducting = subprocess.Popen(
            [*command, doomed.address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        give_up_at_s = time.monotonic() + 90
        while len(stored(results)) < 2:
            assert conducting.poll() is None, conducting.communicate()
            assert time.monotonic() < give_up_at_s
            time.sleep(0.1)
        doomed.kill(0)
        out, error = conducting.communicate(timeout=50)
    assert conducting.returncode == EXIT_PARTIAL, out + error
    assert "The head of the cluster at " in (error + out).splitlines()[0], out + error
    stored_count = len(stored(results))
    assert 2 <= stored_count < ROUNDS
    done = subprocess.run(
        [*command, lab.address, "--resume"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(stored(results)) == ROUNDS
    assert [each.name for each in target.iterdir()] == ["lost+found"]
