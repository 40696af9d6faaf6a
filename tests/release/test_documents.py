"""What is made for a release besides the wheels: the manual pages."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial.cli.main import commands

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("man1")
    program = ROOT / "tools/release/man_pages.py"
    subprocess.run([sys.executable, program, folder], check=True)
    return folder


def test_every_command_has_a_page(pages):
    names = {path.name for path in pages.iterdir()}
    assert {"seatrial.1", *(f"seatrial-{name}.1" for name in commands())} <= names
    assert "seatrial-sql-read.1" in names


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff")
def test_pages_are_sound_and_keep_options_examples_and_exit_codes(pages):
    for path in pages.iterdir():
        shown = subprocess.run(
            ["groff", "-man", "-Tutf8", "-P-c", "-P-b", "-P-u", "-ww", path],
            check=True,
            capture_output=True,
            text=True,
        )
        assert shown.stderr == "", path.name
        if path.name == "seatrial-sql-read.1":
            assert "--prefix PREFIX" in shown.stdout
            assert "seatrial sql read postgresql.csv -o prod.trace" in shown.stdout
            assert "EXIT CODES" in shown.stdout
