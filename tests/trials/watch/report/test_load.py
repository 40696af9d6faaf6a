"""What a load is called, and what is said of it: each sentence where it is due, and only there."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from seatrial.trials.watch.analysis.activity import Losses
from seatrial.trials.watch.analysis.load.profile import BreakdownRow, LoadProfile, load_of
from seatrial.trials.watch.recording import ADDRESS, TIME, RecordingMetadata
from seatrial.trials.watch.report.load_figures import load_figures
from seatrial.trials.watch.report.load_phrases import doubts, kind_line, notable
from seatrial.trials.watch.report.load_text import load_tables, load_text
from trials.watch.recordings import FLUSH, READ, WRITE, recording

COUNT = 6000
RANDOM = np.random.default_rng(11)
TIMES = np.sort(RANDOM.integers(0, 60 * 10**9, COUNT))


def about(**changes: object) -> RecordingMetadata:
    known = {"version": 1, "began_at_s": 0.0, "seconds": 60.0, "source": "test", "devices": ()}
    return RecordingMetadata(**{**known, **changes})


def random_reads(**columns: object) -> LoadProfile:
    offsets = RANDOM.integers(0, 1 << 20, COUNT) * 8192
    given = {"arrived_ns": TIMES, "offset_bytes": offsets, "length_bytes": [8192] * COUNT}
    return load_of(recording(seconds=60.0, **{**given, **columns}))


def said(load: LoadProfile) -> str:
    return " ".join(notable(load))


def test_a_load_is_named_by_shares_order_and_sizes():
    assert kind_line(random_reads()) == "Random reads of 8 KiB, 100 requests/s."
    operation = np.where(np.arange(COUNT) % 4 == 0, WRITE, READ)
    offsets = np.where(
        operation == WRITE, np.arange(COUNT) * 1024, RANDOM.integers(1, 99999, COUNT) << 20
    )
    lengths = np.where(operation == WRITE, 4096, 8192)
    mixed = random_reads(operation=operation, offset_bytes=offsets, length_bytes=lengths)
    line = kind_line(mixed)
    assert line == "75 % random reads of 8 KiB and 25 % sequential writes of 4 KiB, 100 requests/s."
    assert "of the writes begin where one of the previous 16 ended" in said(mixed)
    several = random_reads(length_bytes=RANDOM.choice([4096, 8192, 16384], COUNT))
    assert "reads of 4 KiB to 16 KiB" in kind_line(several)
    flushes = random_reads(operation=[FLUSH] * COUNT, length_bytes=[0] * COUNT)
    assert kind_line(flushes) == "Only flushes, 100 requests/s."
    assert kind_line(load_of(recording(arrived_ns=[]))) == "No requests."


def test_skew_reuse_and_bursts_are_said_where_they_are():
    plain = said(random_reads())
    assert "Hardly any reuse" in plain
    assert "Arrivals vary as by chance" in plain
    assert "Skewed" not in plain
    hot = said(random_reads(offset_bytes=RANDOM.zipf(1.6, COUNT) % 3000 * 8192))
    assert "Skewed: 10 % of the accessed blocks" in hot
    assert "least recently used" in hot
    bursts = said(random_reads(arrived_ns=TIMES // 10**9 * 10**9 + TIMES % 10**6))
    assert "Bursts: in windows of " in bursts
    steady = said(random_reads(arrived_ns=np.arange(COUNT) * 10**7))
    assert "Steady: " in steady


def test_latencies_failures_and_flushes_are_said_where_they_are():
    slow = np.where(np.arange(COUNT) % 50 == 0, 9_000_000, 100_000)
    tail = said(random_reads(device_ns=slow))
    assert "1 % take 9.0 ms or more, up to 9.0 ms" in tail
    assert "In flight: 0.028 requests on average" in tail
    assert "Long tail" not in said(random_reads(device_ns=[100_000] * COUNT))
    failed = random_reads(failed=[True, *[False] * (COUNT - 1)])
    assert "1 request failed." in said(failed)
    operation = np.where(np.arange(COUNT) % 5 == 0, FLUSH, WRITE)
    assert "One flush per 4 writes." in said(random_reads(operation=operation))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lost": Losses(unmatched=2, unrecorded=1)}, "1 request not assigned or recorded"),
        ({"lost": Losses(unseen_bytes=4096)}, "4 KiB of the transfers in the disks' own counters"),
        ({"lost": Losses(missed=1)}, "1 event not handed over"),
        ({"is_cut_off": True}, "The end of the recording is missing."),
        ({"knows_device": False}, "Unknown in test: the latency."),
        ({"knows_sync": False, "knows_process": False}, "whether a process waits, the process."),
        ({"made_up": (TIME,)}, "Times are synthetic"),
        ({"made_up": (ADDRESS,)}, "Addresses are synthetic"),
    ],
)
def test_what_limits_it_is_said(changes: dict[str, object], words: str):
    assert words in " ".join(doubts(random_reads(), about(**changes)))


def test_nothing_limits_a_long_recording_of_which_all_is_known():
    assert doubts(random_reads(), about()) == []


def test_a_block_of_no_known_file_is_not_mapped_as_in_a_watch():
    rows = [
        BreakdownRow(name=name, reads=5, writes=0, transferred_bytes=40960, latency_ns_p99=None)
        for name in ("", "public.t")
    ]
    load = msgspec.structs.replace(random_reads(), relations=rows, processes=rows)
    tables = {each.id: each.rows[0][0] for each in load_tables(load)}
    assert tables["load-relation"] == "not mapped"
    assert tables["load-process"] == "unknown"


@pytest.mark.parametrize(("name", "words"), [("", "not mapped"), ("other programs",) * 2])
def test_the_largest_relation_is_named_with_what_is_larger(name: str, words: str):
    rows = [
        BreakdownRow(name=of, reads=reads, writes=0, transferred_bytes=1, latency_ns_p99=None)
        for of, reads in ((name, 99), ("public.t", 1))
    ]
    text = load_text(msgspec.structs.replace(random_reads(), relations=rows), about(), "Go on.")
    assert f"1 % of the reads are of public.t ({words}: 99 %)." in " ".join(text.split())


def test_the_first_25_lines_have_kind_confidence_and_next_step():
    load = random_reads(device_ns=RANDOM.integers(50_000, 5_000_000, COUNT))
    first = "\n".join(load_text(load, about(), "Go on.").splitlines()[:25])
    for words in ("Random reads of 8 KiB", "Confidence: 6,000 requests", "Next: Go on."):
        assert words in first


def test_every_chart_has_its_numbers_in_a_table():
    recorded = recording(
        seconds=60.0,
        arrived_ns=TIMES,
        offset_bytes=RANDOM.integers(0, 5000, COUNT) * 8192,
        device_ns=RANDOM.integers(50_000, 5_000_000, COUNT),
        operation=RANDOM.integers(0, 2, COUNT),
        process=np.arange(COUNT) % 2,
        processes=("a (1)", "b (2)"),
    )
    load = load_of(recorded)
    tables = {f"table-{each.id}" for each in load_tables(load)}
    figures = load_figures(load, recorded)
    assert {each.id for each in figures} == {
        *("load-heat", "load-over-time", "load-reuse", "load-sizes", "load-process"),
    }
    assert {each.table for each in figures} <= tables
    heat = next(each.views[0].heat for each in figures if each.id == "load-heat")
    assert heat is not None
    counted = sum(sum(column.counts) for column in heat.samples[0].columns)
    assert counted == COUNT
