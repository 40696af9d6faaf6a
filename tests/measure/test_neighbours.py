"""Other runs on the same media during a sample, wherever they begin and end in it."""

import msgspec
import pytest

from seatrial.fingerprint import FingerprintAfter
from seatrial.machine.run_lock import Holder
from seatrial.measure.recorder import OtherProcessIo, is_on_storage
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
