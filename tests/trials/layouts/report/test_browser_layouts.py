"""The page of layouts in a real Chromium with the network cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from report.browsing import Visit, await_width, brightness
from seatrial.fingerprint import Fingerprint, Machine
from seatrial.report.page import render
from trials.layouts.report.layout_hand import layout_summary, make_run

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("layouts") / "layouts.html"
    run = make_run(fingerprint_before=Fingerprint(machine=Machine(lab="user-mode Linux")))
    path.write_text(render(msgspec.structs.replace(layout_summary(), run=run)), encoding="utf-8")
    return path


def texts_of(opened: Visit, name: str) -> list[str]:
    return opened.figure(name).locator(".plot svg text").all_text_contents()


def is_cut_off(page: Any) -> bool:
    """Return whether the page or a chart of layouts is wider than the window."""
    return page.evaluate(
        """() => document.documentElement.scrollWidth > window.innerWidth
          || [...document.querySelectorAll('#layouts .plot svg')].some(
            (drawn) => drawn.getBoundingClientRect().right > window.innerWidth)"""
    )


def test_nothing_is_requested_and_nothing_complains(desktop: Visit):
    assert desktop.errors_text == []
    assert [url for url in desktop.requests if not url.startswith(("file:", "blob:"))] == []
    assert desktop.page.evaluate("window.violations") == []
    assert desktop.page.locator(".notice").is_visible()


def test_every_figure_of_the_list_can_be_drawn(desktop: Visit):
    figure = desktop.figure("layout-figures")
    chooser = figure.get_by_role("combobox")
    options = chooser.locator("option").all_text_contents()
    assert options[0].startswith("Fig 1:")
    for option in options:
        chooser.select_option(label=option)
        assert figure.locator(".plot svg path").count() > 8, option
    chooser.select_option(label=next(o for o in options if o.startswith("Fig 5:")))
    reported = texts_of(desktop, "layout-figures")
    assert {"Reads", "Writes", "Number of drives", "saturation"} <= set(reported)
    assert desktop.errors_text == []


def test_the_failure_is_named_where_it_happened(desktop: Visit):
    reported = texts_of(desktop, "failure-1")
    for text in ("drive failed", "rebuild ended", "Rebuilt", "Drives missing", "p99"):
        assert text in reported
    table = desktop.page.locator("#table-failure-1")
    before = table.locator("tbody td").all_text_contents()
    chooser = desktop.figure("failure-1").get_by_role("combobox")
    first = chooser.input_value()
    other = next(value for value in ("0", "1", "2") if value != first)
    chooser.select_option(value=other)
    assert table.locator("tbody td").all_text_contents() != before
    chooser.select_option(value=first)
    # The script says every reading and every event as the report itself did.
    assert table.locator("tbody td").all_text_contents() == before
    assert table.locator(".marks li").count() == 7


def test_narrow_and_dark(browser: Any, report: Path):
    opened = Visit(browser, report)
    page = opened.page
    assert not is_cut_off(page)
    page.set_viewport_size({"width": 360, "height": 800})
    await_width(page, "failure-1", below=360)
    assert not is_cut_off(page)
    page.emulate_media(color_scheme="dark")
    assert brightness(page) < 60
    opened.context.close()


def test_without_scripts_every_number_is_in_a_table(browser: Any, report: Path):
    opened = Visit(browser, report, java_script_enabled=False)
    page = opened.page
    assert page.locator("#layouts .unscripted").is_visible()
    assert page.locator("#failures table").first.is_visible()
    for folded in ("#layout-numbers", "#table-failure-1"):
        page.locator(f"{folded} > summary").click()
        assert page.locator(f"{folded} tbody tr").first.is_visible()
    opened.context.close()
