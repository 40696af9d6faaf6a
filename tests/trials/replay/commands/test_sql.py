"""``seatrial sql``: read and show as a user runs them; what is refused, and what is left behind."""

from __future__ import annotations

import gzip
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.command import ended, seatrial, start
from report.json_schema import assert_published
from seatrial.errors import RefusedError, UsageError
from seatrial.trials.replay.commands.read import ReadRequest, read_logs
from seatrial.trials.replay.reading import Reading
from seatrial.trials.replay.report.trace_text import trace_text
from seatrial.trials.replay.trace import read_trace

HEAD = "2026-11-21 12:00:{second:02}.000 UTC"
LINES = (
    HEAD + " [7] me@db LOG:  statement: BEGIN",
    HEAD + " [7] me@db LOG:  statement: UPDATE t SET x = {second} WHERE secret = 'salt'",
    HEAD + " [7] me@db ERROR:  division by zero",
    HEAD + " [7] me@db STATEMENT:  SELECT 1/0",
    HEAD + " [7] me@db LOG:  statement: ROLLBACK",
    HEAD + " [8] me@db LOG:  duration: 3.000 ms  statement: SELECT * FROM t",
    HEAD + " [9] LOG:  checkpoint starting: time",
)
NUMBER = 7_575_757_575_757_575_757
REPORTED = {"statements": 5, "joined": 0, "sessions": 0, "others": 1, "records": 6}


def log_text(times: int = 1) -> str:
    return "".join(
        line.format(second=second % 60) + "\n" for second in range(times) for line in LINES
    )


