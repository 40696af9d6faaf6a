"""The pages of databases in a real Chromium with the network cut."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from report.browsing import Visit, await_width, brightness
from seatrial.report.page import render
from trials.database.report.database_hand import database_summary

pytestmark = pytest.mark.browser

FIGURES = ("database-tps", "database-sweep", "timeline-1", "database-latency")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("database") / "database.html"
    path.write_text(render(database_summary()), encoding="utf-8")
    return path


def texts_of(opened: Visit, name: str) -> list[str]:
    return opened.figure(name).locator(".plot svg text").all_text_contents()


def cells_of(opened: Visit, table: str) -> list[str]:
    return opened.page.locator(f"#{table} tbody td").all_text_contents()


def is_cut_off(page: Any) -> bool:
    """Return whether the page or a chart in it is wider than the window."""
    return page.evaluate(
        """() => document.documentElement.scrollWidth > window.innerWidth
          || [...document.querySelectorAll('.plot svg, .plot canvas')].some(
            (drawn) => drawn.getBoundingClientRect().right > window.innerWidth)"""
    )


def test_nothing_is_requested_and_nothing_complains(desktop: Visit):
    assert desktop.errors_text == []
    assert [url for url in desktop.requests if not url.startswith(("file:", "blob:"))] == []
    assert desktop.page.evaluate("window.violations") == []
    for name in FIGURES:  # others are folded
        assert desktop.figure(name).locator(".plot svg").count() == 1, name


def test_a_narrow_window_cuts_nothing_off(browser: Any, report: Path):
    opened = Visit(browser, report)
    page = opened.page
    assert not is_cut_off(page)
    page.set_viewport_size({"width": 360, "height": 800})
    await_width(page, "timeline-1", below=360)
    assert not is_cut_off(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    await_width(page, "timeline-1", above=800)
    opened.context.close()


def test_a_dark_page_has_dark_charts(desktop: Visit):
    ink = desktop.figure("timeline-1").locator(".plot svg text").first
    before = ink.get_attribute("fill")
    desktop.page.emulate_media(color_scheme="dark")
    assert brightness(desktop.page) < 60
    assert ink.get_attribute("fill") != before
    desktop.page.emulate_media(color_scheme="light")
    assert brightness(desktop.page) > 200


def test_without_scripts_every_number_is_in_a_table(browser: Any, report: Path):
    opened = Visit(browser, report, java_script_enabled=False)
    page = opened.page
    assert page.locator("#database .unscripted").is_visible()
    assert page.locator("#database table").first.is_visible()
    page.locator("#time details.cell").nth(3).locator("summary").first.click()
    inner = page.locator("#table-timeline-4")
    inner.locator("summary").click()
    assert inner.locator("tbody tr").count() == 24
    assert inner.locator("tbody tr").first.is_visible()
    opened.context.close()


@pytest.mark.parametrize("name", FIGURES)
def test_every_chart_is_drawn(desktop: Visit, name: str):
    plot = desktop.figure(name).locator(".plot svg")
    assert plot.locator("path").count() > 8
    assert len(texts_of(desktop, name)) > 8


def test_the_timeline_shows_all_that_was_read_and_names_what_happened(desktop: Visit):
    reported = texts_of(desktop, "timeline-1")
    for text in ("Transactions per second", "Response time", "Wait events of active clients",
                 "CPU time", "Device busy", "checkpoint", "iowait", "LWLock"):  # fmt: skip
        assert text in reported
    figure = desktop.figure("timeline-1")
    before = cells_of(desktop, "table-timeline-1")
    (median,) = [name for name in figure.locator("option").all_text_contents() if "med" in name]
    assert "1 stall (1.7 s)" in figure.locator("h3").text_content().replace("\u00a0", " ")
    assert "stall 1.7 s" in texts_of(desktop, "timeline-1")
    marks = desktop.page.locator("#table-timeline-1 .marks li").all_text_contents()
    assert marks == ["checkpoint of 4.0 s from 10 s", "stall of 1.7 s from 17.2 s, cause: device"]
    figure.get_by_role("combobox").select_option(label=median)
    assert cells_of(desktop, "table-timeline-1") != before
    figure.get_by_role("combobox").select_option(label="round 2")
    # The script says every reading as the report itself did.
    assert cells_of(desktop, "table-timeline-1") == before
    assert desktop.errors_text == []


def test_a_folded_chart_is_drawn_when_it_is_unfolded(desktop: Visit):
    cell = desktop.page.locator("#time details.cell").nth(6)
    plot = desktop.figure("timeline-7").locator(".plot")
    assert plot.locator("svg").count() == 0
    cell.locator("summary").first.click()
    plot.locator("svg").wait_for(state="visible")
    assert "Transactions per second" in texts_of(desktop, "timeline-7")
    cell.locator("summary").first.click()
    desktop.page.locator("#theme").click()  # what is folded away again must not complain
    desktop.page.locator("#theme").click()
    assert desktop.errors_text == []


def test_a_tooltip_reports_all_readings_of_a_moment(desktop: Visit):
    plot = desktop.figure("timeline-1").locator(".plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    desktop.page.mouse.move(box["x"] + 240, box["y"] + 120)
    tip = desktop.page.locator(".tip", has_text="transactions per second")
    tip.wait_for(state="visible")
    for word in ("p50", "I/O", "iowait", "reads", "device busy", "wal written"):
        assert word in tip.inner_text()
    desktop.page.mouse.move(0, 0)


def test_the_reader_puts_the_published_figures_next_to_the_bars(desktop: Visit):
    figure = desktop.figure("database-tps")
    assert "ssd-100gb" not in " ".join(texts_of(desktop, "database-tps"))
    figure.get_by_role("combobox").select_option(label="with figures published in 2010")
    reported = " ".join(texts_of(desktop, "database-tps"))
    assert "ssd-100gb" in reported
    assert "1,472 tps" in reported
    note = figure.locator(".view-notes").text_content()
    assert "reference/pgbench-2010.csv" in note
    assert "hardware" in note
    figure.get_by_role("combobox").select_option(label="measured")


@pytest.mark.parametrize("name", ["database-tps", "timeline-1"])
def test_charts_are_saved(desktop: Visit, name: str):
    for button in ("PNG", "SVG", "CSV"):
        file, data = desktop.saved(name, button)
        assert file.startswith(f"seatrial-{name}")
        assert len(data) > 500
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    assert len(rows) >= 10
    assert desktop.errors_text == []
