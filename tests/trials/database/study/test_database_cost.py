"""What databases take is reported before they are made: room, time, and bytes written."""

from __future__ import annotations

import pytest

from seatrial.errors import StudyError
from seatrial.study.cost import (
    cell_time_s,
    cell_write_bytes,
    estimate,
    prefill_bytes,
    require_write_budget,
    target_write_bytes,
)
from seatrial.study.model import TargetInfo
from seatrial.study.plan import make_plan
from seatrial.trials.database.study import cost as database_cost
from seatrial.trials.database.study.workloads import LoadSpec, spec_of
from study.builders import plan_of, study_of

MIB, GIB = 1 << 20, 1 << 30
PGBENCH = '[[workload]]\nkind = "pgbench"\n'
# Data folders as `du -sb` tells them after `pgbench -i`: (PostgreSQL 15.20, 18.6).
MEASURED_BYTES = {10: (338_934_231, 338_810_091)}
EMPTY_BYTES = 39_934_209


def test_what_is_assumed_is_what_was_measured_and_a_little_more() -> None:
    for scale, measured in MEASURED_BYTES.items():
        assumed = database_cost.cluster_bytes(LoadSpec(kind="pgbench", scale=scale), 1)
        assert max(measured) < assumed < 1.6 * min(measured)
    assert EMPTY_BYTES < database_cost.CLUSTER_BYTES < 1.2 * EMPTY_BYTES


def test_telemetry_has_a_row_for_each_device_and_minute() -> None:
    load = LoadSpec(kind="telemetry", devices=100, history_hours=2)
    assert database_cost.history_rows(load) == 12_000
    assert database_cost.data_bytes(load) == 12_000 * database_cost.TELEMETRY_ROW_BYTES


def test_a_file_of_sql_is_taken_by_its_size(tmp_path) -> None:
    path = tmp_path / "load.sql"
    path.write_text("x" * 1000)
    assert database_cost.data_bytes(LoadSpec(kind="sql", file=str(path))) == 6000
    assert database_cost.data_bytes(LoadSpec(kind="sql", file="/gone/load.sql")) == 0


def test_every_load_is_kept_and_one_copy_at_a_time() -> None:
    plan = plan_of(PGBENCH + "scale = [10, 100]\nclients = [1, 2]\nprocesses = [1, 2]")
    sizes = [
        database_cost.cluster_bytes(LoadSpec(kind="pgbench", scale=scale), processes)
        for scale in (10, 100)
        for processes in (1, 2)
    ]
    assert estimate(plan).database_bytes == sum(sizes) + max(sizes)


@pytest.mark.parametrize("clone", ["reuse", "template"])
def test_copies_that_stay_are_counted_each(clone: str) -> None:
    plan = plan_of(PGBENCH + f'scale = [10, 100]\nclone = "{clone}"')
    sizes = [
        database_cost.cluster_bytes(LoadSpec(kind="pgbench", scale=scale), 1) for scale in (10, 100)
    ]
    assert estimate(plan).database_bytes == 2 * sum(sizes)


def test_a_server_that_is_there_takes_no_room_of_ours() -> None:
    server = '[[target]]\nurl = "postgresql://h/db"\n'
    assert estimate(plan_of(server + PGBENCH)).database_bytes == 0


def test_time_and_bytes_are_those_of_loading_and_of_each_sample() -> None:
    plan = plan_of("[rounds]\nmin = 2\nmax = 5\n" + PGBENCH + "seconds = 20\nclients = [1, 2]")
    took = estimate(plan)
    each_s = cell_time_s(plan.cells[0])
    assert 20 < each_s < 26
    loading_s = took.time_s_min - 2 * 2 * each_s
    assert 1 < loading_s < 10
    assert took.time_s_max == pytest.approx(loading_s + 5 * 2 * each_s)
    each_bytes = cell_write_bytes(plan.cells[0])
    assert took.write_bytes_min == prefill_bytes(plan) + 2 * 2 * each_bytes
    assert took.write_bytes_max == target_write_bytes(plan, "trial", 5)


def test_pgbench_lasts_whole_seconds() -> None:
    (short,) = plan_of(PGBENCH + "seconds = 0.2").cells
    (one,) = plan_of(PGBENCH + "seconds = 1").cells
    assert cell_time_s(short) == cell_time_s(one)