@pytest.fixture
def log(tmp_path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(log_text())
    return path


def traces(folder: Path) -> list[str]:
    """Whatever a command left there of a trace, whole or half."""
    return sorted(path.name for path in folder.iterdir() if "trace" in path.name)


def assert_as_published(document: dict) -> None:
    assert_published(document)


def test_a_log_is_read_and_shown(log, tmp_path):
    read = seatrial("sql", "read", log, "-o", "a.trace", folder=tmp_path)
    assert read.code == 0, read.err
    assert "6 records = 5 statements + 0 joined + 0 sessions + 1 others + 0 unreadable" in read.out
    assert "5 statements = 5 executable + 0 skipped" in read.out
    assert "'%m [%p] %q%u@%d '" in read.out
    assert re.search(r"^Next:  \S*seatrial sql show a\.trace$", read.out, re.MULTILINE)
    assert read.err == ""
    shown = seatrial("sql", "show", "a.trace", folder=tmp_path)
    assert shown.code == 0, shown.err
    assert "at most 2 open concurrently" in shown.out
    assert "update t set x = $1" in shown.out
    assert "5 statements = 5 executable + 0 skipped" in shown.out
    assert "salt" not in shown.out


def test_the_servers_own_number_is_found_below_its_data_directory(log, tmp_path):
    data = tmp_path / "data"
    (data / "global").mkdir(parents=True)
    (data / "log").mkdir()
    (data / "PG_VERSION").write_text("15")
    control = NUMBER.to_bytes(8, sys.byteorder) + bytes(8184)
    (data / "global" / "pg_control").write_bytes(control)
    inside = log.rename(data / "log" / "server.log")
    found = read_logs(ReadRequest(logs=(inside,), output=tmp_path / "a.trace"), quiet=True)
    assert found.system_identifier == NUMBER
    assert f"server        {NUMBER}; a replay is never sent there" in trace_text(
        read_trace(tmp_path / "a.trace", top=1)
    )
    (data / "global" / "pg_control").unlink()
    unknown = read_logs(ReadRequest(logs=(inside,), output=tmp_path / "b.trace"), quiet=True)
    assert unknown.system_identifier is None


def test_the_servers_own_number_can_be_reported(log, tmp_path):
    reported = seatrial(
        *("sql", "read", log, "-o", "a.trace", "--system-identifier", str(NUMBER)), folder=tmp_path
    )
    assert reported.code == 0, reported.err
    assert f"server    {NUMBER}; a replay is never sent there" in reported.out


def test_both_documents_are_as_published(log, tmp_path):
    read = seatrial("sql", "read", log, "-o", "a.trace", "--json", folder=tmp_path).document
    assert_as_published(read)
    assert {name: read["accounting"][name] for name in REPORTED} == REPORTED
    assert read["files"][0]["is_guessed"] is True
    shown = seatrial("sql", "show", "a.trace", "--json", folder=tmp_path).document
    assert_as_published(shown)
    assert shown["counts"]["statements"] == 5
    assert shown["origin"]["accounting"] == read["accounting"]
    assert shown["errors"] == {"?????": 1}
    assert shown["timed"] == 1
    assert shown["total_s"] == pytest.approx(0.003)
    calls = sum(query["calls"] for query in shown["queries"])
    assert calls + shown["rest"]["calls"] == 5


def test_top_bounds_the_queries_and_the_rest_is_reported(log, tmp_path):
    read(log, tmp_path / "a.trace")
    document = seatrial("sql", "show", "a.trace", "--top", "1", "--json", folder=tmp_path).document
    assert len(document["queries"]) == 1
    assert document["rest"]["calls"] == 5 - document["queries"][0]["calls"]
    none = seatrial("sql", "show", "a.trace", "--top", "0", folder=tmp_path)
    assert none.code == 0
    assert "queries by" not in none.out


def test_a_masked_trace_holds_no_value(log, tmp_path):
    read = seatrial("sql", "read", log, "-o", "a.trace", "--mask", folder=tmp_path)
    assert read.code == 0, read.err
    assert "masked" in read.out
    assert b"salt" not in (tmp_path / "a.trace").read_bytes()
    assert "literals and parameters masked" in " ".join(
        seatrial("sql", "show", "a.trace", folder=tmp_path).out.split()
    )


def test_packed_and_rotated_files_are_one_log(tmp_path):
    text = log_text(4)
    lines = text.splitlines(keepends=True)
    half = len(lines) // 2
    (tmp_path / "2.log").write_text("".join(lines[half:]))
    (tmp_path / "1.log.gz").write_bytes(gzip.compress("".join(lines[:half]).encode()))
    document = seatrial(
        "sql", "read", "2.log", "1.log.gz", "-o", "a.trace", "--json", folder=tmp_path
    ).document
    assert [file["path"] for file in document["files"]] == ["1.log.gz", "2.log"]
    assert document["accounting"]["statements"] == 4 * REPORTED["statements"]
    assert document["log_bytes"] == len(text)


def test_standard_input_is_read(log, tmp_path):
    document = subprocess.run(
        [Path(sys.executable).with_name("seatrial"), "sql", "read", "-", "-o", "a.trace"],
        cwd=tmp_path,
        input=log.read_bytes(),
        capture_output=True,
        check=True,
    )
    assert b"5 statements = 5 executable" in document.stdout


def test_a_file_of_sql_is_split(tmp_path):
    (tmp_path / "a.sql").write_text("INSERT INTO a VALUES (1);\nSELECT 1 FROM b;\nSELECT 2 FROM a;")
    document = seatrial(
        "sql", "read", "a.sql", "-o", "a.trace", "--sessions", "2", "--json", folder=tmp_path
    ).document
    assert document["split"] == {
        "streams": 2, "transactions": 3, "pinned": 0, "alone": 0, "steps": 2,
        "is_measured": False, "crowded": 0,
    }  # fmt: skip
    assert document["started_at"] is None
    shown = seatrial("sql", "show", "a.trace", "--json", folder=tmp_path).document
    assert_as_published(shown)
    assert shown["slices"] == []


def test_made_up_times_are_not_published(tmp_path):
    (tmp_path / "a.sql").write_text("BEGIN;\nSELECT 1;\nCOMMIT;\nSELECT 2;\n")
    read(tmp_path / "a.sql", tmp_path / "a.trace")
    trace = read_trace(tmp_path / "a.trace", top=1)
    assert trace.mix.first_us is not None
    assert trace.mix.transactions.length.entries == 1
    shown = seatrial("sql", "show", "a.trace", "--json", folder=tmp_path).document
    times = ("started_at", "ended_at", "running_mean", "busiest_minute")
    assert [shown[name] for name in times] == [None] * len(times)
    assert shown["transactions"]["length_ns"] is None


def test_the_concurrency_of_a_log_without_sessions_is_measured(tmp_path):
    lines = [
        f"2026-11-21 12:00:00.{at_ms} UTC LOG:  duration: {took_ms}.000 ms  statement: SELECT 1"
        for at_ms, took_ms in [(100, 50), (120, 90), (130, 10), (900, 5)]
    ]
    (tmp_path / "a.log").write_text("".join(f"{line}\n" for line in lines))
    command = ("sql", "read", "a.log", "-o", "a.trace")
    text = seatrial(*command, folder=tmp_path).out
    assert "streams   2 for 4 transactions; the concurrency measured" in text
    assert "as many as were active at once" in " ".join(text.split())
    again = (*command, "--sessions", "1", "--force", "--json")
    document = seatrial(*again, folder=tmp_path).document
    assert_as_published(document)
    assert document["session_count"] == 1
    assert document["split"] == {
        "streams": 1, "transactions": 4, "pinned": 0, "alone": 0, "steps": None,
        "is_measured": True, "crowded": 1,
    }  # fmt: skip


def read(log: Path, output: Path, **wanted: Any) -> Reading:
    """Read in this process, which is quicker than a command of its own."""
    return read_logs(ReadRequest(logs=(log,), output=output, **wanted), quiet=True)


REFUSED = [
    pytest.param({}, b"", "pg_current_logfile", id="empty"),
    pytest.param({}, b"a poem\nof two lines\n", "--prefix", id="no-log"),
    pytest.param({}, b"\x7fELF\x00\x01\x02\xff\xfe\xfd", "it is not text", id="binary"),
    pytest.param({"prefix": "%t [%p]: "}, None, "--prefix '%m [%p] %q%u@%d '", id="prefix"),
    pytest.param({"log_format": "json"}, None, "no record of the format json", id="format"),
    pytest.param({"log_format": "csv", "prefix": "%m "}, None, "Only plain logs", id="both"),
    pytest.param({"sessions": 4}, None, "identifies its sessions", id="sessions"),
]


@pytest.mark.parametrize(("wanted", "content", "words"), REFUSED)
def test_what_cannot_be_read_is_refused_and_leaves_nothing(log, tmp_path, wanted, content, words):
    if content is not None:
        log.write_bytes(content)
    with pytest.raises(UsageError, match=re.escape(words)):
        read(log, tmp_path / "a.trace", **wanted)
    assert traces(tmp_path) == []


def test_a_trace_cannot_be_written_to_a_folder_that_is_not_there(log, tmp_path):
    with pytest.raises(UsageError, match="cannot be written"):
        read(log, tmp_path / "nowhere/a.trace")


def test_a_refusal_on_the_command_line(log, tmp_path):
    log.write_text("a poem\n")
    reported = seatrial("sql", "read", log, "-o", "a.trace", folder=tmp_path)
    assert (reported.code, reported.out) == (2, "")
    assert "begins with" in reported.err
    reported = seatrial("sql", "read", log, "-o", "a.trace", "--json", folder=tmp_path)
    assert reported.document["error"] == "UsageError"


def test_a_log_that_is_closed_to_the_user_is_reported(log, tmp_path):
    log.chmod(0)
    # Root reads everything, unless it gives up the right to.
    give_up = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    prefix = give_up if os.geteuid() == 0 else ()
    reported = seatrial("sql", "read", log, "-o", "a.trace", folder=tmp_path, prefix=prefix)
    assert reported.code == 2
    assert "sudo cat" in reported.err
    assert traces(tmp_path) == []


def test_an_existing_file_is_replaced_only_if_it_is_a_trace_and_meant(log, tmp_path):
    trace, diary = tmp_path / "a.trace", tmp_path / "diary.txt"
    read(log, trace)
    before = trace.read_bytes()
    with pytest.raises(RefusedError, match="--force"):
        read(log, trace)
    assert trace.read_bytes() == before
    assert read(log, trace, force=True).accounting.statements == REPORTED["statements"]
    diary.write_text("mine")
    with pytest.raises(RefusedError, match="is not a trace"):
        read(log, diary, force=True)
    assert diary.read_text() == "mine"
    with pytest.raises(RefusedError, match="one of the logs"):
        read(log, log, force=True)
    assert log.read_text() == log_text()
    with pytest.raises(RefusedError, match="not an ordinary file"):
        read(log, Path("/dev/null"), force=True)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a trace"),
        (b"no trace at all, but long enough to be a file of its own", "is not a trace"),
        (None, "cannot be opened"),
    ],
)
def test_what_is_no_trace_is_not_shown(tmp_path, content, words):
    trace = tmp_path / "a.trace"
    if content is not None:
        trace.write_bytes(content)
    with pytest.raises(UsageError, match=words):
        read_trace(trace, top=1)


