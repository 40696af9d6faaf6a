"""What could distort a measurement, from the fingerprint alone."""

import msgspec
import pytest
from hypothesis import given

from made_up import made_up
from seatrial.findings import registry
from seatrial.findings.registry import rules_from
from seatrial.findings.rule import Source
from seatrial.findings.rules.device import loop_device
from seatrial.fingerprint import Fingerprint
from seatrial.units import GIB


def preflight(facts, **more):
    return registry.preflight(msgspec.convert(facts, Fingerprint), **more)


def machine(**facts):
    return {"machine": facts}


def filesystem(**facts):
    return {"target": {"filesystem": {"mount_point": "/mnt", **facts}}}


def stack(*devices, **rest):
    named = [{"name": f"d{i}", "children": [], **device} for i, device in enumerate(devices)]
    return {"target": {"stack": named}} | rest


def health(**smart):
    return stack({}, health={"d0": {"smart": smart}})


def partition(start_bytes, physical_bytes=4096):
    return stack(
        {"kind": "partition", "partition": {"start_bytes": start_bytes}, "children": ["d1"]},
        {"kind": "disk", "physical_block_bytes": physical_bytes},
    )


LIMITED = {"cgroup": {"io_limits": {"8:0": {"read_bytes_per_s": 10_000_000, "writes_per_s": 100}}}}
ON_8_0 = stack({"major_minor": "8:0"})

FACTS = [
    (machine(clock_source="tsc"), None, None),
    (machine(clock_source="arch_sys_counter"), None, None),
    (machine(clock_source="kvm-clock"), "clock_source", "note"),
    (machine(clock_source="hpet"), "clock_source", "warning"),
    (machine(cpu_governor="performance"), None, None),
    (machine(cpu_governor="schedutil"), None, None),
    (machine(cpu_governor="performance, powersave"), "cpu_governor", "note"),
    (machine(load_average_1m=1.0, cpus_online=2), None, None),
    (machine(load_average_1m=1.1, cpus_online=2), "machine_busy", "warning"),
    (machine(load_average_1m=1.1), None, None),
    (machine(pressure={"cpu_some_avg10_percent": 10.0}), None, None),
    (machine(pressure={"cpu_some_avg10_percent": 11.0}), "machine_busy", "warning"),
    (machine(pressure={"memory_some_avg10_percent": 1.5}), "machine_busy", "warning"),
    (machine(virtualisation="none", container="none"), None, None),
    (machine(virtualisation="kvm"), "virtualised", "note"),
    (machine(container="docker"), "virtualised", "note"),
    (machine(io_uring_disabled=0), None, None),
    (machine(io_uring_disabled=1), "io_uring_disabled", "note"),
    (machine(io_uring_disabled=2), "io_uring_disabled", "note"),
    (machine(memory_bytes=20 * GIB, dirty_limit_percent=20), None, None),
    (machine(memory_bytes=21 * GIB, dirty_limit_percent=20), "dirty_pages", "note"),
    (machine(dirty_limit_bytes=GIB, memory_bytes=512 * GIB, dirty_limit_percent=0), None, None),
    (machine(dirty_limit_bytes=5 * GIB, dirty_limit_percent=0), "dirty_pages", "note"),
    (filesystem(type="ext4", size_bytes=100 * GIB, free_bytes=10 * GIB), None, None),
    (
        filesystem(type="ext4", size_bytes=100 * GIB, free_bytes=9 * GIB),
        "filesystem_nearly_full",
        "warning",
    ),
    (filesystem(type="tmpfs"), "memory_file_system", "critical"),
    (filesystem(type="overlay"), "overlay_file_system", "warning"),
    (filesystem(type="nfs4"), "network_file_system", "warning"),
    (filesystem(type="fuse.sshfs"), "network_file_system", "warning"),
    (filesystem(type="fuseblk"), None, None),
    (filesystem(type="ext4", mount_options=["rw", "relatime"]), None, None),
    (filesystem(type="ext4", mount_options=["rw", "nobarrier"]), "barriers_off", "critical"),
    (health(passed=True, media_errors=0, used_percent=99, available_spare_percent=100), None, None),
    (health(passed=False), "drive_health", "critical"),
    (health(critical_warning_bits=4), "drive_health", "critical"),
    (health(pending_sectors=1), "drive_health", "critical"),
    (health(media_errors=7), "drive_health", "warning"),
    (health(used_percent=100), "drive_health", "warning"),
    (health(available_spare_percent=10, spare_threshold_percent=10), "drive_health", "warning"),
    (health(available_spare_percent=11, spare_threshold_percent=10), None, None),
    (stack({"md": {"degraded": 0, "sync_action": "idle"}}), None, None),
    (stack({"md": {"degraded": 1, "sync_action": "idle"}}), "array_degraded", "critical"),
    (stack({"md": {"degraded": 0, "sync_action": "check"}}), "array_degraded", "warning"),
    (machine(**LIMITED) | ON_8_0, "cgroup_throttle", "critical"),
    (machine(**LIMITED) | stack({"major_minor": "8:16"}), None, None),
    (stack({"kind": "loop", "loop": {"direct_io": False}}), "loop_device", "warning"),
    (stack({"kind": "loop", "loop": {"direct_io": True}}), "loop_device", "note"),
    (partition(1 << 20), None, None),
    (partition(63 * 512), "misaligned_partition", "warning"),
    (partition(63 * 512, physical_bytes=512), "misaligned_partition", "warning"),
    (partition(4096, physical_bytes=8192), "misaligned_partition", "warning"),
    (stack({"kind": "nvme", "scheduler": "none", "rotational": False}), None, None),
    (stack({"kind": "nvme", "scheduler": "mq-deadline", "rotational": False}), "scheduler", "note"),
    (stack({"kind": "disk", "scheduler": "none", "rotational": True}), "scheduler", "note"),
    (stack({"kind": "disk", "scheduler": "mq-deadline", "rotational": True}), None, None),
    (stack({"kind": "disk", "scheduler": "bfq", "rotational": False}), "scheduler", "note"),
    (stack({"kind": "virtio", "scheduler": "none", "rotational": True}), None, None),
    (stack({"write_cache": "write back"}), "write_cache", "note"),
    (stack({"write_cache": "write through"}), "write_cache", "note"),
    (stack({"write_cache": None}), None, None),
]


