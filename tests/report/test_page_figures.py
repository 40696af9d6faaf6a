"""The charts as data: what they hold, what they say, what they leave out and admit to."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.sample_run import Draft, Maker, make_cell, random_draft, sample_summary
from seatrial.report.figures.axes import (
    bar_axis,
    block_size_axis,
    linear_axis,
    log_axis,
    value_axis,
)
from seatrial.report.figures.latency import COLUMNS_MAX, COLUMNS_PER_CELL_MAX, heat_figures
from seatrial.report.figures.model import Figure
from seatrial.report.figures.naming import format_factor, name_by, varying
from seatrial.results.model import Stall
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import format_estimate
from seatrial.trials.io.report.figures import figures_of
from seatrial.units import MIB

CELLS = sample_summary().cells
FIGURES = {figure.id: figure for figure in figures_of(CELLS)}


def one(kind: str, operation: str, size_bytes: int, threads: int = 1, **more) -> CellSummary:
    factors = more.pop("factors", {})
    values = {"per_s": 1000.0, "latency_ns": 900_000.0, "rounds": 3} | more
    cell = make_cell(kind, operation, size_bytes, threads, **factors)
    return Maker().summary(Draft(cell, **values))


def points_of(figure: Figure, view: int = 0) -> dict[tuple[str, str, float], tuple]:
    return {
        (panel.title, line.name, point.x): (point.y, point.low, point.high, point.text)
        for panel in figure.views[view].panels
        for line in panel.lines
        for point in line.points
    }


def as_point(estimate: Estimate) -> tuple:
    shown = estimate.shown
    return (shown.value, shown.low, shown.high, format_estimate(estimate))


def test_every_workload_has_its_charts():
    assert list(FIGURES) == [
        "matrix-iops", "matrix-bandwidth", "matrix-latency", "heatmap", "commit",
        "sequential-bandwidth", "map", "four-iops", "mix-iops", "fill-bandwidth", "other-latency",
    ]  # fmt: skip


def test_no_chart_without_data():
    assert figures_of([]) == []
    blank = one("matrix", "read", 4096, absent=True)
    assert figures_of([blank]) == []
    commits = [s for s in CELLS if s.cell.kind == "commit"]
    assert [figure.id for figure in figures_of(commits)] == ["heatmap", "commit"]


@pytest.mark.parametrize("measure", ["iops", "bandwidth"])
def test_the_matrix_is_drawn_point_by_point(measure: str):
    expected = {}
    for part in CELLS:
        cell = part.cell
        if cell.kind == "matrix" and not part.blank:
            name = f"{cell.threads} thread{'s' if cell.threads > 1 else ''}"
            key = (cell.operation.capitalize(), name, cell.block_size_bytes)
            expected[key] = as_point(getattr(part, measure))
    assert points_of(FIGURES[f"matrix-{measure}"]) == expected


def test_latency_has_a_view_for_each_operation():
    figure = FIGURES["matrix-latency"]
    assert [view.label for view in figure.views] == ["read", "write"]
    for index, view in enumerate(figure.views):
        drawn = points_of(figure, index)
        known = {
            (f"{s.cell.threads} thread{'s' if s.cell.threads > 1 else ''}", name,
             s.cell.block_size_bytes): as_point(estimate)
            for s in CELLS
            if s.cell.kind == "matrix" and s.cell.operation == view.label and not s.blank
            for name, estimate in s.latency[view.label].items()
            if name != "mean"
        }  # fmt: skip
        assert drawn == known


def test_both_kinds_of_a_mixed_cell_are_drawn():
    shares = {"read": 0.7, "write": 0.3}
    cells = [one("matrix", "mixed", size, operations=shares) for size in (4096, 8192)]
    latency = next(f for f in figures_of(cells) if f.id == "matrix-latency")
    assert [panel.title for panel in latency.views[0].panels] == ["Read", "Write"]
    assert latency.title.startswith("Mixed requests take ")


def test_what_completed_nothing_is_named_below_the_chart():
    note = FIGURES["matrix-iops"].notes[-1]
    assert note == (
        "Not drawn, because nothing completed: matrix: random write 4 MiB, 40 threads "
        "(0 completed, oldest in flight 4.2 s)."
    )


def test_what_was_measured_once_has_no_band_and_says_so():
    figure = next(f for f in figures_of([one("matrix", "read", 4096, rounds=1)]))
    assert figure.notes[0].startswith("Measured once")
    [(y, low, high, text)] = points_of(figure).values()
    assert (low, high) == (None, None)
    assert text.endswith("(measured once)")
    assert y > 0
    assert "1 of 2 tests measured once" in FIGURES["fill-bandwidth"].notes[0]


def test_the_title_says_where_more_no_longer_helps():
    cells = [
        one("matrix", "read", 4096, 1, per_s=1000.0),
        one("matrix", "read", 4096, 10, per_s=9000.0),
        one("matrix", "read", 4096, 40, per_s=9100.0),
    ]
    best = max(cells, key=lambda each: each.iops.value)
    others = "a rate within that interval is already reached with 4 KiB, 10 threads"
    reported = f"Reads reach {format_estimate(best.iops)} with 4 KiB, {best.cell.threads} threads"
    assert best.cell.threads == 40
    assert figures_of(cells)[0].title == f"{reported}; {others}"


@pytest.mark.parametrize(
    ("rates_per_s", "rounds", "ending"),
    [
        ((1000.0, 1100.0, 1200.0, 9000.0), 3, ", the highest of 4"),
        ((1000.0, 1001.0, 1002.0, 1003.0), 2, "; no significant difference from the other 3"),
        ((10.0, 10.0, 8999.0, 9000.0), 3, "; no significant difference from 1 of 3 others"),
        ((1000.0, 1100.0, 1200.0, 9000.0), 1, "; it may not be the highest of 4"),
    ],
)
def test_the_highest_is_called_so_only_where_its_interval_lies_above_all_others(
    rates_per_s: tuple[float, ...], rounds: int, ending: str
):
    maker = Maker()
    cells = [
        maker.summary(Draft(make_cell("four", "read", 4096, threads), rate, 900_000.0,
                            rounds=rounds))
        for threads, rate in enumerate(rates_per_s, 1)
    ]  # fmt: skip
    [figure] = [each for each in figures_of(cells) if each.id == "four-iops"]
    assert figure.title.endswith(ending)


def test_a_chart_says_that_its_figures_are_geometric_means():
    notes = [note for figure in FIGURES.values() for note in figure.notes]
    assert any("geometric mean of its rounds" in note for note in notes)
    assert not any("is the mean of its rounds" in note for note in notes)


def test_the_map_shows_rate_and_access_time_by_offset():
    panels = FIGURES["map"].views[0].panels
    assert [panel.title for panel in panels] == ["Rate", "Access time, median"]
    zones = [s for s in CELLS if s.cell.kind == "map"]
    rates = [s for s in zones if s.cell.factors["pattern"] == "sequential"]
    assert [point.x for point in panels[0].lines[0].points] == [zone * 2**30 for zone in range(16)]
    assert [point.y for point in panels[0].lines[0].points] == [s.bandwidth.value for s in rates]
    times = [s.latency["read"]["p50"].value for s in zones if s not in rates]
    assert [point.y for point in panels[1].lines[0].points] == times
    single = [s for s in zones if s.cell.factors["zone"] == 0]
    assert "map" not in [figure.id for figure in figures_of(single)]


def test_where_a_median_is_not_known_the_map_shows_means():
    zones = [
        one("map", "read", 512, per_s=per_s, factors={"zone": zone, "start_bytes": zone * MIB})
        for zone, per_s in enumerate((1000.0, 20.0))
    ]
    assert "p50" not in zones[1].latency["read"]
    [panel] = next(f for f in figures_of(zones) if f.id == "map").views[0].panels
    assert panel.title == "Access time, mean"
    assert [point.y for point in panel.lines[0].points] == [
        zone.latency["read"]["mean"].value for zone in zones
    ]


def test_commits_are_a_ladder_of_methods_and_committers():
    view = FIGURES["commit"].views[0]
    assert [row.label for row in view.rows][:2] == ["fdatasync, 1 committer",
                                                   "fdatasync, 4 committers"]  # fmt: skip
    assert view.names == ["p50", "p90", "p99", "max"]
    first = next(s for s in CELLS if s.cell.kind == "commit")
    assert view.rows[0].remark == format_estimate(first.iops)
    median = view.rows[0].points["p50"]
    assert (median.y, median.low, median.high, median.text) == as_point(
        first.latency["commit"]["p50"]
    )


def test_the_heat_map_opens_on_the_longest_stall_else_on_the_busiest():
    figure = FIGURES["heatmap"]
    assert figure.views[figure.chosen].label == "matrix: random write 4 KiB, 10 threads"
    assert figure.title.endswith(": one 2.1 s stall (cause: device)")
    calm = [s for s in CELLS if not any(sample.stalls for sample in s.samples)]
    assert heat_figures(calm, views_max=0) == []
    [figure] = heat_figures(calm)
    busiest = max(calm, key=lambda s: s.completed)
    assert figure.views[figure.chosen].label.startswith("matrix: random read 512 B, 40 threads")
    assert busiest.cell.threads == 40
    assert "no stall; the slowest request took" in figure.title


def test_stalls_of_a_tool_that_watches_for_none_are_unknown():
    part = one("io", "read", 4096)
    imported = [msgspec.structs.replace(sample, engine="imported") for sample in part.samples]
    [figure] = heat_figures([msgspec.structs.replace(part, samples=imported)])
    assert "stalls unknown; the slowest request took" in figure.title


@pytest.mark.parametrize(
    ("kind", "drawn"), [("matrix", "matrix-latency"), ("commit", "commit"), ("io", "other-latency")]
)
@pytest.mark.parametrize("name", ["mean", "p95", "p50"])
def test_cells_without_a_point_above_zero_have_no_chart_of_latency(kind, drawn, name):
    part = one(kind, "read", 4096)
    value = 0.0 if name == "p50" else 1000.0
    figure = msgspec.structs.replace(part.latency["read"]["p50"], value=value, low=None, high=None)
    bare = msgspec.structs.replace(part, latency={"read": {name: figure}})
    assert drawn not in [figure.id for figure in figures_of([bare])]
    [ladder] = [figure for figure in figures_of([bare, part]) if figure.id == drawn]
    assert len(ladder.views[0].rows or ladder.views[0].panels) == 1


def test_the_heat_map_loses_no_request():
    views = FIGURES["heatmap"].views
    drawn = [s for s in CELLS if not s.blank]
    assert len(views) == len(drawn)
    for view, part in zip(views, drawn, strict=True):
        columns = [column for sample in view.heat.samples for column in sample.columns]
        assert sum(sum(column.counts) for column in columns) == part.completed
        assert all(column.counts[0] and column.counts[-1] for column in columns)


def test_a_row_of_the_heat_map_holds_the_latencies_that_it_says():
    part = one("io", "read", 4096, per_s=10.0, latency_ns=1_000_000.0, tail=0.0, rounds=1)
    heat = heat_figures([part])[0].views[0].heat
    [column, *_] = heat.samples[0].columns
    low_ns = 2 ** (column.first_row / heat.rows_per_doubling)
    high_ns = 2 ** ((column.first_row + len(column.counts)) / heat.rows_per_doubling)
    assert low_ns <= 1_000_000 * 1.008
    assert high_ns >= part.samples[0].operations["read"].response_histogram().max_ns / 1.008
    assert column.p50_ns == pytest.approx(1_000_000, rel=0.01)


def test_a_long_sample_is_coarsened_and_the_page_says_how_far():
    part = one("io", "read", 4096, per_s=20.0, duration_s=100.0, rounds=1)
    [figure] = heat_figures([part])
    heat = figure.views[0].heat
    assert heat.column_s == pytest.approx(math.ceil(1000 / COLUMNS_PER_CELL_MAX) * 0.1)
    assert len(heat.samples[0].columns) <= COLUMNS_PER_CELL_MAX
    assert sum(sum(c.counts) for c in heat.samples[0].columns) == part.completed
    assert "a column is 900 ms wide" in figure.notes[1]


def test_all_maps_together_stay_within_their_bound():
    part = one("io", "read", 4096, per_s=20.0, duration_s=12.0, rounds=1)
    [figure] = heat_figures([part] * 100)
    columns = [c for v in figure.views for s in v.heat.samples for c in s.columns]
    assert COLUMNS_MAX / 2 < len(columns) <= COLUMNS_MAX


def test_cells_beyond_the_bound_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("seatrial.report.figures.latency.COLUMNS_MAX", 2 * 8)
    stall = Stall(start_s=0.1, length_s=0.2, cause="device", operations={"read": 1}, depth=1)
    cells = [one("io", "read", size, per_s=100.0 * size) for size in (1, 2, 3)]
    cells.append(one("io", "write", 4096, per_s=50.0, stall=stall))
    [figure] = heat_figures(cells)
    assert [view.label for view in figure.views] == ["io: read 3 B, 1 thread",
                                                     "io: write 4 KiB, 1 thread"]  # fmt: skip
    assert figure.notes[-1].startswith("2 of 4 tests are kept in this page")


def test_two_targets_are_two_views_and_one_of_both():
    cells = [one("matrix", "read", 4096)]
    cell = msgspec.structs.replace(cells[0].cell, target="hdd")
    cells.append(msgspec.structs.replace(cells[0], cell=cell))
    views = figures_of(cells)[0].views
    assert [view.label for view in views] == ["ssd: matrix", "hdd: matrix", "all targets: matrix"]
    assert [line.name for line in views[2].panels[0].lines] == ["ssd", "hdd"]


def test_cells_are_named_by_what_differs():
    cells = [one("matrix", "read", 4096, threads) for threads in (1, 10)]
    assert varying(cells) == ["threads"]
    assert name_by(cells[1], ["threads"]) == "10 threads"
    four = random_draft("four", "read", 4096, 1, factors={"pattern": "random"}).cell
    part = one("four", "read", 4096, factors={"pattern": "random"})
    assert four.factors == part.cell.factors
    assert name_by(part, ["operation", "pattern"]) == "random read"


@pytest.mark.parametrize(
    ("name", "value", "kind", "said"),
    [
        ("threads", 4, "commit", "4 committers"),
        ("threads", 1, "", "1 thread"),
        ("depth", 32, "", "depth 32"),
        ("block_size_bytes", 8192, "", "8 KiB"),
        ("block_size_bytes", 0, "", ""),
        ("file", "small", "", "small file"),
        ("stride_bytes", MIB, "", "stride 1 MiB"),
        ("read_share", 0.7, "", "read share 70 %"),
        ("theta", 0.99, "", "theta 0.99"),
        ("direct", False, "", "no direct"),
    ],
)
def test_factors_are_said_as_a_reader_would(name: str, value: object, kind: str, said: str):
    assert format_factor(name, value, kind) == said


POSITIVE = st.lists(st.floats(1e-3, 1e15), min_size=1, max_size=20)


@given(values=POSITIVE, unit=st.sampled_from(["IOPS", "B/s", "ns"]))
def test_a_log_axis_holds_its_values_and_has_ticks(values: list[float], unit: str):
    axis = log_axis("a", unit, values)
    assert axis.low < min(values)
    assert axis.high > max(values)
    places = [tick.value for tick in axis.ticks]
    assert places == sorted(places)
    assert all(axis.low <= place <= axis.high for place in places)
    if max(values) / min(values) >= 10:
        assert len(places) >= 2


@given(values=POSITIVE, unit=st.sampled_from(["IOPS", "B/s", "ns", "B"]))
def test_a_linear_axis_begins_at_zero_and_has_few_ticks(values: list[float], unit: str):
    axis = linear_axis("a", unit, values)
    assert axis.low == 0
    assert axis.high >= max(values)
    assert 2 <= len(axis.ticks) <= 12
    assert len({tick.label for tick in axis.ticks}) == len(axis.ticks) or max(values) < 10


def test_an_interval_that_dwarfs_all_figures_does_not_flatten_them():
    known = Estimate(value=100.0, low=90.0, high=110.0, rounds=3, unit="ns")
    hardly = Estimate(value=100.0, low=1.0, high=9000.0, rounds=3, unit="ns")
    assert value_axis("a", "ns", [known]).scale == "linear"
    assert value_axis("a", "ns", [known, hardly]).scale == "log"
    assert value_axis("a", "ns", [known, hardly]).high > 9000
    bars = bar_axis("a", "ns", [known, hardly])
    assert (bars.scale, bars.low) == ("linear", 0.0)
    assert 110 < bars.high <= 400


def test_block_sizes_are_ticks():
    axis = block_size_axis([4096, 512, 4096])
    assert [tick.label for tick in axis.ticks] == ["512 B", "4 KiB"]
    assert axis.low < 512
    assert axis.high > 4096
