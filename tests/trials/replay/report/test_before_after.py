"""Before and after: its tables and charts as data, and the page as a file."""

from __future__ import annotations

import pytest

from report.page_reader import Node, embedded, read
from report.sample_run import HOSTILE
from seatrial.report.document import BYTES_MAX
from seatrial.trials.replay.compare.model import CallFigures, OneSided
from seatrial.trials.replay.compare.report.answer import before_after_answer
from seatrial.trials.replay.compare.report.page import before_after_figures, compared_part, render
from seatrial.trials.replay.compare.report.tables import (
    batches_table,
    changes_table,
    one_sided_table,
    regressions_table,
)
from trials.replay.report.before_after_hand import (
    all_queries,
    full_before_after,
    make_batch,
    make_before_after,
    make_change,
    make_overall,
    make_table,
    pages_table,
    ratio,
)


@pytest.fixture(scope="module")
def page() -> Node:
    return read(render(full_before_after()))


def figure_of(table, name: str):
    (found,) = [figure for figure in before_after_figures(table, "query") if figure.id == name]
    return found


def test_the_first_sentence_has_both_speed_ups_with_intervals(page: Node):
    first = page.one("h1").text.replace("\u00a0", " ")
    assert len(first) <= 100
    assert first.startswith("Average query 3.1x faster (3.0 to 3.3); geometric mean")
    verdict = page.one("details", class_="words").one("p").text.replace("\u00a0", " ")
    assert verdict.startswith(
        "Average query 3.1x faster (3.0 to 3.3); geometric mean over queries: 2.1x faster "
        "(1.9 to 2.2)."
    )
    assert "Nightly maintenance 11.4x faster (measured once each)." in verdict


def table_of_one(answer: str, **overall):
    changes = [make_change(factor=1.0)]
    return make_table(changes, overall=make_overall(changes, answer=answer, **overall))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        # The average is slower, no single query is.
        ({"queries": table_of_one("slower")}, "became slower"),
        ({"batches": [make_batch(answer="slower")]}, "became slower"),
        ({"pages": table_of_one("undecided", rounds_more=3), "batches": [
            make_batch(answer="slower")]}, "became slower"),
        ({"queries": table_of_one("undecided", rounds_more=3)}, "3 more rounds"),
        ({"queries": table_of_one("undecided")}, "Measure more rounds of both"),
        ({"batches": [make_batch(answer="undecided")]}, "several times, in turn"),
        ({"queries": table_of_one("same")}, "Nothing"),
        ({"queries": make_table([], overall=None)}, "Name two sides"),
        ({"queries": make_table([make_change()], overall=None)}, "undecided"),
    ],
)  # fmt: skip
def test_the_next_step_follows_from_the_worst_answer(parts, words):
    found = make_before_after(**{"queries": None} | parts)
    assert words in before_after_answer(found, [], []).next_step


def test_what_it_rests_on_is_reported_before_anything_else(page: Node):
    reported = page.one("header").text
    assert "interleaved rounds, compared in pairs" in reported
    assert "one measurement of each side: no significance test" in reported
    assert "from hdd again, a second measurement of before" in reported
    assert "10 % of the time of hdd is of queries that ssd lacks." in page.one(id="warnings").text


def test_the_slowest_regression_comes_first_with_its_number_and_cost():
    rows = regressions_table(make_table().regressions, "query").rows
    assert [row[0] for row in rows] == ["1", "2"]
    assert rows[0][1].startswith("SELECT count(*) FROM lines")
    assert rows[0][3:] == ["90 ms", "160 ms", "1.8x", "1.6 to 2.0", "0.004", "22 s", "changed"]
    assert rows[1][5:7] == ["1.28x", "1.22 to 1.35"]


def test_that_nothing_became_slower_is_said():
    well = make_table([make_change()])
    document = read(render(make_before_after(queries=well)))
    reported = document.one(id="query-regressions").text
    assert reported == "None of the queries became significantly slower."
    once = read(render(make_before_after(queries=None, pages=pages_table())))
    assert "one measurement of each side shows only" in once.one(id="page-regressions").text


def test_every_query_has_its_speed_up_interval_answer_and_both_sides():
    table = make_table()
    rows = changes_table(table.changes, "query", ("hdd", "ssd")).rows
    assert len(rows) == 12
    first = rows[0]
    assert first[2:6] == ["7.9x", "7.5 to 8.4", "faster", "2 min 27 s"]
    assert first[6:] == ["40,000", "4.2 ms", "2 min 48 s", "40,000", "530 µs", "21 s"]
    assert {row[4] for row in rows} == {"faster", "slower", "undecided", "same within 4 %"}


def test_the_scatter_has_one_scale_and_marks_what_became_slower():
    figure = figure_of(make_table(), "query-scatter")
    scatter = figure.views[0].scatter
    assert (scatter.x.low, scatter.x.high) == (scatter.y.low, scatter.y.high)
    areas = [bubble.area_share for bubble in scatter.bubbles]
    assert areas == sorted(areas, reverse=True)
    assert areas[0] == 1.0
    marked = {bubble.label: bubble for bubble in scatter.bubbles if bubble.label}
    assert set(marked) == {"1", "2"}
    assert all(bubble.name == "slower" and bubble.y > bubble.x for bubble in marked.values())
    assert all(b.low < b.y < b.high for b in scatter.bubbles if b.low is not None)
    assert figure.title.startswith(
        "2 of 12 queries became significantly slower, the most 1.8x slower"
    )


def test_a_query_measured_once_has_no_interval_and_is_drawn():
    change = make_change(speed_up=ratio(3.0, None, 1), factor=3.0, answer="undecided")
    (bubble,) = figure_of(make_table([change]), "query-scatter").views[0].scatter.bubbles
    assert (bubble.low, bubble.high) == (None, None)


