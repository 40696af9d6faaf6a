"""The screen of a terminal: what is on it, and what fits."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from rich.console import Console

from cli.terminal import INTERRUPT, Terminal
from seatrial import _core
from seatrial.trials.watch.analysis.activity import Interval, Losses, RequestGroup
from seatrial.trials.watch.analysis.events import Frame, Mark, Stall
from seatrial.trials.watch.report.screen import Screen, heat_column, shade


def group(operation: str, times_ns: list[int], **fields: str) -> RequestGroup:
    return RequestGroup(
        disk="sda",
        operation=operation,
        requests=len(times_ns),
        transferred_bytes=4096 * len(times_ns),
        device_ns_sum=sum(times_ns),
        device=_core.Histogram.of(times_ns),
        **fields,
    )


def interval(*groups: RequestGroup, **fields: object) -> Interval:
    return Interval(seconds=1.0, groups=[*groups], lost=Losses(**fields), ended_at=1e9)


def shown(screen: Screen, last: Interval, height_rows: int = 40) -> str:
    console = Console(file=io.StringIO(), width=110, height=height_rows)
    console.print(screen.render(last, height_rows))
    return console.file.getvalue()


def stall(*, is_over: bool) -> Stall:
    return Stall(number=1, disk="sda", started_at=1e9, length_s=1.5, is_over=is_over,
                 cause="device", in_flight=3, blocked=0, text="sda: 3 requests")  # fmt: skip


LAST = interval(
    group("read", [20_000] * 90 + [3_000_000] * 10, process="postgres"),
    group("write", [50_000] * 20, process="cp"),
    missed=4,
)


def test_it_has_figures_a_heat_map_and_who_it_was():
    screen = Screen("all disks", 2)
    screen.add(Frame(LAST, [Mark(at=1e9, text="cache added")], []))
    text = shown(screen, LAST)
    assert "all disks, level 2 of 3" in text
    read = next(line for line in text.splitlines() if line.startswith("sda   read"))
    assert read.split()[2:5] == ["100", "410", "kB/s"]
    assert "3.0 ms" in read
    assert "█" in text
    postgres = next(line for line in text.splitlines() if line.startswith("postgres"))
    assert "83 %" in postgres
    assert "cache added" in text
    assert "4 events not handed over by the kernel" in text


def test_a_stall_is_there_while_it_lasts():
    screen = Screen("sda", 2)
    screen.add(Frame(interval(), [], [stall(is_over=False)]))
    assert "stalled for 1.5 s, device: sda: 3 requests" in shown(screen, interval())
    screen.add(Frame(interval(), [], [stall(is_over=True)]))
    text = shown(screen, interval())
    assert "stalled for" not in text
    assert "stall of 1.5 s ended" in text


@pytest.mark.parametrize("height_rows", [10, 24, 60])
def test_it_fits(height_rows):
    screen = Screen("sda", 2)
    for _ in range(100):
        screen.add(Frame(LAST, [Mark(at=1e9, text="x")], []))
    assert len(shown(screen, LAST, height_rows).splitlines()) <= max(height_rows, 12)


def test_level_1_has_means():
    only = RequestGroup(disk="sda", operation="read", requests=4, transferred_bytes=4096,
                 device_ns_sum=4_000_000)  # fmt: skip
    screen = Screen("sda", 1)
    screen.add(Frame(interval(only), [], []))
    text = shown(screen, interval(only))
    assert "mean 1.0 ms" in text
    assert "│" not in text


def test_every_request_is_in_the_heat_map():
    times_ns = [1, 5_000, 40_000, 2_000_000, 400_000_000, 9_000_000_000]
    column = heat_column([group("read", times_ns)])
    assert column == Counter({9: 2, 8: 1, 5: 1, 0: 2})
    assert [shade(count, 100) for count in (0, 1, 100)] == [" ", "░", "█"]


@pytest.mark.root
def test_on_a_terminal_it_is_drawn_and_ends_with_the_tables(tmp_path):
    terminal = Terminal("watch", "--every", "0.2", folder=tmp_path)
    try:
        terminal.wait_for("all disks, level 2 of 3", 20)
        terminal.type(INTERRUPT)
        assert terminal.end(20) == 0
    finally:
        terminal.close()
    assert "No block requests in" in terminal.shown or "By disk and operation" in terminal.shown
