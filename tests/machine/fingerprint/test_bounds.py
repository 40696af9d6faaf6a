"""Bounds other than PCIe and SATA: SAS links, controllers, copying of memory."""

import time
from pathlib import Path

import fake_trees
import pytest
from fake_trees import FakeMachine

from seatrial.fingerprint import Controller
from seatrial.machine.fingerprint import take_fingerprint
from seatrial.machine.fingerprint.machine import memory_copy_bytes_per_s
from seatrial.machine.fingerprint.target import target
from seatrial.units import MIB

ADAPTER = "/sys/devices/pci0000:00/0000:00:05.0/0000:07:00.0"


def sas_disk(machine: FakeMachine, rates: list[str], *, expander: bool = False) -> dict:
    """Return the node of a SAS disk whose lanes negotiated these rates."""
    port = f"{ADAPTER}/host0/port-0:0"
    if expander:
        port += "/expander-0:0/port-0:0:3"
    for number, rate in enumerate(rates):
        machine.folder(f"{port}/phy-0:{number}")
        machine.write(f"/sys/class/sas_phy/phy-0:{number}/negotiated_linkrate", rate)
    device = f"{port}/end_device-0:0/target0:0:0/0:0:0:0"
    machine.write_all(device, {"vendor": "SEAGATE", "model": "ST600MM0006"})
    disk = machine.block(f"{device}/block/sda", "8:0", queue={})
    machine.link(f"{disk}/device", device)
    machine.mount("8:0", "/srv", "ext4", "/dev/sda")
    return target(machine.tree, "/srv").stack[0]


@pytest.mark.parametrize(
    ("rates", "gb_s", "lanes"),
    [
        (["12.0 Gbit"], 12.0, 1),
        (["6.0 Gbit", "6.0 Gbit"], 6.0, 2),
        (["6.0 Gbit", "Unknown"], 6.0, 1),
        (["Unknown"], None, None),
        ([], None, None),
    ],
)
@pytest.mark.parametrize("expander", [False, True])
def test_sas_link(
    machine: FakeMachine, rates: list[str], gb_s: float, lanes: int, expander: bool
) -> None:
    node = sas_disk(machine, rates, expander=expander)
    assert node.transport == "sas"
    assert (node.sas_link_gb_s, node.sas_lanes) == (gb_s, lanes)


def test_a_raid_controller_reports_its_cache(machine: FakeMachine) -> None:
    machine.write_all(
        "/sys/class/scsi_host/host0",
        {"proc_name": "arcmsr", "host_fw_model": "ARC-1680", "host_fw_sdram_size": "4096"},
    )
    device = f"{ADAPTER}/host0/target0:0:0/0:0:0:0"
    machine.write_all(device, {"vendor": "Areca", "model": "ARC-1680-VOL#00"})
    disk = machine.block(f"{device}/block/sda", "8:0", queue={})
    machine.link(f"{disk}/device", device)
    machine.mount("8:0", "/srv", "ext4", "/dev/sda")
    assert target(machine.tree, "/srv").stack[0].controller == Controller(
        name="host0",
        driver="arcmsr",
        model="ARC-1680",
        hides_drives=True,
        cache_bytes=4096 * MIB,
    )


def test_a_plain_controller_hides_nothing(machine: FakeMachine) -> None:
    fake_trees.sata(machine, 1, "sda", "8:0")
    machine.write("/sys/class/scsi_host/host1/proc_name", "ahci")
    machine.mount("8:0", "/srv", "ext4", "/dev/sda")
    node = target(machine.tree, "/srv").stack[0]
    assert node.controller.driver == "ahci"
    assert not node.controller.hides_drives
    assert node.controller.cache_bytes is None
    assert node.sas_link_gb_s is None


def test_an_nvme_drive_has_no_scsi_host(machine: FakeMachine) -> None:
    fake_trees.nvme_in_narrow_slot(machine)
    nodes = target(machine.tree, "/mnt/ssd").stack
    assert all(node.controller is None for node in nodes)


def test_memory_is_copied_at_a_plausible_rate_measured_once() -> None:
    memory_copy_bytes_per_s.cache_clear()
    began_s = time.perf_counter()
    first = memory_copy_bytes_per_s()
    assert 1e8 < first < 1e12
    assert time.perf_counter() - began_s < 1.0  # about 25 ms where nothing else runs
    assert memory_copy_bytes_per_s() == first


def test_the_fingerprint_holds_the_rate_of_this_machine_only(machine: FakeMachine) -> None:
    assert take_fingerprint(Path("/tmp")).machine.memory_copy_bytes_per_s > 1e8
    made_up = take_fingerprint(None, tree=machine.tree)
    assert made_up.machine.memory_copy_bytes_per_s is None
