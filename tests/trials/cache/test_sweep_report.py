"""What a sweep says in words and tables, of made-up figures."""

from __future__ import annotations

import msgspec

from seatrial.cli.files import Output
from seatrial.trials.cache.analysis.sweep import (
    CacheSweepResult,
    MemoryPoint,
    RelationCurve,
    SweepCheck,
    SweepPoint,
)
from seatrial.trials.cache.analysis.sweep_bound import CacheBound, bound_points, present_relations
from seatrial.trials.cache.commands.sweep import _next_step
from seatrial.trials.cache.report.sweep_page import sweep_figures
from seatrial.trials.cache.report.sweep_phrases import doubts, notable, verdict_line
from seatrial.trials.cache.report.sweep_text import bound_text, sweep_text
from seatrial.units import MIB


def point(size_mib: int, hit_share: float, reads: float, per_s: float) -> SweepPoint:
    return SweepPoint(
        buffers_bytes=size_mib * MIB,
        hit_share=hit_share,
        hit_low=hit_share - 0.01,
        hit_high=hit_share,
        reads_per_operation=reads,
        per_s=per_s,
        per_s_low=per_s * 0.9,
        per_s_high=per_s * 1.1,
    )


def check(hit_points: float, rate_share: float) -> SweepCheck:
    return SweepCheck(
        buffers_bytes=16 * MIB,
        predicted_hit_share=0.9 + hit_points / 100,
        measured_hit_share=0.9,
        hit_error_points=hit_points,
        predicted_reads_per_operation=1.0,
        measured_reads_per_operation=0.8,
        predicted_per_s=500 * (1 + rate_share),
        predicted_low=450.0,
        predicted_high=650.0,
        measured_per_s=500.0,
        measured_low=490.0,
        measured_high=510.0,
        rate_error_share=rate_share,
    )


def result(**changes: object) -> CacheSweepResult:
    made = CacheSweepResult(
        load="shop.trace",
        server="PostgreSQL 18.6",
        unit="statements",
        operations=20_000,
        seconds=100.0,
        sessions=8.0,
        smallest_bytes=4 * MIB,
        present_bytes=16 * MIB,
        accesses=200_000,
        data_bytes=64 * MIB,
        method="exact",
        read_ms=10.0,
        reads_ms_per_operation=30.0,
        writes_ms_per_operation=1.0,
        other_ms_per_operation=9.0,
        processor_ms_per_operation=0.5,
        scan_share=0.0,
        lost_share=0.0,
        storage_reads_per_s=620.0,
        curve=[
            point(4, 0.7, 3.0, 200.0),
            point(16, 0.9, 1.0, 500.0),
            point(32, 0.98, 0.2, 980.0),
            point(64, 0.98, 0.2, 1000.0),
        ],
        relations=[
            RelationCurve(
                name="orders_pkey (index of orders)",
                size_bytes=20 * MIB,
                accesses=100_000,
                hit_shares=[0.5, 0.8, 0.99, 0.99],
                fits_bytes=32 * MIB,
            )
        ],
        behind=[MemoryPoint(memory_bytes=32 * MIB, served_share=0.6)],
        read_ahead_bytes=128 << 10,
        checks=[check(0.4, 0.03)],
    )
    return msgspec.structs.replace(made, **changes)


def test_the_answer_compares_the_present_size_with_the_smallest_that_is_enough():
    assert verdict_line(result()) == (
        "32 MiB of shared buffers would do 2.0 times the work of 16 MiB: 980 statements/s "
        "(882 to 1,078) are predicted, 500 at the present size."
    )
    ample = verdict_line(result(present_bytes=64 * MIB))
    assert ample.startswith("More shared buffers gain nothing: 64 MiB serve 98 %")
    assert "32 MiB would do 980" in ample


