"""``seatrial layout``: what a study's layouts are; one built to stand, measured, and destroyed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from cli.command import Ended, seatrial
from report.json_schema import assert_published
from seatrial.errors import UsageError
from seatrial.trials.layouts.commands.layout import command

STUDY = """
name = "arrays"

[[layout]]
name = "pair"
backend = "btrfs"
level = ["raid0", "raid1"]
drives = 2

[[layout]]
name = "five"
backend = "md"
level = "raid5"
drives = 4
spares = 1
filesystem = "ext4"

[[workload]]
kind = "fill"
"""


@pytest.fixture
def study(tmp_path) -> str:
    (tmp_path / "arrays.toml").write_text(STUDY)
    return "arrays.toml"


@pytest.fixture
def root(tmp_path):
    """Where loop devices and btrfs can be had; nothing that a test leaves behind stays."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to build an array")
    if not Path("/dev/loop-control").exists():
        pytest.skip("needs the kernel's loop devices")
    if shutil.which("mkfs.btrfs") is None or "btrfs" not in Path("/proc/filesystems").read_text():
        pytest.skip("needs btrfs in the kernel and btrfs-progs")
    yield
    seatrial("layout", "destroy", "--all", folder=tmp_path)
    assert (
        str(tmp_path)
        not in subprocess.run(
            ["losetup", "--list"], capture_output=True, text=True, check=True
        ).stdout
    )


def document(ended: Ended, kind: str) -> dict:
    assert ended.code == 0, ended.err
    assert ended.document["kind"] == kind
    assert_published(ended.document)
    return ended.document


def test_the_variants_of_a_study_are_shown_with_what_they_hold_and_survive(tmp_path, study):
    shown = seatrial("layout", "show", study, "--loop", "6x1G", folder=tmp_path)
    assert shown.code == 0, shown.err
    rows = {line.split()[0]: line for line in shown.out.splitlines() if line.strip()}
    assert "2 GiB" in rows["pair-raid0"]
    assert "none" in rows["pair-raid0"]
    assert "1 GiB" in rows["pair-raid1"]
    assert "any 1" in rows["pair-raid1"]
    assert "3 GiB" in rows["five"]
    assert "4+1" in rows["five"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["arrays.toml"]


def test_the_document_holds_each_variant_with_its_drives_and_commands(tmp_path, study):
    shown = seatrial("layout", "show", study, "--loop", "6x1G", "--json", folder=tmp_path)
    variants = {each["label"]: each for each in document(shown, "layouts")["variants"]}
    five = variants["five"]
    assert five["assigned"]["legs"] == [["loop1", "loop2", "loop3", "loop4"]]
    assert five["assigned"]["spares"] == [["loop5"]]
    assert five["holds_bytes"] == 3 << 30
    assert any(command.startswith("mdadm --create") for command in five["commands"])
    assert any("mkfs.ext4" in command for command in five["commands"])


def test_without_drives_the_commands_name_places_for_them(tmp_path, study):
    shown = seatrial("layout", "show", study, "five", folder=tmp_path)
    assert shown.code == 0, shown.err
    assert "DRIVE1 DRIVE2 DRIVE3 DRIVE4" in shown.out
    assert "spares       DRIVE5" in shown.out
    assert "mdadm --create" in shown.out


def test_too_few_drives_are_reported_with_what_fits(tmp_path, study):
    shown = seatrial("layout", "show", study, "--loop", "4x1G", folder=tmp_path)
    assert shown.code == 0, shown.err
    assert "five: five needs 5 drives, but only 4 are available." in shown.out
    assert "3 GiB" not in shown.out


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("show", "arrays.toml", "pair-raid2"), "Did you mean 'pair-raid"),
        (("show", "quick"), "has no [[layout]]"),
        (("show", "arrays.toml", "--loop", "6"), "a count and a size, such as 6x2G"),
        (
            ("show", "arrays.toml", "--loop", "2x1G", "--devices", "/dev/x"),
            "Both --devices and --loop",
        ),
        (("destroy",), "give the name of a layout, or --all"),
        (("destroy", "five", "--all"), "give the name of a layout, or --all"),
        (("destroy", "five"), "There is no layout named five"),
        (("build", "arrays.toml", "fife", "--loop", "6x1G"), "Did you mean 'five'"),
    ],
)
def test_what_cannot_be_meant_is_reported_with_what_can(
    study, arguments, reported, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "state"))
    with pytest.raises((click.UsageError, UsageError)) as caught:
        command.main(args=list(arguments), standalone_mode=False)
    assert reported in str(caught.value)


def test_what_works_here_is_shown_where_nothing_stands(tmp_path):
    shown = seatrial("layout", "show", folder=tmp_path)
    assert shown.code == 0, shown.err
    assert shown.out.startswith("There are no standing layouts.\n")
    assert "single" in shown.out
    reported = document(seatrial("layout", "show", "--json", folder=tmp_path), "standing")
    names = {each["name"] for each in reported["check"]["backends"]}
    assert {"single", "md", "lvm", "md+lvm", "md+md", "btrfs", "zfs"} <= names
    assert reported["standing"] == []


