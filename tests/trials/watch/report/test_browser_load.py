"""The page of a recording in a real Chromium, with the network cut: light, dark and on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from report.browsing import Visit, brightness
from seatrial.trials.watch.analysis.load.profile import load_of
from seatrial.trials.watch.report.load_page import render
from trials.watch.recordings import recording

pytestmark = pytest.mark.browser
CHARTS = 5


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random, count = np.random.default_rng(4), 6000
    recorded = recording(
        seconds=60.0,
        arrived_ns=np.sort(random.integers(0, 60 * 10**9, count)),
        offset_bytes=random.zipf(1.3, count) % 9000 * 8192,
        length_bytes=random.choice([8192, 16384], count),
        device_ns=random.lognormal(12, 1, count).astype(np.int64),
        operation=random.integers(0, 2, count),
        process=np.arange(count) % 2,
        processes=("<b>postgres</b> (1)", "kworker (2)"),
    )
    path = tmp_path_factory.mktemp("page") / "load.html"
    path.write_text(render("pg.rec", recorded, load_of(recorded), "Go on."))
    return path


def test_it_draws_every_chart_and_asks_no_network_for_anything(browser: Any, report: Path):
    for options in (
        {},
        {"color_scheme": "dark"},
        {"viewport": {"width": 390, "height": 800}},
    ):
        visit = Visit(browser, report, **options)
        assert visit.errors_text == []
        assert all(each.startswith(("file:", "blob:", "data:")) for each in visit.requests)
        assert visit.page.evaluate("window.violations") == []
        drawn = visit.page.evaluate("document.querySelectorAll('.plot > div').length")
        assert drawn >= CHARTS
        width = visit.page.evaluate("document.documentElement.scrollWidth")
        assert width <= visit.page.viewport_size["width"]
        assert (brightness(visit.page) < 128) == (options.get("color_scheme") == "dark")
        visit.context.close()


def test_without_scripts_the_tables_say_it_all_and_names_are_text(browser: Any, report: Path):
    visit = Visit(browser, report, unfolded=False, java_script_enabled=False)
    text = visit.page.inner_text("body")
    assert "What stands out" in text
    visit.page.click("#tables > summary")
    text = visit.page.inner_text("#tables")
    assert "<b>postgres</b> (1)" in text
    assert "Working set: distinct bytes in a window" in text
    visit.context.close()
