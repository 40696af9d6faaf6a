"""``seatrial study`` and ``run`` with databases: places, optional trials, resuming on servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import seatrial
from seatrial.cli.study_command import plan_of
from seatrial.cli.targets import targets_info, with_absolute_paths
from seatrial.errors import TargetError
from seatrial.postgres.binaries import find_binaries
from seatrial.study.load import study_from_options

NO_INITDB = "#!/bin/sh\necho 'initdb: error: no shared memory here' >&2\nexit 1\n"
STUDY = """
name = "mixed"
[rounds]
min = 1
max = 1
[[target]]
size = "16MiB"
pg_bin = "{pg_bin}"
[[workload]]
kind = "commit"
seconds = 0.1
committers = 1
methods = "fdatasync"
log_size = "1MiB"
[[workload]]
kind = "pgbench"
scale = 1
clients = 2
seconds = 1
optional = {optional}
"""


@pytest.fixture
def broken_programs(tmp_path: Path) -> Path:
    """The programs of a PostgreSQL whose initdb fails, as where there is no shared memory."""
    try:
        found = find_binaries().folder
    except TargetError:
        pytest.skip("no PostgreSQL here")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("postgres", "pgbench", "psql"):
        (folder / name).symlink_to(found / name)
    (folder / "initdb").write_text(NO_INITDB)
    (folder / "initdb").chmod(0o755)
    return folder


def measured(tmp_path: Path, pg_bin: Path, *, optional: bool):
    (tmp_path / "place").mkdir()
    text = STUDY.format(pg_bin=pg_bin, optional=str(optional).lower())
    (tmp_path / "my.toml").write_text(text)
    return seatrial("study", "my.toml", "--target", "place", folder=tmp_path)


def test_an_optional_database_that_cannot_be_made_is_left_out(tmp_path, broken_programs):
    ended = measured(tmp_path, broken_programs, optional=True)
    assert ended.code == 0, ended
    reported = " ".join(ended.out.split())
    assert "The only round was measured. pgbench is skipped on trial: initdb could not" in reported
    assert "no shared memory here" in reported
    assert list((tmp_path / "place").iterdir()) == []


def test_one_that_is_not_optional_ends_the_run(tmp_path, broken_programs):
    ended = measured(tmp_path, broken_programs, optional=False)
    assert ended.code == TargetError.exit_code, ended
    assert "no shared memory here" in ended.err
    assert list((tmp_path / "place").iterdir()) == []


def test_an_optional_database_without_a_postgresql_is_left_out(tmp_path):
    ended = measured(tmp_path, tmp_path / "none", optional=True)
    assert ended.code == 0, ended
    assert "pgbench is skipped on trial: There is no program initdb in" in " ".join(
        ended.out.split()
    )


def info_of(tmp_path: Path, workload: dict, **target):
    data = {"name": "s", "target": [{"path": str(tmp_path), **target}], "workload": [workload]}
    return targets_info(with_absolute_paths(study_from_options(data)))["trial"]


def test_what_is_known_of_a_directory_with_databases(tmp_path):
    pgbench = {"kind": "pgbench"}
    known = info_of(tmp_path, pgbench)
    assert known.usable_bytes is not None
    assert known.usable_bytes > 0
    absent = info_of(tmp_path, pgbench, pg_bin=str(tmp_path))
    assert "There is no program initdb" in absent.database_obstacle
    plain = info_of(tmp_path, {"kind": "io"}, pg_bin=str(tmp_path))
    assert (plain.usable_bytes, plain.database_obstacle) == (None, "")


def test_nothing_is_looked_up_for_workloads_that_run_elsewhere(tmp_path):
    data = {
        "name": "s",
        "target": [{"label": "a", "path": str(tmp_path)}, {"label": "b", "path": str(tmp_path)}],
        "workload": [{"kind": "pgbench", "targets": ["b"]}, {"kind": "io"}],
    }
    infos = targets_info(study_from_options(data))
    assert infos["a"].usable_bytes is None
    assert infos["b"].usable_bytes is not None


def test_targets_of_a_shipped_study_are_placed_by_their_labels(tmp_path):
    for name in ("disk", "flash"):
        (tmp_path / name).mkdir()
    words = [f"hdd={tmp_path}/disk", f"ssd={tmp_path}/flash"]
    plan = plan_of("ssd-vs-hdd", target_paths=words)
    assert {each.label: each.path for each in plan.targets} == {
        "hdd": f"{tmp_path}/disk",
        "ssd": f"{tmp_path}/flash",
    }


def test_a_place_that_is_missing_is_requested_by_its_label(tmp_path):
    ended = seatrial("study", "ssd-vs-hdd", "--target", f"ssd={tmp_path}", folder=tmp_path)
    assert ended.code == 2, ended
    assert "names no path for its target 'hdd'" in ended.err
    assert "--target hdd=DIR" in ended.err


def test_a_server_whose_address_is_missing_is_requested(tmp_path):
    text = 'name = "s"\n[[target]]\nkind = "database"\n[[workload]]\nkind = "pgbench"\n'
    (tmp_path / "my.toml").write_text(text)
    ended = seatrial("study", "my.toml", folder=tmp_path)
    assert ended.code == 2, ended
    assert "--target postgresql://USER@HOST/DATABASE" in ended.err


def test_a_password_on_the_command_line_is_neither_taken_nor_repeated(tmp_path):
    (tmp_path / "my.toml").write_text('name = "s"\n[[workload]]\nkind = "pgbench"\n')
    address = "postgresql://u:s3cret@h/db"
    ended = seatrial("study", "my.toml", "--target", address, "--plan", folder=tmp_path)
    assert ended.code == 2, ended
    assert "contains a password" in ended.err
    assert "s3cret" not in ended.out + ended.err