@pytest.mark.parametrize(("fingerprint", "kind", "severity"), FACTS)
def test_each_fact(fingerprint, kind, severity):
    found = [(finding.kind, finding.severity) for finding in preflight(fingerprint)]
    assert found == ([(kind, severity)] if kind else [])


def test_every_kind_of_fact_is_tested():
    tested = {kind for _, kind, _ in FACTS} | {"link_narrower"}
    assert {rule.kind for rule in rules_from(Source.FINGERPRINT)} <= tested


def test_limits_of_a_group_are_reported_by_device():
    (finding,) = preflight(machine(**LIMITED) | ON_8_0)
    assert finding.sentence == "A control group throttles d0 to 10 MB/s reads and 100/s writes."


def test_equal_settings_are_one_finding():
    back = {"write_cache": "write back"}
    (finding,) = preflight(stack(back, back, back))
    assert finding.evidence["devices"] == ["d0", "d1", "d2"]


GEN = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9}  # bytes per second of a lane


def end(address, generation_now, width_now, generation_max, width_max):
    speeds = {3: 8.0, 4: 16.0, 5: 32.0}
    return {
        "address": address,
        "speed_now_gt_s": speeds[generation_now],
        "width_now": width_now,
        "speed_max_gt_s": speeds[generation_max],
        "width_max": width_max,
        "bandwidth_now_bytes_per_s": GEN[generation_now] * width_now,
        "bandwidth_max_bytes_per_s": GEN[generation_max] * width_max,
    }


def pcie(*ends):
    narrowest = min(ends, key=lambda link: link["bandwidth_now_bytes_per_s"])
    link = {**ends[0], "chain": list(ends[1:]), "narrowest": narrowest}
    return stack({"kind": "nvme", "model": "Example 990", "pcie": link})


def link_findings(fingerprint):
    return [finding for finding in preflight(fingerprint) if finding.kind == "link_narrower"]


