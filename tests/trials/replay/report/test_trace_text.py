"""What ``seatrial sql`` prints, of made-up readings and traces."""

from __future__ import annotations

import msgspec
import pytest

from seatrial.trials.replay.reading import Accounting, LogFile, Reading, Split, Unreadable
from seatrial.trials.replay.report.trace_text import (
    COLUMNS_MAX,
    bars,
    column_length_s,
    columns,
    reading_text,
    span_text,
    split_text,
    timeline_text,
)
from seatrial.trials.replay.trace import Slice, Timeline

AT = 1_795_262_400.0  # 2026-11-21 12:00 UTC
ACCOUNTING = Accounting(
    records=1_010,
    statements=700,
    joined=200,
    sessions=16,
    others=90,
    unreadable={"torn": 1, "no_prefix": 3},
    executable=690,
    skipped={"copy_data": 10},
)
READING = Reading(
    trace="prod.trace",
    trace_bytes=20 << 10,
    is_masked=False,
    took_s=0.5,
    files=[
        LogFile(
            path="a.log.gz",
            size_bytes=50 << 10,
            log_bytes=200 << 10,
            format="stderr",
            prefix="%m [%p] ",
            is_guessed=True,
        )
    ],
    accounting=ACCOUNTING,
    unreadable=[
        Unreadable(reason="torn", file="a.log.gz", line=1_009, offset_bytes=204_000, text="SELE")
    ],
    notes=["The zone XYZT is not known; its times are taken as UTC."],
    session_count=8,
    started_at=AT,
    ended_at=AT + 90,
    split=None,
)


def test_a_reading_reports_what_it_read_and_where_all_of_it_went():
    text = reading_text(READING)
    lines = text.splitlines()
    assert (
        "1,010 records = 700 statements + 200 joined + 16 sessions + 90 others + 4 unreadable"
        in lines
    )
    assert "700 statements = 690 executable + 10 skipped" in lines
    assert any("a.log.gz" in line and "'%m [%p] '" in line and "content" in line for line in lines)
    assert " ! torn, in a.log.gz, line 1,009: 'SELE'" in lines
    assert "The zone XYZT is not known; its times are taken as UTC." in lines
    assert "2026-11-21 12:00 UTC to 12:01 UTC, 1 min 30 s" in text
    assert "20 KiB, 10 % of the log, with all literals and parameters as logged" in text
    assert "statements that cannot be replayed: copy data" in text


def test_a_masked_reading_and_a_split_say_so():
    split = Split(streams=8, transactions=600, pinned=5, alone=2, steps=100)
    text = reading_text(msgspec.structs.replace(READING, is_masked=True, split=split))
    text = " ".join(text.split())
    assert "10 % of the log, masked" in text
    assert "8 for 600 transactions; 700 statements in 100 steps" in text
    assert "5 in the first, as they depend on session state; 2 alone" in text


def test_streams_of_a_log_with_times_are_reported_by_how_they_were_found():
    split = Split(streams=3, transactions=9, pinned=0, alone=0, steps=None)
    assert split_text(split, 9) == "3 for 9 transactions; none earlier than in the log"
    measured = msgspec.structs.replace(split, is_measured=True, crowded=2)
    reported = split_text(measured, 9)
    assert reported.startswith("3 for 9 transactions; the concurrency measured")
    assert reported.endswith("2 statements overlap the previous one of their stream")


def test_nothing_read_is_reported_without_figures_of_nothing():
    empty = msgspec.structs.replace(
        READING,
        accounting=Accounting(
            records=0,
            statements=0,
            joined=0,
            sessions=0,
            others=0,
            unreadable={},
            executable=0,
            skipped={},
        ),
        unreadable=[],
        started_at=None,
        ended_at=None,
    )
    text = reading_text(empty)
    assert "0 records = 0 statements" in text
    assert "time " not in text


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"records": 1_011}, "1011 records, of which 1010 are accounted for"),
        ({"skipped": {}}, "700 statements, of which 690 are accounted for"),
        ({}, None),
    ],
)
def test_an_accounting_knows_whether_it_holds(changed, fault):
    faults = msgspec.structs.replace(ACCOUNTING, **changed).faults()
    assert faults == ([fault] if fault else [])


def test_bars_are_as_high_as_their_share():
    assert bars([0, 1, 4, 8]) == " ▂▅█"
    assert bars([]) == ""
    assert bars([0, 0]) == "  "


def test_spans_of_seconds_and_of_days():
    assert span_text(AT, AT + 2) == "2026-11-21 12:00:00 UTC, 2.0 s"
    assert span_text(AT, AT + 86_400).startswith("2026-11-21 12:00 UTC to 2026-11-22 12:00 UTC")


def timeline(seconds: int, slice_s: int = 1) -> Timeline:
    """A statement a second, and as many sessions as the slice's place in ten."""
    starts_us = [int(AT * 1e6) + place * slice_s * 1_000_000 for place in range(seconds // slice_s)]
    return Timeline(
        slice_s=slice_s,
        slices=[
            Slice(start_us=start_us, statements=slice_s, sessions_max=place % 10)
            for place, start_us in enumerate(starts_us)
        ],
    )


@pytest.mark.parametrize(
    ("seconds", "slice_s", "column_s"),
    [
        (40, 1, 1),
        (100, 1, 2),
        (600, 1, 60),
        (3_500, 1, 60),
        (7_200, 2, 300),
        (86_400, 32, 1_800),
        (400 * 86_400, 16_384, 7 * 86_400),
    ],
)
def test_a_timeline_has_columns_of_minutes_and_not_too_many(seconds, slice_s, column_s):
    found = timeline(seconds, slice_s)
    assert column_length_s(found) == column_s
    statements, sessions = columns(found, column_s)
    assert sum(statements) == seconds // slice_s * slice_s
    assert 1 < len(statements) <= COLUMNS_MAX
    assert max(sessions) == 9


def test_a_timeline_is_reported_minute_by_minute():
    text = timeline_text(timeline(600))
    assert "From 2026-11-21 12:00 UTC on, a column every minute" in text
    assert "▕██████████▏" in text
    assert timeline_text(timeline(1)) == ""