def test_what_stands_out_is_said_with_its_figures():
    words = " ".join(notable(result()))
    assert "Measured, 16 MiB agrees: hit ratio 90 %" in words
    assert "(+0.4 points)" in words
    assert "(+3 %)" in words
    assert "orders_pkey (index of orders) (20 MiB) fits at 32 MiB" in words
    assert "the storage is the limit: 600 of the 620 page reads/s" in words
    assert "A page cache of 32 MiB behind 16 MiB of shared buffers would serve 60 %" in words


def test_a_prediction_that_missed_is_said_to_have_missed():
    for missed in (check(2.5, 0.0), check(0.0, -0.2)):
        found = result(checks=[missed])
        assert any("is off" in each for each in notable(found))
        assert "At 16 MiB the prediction missed what was measured." in doubts(found)
        assert "It missed 1 of 1 sizes" in verdict_line(found)
        assert "--set shared_buffers=" in _next_step(found, Output(), "again")
    assert "16 MiB did 500 statements/s, predicted 400" in verdict_line(found)
    assert "the prediction is not checked" in " ".join(doubts(result(checks=[])))


def test_limits_are_named_where_there_are_any():
    words = " ".join(doubts(result(scan_share=0.2, lost_share=0.05, seconds=5.0)))
    assert "20 % of the reads are of large scans" in words
    assert "5 % of the pages that the server read are not in the recording" in words
    assert "Short:" in words
    assert "Short:" not in " ".join(doubts(result()))


def test_tables_mark_the_present_and_the_recorded_size():
    text = sweep_text(result(), "Next one")
    assert "4 MiB (recorded)" in text
    assert "16 MiB (present)" in text
    assert "90.0 % (89.0 to 90.0)" in text
    assert "+25.0 %" in text  # reads
    assert "The page cache behind 16 MiB of shared buffers" in text
    none = result(behind=[MemoryPoint(memory_bytes=32 * MIB, served_share=0.0)])
    assert "The page cache behind" not in sweep_text(none, "Next one")


def test_charts_have_the_curve_the_present_size_and_the_checks():
    hits, rates, relations = sweep_figures(result())
    for each in (hits, rates):
        (panel,) = each.views[0].panels
        assert [line.name for line in panel.lines][:2] == ["predicted", "measured"]
        assert (panel.guides[0].low, panel.guides[0].label) == (16 * MIB, "present")
    first = rates.views[0].panels[0].lines[0].points[0]
    assert (first.low, first.high) == (180.0, 200 * 1.1)
    assert relations.views[0].panels[0].lines[0].name.startswith("orders_pkey")


def test_a_bound_says_that_it_is_one():
    bound = CacheBound(
        server="PostgreSQL 18.6",
        seconds=10.0,
        present_bytes=16 * MIB,
        data_bytes=64 * MIB,
        accesses=1000,
        hit_share=0.8,
        reads_per_s=20.0,
        open_s=0.0,
        read_wait_share=0.75,
        gain_ratio_max=4.0,
        points=bound_points(16 * MIB, 0.8, 64 * MIB),
        relations=present_relations([("lines", 8 * MIB, 900, 700)], {"lines": 8 * MIB}, 3),
    )
    text = " ".join(bound_text(bound, "Replay its log").split())
    assert text.startswith(
        "A bound, not a prediction: 16 MiB of shared buffers serve 80 % of the page accesses, and "
        "no size does more than 4.0 times the work."
    )
    assert "Entirely in shared buffers: lines." in text
    assert "8 MiB 40 % 80 %" in text
    assert "20 pages/s" in text
    late = msgspec.structs.replace(bound, reads_per_s=None, open_s=22.0)
    text = " ".join(bound_text(late, "Replay its log").split())
    assert "pages/s" not in text
    assert "open for 22 s" in text
    assert "times the work" not in text
    untimed = msgspec.structs.replace(bound, read_wait_share=None, gain_ratio_max=None)
    text = " ".join(bound_text(untimed, "Replay its log").split())
    assert "the cost of the other accesses is unknown" in text
    assert "track_io_timing = on" in text
