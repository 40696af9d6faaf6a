"""LVM without LVM: what is run, and what its reports and the device-mapper's status mean."""

from __future__ import annotations

import json

import pytest

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.tree import CommandOutput, SystemTree
from seatrial.trials.layouts.build import volume_group
from seatrial.trials.layouts.build.backend import ArrayState, Built
from seatrial.trials.layouts.build.backends import lvm as lvm_backend
from seatrial.trials.layouts.build.registry import backend
from trials.layouts.build.specs import DRIVES, NAME, built_of, variant

GROUP = f"{NAME}-leg1"


def commands(spec, drives=None) -> list[str]:
    """Of a plan, without the configuration that each carries."""
    steps = backend(spec.backend).plan(spec, built_of(spec, drives), NAME).steps
    return [
        " ".join(word for at, word in enumerate(step.command) if at not in {1, 2})
        if step.command[1] == "--config"
        else str(step)
        for step in steps
    ]


def test_a_striped_volume():
    *created, group, volume = commands(variant("lvm", "raid0", 2, chunk_kib=64))
    assert created == [
        f"pvcreate -ff -y --uuid {volume_group.volume_uuid(GROUP, drive)} --norestorefile {drive}"
        for drive in DRIVES[:2]
    ]
    assert group == f"vgcreate -y {GROUP} /dev/sda /dev/sdb"
    assert volume == (
        f"lvcreate -y -W n -l 100%PVS -n data --type striped -i 2 -I 64k {GROUP} /dev/sda /dev/sdb"
    )


@pytest.mark.parametrize(
    ("level", "drives", "shape"),
    [
        ("raid0", 1, "--type striped -i 1"),
        ("raid1", 3, "--type raid1 -m 2"),
        ("raid10", 4, "--type raid10 -i 2 -m 1 -I 128k"),
        ("raid5", 4, "--type raid5 -i 3 -I 128k"),
        ("raid6", 5, "--type raid6 -i 3 -I 128k"),
    ],
)
def test_each_level_has_its_shape(level, drives, shape):
    assert f"-n data {shape} {GROUP}" in commands(variant("lvm", level, drives))[-1]


def test_a_limit_of_the_machine_is_recorded_with_its_new_value(tmp_path):
    """Another run, or a user, may change it meanwhile: it is then left as it is."""
    setting = tmp_path / "proc/sys/dev/raid/speed_limit_max"
    setting.parent.mkdir(parents=True)
    setting.write_text("200000\n")
    (step,) = volume_group.sync_limit_steps(SystemTree(tmp_path))
    assert (step.details["old"], step.details["new"]) == ("200000", step.stdin)


def test_a_spare_is_in_the_group_and_not_under_the_volume():
    *_created, group, volume = commands(variant("lvm", spares=1, initial_sync=False))
    assert group.endswith("/dev/sda /dev/sdb /dev/sdc /dev/sdd")
    assert volume.endswith(f"--nosync {GROUP} /dev/sda /dev/sdb /dev/sdc")


def test_every_command_sees_our_drives_only_and_reads_no_configuration_of_the_machines():
    spec = variant("lvm", "raid0", 2)
    for step in backend("lvm").plan(spec, built_of(spec, DRIVES[:3]), NAME).steps:
        assert 'filter=["a#^(/dev/sda|/dev/sdb|/dev/sdc)$#","r#.*#"]' in step.command[2]
        assert "udev_sync=0 udev_rules=0" in step.command[2]
        assert "backup=0 archive=0" in step.command[2]
        assert step.environment == {"LVM_SYSTEM_DIR": ""}


def test_the_first_command_records_the_group_with_all_devices_it_may_get():
    spec = variant("lvm", "raid0", 2)
    first = backend("lvm").plan(spec, built_of(spec, DRIVES[:3]), NAME).steps[0]
    assert first.undo == "lvm"
    assert first.details == {"group": GROUP, "devices": "/dev/sda,/dev/sdb,/dev/sdc"}


