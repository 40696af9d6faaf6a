"""The page of before and after in a real Chromium with the network cut."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from report.browsing import Visit, brightness
from seatrial.trials.replay.compare.report.page import render
from trials.replay.report.before_after_hand import full_before_after

pytestmark = pytest.mark.browser

WAYS: list[dict[str, Any]] = [
    {"color_scheme": "dark"},
    {"viewport": {"width": 360, "height": 800}},
    {"java_script_enabled": False},
]
FIGURES = ("query-scatter", "query-waterfall", "page-scatter", "page-waterfall")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("before") / "after.html"
    path.write_text(render(full_before_after()), encoding="utf-8")
    return path


def texts_of(opened: Visit, name: str) -> list[str]:
    return opened.figure(name).locator(".plot svg text").all_text_contents()


def test_charts_are_drawn_nothing_is_requested_and_nothing_complains(desktop: Visit):
    assert desktop.errors_text == []
    assert [url for url in desktop.requests if not url.startswith(("file:", "blob:"))] == []
    assert desktop.page.evaluate("window.violations") == []
    for name in FIGURES:
        assert desktop.figure(name).locator(".plot svg path").count() > 4, name


@pytest.mark.parametrize("options", WAYS)
def test_dark_narrow_and_without_scripts(browser: Any, report: Path, options: dict[str, Any]):
    opened = Visit(browser, report, **options)
    assert opened.errors_text == []
    assert (brightness(opened.page) < 60) == ("color_scheme" in options)
    assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    if not opened.scripted:
        text = opened.page.locator("#query").inner_text()
        for reported in (
            "The charts need scripts",
            "Significantly slower, the slowest first",
            "7.5 to 8.4",
        ):
            assert reported in text
    opened.context.close()


def test_what_became_slower_has_the_colour_of_alarm_and_its_number(desktop: Visit):
    reported = texts_of(desktop, "query-scatter")
    assert {"1", "2", "slower", "faster", "undecided", "same", "10x faster"} <= set(reported)
    circles = desktop.page.evaluate(
        """() => {
          const alarm = getComputedStyle(document.body).getPropertyValue('--alarm');
          const probe = document.createElement('span');
          probe.style.color = alarm;
          document.body.append(probe);
          const colour = getComputedStyle(probe).color;
          probe.remove();
          return [...document.querySelectorAll('#figure-query-scatter .plot path')]
            .filter((path) => path.getAttribute('stroke') === colour)
            .map((path) => path.getBoundingClientRect())
            .filter((at) => at.width > 5)
            .map((at) => at.width);
        }"""
    )
    assert len(circles) == 2


def test_the_tooltip_of_a_bubble_reports_all(desktop: Visit):
    page = desktop.page
    plot = desktop.figure("query-scatter").locator(".plot")
    plot.scroll_into_view_if_needed()
    largest = page.evaluate(
        """() => {
          const paths = [...document.querySelectorAll('#figure-query-scatter .plot path')];
          const round = paths.map((path) => path.getBoundingClientRect())
            .filter((at) => Math.abs(at.width - at.height) < 1 && at.width < 80)
            .sort((a, b) => b.width - a.width)[0];
          return [round.x + round.width / 2, round.y + round.height / 2];
        }"""
    )
    page.mouse.move(*largest)
    tip = page.locator(".tip", has_text="SELECT abalance FROM pgbench_accounts")
    tip.wait_for(state="visible")
    text = tip.inner_text()
    assert "7.9x faster (7.5 to 8.4)" in text
    assert "4.2 ms before, 530 µs after" in text
    assert "40,000 calls took 2 min 48 s" in text


def test_bars_of_a_waterfall_hang_together(desktop: Visit):
    bars = desktop.page.evaluate(
        """() => [...document.querySelectorAll('#figure-query-waterfall .plot path')]
          .map((path) => path.getBoundingClientRect())
          .filter((at) => at.height > 13 && at.height < 15)
          .map((at) => [at.left, at.right])"""
    )
    whole, *parts, last = bars
    end = whole[1]
    for left, right in parts:
        assert end == pytest.approx(right, abs=2) or end == pytest.approx(left, abs=2)
        end = left if end == pytest.approx(right, abs=2) else right
    assert end == pytest.approx(last[1], abs=2)


@pytest.mark.parametrize(("name", "lines"), [("query-scatter", 13), ("query-waterfall", 14)])
def test_a_chart_saves_its_numbers(desktop: Visit, name: str, lines: int):
    _, content = desktop.saved(name, "CSV")
    rows = list(csv.reader(io.StringIO(content.decode())))
    assert len({len(row) for row in rows}) == 1
    assert len(rows) == lines
