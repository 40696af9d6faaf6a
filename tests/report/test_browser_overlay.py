"""The model and the circles in a real Chromium: how many there are, and where they stand."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from report.browsing import Visit, brightness
from seatrial.report.page import render
from trials.audit.report.audit_hand import article_summary

pytestmark = pytest.mark.browser

CIRCLES = """(name) => {
  const alarm = getComputedStyle(document.querySelector('.gaps li'), '::marker').color;
  const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).join();
  return [...document.querySelectorAll(`#figure-${name} .plot svg path`)]
    .filter((path) => path.getAttribute('fill') === 'none' && path.getAttribute('stroke')
      && rgb(path.getAttribute('stroke')) === rgb(alarm))
    .map((path) => { const b = path.getBBox(); return [b.x + b.width / 2, b.y + b.height / 2]; });
}"""
MARKERS = """(name) => [...document.querySelectorAll(`#figure-${name} .plot svg path`)]
  .filter((path) => !['none', 'transparent', null].includes(path.getAttribute('fill'))
    && path.getBoundingClientRect().width < 12)
  .map((path) => {
    const frame = document.querySelector(`#figure-${name} .plot svg`).getBoundingClientRect();
    const box = path.getBoundingClientRect();
    return [box.x + box.width / 2 - frame.x, box.y + box.height / 2 - frame.y];
  })"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("overlay") / "report.html"
    path.write_text(render(article_summary()), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["matrix-iops", "matrix-bandwidth"])
def test_there_are_as_many_circles_as_cells_in_gaps_each_around_a_mark(desktop: Visit, name: str):
    circles = desktop.page.evaluate(CIRCLES, name)
    assert len(circles) == 14  # 2 reads, 8 collapsed writes, 4 absent ones
    markers = desktop.page.evaluate(MARKERS, name)

    def around(shift_px: float) -> int:
        """How many circles, moved aside by so much, stand around a mark."""
        return sum(
            any(abs(x + shift_px - mx) < 2.5 and abs(y - my) < 2.5 for mx, my in markers)
            for x, y in circles
        )

    assert around(0) == 14
    assert around(6) == 0


def test_the_circle_of_the_24_iops_cell_is_the_lowest_of_the_reads(desktop: Visit):
    circles = sorted(desktop.page.evaluate(CIRCLES, "matrix-iops"))
    first, second = sorted(circles[:2], key=lambda place: place[1])
    assert abs(first[0] - second[0]) < 1  # both at 512 B
    assert second[1] - first[1] > 60  # 24 against 28k IOPS


def test_gaps_are_listed_and_the_numbers_stand_next_to_the_circles(desktop: Visit):
    figure = desktop.figure("matrix-iops")
    assert figure.locator(".gaps li").count() == 3
    labels = [text.text_content() for text in figure.locator(".plot svg text").all()]
    for label in ("1", "2", "3", "absent", "model", "gap"):
        assert label in labels


def test_the_tooltip_says_measured_model_and_gap(browser: Any, report: Path):
    opened = Visit(browser, report)
    plot = opened.figure("matrix-iops").locator(".plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    opened.page.mouse.move(box["x"] + box["width"] * 0.884, box["y"] + box["height"] * 0.5)
    tip = opened.page.locator(".tip", has_text="512 KiB")
    tip.wait_for(state="visible")
    reported = tip.inner_text()
    assert "512 KiB" in reported
    assert "6.0 IOPS (measured once); model 22" in reported
    assert "absent; model 2" in reported
    assert "gap 2" in reported
    assert "8 cells from 64 KiB to 1 MiB collapse" in reported
    assert opened.errors_text == []
    opened.context.close()


def test_the_data_report_model_from_measured(desktop: Visit):
    _, data = desktop.saved("matrix-iops", "CSV")
    lines = {row["line"] for row in csv.DictReader(io.StringIO(data.decode()))}
    assert {"1 thread", "1 thread, model", "10 threads", "40 threads, model"} <= lines


@pytest.mark.parametrize("button", ["PNG", "SVG"])
def test_the_picture_is_saved_with_its_circles(desktop: Visit, button: str):
    _, data = desktop.saved("matrix-bandwidth", button)
    assert len(data) > 15_000
    if button == "SVG":
        assert b">absent</text>" in data


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, {"viewport": {"width": 360,
                                     "height": 800}}, {"java_script_enabled": False}])  # fmt: skip
def test_it_is_the_same_page_in_the_dark_on_a_telephone_and_without_scripts(
    browser: Any, report: Path, options: dict[str, Any]
):
    opened = Visit(browser, report, **options)
    page = opened.page
    assert opened.errors_text == []
    assert [url for url in opened.requests if not url.startswith("file:")] == []
    assert (brightness(page) < 60) == ("color_scheme" in options)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    if opened.scripted:
        assert len(page.evaluate(CIRCLES, "matrix-iops")) == 14
    else:
        assert page.locator("#figure-matrix-iops .gaps li").first.is_visible()
        page.locator("#audits summary").nth(2).click()
        assert page.locator("#audits td", has_text="start transient").first.is_visible()
    opened.context.close()
