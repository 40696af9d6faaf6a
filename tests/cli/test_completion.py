"""``seatrial completion``: what a real bash completes with the script."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .command import seatrial

COMPLETED_BY_BASH = """
source "$1"
COMP_WORDS=(seatrial {words}); COMP_CWORD={count}
_seatrial_completion seatrial
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(tmp_path: Path, words: str) -> list[str]:
    script = tmp_path / "seatrial.bash"
    script.write_text(seatrial("completion", "bash", folder=tmp_path).out)
    program = COMPLETED_BY_BASH.format(words=words, count=len(words.split()))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", program, "bash", str(script)],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
    )
    return done.stdout.split()


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [("la", ["lab", "layout"]), ("run --fu", ["--full"]), ("sql rep", ["replay"])],
)
def test_bash_completes_commands_and_options(tmp_path, words, expected):
    assert completed(tmp_path, words) == expected


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_studies_and_stored_runs(tmp_path):
    assert completed(tmp_path, "study one-") == ["one-dvd-per-second"]
    seatrial(
        *("io", "null", "--size", "1MiB", "--seconds", "0.1", "--label", "baseline"),
        folder=tmp_path,
    )
    identifier = seatrial("list", "--json", folder=tmp_path).document["runs"][0]["id"]
    assert completed(tmp_path, "show base") == ["baseline"]
    assert completed(tmp_path, f"compare last {identifier[:6]}") == [identifier]
    assert completed(tmp_path, "export las") == ["last"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script(tmp_path, shell):
    ended = seatrial("completion", shell, folder=tmp_path)
    assert ended.code == 0
    assert "_SEATRIAL_COMPLETE" in ended.out


def test_an_unknown_shell_is_a_usage_error(tmp_path):
    assert seatrial("completion", "tcsh", folder=tmp_path).code == 2


def test_fish_shows_what_follows_a_comma(tmp_path):
    script = seatrial("completion", "fish", folder=tmp_path).out
    assert 'string split --max 1 ","' in script
