"""The live page in a real Chromium, over a real load on a disk of our own."""

from __future__ import annotations

import json
import mmap
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.command import ended, seatrial, start
from seatrial.trials.watch.analysis.activity import Losses
from seatrial.trials.watch.analysis.compact import ROWS_PER_DOUBLING, CompactGroup, CompactInterval
from seatrial.trials.watch.analysis.history import Event
from seatrial.trials.watch.report.page import Startup, saved_page
from trials.watch.report.live_page import Page, until

pytestmark = [pytest.mark.browser, pytest.mark.root]
pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'seatrial[serve]'")

FREEZE_SEEN_S_MAX = 2.0
SIZE_BYTES = 8 << 20
START_S = 1_790_000_000.0
BLOCK_BYTES = 4096


class Load:
    """A process that reads and writes a file directly, as fast as 300 requests a second."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(os.urandom(SIZE_BYTES))
        self.pid = os.fork()
        if not self.pid:
            self._run(path)

    def _run(self, path: Path) -> None:
        drawn = random.Random(3)
        block = mmap.mmap(-1, BLOCK_BYTES)
        file = os.open(path, os.O_RDWR | os.O_DIRECT)
        while True:
            for turn in range(4):
                place = drawn.randrange(SIZE_BYTES // BLOCK_BYTES) * BLOCK_BYTES
                if turn:
                    os.preadv(file, [block], place)
                else:
                    os.pwritev(file, [block], place)
                time.sleep(0.003)
            os.fdatasync(file)

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@pytest.fixture
def watched(disk: Path, mounted: Path, tmp_path: Path, browser: Any) -> Iterator[Any]:
    """The address of a watch of the disk, and a browser's context."""
    load = Load(mounted / "file")
    process = start("watch", str(disk), "--port", "0", "--every", "0.5", folder=tmp_path)
    assert process.stderr
    address = ""
    while not address:
        line = process.stderr.readline()
        assert line, "the watch has ended"
        found = re.search(r"^Page, .*(http://\S+token=\S+)$", line)
        address = found[1] if found else ""
    context = browser.new_context(accept_downloads=True)
    yield address, context, load
    context.close()
    process.send_signal(signal.SIGINT)
    last = ended(process, 30)
    load.stop()
    assert last.code == 0, last


def test_it_needs_its_token_and_asks_no_other_origin(watched):
    address, context, _ = watched
    origin = address.partition("?")[0]
    stranger = Page(context, origin)
    assert "No access" in stranger.text("body")
    own = Page(context, address)
    until(lambda: own.drawn() > 3, "no data")
    assert own.requests
    assert {url for url in own.requests if not url.startswith((origin, "data:", "blob:"))} == set()
    assert own.errors_text == []


def test_the_heat_map_shows_the_load_and_a_click_what_lay_in_a_cell(watched):
    address, context, _ = watched
    own = Page(context, address)
    until(lambda: own.drawn() > 5, "no data")
    until(lambda: "requests, p50" in own.text(".chart.heat >> nth=0"), "no heat map")
    own.page.locator("#pause").click()
    own.page.evaluate("new Promise((done) => { setTimeout(done, 500); })")  # it is drawn
    own.click_cell()
    heading = until(lambda: own.text("#cell h2"), "no cell")
    count = int(re.match(r"([\d,]+) read requests?", heading)[1].replace(",", ""))
    table = own.page.locator("#cell table[data-by=size]")
    texts = table.locator("td:nth-child(2)").all_inner_texts()
    sizes = [int(each.replace(",", "")) for each in texts]
    assert sum(sizes) == count > 0
    assert "4 KiB to 8 KiB" in table.inner_text()
    own.page.get_by_role("button", name="Show only requests with this latency").click()
    until(lambda: own.page.locator("#filters .chip").count() == 2, "no filters")
    assert "operation: read" in own.text("#filters")
    until(lambda: "not counted by latency" in own.text("#charts"), "bytes by latency")
    own.page.locator("#filters .chip").first.click()
    until(lambda: own.page.locator("#filters .chip").count() == 1, "the filter stays")
    assert own.errors_text == []


def test_nothing_is_lost_when_the_page_is_closed_and_opened_again(watched):
    address, context, _ = watched
    own = Page(context, address)
    until(lambda: own.drawn() > 3, "no data")
    before = own.drawn()
    own.page.close()
    time.sleep(2)
    again = Page(context, address.partition("?")[0])
    until(lambda: again.drawn() >= before + 3, "the history is not whole")
    assert again.errors_text == []


def test_a_lost_connection_goes_on_where_it_was(watched):
    address, context, _ = watched
    own = Page(context, address)
    until(lambda: own.drawn() > 3, "no data")
    own.page.context.set_offline(True)
    cut = own.drawn()
    time.sleep(2)
    own.page.context.set_offline(False)
    until(lambda: own.drawn() >= cut + 6, "it does not go on")
    times = own.page.locator("#range").inner_text()
    assert re.match(r"\d\d:\d\d:\d\d to \d\d:\d\d:\d\d", times)


