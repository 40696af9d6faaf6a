"""Tables of one block size, along threads and depth: what they say, and what they do not."""

import msgspec
import pytest

from seatrial.errors import UsageError
from seatrial.trials.audit.analysis.audit import audit_table
from seatrial.trials.audit.analysis.predict import predict
from seatrial.trials.audit.analysis.tables import is_large_enough, known_points
from trials.audit.analysis import published
from trials.audit.analysis.synthetic import deep_rates, table_from

SHAPES = [(threads, depth) for threads in (1, 2, 4, 8, 16) for depth in (1, 2, 4, 8, 16)]
VALUES = {"setup_us": 130.0, "host_service_us": 19.0}


def kept(table, wanted):
    return msgspec.structs.replace(table, points=[p for p in table.points if wanted(p)])


def test_how_much_a_table_of_one_size_needs():
    table = published.table("test-data02")
    assert is_large_enough(table)
    assert is_large_enough(kept(table, lambda point: point.depth == 1))
    assert not is_large_enough(kept(table, lambda point: point.depth == 1 and point.threads < 64))
    assert not is_large_enough(kept(table, lambda point: point.concurrency in (64, 128)))


def test_a_published_matrix_gives_its_two_times():
    audit = published.audit("test-data02")
    assert (audit.form, audit.holds, audit.gaps) == ("read", True, [])
    assert audit.error_share_median <= 0.01
    values = {each.name: each.value for each in audit.parameters}
    assert values == pytest.approx({"setup_us": 132.6, "host_service_us": 19.0}, rel=0.02)
    sentences = " ".join(each.sentence for each in audit.parameters)
    assert "Reads saturate at 52,6" in sentences
    assert "A single block size cannot show whether the limit is IOPS" in sentences
    assert "Host cost per I/O" not in sentences


def test_a_disk_that_sorts_its_queue_has_no_gaps():
    """It grows otherwise than a closed network; what the curve misses is not a cell's fault."""
    assert published.audit("test-data500gb").gaps == []


def test_published_writes_that_the_cache_took_are_too_fast():
    (found,) = published.audit("testdata250ssdcrucial").gaps
    assert found.kind == "too_fast"
    assert "4 KiB at 2, 4, 8 and 16 threads (writes)" in found.sentence
    assert "cache absorbed the writes" in found.cause


@pytest.mark.parametrize("seed", range(3))
def test_injected_slowdowns_are_found_and_nothing_else(seed):
    by_place = deep_rates(VALUES, [4096], SHAPES)
    slow = [(4096, 4, 4), (4096, 1, 8)]
    for place in slow:
        by_place[place] /= 2.5
    audit = audit_table(table_from(by_place, noise_log=0.03, seed=seed))
    outlier = {key for gap in audit.gaps for key in gap.keys}
    assert outlier == {f"matrix/read/4096B/{threads}t/{depth}d" for _, threads, depth in slow}


def test_neighbours_in_threads_and_depth_are_one_collapse():
    by_place = deep_rates(VALUES, [4096], SHAPES)
    for place in [(4096, 4, 4), (4096, 4, 8), (4096, 8, 4), (4096, 8, 8)]:
        by_place[place] /= 4
    (found,) = audit_table(table_from(by_place)).gaps
    assert (found.kind, len(found.keys)) == ("collapse", 4)
    assert "Reads of 4 KiB, 16 to 64 in flight, collapse: 4 tests" in found.sentence
    assert "Specific to this number of requests in flight" in found.cause


def test_a_sweep_of_threads_alone():
    """Seven figures, each with as many in flight as no other: a hiccup is below both neighbours."""
    shapes = [(1 << shift, 1) for shift in range(7)]
    by_place = deep_rates(VALUES, [4096], shapes)
    assert audit_table(table_from(by_place)).gaps == []
    by_place[4096, 16, 1] /= 3
    (found,) = audit_table(table_from(by_place)).gaps
    assert found.keys == ["matrix/read/4096B/16t/1d"]


def test_other_block_sizes_are_not_foretold():
    audit = published.audit("test-data02")
    point = known_points(audit.table)[20]
    reported = predict(audit, 4096, point.concurrency, point.threads)
    assert reported == audit.predictions[point.key]
    assert reported == predict(audit, 4096, point.concurrency)
    with pytest.raises(UsageError, match=r"only blocks of 4 KiB"):
        predict(audit, 8192, 16)
    assert any("blocks of 4 KiB only" in limit for limit in audit.limits)
