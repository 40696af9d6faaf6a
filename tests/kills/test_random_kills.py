"""A few kills at random moments leave nothing; tests/kills/random_kills.py does thousands."""

import subprocess
import sys
from pathlib import Path

import pytest

KILLS = 15
SCRIPT = Path(__file__).with_name("random_kills.py")


@pytest.mark.slow
def test_kills_at_random_moments_leave_nothing_after_clean():
    command = [sys.executable, str(SCRIPT), "--kills", str(KILLS), "--seed", "11"]
    command += ["--only", "io,db,replay,layouts,pool"]
    reported = subprocess.run(command, capture_output=True, text=True, check=False)
    assert reported.returncode == 0, reported.stdout + reported.stderr
    assert f"{KILLS} kills, 0 left something" in reported.stdout
