"""The page of databases: its charts as data, its tables, its bound, the published figures."""

from __future__ import annotations

import csv
import functools
from pathlib import Path

import msgspec
import pytest

from findings.analyses import with_analyses
from report.page_reader import Node, embedded, read
from report.sample_run import sample_summary
from seatrial.findings.model import Summary
from seatrial.report import articles
from seatrial.report.articles import published_rates
from seatrial.report.document import BYTES_MAX
from seatrial.report.figures.model import Figure, TimelineChart
from seatrial.report.page import render
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import format_estimate
from seatrial.trials.database.analysis.model import DatabaseAnalysis, database_of
from seatrial.trials.database.report.timelines import STEPS_MAX, timeline_figure
from trials.database.report.database_hand import (
    DRIVES,
    DURATION_S,
    Draft,
    Maker,
    crash_summary,
    database_cell,
    database_summary,
    make_sweep,
    pgbench_cell,
)

REFERENCE = Path(__file__).parents[4] / "reference" / "pgbench-2010.csv"


@functools.cache
def made() -> Summary:
    return database_summary()


@functools.cache
def page() -> Node:
    return read(render(made()))


def figure_data(document: Node, identifier: str) -> dict:
    (found,) = [f for f in embedded(document)["figures"] if f["id"] == identifier]
    return found


def timeline_of(summary: CellSummary, rounds_max: int = 10) -> Figure:
    figure = timeline_figure(summary, "timeline-1", rounds_max)
    assert figure is not None
    return figure


def columns_of(timeline: TimelineChart) -> dict[str, list[float | None]]:
    return {column.name: column.values for panel in timeline.panels for column in panel.columns}


def test_the_verdict_is_first_then_findings_then_the_article_s_table_and_chart():
    parts = [node.attributes.get("id") for node in page().one("main").all()]
    assert parts.index("findings") < parts.index("database") < parts.index("charts")
    database = page().one(id="database")
    first = database.all("table")[0]
    assert "Transactions per second" in first.one("caption").text
    order = [node.name for node in database.all() if node.name in ("table", "figure")]
    assert order[:2] == ["table", "figure"]
    assert page().one(id="figure-database-tps") in database.all("figure")


def test_every_figure_has_a_frame_and_a_table_of_its_numbers():
    for figure in embedded(page())["figures"]:
        assert page().one("figure", id=f"figure-{figure['id']}")
        assert page().one(id=figure["table"])


def test_bars_stand_by_setting_with_target_interval_and_bound():
    rows = figure_data(page(), "database-tps")["views"][0]["rows"]
    headings = [row["label"] for row in rows if not row["points"]]
    assert headings == [
        "pgbench: scale 100, 10 clients, 1 process",
        "pgbench: scale 1000, 10 clients, 1 process",
        "pgbench: scale 1000, 10 clients, 2 processes",
        "telemetry: 10 clients",
    ]
    assert [row["label"] for row in rows[1:4]] == list(DRIVES)
    part = made().cells[0]
    assert rows[1]["remark"] == f"{format_estimate(part.iops)}, bound by: commit"
    assert rows[1]["points"]["tps"][1:4] == [part.iops.value, part.iops.low, part.iops.high]
    assert "process 1" in rows[9]["remark"]


def test_the_published_figures_stand_next_to_where_the_reader_or_the_caller_asks():
    figure = figure_data(page(), "database-tps")
    assert [view["label"] for view in figure["views"]] == [
        "measured", "with figures published in 2010",
    ]  # fmt: skip
    assert figure["chosen"] == 0
    rows = figure["views"][1]["rows"]
    quiet = [row for row in rows if row.get("quiet")]
    assert len(quiet) == len(published_rates()) == 12
    assert "106 tps, published in 2010" in [row["remark"] for row in quiet]
    assert sum("(client 1)" in row["remark"] for row in quiet) == 4
    requested = figure_data(read(render(made(), with_published=True)), "database-tps")
    assert requested["chosen"] == 1
    assert "1,472" in page().one("details", class_="published").text


def test_figures_of_another_script_have_no_published_ones_with_them():
    cell = pgbench_cell("nvme", 100, 10, script="select-only")
    cells = [Maker().summary(Draft(cell, DRIVES["nvme"], 2_000.0), rounds=1)]
    document = read(render(database_summary(cells=cells, database=None)))
    assert len(figure_data(document, "database-tps")["views"]) == 1
    assert document.all("details", class_="published") == []


