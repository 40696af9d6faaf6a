"""Health and temperature, and why they could not be read."""

import json

import fake_trees
import msgspec
import pytest
from fake_trees import FakeMachine

from seatrial.fingerprint import Health
from seatrial.machine.fingerprint import health
from seatrial.machine.fingerprint.target import target

SMARTCTL_NVME = {
    "smartctl": {"exit_status": 0},
    "serial_number": "S5GXNX0R123456A",
    "smart_status": {"passed": True},
    "temperature": {"current": 44},
    "nvme_smart_health_information_log": {
        "critical_warning": 0,
        "temperature": 44,
        "available_spare": 100,
        "available_spare_threshold": 10,
        "percentage_used": 3,
        "data_units_read": 10,
        "data_units_written": 20,
        "power_on_hours": 4242,
        "media_errors": 0,
        "num_err_log_entries": 7,
        "warning_temp_time": 12,
    },
}
NVME_CLI = {
    "critical_warning": {"value": 2, "temp_threshold": 1},
    "temperature": 330,
    "avail_spare": 99,
    "percent_used": 4,
    "data_units_written": "1,000",
    "thm_temp1_trans_count": 5,
    "thm_temp1_total_time": 61,
}
SMARTCTL_SATA = {
    "smartctl": {"exit_status": 64},
    "serial_number": "WD-WCC4E1234567",
    "smart_status": {"passed": True},
    "temperature": {"current": 35},
    "power_on_time": {"hours": 30000},
    "interface_speed": {
        "max": {"string": "6.0 Gb/s", "units_per_second": 60, "bits_per_unit": 100000000},
        "current": {"string": "1.5 Gb/s", "units_per_second": 15, "bits_per_unit": 100000000},
    },
    "ata_smart_attributes": {
        "table": [
            {"id": 5, "name": "Reallocated_Sector_Ct", "raw": {"value": 8, "string": "8"}},
            {"id": 9, "name": "Power_On_Hours", "raw": {"value": 30000, "string": "30000"}},
            {"id": 188, "name": "Command_Timeout", "raw": {"value": 4295032833, "string": "1 1 1"}},
            {"id": 199, "name": "UDMA_CRC_Error_Count", "raw": {"value": 120, "string": "120"}},
        ]
    },
}


def health_of(machine: FakeMachine, path: str, name: str) -> Health:
    """Return the health of one device under a path."""
    return health(target(machine.tree, path).stack, tree=machine.tree)[name]


def test_nvme_sensors_are_read_without_any_tool(machine: FakeMachine) -> None:
    disk = fake_trees.nvme_in_narrow_slot(machine)
    sensors = {
        "temp1_input": "41850",
        "temp1_label": "Composite",
        "temp1_max": "81850",
        "temp1_crit": "84850",
        "temp2_input": "52850",
        "temp2_label": "Sensor 1",
        "temp2_max": "65261850",
    }
    machine.write_all(f"{disk.rpartition('/')[0]}/hwmon3", sensors)
    found = health_of(machine, "/mnt/ssd", "nvme0n1")
    assert found.temperature_c == 41.85
    assert found.temperature_warning_c == 81.85
    assert found.temperature_critical_c == 84.85
    assert found.sensors == {"Composite": 41.85, "Sensor 1": 52.85}
    assert found.state == "live"
    assert found.smart is None
    assert found.not_readable == [
        "SMART: smartctl is not installed",
        "SMART: nvme is not installed",
    ]


def test_drivetemp_of_a_sata_disk(machine: FakeMachine) -> None:
    fake_trees.sata(machine, 1, "sda", "8:0")
    machine.mount("8:0", "/srv", "ext4", "/dev/sda")
    machine.write("/sys/class/block/sda/device/hwmon/hwmon1/temp1_input", "33000")
    found = health_of(machine, "/srv", "sda")
    assert found.temperature_c == 33.0
    assert found.temperature_critical_c is None


def test_drive_without_a_limit_reports_no_temperature_of_one(machine: FakeMachine) -> None:
    disk = fake_trees.nvme_in_narrow_slot(machine)
    sensors = {"temp1_input": "30850", "temp1_max": "65261850"}
    machine.write_all(f"{disk.rpartition('/')[0]}/hwmon0", sensors)
    found = health_of(machine, "/mnt/ssd", "nvme0n1")
    assert found.temperature_c == 30.85
    assert found.temperature_warning_c is None


