"""Examples of the crates, built to be held against."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from results_page import ROOT


def build_example(name: str) -> Path:
    """Build an example of the crate `replay`; return where it lies.

    Raises:
        CalledProcessError: When it does not build.
    """
    what = ("--package=seatrial-replay", f"--example={name}")
    subprocess.run(["cargo", "build", "--release", "--quiet", *what], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "examples" / name