def test_a_stripe_over_legs_begins_at_a_full_stripe_of_theirs():
    reported = commands(variant("md+lvm", "raid5", 4, legs=2, stripe_kib=256))
    assert [line.split()[0] for line in reported] == [
        *("mdadm", "mdadm", "pvcreate", "pvcreate", "vgcreate", "lvcreate")
    ]
    assert "--dataalignment 384k /dev/md200" in reported[2]
    assert reported[-1].endswith(f"--type striped -i 2 -I 256k {NAME} /dev/md200 /dev/md201")


def test_exposed_legs_have_nothing_over_them():
    spec = variant("md+lvm", legs=2, expose="legs")
    plan = backend("md+lvm").plan(spec, built_of(spec), NAME)
    assert plan.devices == plan.leg_devices == ("/dev/md200", "/dev/md201")
    assert len(plan.steps) == 2


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (variant("lvm", "raid6", 4), "at least 5 drives"),
        (variant("lvm", "raid6", 5, initial_sync=False), "synchronises every raid6"),
        (variant("lvm", "raid5", 3, chunk_kib=96), "power of two"),
        (variant("lvm", "raid5", 3), ""),
        (variant("md+lvm", "raid5", 3, legs=2, stripe_kib=96), "power of two"),
    ],
)
def test_what_lvm_cannot_do_is_said_before(spec, problem):
    said = backend(spec.backend).check(spec)
    assert (problem in said) if problem else said == ""


@pytest.mark.parametrize(
    ("status", "level", "expected"),
    [
        ("0 9 raid raid5_ls 3 AAA 9/9 idle 0 0 -", "raid5", ArrayState()),
        (
            "0 9 raid raid5_ls 3 aaa 12/48 resync 0 0 -",
            "raid5",
            ArrayState(operation="resync", share=0.25),
        ),
        (
            "0 9 raid raid5_ls 3 AaA 12/48 recover 0 0 -",
            "raid5",
            ArrayState(missing=1, operation="rebuild", share=0.25),
        ),
        ("0 9 raid raid5_ls 3 ADA 9/9 idle 0 0 -", "raid5", ArrayState(missing=1)),
        ("0 9 raid raid5_ls 3 DDA 9/9 idle 0 0 -", "raid5", ArrayState(missing=2, has_failed=True)),
        ("0 9 raid raid1 3 ADD 9/9 idle 0 0 -", "raid1", ArrayState(missing=2)),
        (
            "0 9 raid raid6_zr 5 AAAAA 0/48 check 0 0 -",
            "raid6",
            ArrayState(operation="scrub", share=0.0),
        ),
        ("0 9 striped 2 253:0 253:1 1 AA", "raid0", ArrayState()),
        ("0 9 striped 2 253:0 253:1 1 AD", "raid0", ArrayState(missing=1, has_failed=True)),
        ("0 9 linear", "raid0", ArrayState(has_failed=True)),
        ("", "raid5", ArrayState(has_failed=True)),
    ],
)
def test_what_the_device_mapper_says(status, level, expected):
    assert volume_group.parse_status(status, level) == expected


class Lvm:
    """LVM on a made-up machine: one group, whose devices are physical volumes."""

    def __init__(self) -> None:
        self.group = GROUP
        self.marked = {path: volume_group.volume_uuid(GROUP, path) for path in DRIVES[:2]}
        self.reported: list[str] = []
        self.is_busy = False

    def attempt(self, command, **_how) -> CommandOutput:
        program, arguments = command[0], command[3:]
        self.reported.append(f"{program} {arguments[-1]}")
        if program == "vgs":
            rows = [{"vg_name": self.group}] if self.group else []
            return CommandOutput(0, json.dumps({"report": [{"vg": rows}]}), "")
        if program == "pvs":
            rows = [
                {"pv_name": path, "pv_uuid": uuid, "vg_name": self.group}
                for path, uuid in self.marked.items()
            ]
            return CommandOutput(0, json.dumps({"report": [{"pv": rows}]}), "")
        if program == "vgremove" and self.is_busy:
            return CommandOutput(5, "", "  WARNING: x\n  Logical volume g/data in use.\n")
        if program == "vgremove":
            self.group = ""
        if program == "pvremove":
            for path in arguments[2:]:
                del self.marked[path]
        return CommandOutput(0, "", "")


