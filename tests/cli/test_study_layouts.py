"""``seatrial study`` of layouts: the plan with every command; drives missing or unknown."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from cli.command import SEATRIAL, seatrial
from lab.unprivileged import folder_of_nobody, python_folders, unprivileged
from report.json_schema import assert_published
from seatrial.cli.files import Output
from seatrial.cli.options import MeasureOptions
from seatrial.cli.study_command import plan_of, show_or_measure
from seatrial.errors import StudyError, UsageError
from seatrial.results.model import Run
from seatrial.results.store import ResultsFile
from seatrial.study.layouts.layout import Drives
from seatrial.study.load import study_to_mapping

REPOSITORY = Path(__file__).parents[2]
NO_PROGRAMS = {"PATH": "/nonexistent"}


def test_the_articles_whole_sweep_is_planned_without_root_programs_or_drives(tmp_path):
    ended = seatrial("study", "raid-sweep", "--plan", folder=tmp_path, env=NO_PROGRAMS)
    assert ended.code == 0, ended.err
    reported, commands = ended.out.split("\nCommands to build ")
    assert "raid05-2x8  md+lvm stripe over 2 legs, each raid5 of 8 drives" in reported
    assert "Builds  36 per round" in reported
    for label in ("raid0-1", "raid5-12", "raid00-2x8", "production"):
        assert f"\n  {label}\n    mdadm --create " in commands
    assert commands.count("lvcreate ") == 14
    assert commands.count("mkfs.ext4 ") == 36
    assert not list(tmp_path.iterdir())


def test_the_articles_whole_sweep_is_planned_by_nobody(tmp_path):
    with folder_of_nobody() as place:
        argv = [SEATRIAL, "study", "raid-sweep", "--loop", "16x2G", "--plan"]
        ended = subprocess.run(
            unprivileged(argv, [REPOSITORY, *python_folders()], tmp_path),
            cwd=place,
            env=os.environ | {"SEATRIAL_STATE_DIR": str(place / "state"), "HOME": str(place)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        assert not list(place.iterdir())
    cells, commands = ended.stdout.split("\nCommands to build ")
    assert "\n  all             1639 " in cells
    for kind in ("Time  ", "Writes  ", "Builds  ", "Space  "):
        assert f"\n{kind}" in cells
    assert commands.count("mkfs.ext4 ") == 36


def test_the_plan_as_a_document_has_drives_and_commands(tmp_path):
    options = ("--loop", "6x2G", "--loop-dir", "files", "--plan", "--json")
    ended = seatrial("study", "raid-sweep", *options, folder=tmp_path, env=NO_PROGRAMS)
    document = ended.document
    assert_published(document)
    assert [drive["name"] for drive in document["drives"]] == [f"loop{n}" for n in range(1, 7)]
    labels = [target["label"] for target in document["targets"]]
    assert list(document["commands"]) == labels
    assert all(document["commands"].values())
    assert document["targets"][-1]["layout"]["level"] == "raid5"
    assert document["estimate"]["loop_bytes"] == 12 << 30


def test_without_drives_it_says_how_many_and_the_three_ways(tmp_path):
    ended = seatrial("study", "raid-failure", folder=tmp_path)
    assert ended.code == 2
    reported = " ".join(ended.err.split())
    assert "The layouts of study 'raid-failure' need 5 drives, but none were given" in reported
    for way in ("--devices A,B,...", "--loop 5x2G", "`seatrial lab`"):
        assert way in reported
    assert not (tmp_path / "results.seatrial").exists()


def test_drives_of_the_lab_are_none_of_this_machine(tmp_path):
    ended = seatrial("study", "raid-sweep-tiny", folder=tmp_path)
    assert ended.code == 2
    assert "The study uses virtual disks of the lab, but does not run in the lab" in " ".join(
        ended.err.split()
    )


def test_too_few_drives_are_reported_with_the_layout(tmp_path):
    ended = seatrial("study", "raid-failure", "--loop", "4x1G", "--plan", folder=tmp_path)
    assert ended.code == 2
    assert "Layout raid6 needs 5 drives, but only 4 are available." in ended.err


def test_a_drive_is_a_block_device(tmp_path):
    with pytest.raises(StudyError, match="was given as a drive for layouts, but it is a directory"):
        plan_of("raid-sweep", devices=str(tmp_path))


def test_a_backend_that_there_is_not_is_reported_before_anything_is_done(tmp_path):
    study = tmp_path / "my.toml"
    study.write_text(
        'name = "s"\n[[layout]]\nname = "a"\nbackend = "mdd"\n[[workload]]\nkind = "fill"\n'
    )
    with pytest.raises(StudyError, match="There is no backend 'mdd'"):
        plan_of(str(study), loop="2x1G")


def test_places_of_drives_are_kept_from_the_root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert plan_of("raid-sweep", loop="2x1G").study.drives == Drives(
        loop="2x1G", folder=str(tmp_path)
    )
    named = plan_of("raid-sweep", loop="2x1G", loop_dir="files").study.drives
    assert named.folder == str(tmp_path / "files")


def test_a_run_on_other_drives_is_not_resumed(tmp_path):
    results = tmp_path / "results.seatrial"
    begun = plan_of("raid-sweep", loop="2x1G", loop_dir=str(tmp_path))
    run = Run(
        id="begun", command="seatrial", study_name="raid-sweep", status="running",
        study=json.loads(json.dumps(study_to_mapping(begun.study))), plan_hash=begun.plan_hash,
        seed=1, started_at=1.0, seatrial_version="0",
    )  # fmt: skip
    with ResultsFile.open(results, create=True) as store:
        store.start_run(run)
    measuring = MeasureOptions(
        results=results, report=Output(), label="", destroy=None, as_json=False, plan_only=False
    )
    other = plan_of("raid-sweep", loop="2x1G", loop_dir=str(Path("/")))
    assert other.plan_hash == begun.plan_hash
    with pytest.raises(UsageError, match="no unfinished run of this plan on this target"):
        show_or_measure(other, measuring, resume=True)
