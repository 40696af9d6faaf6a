"""Arrays of md without md: what is run, and what a made-up sysfs tells. Real ones: the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.tree import CommandOutput, SystemTree
from seatrial.trials.layouts.build import md_array, md_legs
from seatrial.trials.layouts.build.backend import ArrayState, Built, Construction
from seatrial.trials.layouts.build.names import NAME_PREFIX, array_name, identity, run_of, shortened
from seatrial.trials.layouts.build.registry import backend
from trials.layouts.build.specs import DRIVES, NAME, built_of, variant

PARTED = "8c2b09c8-7489-8793-cd95-1f996d1b5ab8"


@pytest.fixture
def machine(tmp_path) -> SystemTree:
    """A machine with one array of three drives, md200, healthy."""
    put(tmp_path, "sys/block/md200/md/level", "raid5")
    put(tmp_path, "sys/block/md200/md/raid_disks", "3")
    put(tmp_path, "sys/block/md200/md/degraded", "0")
    put(tmp_path, "sys/block/md200/md/sync_action", "idle")
    put(tmp_path, "sys/block/md200/md/array_state", "clean")
    put(tmp_path, "sys/block/md200/md/resync_start", "none")
    put(tmp_path, "sys/block/md200/md/chunk_size", "131072")
    put(tmp_path, "sys/block/md200/md/metadata_version", "1.2")
    put(tmp_path, "sys/block/md200/md/bitmap/location", "none")
    for slot, name in enumerate(("sda", "sdb", "sdc")):
        disk = tmp_path / f"sys/devices/{name}"
        put(tmp_path, f"sys/devices/{name}/dev", f"8:{slot * 16}")
        member = tmp_path / f"sys/block/md200/md/dev-{name}"
        put(tmp_path, f"sys/block/md200/md/dev-{name}/offset", "2048")
        (member / "block").symlink_to(disk)
        (tmp_path / f"sys/block/md200/md/rd{slot}").symlink_to(member)
        (tmp_path / "sys/class/block").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"sys/class/block/{name}").symlink_to(disk)
    return SystemTree(tmp_path)


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text + "\n")


def commands(spec, drives=None) -> list[str]:
    plan = backend(spec.backend).plan(spec, built_of(spec, drives), NAME)
    return [str(step) for step in plan.steps]


def test_a_raid5_with_a_spare_is_created_by_one_command():
    assert commands(variant(spares=1)) == [
        "mdadm --create /dev/md200 --run --metadata=1.2 '--homehost=<none>'"
        " --name=st-20261121-074500-3fa2-1-leg1 --uuid=eb26770e:53945db2:b084553a:48c3abbf"
        " --level=raid5 --raid-devices=3 --chunk=128 --spare-devices=1 --bitmap=none"
        " /dev/sda /dev/sdb /dev/sdc /dev/sdd"
    ]


@pytest.mark.parametrize(
    ("level", "drives", "has", "has_not"),
    [
        ("raid0", 3, "--chunk=64", "--bitmap"),
        ("raid0", 1, "--force", "--bitmap"),
        ("raid1", 2, "--bitmap=none", "--chunk"),
        ("raid10", 4, "--chunk=64", "--force"),
        ("raid6", 4, "--bitmap=none", "--assume-clean"),
    ],
)
def test_each_level_gets_the_options_that_md_takes_for_it(level, drives, has, has_not):
    (command,) = commands(variant(level=level, drives=drives, chunk_kib=64))
    assert f" {has} " in command
    assert has_not not in command


def test_an_array_that_is_reported_to_be_clean_and_uses_a_part_of_its_drives():
    (command,) = commands(variant(initial_sync=False, member_bytes=64 << 20))
    assert "--size=65536 --assume-clean" in command
    create, shrink = commands(variant(level="raid0", drives=2, member_bytes=64 << 20))
    assert "--size" not in create, "md takes no size of a RAID 0's drives"
    assert shrink == "mdadm --grow /dev/md200 --array-size=131072"


def test_the_entry_names_the_identity_that_the_command_gives_and_every_drive_that_may_bear_it():
    spec = variant()
    (step,) = backend("md").plan(spec, built_of(spec, DRIVES[:5]), NAME).steps
    assert step.undo == "md"
    assert step.details["members"] == "/dev/sda,/dev/sdb,/dev/sdc,/dev/sdd,/dev/sde"
    uuid = str(step.details["uuid"]).replace("-", "")
    assert f"--uuid={uuid[:8]}:{uuid[8:16]}:" in str(step)


def test_legs_side_by_side_have_names_and_identities_of_their_own():
    first, second = commands(variant(legs=2, expose="legs"))
    assert "/dev/md200" in first
    assert "/dev/md201" in second
    assert first.split("--uuid=")[1][:35] != second.split("--uuid=")[1][:35]


def test_md_over_md_stripes_over_the_legs():
    *_legs, top = commands(variant("md+md", legs=2, stripe_kib=256))
    assert "/dev/md202" in top
    assert top.endswith("--level=raid0 --raid-devices=2 --chunk=256 /dev/md200 /dev/md201")


def test_bare_drives_are_legs_as_they_are():
    (only,) = commands(variant("md+md", "single", 1, legs=3))
    assert only.endswith("--raid-devices=3 --chunk=128 /dev/sda /dev/sdb /dev/sdc")
    assert "one drive without a spare" in backend("md+md").check(
        variant("md+md", "single", 2, legs=2)
    )


def test_numbers_that_are_taken_are_left_alone(machine):
    assert md_array.free_devices(2, machine) == ["/dev/md201", "/dev/md202"]
    with pytest.raises(TargetError, match="Only 311 md device numbers"):
        md_array.free_devices(400, machine)


def test_a_healthy_array(machine):
    assert md_array.state("/dev/md200", "raid5", tree=machine) == ArrayState()


@pytest.mark.parametrize(
    ("degraded", "action", "completed", "expected"),
    [
        ("1", "recover", "16128 / 129024", ArrayState(missing=1, operation="rebuild", share=0.125)),
        ("1", "idle", "none", ArrayState(missing=1)),
        ("1", "recover", "none", ArrayState(missing=1)),
        ("0", "recover", "129024 / 129024", ArrayState()),
        ("0", "resync", "delayed", ArrayState(operation="resync")),
        ("0", "check", "0 / 129024", ArrayState(operation="scrub", share=0.0)),
        ("2", "idle", "none", ArrayState(missing=2, has_failed=True)),
    ],
)
def test_states_by_sysfs(machine, degraded, action, completed, expected):
    put(machine.root, "sys/block/md200/md/degraded", degraded)
    put(machine.root, "sys/block/md200/md/sync_action", action)
    put(machine.root, "sys/block/md200/md/sync_completed", completed)
    assert md_array.state("/dev/md200", "raid5", tree=machine) == expected


def test_copies_survive_all_but_one_and_a_synchronisation_to_come_is_one(machine):
    put(machine.root, "sys/block/md200/md/degraded", "2")
    assert not md_array.state("/dev/md200", "raid1", tree=machine).has_failed
    put(machine.root, "sys/block/md200/md/degraded", "0")
    put(machine.root, "sys/block/md200/md/resync_start", "0")
    assert md_array.state("/dev/md200", "raid1", tree=machine).operation == "resync"


def test_mdstat_reports_more_finely_how_far_a_rebuild_is(machine):
    put(machine.root, "sys/block/md200/md/degraded", "1")
    put(machine.root, "sys/block/md200/md/sync_action", "recover")
    put(machine.root, "sys/block/md200/md/sync_completed", "0 / 129024")
    put(
        machine.root,
        "proc/mdstat",
        "Personalities : [raid5]\nmd20 : active raid5 sdx[0]\n"
        "      [=>...]  recovery = 90.0% (90/100) finish=0.1min\n\n"
        "md200 : active raid5 sdc[4] sda[0]\n      129024 blocks super 1.2 [3/2] [U_U]\n"
        "      [==>..]  recovery = 12.5% (8064/64512) finish=0.1min speed=8192K/sec\n\n"
        "md201 : active raid1 sdz[0]\n      [=>...]  resync = 50.0% (50/100)\n",
    )
    assert md_array.state("/dev/md200", "raid5", tree=machine).share == 0.125


def test_facts_and_offsets(machine):
    reported = md_array.facts("/dev/md200", machine)
    assert reported["chunk_kib"] == "128"
    assert reported["bitmap"] == "none"
    assert reported["data_offset_kib"] == "1024"
    assert md_array.data_offsets_bytes("/dev/md200", machine)["sdb"] == 1 << 20


def test_who_is_in_a_slot_is_requested_each_time(machine):
    known = ["/dev/sda", "/dev/sdb"]
    assert md_array.member_at("/dev/md200", 1, known, machine) == "/dev/sdb"
    assert md_array.member_at("/dev/md200", 2, known, machine) == "/dev/sdc"
    assert md_array.member_at("/dev/md200", 3, known, machine) == ""


def test_limits_are_set_back_to_the_systems_own():
    low, high = md_array.limit_steps("/dev/md200", 4000)
    assert str(low) == "echo 1000 | tee /sys/block/md200/md/sync_speed_min"
    assert str(high) == "echo 4000 | tee /sys/block/md200/md/sync_speed_max"
    assert high.details["old"] == "system"
    assert md_array.limit_steps("/dev/md200", 200)[0].stdin == "200", "never above the limit"


def test_failing_a_drive_takes_note_of_the_spare_in_its_place(monkeypatch):
    spec = variant(spares=1)
    built = standing(spec)
    slots = dict(enumerate(built.assigned.legs[0]))
    failed = []

    def fail(device, drive):
        failed.append((device, drive))
        slots[1] = "/dev/sdd"

    monkeypatch.setattr(md_array, "fail", fail)
    monkeypatch.setattr(md_array, "member_at", lambda _device, slot, _known: slots[slot])
    assert md_legs.fail(built, 1, 2) == "/dev/sdb"
    assert failed == [("/dev/md200", "/dev/sdb")]
    assert built.assigned.legs == [["/dev/sda", "/dev/sdd", "/dev/sdc"]]
    assert built.assigned.spares == [[]]


def test_a_place_where_none_serves_cannot_fail_again(monkeypatch):
    monkeypatch.setattr(md_array, "member_at", lambda *_any: "")
    with pytest.raises(TargetError, match="there is no active drive in its slot"):
        md_legs.fail(standing(variant()), 1, 2)


def test_what_has_no_redundancy_fails_by_its_drive_and_cannot_be_mended(monkeypatch):
    failed = []
    monkeypatch.setattr(md_legs, "fail_drive", failed.append)
    built = standing(variant(level="raid0", drives=2))
    assert md_legs.fail(built, 1, 2) == "/dev/sdb"
    assert failed == ["/dev/sdb"]
    with pytest.raises(TargetError, match="cannot be replaced"):
        md_legs.replace(built, 1, 2, "/dev/sdc")


def standing(spec) -> Built:
    nodes = tuple(f"/dev/md{200 + leg}" for leg in range(spec.legs))
    construction = Construction(steps=(), devices=nodes, leg_devices=nodes)
    return Built(spec=spec, name=NAME, assigned=built_of(spec), construction=construction)


class Mdadm:
    """An mdadm on a made-up machine: its commands, and what it does to superblocks."""

    def __init__(self, root: Path, marked: dict[str, str]) -> None:
        self.root = root
        self.marked = marked
        self.reported: list[str] = []

    def attempt(self, command, **_how) -> CommandOutput:
        self.reported.append(" ".join(command[1:]))
        if "--stop" in command:
            name = Path(command[-1]).name
            (self.root / f"sys/block/{name}").rename(self.root / f"stopped-{name}")
        if "--zero-superblock" in command:
            for member in command[2:]:
                del self.marked[member]
        return CommandOutput(0, "", "")


@pytest.fixture
def undoing(monkeypatch, machine, blkid):
    """Undo on the made-up machine; the array bears PARTED, and so do two of the drives."""
    put(machine.root, "sys/block/md200/md/uuid", PARTED)
    ours = PARTED.replace("-", "")
    marked = {"/dev/sda": ours, "/dev/sdb": ours, "/dev/sdc": f"{1:032x}"}
    mdadm = Mdadm(machine.root, marked)
    monkeypatch.setattr(md_array, "array_uuid", lambda member: marked.get(member, ""))
    monkeypatch.setattr(md_array, "LIVE", machine)
    monkeypatch.setattr(md_array, "attempt", mdadm.attempt)
    monkeypatch.setattr(
        md_array, "run_checked", lambda command, **how: mdadm.attempt(command, **how).output
    )
    return mdadm


def undo(device="/dev/md200"):
    members = "/dev/sda,/dev/sdb,/dev/sdc,/dev/gone"
    return md_array.undo_md(device=device, uuid=PARTED, members=members)


def test_undoing_stops_the_array_and_clears_only_what_bears_its_identity(undoing):
    result = undo()
    assert (result.outcome, result.detail) == ("undone", "/dev/md200 stopped, its drives cleared")
    assert list(undoing.marked) == ["/dev/sdc"]
    assert not any("/dev/gone" in reported for reported in undoing.reported)
    assert undo().outcome == "gone", "it may be called again"


def test_an_array_under_another_number_is_found_by_its_identity(undoing):
    assert undo(device="/dev/md207").detail.startswith("/dev/md200 stopped")


def test_drives_that_a_reboot_renumbered_are_found_by_their_array(undoing, machine):
    put(machine.root, "sys/class/block/sdd/dev", "8:48")
    put(machine.root, "sys/block/md200/slaves/sdd", "")
    undoing.marked["/dev/sdd"] = undoing.marked.pop("/dev/sda")
    assert undo().outcome == "undone"
    assert list(undoing.marked) == ["/dev/sdc"]


@pytest.mark.parametrize("tag", [f"UUID={PARTED}", "UUID=1"])
def test_drives_that_bear_the_identity_under_other_names_are_reported(undoing, blkid, tag):
    blkid += ["DEVNAME=/dev/sdx\nUUID=0", f"DEVNAME=/dev/sdy\n{tag}\nTYPE=linux_raid_member\n"]
    undoing.marked.clear()
    put(undoing.root, "sys/block/md200/md/uuid", "11111111-0000-0000-0000-000000000000")
    result = undo()
    if tag == "UUID=1":
        assert result.outcome == "gone"
    else:
        assert result.outcome == "failed"
        assert "/dev/sdy" in result.detail
        assert "/dev/sdx" not in result.detail


@pytest.mark.parametrize(
    ("members", "outcome"), [("sda,/dev/sdb,/dev/sdc", "failed"), ("sda,/dev/sdb", "undone")]
)
def test_a_drive_is_left_where_a_reboot_shifted_the_names(undoing, blkid, members, outcome):
    """All recorded drives that bear the identity are cleared; another one may only be a copy."""
    blkid.append(f"DEVNAME=/dev/sdd\nUUID={PARTED}")
    result = md_array.undo_md(device="/dev/md200", uuid=PARTED, members=f"/dev/{members}")
    assert (result.outcome, list(undoing.marked)) == (outcome, ["/dev/sdc"])
    assert ("/dev/sdd" in result.detail) is (outcome == "failed")


def test_a_foreign_array_under_our_number_is_left_alone(undoing, machine):
    put(machine.root, "sys/block/md200/md/uuid", "11111111-0000-0000-0000-000000000000")
    undoing.marked.clear()
    assert undo().outcome == "gone"
    assert not any("--stop" in reported for reported in undoing.reported)


@pytest.mark.parametrize(("slave", "stops"), [("sda", True), ("sdz", False), ("", True)])
def test_a_half_made_array_goes_if_it_holds_nothing_but_ours(undoing, machine, slave, stops):
    put(machine.root, "sys/block/md200/md/uuid", "00000000-0000-0000-0000-000000000000")
    put(machine.root, "sys/block/md200/md/array_state", "inactive")
    put(machine.root, "sys/class/block/sdz/dev", "8:99")
    if slave:
        put(machine.root, f"sys/block/md200/slaves/{slave}", "")
    undoing.marked.clear()
    assert (undo().outcome == "undone") is stops


def test_an_array_that_is_in_use_stays_in_the_journal(undoing, monkeypatch):
    busy = CommandOutput(1, "", "mdadm: Cannot get exclusive access to /dev/md200")
    monkeypatch.setattr(md_array, "attempt", lambda *_any, **_how: busy)
    monkeypatch.setattr(md_array, "wait_until", lambda condition: condition())
    result = undo()
    assert result.outcome == "failed"
    assert "exclusive access" in result.detail


def test_names_bear_the_run_and_are_shortened_from_its_end():
    name = array_name("20261121-074500-3fa2", 7)
    assert name == "seatrial-20261121-074500-3fa2-7"
    assert run_of(name) == "20261121-074500-3fa2"
    assert shortened(name, 32) == name
    assert shortened(name, 12) == "st-00-3fa2-7"
    assert len(shortened(f"{NAME_PREFIX}{'x' * 90}-12", 16)) == 16
    assert identity(name) == identity(name)
    assert identity(name) != identity(name, "leg")
    with pytest.raises(ValueError, match="not an array's name"):
        run_of("somebody-else-1")
