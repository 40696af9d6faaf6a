"""What a sweep says of made-up recordings whose answer is known."""

from __future__ import annotations

import csv
from pathlib import Path

import msgspec
import numpy as np
import pytest

from seatrial.trials.cache.analysis import references as of_references
from seatrial.trials.cache.analysis.references import (
    BufferSimulator,
    ReferenceString,
    references_of,
)
from seatrial.trials.cache.analysis.sweep import (
    MeasuredRun,
    Predictor,
    ReplayMeasurement,
    check_of,
    interval_per_s,
    page_cache_points,
    relation_curves,
    rounded_bytes,
    sizes_bytes,
    steep_sizes_bytes,
)
from seatrial.trials.cache.analysis.sweep_bound import (
    bound_points,
    gain_ratio_max,
    present_relations,
)
from seatrial.trials.watch.recording import Recording
from trials.cache.sweep_2008 import errors_of_2008
from trials.watch.recordings import READ, WRITE, recording

PAGE = 8192
MS = 10**6
NAMES = ("accounts", "accounts_pkey (index of accounts)", "WAL")
ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "reference" / "sql-replay-2008.csv"
DOCS = ROOT / "docs" / "cache.md"


def made(
    pages: list[int] | np.ndarray, operations: list[int] | None = None, relation: object = 0
) -> Recording:
    count = len(pages)
    found = recording(
        seconds=count / 1000,
        arrived_ns=np.arange(count) * MS,
        offset_bytes=np.asarray(pages, dtype=np.int64) * PAGE + 4096,
        length_bytes=[PAGE] * count,
        operation=operations or [READ] * count,
        relation=np.broadcast_to(relation, count),
    )
    about = msgspec.structs.replace(found.about, relations=NAMES)
    return Recording(about, **{
        name: getattr(found, name) for name in found.__dataclass_fields__ if name != "about"
    })  # fmt: skip


def string_of(found: Recording, begin: int = 0, end: int = 10**9) -> ReferenceString:
    made_of = references_of(found, (begin * MS, end * MS))
    assert made_of is not None
    return made_of


def misses(found: Recording, pages: int, begin: int = 0) -> int:
    return round(float(BufferSimulator(string_of(found, begin)).of_size(pages * PAGE).misses.sum()))


def test_pages_need_not_begin_at_multiples_of_their_size():
    found = string_of(made([1, 2, 1]))
    assert len(set(found.pages.tolist())) == 2


def test_buffers_that_hold_all_miss_only_the_first_accesses():
    pages = [*range(50)] * 4
    assert misses(made(pages), 50) == 50
    assert misses(made(pages), 50, begin=50) == 0
    # A cycle that is longer defeats the clock sweep.
    assert misses(made(pages), 25) > 150


def test_the_warm_up_is_simulated_and_not_counted():
    pages = [*range(20), *range(20), *range(30)]
    assert misses(made(pages), 40, begin=40) == 10


def test_a_request_of_several_pages_is_as_many_accesses():
    found = made([0, 4])
    lengths = np.array([4 * PAGE, PAGE])
    wide = Recording(found.about, **{
        **{name: getattr(found, name) for name in found.__dataclass_fields__ if name != "about"},
        "length_bytes": lengths,
    })  # fmt: skip
    assert len(string_of(wide).pages) == 5


def test_only_changed_pages_are_written_when_they_leave():
    # Pages 1 and 2 are read; 1 is written before it is read again: it had been changed.
    found = made([1, 2, 1, 3, 4], [READ, READ, WRITE, READ, READ])
    string = string_of(found)
    assert string.changes.tolist() == [True, False, False, False]
    assert not string.is_new.any()
    simulated = BufferSimulator(string).of_size(2 * PAGE)
    assert simulated.write_backs.sum() == 1


def test_a_page_that_is_written_before_it_is_read_was_made():
    string = string_of(made([7, 1, 7], [WRITE, READ, READ]))
    assert string.is_new.tolist() == [True, False, False]
    # It is in the buffers since it was made: only page 1 is read.
    assert BufferSimulator(string).of_size(4 * PAGE).misses.sum() == 1


def test_what_passes_by_the_buffers_is_left_out():
    assert references_of(made([1, 2], relation=2), (0, 10**9)) is None
    assert references_of(made([1, 2], relation=-1), (0, 10**9)) is None


