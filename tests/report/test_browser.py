"""The report in a real Chromium with the network cut: drawn, readable, saved, printed."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from report.browsing import Visit, await_width, brightness
from report.sample_run import HOSTILE, sample_summary
from seatrial.findings.model import Summary
from seatrial.report.figures.latency import heat_figures
from seatrial.report.page import render
from seatrial.report.table import doubt_text
from seatrial.stats.wording import format_estimate, format_value

pytestmark = pytest.mark.browser

OPEN_S_MAX = 2.0
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
PAPER_WIDTH_PX = 688  # A4 less the margins of print.css
PAGES_MAX = 6
FIRST_SCREEN_PX_MAX = 900

# Pairs of neighbouring parts of which the later begins above the end of the earlier.
OVERLAPS = """
(() => {
  const shown = [...document.querySelectorAll(
    'h1, .tiles, .answers, .particulars, main > *, main figure, main figure > *, .finding')]
    .filter((part) => part.checkVisibility() && part.getBoundingClientRect().height > 0);
  return shown.flatMap((part) => {
    const { bottom } = part.getBoundingClientRect();
    const next = part.nextElementSibling;
    // A toolbar is in the row of its chart's topic, to the right.
    if (!next || !next.checkVisibility() || next.className === 'toolbar') return [];
    const box = next.getBoundingClientRect();
    const outside = box.left >= part.getBoundingClientRect().right - 1
      || box.right <= part.getBoundingClientRect().left + 1;
    return box.height > 0 && !outside && box.top < bottom - 1
      ? [`${part.className || part.tagName} over ${next.className || next.tagName}`] : [];
  });
})()
"""
# What is cut off: wider than its box, and neither scrolled nor wrapped there.
CLIPPED = """
(() => [...document.querySelectorAll('body *')].filter((part) => {
  if (!part.checkVisibility() || part.closest('svg, .plot, .skip')) return false;
  if (part.scrollWidth <= part.clientWidth + 1 || part.clientWidth === 0) return false;
  return !['auto', 'scroll'].includes(getComputedStyle(part).overflowX)
    && getComputedStyle(part).overflowX !== 'visible';
}).map((part) => part.className || part.tagName))()
"""


@pytest.fixture(scope="module")
def summary() -> Summary:
    return sample_summary()


@pytest.fixture(scope="module")
def report(summary: Summary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(summary), encoding="utf-8")
    return path


@pytest.fixture
def visit(browser: Any, report: Path) -> Iterator[Callable[..., Visit]]:
    visits = []

    def opened(**options: Any) -> Visit:
        visits.append(Visit(browser, report, **options))
        return visits[-1]

    yield opened
    for made in visits:
        made.context.close()


def pdf_pages(page: Any) -> int:
    pdf = page.pdf(prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF")
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def drawn_colours(page: Any, plot: str) -> int:
    """Return how many colours a canvas shows."""
    return page.evaluate(
        """(selector) => {
          const canvas = document.querySelector(selector);
          const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          return new Set(new Uint32Array(data.buffer)).size;
        }""",
        plot,
    )


def figure_names(page: Any) -> list[str]:
    return [
        str(handle.get_attribute("id")).removeprefix("figure-")
        for handle in page.query_selector_all("figure")
    ]


def test_nothing_is_requested_and_nothing_complains(visit: Callable[..., Visit], report: Path):
    opened = visit()
    for name in ("matrix-iops", "heatmap", "commit", "four-iops"):  # one of each kind
        for button in ("PNG", "SVG", "CSV"):
            opened.saved(name, button)
    opened.page.locator("#theme").click()
    opened.figure("matrix-latency").get_by_role("combobox").select_option("write")
    outside = [u for u in opened.requests if not u.startswith(("file:", "blob:", "data:"))]
    assert outside == []
    assert opened.requests[0] == report.as_uri()
    assert [url for url in opened.requests if url.startswith("file:")] == [report.as_uri()]
    assert opened.errors_text == []
    assert opened.page.evaluate("window.violations") == []
    assert_policy_is_kept(opened)


def assert_policy_is_kept(opened: Visit) -> None:
    """What breaks the page's policy has no effect, and is noticed."""
    opened.page.evaluate(
        """() => {
          const script = document.createElement('script');
          script.textContent = 'window.intruder = 1';
          document.body.append(script);
        }"""
    )
    assert opened.page.evaluate("window.intruder") is None
    assert opened.page.evaluate("window.violations.length") == 1


