"""Kernel messages about the devices of a stack."""

import errno
import json

import fake_trees
import pytest
from fake_trees import FakeMachine

from seatrial.fingerprint import Device, KernelLog, LogLine, LogMark
from seatrial.machine.fingerprint import kernel_log
from seatrial.machine.fingerprint.kernel_log import Record, kind_of_record, name_pattern
from seatrial.machine.fingerprint.target import target

QUIET = [
    "6,10,1000000,-;EXT4-fs (nvme0n1p1): mounted filesystem with errors=remount-ro",
    "6,11,1100000,-;nvme nvme0: 4/0/0 default/read/poll queues",
    "3,12,1200000,-;blk_update_request: I/O error, dev sdz, sector 1",
    "6,13,1300000,-;usb 1-1: reset high-speed USB device",
]
TROUBLE = [
    ("4,20,2000000,-;nvme nvme0: I/O 12 QID 3 timeout, aborting", "time_out"),
    ("4,21,2100000,-;nvme nvme0: resetting controller", "reset"),
    ("3,22,2200000,-;nvme0n1: I/O Cmd(0x2) @ LBA 2048, I/O error (sct 0x3)", "io_error"),
    ("3,23,2300000,-;Buffer I/O error on dev nvme0n1p1, logical block 0", "io_error"),
    ("4,24,2400000,-;pcieport 0000:00:1d.0: AER: Corrected error received", "link"),
    ("3,25,2500000,-;INFO: task jbd2/sda1-8:77 blocked for more than 122 seconds.", "hung_task"),
    ("2,26,2600000,-;CPU3: Package temperature above threshold, cpu clock throttled", "thermal"),
    ("2,27,2700000,-;EXT4-fs error (device nvme0n1p1): ext4_find_entry:1463", "failure"),
    ("2,28,2800000,-;EXT4-fs (nvme0n1p1): Remounting filesystem read-only", "io_error"),
]


def stack_of(machine: FakeMachine) -> list[Device]:
    """Return the stack of an NVMe drive's partition."""
    fake_trees.nvme_in_narrow_slot(machine)
    return target(machine.tree, "/mnt/ssd").stack


def since(machine: FakeMachine, stack: list[Device], sequence: int | None = 13) -> KernelLog:
    """Read the log since a mark."""
    reason = "" if sequence is not None else "/dev/kmsg requires root"
    start = LogMark(sequence=sequence, not_readable=reason)
    return kernel_log.since(machine.tree, stack, start=start, unix_s=1_700_000_000.0)


def journal_entry(message: str | list[int], *, at_unix_s: int) -> dict:
    """Return an entry as journalctl writes it."""
    return {
        "MESSAGE": message,
        "PRIORITY": "4",
        "_SOURCE_MONOTONIC_TIMESTAMP": "5000000",
        "__REALTIME_TIMESTAMP": str(at_unix_s * 1_000_000),
    }


def test_trouble_since_the_mark_is_counted_by_kind(machine: FakeMachine) -> None:
    stack = stack_of(machine)
    machine.write("/dev/kmsg", "\n".join(QUIET))
    assert kernel_log.mark(machine.tree) == LogMark(sequence=13)
    machine.write("/dev/kmsg", "\n".join(QUIET + [line for line, _ in TROUBLE]))
    found = since(machine, stack)
    assert [line.kind for line in found.lines] == [kind for _, kind in TROUBLE]
    assert found.count == len(TROUBLE)
    assert found.by_kind["io_error"] == 3
    assert found.lines[0] == LogLine(
        at_s=2.0,
        level="warning",
        kind="time_out",
        text="nvme nvme0: I/O 12 QID 3 timeout, aborting",
    )
    assert (found.source, found.missed, found.not_readable) == ("kmsg", 6, "")


def test_quiet_log_is_quiet(machine: FakeMachine) -> None:
    stack = stack_of(machine)
    machine.write("/dev/kmsg", "\n".join(QUIET))
    found = since(machine, stack, sequence=9)
    assert (found.count, found.lines, found.missed) == (0, [], 0)


