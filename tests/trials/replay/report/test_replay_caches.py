"""Statements per second against the size of a cache: chart, ranks, prediction, the article."""

from __future__ import annotations

from pathlib import Path

import pytest

from report.exports_hand import estimate
from report.page_reader import embedded, read
from seatrial.report import articles
from seatrial.report.articles import LINES_FILE, published_lines
from seatrial.report.page import render
from seatrial.trials.database.analysis.model import database_of
from seatrial.trials.database.report.tables import sweep_tables
from seatrial.trials.replay.report.caches import (
    cache_figures,
    cache_sizes,
    cache_tables,
    rank_text,
    sweep_sentences,
)
from seatrial.trials.replay.report.tables import replay_tables
from trials.replay.analysis.hand import Play
from trials.replay.report.replay_hand import SIZES_MIB, several, summary_of, sweep

REFERENCE = Path(__file__).parents[4] / "reference" / LINES_FILE
NAMES = ["hdd, schema new", "hdd, schema old", "ssd, schema new", "ssd, schema old"]


def figure(*, with_published: bool = False):
    (found,) = cache_figures(sweep(), with_published=with_published)
    return found


def lines_of(view) -> dict[str, list]:
    (panel,) = view.panels
    return {line.name: line.points for line in panel.lines if not line.of}


def test_each_target_and_schema_is_a_line_with_an_interval_at_every_size():
    view = figure().views[0]
    lines = lines_of(view)
    assert list(lines) == NAMES
    for points in lines.values():
        assert [point.x / 2**20 for point in points] == list(SIZES_MIB)
        assert all(point.low < point.y < point.high for point in points)
    assert view.panels[0].y.scale == "log"
    assert view.title.startswith("ssd, schema new with ")
    assert "the highest of 16" in view.title
    assert "hdd, schema old with 32 MiB" in view.title


def test_the_article_stands_next_to_ours_where_the_reader_or_the_caller_asks():
    assert [view.label for view in figure().views] == [
        "measured", "with figures published in 2008",
    ]  # fmt: skip
    assert (figure().chosen, figure(with_published=True).chosen) == (0, 1)
    view = figure().views[1]
    lines = lines_of(view)
    assert lines["published 2008: one disk, new schema, FB5"][-1].text == (
        "407 lines/s, measured once"
    )
    (guide,) = view.panels[0].guides
    assert (guide.low, guide.label) == (
        8198.0, "published 2008: two SSDs, new schema, FB5, any cache",
    )  # fmt: skip
    assert "not as a comparison" in " ".join(view.notes)


def test_what_the_law_foretells_is_drawn_hollow_and_reported():
    view = figure().views[0]
    reported = {(line.name, line.of) for line in view.panels[0].lines if line.of}
    assert reported == {
        (name, f"hdd, schema {schema}")
        for name in ("fitted model", "predicted")
        for schema in ("old", "new")
    }
    (sizes,) = cache_sizes(sweep())
    reported = sweep_sentences(sizes)[1]
    assert reported.startswith(
        "hdd, schema old: A cache of 512 MiB, twice the largest, would give 220 stat"
    )
    assert "the time per statement falls as size^-0.40" in reported
    (table,) = cache_tables(sweep())
    predicted = [row for row in table.rows if row[-1] == "predicted"]
    assert [row[:2] for row in predicted] == [[name, "512 MiB"] for name in NAMES[:2]]
    assert all("±" in row[3] or " to " in row[3] for row in predicted)


def test_ranks_are_as_significant_as_the_intervals():
    values = [
        estimate((100.0, 95.0, 105.0), "statements/s", 3),
        estimate((103.0, 98.0, 108.0), "statements/s", 3),
        estimate((50.0, 48.0, 52.0), "statements/s", 3),
        estimate((50.0, None, None), "statements/s", 1),
    ]
    assert [rank_text(value, values[:3]) for value in values[:3]] == ["1 to 2", "1 to 2", "3"]
    assert rank_text(values[3], values) == "–"


def test_the_table_has_every_measured_figure_and_fits_a_terminal():
    (table,) = cache_tables(sweep())
    measured = [row for row in table.rows if row[-1] == "measured"]
    assert len(measured) == 16
    assert measured[4][:2] == ["hdd, schema old", "32 MiB"]
    assert measured[4][4] == "16"
    assert [replay_table.id for replay_table in replay_tables(sweep())][1] == "replay-caches-1"


def test_a_sweep_of_replays_is_not_reported_as_one_of_transactions():
    assert sweep_tables(sweep()) == []
    assert database_of(sweep()).sweeps


def test_without_a_cache_that_varies_there_is_no_such_chart():
    assert cache_sizes(several()) == []
    one = summary_of(Play(factors={"memory_limit_bytes": 1 << 26}))
    assert cache_figures(one, with_published=True) == []


def test_the_page_has_chart_table_and_the_article_folded():
    document = read(render(sweep(), with_published=True))
    (data,) = [f for f in embedded(document)["figures"] if f["id"] == "replay-caches-1"]
    assert data["chosen"] == 1
    assert len(document.one(id=data["table"]).one("tbody").all("tr")) == 18
    assert "FrontBase" in document.one(id="replay").text
    assert "8,198" in document.one(id="replay").text


def test_the_installed_figures_are_those_of_the_reference():
    assert Path(articles.__file__).with_name(LINES_FILE).read_text() == REFERENCE.read_text()
    assert len(published_lines()) == 7
    assert published_lines()[0].cache_bytes == pytest.approx(512 << 20)
