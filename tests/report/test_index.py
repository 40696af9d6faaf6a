"""The index of a results file as static files: complete, linked, without scripts and network."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from report.browsing import Visit
from report.index_sample import CHANGED_AT, RATES, repeated_runs, store_runs
from report.sample_run import HOSTILE
from seatrial.cli.index_files import write_index
from seatrial.errors import RefusedError
from seatrial.report.document import is_own
from seatrial.report.index_page import Links, TrendGroup, entry_of, render_index, trend_groups
from seatrial.report.trend import level_changes
from seatrial.results.store import ResultsFile

LINKS = Links(page=lambda run: f"{run}.html", comparison=lambda a, b: f"{a}-{b}.html")


class Reader(HTMLParser):
    """Every address that a page refers to, and its elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]


@pytest.fixture(scope="module")
def runs():
    return list(repeated_runs())


@pytest.fixture(scope="module")
def entries(runs):
    return [entry_of(run, samples) for run, samples in reversed(runs)]


def only(groups: list[TrendGroup]) -> TrendGroup:
    (group,) = groups
    return group


def test_repeated_runs_show_their_figures_over_time(entries):
    group = only(trend_groups(entries))
    assert (group.study, group.target, group.host) == ("quick", "/mnt/ssd", "bench, 8 CPUs")
    read = group.trends[0]
    assert read.label == "8 KiB random read"
    assert [round(each.estimate.value / 74_000, 2) for each in read.points] == list(RATES)
    assert read.changes == [CHANGED_AT]
    assert read.change_phrase == "Changed from 74k IOPS to 46k IOPS since 2026-11-26 07:45 UTC."
    assert read.picture.count("<circle") == len(RATES)
    assert read.picture.count('class="ends"') == len(RATES)
    assert read.picture.count('class="change"') == 1


def test_runs_of_another_machine_or_target_are_no_repetition(entries):
    moved = [
        msgspec.structs.replace(
            each,
            run=msgspec.structs.replace(
                each.run, study={"target": [{"path": "/mnt/hdd" if index else "/mnt/ssd"}]}
            ),
        )
        for index, each in enumerate(entries[:2])
    ]
    assert trend_groups(moved) == []


def test_noise_is_no_change_of_level():
    assert level_changes([100, 101, 99, 100.5, 99.5, 101, 100, 99]) == []
    assert level_changes([100, 101, 99, 100.5, 99.5, 71, 70, 69.5, 70.2, 70.8]) == [5]
    assert level_changes([100, 50]) == []


def test_what_users_write_is_shown_as_text(entries):
    run = msgspec.structs.replace(entries[0].run, label=HOSTILE[:90], note=HOSTILE)
    text = render_index([msgspec.structs.replace(entries[0], run=run), *entries[1:]], "x", LINKS)
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(1)") >= 2


def test_an_empty_file_has_an_index():
    assert "contains no runs yet" in render_index([], "x.seatrial", LINKS)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    results = folder / "results.seatrial"
    with ResultsFile.open(results, create=True) as file:
        ids = store_runs(file, RATES[:3])
        file.edit_run(ids[1], note="after the firmware update")
    return results, write_index(results, None)


def test_every_run_has_a_page_and_every_link_a_file(made):
    results, files = made
    assert files.index == results.parent / "seatrial-reports" / "index.html"
    assert (len(files.pages), len(files.comparisons), files.written) == (3, 2, 5)
    text = files.index.read_text()
    reader = Reader(text)
    assert set(files.pages.values()) <= {files.index.parent / link for link in reader.links}
    for link in reader.links:
        assert (files.index.parent / link).is_file(), link
    assert not {"script", "form", "img", "link"} & set(reader.tags)
    assert "after the firmware update" in text
    assert "default-src 'none'" in html.unescape(text)
    assert is_own(files.index)
    compared = files.comparisons[0].read_text()
    assert "20261101-074500-0000" in compared
    assert len(text.encode()) < 100_000


def test_pages_that_are_up_to_date_are_kept(made):
    results, files = made
    before = {path: path.stat().st_mtime_ns for path in files.pages.values()}
    assert write_index(results, None).written == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    newest = max(files.pages)
    with ResultsFile.open(results) as file:
        file.edit_run(newest, label="renamed")
    again = write_index(results, None)
    assert again.written == 2  # its page and the comparison with the run before
    assert "renamed" in files.pages[newest].read_text()
    assert write_index(results, None, force=True).written == 5


def test_a_foreign_file_is_not_replaced(made, tmp_path):
    results, _ = made
    (tmp_path / "index.html").write_text("a diary")
    with pytest.raises(RefusedError):
        write_index(results, tmp_path)
    assert (tmp_path / "index.html").read_text() == "a diary"


@pytest.mark.browser
@pytest.mark.parametrize("width", [1400, 390])
def test_the_index_is_whole_without_scripts(made, browser: Any, width: int):
    _, files = made
    visit = Visit(
        browser,
        Path(files.index),
        java_script_enabled=False,
        viewport={"width": width, "height": 900},
    )
    page = visit.page
    assert page.locator(".runs > li").count() == 3
    assert page.locator(".trend svg").count() >= 5
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert visit.errors_text == []
    assert [url for url in visit.requests if not url.startswith("file:")] == []
    page.get_by_role("link", name="Compare with the previous run").first.click()
    assert re.search(r"compare-\w+", page.url)
    visit.context.close()
