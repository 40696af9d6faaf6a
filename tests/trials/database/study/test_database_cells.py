"""Workloads of databases become the right cells: what the driver gets, keys, order, notes."""

from __future__ import annotations

import pytest

from seatrial.study.cell import Cell
from seatrial.study.load import study_from_mapping, study_to_mapping
from seatrial.study.plan import make_plan, order
from seatrial.study.render import render_plan
from seatrial.trials.database.study.workloads import LoadSpec, spec_of
from study.builders import plan_of, study_of

SERVER = '[[target]]\nkind = "database"\nurl = "postgresql://u@h/db"\n'
PGBENCH = '[[workload]]\nkind = "pgbench"\n'


def cells_of(text: str) -> list[Cell]:
    return plan_of(text).cells


def test_the_usual_is_not_in_the_key() -> None:
    (cell,) = cells_of(PGBENCH)
    assert cell.key == "pgbench/transaction/10c/scale=10"
    assert (cell.operation, cell.threads, cell.depth, cell.block_size_bytes) == (
        "transaction",
        10,
        1,
        0,
    )
    spec = spec_of(cell.spec)
    assert spec.load == LoadSpec(kind="pgbench", scale=10)
    assert (spec.script, spec.protocol, spec.processes) == ("tpcb-like", "simple", 1)
    assert (spec.start, spec.rate_per_s, spec.memory_limit_bytes) == ("cold", None, None)


def test_every_list_multiplies() -> None:
    cells = cells_of(
        PGBENCH
        + 'scale = [10, 20]\nclients = [1, 8]\nprocesses = [1, 2]\nstart = ["cold", "prewarmed"]\n'
        'scripts = ["tpcb-like", "select-only"]\nprotocols = ["simple", "prepared"]\n'
        'memory_limit = ["512MiB", "1GiB"]\n'
        '[workload.settings]\nshared_buffers = ["64MB", "128MB"]\nfsync = [true, false]'
    )
    assert len(cells) == 2**9
    assert len({cell.key for cell in cells}) == 2**9
    assert cells[-1].key == (
        "pgbench/transaction/8c/scale=20/script=select-only/protocol=prepared/processes=2"
        "/start=prewarmed/memory_limit_bytes=1073741824/shared_buffers=128MB/fsync=off"
    )


def test_settings_are_reported_as_postgresql_conf_has_them() -> None:
    (cell,) = cells_of(
        PGBENCH + "[workload.settings]\nfsync = false\nwal_buffers = -1\nrandom_page_cost = 1.5"
    )
    assert spec_of(cell.spec).settings == {
        "fsync": "off",
        "wal_buffers": "-1",
        "random_page_cost": "1.5",
    }


def test_an_existing_server_is_as_it_is() -> None:
    (cell,) = cells_of(SERVER + PGBENCH)
    assert spec_of(cell.spec).start == "as_is"
    assert cell.key == "pgbench/transaction/10c/scale=10"


def test_a_server_and_a_directory_are_compared_by_the_same_keys() -> None:
    plan = make_plan(study_of(f'{SERVER}label = "far"\n[[target]]\nlabel = "near"\n{PGBENCH}'))
    assert [cell.key for cell in plan.cells] == [
        "far/pgbench/transaction/10c/scale=10",
        "near/pgbench/transaction/10c/scale=10",
    ]
    assert len({cell.key_without_target for cell in plan.cells}) == 1


def test_a_rate_is_that_of_each_process() -> None:
    (cell,) = cells_of(PGBENCH + "rate = 100\nprocesses = 3\nlatency_limit_ms = 50")
    assert cell.spec["arrival"] == {"kind": "poisson", "rate_per_s": 300.0}
    assert spec_of(cell.spec).rate_per_s == 100
    assert spec_of(cell.spec).latency_limit_ms == 50
    assert cell.factors["rate"] == 100


def test_a_script_is_called_by_its_file() -> None:
    (cell,) = cells_of(PGBENCH + 'scripts = "/far/away/orders.sql"')
    assert cell.key == "pgbench/transaction/10c/scale=10/script=orders.sql"
    assert spec_of(cell.spec).script == "/far/away/orders.sql"


def test_telemetry() -> None:
    (cell,) = cells_of('[[workload]]\nkind = "telemetry"\ndevices = 500\nhistory_hours = 2')
    assert cell.key == ("telemetry/transaction/10c/devices=500/history_hours=2/batch_rows=100")
    spec = spec_of(cell.spec)
    assert spec.load == LoadSpec(kind="telemetry", devices=500, history_hours=2)
    assert (spec.batch_rows, spec.query_share) == (100, 0.1)


def test_batches() -> None:
    text = '[[workload]]\nname = "nightly"\nkind = "batch"\nfile = "/a/night.sql"\n'
    cells = cells_of(text + "scale = [1, 2]")
    assert [cell.key for cell in cells] == [
        "nightly/batch/1c/file=night.sql/scale=1",
        "nightly/batch/1c/file=night.sql/scale=2",
    ]
    (cell,) = cells_of(text + 'prepare = "/a/load.sql"')
    assert spec_of(cell.spec).load == LoadSpec(kind="sql", file="/a/load.sql")
    assert cell.spec["limit"]["duration_s"] == 3600


