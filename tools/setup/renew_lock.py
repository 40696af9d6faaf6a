"""Renews requirements.lock: the newest versions that pyproject.toml allows, pinned.

Run it by ``make lock``. pip resolves what running and testing need (nothing is installed) and each
package is written with its exact version and no address, so that any index serves it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = """\
# Every Python package that running and testing need, at the version that was tested.
# Made from pyproject.toml by `make lock`; do not edit by hand.
"""


def main() -> None:
    """Resolve the dependencies of pyproject.toml and write requirements.lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + extras["pg"] + extras["test"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
    command += ["--ignore-installed", "--report", "-", *wanted]
    resolved = subprocess.run(command, check=True, capture_output=True, text=True)
    packages = [entry["metadata"] for entry in json.loads(resolved.stdout)["install"]]
    pins = sorted((f"{each['name']}=={each['version']}" for each in packages), key=str.lower)
    (ROOT / "requirements.lock").write_text(HEADER + "\n".join(pins) + "\n")


if __name__ == "__main__":
    main()
