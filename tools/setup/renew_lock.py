"""Renews the lock files of Python: the newest versions that pyproject.toml allows, pinned.

Run it by ``make lock``. pip resolves what each needs (nothing is installed) and each package is
written with its exact version and no address, so that any index serves it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MADE_BY = "# Made from pyproject.toml by `make lock`; do not edit by hand.\n"


def main() -> None:
    """Resolve the dependencies of pyproject.toml and write the lock files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tested = pins(project["dependencies"] + extras["pg"] + extras["test"])
    write("requirements.lock", "running and testing need", tested)
    released = [pin for pin in pins(extras["release"] + tested) if pin not in tested]
    write("requirements-release.lock", "wheels and the site need as well", released)


def write(name: str, purpose: str, packages: list[str]) -> None:
    """Write a lock file."""
    header = f"# Every Python package that {purpose}, at the version that was tested.\n"
    (ROOT / name).write_text(header + MADE_BY + "\n".join(packages) + "\n")


def pins(wanted: list[str]) -> list[str]:
    """Return what pip would install, each with its version, in the order of the alphabet."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
    command += ["--ignore-installed", "--report", "-", *wanted]
    resolved = subprocess.run(command, check=True, capture_output=True, text=True)
    packages = [entry["metadata"] for entry in json.loads(resolved.stdout)["install"]]
    return sorted((f"{each['name']}=={each['version']}" for each in packages), key=str.lower)


if __name__ == "__main__":
    main()