def test_the_waterfall_ends_where_the_time_after_is():
    table = make_table()
    rows = figure_of(table, "query-waterfall").views[0].rows
    whole, *parts, last = rows
    at_s = whole.points["time"].y
    for row in parts:
        assert row.start == pytest.approx(at_s)
        change = row.points["change"].y
        assert row.tone == ("better" if change < 0 else "worse")
        at_s += change
    assert at_s == pytest.approx(last.points["time"].y)
    assert last.points["time"].y == pytest.approx(table.overall.after_s)
    assert parts[-1].label == "2 others, total"


def test_batches_are_reported_by_their_runs():
    once, often = batches_table([make_batch(), make_batch(before_s=[10.0, 14.0])]).rows
    assert once[1:6] == ["1", "5 h 48 min", "1", "30 min 35 s", "11x"]
    assert often[1:3] == ["2", "10 s to 14 s"]


def test_every_chart_has_its_numbers_in_a_table(page: Node):
    for figure in embedded(page)["figures"]:
        assert len(page.one(id=figure["table"]).all("table")) >= 1
    rows = page.one(id="table-query-changes").one("tbody").all("tr")
    assert len(rows) == 12
    text = page.one(id="query").text
    assert "1 query missing in ssd (4.1 s" in text
    assert "Aggregate(Seq Scan(lines))" in text
    assert "800" in text  # blocks read for a call


def test_findings_stand_before_the_figures(page: Node):
    reported = [each.text.replace("\u00a0", " ") for each in page.one(id="findings").all("li")]
    assert "2 of 12 queries became significantly slower, the slowest 1.8x slower" in reported[0]
    assert "The plans of 1 of 2 queries changed" in reported[1]


def test_intervals_that_were_adjusted_are_called_so():
    adjusted = make_table(level=1 - 0.05 * 2 / 12)
    shown = render(make_before_after(queries=adjusted))
    heads = [head.text for head in read(shown).one(id="query-regressions").all("th")]
    assert "99.16 %, adjusted" in heads
    assert "95 %" not in heads
    overall = read(shown).one(id="query").all("table")[0]
    assert "95 %" in [head.text for head in overall.all("th")]
    notes = figure_of(adjusted, "query-scatter").notes[0]
    assert "intervals of the change (99.16 %, adjusted)" in notes


def test_what_one_side_lacks_is_counted_before_it_is_cut():
    parts = [
        OneSided(key=str(n), text=f"select {n}", measured=CallFigures(calls=1, total_s=2.0))
        for n in range(30)
    ]
    table = one_sided_table(parts, "query", "ssd", 600.0, rows_max=10)
    assert len(table.rows) == 10
    assert table.title.startswith("30 queries missing in ssd (1 min, 10 % of the other's time)")
    part = compared_part(make_table(only_before=parts), "query", [], 10)
    document = read(f"<html><body>{part}</body></html>")
    assert "30 queries missing in ssd (1 min" in document.one(id="query").text
    assert "20 more queries are left out to limit the size" in document.one(id="query").text


def test_a_waterfall_is_of_what_the_average_has():
    changes = [*all_queries(), make_change("SELECT lacking", mean_ms=900.0, in_average=False)]
    table = make_table(changes, overall=make_overall(all_queries()))
    whole, *parts, last = figure_of(table, "query-waterfall").views[0].rows
    rows = {row[0]: row for row in changes_table(table.changes, "query", ("hdd", "ssd")).rows}
    assert rows["SELECT lacking"][4] == "faster; not in the average"
    end_s = whole.points["time"].y + sum(row.points["change"].y for row in parts)
    assert end_s == pytest.approx(last.points["time"].y)


def test_no_text_of_a_log_becomes_markup():
    changes = [make_change(HOSTILE), make_change(HOSTILE + "2", factor=0.5)]
    shown = render(make_before_after(queries=make_table(changes), batches=[make_batch(HOSTILE)]))
    assert "<script>alert" not in shown


def test_very_many_queries_stay_within_the_bound_and_that_is_said():
    text = "SELECT a, b, c FROM table_of_many_columns WHERE first = ? AND second = ? AND n = "
    changes = [make_change(f"{text}{n}", factor=0.5 + n / 1500) for n in range(3_000)]
    shown = render(make_before_after(queries=make_table(changes)))
    assert len(shown.encode()) <= BYTES_MAX
    assert "more queries are left out to limit the size" in shown


def test_sides_without_anything_in_common_say_so():
    nothing = make_table([], warnings=["hdd and ssd have no query in common."])
    document = read(render(make_before_after(queries=nothing)))
    assert "Nothing can be compared" in document.one("h1").text
    assert embedded(document)["figures"] == []


def test_a_page_of_nothing_is_refused():
    with pytest.raises(ValueError, match="something that was compared"):
        render(make_before_after(queries=None))


def test_the_made_up_queries_add_up():
    table = make_table(all_queries())
    saved_s = sum(change.saved_s for change in table.changes)
    assert table.overall.before_s - saved_s == pytest.approx(table.overall.after_s)


def test_what_is_undecided_is_called_neither_faster_nor_slower():
    wide = make_change(factor=1.2, spread=0.9)
    table = make_table(
        [wide],
        overall=make_overall(
            [wide], speed_up=ratio(1.2, 0.9), geometric=ratio(1.2, 0.9), answer="undecided"
        ),
    )
    verdict = read(render(make_before_after(queries=table))).one("h1").text
    assert "faster" not in verdict
    scatter, waterfall = before_after_figures(table, "query")
    assert scatter.title == "None of 1 queries became significantly faster or slower"
    assert "1.2x as fast (0.63 to 2.3)" in waterfall.views[0].rows[-1].remark