def test_every_chart_is_drawn(desktop: Visit):
    names = figure_names(desktop.page)
    assert len(names) == 11
    for name in names:
        plot = f"#figure-{name} .plot"
        if name == "heatmap":
            assert drawn_colours(desktop.page, f"{plot} canvas") > 50
        else:
            assert desktop.page.locator(f"{plot} svg path").count() > 4
            assert desktop.page.locator(f"{plot} svg text").count() > 4


def test_no_text_of_a_chart_is_cut_off_at_its_top(desktop: Visit):
    cut = desktop.page.evaluate(
        """() => [...document.querySelectorAll('.plot svg text')].filter((text) => {
          const { top } = text.closest('svg').getBoundingClientRect();
          return text.getBoundingClientRect().top < top - 0.5;
        }).map((text) => text.textContent)"""
    )
    assert cut == []


def test_lines_are_where_the_numbers_are(desktop: Visit):
    heights = desktop.page.evaluate(
        """() => {
          const paths = [...document.querySelectorAll('#figure-matrix-iops .plot svg path')];
          const lines = paths.filter((path) => path.getAttribute('fill') === 'none'
            && path.getAttribute('stroke-width') === '2');
          return lines.map((line) => {
            const end = line.getPointAtLength(line.getTotalLength());
            const start = line.getPointAtLength(0);
            return end.y - start.y;
          });
        }"""
    )
    assert len(heights) == 6  # three thread counts, read and write
    assert min(heights) > 50  # IOPS fall with the block size, so every line ends lower


def test_tables_say_what_the_summary_says(desktop: Visit, summary: Summary):
    shown = desktop.page.evaluate(
        """() => [...document.querySelectorAll('tr[data-key]')].map((row) => [
          row.dataset.key,
          ...[...row.querySelectorAll('td')].map((cell) => [
            cell.textContent, cell.dataset.value ?? null]),
        ])"""
    )
    rows = {row[0]: row[1:] for row in reversed(shown)}  # the first of a cell's rows has its rates
    assert len(rows) == len(summary.cells)
    for part in summary.cells:
        cells = rows[part.cell.key]
        if part.blank:
            assert cells[0] == [part.blank, None]
            continue
        for cell, estimate in zip(cells, (part.iops, part.bandwidth), strict=False):
            assert cell[0] == f"{format_value(estimate)} {doubt_text(estimate)}"
            assert float(cell[1]) == estimate.value


def test_without_scripts_the_page_says_all_it_knows(
    visit: Callable[..., Visit], desktop: Visit, summary: Summary
):
    page = visit(java_script_enabled=False).page
    assert page.locator("h1").is_visible()
    assert page.locator("#findings .finding").count() == len(summary.findings)
    excuse = "The charts need scripts"
    assert page.get_by_text(excuse).is_visible()
    assert not desktop.page.get_by_text(excuse).is_visible()
    assert page.locator("#table-matrix table").first.is_visible()
    page.locator("#table-matrix summary").click()
    assert page.locator("#table-matrix tr[data-key]").first.is_visible()
    assert page.locator("#machine").is_visible()
    assert HOSTILE.split("\u2028")[0] in page.locator("#study pre").text_content()
    assert not page.locator("#theme").is_visible()


