"""The studies that seatrial ships: they parse, plan, keep their promises and their keys."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import seatrial
from seatrial.errors import StudyError
from seatrial.study.cost import estimate
from seatrial.study.layouts.layout import DriveInfo
from seatrial.study.load import BUILTIN, find_study, load_study, shipped_studies
from seatrial.study.model import TargetInfo
from seatrial.study.override import override
from seatrial.study.plan import make_plan, order
from seatrial.study.render import render_plan
from seatrial.study.units import format_size
from seatrial.trials.database.study.cost import data_bytes
from seatrial.trials.database.study.workloads import spec_of
from seatrial.units import GIB

ROOT = Path(__file__).resolve().parents[2]


def test_these_are_shipped() -> None:
    assert shipped_studies() == [
        "arc-sweep",
        "cache-sweep",
        "commit-settings",
        "filebench",
        "four-kib",
        "l2arc",
        "l2arc-2008",
        "lab-cache",
        "lab-nfs",
        "leg-balance",
        "next-xraid",
        "one-dvd-per-second",
        "quick",
        "raid-failure",
        "raid-sweep",
        "raid-sweep-tiny",
        "ssd-vs-hdd",
        "telemetry",
    ]


def test_readme_has_the_quick_trials_plan() -> None:
    """What it says of space, bytes and time is what ``seatrial run DIR --plan`` says."""
    readme = " ".join((ROOT / "README.md").read_text().split())
    plan = make_plan(load_study("quick"))
    took = estimate(plan)
    space = format_size(took.file_bytes + took.database_bytes)
    assert f"about {space} of space" in readme
    assert f"({format_size(took.database_bytes)} less if no PostgreSQL is found)" in readme
    assert f"writes at most {format_size(plan.study.budget.write_bytes or 0)}." in readme
    assert f"Space   {space}:" in render_plan(plan)
    assert 90 <= took.time_s_min <= took.time_s_max <= 150, "about two minutes"


OF_STORAGE = ["four-kib", "one-dvd-per-second", "quick"]
OF_FILES = ["filebench"]
OF_LAYOUTS = [
    "lab-cache",
    "lab-nfs",
    "leg-balance",
    "raid-failure",
    "raid-sweep",
    "raid-sweep-tiny",
]
OF_POOLS = ["arc-sweep", "l2arc", "l2arc-2008"]
OF_DATABASES = sorted({*shipped_studies()} - {*OF_STORAGE, *OF_FILES, *OF_LAYOUTS, *OF_POOLS})


@pytest.mark.parametrize("name", OF_POOLS)
def test_shipped_studies_of_pools_can_be_planned_and_take_minutes(name: str) -> None:
    study = load_study(name)
    assert (study.name, bool(study.description)) == (name, True)
    plan = make_plan(study)
    assert len({cell.key for cell in plan.cells}) == len(plan.cells)
    assert 200 < estimate(plan).time_s_max < 720


@pytest.mark.parametrize("name", [*OF_DATABASES, *OF_FILES])
def test_shipped_studies_of_databases_can_be_planned_in_directories(name: str) -> None:
    study = load_study(name)
    assert (study.name, bool(study.description)) == (name, True)
    plan = make_plan(study)
    assert len({cell.key for cell in plan.cells}) == len(plan.cells)
    assert {target.kind for target in plan.targets} == {"directory"}
    assert not plan.files


@pytest.mark.parametrize("name", OF_STORAGE)
@pytest.mark.parametrize("logical_block_bytes", [512, 4096])
def test_shipped_studies_can_be_planned_anywhere(name: str, logical_block_bytes: int) -> None:
    study = load_study(name)
    assert study.name == name
    assert study.description
    for kind in ("directory", "device", "file", "null"):
        info = TargetInfo(kind=kind, size_bytes=100 * GIB, logical_block_bytes=logical_block_bytes)
        plan = make_plan(study, {"trial": info})
        assert len({cell.key for cell in plan.cells}) == len(plan.cells)
        assert plan.cells[0].kind == "fill"


def test_the_visible_folder_holds_the_shipped_files() -> None:
    folder = ROOT / "studies"
    assert sorted(path.name for path in folder.glob("*.toml")) == sorted(
        path.name for path in BUILTIN.glob("*.toml")
    )
    assert (folder / "quick.toml").samefile(BUILTIN / "quick.toml")
    assert load_study(folder / "quick.toml") == load_study("quick")


def test_an_installed_package_finds_them(tmp_path: Path) -> None:
    """The package alone, away from the checkout, as a wheel lays it out."""
    package = Path(seatrial.__file__).parent
    shutil.copytree(package, tmp_path / "seatrial", ignore=shutil.ignore_patterns("__pycache__"))
    script = (
        "from seatrial.study.load import find_study, load_study\n"
        "print(find_study('quick')); print(load_study('one-dvd-per-second').name)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    path, name = result.stdout.splitlines()
    assert Path(path) == tmp_path / "seatrial/study/builtin/quick.toml"
    assert name == "one-dvd-per-second"


def test_a_name_with_its_suffix_is_found() -> None:
    assert find_study("quick.toml") == find_study("quick") == BUILTIN / "quick.toml"


# ---- quick -----------------------------------------------------------------------------------


def test_quick_takes_about_two_minutes() -> None:
    plan = make_plan(load_study("quick"))
    samples_s = sum(cell.spec["limit"]["duration_s"] for cell in plan.cells if cell.kind != "fill")
    assert 3 * samples_s <= 110
    took = estimate(plan)
    assert 60 <= took.time_s_min <= 120 < took.time_s_max <= 145
    assert plan.study.budget.time_s == 145
    assert plan.targets[0].size_bytes == GIB


def test_the_database_trial_of_quick_takes_25_s_at_most() -> None:
    study = load_study("quick")
    others = [workload for workload in study.workloads if workload.kind != "pgbench"]
    without = make_plan(msgspec.structs.replace(study, workloads=others))
    with_it = make_plan(study)
    assert 0 < estimate(with_it).time_s_max - estimate(without).time_s_max <= 26
    assert with_it.cells[:-1] == without.cells


def test_quick_ends_each_round_with_the_database_trial() -> None:
    plan = make_plan(load_study("quick"))
    keys = [cell.key for cell in plan.cells]
    for number in range(5):
        assert order(plan, number, keys)[-1].kind == "pgbench"


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({"database_obstacle": "No PostgreSQL was found"}, "No PostgreSQL was found"),
        ({"usable_bytes": 2 * GIB}, "needs about 2.26 GiB, and 2 GiB may be used there"),
        ({"kind": "device", "size_bytes": GIB}, "the target is a device"),
    ],
)
def test_quick_leaves_the_database_out_where_there_can_be_none(known, reason: str) -> None:
    plan = make_plan(load_study("quick"), {"trial": TargetInfo(**known)})
    assert "pgbench" not in {cell.kind for cell in plan.cells}
    (note,) = [note for note in plan.notes if note.startswith("pgbench is skipped on trial: ")]
    assert reason in note


def test_quick_has_the_database_where_there_is_room() -> None:
    plan = make_plan(load_study("quick"), {"trial": TargetInfo(usable_bytes=3 * GIB)})
    assert plan.cells[-1].kind == "pgbench"
    assert not plan.notes


def test_quick_writes_little() -> None:
    study = load_study("quick")
    took = estimate(make_plan(study))
    assert took.write_bytes_max <= 40 * GIB
    assert study.budget.write_bytes == 40 * GIB


def expected_quick_keys() -> list[str]:
    """The keys by which runs of different versions are compared; they may not change."""
    matrix = [
        f"matrix/{operation}/{size}B/{threads}t/1d"
        for operation in ("read", "write")
        for size in (512, 4096, 8192, 65536, 1048576)
        for threads in (1, 10, 40)
    ]
    sequential = [
        f"sequential/{operation}/{size}B/1t/1d/file=big"
        for operation in ("read", "write")
        for size in (8192, 131072, 1048576)
    ]
    commit = [
        f"commit/commit/8192B/{threads}t/1d/method={method}"
        for method in ("fdatasync", "o_dsync")
        for threads in (1, 4, 16)
    ]
    zones = [
        f"map/read/{probe}/zone={zone}/zones=16"
        for probe in ("1048576B/1t/1d/pattern=sequential", "4096B/1t/1d/pattern=random")
        for zone in range(16)
    ]
    four = [
        f"four/{operation}/4096B/1t/1d/pattern={pattern}"
        for pattern in ("sequential", "random")
        for operation in ("write", "read")
    ]
    return [
        "fill/write/1048576B/1t/1d",
        *matrix,
        *sequential,
        *commit,
        *zones,
        *four,
        "mix/mixed/8192B/10t/1d/access=database",
        "copy/copy/1048576B/1t/1d",
        "pgbench/transaction/10c/scale=10",
    ]


def test_the_keys_of_quick_are_stable() -> None:
    assert [cell.key for cell in make_plan(load_study("quick")).cells] == expected_quick_keys()


# ---- the article -----------------------------------------------------------------------------


def test_the_article_is_repeated_whole() -> None:
    plan = make_plan(load_study("one-dvd-per-second"))
    bm_flash = [cell for cell in plan.cells if cell.workload == "bm-flash"]
    assert {cell.block_size_bytes for cell in bm_flash} == {512 << step for step in range(14)}
    assert {cell.threads for cell in bm_flash} == {1, 10, 40}
    assert {cell.operation for cell in bm_flash} == {"read", "write"}
    assert {cell.spec["limit"]["duration_s"] for cell in bm_flash} == {10}
    assert len(bm_flash) == 84
    sweep = [cell for cell in plan.cells if cell.workload == "dd-sweep"]
    assert len(sweep) == 14 * 2 * 2
    assert plan.targets[0].size_bytes == 4 * GIB
    assert {cell.key for cell in plan.cells if cell.workload in ("dd-8k", "cp")} == {
        "dd-8k/write/8192B/1t/1d/file=whole",
        "dd-8k/read/8192B/1t/1d/file=whole",
        "cp/copy/131072B/1t/1d",
    }


def test_the_drives_of_2010_are_compared_as_they_were() -> None:
    study = load_study("ssd-vs-hdd")
    plan = make_plan(override(study, target_paths=["sata=/a", "sas=/b", "ssd=/c"]))
    assert [(each.label, each.path) for each in plan.targets] == [
        ("sata", "/a"),
        ("sas", "/b"),
        ("ssd", "/c"),
    ]
    assert [cell.key for cell in plan.cells if cell.target == "sas"] == [
        "sas/one-machine/transaction/10c/scale=100",
        "sas/one-machine/transaction/10c/scale=1000",
        "sas/two-machines/transaction/10c/scale=1000/processes=2",
    ]
    assert {cell.spec["limit"]["duration_s"] for cell in plan.cells} == {500}
    assert (study.rounds.min, study.rounds.max) == (10, 10)
    short = override(study, target_paths=["hdd=/a", "ssd=/b"], seconds=60, rounds=3)
    assert estimate(make_plan(short)).time_s_max < 2 * 3600


def test_the_memory_for_caches_is_varied_and_never_holds_the_whole_database() -> None:
    specs = [spec_of(cell.spec) for cell in make_plan(load_study("cache-sweep")).cells]
    limits_bytes = sorted(spec.memory_limit_bytes or 0 for spec in specs)
    assert len(set(limits_bytes)) == 5
    assert {spec.settings["shared_buffers"] for spec in specs} == {"32MB"}
    # Nor does the next size, of which the law is to speak.
    assert data_bytes(specs[0].load) > 2 * limits_bytes[-1]
    assert "random_zipfian" in Path(specs[0].script).read_text()


def test_thousands_of_samples_a_minute_are_sent() -> None:
    cells = make_plan(load_study("telemetry")).cells
    rates = [spec_of(cell.spec) for cell in cells if cell.workload == "as-reported"]
    per_minute = [60 * (s.rate_per_s or 0) * s.batch_rows * (1 - s.query_share) for s in rates]
    assert per_minute == pytest.approx([54_000, 540_000])


def test_each_setting_of_a_commit_is_varied_alone() -> None:
    plan = make_plan(load_study("commit-settings"))
    varied = {cell.workload: set(spec_of(cell.spec).settings) for cell in plan.cells}
    assert varied == {
        "sync-method": {"wal_sync_method"},
        "wait-for-durability": {"synchronous_commit"},
        "whole-pages": {"full_page_writes"},
    }
    assert [note.partition(" is ")[0] for note in plan.notes] == [
        "synchronous_commit",
        "full_page_writes",
    ]


def test_the_four_numbers_are_those_of_xbench() -> None:
    cells = make_plan(load_study("four-kib")).cells
    four = [cell for cell in cells if cell.workload == "four"]
    assert {f"{cell.factors['pattern']}-4k-{cell.operation}" for cell in four} == {
        "sequential-4k-write",
        "sequential-4k-read",
        "random-4k-write",
        "random-4k-read",
    }


# ---- arrays ----------------------------------------------------------------------------------


def drives_of(count: int, size_bytes: int) -> list[DriveInfo]:
    return [DriveInfo(name=f"d{number}", size_bytes=size_bytes) for number in range(count)]


@pytest.mark.parametrize("name", OF_LAYOUTS)
@pytest.mark.parametrize("count", [8, 16])
def test_shipped_studies_of_layouts_can_be_planned_with_these_drives(name: str, count: int) -> None:
    study = load_study(name)
    assert (study.name, bool(study.description)) == (name, True)
    for drives in ([], drives_of(count, 512 << 20), drives_of(count, 2 << 40)):
        plan = make_plan(study, {}, drives)
        assert len({cell.key for cell in plan.cells}) == len(plan.cells)
        assert all(target.layout for target in plan.targets)
        for target in plan.targets:
            assert any(cell.target == target.label for cell in plan.cells), target.label


def test_the_sweep_has_every_array_of_the_article() -> None:
    labels = {target.label for target in make_plan(load_study("raid-sweep")).targets}
    assert {f"raid0-{count}" for count in range(1, 13)} <= labels
    assert {f"raid5-{count}" for count in range(3, 13)} <= labels
    assert {f"raid0{level}-2x{count}" for level in (0, 5) for count in range(4, 9)} <= labels
    assert "production" in labels


def test_the_sweep_measures_what_every_figure_of_the_article_shows() -> None:
    plan = make_plan(load_study("raid-sweep"))
    sizes = {512 << step for step in range(14)}
    against_drives = [target.label for target in plan.targets if target.label != "production"]
    for label in against_drives:  # figures 1 to 5
        own = [cell for cell in plan.cells if cell.target == label]
        seen = {(c.kind, c.operation, c.block_size_bytes, c.threads) for c in own}
        assert {("sequential", each, 8192, 1) for each in ("read", "write")} <= seen
        assert ("copy", "copy", 131_072, 1) in seen
        assert {
            ("matrix", each, 8192, threads) for each in ("read", "write") for threads in (1, 10, 40)
        } <= seen
    pairs = ["raid0-4", "raid0-8", "raid0-12", "raid5-4", "raid5-8", "raid5-12"]
    pairs += [f"raid0{level}-2x{count}" for level in (0, 5) for count in (4, 6, 8)]
    for label in pairs:  # figures 6 to 30
        own = [c for c in plan.cells if c.target == label and c.workload == "matrix"]
        for operation in ("read", "write"):
            for threads in (1, 10):
                line = [c for c in own if (c.operation, c.threads) == (operation, threads)]
                assert {cell.block_size_bytes for cell in line} == sizes
    dd = [cell for cell in plan.cells if cell.target == "production" and cell.kind != "fill"]
    for operation in ("read", "write"):  # figure 31
        for file in ("big", "small"):
            line = [c for c in dd if (c.operation, c.factors["file"]) == (operation, file)]
            assert {cell.block_size_bytes for cell in line} == sizes


def test_the_sweep_takes_a_night_at_most_with_all_drives_of_the_article() -> None:
    took = estimate(make_plan(load_study("raid-sweep"), {}, drives_of(16, 32 * GIB)))
    assert 3 * 3600 < took.time_s_min < 12 * 3600


def test_the_sweep_adapts_to_the_drives_at_hand() -> None:
    plan = make_plan(load_study("raid-sweep"), {}, drives_of(6, 2 * GIB))
    labels = [target.label for target in plan.targets]
    assert labels[-4:] == ["raid5-6", "raid00-2x2", "raid00-2x3", "raid05-2x3"]
    assert sum("are skipped" in note for note in plan.notes) == 5
    assert len({target.size_bytes for target in plan.targets}) == 1


def test_the_tiny_sweep_writes_whole_stripes_and_parts_of_them() -> None:
    plan = make_plan(load_study("raid-sweep-tiny"))
    counted = [cell for cell in plan.cells if cell.target.startswith("count-")]
    for target in plan.targets:
        if not target.label.startswith("count-"):
            continue
        assert target.layout is not None
        stripe_bytes = int(target.layout.data_members) * target.layout.chunk_kib << 10
        sizes = {cell.block_size_bytes for cell in counted if cell.target == target.label}
        assert sizes == {4096, stripe_bytes}
        assert target.kind == "device"
    took = estimate(plan)
    assert took.time_s_max < 45
    (failing,) = [cell for cell in plan.cells if cell.spec.get("fail")]
    assert failing.spec["verify"]
    assert {target.layout.backend for target in plan.targets if target.layout} == {"md", "md+lvm"}


def test_legs_are_compared_interleaved_and_stripes_by_md_and_by_lvm() -> None:
    plan = make_plan(load_study("leg-balance"), {}, drives_of(2, 2 * GIB))
    assert [target.label for target in plan.targets] == [
        "slots-2x1-leg1",
        "slots-2x1-leg2",
        "stripe-md-md-2x1",
        "stripe-md-lvm-2x1",
    ]
    ordered = order(plan, 0, [cell.key for cell in plan.cells])
    legs = [cell.target for cell in ordered if cell.target.startswith("slots-")]
    assert legs not in (sorted(legs), sorted(legs, reverse=True))


def test_every_kind_of_failure_is_tried() -> None:
    plan = make_plan(load_study("raid-failure"), {}, drives_of(5, 2 * GIB))
    faults = {fault["deed"] for cell in plan.cells for fault in cell.spec.get("fail", [])}
    assert faults == {"fail", "scrub", "rot", "bad_sectors", "falter", "drop_writes"}
    kinds = {cell.kind for cell in plan.cells if cell.spec.get("fail")}
    assert kinds == {"io", "pgbench"}
    limited = {cell.factors.get("rebuild_limit_kib_per_s") for cell in plan.cells}
    assert limited == {None, 20_000}
    (note,) = plan.notes
    assert note.startswith("two-failures on raid5: ")
    assert estimate(plan).time_s_min < 3600


def test_what_a_shipped_study_replays_is_sought_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = load_study("next-xraid")
    (workload,) = study.workloads
    assert workload.trace == str(tmp_path / "next-xraid.trace")
    assert workload.prepare == str(tmp_path / "next-xraid.dump")
    assert Path(workload.schema[1].migrate).is_file()
    plan = make_plan(study)
    assert len(plan.cells) == 2 * 4 * 2
    assert any("does not exist yet" in note for note in plan.notes)
    (tmp_path / "own.toml").write_text((BUILTIN / "next-xraid.toml").read_text())
    with pytest.raises(StudyError, match="there is no such file"):
        load_study(tmp_path / "own.toml")