def test_the_published_figures_are_those_of_the_reference():
    rows = list(csv.DictReader(REFERENCE.read_text().splitlines()))
    assert [rate.rate_per_s for rate in published_rates()] == [
        float(row["tps_client_1"]) for row in rows
    ]


def test_an_installation_without_them_leaves_them_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(articles, "PGBENCH_FILE", "absent.csv")
    published_rates.cache_clear()
    try:
        assert published_rates() == ()
        document = read(render(made()))
        assert len(figure_data(document, "database-tps")["views"]) == 1
    finally:
        published_rates.cache_clear()


def test_a_timeline_has_rate_latency_waits_processors_device_and_wal():
    figure = timeline_of(made().cells[0])
    timeline = figure.views[figure.chosen].timeline
    assert timeline is not None
    assert [panel.title for panel in timeline.panels] == [
        "Transactions per second", "Response time", "Wait events of active clients", "CPU time",
        "Requests to the device (IOPS)", "Device busy", "WAL written (MB/s)",
    ]  # fmt: skip
    columns = columns_of(timeline)
    assert {len(values) for values in columns.values()} == {round(DURATION_S)}
    assert columns["CPU"][5] is None  # nobody looked then
    waits = [columns[name] for name in ("CPU", "I/O", "LWLock", "client")]
    assert sum(values[2] or 0 for values in waits) == pytest.approx(1.0, abs=0.02)
    rates = columns["transactions"]
    assert rates[11] < 0.85 * rates[3]  # the dip of the checkpoint
    assert [mark.sort for mark in timeline.marks] == ["checkpoint", "stall"]


def test_rates_over_time_sum_up_to_what_completed():
    part = made().cells[3]
    for view in timeline_of(part).views:
        assert view.timeline is not None
        sample = next(s for s in part.samples if view.label.startswith(f"round {s.round + 1}"))
        total = sum(v * view.timeline.step_s for v in columns_of(view.timeline)["transactions"])
        assert total == pytest.approx(sample.outcome.completed, rel=0.01)


def test_the_median_round_is_shown_first_and_kept_longest():
    part = next(cell for cell in made().cells if not any(s.stalls for s in cell.samples))
    ordered = sorted(part.samples, key=lambda sample: sample.completed_per_s)
    median = f"round {ordered[1].round + 1}, the median"
    for rounds_max in (1, 2, 10):
        figure = timeline_of(part, rounds_max)
        assert len(figure.views) == min(rounds_max, 3)
        assert figure.views[figure.chosen].label == median
        assert any("This page has" in note for note in figure.notes) == (rounds_max < 3)


def test_the_round_with_the_longest_stall_is_shown_first_and_kept_longest():
    for rounds_max in (1, 2, 10):
        figure = timeline_of(made().cells[0], rounds_max)
        assert figure.views[figure.chosen].label.startswith("round 2")


def test_a_stall_is_marked_and_reported():
    figure = timeline_of(made().cells[0])
    view = next(view for view in figure.views if view.label.startswith("round 2"))
    assert "1 stall (1.7 s)" in view.title
    assert view.timeline is not None
    stall = next(mark for mark in view.timeline.marks if mark.sort == "stall")
    assert (stall.start_s, stall.end_s) == (17.2, 18.9)
    assert stall.text == "stall of 1.7 s from 17.2 s, cause: device"


def test_long_samples_are_coarsened_to_means():
    part = made().cells[3]
    sample = part.samples[0]
    assert sample.series is not None
    columns = {name: values * 10 for name, values in sample.series.columns.items()}
    series = msgspec.structs.replace(sample.series, columns=columns)
    long = msgspec.structs.replace(sample, duration_s=DURATION_S * 10, series=series)
    figure = timeline_of(msgspec.structs.replace(part, samples=[long]))
    timeline = figure.views[0].timeline
    assert timeline is not None
    assert timeline.step_s == 4.0
    busy = columns_of(timeline)["busy"]
    assert len(busy) == STEPS_MAX
    first = [value for value in columns["device_busy_share"][:4] if value is not None]
    assert busy[0] == pytest.approx(sum(first) / 4, abs=0.01)


def test_without_readings_the_timeline_is_still_drawn():
    part = made().cells[3]
    bare = [msgspec.structs.replace(sample, series=None) for sample in part.samples]
    timeline = timeline_of(msgspec.structs.replace(part, samples=bare)).views[0].timeline
    assert timeline is not None
    assert [panel.title for panel in timeline.panels] == [
        "Transactions per second",
        "Response time",
    ]
    empty = [msgspec.structs.replace(sample, duration_s=0.0) for sample in bare]
    assert timeline_figure(msgspec.structs.replace(part, samples=empty), "timeline-1", 3) is None


