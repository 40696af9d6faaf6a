"""What plans of layouts cost and how they are reported: builds, hours, bytes, drives, commands."""

from __future__ import annotations

import pytest

from seatrial.errors import SpaceError, StudyError, UsageError
from seatrial.study.cost import (
    cell_time_s,
    cell_write_bytes,
    estimate,
    prefill_bytes,
    require_write_budget,
    target_write_bytes,
)
from seatrial.study.layouts import cost as layout_cost
from seatrial.study.layouts.layout import DriveInfo, Drives
from seatrial.study.model import Plan
from seatrial.study.override import override
from seatrial.study.plan import make_plan
from seatrial.study.render import render_plan
from seatrial.units import GIB
from study.builders import study_of

WRITES = '[[workload]]\nkind = "io"\noperations = "write"\nlimit_bytes = "64MiB"\n'
FAILING = 'name = "f"\nseconds = 20\nfail = { after_s = 5 }\n'


def plan_of(layout: str, workloads: str = WRITES, drives: str = "6x4GiB") -> Plan:
    head = f'[drives]\nloop = "{drives}"\n[[layout]]\nname = "a"\nsize = "1GiB"\n'
    return make_plan(study_of(f"{head}{layout}\n{workloads}[rounds]\nmin = 2\nmax = 3\n"))


# ---- time and bytes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "written_members"),
    [
        ('level = "raid0"\ndrives = 4', 0),
        ('level = "raid5"\ndrives = 4\nspares = 1', 1),
        ('level = "raid6"\ndrives = 5', 2),
        ('level = "raid1"\ndrives = 3', 2),
        ('level = "raid10"\ndrives = 4', 2),
        ('backend = "md+lvm"\nlegs = 2\nlevel = "raid5"\ndrives = 3', 2),
        ('level = "raid5"\ndrives = 4\ninitial_sync = false', 0),
        ('backend = "btrfs"\nlevel = "raid1"\ndrives = 2', 0),
    ],
)
def test_a_first_synchronisation_writes_parity_and_copies(
    layout: str, written_members: int
) -> None:
    (target,) = plan_of(layout).targets
    assert layout_cost.sync_write_bytes(target) == written_members * 4 * GIB
    expected_s = 4 * GIB / layout_cost.ASSUMED_SYNC_BYTES_PER_S if written_members else 0
    assert layout_cost.sync_s(target) == pytest.approx(expected_s)


def test_a_bound_on_the_drives_bounds_the_synchronisation() -> None:
    (target,) = plan_of('level = "raid5"\ndrives = 3\nmember_size = "1GiB"').targets
    assert layout_cost.sync_write_bytes(target) == GIB


def test_every_round_builds_synchronises_and_fills() -> None:
    plan = plan_of('level = "raid5"\ndrives = [3, 4]')
    each_bytes = 4 * GIB + GIB  # parity, and the trial file
    took = estimate(plan)
    assert prefill_bytes(plan) == 0
    assert (took.builds, took.building_write_bytes) == (2, 2 * each_bytes)
    cells_bytes = sum(map(cell_write_bytes, plan.cells))
    assert took.write_bytes_min == 2 * (2 * each_bytes + cells_bytes)
    assert took.write_bytes_max == 3 * (2 * each_bytes + cells_bytes)
    each_s = layout_cost.BUILD_S + 4 * GIB / layout_cost.ASSUMED_SYNC_BYTES_PER_S + GIB / 250e6
    each_s += len(plan.cells) / 2 * layout_cost.RESTING_S
    assert took.building_s == pytest.approx(2 * each_s)
    assert took.time_s_min == pytest.approx(2 * (2 * each_s + sum(map(cell_time_s, plan.cells))))
    assert target_write_bytes(plan, "a-3", 1) == each_bytes + cell_write_bytes(plan.cells[0])
    assert (took.file_bytes, took.loop_bytes) == (0, 24 * GIB)


def test_legs_are_built_once_for_all_of_them() -> None:
    plan = plan_of('legs = 2\nexpose = "legs"\ndrives = 2')
    took = estimate(plan)
    assert (took.builds, took.building_write_bytes) == (1, 2 * GIB)


def test_a_database_is_loaded_whenever_its_array_is_built() -> None:
    loaded = estimate(plan_of("drives = 2", '[[workload]]\nkind = "pgbench"\n'))
    alone = estimate(plan_of("drives = 2"))
    assert loaded.building_write_bytes > 150 << 20
    assert loaded.building_s > layout_cost.BUILD_S + 2
    assert alone.building_write_bytes == GIB
    assert loaded.database_bytes == 0


def test_databases_that_do_not_fit_a_layout_are_reported_before_it_is_built() -> None:
    layout = 'level = "raid5"\ndrives = 3\n'
    database = f'{WRITES}[[workload]]\nkind = "pgbench"\nscale = 5\n'
    assert plan_of(layout, database, "3x1GiB").cells
    with pytest.raises(
        SpaceError, match=r"has a capacity of at most 1 GiB, but its databases need about"
    ):
        plan_of(layout, database, "3x512MiB")


