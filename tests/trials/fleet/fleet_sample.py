"""Samples of several hosts, made of the few values that matter."""

from __future__ import annotations

from seatrial._core import Histogram
from seatrial.results.fleet import ClockOffset
from seatrial.study.cell import Cell
from seatrial.trials.fleet.measure.sample import Answer, SampleRequest, merged_sample

DURATION_S = 2.0
SLICE_NS = 100_000_000


def cell_of(hosts, *, sync_every=0, **changes):
    return Cell(
        key=f"io/read/{hosts}hosts",
        target="trial",
        workload="io",
        kind="io",
        operation="read",
        block_size_bytes=4096,
        threads=4,
        factors={"pattern": "random", "hosts": hosts, **changes},
        spec={"limit": {"duration_s": DURATION_S}, "target": {"kind": "file"}}
        | {"sync_every": sync_every},
    )


def clock(offset_ns=0, bound_ns=50_000, read_at_ns=0, wall_offset_ns=0):
    return ClockOffset(
        offset_ns=offset_ns,
        bound_ns=bound_ns,
        wall_offset_ns=wall_offset_ns,
        round_trip_ns_p50=100_000,
        round_trip_ns_min=100_000,
        read_at_ns=read_at_ns,
    )


def answer(name, per_s, *, late_ns=0, before=None, after=None, cpu_share=0.1):
    """What a host returned that completed so many requests each second, evenly."""
    per_slice = int(per_s / 10)
    response = Histogram.of([1_000_000] * per_slice).encode()
    slices = [
        (index, "read", per_slice, per_slice * 4096, response) for index in range(21)
    ]  # the last one after the planned end
    completed = per_slice * 21
    return Answer(
        name=name,
        address="10.0.0.2",
        cpus=2.0,
        before=before or clock(),
        after=after or clock(read_at_ns=3_000_000_000),
        mount="server:/export nfs4 rw",
        parts={
            "engine": "psync",
            "engine_reason": "depth 1",
            "started_unix_s": 1.0,
            "duration_s": DURATION_S + 0.05,
            "status": "complete",
            "outcome": {
                "offered": completed + 1,
                "completed": completed,
                "failed": 1,
                "late_skipped": 0,
                "in_flight_at_end": 0,
            },
            "timeline": {"slice_ns": SLICE_NS, "slices": slices},
            "errors_count": 1,
            "errors": [
                {
                    "operation": "read",
                    "offset_bytes": 4096,
                    "length_bytes": 4096,
                    "errno": 5,
                    "name": "EIO",
                    "at_s": 0.5,
                }
            ],
            "stalls": [{"start_s": 0.5, "length_s": 1.0, "cause": "device"}],
            "stalls_dropped": 0,
            "oldest_in_flight_ns": 0,
            "counters": {
                "start_lateness_ns": float(late_ns),
                "cpu_user_ns": cpu_share * 2.0 * (DURATION_S + 0.05) * 1e9,
                "cpu_system_ns": 0.0,
            },
            "received_bytes_per_s": 1e6,
            "sent_bytes_per_s": 1e5,
        },
    )


def sample_of(
    answers, *, round_number=0, lost=(), on_loss="stop", planned_hosts=None, sync_every=0
):
    planned_hosts = planned_hosts or len(answers) + len(lost)
    return merged_sample(
        SampleRequest(
            cell=cell_of(planned_hosts, sync_every=sync_every),
            round_number=round_number,
            position=0,
            start_ns=5_000_000_000,
            hosts_count=planned_hosts,
            on_loss=on_loss,
            lost=list(lost),
            grown={"device_reads": 7.0},
        ),
        answers,
    )
