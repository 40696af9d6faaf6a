"""Other runs and programs on the device: reported if any were found, and only then."""

import msgspec
import pytest

from seatrial.findings.context import Context
from seatrial.findings.rules.foreign_traffic import foreign_traffic
from seatrial.units import MIB
from stats.builders import cell_of, rounds_of, run_of

RUN = {"pid": 4711, "command": "seatrial io /mnt/ssd/other", "since_unix_s": 1.0}


def found(after=None, before=None, **counters):
    counters = {"device_read_bytes": 0.0, "device_write_bytes": 0.0} | counters
    cell = rounds_of(cell_of(), [1000], counters=counters)
    return foreign_traffic(Context(run_of(before=before or {}, after=after or {}), [cell]))


def test_nothing_is_said_where_nobody_was():
    assert found() == []
    assert found(other_process_write_bytes=0.0) == []


def test_another_run_is_named_with_its_command():
    (finding,) = found(after={"other_runs": [RUN]}, other_runs=1.0)
    assert finding.severity == "warning"
    assert "process 4711 (`seatrial io /mnt/ssd/other`)" in finding.sentence
    assert finding.sentence.startswith("Another run of Seatrial used the same disk while ")
    assert " was measured: " in finding.sentence
    assert "--wait" not in finding.next  # it waits for a run on the same directory or disk only
    assert finding.figures.in_short(1).endswith("the same disk during 1 test")


def test_programs_that_wrote_much_are_named():
    programs = [{"name": "pg_dump", "read_bytes": 0, "write_bytes": 300 * MIB}]
    (finding,) = found(
        after={"other_processes": programs},
        device_write_bytes=256.0 * MIB,
        other_process_write_bytes=250.0 * MIB,
    )
    assert "256 MiB" in finding.sentence
    assert finding.sentence.endswith("possibly pg_dump.")


@pytest.mark.parametrize(
    ("counters", "is_reported"),
    [
        ({"device_write_bytes": 15.0 * MIB, "other_process_write_bytes": 99.0 * MIB}, False),
        ({"device_write_bytes": 17.0 * MIB, "other_process_write_bytes": 99.0 * MIB}, True),
        ({"device_write_bytes": 99.0 * MIB, "other_process_write_bytes": 49.0 * MIB}, False),
        ({"device_write_bytes": 99.0 * MIB, "other_process_write_bytes": 50.0 * MIB}, True),
        ({"device_write_bytes": 99.0 * MIB, "other_process_read_bytes": 99.0 * MIB}, False),
        ({"device_write_bytes": 99.0 * MIB}, False),
    ],
)
def test_bounds(counters, is_reported):
    assert bool(found(**counters)) is is_reported


@pytest.mark.parametrize("kind", ["btrfs", "zfs"])
def test_what_a_file_system_moves_by_itself_is_not_laid_on_others(kind):
    before = {"target": {"filesystem": {"type": kind}}}
    counters = {"device_write_bytes": 99.0 * MIB, "other_process_write_bytes": 99.0 * MIB}
    assert found(before=before, **counters) == []


def test_file_workloads_are_not_examined_for_programs_but_for_runs():
    counters = {"device_read_bytes": 0.0, "device_write_bytes": 99.0 * MIB}
    counters |= {"other_process_write_bytes": 99.0 * MIB, "other_runs": 1.0}
    spec = {"target": {"kind": "directory", "direct": True}}
    cell = msgspec.structs.replace(cell_of(kind="filebench"), spec=spec)
    run = run_of(before={}, after={"other_runs": [RUN]})
    (finding,) = foreign_traffic(Context(run, [rounds_of(cell, [1000], counters=counters)]))
    assert "another run" in finding.sentence.lower()


def test_the_share_of_others_is_a_share_of_all_that_the_device_transferred():
    (finding,) = found(
        device_write_bytes=200.0 * MIB,
        device_read_bytes=8192.0 * 1000,
        other_process_write_bytes=200.0 * MIB,
    )
    assert "(96 %); other processes" in finding.sentence
