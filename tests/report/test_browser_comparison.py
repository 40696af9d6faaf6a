"""The comparison's page and the load line in a real Chromium with the network cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from findings.analyses import with_analyses
from report.browsing import Visit, brightness
from report.comparison_hand import full_comparison
from report.exports_hand import make_summary
from seatrial.report.comparison_page import render as render_comparison
from seatrial.report.page import render
from trials.loadline.report.loadline_hand import make_load_line

pytestmark = pytest.mark.browser

WAYS: list[dict[str, Any]] = [
    {},
    {"color_scheme": "dark"},
    {"viewport": {"width": 360, "height": 800}},
    {"java_script_enabled": False},
]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("comparison")
    summary = with_analyses(make_summary([]), load_lines=[make_load_line()])
    texts = {
        "comparison": render_comparison([full_comparison()]),
        "loadline": render(summary),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.fixture(scope="module")
def comparison(browser: Any, pages: dict[str, Path]) -> Iterator[Visit]:
    opened = Visit(browser, pages["comparison"])
    yield opened
    opened.context.close()


def texts_of(opened: Visit, name: str) -> list[str]:
    texts = opened.figure(name).locator(".plot svg text").all()
    return [text.text_content() or "" for text in texts]


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize("name", ["comparison", "loadline"])
def test_nothing_is_requested_nothing_complains_and_nothing_is_cut_off(
    browser: Any, pages: dict[str, Path], name: str, options: dict[str, Any]
):
    opened = Visit(browser, pages[name], **options)
    assert opened.errors_text == []
    assert [url for url in opened.requests if not url.startswith(("file:", "blob:"))] == []
    assert (brightness(opened.page) < 60) == ("color_scheme" in options)
    assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    if opened.scripted:
        assert opened.page.evaluate("window.violations") == []
        assert opened.page.locator(".plot svg path").count() > 20
    else:
        assert opened.page.locator("h1").is_visible()
        assert opened.page.locator("#tables, #study").first.is_visible()
    opened.context.close()


def test_ratios_stand_on_their_side_of_one(comparison: Visit):
    reported = texts_of(comparison, "pair-1-ratios")
    assert "all 84 tests together" in " ".join(reported)
    assert "1x" in reported
    places = comparison.page.evaluate(
        """() => {
          const green = getComputedStyle(document.body).getPropertyValue('--line-2');
          const plot = document.querySelector('#figure-pair-1-ratios .plot');
          const one = [...plot.querySelectorAll('text')].find((t) => t.textContent === '1x');
          const x = (node) => { const b = node.getBoundingClientRect(); return b.x + b.width / 2; };
          const marks = [...plot.querySelectorAll('path')].filter((path) => {
            const b = path.getBoundingClientRect();
            return b.width > 6 && b.width < 12 && b.height > 6 && b.height < 12
              && path.getAttribute('fill') !== 'none' && b.y > plot.getBoundingClientRect().y + 20;
          });
          const colours = [...new Set(marks.map((mark) => mark.getAttribute('fill')))];
          return [x(one), colours.map((colour) => marks.filter(
            (mark) => mark.getAttribute('fill') === colour).map(x))];
        }"""
    )
    one, by_colour = places
    sides = sorted(len({mark > one for mark in marks}) for marks in by_colour)
    assert sides == [1, 1]  # all higher ones on one side, all lower ones on the other
    assert sorted(len(marks) for marks in by_colour) == [12, 29]


def test_the_chart_of_both_sides_follows_the_list(comparison: Visit):
    figure = comparison.figure("pair-1-curves")
    assert "before" in texts_of(comparison, "pair-1-curves")
    figure.get_by_role("combobox").select_option(label="matrix, write: write p99")
    assert "write p99 of after" in figure.locator("h3").text_content().replace("\u00a0", " ")
    assert "Response time" in texts_of(comparison, "pair-1-curves")
    assert comparison.errors_text == []


@pytest.mark.parametrize("button", ["PNG", "SVG", "CSV"])
@pytest.mark.parametrize("name", ["pair-1-ratios", "pair-1-curves"])
def test_charts_of_a_comparison_are_saved(comparison: Visit, name: str, button: str):
    _, data = comparison.saved(name, button)
    assert len(data) > 1_000


def test_the_load_line_is_drawn_with_limit_answer_and_marks(browser: Any, pages: dict[str, Path]):
    opened = Visit(browser, pages["loadline"])
    reported = texts_of(opened, "loadline")
    for text in ("limit: p99 5 ms", "sustained 17k IOPS", "closed loop 20.4k IOPS", "stalls",
                 "met", "exceeded", "undecided", "p99, service time"):  # fmt: skip
        assert text in reported
    plot = opened.figure("loadline").locator(".plot")
    box = plot.bounding_box()
    assert box is not None
    opened.page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + box["height"] * 0.5)
    tip = opened.page.locator(".tip", has_text="19,500 IOPS")
    tip.wait_for(state="visible")
    assert "26 ms (± 19 %); exceeded" in tip.inner_text()
    opened.context.close()


def test_a_comparison_on_paper_is_light_and_cut_off_nowhere(browser: Any, pages: dict[str, Path]):
    opened = Visit(
        browser, pages["comparison"], color_scheme="dark", viewport={"width": 688, "height": 1000}
    )
    opened.page.emulate_media(media="print")
    opened.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert brightness(opened.page) > 200
    right = opened.page.evaluate(
        """() => Math.max(...[...document.querySelectorAll('table, .plot > div, pre, h1, h3')]
          .map((part) => part.getBoundingClientRect().right))"""
    )
    assert right <= 689
    opened.context.close()