@pytest.mark.parametrize(("width", "more"), [(390, ()), (1400, (".profiles", ".particulars"))])
def test_the_first_screen_holds_the_answer(
    visit: Callable[..., Visit], width: int, more: tuple[str, ...]
):
    page = visit(unfolded=False, viewport={"width": width, "height": 900}).page
    for part in ("h1", ".tiles", ".worst", ".confidence", ".next", *more):
        box = page.locator(part).bounding_box()
        assert 0 < box["y"] + box["height"] <= FIRST_SCREEN_PX_MAX, part
    assert len(page.locator("h1").text_content()) <= 100
    assert 1 <= page.locator(".tile").count() <= 6
    assert page.locator(".worst li:not(.more)").count() == 3
    link = page.locator(".worst a").first
    link.click()
    assert page.locator(link.get_attribute("href")).is_visible()


def test_an_open_table_of_limits_has_the_whole_width(visit: Callable[..., Visit]):
    page = visit(unfolded=False, viewport={"width": 1280, "height": 900}).page
    whole_px = page.locator(".answers").bounding_box()["width"]
    assert page.locator(".profiles").bounding_box()["width"] < whole_px / 2
    page.evaluate("document.querySelectorAll('.profiles details').forEach((d) => d.open = true)")
    assert page.locator(".profiles").bounding_box()["width"] == whole_px


def test_verdict_tiles_findings_and_key_charts_need_no_script(visit: Callable[..., Visit]):
    page = visit(unfolded=False, java_script_enabled=False).page
    for part in ("h1", ".tiles", ".worst", ".next", "#key .static", "#findings .finding"):
        assert page.locator(part).first.is_visible(), part
    pictures = page.locator("#key figure .static")
    assert pictures.count() == page.locator("#key figure").count() == 3
    for picture in pictures.all():
        assert picture.locator("path").count() > 4
        assert picture.locator("text").count() > 4
        assert picture.bounding_box()["height"] > 100
    assert not page.locator("#old-browser").is_visible()


def test_the_script_draws_in_place_of_the_pictures(desktop: Visit):
    assert desktop.page.locator(".static").count() == 0
    assert desktop.page.locator("#key .plot svg, #key .plot canvas").count() == 3


def test_a_link_unfolds_what_it_leads_into(visit: Callable[..., Visit]):
    page = visit(unfolded=False).page
    assert not page.locator("#table-matrix").is_visible()
    page.locator("#figure-matrix-iops .numbers").click()
    assert page.locator("#table-matrix").is_visible()
    assert page.locator("#tables").get_attribute("open") is not None


def test_a_browser_that_cannot_unpack_says_so(browser: Any, report: Path):
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(report.as_uri())
    page.locator("#old-browser").wait_for(state="visible")
    assert page.locator("#key .static").count() == 3
    context.close()


@pytest.mark.parametrize("width", [390, 768, 800, 1280, 1400])
def test_nothing_is_cut_off_overlaps_or_scrolls_sideways(visit: Callable[..., Visit], width: int):
    opened = visit(unfolded=False, viewport={"width": width, "height": 900})
    assert_within(opened.page, width)
    opened.unfold()
    opened.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert_within(opened.page, width)
    wide = opened.page.evaluate(
        """(width) => [...document.querySelectorAll('.plot svg, .plot canvas')]
          .filter((drawn) => drawn.getBoundingClientRect().right > width).length""",
        width,
    )
    assert wide == 0


