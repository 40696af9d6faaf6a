"""What is particular to a cell: shares that sum up to 1, figures of the running phase, tables."""

import msgspec
import pytest

from seatrial.trials.database.analysis.model import batch_length, database_of
from seatrial.units import MIB

from .hand import READ, cell_of, record_of, rounds_of, sample_of, summarised


def cell_part(*samples):
    (part,) = database_of(summarised(*samples)).cells
    return part


def reads(shared, cached, device):
    return {"reads_shared_buffers": shared, "reads_page_cache": cached, "reads_device": device}


def test_waits_are_shares_by_class_over_all_rounds():
    counts = [{"IO:WALSync": 60, "CPU": 40}, {"IO:WALSync": 100, "LWLock:WALWrite": 200}]
    part = cell_part(
        *(sample_of(round=n, record=record_of(waits=each)) for n, each in enumerate(counts))
    )
    assert part.waits == {"lwlock": 0.5, "io": 0.4, "cpu": 0.1}
    assert part.wait_events == {"LWLock:WALWrite": 0.5, "IO:WALSync": 0.4, "CPU": 0.1}


def test_reads_sum_up_to_1_and_have_intervals_over_rounds():
    rounds = [(60_000, 30_000, 10_000), (70_000, 20_000, 10_000), (80_000, 5_000, 15_000)]
    samples = [sample_of(round=n, counters=reads(*each)) for n, each in enumerate(rounds)]
    shares = cell_part(*samples).reads
    values = (shares.shared_buffers, shares.page_cache, shares.device)
    assert sum(value.value for value in values) == pytest.approx(1.0)
    assert shares.shared_buffers.value == pytest.approx(0.7)
    assert all(0 <= value.low <= value.value <= value.high <= 1 for value in values)
    assert shares.blocks == 300_000


@pytest.mark.parametrize(
    "counters",
    [{}, {"reads_shared_buffers": 90_000}, reads(500, 100, 10)],
    ids=["none", "no device", "too few"],
)
def test_reads_that_are_not_known_are_none(counters):
    assert cell_part(sample_of(counters=counters)).reads is None


def test_columns_are_those_of_the_running_phase():
    """Five seconds of a fast start are left out of the rate, and so of what goes with it."""
    rates = [400.0] * 6 + [100.0] * 24
    columns = {"device_read_per_s": [4000.0] * 6 + [1000.0] * 24}
    part = cell_part(sample_of(rates=rates, columns=columns))
    assert part.columns["device_read_per_s"].value == pytest.approx(1000.0)


def test_the_servers_own_account_of_its_io_is_reported_and_waits_are_reported_elsewhere():
    columns = {"io_vacuum_writes_per_s": [7.0] * 20, "waits_io_share": [0.5] * 20}
    part = cell_part(sample_of(columns=columns))
    assert part.columns["io_vacuum_writes_per_s"].value == pytest.approx(7.0)
    assert "waits_io_share" not in part.columns


def test_means_of_requests_weigh_what_happened_often():
    columns = {
        "device_read_latency_ms": [1.0, 9.0] * 10,
        "device_read_per_s": [900.0, 100.0] * 10,
    }
    part = cell_part(sample_of(columns=columns))
    assert part.columns["device_read_latency_ms"].value == pytest.approx(1.8)


def test_seconds_without_a_reading_are_left_out():
    part = cell_part(sample_of(columns={"device_read_per_s": [None, 10.0] * 10}))
    assert part.columns["device_read_per_s"].value == pytest.approx(10.0)


def test_processor_shares_still_sum_up_to_1():
    names = ("user", "system", "iowait", "steal", "idle")
    parts = [(0.1, 0.2, 0.3, 0.0, 0.4), (0.5, 0.3, 0.0, 0.1, 0.1), (0.2, 0.2, 0.2, 0.2, 0.2)]
    samples = [
        sample_of(
            round=n,
            columns={f"cpu_{name}_share": v for name, v in zip(names, each, strict=True)},
        )
        for n, each in enumerate(parts)
    ]
    columns = cell_part(*samples).columns
    assert sum(columns[f"cpu_{name}_share"].value for name in names) == pytest.approx(1.0)