def test_a_freeze_and_a_marker_are_on_the_page_within_two_seconds(watched, mounted, tmp_path):
    address, context, load = watched
    own = Page(context, address)
    until(lambda: own.drawn() > 3, "no data")
    assert seatrial("mark", "freezing", folder=tmp_path).code == 0
    subprocess.run(["fsfreeze", "--freeze", str(mounted)], check=True)
    frozen_s = time.monotonic()
    try:
        blocked = f"(pid {load.pid}) is blocked in "  # other programs may be, too
        until(lambda: blocked in own.text("#events"), "no stall")
        seen_s = time.monotonic() - frozen_s
        text = own.text("#events")
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(mounted)], check=True)
    assert seen_s < FREEZE_SEEN_S_MAX
    line = next(line for line in text.splitlines() if blocked in line)
    assert "file system" in line, text
    assert "stalled for" in line, text
    until(lambda: "freezing" in own.text("#events"), "no marker")
    until(
        lambda: (
            not any(
                blocked in line and "not over" in line for line in own.text("#events").splitlines()
            )
        ),
        "the stall does not end",
    )


def test_the_cursor_is_shared_and_dragging_zooms(watched):
    address, context, _ = watched
    own = Page(context, address)
    until(lambda: own.drawn() > 5, "no data")
    own.page.locator("#pause").click()
    own.page.locator("#span").select_option("30")
    plots = own.page.locator(".chart .plot")
    rate = own.page.locator(".chart:not(.heat) .plot").first
    rate.scroll_into_view_if_needed()
    box = rate.bounding_box()
    middle_px = box["y"] + box["height"] / 2
    own.page.mouse.move(box["x"] + box["width"] - 40, middle_px)
    cursors = own.page.locator(".chart .cursor:not([hidden])")
    until(lambda: cursors.count() >= 5, "not on every chart")
    assert cursors.count() <= plots.count()
    before = own.text("#range")
    own.page.mouse.down()
    own.page.mouse.move(box["x"] + box["width"] - 160, middle_px, steps=4)
    own.page.mouse.up()
    until(lambda: own.text("#range") != before, "not zoomed")
    shown = own.page.locator("#span option:checked").inner_text()
    assert shown.endswith(" s")
    assert float(shown.removesuffix(" s")) < 10
    drawn = own.text("#range")
    time.sleep(1.5)
    assert own.text("#range") == drawn  # it does not run on
    own.page.locator("#latest").click()
    until(lambda: own.text("#range") != drawn, "it does not go on")
    assert own.errors_text == []


def test_a_worksheet_is_kept_by_name_and_as_a_file(watched, tmp_path):
    address, context, _ = watched
    own = Page(context, address)
    until(lambda: own.drawn() > 3, "no data")
    charts = own.page.locator(".chart")
    before = charts.count()
    own.page.locator("#add").click()
    own.page.on("dialog", lambda dialog: dialog.accept("Mine"))
    own.page.locator("#keep").click()
    assert own.page.locator("#worksheets").input_value() == "Mine"
    with own.page.expect_download() as download:
        own.page.locator("#download").click()
    file = tmp_path / "sheet.json"
    download.value.save_as(file)
    sheet = json.loads(file.read_text())
    assert (sheet["seatrial_worksheet"], len(sheet["charts"])) == (1, before + 1)
    own.page.locator("#worksheets").select_option("Standard")
    until(lambda: charts.count() == before, "not the standard one")
    own.page.reload()
    until(lambda: own.drawn() > 3, "no data")
    own.page.locator("#worksheets").select_option("Mine")
    until(lambda: charts.count() == before + 1, "not the kept one")
    sheet["charts"] = [{"metric": "p50", "operation": "", "by": "disk"}]
    file.write_text(json.dumps(sheet))
    own.page.locator("#open").set_input_files(file)
    until(lambda: charts.count() == 1, "not the one of the file")
    sheet["charts"][0]["metric"] = "nonsense"
    file.write_text(json.dumps(sheet))
    own.page.locator("#open").set_input_files(file)
    until(lambda: 'there is no chart "nonsense"' in own.text("#message"), "not refused")
    assert charts.count() == 1


