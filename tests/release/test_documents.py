"""What is made for a release besides the wheels: the manual pages, the README of the index."""

from __future__ import annotations

import re
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


def test_every_link_of_the_readme_works_on_the_package_index():
    forge = "https://forge/we/it"
    program = ROOT / "tools/release/readme.sh"
    shown = subprocess.run(
        [program, forge, "v1.0"], check=True, capture_output=True, text=True
    ).stdout
    targets = re.findall(r"\]\(([^)\s]+)\)", shown)
    assert len(targets) == len(re.findall(r"\]\(", (ROOT / "README.md").read_text()))
    for target in targets:
        assert target.startswith("https://"), target
        if target.startswith(forge):
            kind, tag, path = target.removeprefix(f"{forge}/").split("/", 2)
            assert (kind == "raw") == path.endswith(".svg")
            assert tag == "v1.0"
            assert (ROOT / path.partition("#")[0]).is_file(), path
    assert sum(f"{forge}/raw/" in target for target in targets) == 3


def test_a_container_installs_the_wheel_that_was_built_in_it():
    """Not one of the same name from the package index."""
    (installed,) = re.findall(r"/pip install [^&]*\[pg\]", (ROOT / "Containerfile").read_text())
    assert "/wheels/seatrial-*.whl" in installed
