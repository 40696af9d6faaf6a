"""Files on a disk: whose a request's place is."""

from __future__ import annotations

import mmap
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial import _core
from seatrial.trials.watch.measure.relations import Extent, ExtentMap, extents_of, replaced
from seatrial.units import MIB
from trials.watch.measure.volumes import volume_below


def test_a_place_belongs_to_the_extent_that_holds_it():
    found = ExtentMap([Extent(100, 200, "b"), Extent(0, 50, "a"), Extent(200, 300, "c")])
    places = (0, 49, 50, 99, 100, 199, 200, 299, 300)
    assert [found.owner_at(each) for each in places] == [
        *("a", "a", None, None, "b", "b", "c", "c", None)
    ]
    assert ExtentMap().owner_at(0) is None


def test_a_request_to_several_files_has_the_bytes_of_each():
    found = ExtentMap([Extent(100, 200, "a"), Extent(200, 300, "b"), Extent(350, 400, "c")])
    parts = list(found.parts(50, 420))
    assert parts == [(None, 50), ("a", 100), ("b", 100), (None, 50), ("c", 50), (None, 20)]
    assert list(found.parts(150, 160)) == [("a", 10)]
    assert list(found.parts(500, 510)) == [(None, 10)]
    assert list(ExtentMap().parts(0, 7)) == [(None, 7)]


extents = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 10)).map(lambda each: (each[0], sum(each))),
    max_size=6,
)


@given(st.lists(extents, max_size=5))
def test_of_files_that_are_gone_the_last_one_has_the_bytes(drawn: list[list[tuple[int, int]]]):
    """Five files, one after the other, in the same places."""
    former: list[Extent] = []
    owners: dict[int, str] = {}
    for number, ranges in enumerate(drawn):
        former = replaced(former, [Extent(start, end, f"{number}") for start, end in ranges])
        owners |= {at: f"{number}" for start, end in ranges for at in range(start, end)}
    found = ExtentMap(former)
    assert [found.owner_at(at) for at in range(50)] == [owners.get(at) for at in range(50)]
    assert sum(each.end_bytes - each.start_bytes for each in former) == len(owners)


def test_a_long_extent_is_found_behind_a_short_one():
    found = ExtentMap([Extent(0, 1000, "a"), Extent(200, 300, "b")])
    assert list(found.parts(500, 600)) == [("a", 100)]


@pytest.mark.root
def test_a_request_lies_in_the_extents_of_its_file(tmp_path):
    files = [tmp_path / name for name in ("one", "two")]
    for each in files:
        each.write_bytes(os.urandom(MIB))
        with each.open("rb") as written:
            os.fsync(written.fileno())
    volume = volume_below(tmp_path)
    (number,) = volume.disks
    found = ExtentMap(
        extent for path in files for extent in extents_of(path, volume, path.name).extents[number]
    )
    watch = _core.Watch([number], records=True)
    with mmap.mmap(-1, 4096) as buffer:
        for path in files:
            file = os.open(path, os.O_RDONLY | os.O_DIRECT)
            for place in range(0, MIB, 16384):
                os.preadv(file, [buffer], place)
            os.close(file)
    own = [each for each in watch.take_requests() if each.pid == os.getpid()]
    owners = [found.owner_at(each.offset_bytes) for each in own if each.operation == "read"]
    assert (owners.count("one"), owners.count("two")) == (64, 64)