def test_it_needs_no_trial_file() -> None:
    plan = plan_of(PGBENCH)
    assert plan.files == []
    mixed = plan_of(PGBENCH + '[[workload]]\nkind = "commit"')
    assert [file.name for file in mixed.files] == ["wal.dat"]


@pytest.mark.parametrize("kind", ["device", "file", "null", "simulated"])
def test_other_targets_are_named_and_left_out(kind: str) -> None:
    plan = plan_of(PGBENCH + '[[workload]]\nkind = "io"', kind=kind, size_bytes=1 << 30)
    assert {cell.workload for cell in plan.cells} == {"io"}
    left_out = "pgbench is skipped on trial: a database needs a directory, but the "
    assert plan.notes[0] == f"{left_out}target is a {kind}"


def test_databases_come_last_in_a_round_at_random_among_themselves() -> None:
    plan = plan_of(
        '[[workload]]\nkind = "fill"\n[[workload]]\nkind = "commit"\n'
        + PGBENCH
        + "clients = [1, 2, 3, 4]"
    )
    keys = [cell.key for cell in plan.cells]
    orders = [[cell.kind for cell in order(plan, number, keys)] for number in range(6)]
    assert all(kinds[0] == "fill" for kinds in orders)
    assert all(kinds[-4:] == ["pgbench"] * 4 for kinds in orders)
    lasts = {order(plan, number, keys)[-1].key for number in range(12)}
    assert len(lasts) > 1


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("fsync = false", "fsync is off in pgbench: a power failure may destroy the database"),
        ('FSYNC = "OFF"', "fsync is off in pgbench"),
        ('full_page_writes = ["on", "0"]', "full_page_writes is off in 1 of 2 tests of pgbench"),
        ("synchronous_commit = false", "synchronous_commit is off in pgbench: a commit is"),
    ],
)
def test_what_is_given_up_is_reported(settings: str, says: str) -> None:
    (note,) = plan_of(f"{PGBENCH}[workload.settings]\n{settings}").notes
    assert note.startswith(says)


def test_nothing_is_reported_of_settings_that_give_nothing_up() -> None:
    text = '[workload.settings]\nfsync = true\nsynchronous_commit = "remote_write"'
    assert plan_of(PGBENCH + text).notes == []


def test_the_plan_speaks_of_clients_and_of_settings_by_their_names() -> None:
    reported = render_plan(
        plan_of(PGBENCH + 'memory_limit = "1GiB"\n[workload.settings]\nshared_buffers = "64MB"')
    )
    for words in ("10 clients", "memory limit 1 GiB", "shared_buffers 64MB", "scale 10"):
        assert words in reported
    assert "thread" not in reported
    assert "trial file" not in reported
    assert "databases are assumed to write at most 250 MB/s" in reported


def test_a_setting_of_one_value_is_no_part_of_what_a_cell_is_called() -> None:
    """Else a run with another value would have no cell in common with this one."""
    text = PGBENCH + "[workload.settings]\nwork_mem = {}\nshared_buffers = ['64MB', '128MB']"
    one, other = (plan_of(text.format(value)).cells for value in ("'4MB'", "['8MB']"))
    assert [cell.key for cell in one] == [cell.key for cell in other]
    assert [cell.factors["shared_buffers"] for cell in one] == ["64MB", "128MB"]
    assert {spec_of(cell.spec).settings["work_mem"] for cell in other} == {"8MB"}
    assert plan_of(text.format("'4MB'")).plan_hash != plan_of(text.format("'8MB'")).plan_hash


def test_the_plan_names_a_server_by_its_address() -> None:
    reported = render_plan(plan_of(SERVER + PGBENCH))
    assert "Target trial: database postgresql://u@h/db\n" in reported
    assert "Space" not in reported


def test_the_plan_of_a_batch_says_that_nobody_knows_how_long_it_takes() -> None:
    reported = render_plan(plan_of('[[workload]]\nkind = "batch"\nfile = "/n.sql"'))
    assert "until done" in reported
    assert "The duration of batch is not known" in reported


def test_a_study_of_databases_survives_the_results_file() -> None:
    study = study_of(
        SERVER
        + PGBENCH
        + 'scale = [1, 2]\nrate = [5, 2.5]\n[workload.settings]\nwork_mem = [64, "1MB"]\n'
        'jit = false\n[[workload]]\nkind = "telemetry"\n[[workload]]\nkind = "batch"\nfile = "/x"'
        '\n[[target]]\nlabel = "near"\npath = "/mnt"\npg_bin = "/opt/pg/bin"\n'
        '[[workload]]\nname = "own"\nkind = "pgbench"\ntargets = ["near"]\nmemory_limit = "1GiB"\n'
    )
    mapping = study_to_mapping(study)
    assert study_from_mapping(mapping, "again") == study
    assert make_plan(study_from_mapping(mapping, "again")) == make_plan(study)