def test_the_plan_of_a_build_touches_nothing(tmp_path, study):
    shown = seatrial(
        "layout", "build", study, "pair-raid1", "--loop", "2x1G", "--plan", folder=tmp_path
    )
    assert shown.code == 0, shown.err
    assert "mkfs.btrfs" in shown.out
    assert shown.out.endswith("Nothing was changed.\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["arrays.toml"]
    planned = seatrial(
        *("layout", "build", study, "pair-raid1", "--loop", "2x1G", "--plan", "--json"),
        folder=tmp_path,
    )
    (variant,) = document(planned, "layouts")["variants"]
    assert variant["label"] == "pair-raid1"


def test_building_without_drives_says_how_to_name_them(tmp_path, study, root):
    ended = seatrial("layout", "build", study, "pair-raid1", folder=tmp_path)
    assert ended.code == 2
    assert "--loop 2x2G" in ended.err


@pytest.mark.root
def test_a_layout_stands_is_measured_and_destroyed(tmp_path, study, root):
    built = seatrial(
        "layout", "build", study, "pair-raid1", "--loop", "2x192M", "--json", folder=tmp_path
    )
    (standing,) = document(built, "standing")["standing"]
    assert standing["is_there"]
    (folder,) = standing["folders"]
    assert os.path.ismount(folder)

    shown = seatrial("layout", "show", folder=tmp_path)
    assert folder in shown.out
    assert f"seatrial layout destroy {standing['run_id']}" in shown.out

    cleaned = seatrial("clean", folder=tmp_path)
    assert cleaned.code == 0
    assert "kept" in cleaned.out
    assert f"`seatrial layout destroy {standing['run_id']}` undoes it" in cleaned.out
    assert os.path.ismount(folder)

    measured = seatrial(
        *("io", folder, "--size", "8MiB", "--seconds", "0.2", "--rounds", "1", "--json"),
        folder=tmp_path,
    )
    assert measured.code == 0, measured.err
    target = measured.document["run"]["fingerprint_before"]["target"]
    assert target["filesystem"]["type"] == "btrfs"
    assert target["filesystem"]["btrfs"]["data_profiles"] == ["raid1"]
    layers = {layer["name"] for layer in target["stack"]}
    drives = [Path(drive).name for drive in standing["assigned"]["legs"][0]]
    assert layers.issuperset(drives)

    ended = seatrial("layout", "destroy", "pair-raid1", folder=tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert not Path(folder).exists()
    assert seatrial("clean", folder=tmp_path).out == "There is nothing to undo.\n"
    assert list(tmp_path.glob(".seatrial-*")) == []


@pytest.mark.root
def test_a_build_that_fails_leaves_nothing(tmp_path, root):
    text = STUDY.replace('level = ["raid0", "raid1"]', 'level = "raid1"')
    (tmp_path / "arrays.toml").write_text(
        text.replace("drives = 2", 'drives = 2\nmkfs_options = ["--no-such-option"]', 1)
    )
    ended = seatrial("layout", "build", "arrays.toml", "pair", "--loop", "2x192M", folder=tmp_path)
    assert ended.code == 6
    assert "no-such-option" in ended.err
    assert seatrial("layout", "show", folder=tmp_path).out.startswith(
        "There are no standing layouts."
    )
    assert seatrial("clean", folder=tmp_path).out == "There is nothing to undo.\n"
    assert list(tmp_path.glob(".seatrial-*")) == []


@pytest.mark.root
def test_devices_with_data_must_be_named_and_are_shown_before(tmp_path, study, root):
    devices = []
    for name in ("a.img", "b.img"):
        (tmp_path / name).write_bytes(b"\0" * 512)
        os.truncate(tmp_path / name, 192 << 20)
        attach = ["losetup", "--find", "--show", str(tmp_path / name)]
        devices.append(
            subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
        )
    try:
        reported = ("layout", "build", study, "pair-raid1", "--devices", ",".join(devices))
        refused = seatrial(*reported, folder=tmp_path)
        assert refused.code == 5
        assert f"--destroy {','.join(devices)}" in refused.err
        built = seatrial(*reported, "--destroy", ",".join(devices), folder=tmp_path)
        assert built.code == 0, built.err
        assert f"All data on {devices[0]} (192 MiB" in built.err
        assert "no serial number) will be lost." in built.err
        assert seatrial("layout", "destroy", "--all", folder=tmp_path).code == 0
        for device in devices:
            blkid = subprocess.run(["blkid", "-p", device], capture_output=True, check=False)
            assert blkid.returncode == 2, "no mark is left on the drive"
    finally:
        for device in devices:
            subprocess.run(["losetup", "-d", device], check=False)