def test_each_cell_reports_verdict_figures_waits_and_timeline():
    cells = page().one(id="time").all("details", class_="cell")
    assert len(cells) == 11  # crash trials have no say in it
    assert [node.attributes.get("open", "closed") for node in cells[:2]] == [None, "closed"]
    inner = cells[0]
    reported = inner.text.replace("\u00a0", " ")
    assert "Commit-bound: 86 % of" in reported
    assert "IO: WALSync" in reported
    assert "shared hits" in reported
    assert "Zero in every round: deadlocks." in reported
    rows = inner.one(id="table-timeline-1").one("tbody").all("tr")
    assert len(rows) == round(DURATION_S)
    figure = figure_data(page(), "timeline-1")
    width = sum(len(panel["columns"]) for panel in figure["views"][0]["timeline"]["panels"])
    assert {len(row.all("td")) for row in rows} == {width + 1}


def test_a_cell_alone_is_not_folded():
    cells = made().cells[:1]
    reported = DatabaseAnalysis(cells=[database_cell(part) for part in cells], sweeps=[])
    document = read(render(database_summary(cells=cells, database=reported)))
    assert document.all("details", class_="cell") == []
    assert document.one(id="figure-timeline-1")


def test_a_sweep_draws_points_law_and_prediction():
    (view,) = figure_data(page(), "database-sweep")["views"]
    lines = {line["name"]: line for line in view["panels"][0]["lines"]}
    assert set(lines) == {"measured", "fitted model", "predicted"}
    for _, value, low, high, *_ in lines["measured"]["points"]:
        assert low < value < high
    sweep = make_sweep()
    (prediction,) = lines["predicted"]["points"]
    assert prediction[:2] == [sweep.next_size_bytes, sweep.predicted_per_s.value]
    law = lines["fitted model"]["points"]
    assert law[-1][1] == pytest.approx(prediction[1], rel=0.01)
    assert law[0][1] == pytest.approx(lines["measured"]["points"][0][1], rel=0.01)


def test_a_law_that_does_not_hold_is_not_drawn():
    reported = database_of(made())
    assert reported is not None
    unfit = make_sweep(fits=False, predicted_per_s=None, sentence="The points do not lie on it.")
    summary = database_summary(database=msgspec.structs.replace(reported, sweeps=[unfit]))
    (view,) = figure_data(read(render(summary)), "database-sweep")["views"]
    assert [line["name"] for line in view["panels"][0]["lines"]] == ["measured"]
    assert view["title"] == "The points do not lie on it."


def test_crash_trials_alone_are_a_page():
    document = read(render(database_summary(cells=[crash_summary(lost=1)], database=None)))
    assert "violated" in document.one(id="database").text
    assert document.all(id="time") == []


def test_i_o_and_databases_share_a_page():
    drawn = sample_summary()
    both = with_analyses(
        drawn, cells=[*drawn.cells, *made().cells[:2]], database=database_of(made())
    )
    document = read(render(both))
    assert document.one(id="database")
    names = [figure["id"] for figure in embedded(document)["figures"]]
    assert "matrix-iops" in names
    assert "database-tps" in names
    tables = document.one(id="tables").text
    assert "Transactions per second" not in tables


def test_very_many_long_cells_stay_within_the_bound_and_it_is_said():
    part = made().cells[6]
    series = part.samples[0].series
    assert series is not None
    long = [
        msgspec.structs.replace(
            part.samples[0],
            round=number,
            duration_s=240.0,
            series=msgspec.structs.replace(
                series, columns={name: values * 10 for name, values in series.columns.items()}
            ),
        )
        for number in range(4)
    ]
    cells = [
        msgspec.structs.replace(
            part,
            cell=pgbench_cell("nvme", 100, clients),
            samples=[
                msgspec.structs.replace(sample, cell=pgbench_cell("nvme", 100, clients))
                for sample in long
            ],
        )
        for clients in range(1, 37)
    ]
    text = render(database_summary(cells=cells, database=None))
    assert len(text.encode()) <= BYTES_MAX
    document = read(text)
    timelines = [f for f in embedded(document)["figures"] if f["kind"] == "timeline"]
    assert 0 < len(timelines) < len(cells)
    assert all("has 1 of 4 rounds" in f["notes"][-1] for f in timelines)
    assert f"Timelines of {36 - len(timelines)} tests are not shown" in document.text