def test_checkpoints_are_added_up_whatever_began_them():
    columns = {
        "checkpoints_timed": [0.0] * 10 + [1.0] + [0.0] * 9,
        "checkpoints_requested": [1.0] + [0.0] * 18 + [1.0],
    }
    part = cell_part(sample_of(columns=columns))
    assert part.columns["checkpoints"].value == 3.0
    assert "checkpoints_timed" not in part.columns


def test_checkpoints_and_deadlocks_are_counted_although_a_reading_is_missing():
    columns = {"checkpoints_timed": [0.0] * 8 + [None, None] + [0.0] * 10, "deadlocks": 0.0}
    counters = {"checkpoints_timed": 1.0, "deadlocks": 2.0}
    part = cell_part(sample_of(columns=columns, counters=counters))
    assert part.columns["checkpoints"].value == 1.0
    assert part.columns["deadlocks"].value == 2.0


def test_what_does_not_change_is_reported_once():
    part = cell_part(*rounds_of(cell_of(), [100.0, 101.0], record=record_of(client_cpu_share=0.2)))
    assert part.server == "PostgreSQL 15.20"
    assert part.settings == {"shared_buffers": "128MB"}
    assert part.database_bytes == 1500 * MIB
    assert part.loaded_s == 30.0
    assert part.load_bytes_per_s == 50 * MIB
    assert (part.client_cpu_share, part.ceiling_per_s) == (0.2, 50_000.0)


def test_a_batch_has_its_times():
    cell = cell_of(workload="nightly", kind="batch", operation="batch", clients=1, file="job.sql")
    record = record_of(batch_s={"real": 20.0, "user": 0.1, "sys": 0.2}, client_cpu_share=0.9)
    summary = summarised(sample_of(cell, rates=[0.0] * 19 + [1.0], record=record))
    (part,) = database_of(summary).cells
    assert part.batch_s["real"].value == 20.0
    assert "client_limited" not in [finding.kind for finding in summary.findings]


def test_a_round_in_which_a_batch_failed_is_no_time():
    cell = cell_of(workload="nightly", kind="batch", operation="batch", clients=1, file="job.sql")
    good = sample_of(cell, rates=[0.0] * 19 + [1.0], record=record_of(batch_s={"real": 20.0}))
    failed = msgspec.structs.replace(
        good,
        round=1,
        outcome=msgspec.structs.replace(good.outcome, completed=0, failed=1),
        database=record_of(batch_s={"real": 0.1}),
    )
    assert cell_part(good, failed).batch_s["real"].value == 20.0
    assert batch_length([good, failed], "real").value == 20.0


def test_the_verdict_of_a_run_reports_transactions_not_blocks():
    summary = summarised(*rounds_of(cell_of(), [100.0, 101.0, 99.0]))
    assert summary.verdict == (
        "100 tps (± 3 %) with p99 10.0 ms (± 0.4 %) at scale 100 with 10 clients, commit-bound."
    )


def test_of_several_targets_the_same_cell_is_reported():
    def of(target, scale, per_s, **rest):
        cell = cell_of(target=target, scale=scale, alone=False)
        return sample_of(cell, per_s=per_s, **rest)

    summary = summarised(
        *(of("hdd", 10, 100.0), of("hdd", 1000, 30.0, record=record_of(waits=dict(READ)))),
        *(of("ssd", 10, 900.0), of("ssd", 1000, 600.0)),
    )
    assert summary.verdict.startswith("On hdd, 30 tps")
    assert "scale 1000 with 10 clients, read-bound; on ssd, 600 tps" in summary.verdict


def test_commits_are_reported_before_reads_alone():
    quick = cell_of(scale=100, script="select-only")
    summary = summarised(sample_of(quick, per_s=900.0), sample_of(cell_of(scale=10)))
    assert summary.verdict.startswith("100 tps")


def test_durable_servers_are_reported_before_others_however_off_is_spelled():
    loose = cell_of(settings={"fsync": "false"})
    summary = summarised(sample_of(loose, per_s=900.0), sample_of(cell_of()))
    assert summary.verdict.startswith("100 tps")