def test_both_tools_add_to_an_nvme_drives_health(machine: FakeMachine) -> None:
    fake_trees.nvme_in_narrow_slot(machine)
    machine.answer("smartctl", json.dumps(SMARTCTL_NVME))
    machine.answer("nvme", json.dumps(NVME_CLI))
    found = health_of(machine, "/mnt/ssd", "nvme0n1")
    smart = found.smart
    assert found.tools == ["smartctl", "nvme"]
    assert found.not_readable == []
    assert smart["passed"] is True
    assert smart["critical_warning_bits"] == 2
    assert smart["power_on_hours"] == 4242
    assert smart["error_log_entries"] == 7
    assert smart["data_read_bytes"] == 10 * 512_000
    assert smart["data_written_bytes"] == 1000 * 512_000
    assert (smart["throttle_light_count"], smart["throttle_light_s"]) == (5, 61)
    assert found.temperature_c == 330 - 273
    assert "S5GXNX0R123456A" not in msgspec.json.encode(found).decode()
    assert ["nvme", "smart-log", "-o", "json", "/dev/nvme0"] in machine.executed


def test_sata_attributes_that_count_errors(machine: FakeMachine) -> None:
    fake_trees.sata(machine, 1, "sda", "8:0")
    machine.mount("8:0", "/srv", "ext4", "/dev/sda")
    machine.answer("smartctl", json.dumps(SMARTCTL_SATA), status=64)
    smart = health_of(machine, "/srv", "sda").smart
    assert smart == {
        "passed": True,
        "temperature_c": 35,
        "power_on_hours": 30000,
        "link_now_gb_s": 1.5,
        "link_max_gb_s": 6.0,
        "reallocated_sectors": 8,
        "command_timeouts": 1,
        "link_crc_errors": 120,
    }


@pytest.mark.parametrize(
    ("output", "error_output", "expected"),
    [
        (
            '{"smartctl": {"exit_status": 2, "messages": [{"string": "Smartctl open device: '
            '/dev/sda failed: Permission denied"}]}}',
            "",
            "SMART: smartctl requires root",
        ),
        (
            '{"smartctl": {"exit_status": 1, "messages": [{"string": "/dev/sda: Unable to detect '
            'device type"}]}}',
            "",
            "SMART: smartctl failed: /dev/sda: Unable to detect device type",
        ),
        ("", "Segmentation fault", "SMART: smartctl failed: Segmentation fault"),
        ("", "", "SMART: smartctl failed without an error message"),
        ("[]", "", "SMART: smartctl returned an unknown format"),
    ],
)
def test_why_smart_is_not_readable(
    machine: FakeMachine, output: str, error_output: str, expected: str
) -> None:
    fake_trees.sata(machine, 1, "sda", "8:0")
    machine.mount("8:0", "/srv", "ext4", "/dev/sda")
    machine.answer("smartctl", output, status=2, error_output=error_output)
    found = health_of(machine, "/srv", "sda")
    assert found.smart is None
    assert found.not_readable[0] == expected
    assert "no sensor" in found.not_readable[1]


def test_drive_that_does_not_answer_in_time(machine: FakeMachine) -> None:
    fake_trees.sata(machine, 1, "sda", "8:0")
    machine.mount("8:0", "/srv", "ext4", "/dev/sda")
    machine.hang("smartctl")
    found = health_of(machine, "/srv", "sda")
    assert found.not_readable[0] == "SMART: smartctl did not answer within 5 s"


def test_virtual_disks_are_not_requested(machine: FakeMachine) -> None:
    fake_trees.virtio(machine)
    found = health_of(machine, "/", "vda")
    assert "virtio" in found.not_readable[0]
    assert not any(command[0] == "smartctl" for command in machine.executed)


def test_every_drive_of_an_array_is_requested(machine: FakeMachine) -> None:
    fake_trees.md_raid5(machine)
    machine.answer("smartctl", json.dumps(SMARTCTL_SATA))
    found = health(target(machine.tree, "/srv/db").stack, tree=machine.tree)
    assert list(found) == ["sda", "sdb", "sdc", "sdd"]


def test_nothing_to_ask() -> None:
    assert health([]) == {}
