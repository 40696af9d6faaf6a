"""PCIe and SATA links, now and at most."""

import fake_trees
import pytest
from fake_trees import FakeMachine

from seatrial.fingerprint import Device, PciFunction
from seatrial.machine.fingerprint.device import bandwidth_bytes_per_s
from seatrial.machine.fingerprint.target import target


def physical_node(machine: FakeMachine, path: str) -> Device:
    """Return the only physical device under a path."""
    nodes = [node for node in target(machine.tree, path).stack if not node.children]
    assert len(nodes) == 1
    return nodes[0]


def test_drive_in_a_slot_with_half_its_lanes(machine: FakeMachine) -> None:
    fake_trees.nvme_in_narrow_slot(machine)
    link = physical_node(machine, "/mnt/ssd").pcie
    assert link.address == "0000:03:00.0"
    assert (link.width_now, link.width_max) == (2, 4)
    assert (link.speed_now_gt_s, link.speed_max_gt_s) == (8.0, 16.0)
    # 8 GT/s x 2 lanes x 128/130 / 8 bits: 1.969 GB/s.
    assert link.bandwidth_now_bytes_per_s == 1_969_230_769
    assert [bridge.address for bridge in link.chain] == ["0000:00:1d.0"]
    assert link.chain[0].width_max == 4
    assert link.narrowest.address == "0000:03:00.0"


def test_narrowest_link_is_found_behind_a_bridge(machine: FakeMachine) -> None:
    fake_trees.nvme_behind_narrow_bridge(machine)
    link = physical_node(machine, "/mnt/ssd").pcie
    assert link.width_now == link.width_max == 4
    addresses = [bridge.address for bridge in link.chain]
    assert addresses == ["0000:03:01.0", "0000:02:00.0", "0000:00:1d.0"]
    assert link.narrowest.address == "0000:02:00.0"
    assert link.narrowest.width_now == 1
    assert link.narrowest.bandwidth_now_bytes_per_s == 984_615_385


def test_bridge_and_root_port_are_reported_with_their_ids(machine: FakeMachine) -> None:
    fake_trees.nvme_behind_narrow_bridge(machine)
    machine.write(f"{fake_trees.ROOT_PORT}/vendor", "0x8086")
    machine.write(f"{fake_trees.ROOT_PORT}/device", "0xa340")
    link = physical_node(machine, "/mnt/ssd").pcie
    assert link.bridge == PciFunction(address="0000:03:01.0")
    assert link.root_port == PciFunction(address="0000:00:1d.0", ids="8086:a340")


def test_multipath_drive_finds_its_link_through_the_controller(machine: FakeMachine) -> None:
    function = f"{fake_trees.ROOT_PORT}/0000:03:00.0"
    machine.link_state(function, "16.0", 4, "16.0", 4)
    controller = f"{function}/nvme/nvme0"
    machine.write_all(controller, {"transport": "pcie", "state": "live"})
    subsystem = "/sys/devices/virtual/nvme-subsystem/nvme-subsys0"
    machine.write_all(
        subsystem, {"model": "Example PM9A3", "firmware_rev": "GDC5602Q", "serial": "S64G"}
    )
    machine.link(f"{subsystem}/nvme0", controller)
    disk = machine.block(f"{subsystem}/nvme0n1", "259:0", queue={})
    machine.link(f"{disk}/device", subsystem)
    machine.mount("259:0", "/mnt/ssd", "xfs", "/dev/nvme0n1")
    node = physical_node(machine, "/mnt/ssd")
    assert node.kind == "nvme"
    assert node.transport == "pcie"
    assert node.model == "Example PM9A3"
    assert node.controllers == ["nvme0"]
    assert node.pcie.width_now == 4
    assert node.numa_node == 1
    assert {"nvme0n1", "nvme0", "0000:03:00.0"} <= set(node.kernel_names)


def test_sata_disk_at_a_quarter_of_its_speed(machine: FakeMachine) -> None:
    fake_trees.sata(machine, 3, "sda", "8:0")
    machine.mount("8:0", "/srv", "ext4", "/dev/sda")
    node = physical_node(machine, "/srv")
    assert node.sata_link_gb_s == 1.5
    assert node.sata_link_limit_gb_s == 3.0
    assert node.sata_link_max_gb_s == 6.0
    assert node.transport == "sata"


def test_virtio_disk_claims_no_link(machine: FakeMachine) -> None:
    fake_trees.virtio(machine)
    node = physical_node(machine, "/")
    assert node.kind == node.transport == "virtio"
    assert node.pcie.narrowest is None
    assert node.pcie.width_now is None
    assert node.numa_node is None
    assert node.sata_link_gb_s is None


@pytest.mark.parametrize(
    ("speed_gt_s", "width", "expected_mb_s"),
    [(2.5, 1, 250), (5.0, 4, 2000), (8.0, 4, 3938), (16.0, 4, 7877), (64.0, 4, 29500)],
)
def test_bandwidth_after_encoding(speed_gt_s: float, width: int, expected_mb_s: int) -> None:
    found = bandwidth_bytes_per_s(speed_gt_s, width)
    assert found is not None
    assert round(found / 1e6) == expected_mb_s


def test_bandwidth_of_an_unknown_link_is_unknown() -> None:
    assert bandwidth_bytes_per_s(None, 4) is None
    assert bandwidth_bytes_per_s(8.0, None) is None


@pytest.mark.parametrize("width", ["0", "255", "", "many"])
def test_width_of_no_link_is_unknown(machine: FakeMachine, width: str) -> None:
    fake_trees.nvme_in_narrow_slot(machine)
    machine.write(f"{fake_trees.ROOT_PORT}/0000:03:00.0/current_link_width", width)
    link = physical_node(machine, "/mnt/ssd").pcie
    assert link.width_now is None
    assert link.narrowest.address == "0000:00:1d.0"
