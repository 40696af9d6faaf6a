"""Charts as static pictures: well formed, in bounds, escaped, and true to the figures."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET

import pytest

from report.comparison_hand import full_comparison
from report.sample_run import HOSTILE, sample_summary
from seatrial.report.comparison_page import comparison_figures
from seatrial.report.figures.model import (
    POINTS_OVER_TIME_MIN,
    Axis,
    Bubble,
    Figure,
    Heat,
    HeatColumn,
    HeatSample,
    Line,
    Panel,
    Point,
    Scatter,
    Tick,
    TimelineChart,
    TimelineColumn,
    TimelineMark,
    TimelinePanel,
    View,
    has_enough_points,
)
from seatrial.report.part import Detail
from seatrial.report.picture import HEAT, WIDTH, static_picture
from seatrial.topic import topics

AXIS = Axis(name="IOPS", unit="IOPS", scale="log", low=1, high=100, ticks=[Tick(10, "10")])
TIME = Axis(name="Time (s)", unit="s", scale="linear", low=0, high=10, ticks=[Tick(5, "5")])
BYTES_MAX = 30_000


def figure_of(kind: str, **view: object) -> Figure:
    views = [View(label="v", title="t", **view)]
    return Figure(id="f", kind=kind, topic="T", notes=[], views=views, table="x")


def lines(count: int, x: Axis = TIME) -> Figure:
    points = [Point(float(i), 10.0, 5.0, 20.0, "10") for i in range(count)]
    panel = Panel(title=HOSTILE, x=x, y=AXIS, lines=[Line(name="a", style=0, points=points)])
    return figure_of("lines", panels=[panel])


def timeline(count: int) -> Figure:
    column = TimelineColumn("reads", 0, [10.0] * (count - 1) + [None])
    panel = TimelinePanel(title="IOPS", y=AXIS, stacked=False, columns=[column])
    marks = [TimelineMark(1, 2, "stall", "s")]
    chart = TimelineChart(step_s=1, x=TIME, panels=[panel], marks=marks)
    return figure_of("timeline", timeline=chart)


def scatter() -> Figure:
    bubble = Bubble(5, 20, None, None, 1.0, "slower", "1", "q", "t")
    chart = Scatter(x=AXIS, y=AXIS, bubbles=[bubble], slopes=[], margin_share=0.05)
    return figure_of("scatter", scatter=chart)


def every_figure() -> list[Figure]:
    summary = sample_summary()
    detail = Detail(100, every_figure=True, rounds_max=3, timelines_max=3)
    of_run = [figure for topic in topics() for figure in topic.charts(summary, detail)]
    made = [lines(9), timeline(9), scatter()]
    return [*of_run, *comparison_figures(full_comparison(), "pair-1"), *made]


@pytest.mark.parametrize("figure", every_figure(), ids=lambda figure: figure.id)
def test_a_picture_is_well_formed_small_and_within_its_bounds(figure: Figure):
    picture = str(static_picture(figure))
    root = ET.fromstring(picture)
    assert len(picture) < BYTES_MAX
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    assert (left, top, width) == (0, 0, WIDTH)
    assert height > 40
    assert list(root.iter("text"))
    assert "style" not in {name for node in root.iter() for name in node.attrib}
    for node in root.iter("circle"):
        assert 0 <= float(node.attrib["cx"]) <= WIDTH
        assert 0 <= float(node.attrib["cy"]) <= height
    for node in root.iter("text"):
        assert 0 <= float(node.attrib["y"]) <= height
    for node in root.iter("path"):
        if node.attrib.get("class", "").startswith("s"):
            numbers = [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", node.attrib["d"])]
            assert min(numbers) >= 0
            assert max(numbers[::2]) <= WIDTH
            assert max(numbers[1::2]) <= height


def test_a_point_is_drawn_where_its_value_is():
    root = ET.fromstring(str(static_picture(lines(9))))
    marks = list(root.iter("circle"))
    assert len(marks) == 9
    (tick,) = [node for node in root.iter("text") if node.text == "10"]
    for mark in marks:
        assert float(mark.attrib["cy"]) == pytest.approx(float(tick.attrib["y"]) - 4, abs=0.2)
    places = [float(mark.attrib["cx"]) for mark in marks]
    steps = [b - a for a, b in itertools.pairwise(places)]
    assert max(steps) == pytest.approx(min(steps), abs=0.2)


def test_more_requests_are_of_a_later_colour():
    figure = next(each for each in every_figure() if each.kind == "heat")
    root = ET.fromstring(str(static_picture(figure)))
    colours = [n.attrib["fill"] for n in root.iter("path") if n.attrib.get("class", "")[0] == "h"]
    assert len(colours) > 4
    assert colours == sorted(colours, key=HEAT.index)


def test_a_heat_map_keeps_the_time_in_which_nothing_ended():
    columns = [HeatColumn(index, 1000, 2000, 2000, 40, [9]) for index in (0, 1, 2, 12)]
    sample = HeatSample(round=0, duration_s=2.0, columns=columns, stalls=[])
    figure = figure_of("heat", heat=Heat(column_s=0.1, rows_per_doubling=4, samples=[sample] * 2))
    root = ET.fromstring(str(static_picture(figure)))
    (filled,) = [n.attrib["d"] for n in root.iter("path") if n.attrib.get("class", "")[0] == "h"]
    lefts = [float(each) for each in re.findall(r"M(\S+)", filled)]
    (width, *_) = [float(each) for each in re.findall(r"h(\d\S*?)v", filled)]
    places = [round((left - lefts[0]) / width) for left in lefts]
    assert places == [0, 1, 2, 12, 20, 21, 22, 32]
    medians = [n for n in root.iter("path") if n.attrib.get("class") == "s1"]
    assert len(medians) >= 4


def test_text_is_escaped():
    assert "<script>" not in str(static_picture(lines(9)))
    assert HOSTILE in "".join(ET.fromstring(str(static_picture(lines(9)))).itertext())


@pytest.mark.parametrize("make", [lines, timeline])
def test_few_readings_over_time_make_no_chart(make):
    enough, few = make(POINTS_OVER_TIME_MIN), make(POINTS_OVER_TIME_MIN - 1)
    assert has_enough_points(enough.views[0])
    assert not has_enough_points(few.views[0])
    assert enough.long_enough() == enough
    assert few.long_enough() is None


def test_few_points_that_are_not_over_time_do():
    figure = lines(3, x=AXIS)
    assert figure.long_enough() == figure


def test_the_view_that_is_shown_first_stays_so():
    few, enough = lines(3).views[0], lines(9).views[0]
    figure = Figure(
        id="f", kind="lines", topic="T", notes=[], views=[few, enough, enough], chosen=2, table="x"
    )
    kept = figure.long_enough()
    assert kept is not None
    assert len(kept.views) == 2
    assert kept.views[kept.chosen] == enough