def assert_within(page: Any, width: int) -> None:
    """All parts that are shown are whole, beside each other, and within the window."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate(OVERLAPS) == []
    past = page.evaluate(
        """(width) => [...document.querySelectorAll('body *')]
          .filter((part) => part.checkVisibility()
            && !part.closest('.scroll, .contents, .skip, svg')
            && part.getBoundingClientRect().right > width + 1)
          .map((part) => part.className || part.tagName)""",
        width,
    )
    assert past == []


def test_light_and_dark_follow_the_system_and_the_switch(visit: Callable[..., Visit]):
    light, dark = visit(color_scheme="light").page, visit(color_scheme="dark").page
    assert brightness(light) > 200
    assert brightness(dark) < 60
    ink = "#figure-four-iops .plot svg text"
    before = light.locator(ink).first.get_attribute("fill")
    light.get_by_role("button", name="Dark page").click()
    assert brightness(light) < 60
    assert light.locator(ink).first.get_attribute("fill") != before
    light.get_by_role("button", name="Light page").click()
    assert brightness(light) > 200
    dark.emulate_media(color_scheme="light")
    assert brightness(dark) > 200


@pytest.mark.parametrize("name", ["matrix-latency", "heatmap", "commit", "four-iops", "map"])
def test_a_chart_is_saved_as_a_picture(desktop: Visit, name: str):
    file, png = desktop.saved(name, "PNG")
    assert file.endswith(".png")
    assert png.startswith(PNG_MAGIC)
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    assert width == 2400
    assert height > 500
    assert len(png) > 20_000
    file, svg = desktop.saved(name, "SVG")
    assert file.endswith(".svg")
    root = ET.fromstring(svg)
    assert root.tag.endswith("svg")
    texts = " ".join(node.text or "" for node in root.iter() if node.tag.endswith("text"))
    title = desktop.figure(name).locator("h3").text_content()
    assert title.split()[0] in texts
    assert "run 20261121-074500-3fa2" in texts


def test_the_data_of_a_chart_are_saved(desktop: Visit, summary: Summary):
    file, data = desktop.saved("matrix-iops", "CSV")
    assert file == "seatrial-matrix-iops.csv"
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    drawn = [s for s in summary.cells if s.cell.kind == "matrix" and not s.blank]
    saved = {(r["panel"].lower(), r["line"], int(r["block_size_bytes"])): r for r in rows}
    assert len(rows) == len(drawn)
    for part in drawn:
        threads = f"{part.cell.threads} thread{'s' if part.cell.threads > 1 else ''}"
        row = saved[part.cell.operation, threads, part.cell.block_size_bytes]
        shown = part.iops.shown
        names = (
            ("lowest_round", "highest_round") if shown.over == "range" else ("low_95", "high_95")
        )
        assert [float(row[name]) for name in ("value", *names)] == [
            shown.value,
            shown.low,
            shown.high,
        ]
        others = {"low_95", "high_95", "lowest_round", "highest_round"} - {*names}
        assert {row[name] for name in others} == {""}
    assert {row["low_95"] == "" for row in rows} == {True, False}, "both kinds are saved"


def test_the_heat_map_follows_the_list(visit: Callable[..., Visit], summary: Summary):
    opened = visit()
    figure = opened.figure("heatmap")
    assert "one 2.1\xa0s stall" in figure.locator("h3").text_content()
    before = figure.locator("canvas").screenshot()
    rows = opened.page.locator("#table-timeline tbody tr").count()
    figure.get_by_role("combobox").select_option(label="commit: commit 8 KiB, 1 thread, "
                                                 "method fdatasync")  # fmt: skip
    opened.page.wait_for_timeout(100)
    assert "no stall" in figure.locator("h3").text_content()
    assert figure.locator("canvas").screenshot() != before
    label = "commit: commit 8 KiB, 1 thread, method fdatasync"
    of_view = figure.locator(".of-view")
    assert not of_view.is_visible()  # the list says it
    opened.page.emulate_media(media="print")
    assert of_view.is_visible(), "paper has no list, and titles of several views may be alike"
    assert label in of_view.inner_text().replace("\xa0", " ")
    opened.page.emulate_media(media="screen")
    svg = opened.saved("heatmap", "SVG")[1].decode()
    assert "commit 8 KiB" in svg
    (drawn,) = heat_figures(summary.cells)
    (heat,) = [view.heat for view in drawn.views if view.label == label]
    most = max(count for each in heat.samples for column in each.columns for count in column.counts)
    assert f">{most:,}</text>" in svg  # the darkest colour has a number
    part = next(s for s in summary.cells if s.cell.kind == "commit")
    file, data = opened.saved("heatmap", "CSV")
    saved = list(csv.DictReader(io.StringIO(data.decode())))
    assert file == "seatrial-heatmap-commit-commit-8-kib-1-thread-method-fdatasync.csv"
    assert sum(int(row["requests"]) for row in saved) == part.completed
    table = opened.page.locator("#table-timeline")
    assert table.locator(".of").text_content() == "commit: commit 8 KiB, 1 thread, method fdatasync"
    counts = table.locator("tbody td:nth-child(3)").all_text_contents()
    assert len(counts) != rows
    assert sum(int(count.replace(",", "")) for count in counts) == part.completed


def test_a_tooltip_shows_the_value_with_its_interval(desktop: Visit, summary: Summary):
    plot = desktop.figure("matrix-iops").locator(".plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    desktop.page.mouse.move(box["x"] + 85, box["y"] + 140)
    tip = desktop.figure("matrix-iops").locator(".tip")
    tip.wait_for(state="visible")
    assert "512 B" in tip.text_content()
    assert format_estimate(summary.cells[0].iops) in tip.text_content()
    desktop.page.mouse.move(0, 0)


def test_charts_follow_the_width_of_the_window(visit: Callable[..., Visit]):
    page = visit().page
    page.set_viewport_size({"width": 700, "height": 900})
    await_width(page, "map", below=700)
    assert page.evaluate("document.documentElement.scrollWidth") <= 700


def test_paper_cuts_nothing_off(visit: Callable[..., Visit]):
    opened = visit(viewport={"width": PAPER_WIDTH_PX, "height": 1000}, color_scheme="dark")
    page = opened.page
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.scrollWidth") <= PAPER_WIDTH_PX
    folded = page.locator("#tables details:not([open])").count()
    assert folded > 0, "what is collapsed stays so"
    assert brightness(page) > 200
    right = page.evaluate(
        """() => Math.max(...[...document.querySelectorAll('table, .plot > div, pre, h1, h3')]
          .map((part) => part.getBoundingClientRect().right))"""
    )
    assert right <= PAPER_WIDTH_PX + 1
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen", color_scheme="dark")
    assert brightness(page) < 60
    assert pdf_pages(page) > PAGES_MAX, "what was unfolded is printed"


def test_paper_has_few_pages_and_says_what_is_not_on_them(visit: Callable[..., Visit]):
    page = visit(unfolded=False).page
    assert page.locator("details[open]").count() == 0
    assert 1 < pdf_pages(page) <= PAGES_MAX
    notice = page.get_by_text("Collapsed parts are not printed")
    assert not notice.is_visible()
    page.emulate_media(media="print")
    assert notice.is_visible()
    assert page.evaluate(OVERLAPS) == []


def test_everything_is_reached_by_keyboard(visit: Callable[..., Visit]):
    page = visit().page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the findings"
    reached = page.evaluate(
        """() => [...document.querySelectorAll('button, select, a[href], summary, .scroll')]
          .filter((part) => part.tabIndex < 0).length"""
    )
    assert reached == 0
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, select')]
          .filter((part) => !part.textContent.trim() && !part.labels?.length).length"""
    )
    assert unnamed == 0
    button = page.locator("#figure-map").get_by_role("button", name="as CSV")
    button.focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename == "seatrial-map.csv"


def test_a_command_is_copied(desktop: Visit):
    desktop.context.grant_permissions(["clipboard-read", "clipboard-write"])
    desktop.page.get_by_role("button", name="Copy: journalctl").click()
    desktop.page.get_by_text("Copied").wait_for()
    copied = desktop.page.evaluate("navigator.clipboard.readText()")
    assert copied == "journalctl -k --since -1h"


def test_a_large_run_opens_quickly(browser: Any, tmp_path: Path):
    large = sample_summary(sizes_bytes=[512 * 2**power for power in range(14)])
    path = tmp_path / "large.html"
    path.write_text(render(large), encoding="utf-8")
    opened = Visit(browser, path)
    # A clock on the wall would tell of the machine's other work as well.
    worked_s = opened.processor_s()
    opened.context.close()
    assert opened.errors_text == []
    assert 0 < worked_s < OPEN_S_MAX