def test_samples_of_the_pages_agree_with_all_of_them(monkeypatch: pytest.MonkeyPatch):
    random = np.random.default_rng(2)
    pages = (random.random(80_000) ** 3 * 20_000).astype(np.int64)
    string = string_of(made(pages), begin=40_000)
    whole = BufferSimulator(string).of_size(4000 * PAGE).misses.sum()
    monkeypatch.setattr(of_references, "ACCESSES_MAX", 20_000)
    sampled = BufferSimulator(string).of_size(4000 * PAGE)
    assert sampled.misses.sum() == pytest.approx(whole, rel=0.05)
    assert 0 < sampled.deviation_share < 0.1


def test_a_page_cache_behind_serves_what_the_buffers_miss():
    pages = [*range(100)] * 6
    buffers = BufferSimulator(string_of(made(pages), begin=300))
    none, all_of_it = page_cache_points(buffers, 10 * PAGE, [5 * PAGE, 200 * PAGE], 0)
    assert none.served_share < 0.1
    assert all_of_it.served_share == 1.0


def test_a_page_cache_behind_reads_ahead_of_a_scan_and_of_nothing_else():
    scan = BufferSimulator(string_of(made([*range(1000, 2000)])))
    rest = BufferSimulator(string_of(made([*np.random.default_rng(1).permutation(40_000)[:1000]])))
    shares = [
        page_cache_points(buffers, 10 * PAGE, [5000 * PAGE], read_ahead_bytes)[0].served_share
        for buffers in (scan, rest)
        for read_ahead_bytes in (0, 128 << 10)
    ]
    assert shares[0] == 0
    assert shares[1] == pytest.approx(0.998)
    assert max(shares[2:]) < 0.02


def measurement(**changes: object) -> ReplayMeasurement:
    usual: dict[str, object] = {
        "operations": 100,
        "seconds": 2.0,
        "sessions": 4.0,
        "hits": 300,
        "reads": 100,
        "read_s": 6.0,
        "writes": 0,
        "write_s": 0.0,
        "cpu_s": 0.5,
        "rates_per_s": [50.0, 49.0, 51.0, 50.0],
        "storage_per_s": [60.0, 60.0, 60.0],
        "variation": 0.5,
    }
    return ReplayMeasurement(**{**usual, **changes})  # type: ignore[arg-type]


def predictor(found: Recording, begin: int, **changes: object) -> Predictor:
    return Predictor(string_of(found, begin), measurement(**changes), 8 * PAGE)


def test_the_recorded_size_has_the_recorded_rate_and_hit_ratio():
    point = predictor(made([*range(100)] * 2), 100).point(8 * PAGE)
    assert point.hit_share == pytest.approx(0.75, abs=0.01)
    assert point.per_s == pytest.approx(50.0, rel=0.01)
    assert point.per_s_low < 50 < point.per_s_high
    assert point.reads_per_operation == pytest.approx(1.0, abs=0.05)


def test_without_reads_the_rest_of_the_time_is_left():
    point = predictor(made([*range(100)] * 2), 100).point(200 * PAGE)
    # Of 80 ms an operation, 60 ms were reads.
    assert point.hit_share == 1.0
    assert point.per_s == pytest.approx(4 / 0.02)


def test_half_the_reads_of_a_storage_that_is_the_limit_give_twice_the_rate():
    pages = [each for start in range(0, 200, 2) for each in (start % 2, 2 + start)]
    found = made([*range(2), *pages])
    point = predictor(found, 2, reads=200, hits=0, read_s=7.9).point(100 * PAGE)
    assert point.reads_per_operation == pytest.approx(1.0, abs=0.1)
    assert point.per_s > 50


def test_waits_for_writes_that_make_room_vanish_with_them():
    count = 60
    pages = [*range(count), *range(count), *range(count)]
    operations = [READ] * count + [WRITE] * count + [READ] * count
    found = made(pages, operations)
    small = Predictor(
        string_of(found), measurement(reads=120, read_s=2.0, writes=60, write_s=4.0), 8 * PAGE
    )
    assert small.point(200 * PAGE).per_s > small.point(8 * PAGE).per_s


def test_sizes_are_spaced_by_their_ratio_and_hold_those_wanted():
    sizes = sizes_bytes(64 * PAGE, 100 << 20, [10 << 20, 1])
    assert sizes[0] == 64 * PAGE
    assert sizes[-1] == 100 << 20
    assert 10 << 20 in sizes
    assert 1 not in sizes
    assert rounded_bytes(20.5 * (1 << 20), PAGE) == 21 << 20


