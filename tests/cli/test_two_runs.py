"""Two real commands on one directory: the second is refused or waits, whoever starts it."""

from __future__ import annotations

import re
import signal

import pytest

from cli.command import ended, seatrial, start
from measure.studies import wait_until

LONG = ("--seconds", "60", "--size", "1MiB", "--buffered")
SHORT = ("--seconds", "0.2", "--size", "1MiB", "--buffered")


@pytest.fixture
def first(tmp_path):
    """A run under way in ``tmp_path/place``, with its process."""
    (tmp_path / "place").mkdir()
    # An interpreter, as its command line is shown.
    process = start("io", tmp_path / "place", *LONG, folder=tmp_path, prefix=())
    wait_until(lambda: any((tmp_path / "place").glob(".seatrial-*/*")), "the first run")
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize(
    "command",
    [
        ("io", "", *SHORT),
        ("run", "", "--size", "64MiB"),
        ("loadline", "", "--size", "1MiB", "--p99", "5ms"),
        ("precondition", "", "--size", "1MiB"),
        ("study", "quick", "--target", "", "--size", "64MiB"),
    ],
    ids=lambda words: words[0],
)
def test_the_second_is_refused_and_says_who_was_first(tmp_path, first, command):
    other = tmp_path / "other"
    other.mkdir()
    reported = seatrial(*[each or tmp_path / "place" for each in command], folder=other)
    assert reported.code == 5, reported.err
    assert "Another run is measuring" in reported.err
    assert f": process {first.pid} (`seatrial io " in reported.err
    assert "since 2" in reported.err
    assert not list(other.glob("seatrial-report*"))


def test_the_second_waits_with_wait(tmp_path, first):
    other = tmp_path / "other"
    other.mkdir()
    waiting = start("io", tmp_path / "place", *SHORT, "--wait", folder=other)
    line = waiting.stderr.readline()
    assert re.search(rf"Waiting for the run on .* to finish: process {first.pid} ", line)
    assert waiting.poll() is None
    first.send_signal(signal.SIGINT)
    assert ended(waiting).code == 0
    first.wait(20)


@pytest.mark.parametrize(
    "command",
    ["run", "io", "study", "db", "loadline", "precondition", "audit", "lab", ("sql", "replay")],
)
def test_every_command_that_measures_can_wait(tmp_path, command):
    words = command if isinstance(command, tuple) else (command,)
    assert "--wait" in seatrial(*words, "--help", folder=tmp_path).out
