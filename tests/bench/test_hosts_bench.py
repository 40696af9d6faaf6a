"""What hosts cost is a ratio inside each round, and how far apart they start a share of samples."""

from __future__ import annotations

import hosts as bench

from seatrial.results.fleet import ClockOffset, FleetRecord, HostRecord

CLOCK = ClockOffset(
    offset_ns=0,
    bound_ns=20_000,
    wall_offset_ns=0,
    round_trip_ns_p50=50_000,
    round_trip_ns_min=40_000,
    read_at_ns=0,
)


def record(skew_ns: int, *lateness_ns: int) -> FleetRecord:
    return FleetRecord(
        hosts=[
            HostRecord(
                name=f"host{number}",
                address=f"10.0.0.{number}",
                started_ns=0,
                lateness_ns=late_ns,
                ended_ns=10**9,
                clock_before=CLOCK,
                clock_after=CLOCK,
                completed=1,
                failed=0,
                window_completed=1,
                window_bytes=0,
                responses={},
                completed_per_slice=[1],
                cpu_share=0.1,
                received_bytes_per_s=600.0,
                sent_bytes_per_s=600.0,
            )
            for number, late_ns in enumerate(lateness_ns, start=1)
        ],
        planned_hosts=len(lateness_ns),
        on_loss="stop",
        skew_ns=skew_ns,
        skew_bound_ns=40_000,
        unaligned_ns_max=40_000,
        outside_completed=0,
    )


def test_its_ratios_are_taken_inside_each_round():
    rounds = [1000.0, 2000.0, 1500.0, 3000.0, 1000.0, 1200.0]
    text = bench.section(
        bench.BenchResult(
            conditions=["- a machine"],
            per_s={
                bench.HERE: rounds,
                bench.ONE: [each * 0.9 for each in rounds],
                bench.TWO: [each * 0.81 for each in rounds],
                bench.FOUR: [each * 0.45 for each in rounds],
            },
            reads=[record(number * 100_000, 0, 0) for number in range(1, 11)],
            loaded=[record(0, -700_000_000, -900_000_000), record(6_000_000, 6_000_000, 0)],
            seed=1,
            loads=[0.5] * 6,
        )
    )
    assert "| one host / one process, rate | 0.900 (0.900 to 0.900) |" in text
    assert "| two hosts / one host, rate | 0.900 (0.900 to 0.900) |" in text
    assert "| four hosts / one host, rate | 0.500 (0.500 to 0.500) |" in text
    assert "| received by a host that reads a file, B/s | 600 (600 to 600) |" in text
    assert "| four hosts that read a file | 10 | 500 µs | 900 µs | 1.0 ms |" in text
    assert "Of 4 hosts, pgbench of 3 loaded the server by the start: the median one 350" in text
