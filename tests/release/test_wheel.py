"""The wheel, installed where neither Rust nor the source is, measures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_RUST = "/usr/bin:/bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel of this machine; the engine that `make setup` compiled is not compiled again."""
    folder = tmp_path_factory.mktemp("wheel")
    maturin = Path(sys.executable).with_name("maturin")
    profile = os.environ.get("ENGINE_PROFILE", "release")
    done(
        *(maturin, "build", "--profile", profile, "--locked", "--quiet", "--out", folder), cwd=ROOT
    )
    (built,) = folder.glob("*.whl")
    return built


def done(*command: str | Path, cwd: Path, **environment: str) -> str:
    ended = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env=os.environ | environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_it_holds_the_program_and_nothing_of_this_checkout(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "abi3" in wheel.name
    assert {"seatrial/__init__.py", "seatrial/_core.abi3.so", "seatrial/_core.pyi"} <= {*names}
    assert "seatrial/study/builtin/quick.toml" in names
    assert "seatrial/catalogue/data/volumes.csv" in names
    assert not [name for name in names if name.startswith(("tests/", "crates/", "bench/"))]


def test_it_runs_the_quick_trial_in_an_empty_environment(wheel, tmp_path):
    done(sys.executable, "-m", "venv", tmp_path / "env", cwd=tmp_path)
    own = {"PATH": WITHOUT_RUST, "PYTHONPATH": "", "SEATRIAL_STATE_DIR": str(tmp_path / "state")}
    pip = (tmp_path / "env/bin/python", "-m", "pip", "install", "--quiet")
    done(*pip, "--constraint", ROOT / "requirements.lock", wheel, cwd=tmp_path, **own)
    seatrial = tmp_path / "env/bin/seatrial"
    (tmp_path / "ssd").mkdir()
    short = ("--rounds", "1", "--seconds", "0.1", "--size", "64MiB")
    shown = done(seatrial, "run", tmp_path / "ssd", *short, "--json", cwd=tmp_path, **own)
    document = json.loads(shown)
    assert document["kind"] == "run"
    assert document["samples"]
    assert list(tmp_path.glob("seatrial-reports/*.html"))
    assert not list((tmp_path / "ssd").iterdir())