def test_each_cell_that_breaks_an_array_needs_a_sound_one() -> None:
    layout = 'level = "raid5"\ndrives = 3\nspares = 1'
    broken = WRITES + FAILING + "rebuild_limit_kib_per_s = [0, 51200]\n"
    plan = plan_of(layout, WRITES + broken)
    assert estimate(plan).builds == 2
    assert estimate(plan_of(layout, WRITES + WRITES + FAILING)).builds == 1
    fast, limited = (cell for cell in plan.cells if cell.spec.get("fail"))
    (target,) = plan.targets
    rebuilt_s = 4 * GIB / layout_cost.ASSUMED_SYNC_BYTES_PER_S
    assert layout_cost.after_faults_s(target, fast) == pytest.approx(5 + rebuilt_s - 20)
    assert layout_cost.after_faults_s(target, limited) == pytest.approx(
        5 + 4 * rebuilt_s - 20, rel=0.1
    )
    assert layout_cost.rebuilt_write_bytes(target, fast) == 4 * GIB


def test_a_file_that_a_cell_fills_is_filled_again_for_a_second_build() -> None:
    layout = 'level = "raid5"\ndrives = 3\ninitial_sync = false'
    fill = '[[workload]]\nkind = "fill"\n'
    broken = WRITES + FAILING + "rebuild_limit_kib_per_s = [0, 51200]\n"
    assert estimate(plan_of(layout, fill + WRITES)).building_write_bytes == 0
    assert estimate(plan_of(layout, fill + broken)).building_write_bytes == GIB


def test_the_write_budget_counts_what_the_first_round_builds() -> None:
    plan = plan_of('level = "raid5"\ndrives = 3', WRITES + '[budget]\nwrite_bytes = "5GiB"\n')
    with pytest.raises(
        StudyError, match=r"may write 5\.06 GiB, more than the write budget of 5 GiB"
    ):
        require_write_budget(plan)


# ---- reported ----------------------------------------------------------------------------------


def test_a_plan_reports_layouts_drives_and_builds() -> None:
    plan = plan_of('level = "raid5"\ndrives = [3, 4]\nspares = 1\nchunk_kib = 64')
    text = render_plan(plan, {"a-3": ["mdadm --create X", "mkfs.xfs X"], "a-4": ["mdadm Y"]})
    assert "Drives  6 loop devices of 4 GiB, backed by files in the current folder\n" in text
    assert (
        "Layouts, built one after another in each round, all with chunk 64 KiB, xfs, trial file 1 "
        "GiB,\ntrial.dat filled after each build:\n"
        "  a-3  md raid5 of 3 drives + 1 spare\n"
        "  a-4  md raid5 of 4 drives + 1 spare\n"
    ) in text
    assert "Builds  2 per round, which take " in text
    assert "and write 10 GiB; assuming that arrays synchronise" in " ".join(text.split())
    assert "\nSpace   24 GiB: at most 24 GiB of files for loop devices\n" in text
    assert "  a-3\n    mdadm --create X\n    mkfs.xfs X\n  a-4\n    mdadm Y\n" in text
    assert "given at run time" not in text
    assert "before the first round" not in text


def test_a_plan_without_drives_says_how_many_and_how() -> None:
    study = study_of('[[layout]]\nname = "a"\nlevel = "raid5"\ndrives = 4\n' + WRITES)
    text = " ".join(render_plan(make_plan(study)).split())
    assert "Drives 4 needed; given with --devices A,B,... or --loop 4x2G" in text
    assert "Layout, built in each round:" in text
    assert "without initial synchronisation, as the drive sizes are not yet known" in text


def test_a_plan_reports_devices_with_their_sizes() -> None:
    study = study_of('[drives]\ndevices = ["/dev/x"]\n[[layout]]\nname = "a"\n' + WRITES)
    drives = [DriveInfo(name="/dev/x", size_bytes=GIB)]
    text = render_plan(make_plan(study, {}, drives))
    assert "Drives  /dev/x (1 GiB)\n" in text
    assert "synchronis" not in text


# ---- what the command line says ----------------------------------------------------------------


def test_drives_of_the_command_line_take_the_place_of_those_of_the_study() -> None:
    study = study_of('[drives]\nlab = "8x64M"\n[[layout]]\nname = "a"\n' + WRITES)
    assert override(study).drives == Drives(lab="8x64M")
    assert override(study, devices="/dev/a, /dev/b").drives == Drives(devices=["/dev/a", "/dev/b"])
    looped = override(study, loop="6x2G", loop_dir="/mnt")
    assert looped.drives == Drives(loop="6x2G", folder="/mnt")
    assert override(looped, loop="4x1G").drives == Drives(loop="4x1G", folder="/mnt")
    assert override(looped, size="64MiB").layouts[0].size_bytes == 64 << 20


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"devices": "/a", "loop": "6x2G"}, UsageError, "Both --devices and --loop"),
        (
            {"loop_dir": "/mnt"},
            UsageError,
            "--loop-dir is set to /mnt, but no loop devices are requested",
        ),
        ({"loop": "6x"}, StudyError, "--loop is '6x'. Expected a count and a size, such as 6x2G"),
        ({"devices": "/a,/a"}, StudyError, "--devices holds '/a' twice"),
        ({"seconds": 3}, StudyError, "--seconds is 3, but the last fault occurs after 5 s"),
    ],
)
def test_options_that_do_not_fit_are_reported(options, error, says: str) -> None:
    study = study_of('[[layout]]\nname = "a"\n' + WRITES + FAILING)
    with pytest.raises(error) as caught:
        override(study, **options)
    assert says in str(caught.value)


def test_drives_for_a_study_without_layouts_have_no_effect() -> None:
    with pytest.raises(StudyError, match="--loop has no effect here"):
        override(study_of(WRITES), loop="6x2G")