def test_a_worksheet_that_cannot_be_read_costs_no_other(watched):
    address, context, _ = watched
    own = Page(context, address)
    until(lambda: own.drawn() > 3, "no data")
    own.page.on("dialog", lambda dialog: dialog.accept("Mine"))
    own.page.locator("#keep").click()
    own.page.evaluate(
        """() => {
          const sheets = JSON.parse(localStorage.getItem('seatrial-watch-worksheets'));
          localStorage.setItem('seatrial-watch-worksheets',
            JSON.stringify({ ...sheets, Newer: { seatrial_worksheet: 2 } }));
        }"""
    )
    own.page.reload()
    until(lambda: own.drawn() > 3, "no data")
    names = own.page.locator("#worksheets option")
    assert names.all_inner_texts() == ["Standard", "Mine"]
    add, charts = own.page.locator("#add"), own.page.locator(".chart")
    while add.is_enabled():
        add.click()
    assert charts.count() == 24  # as many as a worksheet or a saved report can hold
    own.page.locator("#keep").click()
    own.page.reload()
    until(lambda: own.drawn() > 3, "no data")
    own.page.locator("#worksheets").select_option("Mine")
    until(lambda: charts.count() == 24, "not the kept one")
    stored = own.page.evaluate("localStorage.getItem('seatrial-watch-worksheets')")
    assert set(json.loads(stored)) == {"Mine", "Newer"}


def test_the_report_needs_no_server(watched, browser, tmp_path):
    address, context, _ = watched
    own = Page(context, address)
    until(lambda: own.drawn() > 5, "no data")
    with own.page.expect_download() as download:
        own.page.locator("#report").click()
    file = tmp_path / "report.html"
    download.value.save_as(file)
    offline = browser.new_context(offline=True, viewport={"width": 390, "height": 844})
    saved = Page(offline, file.as_uri())
    until(lambda: saved.drawn() > 5, "nothing is drawn")
    until(lambda: "requests, p50" in saved.text(".chart.heat >> nth=0"), "no heat map")
    assert saved.requests == [file.as_uri()]
    assert saved.errors_text == []
    assert saved.page.evaluate("document.documentElement.scrollWidth") <= 390
    plain = browser.new_context(offline=True, java_script_enabled=False)
    unscripted = Page(plain, file.as_uri())
    assert "By disk and operation" in unscripted.text("#totals")
    offline.close()
    plain.close()


def saved_intervals(times: list[tuple[float, float]]) -> str:
    """A saved page of intervals, each of a read at 1 ms; from and to are in s since the start."""
    row = 16 * 20  # 2 ** 20 ns
    events = [
        Event(
            number=number,
            kind="interval",
            at_s=to,
            data=msgspec.json.encode(
                CompactInterval(
                    at=START_S + to,
                    seconds=to - begun,
                    names=["sda", "read", "", "worker"],
                    groups=[CompactGroup(0, 1, 1, 4096, 3, 2, 2, 9, 0, 36864, 9 << 20, 0, 0, 0,
                                         [row, 9])],
                    lost=Losses(),
                    in_flight={},
                    cost=0.0,
                    readings={},
                    headroom=[],
                )
            ),
        )
        for number, (begun, to) in enumerate(times, 1)
    ]  # fmt: skip
    startup = Startup(
        watched="sda", level=2, sees="", lacks="", cost="", reason="", started_at=START_S,
        every_s=1.0, has_server=False, history_s=3600.0, history_bytes_max=1 << 20,
        rows_per_doubling=ROWS_PER_DOUBLING, version="0", without_line="Measure `sda` first.",
    )  # fmt: skip
    charts = [
        {"metric": "heat", "operation": "", "by": ""},
        {"metric": "rate", "operation": "", "by": ""},
    ]
    sheet = {"seatrial_worksheet": 1, "charts": charts, "filters": {}, "span_s": 60}
    return saved_page(startup, events, None, sheet)


def test_an_interval_longer_than_a_column_leaves_no_hole(browser, tmp_path):
    times = [(0, 1), (1, 3.5), (3.5, 6), (10, 11), (11, 12)]
    file = tmp_path / "saved.html"
    file.write_text(saved_intervals(times))
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    own = Page(context, file.as_uri())
    until(lambda: own.drawn() == len(times), "nothing is drawn")
    assert (own.text("#headroom"), own.text("#headroom code")) == ("Measure sda first.", "sda")
    plot = own.page.locator(".chart.heat .plot")
    until(lambda: plot.locator("canvas").count(), "no heat map")
    width_px = plot.bounding_box()["width"] - 76  # between the margins
    for at_s in (0.5, 1.2, 2.5, 3.3, 4.2, 5.8, 8.5, 11.5):
        plot.hover(position={"x": 62 + width_px * at_s / 12, "y": 40})
        text = own.text(".chart.heat .reading-now")
        is_watched = any(begun <= at_s < to for begun, to in times)
        assert ("9 requests" in text) == is_watched, (at_s, text)
        assert ("not watched" in text) != is_watched, (at_s, text)
        rate = own.text(".chart:not(.heat) .reading-now")
        assert ("–" in rate) != is_watched, (at_s, rate)
    assert own.errors_text == []
    context.close()
