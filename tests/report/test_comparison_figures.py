"""The charts of a comparison as data: every ratio where it is, every answer by its shape."""

from __future__ import annotations

import pytest

from report.comparison_hand import (
    SIZES_BYTES,
    THREADS,
    full_comparison,
    make_comparand,
    make_comparison,
    ratio,
)
from seatrial.report.comparison_page import comparison_figures
from seatrial.report.figures.axes import ratio_axis

FULL = full_comparison()
FIGURES = {figure.id: figure for figure in comparison_figures(FULL, "pair-1")}


def test_there_is_a_list_of_ratios_and_a_chart_of_both_sides():
    assert list(FIGURES) == ["pair-1-ratios", "pair-1-curves"]
    assert {figure.table for figure in FIGURES.values()} == {"table-pair-1"}
    labels = [view.label for view in FIGURES["pair-1-ratios"].views]
    assert labels == ["IOPS", "Bandwidth", "Read p99", "Write p99"]


def test_the_list_begins_with_all_cells_and_falls_from_the_highest_ratio():
    view = FIGURES["pair-1-ratios"].views[0]
    assert view.rows[0].label == "all 84 tests together"
    assert list(view.rows[0].points) == ["higher"]
    ratios = [next(iter(row.points.values())).y for row in view.rows[1:]]
    assert ratios == sorted(ratios, reverse=True)
    assert len(ratios) == 40
    assert min(ratios) < 0.85
    assert max(ratios) > 1.3
    assert "40 of 84 tests are drawn, those that differ most." in view.notes
    assert view.title == "IOPS of after: 42 higher, 28 lower, 6 undecided, 8 same"


def test_a_short_list_holds_every_answer():
    comparands = [
        make_comparand(size_bytes=512),
        make_comparand(size_bytes=1024, factor=0.8),
        make_comparand(size_bytes=2048, factor=1.0, answer="same", within_share=0.03),
        make_comparand(size_bytes=4096, factor=1.1, spread=0.3),
    ]
    [view] = comparison_figures(make_comparison(comparands), "pair-1")[0].views
    assert view.names == ["higher", "lower", "undecided", "same"]
    assert [row.label for row in view.rows[1:]] == ["512 B", "4 KiB", "2 KiB", "1 KiB"]
    assert view.rows[3].remark.endswith(": same within 3 %")
    assert view.notes == []


def test_no_difference_is_a_line_and_what_counts_as_none_a_band():
    band, line = FIGURES["pair-1-ratios"].views[0].guides
    assert (band.axis, band.low, band.high) == ("x", pytest.approx(1 / 1.05), 1.05)
    assert (line.axis, line.low, line.high) == ("x", 1.0, None)


def test_both_sides_stand_on_one_axis_with_the_ratio_below():
    view = FIGURES["pair-1-curves"].views[0]
    assert view.label == "matrix, read: IOPS"
    curves, ratios = view.panels[::2], view.panels[1::2]
    assert [panel.title for panel in curves] == ["1 thread", "10 threads", "40 threads"]
    assert all(panel.below for panel in ratios)
    assert not any(panel.below for panel in curves)
    for curve, below, threads in zip(curves, ratios, THREADS, strict=True):
        assert [line.name for line in curve.lines] == ["before", "after"]
        assert curve.x == below.x
        group = [
            each
            for each in FULL.comparands
            if each.figure == "iops"
            and each.identity["operation"] == "read"
            and each.identity["threads"] == threads
        ]
        for line, side in zip(curve.lines, ("a", "b"), strict=True):
            drawn = [(point.x, point.y) for point in line.points]
            assert drawn == [
                (each.identity["block_size_bytes"], getattr(each, side).value) for each in group
            ]
        marks = {(line.name, p.x, p.y, p.low, p.high) for line in below.lines for p in line.points}
        assert marks == {
            (each.answer, each.identity["block_size_bytes"],
             each.ratio.value, each.ratio.low, each.ratio.high)
            for each in group
        }  # fmt: skip
        assert [guide.axis for guide in below.guides] == ["y", "y"]


def test_answers_have_markers_of_their_own():
    markers = {
        line.name: line.marker
        for view in FIGURES["pair-1-curves"].views
        for panel in view.panels[1::2]
        for line in panel.lines
    }
    assert set(markers) == {"higher", "lower", "undecided", "same"}
    assert len(set(markers.values())) == 4


def test_cells_of_one_block_size_are_a_list_only():
    figures = comparison_figures(make_comparison(), "pair-1")
    assert [figure.id for figure in figures] == ["pair-1-ratios"]
    assert comparison_figures(make_comparison([]), "pair-1") == []


def test_what_was_measured_once_has_no_interval():
    once = make_comparand(ratio=ratio(1.2, None, None, 1), answer="undecided")
    [view] = comparison_figures(make_comparison([once], overall={}), "pair-1")[0].views
    point = view.rows[0].points["undecided"]
    assert (point.low, point.high) == (None, None)
    assert "measured once" in view.rows[0].remark


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([1.0], {"1x"}),
        ([1.02, 0.99], {"1x", "1.05x"}),
        ([1.002, 0.999], {"1x", "1.02x"}),
        ([1.3, 0.8], {"0.8x", "1x", "1.2x"}),
        ([0.01, 200.0], {"0.01x", "1x", "100x"}),
        ([3.0, 0.4], {"0.5x", "1x", "2x"}),
    ],
)
def test_an_axis_of_ratios_has_one_on_it_and_ticks_that_fit(values: list[float], labels: set[str]):
    axis = ratio_axis("ratio", [ratio(value, None, None) for value in values])
    reported = {tick.label for tick in axis.ticks}
    assert labels <= reported
    assert len(reported) <= 12
    assert axis.low < min([1.0, *values])
    assert axis.high > max([1.0, *values])


def test_a_far_interval_does_not_flatten_the_axis():
    axis = ratio_axis("ratio", [ratio(1.1, 0.001, 900.0), ratio(1.2, 1.1, 1.3)])
    assert axis.high < 2
    assert axis.low > 0.5


def test_every_size_of_the_matrix_is_drawn():
    points = FIGURES["pair-1-curves"].views[0].panels[0].lines[0].points
    assert [point.x for point in points] == SIZES_BYTES
