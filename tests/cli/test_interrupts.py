"""What a terminal shows during a run and when it is interrupted, in order."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys

import pytest

from cli.command import ended, heed_interrupts, seatrial, start
from cli.terminal import INTERRUPT, Terminal
from report.json_schema import assert_published
from seatrial import interrupts
from seatrial.cli import main

STOPPING = "Stopping: results are kept, and changes to the system are undone."
BUSY = """
import hashlib, sys, time
from seatrial import interrupts

def say(words):
    print(words, flush=True)

def compute():
    # One call in C, which no signal interrupts.
    hashlib.pbkdf2_hmac("sha256", b"", b"", 100_000)

def think():
    sum(range(1000))

interrupts.handle_signals(on_hangup=lambda: None, say=say)
try:
    with interrupts.stopping_with("stopping"), interrupts.uninterrupted():
        say("busy")
        until_s = time.monotonic() + 60.0
        # Here no signal reaches the main thread: another one must be heard to say it.
        while not interrupts.is_stopping() and time.monotonic() < until_s:
            {what}()
        say("said meanwhile" if interrupts.is_stopping() else "not said")
except KeyboardInterrupt:
    interrupts.acknowledge()
    say("interrupted")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("what", ["compute", "think"])
def test_a_signal_is_acknowledged_whatever_the_main_thread_does(what, number):
    heed_interrupts()
    busy = subprocess.Popen(
        [sys.executable, "-c", BUSY.replace("{what}", what)], stdout=subprocess.PIPE, text=True
    )
    assert busy.stdout is not None
    assert busy.stdout.readline() == "busy\n"
    busy.send_signal(number)
    assert busy.stdout.read().split("\n") == ["stopping", "said meanwhile", "interrupted", ""]
    assert busy.wait() == 0


IMPORTED = """
import os, signal

class Field:
    def __set_name__(self, owner, name):
        # What is raised here comes out as RuntimeError.
        os.kill(os.getpid(), signal.SIGTERM)

class Owner:
    field = Field()
"""
IMPORTING = """
import time
from seatrial import interrupts

interrupts.handle_signals(on_hangup=lambda: None, say=lambda words: None)
try:
    import imported
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted, with", imported.Owner.__name__)
"""


def test_a_signal_while_a_module_is_imported_waits_until_it_is(tmp_path):
    heed_interrupts()
    (tmp_path / "imported.py").write_text(IMPORTED)
    command = [sys.executable, "-c", IMPORTING]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "interrupted, with Owner\n", done.stderr


CLICK_THAT_IS_INTERRUPTED = """
import os, signal

os.kill(os.getpid(), signal.SIGINT)
print("not interrupted")
"""


@pytest.mark.parametrize("is_ignored", [False, True])
def test_ctrl_c_while_the_program_loads_ends_it_without_a_traceback(tmp_path, is_ignored):
    heed_interrupts()
    (tmp_path / "click.py").write_text(CLICK_THAT_IS_INTERRUPTED)
    ignored = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" if is_ignored else ""
    load = f"{ignored}from seatrial.__main__ import main; main()"
    command = [sys.executable, "-c", load]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if is_ignored:
        assert done.stdout.startswith("not interrupted\n")
    else:
        assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_on_a_terminal_the_time_left_counts_down_within_a_sample(tmp_path):
    with contextlib.closing(Terminal("io", "null", "--seconds", "4", folder=tmp_path)) as terminal:
        assert terminal.end() == 0
    left_s = [int(reported) for reported in re.findall(r"about (\d) s left", terminal.shown)]
    assert left_s == sorted(left_s, reverse=True)
    assert len(set(left_s)) >= 3


def test_ctrl_c_is_acknowledged_on_the_terminal_before_the_run_ends(tmp_path):
    with contextlib.closing(Terminal("io", "null", "--seconds", "60", folder=tmp_path)) as terminal:
        terminal.wait_for("IOPS")
        terminal.type(INTERRUPT)
        terminal.wait_for(STOPPING)
        assert terminal.end() == 4
    reported = terminal.shown
    assert reported.count(STOPPING) == 1
    assert reported.index(STOPPING) < reported.index("More:")
    assert "Traceback" not in reported


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_what_is_no_terminal_is_reported_once_however_often_it_is_requested(tmp_path, options):
    process = start("io", "null", "--seconds", "60", *options, folder=tmp_path)
    # --json prints nothing before the end, so that only the results file shows progress.
    while not seatrial("list", "--json", folder=tmp_path).document.get("runs"):
        assert process.poll() is None
    for _ in range(2):
        process.send_signal(signal.SIGINT)
    reported = ended(process)
    assert reported.err.count(STOPPING) == 1
    assert reported.code == 4


def test_with_json_an_interrupt_before_any_result_is_an_error_document(monkeypatch, capsys):
    monkeypatch.setattr(interrupts, "acknowledge", lambda: None)
    assert main._exit_code_after(KeyboardInterrupt(), ["show", "--json"]) == 4
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["exit_code"]) == ("error", 4)
    assert_published(document)