def test_device_is_known_by_the_tags_of_a_message(machine: FakeMachine) -> None:
    stack = stack_of(machine)
    tagged = "3,14,3000000,-;I/O error, sector 8\n SUBSYSTEM=block\n DEVICE=b259:0"
    machine.write("/dev/kmsg", tagged + "\n3,15,3000001,-;I/O error\n DEVICE=b8:0")
    assert [line.text for line in since(machine, stack).lines] == ["I/O error, sector 8"]


def test_first_fifty_lines_are_kept_and_all_counted(machine: FakeMachine) -> None:
    stack = stack_of(machine)
    lines = [f"3,{14 + i},{i},-;I/O error, dev nvme0n1, sector {i}" for i in range(73)]
    machine.write("/dev/kmsg", "\n".join(lines))
    found = since(machine, stack)
    assert found.count == 73
    assert len(found.lines) == 50
    assert found.lines[0].text.endswith("sector 0")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("ata1.00: exception Emask 0x0", True),
        ("ata10.00: exception Emask 0x0", False),
        ("sd 1:0:0:0: [sda] tag#3 timed out", True),
        ("sd 11:0:0:0: [sdq] tag#3 timed out", False),
        ("I/O error, dev sda3, sector 9", True),
        ("I/O error, dev sdaa, sector 9", False),
        ("device-mapper: multipath: 253:0: Failing path 8:0.", True),
        ("device-mapper: multipath: 253:0: Failing path 8:16.", False),
        ("sd 8:0:0:0: [sdq] timed out", False),
    ],
)
def test_names_match_whole_words(machine: FakeMachine, text: str, *, named: bool) -> None:
    fake_trees.sata(machine, 1, "sda", "8:0")
    machine.mount("8:0", "/srv", "ext4", "/dev/sda")
    pattern = name_pattern(target(machine.tree, "/srv").stack)
    record = Record(sequence=1, at_s=0.0, level=3, text=text, tags="")
    assert (kind_of_record(record, pattern) is not None) is named


def test_log_for_root_only_falls_back_on_the_journal(machine: FakeMachine) -> None:
    stack = stack_of(machine)
    entries = [
        journal_entry("nvme nvme0: I/O 0 timeout", at_unix_s=1_699_999_999),
        journal_entry("nvme nvme0: I/O 1 timeout", at_unix_s=1_700_000_001),
        journal_entry([1, 2], at_unix_s=1_700_000_002),
        {"PRIORITY": "6"},
    ]
    machine.answer("journalctl", "\n".join(map(json.dumps, entries)) + "\nno json")
    found = since(machine, stack, sequence=None)
    assert (found.source, found.count, found.by_kind) == ("journal", 1, {"time_out": 1})
    assert found.lines[0].text == "nvme nvme0: I/O 1 timeout"
    assert found.lines[0].at_s == 5.0


def test_journal_without_any_kernel_message_is_no_witness(machine: FakeMachine) -> None:
    stack = stack_of(machine)
    machine.answer("journalctl", "")
    found = since(machine, stack, sequence=None)
    assert found.source is None
    expected = "/dev/kmsg requires root; the journal contains no kernel messages"
    assert found.not_readable == expected


def test_why_the_log_is_not_readable(machine: FakeMachine) -> None:
    stack = stack_of(machine)
    found = since(machine, stack)
    assert found.source is None
    assert found.count == 0
    expected = "/dev/kmsg does not exist, as in containers; journalctl is not installed"
    assert found.not_readable == expected
    machine.answer("journalctl", "", status=1, error_output="No journal files were opened")
    assert since(machine, stack).not_readable.endswith("; no permission to read the journal")
    machine.hang("journalctl")
    assert since(machine, stack).not_readable.endswith("; journalctl did not answer in time")
    assert kernel_log.mark(machine.tree).sequence is None


def test_log_that_is_forbidden(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: str) -> bytes:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(machine.tree, "records", refuse)
    reason = kernel_log.mark(machine.tree).not_readable
    assert reason == "/dev/kmsg requires root (sysctl kernel.dmesg_restrict)"


def test_bytes_in_the_journal_are_text(machine: FakeMachine) -> None:
    stack = stack_of(machine)
    text = "nvme nvme0: I/O 7 timeout \x1b"
    entry = journal_entry(list(text.encode()), at_unix_s=1_700_000_001)
    machine.answer("journalctl", json.dumps(entry))
    assert since(machine, stack, sequence=None).lines[0].text == text