def test_steep_sizes_leave_two_and_one_thirds():
    source = predictor(made([*range(90)] * 2), 90)
    curve = [
        msgspec.structs.replace(
            source.point(8 * PAGE), buffers_bytes=size, reads_per_operation=reads
        )
        for size, reads in ((1, 3.0), (2, 2.5), (4, 1.9), (8, 0.9), (16, 0.0))
    ]
    assert steep_sizes_bytes(curve) == [4, 8]


def test_a_table_fits_where_no_larger_size_gains():
    pages = np.array([*range(30)] * 6)
    relation = np.where(pages < 10, 0, 1)
    string = string_of(made(pages, relation=relation), begin=90)
    buffers = BufferSimulator(string)
    simulated = [(size * PAGE, buffers.of_size(size * PAGE)) for size in (8, 16, 30, 60)]
    known = {NAMES[0]: (600, 60, 10 * PAGE), NAMES[1]: (120, 120, 20 * PAGE)}
    curves = {each.name: each for each in relation_curves(string, simulated, known)}
    index = curves[NAMES[1]]
    assert index.hit_shares[-1] == 1.0
    assert index.fits_bytes == 30 * PAGE


def test_errors_of_a_check_are_signed():
    point = predictor(made([*range(100)] * 2), 100).point(8 * PAGE)
    check = check_of(
        point,
        MeasuredRun(
            hits=270, reads=130, operations=100, per_s=40.0, rates_per_s=[40.0, 41.0, 39.0]
        ),
    )
    assert check.hit_error_points == pytest.approx(100 * (point.hit_share - 0.675))
    assert check.rate_error_share == pytest.approx(0.25, rel=0.02)
    assert check.measured_reads_per_operation == 1.3
    assert check.measured_low is not None
    assert check.measured_low < 40
    assert interval_per_s([1.0, 2.0], 1.5) is None


def test_the_interval_of_a_rate_that_scatters_widely_stays_above_0():
    low, high = interval_per_s([10.0, 100.0, 1000.0], 100.0)
    assert 0 < low < 100 < high
    source = predictor(made([*range(100)] * 2), 100, rates_per_s=[10.0, 100.0, 1000.0])
    point = source.point(8 * PAGE)
    assert 0 < point.per_s_low < point.per_s < point.per_s_high


def test_a_bound_encloses_what_a_concave_curve_can_be():
    points = {each.buffers_bytes: each for each in bound_points(1000, 0.6, 10_000)}
    assert points[1000].hit_low == points[1000].hit_high == 0.6
    assert (points[500].hit_low, points[500].hit_high) == (0.3, 0.6)
    assert (points[2000].hit_low, points[2000].hit_high) == (0.6, 1.0)
    # Nothing is listed beyond twice the data.
    assert max(each.buffers_bytes for each in bound_points(1000, 0.6, 900)) <= 2000


def test_no_size_gains_more_than_the_wait_for_reads():
    assert gain_ratio_max(0.75) == 4.0
    assert gain_ratio_max(None) is None
    assert gain_ratio_max(1.0) is None


def test_relations_of_a_server_are_those_with_the_most_reads():
    grown = [("a", PAGE, 100, 90), ("b", PAGE, 100, 10), ("c", PAGE, 0, 0)]
    first, second = present_relations(grown, {"b": PAGE}, 5)
    assert (first.name, first.buffered_bytes, first.hit_share) == ("b", PAGE, 0.1)
    assert (second.name, second.buffered_bytes) == ("a", 0)
    assert present_relations(grown, None, 1)[0].buffered_bytes is None


def test_the_sweep_of_2008_is_regenerated_with_signed_errors():
    with REFERENCE.open() as file:
        rows = list(csv.DictReader(file))
    found = errors_of_2008(rows)
    assert [each.cache_mb for each in found] == [1512, 3500, 5500, 11000]
    last = found[-1]
    assert round(last.predicted_per_s) == 426
    assert last.error_share == pytest.approx(0.047, abs=0.0005)
    assert max(abs(each.error_share) for each in found) < 0.07
    for each in found:
        row = (
            f"| {each.cache_mb:,} | {each.published_per_s:.0f} | {each.predicted_per_s:.0f} | "
            f"{100 * each.error_share:+.1f} % |"
        )
        assert row in DOCS.read_text()
