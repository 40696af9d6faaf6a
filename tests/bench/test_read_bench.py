"""The bench of reading: its logs, and what its page says of made-up figures."""

from __future__ import annotations

import pytest
import read
import server_log

from seatrial.trials.replay.commands.read import ReadRequest, read_logs


def page(mb_per_s: float, rounds: int = 10) -> str:
    drift = [1.0, 1.5, 0.7, 1.2, 1.1] * (rounds // 5)
    cpu_s = 100 / mb_per_s

    def spent(share: float) -> list[read.ResourceUse]:
        return [
            read.ResourceUse(cpu_s=cpu_s * each, real_s=cpu_s * each * share, peak_bytes=64 << 20)
            for each in drift
        ]

    readers = [(form, who) for form in server_log.WRITERS for who in read.ON_ONE_CORE]
    shares = dict.fromkeys(readers, 1.0) | {(form, read.ALL): 0.5 for form in server_log.WRITERS}
    return read.section(
        read.BenchResult(
            conditions=["- a machine"],
            log_bytes=dict.fromkeys(server_log.WRITERS, 100_000_000),
            trace_bytes=dict.fromkeys(server_log.WRITERS, 5_000_000),
            spent={pair: spent(share) for pair, share in shares.items()},
            large=(2_000_000_000, read.ResourceUse(cpu_s=8.0, real_s=4.0, peak_bytes=100 << 20)),
            statements=400_000,
            seed=1,
            loads=[0.5] * rounds,
        )
    )


def test_a_quick_reader_meets_its_bar():
    text = page(mb_per_s=500)
    assert (
        "| csv, reading alone, MB per second of processor time | 250 | 455 (333 to 714) | met |"
        in text
    )
    assert "| csv, log to trace, real time on one core / on all | 2.00 (2.00 to 2.00) |" in text
    assert "| csv, log to trace on one core / again (the noise) | 1.000 (1.000 to 1.000) |" in text
    assert "| trace / csv | 0.125 | 0.050 |" in text
    assert "100 (500 MB/s, once)" in text


def test_a_slow_reader_misses_it():
    row = "| json, reading alone, MB per second of processor time | 250 | 91 (67 to 143) | missed |"
    assert row in page(100)


@pytest.mark.parametrize("log_format", server_log.WRITERS)
def test_its_logs_are_understood_in_full(tmp_path, log_format):
    log = tmp_path / "a.log"
    server_log.write_log(log, log_format, 700)
    reading = read_logs(ReadRequest(logs=(log,), output=tmp_path / "a.trace"), quiet=True)
    assert reading.files[0].format == log_format
    assert reading.accounting.executable == 700
    assert reading.accounting.unreadable == {}
    assert reading.session_count == server_log.SESSIONS
