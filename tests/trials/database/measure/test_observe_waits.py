"""Waits by class and by second, and where reads were answered."""

import pytest

from seatrial.trials.database.measure.observe import reads
from seatrial.trials.database.measure.observe_server import WAIT_CLASSES, Waits

IDLE_CHECKPOINTER = ("checkpointer", "Activity", "CheckpointerMain", 1)


def shares(columns, entry):
    return {name: columns[f"waits_{name}_share"][entry] for name in WAIT_CLASSES}


def test_active_clients_are_divided_by_what_they_wait_for():
    waits = Waits(1.0)
    rows = [
        ("active", None, None, 2),
        ("active", "LWLock", "WALWrite", 3),
        ("active", "IO", "WALSync", 1),
        ("active", "BufferPin", "BufferPin", 1),
        ("active", "Extension", "Extension", 1),
        ("idle", "Client", "ClientRead", 5),
        ("idle in transaction", "Client", "ClientRead", 4),
        ("idle in transaction (aborted)", "Client", "ClientRead", 1),
        ("autovacuum worker", "Timeout", "VacuumDelay", 1),
        (None, None, None, 1),
        IDLE_CHECKPOINTER,
    ]
    waits.add(0.5, rows)
    columns = waits.columns(1)
    expected = {"cpu": 2, "lwlock": 3, "io": 1, "buffer_pin": 1, "other": 1}
    assert shares(columns, 0) == {name: expected.get(name, 0) / 8 for name in WAIT_CLASSES}
    assert columns["backends_active"] == [8]
    assert columns["backends_idle"] == [5]
    assert columns["backends_idle_in_transaction"] == [5]
    assert columns["autovacuum_workers"] == [1]
    assert columns["checkpoint_running_share"] == [0]
    assert waits.by_event == {
        "CPU": 2,
        "LWLock:WALWrite": 3,
        "IO:WALSync": 1,
        "BufferPin:BufferPin": 1,
        "Extension:Extension": 1,
    }


def test_looks_are_gathered_by_second_and_a_second_without_any_is_a_gap():
    waits = Waits(1.0)
    waits.add(0.1, [("active", "IO", "DataFileRead", 1)])
    waits.add(0.9, [("active", None, None, 3)])
    waits.add(2.0, [("idle", "Client", "ClientRead", 2)])
    columns = waits.columns(3)
    assert columns["waits_io_share"] == [0.25, None, None]
    assert columns["waits_cpu_share"] == [0.75, None, None]
    assert columns["backends_active"] == [2, None, 0]
    assert columns["backends_idle"] == [0, None, 2]
    assert waits.count == 3


def test_a_checkpoint_is_reported_by_the_share_of_looks_in_which_it_ran():
    waits = Waits(1.0)
    waits.add(0.1, [IDLE_CHECKPOINTER])
    waits.add(0.2, [("checkpointer", "Timeout", "CheckpointWriteDelay", 1)])
    waits.add(0.3, [("checkpointer", None, None, 1)])
    waits.add(0.4, [("checkpointer", "IO", "DataFileSync", 1)])
    assert waits.columns(1)["checkpoint_running_share"] == [0.75]


def test_a_checkpointer_that_may_not_be_seen_is_no_column():
    waits = Waits(1.0)
    waits.add(0.1, [(None, None, None, 5)])
    assert "checkpoint_running_share" not in waits.columns(1)


def test_nothing_seen_is_no_column():
    assert Waits(1.0).columns(3) == {}


def test_reads_are_divided_into_buffers_cache_and_device():
    found, notes = reads(
        {"shared_hits": 900, "shared_reads": 100, "server_read_bytes": 30 * 8192}, 8192
    )
    assert found == {"reads_shared_buffers": 900, "reads_page_cache": 70, "reads_device": 30}
    assert notes == []


def test_read_ahead_never_makes_more_device_reads_than_were_requested():
    found, _ = reads({"shared_hits": 1, "shared_reads": 10, "server_read_bytes": 1 << 30}, 8192)
    assert (found["reads_device"], found["reads_page_cache"]) == (10, 0)


def test_blocks_of_another_size_are_reported_in_blocks_of_8_kib():
    found, _ = reads({"shared_hits": 2, "shared_reads": 4, "server_read_bytes": 32768}, 16384)
    assert list(found.values()) == [4, 4, 4]


def test_the_device_stands_for_the_server_where_that_may_not_be_seen():
    found, notes = reads({"shared_hits": 2, "shared_reads": 4, "device_read_bytes": 8192}, 8192)
    assert found["reads_device"] == 1
    assert "all reads of the device" in notes[0]


def test_without_a_device_only_the_buffers_are_known():
    found, notes = reads({"shared_hits": 2, "shared_reads": 4}, 8192)
    assert found == {"reads_shared_buffers": 2}
    assert "are unknown" in notes[0]


@pytest.mark.parametrize("known", [{}, {"server_read_bytes": 5}, {"shared_hits": 1}])
def test_without_the_servers_statistics_nothing_is_known(known):
    assert reads(known, 8192) == ({}, [])
