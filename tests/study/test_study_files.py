"""Files that a study names are found next to it, then in the working directory, and read whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.errors import StudyError
from seatrial.study.load import load_study, study_from_mapping, study_from_options

PGBENCH = 'name = "s"\n[[workload]]\nkind = "pgbench"\n'
BATCH = 'name = "s"\n[[workload]]\nkind = "batch"\n'


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes a study into a folder of its own; the working directory is another."""
    folder, elsewhere = tmp_path / "studies", tmp_path / "elsewhere"
    for each in (folder, elsewhere):
        each.mkdir()
        (each / "both.sql").write_text("SELECT 1;")
    (folder / "orders.sql").write_text("SELECT 1;")
    (elsewhere / "only-there.sql").write_text("SELECT 1;")
    monkeypatch.chdir(elsewhere)

    def write(text: str) -> Path:
        (folder / "my.toml").write_text(text)
        return folder / "my.toml"

    return write


def test_next_to_the_study_goes_before_the_working_directory(study) -> None:
    path = study(PGBENCH + 'scripts = ["orders.sql", "only-there.sql", "both.sql", "tpcb-like"]')
    (workload,) = load_study(path).workloads
    assert workload.scripts == [
        str(path.parent / "orders.sql"),
        str(Path.cwd() / "only-there.sql"),
        str(path.parent / "both.sql"),
        "tpcb-like",
    ]


def test_a_relative_path_of_the_study_means_the_same_files(study, monkeypatch) -> None:
    path = study(PGBENCH + 'scripts = "orders.sql"')
    monkeypatch.chdir(path.parent.parent)
    (workload,) = load_study("studies/my.toml").workloads
    assert workload.scripts == str(path.parent / "orders.sql")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (PGBENCH + 'scripts = "tpcb-lik"', "Did you mean 'tpcb-like'?"),
        (PGBENCH + 'scripts = "order.sql"', "Did you mean 'orders.sql'?"),
        (
            PGBENCH + 'scripts = ["tpcb-like", "zzz"]',
            "scripts[1] is 'zzz', but there is no such file",
        ),
        (
            PGBENCH + 'scripts = "zzz"',
            "pgbench's built-in scripts are tpcb-like, simple-update, select-only",
        ),
        (BATCH + 'file = "zzz.sql"', "file is 'zzz.sql', but there is no such file"),
        (
            BATCH + 'file = "orders.sql"\nprepare = "z.sql"',
            "prepare is 'z.sql', but there is no such file",
        ),
        (BATCH + 'file = "my.toml"', "are run as programs: use `chmod +x`"),
    ],
)
def test_what_is_not_there_is_reported_with_its_line(study, text: str, says: str) -> None:
    path = study(text)
    with pytest.raises(StudyError, match=r"my\.toml, line [45]: workload\[0\]\.") as caught:
        load_study(path)
    assert says in str(caught.value)


def test_a_program_may_be_a_batch(study) -> None:
    path = study(BATCH + 'file = "night"\nprepare = "orders.sql"')
    program = path.parent / "night"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (workload,) = load_study(path).workloads
    assert (workload.file, workload.prepare) == (
        str(program),
        str(path.parent / "orders.sql"),
    )


def test_the_programs_of_postgresql_are_reported_from_the_root(study) -> None:
    path = study(PGBENCH + '[[target]]\npg_bin = "bin"')
    (path.parent / "bin").mkdir()
    assert load_study(path).targets[0].pg_bin == str(path.parent / "bin")
    absent = study(PGBENCH + '[[target]]\npg_bin = "sbin"')
    assert load_study(absent).targets[0].pg_bin == str(Path.cwd() / "sbin")


def test_files_of_options_lie_in_the_working_directory(study) -> None:
    study("")
    data = {"name": "s", "workload": [{"kind": "batch", "file": "only-there.sql"}]}
    (workload,) = study_from_options(data).workloads
    assert workload.file == str(Path.cwd() / "only-there.sql")
    absent = {"name": "s", "workload": [{"kind": "batch", "file": "orders.sql"}]}
    with pytest.raises(StudyError, match=r"^--batch is 'orders\.sql', but there is no such file"):
        study_from_options(absent, {"file": "batch"})


def test_a_stored_study_is_read_where_its_files_are_not() -> None:
    data = {"name": "s", "workload": [{"kind": "batch", "file": "/gone/x.sql"}]}
    assert study_from_mapping(data, "s").workloads[0].file == "/gone/x.sql"
