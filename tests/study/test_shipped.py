"""The studies that seatrial ships: they parse, plan, keep their promises and their keys."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import seatrial
from seatrial.study.estimate import estimate
from seatrial.study.load import BUILTIN, find_study, load_study, shipped_studies
from seatrial.study.model import TargetInfo
from seatrial.study.plan import make_plan

ROOT = Path(__file__).resolve().parents[2]
GIB = 1 << 30


def test_these_are_shipped() -> None:
    assert shipped_studies() == ["four-kib", "one-dvd-per-second", "quick"]


@pytest.mark.parametrize("name", shipped_studies())
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
    assert 60 <= took.time_s_min <= took.time_s_max <= 120
    assert plan.study.budget.time_s == 120
    assert plan.targets[0].size_bytes == GIB


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


def test_the_four_numbers_are_those_of_xbench() -> None:
    cells = make_plan(load_study("four-kib")).cells
    four = [cell for cell in cells if cell.workload == "four"]
    assert {f"{cell.factors['pattern']}-4k-{cell.operation}" for cell in four} == {
        "sequential-4k-write",
        "sequential-4k-read",
        "random-4k-write",
        "random-4k-read",
    }
