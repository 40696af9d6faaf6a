"""Examples of the crates, built for comparison."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from results_page import ROOT


def build_example(crate: str, name: str) -> Path:
    """Build an example of a crate; return where it lies.

    Raises:
        CalledProcessError: When it does not build.
    """
    what = (f"--package=seatrial-{crate}", f"--example={name}")
    subprocess.run(["cargo", "build", "--release", "--quiet", *what], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "examples" / name
