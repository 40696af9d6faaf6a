"""The page of ``--live`` in a real Chromium, over a run on a disk of our own."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.command import ended
from trials.watch.report.live_page import Page, until
from trials.watch.shown import Shown, shown

pytestmark = [pytest.mark.browser, pytest.mark.root]
pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'seatrial[serve]'")

WIDTH_PX = 390
STEPS = ("--size", "16MiB", "--depth", "1", "--rounds", "2")
Measure = Callable[..., tuple[Shown, Any]]


@pytest.fixture
def disk_bytes() -> int:
    """There is room for a trial file and its reserve."""
    return 160 << 20


@pytest.fixture
def measure(mounted: Path, tmp_path: Path, browser: Any) -> Iterator[Measure]:
    """Start a run on the disk with its page; returns it and a browser's context."""
    started: list[tuple[Shown, Any]] = []

    def begin(*more: str) -> tuple[Shown, Any]:
        run = shown("io", mounted, *STEPS, *more, folder=tmp_path)
        started.append((run, browser.new_context()))
        return started[-1]

    yield begin
    for run, context in started:
        context.close()
        if run.process.poll() is None:
            run.process.send_signal(signal.SIGINT)
        ended(run.process, 30)


def test_the_page_shows_the_run_and_turns_into_its_report(measure, disk, tmp_path):
    run, context = measure("--seconds", "6")
    origin = run.address.partition("?")[0]
    assert "No access" in Page(context, origin).text("body")
    own = Page(context, run.address)
    assert own.text("h1") == f"io on {tmp_path / 'mounted'}"
    assert f"Disks: {disk.name}. Level " in own.text(".level >> nth=1")
    until(lambda: "Round 1: io: random read 8 KiB, 1 thread" in own.text("#run"), "no test")
    until(lambda: "s left" in own.text("#run-left"), "no time left")
    until(lambda: " IOPS, " in own.text("#run-figures"), "no figures")
    until(lambda: own.drawn() > 3, "no data")
    small = Page(context, origin)
    small.page.set_viewport_size({"width": WIDTH_PX, "height": 844})
    until(lambda: small.drawn() > 3, "no data")
    small.page.locator("#pause").click()
    assert small.page.evaluate("document.documentElement.scrollWidth") <= WIDTH_PX
    clients = until(lambda: clients_of(own), "no clients")
    assert clients["load engine"] > 100
    until(lambda: "io: random read" in own.text("#tests table"), "no list of tests")
    own.page.wait_for_url(f"{origin}run")  # it turns into the report
    (report,) = (tmp_path / "seatrial-reports").iterdir()
    assert own.page.content().count(report.stem) > 0
    until(lambda: "The run has ended." in small.text("#run"), "the end is not said")
    assert small.page.url == origin  # it was paused: somebody looks at something
    small.page.get_by_role("link", name="See its report").click()
    small.page.wait_for_url(f"{origin}run")
    again = Page(context, origin)
    until(lambda: again.drawn() > 3, "what was seen is gone")
    assert "The run has ended." in again.text("#run")
    assert again.page.url == origin  # it was over before this page came
    assert own.errors_text == small.errors_text == again.errors_text == []
    assert {url for url in own.requests if not url.startswith((origin, "data:", "blob:"))} == set()


def clients_of(page: Page) -> dict[str, int]:
    """Requests by client of the run, from the table; empty before it is there."""
    rows = page.page.locator("#breakdown table[data-by=client] tbody tr")
    texts = [row.split("\t") for row in rows.all_inner_texts()]
    return {name: int(count.replace(",", "")) for name, count, *_ in texts}


def test_a_freeze_of_the_file_system_is_a_stall_with_its_cause(measure, mounted):
    run, context = measure("--operation", "write", "--rate", "100", "--seconds", "20")
    own = Page(context, run.address)
    until(lambda: "Round 1: io: random write" in own.text("#run"), "no test")
    until(lambda: own.drawn() > 3, "no data")
    subprocess.run(["fsfreeze", "--freeze", str(mounted)], check=True)
    try:
        blocked = f"(pid {run.process.pid}) is blocked in "
        until(lambda: blocked in own.text("#events"), "no stall")
        lines = own.text("#events").splitlines()
        until(lambda: "0 completed, oldest in flight" in own.text("#run-figures"), "not stuck")
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(mounted)], check=True)
    line = next(line for line in lines if blocked in line)
    assert "stalled for" in line
    assert "file system" in line
    until(lambda: "not over" not in own.text("#events"), "the stall does not end")
    assert own.errors_text == []
