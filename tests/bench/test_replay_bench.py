"""The bench of playing: what its page says of made-up figures."""

from __future__ import annotations

import replay_page
import replay_parts
from replay_page import AGAIN, MODES, PGBENCH, SEATRIAL
from replay_server import ResourceUse

from seatrial.results.replay import ReplayLag

DRIFT = [1.0, 1.5, 0.7, 1.2, 1.1] * 2
LAG = {"late_by_order": 0, "late_by_connections": 10, "late_by_driver": 5}


def spent(
    slowness: float, cpu_us: float, reported: dict[str, object] | None = None
) -> list[ResourceUse]:
    return [
        ResourceUse(
            statements=100_000,
            duration_s=5 * slowness * drift,
            cpu_user_s=cpu_us * drift / 40,
            cpu_system_s=3 * cpu_us * drift / 40,
            reported=reported or {},
        )
        for drift in DRIFT
    ]


def page(
    slowness: float,
    cpu_us: float,
    *,
    late: int = 0,
    grown_bytes: int = 9_000_000,
    parts: dict[str, dict[str, float]] | None = None,
) -> str:
    lag = {**LAG, "paced": 10_000, "within_1ms": 9_985 - late, "late_by_session": late}
    contenders = {SEATRIAL: (slowness, cpu_us), PGBENCH: (1.0, 10.0), AGAIN: (1.0, 10.0)}
    return replay_page.section(
        replay_page.BenchResult(
            conditions=["- a machine"],
            counts={"simple": 100_000, "prepared": 100_000, "mixed": 1_000_000},
            spent={(mode, who): spent(*of) for mode in MODES for who, of in contenders.items()},
            lags=[lag] * len(DRIFT),
            mixed=spent(20 * slowness, 12, {"grown_bytes": grown_bytes})[0],
            command_s=12.0,
            pgreplay={"simple": spent(4.0, 90.0)[0], "prepared": "not ended after 120 s"},
            parts={PGBENCH: {}, SEATRIAL: {}} if parts is None else parts,
            calls={PGBENCH: {}, SEATRIAL: {}},
            seed=1,
            loads=[0.5] * len(DRIFT),
        )
    )


def test_a_quick_and_cheap_driver_meets_its_bars():
    text = page(slowness=0.9, cpu_us=6.0)
    assert text.count("| met |") == 2 * len(MODES) + 1 + 2
    assert (
        "| simple, rate, seatrial / pgbench | 0.95 at least | 1.111 (1.111 to 1.111) | met |"
        in text
    )
    assert "| prepared, processor time, pgbench again / pgbench |  | 1.000 (1.000 to 1.000)" in text
    assert "| prepared, seatrial | 20,202 (14,815 to 31,746) | 1.7 (1.0 to 2.2) " in text
    assert "5,000/s, 90 µs each; seatrial is 4.0 (3.0 to 6.3) times as fast" in text
    assert "| pgreplay, the same reads, prepared |  | not ended after 120 s |" in text


def test_a_slow_dear_late_and_large_one_misses_them():
    text = page(slowness=1.9, cpu_us=9.0, late=200, grown_bytes=17_000_000)
    assert text.count("| missed |") == 2 * len(MODES) + 1 + 2
    assert "| paced, % sent within 1 ms of due | 99 | 97.85 (97.85 to 97.85) | missed |" in text
    assert "| its session was still busy | 2.00 (2.00 to 2.00) |" in text


def test_where_the_time_goes_is_shown_where_it_was_watched():
    assert "by samples" not in page(1.0, 8.0)
    shares = {replay_parts.CLIENT: 0.25, replay_parts.SEND: 0.75}
    text = page(1.0, 8.0, parts={PGBENCH: shares, SEATRIAL: {replay_parts.CLIENT: 1.0}})
    assert "| the client itself | 2.75 | 8.80 |" in text
    assert "| to send: all else | 8.25 | 0.00 |" in text
    assert "kernel time alone / pgbench's processor time |  | 0.600 (0.600 to 0.600)" in text


SAMPLES = """playback
\tffffffff81a0b1c2 _raw_spin_unlock_irqrestore
\tffffffffa1b2c3d4 sock_def_readable
\tffffffffa1b2c3d5 __x64_sys_sendto
\t    7f1122334455 __send

playback
\tffffffffa1b2c3d5 __schedule
\tffffffffa1b2c3d6 schedule
\tffffffffa1b2c3d7 do_epoll_wait
\tffffffffa1b2c3d8 __x64_sys_epoll_pwait

playback
\t    7f1122334455 seatrial_playback::drive::run::Run::wait
\tffffffffa1b2c3d8 [unknown]

playback-reader
\t    7f1122334455 seatrial_trace::reader::Statements::next_statement

python
\t    7f1122334455 _PyEval_EvalFrameDefault
"""


def test_samples_are_counted_to_what_was_under_way():
    parts = [replay_parts.WAKE, replay_parts.SLEEP, replay_parts.CLIENT, replay_parts.READING]
    assert replay_parts.parts_of(SAMPLES) == dict.fromkeys(parts, 0.25)
    assert replay_parts.parts_of("") == {}


def test_system_calls_are_counted_for_each_statement():
    printed = [
        "% time     seconds  usecs/call     calls    errors syscall",
        " 74.76    3.759778        1003      3745       330 futex",
        " 15.13    0.760779           7    100020           sendto",
        "  0.12    0.006168          14       428           fcntl",
        "100.00    5.029086                 238924       407 total",
    ]
    calls = replay_parts.calls_of(printed, 100_000)
    assert calls == {"sendto": 1.0002, "futex": 0.03745}


def test_what_a_replay_is_reported_by_is_what_the_engine_reports():
    """The names that the page looks for are those of the record."""
    assert {*replay_page.LATE_BY, "paced", "within_1ms"} <= set(ReplayLag.__struct_fields__)
