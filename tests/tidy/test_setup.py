"""A fresh checkout sets itself up, or names what is missing and the command that installs it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tidy.sources import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CHECK_TOOLS = ROOT / "tools/setup/check-tools"
# What the script itself is written with; everything else it looks for is faked.
SHELL_TOOLS = ("sh", "uname", "cut", "id")
FAKES = {
    "python3": 'case "$2" in *platform*) echo 3.11.2;; esac',
    "cargo": "echo cargo 1.85.0",
    "rustc": "echo rustc 1.85.0",
    "cc": "true",
    "git": "true",
    "apt-get": "true",
}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder that is the whole PATH of a machine with everything in its oldest version."""
    for name in SHELL_TOOLS:
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    for name, body in FAKES.items():
        fake(tmp_path, name, body)
    return tmp_path


def fake(machine: Path, name: str, body: str) -> None:
    program = machine / name
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


def check_tools(machine: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and messages of the preflight on that machine."""
    command = [str(CHECK_TOOLS), *arguments]
    environment = {"PATH": str(machine)}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_complete_machine_passes(machine: Path) -> None:
    assert check_tools(machine) == (0, "")
    assert check_tools(machine, "test") == (0, "")


@pytest.mark.parametrize(
    ("absent", "seen", "command"),
    [
        ("python3", "no python3 was found", "apt-get install python3 python3-venv"),
        ("cargo", "no cargo was found", "rustup.rs"),
        ("rustc", "no rustc was found", "rustup.rs"),
        ("cc", "no C compiler", "apt-get install gcc"),
    ],
)
def test_missing_tool_is_named(machine: Path, absent: str, seen: str, command: str) -> None:
    (machine / absent).unlink()
    code, said = check_tools(machine)
    assert code == 2
    assert seen in said
    assert command in said


@pytest.mark.parametrize(
    ("name", "body", "seen", "command"),
    [
        ("python3", "echo 3.10.12", "version 3.10.12", "python3.12"),
        (
            "python3",
            'case "$2" in *platform*) echo 3.11.2;; *) exit 1;; esac',
            "cannot make a virtual environment",
            "apt-get install python3-venv",
        ),
        ("cargo", "echo cargo 1.63.0", "version 1.63.0", "rustup.rs"),
        ("rustc", "echo rustc 1.84.1-nightly", "version 1.84.1", "rustup.rs"),
        ("uname", "echo Darwin", "this is Darwin", "Linux machine"),
    ],
)
def test_unfit_tool_is_named(machine: Path, name: str, body: str, seen: str, command: str) -> None:
    (machine / name).unlink()
    fake(machine, name, body)
    code, said = check_tools(machine)
    assert code == 2
    assert seen in said
    assert command in said


def test_tools_of_tests_are_requested_tests_only(machine: Path) -> None:
    fake(machine, "cargo", '[ "$1" = --version ] && echo cargo 2.0.0')
    assert check_tools(machine) == (0, "")
    code, said = check_tools(machine, "test")
    assert code == 2
    assert "apt-get install rustfmt" in said
    assert "apt-get install rust-clippy" in said


def test_versions_requested_are_those_of_the_manifests() -> None:
    script = CHECK_TOOLS.read_text()
    readme = (ROOT / "README.md").read_text()
    python = PYPROJECT["project"]["requires-python"].removeprefix(">=")
    rust = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    for name, version in (("CPython", python), ("Rust", rust)):
        assert f"{name} {version} or later" in script
        assert f"{name} {version} or later" in readme
        assert f'"${{version:-0.0}}" {version.replace(".", " ")}' in script


def test_lock_pins_what_the_project_asks_for() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [re.fullmatch(r"([\w.-]+)==([\w.]+)", line) for line in lines if line[:1] != "#"]
    assert all(pins), "a line of requirements.lock is not an exact pin"
    versions = {canonicalize_name(pin[1]): pin[2] for pin in pins if pin}
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    for wanted in [*project["dependencies"], *extras["pg"], *extras["test"]]:
        requirement = Requirement(wanted)
        version = versions.get(canonicalize_name(requirement.name))
        assert version, f"{wanted} is not in requirements.lock; run `make lock`"
        assert requirement.specifier.contains(version), f"{wanted}, but {version} is locked"


def test_commits_are_checked_as_the_lint_checks() -> None:
    makefile = (ROOT / "Makefile").read_text()
    lint = makefile[makefile.index("\nlint:") :].split("\n\n")[0]
    configuration = (ROOT / ".pre-commit-config.yaml").read_text()
    for command in re.findall(r"^\t@((?:\.venv|cargo)\S* \S*.*)", lint, re.MULTILINE):
        checked = command.removesuffix(" .")
        assert checked in configuration, f"{checked} is in `make lint` only"


def test_what_a_release_needs_is_locked_for_the_same_environment() -> None:
    tested, released = (
        set((ROOT / name).read_text().splitlines())
        for name in ("requirements.lock", "requirements-release.lock")
    )
    names = [pin.split("==")[0].lower() for pin in [*tested, *released] if "==" in pin]
    assert len(names) == len(set(names)), "a package is pinned twice"
    wanted = PYPROJECT["project"]["optional-dependencies"]["release"]
    missing = {canonicalize_name(Requirement(each).name) for each in wanted} - {*names}
    assert not missing, f"run `make lock`: {missing}"
