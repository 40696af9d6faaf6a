"""The pages of replays in a real Chromium with the network cut."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from report.browsing import Visit, await_width, brightness
from seatrial.report.page import render
from trials.replay.report.replay_hand import PACED, TROUBLED, summary_of, sweep

pytestmark = pytest.mark.browser

FIGURES = ("replay-time-1", "replay-classes-1", "replay-queries-1")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A replay under a pace, and one at maximum speed, which is folded."""
    path = tmp_path_factory.mktemp("replay") / "replay.html"
    path.write_text(render(summary_of(PACED, TROUBLED)), encoding="utf-8")
    return path


def texts_of(opened: Visit, name: str) -> list[str]:
    return opened.figure(name).locator(".plot svg text").all_text_contents()


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


def test_each_chart_of_the_open_replay_is_drawn(desktop: Visit):
    for name in FIGURES:
        assert desktop.figure(name).locator(".plot svg").count() == 1, name
    lines = {"replayed", "requested", "lag, mean", "lag, max"}
    assert lines <= set(texts_of(desktop, "replay-time-1"))
    assert {"p50", "p95", "p99"} <= set(texts_of(desktop, "replay-queries-1"))
    assert any("select" in text for text in texts_of(desktop, "replay-classes-1"))


def test_the_percentiles_of_queries_have_colours_of_their_own(desktop: Visit):
    markers = desktop.page.evaluate(
        """() => [...document.querySelectorAll('#figure-replay-queries-1 .plot svg path')]
          .map((path) => path.getAttribute('fill'))
          .filter((fill) => fill && fill.startsWith('rgb'))"""
    )
    assert len(set(markers)) >= 3


def test_a_folded_replay_is_drawn_when_it_is_opened(desktop: Visit):
    page = desktop.page
    page.locator("#replay > details.cell > summary").nth(1).click()
    figure = page.locator("#figure-replay-time-2")
    figure.scroll_into_view_if_needed()
    page.wait_for_selector("#figure-replay-time-2 .plot svg")
    texts = texts_of(desktop, "replay-time-2")
    assert {"replayed", "captured"} <= set(texts)
    assert sum(text.startswith(("Replay (", "Capture (")) for text in texts) == 2


def test_a_narrow_window_cuts_nothing_off(browser: Any, report: Path):
    opened = Visit(browser, report)
    page = opened.page
    assert not is_cut_off(page)
    page.set_viewport_size({"width": 360, "height": 800})
    await_width(page, "replay-time-1", below=360)
    assert not is_cut_off(page)
    opened.context.close()


def test_dark_and_light_change_the_charts_too(desktop: Visit):
    page = desktop.page
    before = brightness(page)
    page.locator("#theme").click()
    assert brightness(page) != pytest.approx(before, rel=0.5)
    page.wait_for_selector("#figure-replay-time-1 .plot svg")
    assert "replayed" in texts_of(desktop, "replay-time-1")
    page.locator("#theme").click()


def test_without_scripts_every_number_is_there(browser: Any, report: Path):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    text = page.locator("#replay").text_content()
    assert "The charts need scripts" in text
    assert "Outcome of all captured statements" in text
    assert "capture (server)" in text
    assert page.locator("#table-replay-time-1 tbody tr").count() > 10
    context.close()


def test_a_chart_saves_its_numbers(desktop: Visit):
    _, content = desktop.saved("replay-time-1", "CSV")
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert {row["line"] for row in rows} == {"replayed", "requested", "lag, mean", "lag, max"}


@pytest.mark.parametrize(
    "options", [{"color_scheme": "dark"}, {"viewport": {"width": 360, "height": 800}}]
)
def test_statements_per_second_by_the_size_of_a_cache(
    browser: Any, tmp_path: Path, options: dict[str, Any]
):
    path = tmp_path / "sweep.html"
    path.write_text(render(sweep(), with_published=True), encoding="utf-8")
    opened = Visit(browser, path, **options)
    assert opened.errors_text == []
    assert not is_cut_off(opened.page)
    reported = texts_of(opened, "replay-caches-1")
    assert {"hdd, schema new", "ssd, schema old", "fitted model", "predicted"} <= set(reported)
    assert any(text.startswith("published 2008: two SSDs") for text in reported)
    bottom, top = opened.page.evaluate(
        """() => {
          const texts = [...document.querySelectorAll('#figure-replay-caches-1 .plot text')];
          const at = (name) => texts.find((text) => text.textContent === name);
          return [at('predicted').getBoundingClientRect().bottom,
            at('Replays of one trace').getBoundingClientRect().top];
        }"""
    )
    assert bottom <= top + 2  # the legend ends above the chart, however many rows it has
    figure = opened.figure("replay-caches-1")
    figure.get_by_role("combobox").select_option(label="measured")
    assert not any("published" in text for text in texts_of(opened, "replay-caches-1"))
    opened.context.close()
