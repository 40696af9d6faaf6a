"""What a run tells its page: never so that the run waits for it."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from seatrial.cli import live
from seatrial.cli.live import FinishedEvent, Observation
from seatrial.measure.progress import SilentWatcher

READS_NOTHING = "import sys, time; sys.stdin.buffer.read(1); time.sleep(60)"
READS_ALL = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"


def page_that(program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def test_a_page_that_does_not_read_delays_nothing_and_what_it_misses_is_counted(monkeypatch):
    monkeypatch.setattr(live, "PENDING_BYTES_MAX", 1 << 17)
    page = page_that(READS_NOTHING)
    observation = Observation(page)
    watcher = observation.with_page(SilentWatcher())
    for number in range(3000):  # several times what pipe and room hold
        watcher.step(f"step {number} {'x' * 200}")
    assert observation.dropped > 1000
    page.kill()
    page.communicate()


def test_all_events_arrive_in_order_however_slowly_they_are_read():
    page = page_that(READS_ALL)
    observation = Observation(page)
    watcher = observation.with_page(SilentWatcher())
    for number in range(2000):
        watcher.step(f"step {number} {'x' * 200}")
    observation.take_report("a" * (3 << 20))
    observation.finish()
    assert page.stdin
    assert page.stdout
    os.set_blocking(page.stdin.fileno(), True)
    page.stdin.close()
    lines = page.stdout.read().splitlines()
    page.wait()
    stages = [msgspec.json.decode(line)["step"] for line in lines[:-1]]
    assert [each.split()[1] for each in stages] == [str(number) for number in range(2000)]
    last = msgspec.json.decode(lines[-1], type=FinishedEvent)
    assert (len(last.report), last.dropped) == (3 << 20, 0)


def test_a_page_that_has_ended_is_named_once_and_the_run_goes_on(capsys):
    page = page_that("pass")
    page.wait()
    observation = Observation(page)
    watcher = observation.with_page(SilentWatcher())
    for number in range(3):
        watcher.step(f"step {number}")
    observation.finish()
    assert capsys.readouterr().err == "The live page ended early; the run continues.\n"


@pytest.mark.parametrize("sentence", ["", "The run was interrupted."])
def test_without_a_page_nothing_is_printed(sentence):
    observation = Observation(None)
    watcher = SilentWatcher()
    assert observation.with_page(watcher) is watcher
    observation.take_report("page")
    observation.finish(sentence)
    observation.wait_for_page()
