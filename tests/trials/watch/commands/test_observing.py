"""``--live`` with a real HTTP client: the page of a run while it is measured, and after it."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from cli.command import ended, seatrial, start
from trials.watch.client import Client
from trials.watch.shown import Shown, shown

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'seatrial[serve]'")

GONE_S = 20.0
RATE_OR_NOTHING_YET = " IOPS, |^just begun, |^0 completed, oldest in flight "


def measured(folder: Path, *more: str, seconds: float = 2.0) -> Shown:
    """A run of one test in two rounds."""
    (folder / "files").mkdir()
    sized = ("--size", "16MiB", "--seconds", str(seconds), "--rounds", "2")
    return shown("io", folder / "files", *sized, *more, folder=folder)


def client_of(run: Shown) -> Client:
    made = Client(run.port, run.token, "")
    for path in ("/", "/events", "/run"):
        assert made.ask(path)[0] == 403, path
    made.enter()
    return made


def is_served(client: Client) -> bool:
    try:
        return client.ask("/")[0] == 200
    except OSError:
        return False


def test_the_page_follows_the_run_and_becomes_its_report(tmp_path):
    run = measured(tmp_path)
    client = client_of(run)
    assert client.ask("/run") == (404, "There is no report yet.")
    events = client.events(1, sort="ended")
    startup = events[0][2]
    assert (startup["has_ended"], startup["run"]) == (False, f"io on {tmp_path / 'files'}")
    reported = [data for _, sort, data in events if sort == "run"]
    assert reported[0]["step"].startswith("Filling")
    tests = [each for each in reported if each["test"]]
    assert {each["test"] for each in tests} == {"io: random read 8 KiB, 1 thread"}
    for number in (1, 2):
        own = [each for each in tests if each["round"] == number]
        assert [each["event"] for each in own][:: len(own) - 1] == ["started", "ended"]
        assert own[-1]["completed_per_s"] > 0
        readings = [each for each in own if each["event"] == "reading"]
        assert readings
        # A busy machine may complete nothing by the first reading.
        assert all(re.search(RATE_OR_NOTHING_YET, each["text"]) for each in readings)
    assert tests[0]["left_s_max"] > tests[-1]["left_s_max"] >= 0
    seen = [data["readings"] for _, sort, data in events if sort == "interval"]
    assert any(each.get("run_rate", {}).get("completed", 0) > 0 for each in seen)
    ending = events[-1][2]
    assert ending == {"sentence": "The run has ended.", "has_report": True}
    status, report = client.ask("/run")
    (file,) = (tmp_path / "seatrial-reports").iterdir()
    assert (status, report) == (200, file.read_text())
    late = client.events(1, sort="ended")
    assert late[0][2]["has_ended"] is True
    assert [each[:2] for each in late[1:]] == [each[:2] for each in events[1:]]
    assert run.process.poll() is None
    run.process.send_signal(signal.SIGINT)
    last = ended(run.process, 30)
    assert last.code == 0, last
    assert "until Ctrl-C, or 10 minutes after the last request" in last.err
    assert "Both rounds were measured" in last.out


def test_the_exit_code_stays_what_it_was(tmp_path):
    (tmp_path / "files").mkdir()
    line = ("--p50", "100ms", "--seconds", "0.5", "--budget", "5", "--at-least", "1000000000")
    run = shown("loadline", "simulated", *line, folder=tmp_path)
    client = client_of(run)
    assert client.events(1, sort="ended")[0][2]["has_disks"] is False
    run.process.send_signal(signal.SIGINT)
    last = ended(run.process, 30)
    assert last.code == 3, last


def test_a_page_that_nobody_opened_keeps_nobody_waiting(tmp_path):
    last = ended(measured(tmp_path, seconds=0.5).process, 30)
    assert last.code == 0, last
    assert "until Ctrl-C" not in last.err


def test_without_a_report_nothing_is_waited_for(tmp_path):
    run = measured(tmp_path, "--no-report", seconds=1.0)
    events = client_of(run).events(1, sort="ended")
    assert events[-1][2] == {
        "sentence": "The run has ended, without a report.",
        "has_report": False,
    }
    assert ended(run.process, 30).code == 0


def test_ctrl_c_ends_the_run_and_its_page(tmp_path):
    run = measured(tmp_path, seconds=30.0)
    client = client_of(run)
    client.events(3, sort="run")
    os.kill(run.process.pid, signal.SIGINT)
    events = client.events(1, sort="ended")
    assert events[-1][2] == {"sentence": "The run was interrupted.", "has_report": False}
    last = ended(run.process, 30)
    assert last.code == 4, last


def test_the_page_of_a_command_that_is_killed_says_so_and_ends(tmp_path):
    run = measured(tmp_path, seconds=30.0)
    client = client_of(run)
    answer = client.open("/events")
    run.process.kill()
    run.process.communicate()
    rest = answer.read().decode()
    assert 'event: ended\ndata: {"sentence":"The command has ended, and so has its run."' in rest
    give_up_s = time.monotonic() + GONE_S
    while is_served(client):
        assert time.monotonic() < give_up_s
        time.sleep(0.1)
    assert seatrial("clean", folder=tmp_path).code == 0


def test_a_run_that_fails_says_why_on_its_page(tmp_path):
    run = measured(tmp_path, seconds=2.0)
    client = client_of(run)
    client.events(3, sort="run")
    (tmp_path / "results.seatrial").unlink()
    events = client.events(1, sort="ended")
    last = ended(run.process, 40)
    assert last.code != 0, last
    seen = events[-1][2]["sentence"].removeprefix("The command has failed. ")
    assert last.err.splitlines()[-1].startswith(f"seatrial: {seen}")


def test_a_port_that_is_taken_is_refused_before_anything_is_measured(tmp_path):
    run = measured(tmp_path, seconds=3.0)
    taken = start("run", tmp_path, "--live", "--port", str(run.port), folder=tmp_path / "files")
    refused = ended(taken, 30)
    assert refused.code == 2, refused
    assert f"Port {run.port} of 127.0.0.1 cannot be used" in refused.err
    assert not (tmp_path / "files/results.seatrial").exists()
    assert ended(run.process, 30).code == 0


def test_a_port_needs_live_and_the_lab_has_no_page(tmp_path):
    alone = seatrial("io", "null", "--port", "0", folder=tmp_path)
    assert alone.code == 2, alone
    assert "--port is given without --live" in alone.err
    lab = seatrial("lab", "raid-sweep", "--live", folder=tmp_path)
    assert lab.code == 2, lab
    assert "--live cannot show a run of the lab" in lab.err


def test_a_comparison_says_that_one_side_was_shown(tmp_path):
    steps = ("io", "simulated", "--seconds", "0.3", "--rounds", "2", "--no-report", "--label")
    assert seatrial(*steps, "plain", folder=tmp_path).code == 0
    assert seatrial(*steps, "plain too", folder=tmp_path).code == 0
    assert seatrial(*steps, "shown", "--live", folder=tmp_path).code == 0
    words = "shown was measured with --live, the other side without"
    compared = seatrial("compare", "plain", "shown", "--tables", folder=tmp_path)
    assert words in " ".join(compared.out.split()), compared
    alike = seatrial("compare", "plain", "plain too", "--tables", folder=tmp_path)
    assert "--live" not in alike.out