def test_a_trace_that_was_cut_off_is_refused(log, tmp_path):
    trace = tmp_path / "a.trace"
    read(log, trace)
    whole = trace.read_bytes()
    trace.write_bytes(whole[: len(whole) // 2])
    reported = seatrial("sql", "show", trace, "--json", folder=tmp_path)
    assert reported.code == 2
    assert reported.document["error"] == "UsageError"
    assert "seatrial sql read" in reported.document["next"]


@pytest.fixture
def long_log(tmp_path) -> Path:
    """A log that takes some seconds to read."""
    path = tmp_path / "long.log"
    part = log_text(60) * 100
    with path.open("w") as file:
        for _ in range(40):
            file.write(part)
    return path


def test_who_interrupts_it_leaves_nothing(long_log, tmp_path):
    process = start("sql", "read", long_log, "-o", "a.trace", folder=tmp_path)
    give_up_at_s = time.monotonic() + 30
    while not traces(tmp_path):
        assert time.monotonic() < give_up_at_s, "it never began to write"
        assert process.poll() is None, "it ended before it was interrupted"
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    reported = ended(process)
    assert reported.code == 4
    assert "Interrupted" in reported.err
    assert traces(tmp_path) == []


def test_a_file_that_may_not_grow_is_reported_and_leaves_nothing(log, tmp_path):
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))

    reported = ended(start("sql", "read", log, "-o", "a.trace", folder=tmp_path, preexec_fn=limit))
    assert reported.code == 2
    assert "cannot be written" in reported.err
    assert traces(tmp_path) == []


@pytest.mark.root
def test_a_full_disk_is_reported_and_leaves_nothing(long_log, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs root and a kernel that mounts a tmpfs here")
    try:
        reported = seatrial("sql", "read", long_log, "-o", small / "a.trace", folder=tmp_path)
        left = traces(small)
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert reported.code == 8
    assert "Its disk is full" in reported.err
    assert left == []