@pytest.fixture
def lvm(monkeypatch, blkid):
    fake = Lvm()
    monkeypatch.setattr(volume_group, "attempt", fake.attempt)
    monkeypatch.setattr(
        volume_group, "run_checked", lambda command, **how: fake.attempt(command, **how).output
    )
    monkeypatch.setattr(volume_group, "LIVE", Nodes())
    return fake


class Nodes:
    """A machine whose drives are there, and that maps nothing."""

    def block_number(self, path: str) -> str | None:
        return "8:0" if path in DRIVES[:2] else None

    def names(self, _folder: str) -> list[str]:
        return []


def undo(devices="/dev/sda,/dev/sdb,/dev/gone"):
    return volume_group.undo_lvm(group=GROUP, devices=devices)


def test_undoing_removes_the_group_and_clears_its_devices(lvm):
    result = undo()
    assert (result.outcome, result.detail) == ("undone", "removed, its devices cleared")
    assert lvm.marked == {}
    assert undo().outcome == "gone", "it may be called again"


def test_a_device_is_left_where_a_reboot_shifted_the_names(lvm, blkid):
    blkid.append(f"DEVNAME=/dev/sdx\nUUID={volume_group.volume_uuid(GROUP, '/dev/gone')}")
    result = undo()
    assert (result.outcome, lvm.marked) == ("failed", {})
    assert "/dev/sdx" in result.detail


def test_devices_that_never_came_into_the_group_are_cleared_as_well(lvm):
    lvm.group = ""
    assert undo().detail == "its devices cleared"


def test_devices_of_somebody_elses_are_left_alone(lvm):
    lvm.group = "data"
    assert undo().outcome == "foreign"
    lvm.group = ""
    lvm.marked = {"/dev/sda": "AAAAAA-0000-0000-0000-0000-0000-000000"}
    assert undo().outcome == "gone"
    assert not any(reported.startswith(("vgremove", "pvremove")) for reported in lvm.reported)


def test_a_volume_in_use_stays_in_the_journal(lvm):
    lvm.is_busy = True
    result = undo()
    assert result.outcome == "failed"
    assert "in use" in result.detail
    assert lvm.marked


def test_drives_that_are_gone_leave_nothing(lvm):
    assert undo("/dev/gone").outcome == "gone"
    assert lvm.reported == []


@pytest.fixture
def status(lvm, monkeypatch) -> list[str]:
    """What the device-mapper says of the volume from now on, the last; all reads are answered."""
    reported = ["0 9 raid raid5_ls 3 AAA 9/9 idle 0 0 -"]
    monkeypatch.setattr(volume_group, "attempt", lambda *_any: CommandOutput(0, reported[-1], ""))
    monkeypatch.setattr(volume_group, "is_readable", lambda *_any: True)
    monkeypatch.setattr(volume_group, "wait_until", lambda condition, _patience_s: condition())
    return reported


def test_a_drive_that_fails_unnoticed_is_reported(status, monkeypatch):
    monkeypatch.setattr(lvm_backend, "fail_drive", lambda _drive: None)
    with pytest.raises(TargetError, match="did not detect the drive failure"):
        backend("lvm").fail(built_array(variant("lvm")), 1, 2)


@pytest.mark.parametrize("before", ["AAA 9/9 idle", "aDA 4/9 recover"])
def test_a_failure_that_somebody_elses_write_has_shown_already_is_noticed(
    status, monkeypatch, before
):
    """The file system, or md's own marks, may come to the drive before any read of ours."""
    status.append(f"0 9 raid raid5_ls 3 {before} 0 0 -")
    after = before.replace("A", "D", 1)
    monkeypatch.setattr(
        lvm_backend,
        "fail_drive",
        lambda _drive: status.append(f"0 9 raid raid5_ls 3 {after} 0 0 -"),
    )
    assert backend("lvm").fail(built_array(variant("lvm")), 1, 1) == "/dev/sda"


def built_array(spec) -> Built:
    assigned = built_of(spec)
    plan = backend("lvm").plan(spec, assigned, NAME)
    return Built(spec=spec, name=NAME, assigned=assigned, construction=plan)
