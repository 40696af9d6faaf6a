"""Other runs on the same media during a sample, wherever they begin and end in it."""

import msgspec
import pytest

from seatrial.fingerprint import FingerprintAfter
from seatrial.machine.fingerprint.process_usage import ProcessIo
from seatrial.machine.run_lock import Holder
from seatrial.measure import recorder
from seatrial.measure.recorder import OtherProcessIo, is_on_storage
from seatrial.units import MIB
from stats.builders import cell_of

EARLIER = Holder(pid=11, command="seatrial io /srv/a", since_unix_s=1.0)
LATER = Holder(pid=12, command="seatrial io /srv/b", since_unix_s=2.0)


class Lock:
    """The lock of a run, with the other runs that it lists at each reading."""

    def __init__(self, *readings):
        self._readings = list(readings)

    def neighbours(self):
        return self._readings.pop(0)


def test_a_run_that_ends_during_the_sample_is_named():
    neighbours = OtherProcessIo(Lock([EARLIER], []))
    neighbours.before()
    assert neighbours.after()["other_runs"] == 1.0
    (named,) = neighbours.noted(FingerprintAfter()).other_runs
    assert (named.pid, named.command) == (EARLIER.pid, EARLIER.command)


def test_each_run_is_counted_once():
    neighbours = OtherProcessIo(Lock([EARLIER], [EARLIER, LATER], [LATER], []))
    neighbours.before()
    assert neighbours.after()["other_runs"] == 2.0
    neighbours.before()
    assert neighbours.after()["other_runs"] == 1.0
    assert [each.pid for each in neighbours.noted(FingerprintAfter()).other_runs] == [11, 12]


def test_a_run_that_ended_before_the_sample_is_not_counted():
    neighbours = OtherProcessIo(Lock([EARLIER], [], [], []))
    neighbours.before()
    neighbours.after()
    neighbours.before()
    assert neighbours.after()["other_runs"] == 0.0


@pytest.mark.parametrize(
    ("kind", "workload", "is_looked"),
    [("file", "matrix", True), ("directory", "filebench", True), ("null", "matrix", False)],
)
def test_other_runs_are_looked_for_during_every_load_on_storage(kind, workload, is_looked):
    cell = msgspec.structs.replace(cell_of(kind=workload), spec={"target": {"kind": kind}})
    assert is_on_storage(cell) is is_looked


def test_what_children_did_before_the_sample_is_not_of_the_sample(monkeypatch):
    shell = ProcessIo(50, 1, 1, "bash", read_bytes=7 * MIB, write_bytes=0)
    make = ProcessIo(51, 2, 50, "make", read_bytes=0, write_bytes=MIB)
    copy = ProcessIo(52, 3, 51, "cp", read_bytes=900 * MIB, write_bytes=900 * MIB)
    after = shell._replace(read_bytes=909 * MIB, write_bytes=903 * MIB)
    readings = [[shell, make, copy], [after]]
    monkeypatch.setattr(recorder, "processes_io", lambda: readings.pop(0))
    neighbours = OtherProcessIo(Lock([], []))
    neighbours.before()
    counted = neighbours.after()
    assert counted["other_process_read_bytes"] == 2 * MIB
    assert counted["other_process_write_bytes"] == 2 * MIB
    (named,) = neighbours.noted(FingerprintAfter()).other_processes
    assert (named.name, named.read_bytes, named.write_bytes) == ("bash", 2 * MIB, 2 * MIB)