@pytest.mark.parametrize(
    ("ends", "lost_share", "severity", "cause"),
    [
        ((end("01", 4, 4, 4, 4), end("00", 4, 4, 5, 16)), None, None, None),
        ((end("01", 3, 4, 4, 4), end("00", 3, 4, 3, 4)), 0.5, "warning", "slot has fewer lanes"),
        ((end("01", 4, 2, 4, 4), end("00", 4, 2, 4, 2)), 0.5, "warning", "slot has fewer lanes"),
        ((end("01", 4, 3, 4, 4), end("00", 4, 3, 4, 16)), 0.25, "warning", "was trained below"),
        ((end("01", 3, 4, 4, 4), end("00", 3, 4, 4, 4)), 0.5, "warning", "was trained below"),
        # a slot of few lanes that also came up a generation too low: first the fault
        ((end("01", 3, 2, 4, 4), end("00", 3, 2, 4, 2)), 0.75, "warning", "was trained below"),
        # a switch whose own way up is narrower than the drive below it
        (
            (
                end("03", 4, 4, 4, 4),
                end("02", 4, 4, 4, 4),
                end("01", 3, 4, 3, 8),
                end("00", 3, 4, 3, 8),
            ),
            0.5,
            "warning",
            "bridge or switch further up",
        ),
        # a wide port above a narrow drive is how it should be
        ((end("01", 3, 4, 3, 4), end("00", 3, 4, 5, 16)), None, None, None),
    ],
)
def test_links_to_the_processor(ends, lost_share, severity, cause):
    found = link_findings(pcie(*ends))
    assert bool(found) is (severity is not None)
    for finding in found:
        assert finding.severity == severity
        assert finding.evidence["lost_share"] == pytest.approx(lost_share, abs=0.01)
        assert cause in finding.cause
        assert "Example 990" in finding.sentence
        assert f"{lost_share:.0%}".replace("%", " %") in finding.sentence


def test_a_link_without_a_speed_is_not_judged():
    unknown = dict.fromkeys(end("01", 4, 4, 4, 4))
    assert link_findings(stack({"pcie": unknown | {"chain": [], "narrowest": None}})) == []


def test_several_paths_of_one_drive_are_one_finding():
    link = pcie(end("01", 3, 4, 4, 4), end("00", 3, 4, 3, 4))["target"]["stack"][0]["pcie"]
    assert len(link_findings(stack({"pcie": link}, {"pcie": link}))) == 1


@pytest.mark.parametrize(
    ("link", "smart", "severity", "cause"),
    [
        ((6.0, 6.0, 6.0), {}, None, None),
        ((3.0, 3.0, 6.0), {}, "warning", "kernel lowered"),
        ((3.0, 6.0, 6.0), {}, "warning", "older generation"),
        ((3.0, 6.0, 6.0), {"link_max_gb_s": 3.0}, None, None),  # the drive can do no more
        ((3.0, 6.0, 6.0), {"link_max_gb_s": 6.0}, "warning", "A cable or backplane"),
        ((None, None, None), {}, None, None),
    ],
)
def test_sata_links(link, smart, severity, cause):
    now, limit, most = link
    device = {
        "sata_link_gb_s": now,
        "sata_link_limit_gb_s": limit,
        "sata_link_max_gb_s": most,
        "rotational": False,
    }
    found = link_findings(stack(device, health={"d0": {"smart": smart}}))
    assert [finding.severity for finding in found] == ([severity] if severity else [])
    for finding in found:
        assert cause in finding.cause
        assert "50 % less" in finding.sentence


def test_a_hard_disk_hardly_needs_the_faster_link():
    disk = {"sata_link_gb_s": 3.0, "sata_link_max_gb_s": 6.0, "rotational": True}
    (finding,) = link_findings(stack(disk))
    assert finding.severity == "note"


def test_every_target_is_judged_and_the_machine_once():
    facts = filesystem(type="ext4") | machine(virtualisation="kvm")
    others = {name: filesystem(type="tmpfs")["target"] for name in ("b", "c")}
    kinds = [finding.kind for finding in preflight(facts | {"other_targets": others})]
    assert kinds == ["memory_file_system", "virtualised"]


def test_the_worst_comes_first():
    facts = filesystem(type="tmpfs") | machine(clock_source="hpet", virtualisation="kvm")
    assert [f.severity for f in preflight(facts)] == ["critical", "warning", "note"]


@given(made_up(Fingerprint))
def test_whatever_is_absent_or_outlier_makes_nothing_fail(facts):
    for finding in registry.preflight(facts):
        assert "nan" not in finding.sentence


@pytest.mark.parametrize("empty", [{}, {"target": None}, {"machine": {}, "target": {}}])
def test_an_empty_fingerprint_has_no_findings(empty):
    assert preflight(empty) == []


def test_loop_devices_of_a_kind_are_one_finding():
    """An array of ten of them would else fill the page with the same sentence."""
    stack = [
        {"name": f"loop{number}", "kind": "loop", "loop": {"direct_io": number < 2}}
        for number in range(3)
    ]
    direct, buffered = loop_device(msgspec.convert({"target": {"stack": stack}}, Fingerprint))
    assert direct.sentence == "loop0, loop1 are loop devices."
    assert buffered.severity == "warning"
    assert "loop2 is a loop device with buffered I/O" in buffered.sentence