def test_reading_writes_its_copy_only_and_a_rate_bounds_the_rest() -> None:
    def written(keys: str) -> int:
        (cell,) = plan_of(PGBENCH + keys).cells
        return cell_write_bytes(cell)

    copied = written('scripts = "select-only"')
    assert copied == database_cost.cluster_bytes(LoadSpec(kind="pgbench", scale=10), 1)
    assert written('scripts = "select-only"\nclone = "reuse"') == 0
    assert written("seconds = 10") == copied + 10 * database_cost.ASSUMED_BYTES_PER_S
    slow = written("seconds = 10\nrate = 100")
    assert slow == copied + 10 * 100 * database_cost.TRANSACTION_BYTES
    assert written("seconds = 10\nrate = 100\nprocesses = 2") > slow
    server = '[hosts]\ncounts = [1, 4]\n[[target]]\nkind = "database"\nurl = "postgresql://db"\n'
    one, four = plan_of(server + PGBENCH + "seconds = 10\nrate = 100").cells
    more_bytes = cell_write_bytes(four) - cell_write_bytes(one)
    assert more_bytes == 3 * 10 * 100 * database_cost.TRANSACTION_BYTES


def test_a_crash_trial_copies_nothing() -> None:
    (cell,) = plan_of('[[workload]]\nkind = "crash"\nseconds = 3').cells
    assert 3 < cell_time_s(cell) < 6
    assert cell_write_bytes(cell) == 3 * database_cost.ASSUMED_BYTES_PER_S


def test_the_scale_of_a_crash_trial_has_an_effect_and_distinguishes_cells() -> None:
    plan = plan_of('[[workload]]\nkind = "crash"\nscale = [2, 20]')
    small, large = (spec_of(cell.spec).load for cell in plan.cells)
    assert (small.scale, large.scale) == (2, 20)
    assert database_cost.data_bytes(large) == 10 * database_cost.data_bytes(small)
    assert [cell.factors for cell in plan.cells] == [{"scale": 2}, {"scale": 20}]
    (usual,) = plan_of('[[workload]]\nkind = "crash"').cells
    assert (usual.factors, spec_of(usual.spec).load.scale) == ({}, 0)


def test_prewarming_takes_the_time_of_reading() -> None:
    (cold,) = plan_of(PGBENCH + "scale = 100").cells
    (warm,) = plan_of(PGBENCH + 'scale = 100\nstart = "prewarmed"').cells
    more_s = cell_time_s(warm) - cell_time_s(cold)
    data_bytes = database_cost.data_bytes(spec_of(warm.spec).load)
    assert more_s == pytest.approx(data_bytes / database_cost.ASSUMED_BYTES_PER_S)


def test_a_budget_of_bytes_counts_loading_and_the_first_round() -> None:
    with pytest.raises(StudyError, match="may write"):
        require_write_budget(plan_of('[budget]\nwrite_bytes = "1GiB"\n' + PGBENCH))
    require_write_budget(plan_of('[budget]\nwrite_bytes = "4GiB"\n' + PGBENCH))


def test_an_optional_one_is_left_out_where_there_is_no_room() -> None:
    study = study_of(PGBENCH + "optional = true\n" + '[[workload]]\nkind = "commit"')
    needed = estimate(make_plan(study)).database_bytes + 64 * MIB
    for free_bytes, kinds in ((needed, {"commit", "pgbench"}), (needed - 1, {"commit"})):
        plan = make_plan(study, {"trial": TargetInfo(usable_bytes=free_bytes)})
        assert {cell.kind for cell in plan.cells} == kinds
        assert len(plan.notes) == (kinds == {"commit"})


def test_one_that_is_not_optional_stays_for_the_run_to_refuse() -> None:
    known = TargetInfo(usable_bytes=1, database_obstacle="No PostgreSQL was found")
    assert make_plan(study_of(PGBENCH), {"trial": known}).cells


def test_an_optional_one_alone_is_an_error_that_says_why() -> None:
    known = TargetInfo(database_obstacle="No PostgreSQL was found")
    with pytest.raises(StudyError, match="No PostgreSQL was found"):
        make_plan(study_of(PGBENCH + "optional = true"), {"trial": known})
