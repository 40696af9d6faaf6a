"""Each finding of a database: just above its bound, not below, and never of other cells."""

import re

import pytest

from seatrial.findings.registry import (
    kinds,
)
from seatrial.study.units import parse_size_bytes
from seatrial.trials.database.analysis.model import database_of
from seatrial.trials.database.report.tables import sweep_tables
from seatrial.units import GIB, MIB
from stats.builders import cell_of as io_cell_of
from stats.builders import error_of, stall_of
from stats.builders import sample_of as io_sample_of

from .hand import (
    COMMIT,
    LOCK,
    MACHINE,
    READ,
    cell_of,
    kinds_of,
    only,
    record_of,
    rounds_of,
    sample_of,
    summarised,
)

OF_DATABASES = {
    *("database_bound", "durability_off", "client_limited", "checkpoint_dips"),
    *("lock_contention", "reads_from_cache", "cache_size", "observer_missing"),
}


def test_a_plain_run_has_its_bound_and_nothing_to_complain_of():
    summary = summarised(*rounds_of(cell_of(), [100.0, 101.0, 99.0]))
    assert kinds_of(summary) == ["database_bound"]
    assert database_of(summary).cells[0].verdict.bound == "commit"


def test_cells_that_agree_are_one_finding():
    cells = [cell_of(scale=scale) for scale in (100, 1000)]
    summary = summarised(
        sample_of(cells[0]), sample_of(cells[1], record=record_of(waits={"IO:WALSync": 1000}))
    )
    found = only(summary, "database_bound")
    assert found.severity == "note"
    assert len(found.cells) == 2
    assert found.sentence.startswith("pgbench: 10 clients, scale 1000: Commit-bound: 95 %")
    assert found.sentence.endswith("The same holds for 1 other test on this target.")


def test_cells_that_do_not_agree_are_distinguished():
    cells = [cell_of(scale=scale) for scale in (100, 1000)]
    summary = summarised(
        sample_of(cells[0]), sample_of(cells[1], record=record_of(waits=dict(READ)))
    )
    bounds = [f.evidence["bound"] for f in summary.findings if f.kind == "database_bound"]
    assert sorted(bounds) == ["commit", "read"]


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"fsync": "off"}, "critical"),
        ({"full_page_writes": "off"}, "warning"),
        ({"synchronous_commit": "off"}, "warning"),
        ({"synchronous_commit": "local", "synchronous_standby_names": "s1"}, "warning"),
    ],
    ids=str,
)
def test_durability_that_is_off_is_reported(settings, severity):
    found = only(summarised(sample_of(record=record_of(settings=settings))), "durability_off")
    name, value = next(iter(settings.items()))
    assert found.severity == severity
    assert f"{name} is {value}" in found.sentence


@pytest.mark.parametrize(
    "settings",
    [{}, {"fsync": "on"}, *({"synchronous_commit": each} for each in ("remote_apply", "local"))],
    ids=str,
)
def test_durability_that_is_on_is_not(settings):
    summary = summarised(sample_of(record=record_of(settings=settings)))
    assert "durability_off" not in kinds_of(summary)


def test_a_driver_above_70_percent_of_a_core_is_reported():
    record = record_of(client_cpu_share=0.71)
    found = only(summarised(sample_of(record=record)), "client_limited")
    assert (
        "the driver's busiest thread used up to 71 % of a core. The rate is a lower bound"
        in found.sentence
    )
    below = summarised(sample_of(record=record_of(client_cpu_share=0.7)))
    assert "client_limited" not in kinds_of(below)


def test_a_driver_above_70_percent_of_its_ceiling_is_reported():
    found = only(
        summarised(sample_of(per_s=71.0, record=record_of(ceiling_per_s=100.0))), "client_limited"
    )
    assert (
        "71 % of the driver's maximum (100 transactions/s against a null server)" in found.sentence
    )


def test_a_ceiling_that_was_passed_limits_nothing():
    """It was measured while other work had the processors."""
    passed = summarised(sample_of(per_s=158.0, record=record_of(ceiling_per_s=100.0)))
    assert "client_limited" not in kinds_of(passed)


def test_generator_limited_leaves_the_driver_of_a_database_alone():
    counters = {"cpu_user_ns": 40e9, "cpu_system_ns": 10e9, "null_limit_per_s": 100.0}
    assert "generator_limited" not in kinds_of(summarised(sample_of(counters=counters)))


def test_pressure_that_the_database_makes_itself_is_no_noise():
    counters = {"psi_cpu_some_ns": 15e9}
    assert "noisy_machine" not in kinds_of(
        summarised(sample_of(cell_of(clients=1), counters=counters))
    )


CHECKPOINT = {"checkpoint_running_share": ([0.0] * 5 + [1.0] * 5) * 2}


def dipping(share, round_number=0, **rest):
    rates = ([100.0] * 5 + [100.0 * share] * 5) * 2
    return sample_of(rates=rates, round=round_number, columns=CHECKPOINT, **rest)


def test_fewer_transactions_under_a_checkpoint_are_reported():
    found = only(summarised(*(dipping(0.85 + n / 100, n) for n in (0, 1, 2))), "checkpoint_dips")
    assert found.severity == "note"
    assert found.sentence.startswith(
        "pgbench: 10 clients, scale 100: the rate during checkpoints was 0.86x"
    )
    assert "max_wal_size" in found.next
    shallow = summarised(*(dipping(0.95, number) for number in range(3)))
    assert "checkpoint_dips" not in kinds_of(shallow)


@pytest.mark.parametrize("share", [0.0, 1.0, None])
def test_a_drop_is_no_checkpoints_where_none_ran(share):
    """Where it is not known, one may have run."""
    rates = [(100.0 if second < 28 else 40.0) + second % 3 for second in range(40)]
    columns = {"checkpoint_running_share": [share] * len(rates)}
    found = only(summarised(sample_of(rates=rates, columns=columns)), "left_steady_state")
    assert ("No checkpoint ran" in found.cause) is (share == 0)
    assert ("a checkpoint," in found.cause) is (share != 0)


def test_long_transactions_are_not_put_on_the_device():
    gap = stall_of(3.0)
    sample = sample_of(rates=[1.0] * 20, latency_ns=[2_000_000_000] * 20, stalls=[gap])
    kinds = kinds_of(summarised(sample))
    assert "slow_device" not in kinds
    assert "stall" not in kinds


def test_one_round_must_dip_deeper():
    assert "checkpoint_dips" not in kinds_of(summarised(dipping(0.75)))
    assert only(summarised(dipping(0.45)), "checkpoint_dips").severity == "warning"


def test_longer_latencies_under_a_checkpoint_are_reported_where_the_rate_is_the_same():
    slow = ([5_000_000] * 5 + [30_000_000] * 5) * 2
    sample = sample_of(rates=[200.0] * 20, latency_ns=slow, columns=CHECKPOINT)
    found = only(summarised(sample), "checkpoint_dips")
    assert "and p99 was 30 ms instead of 5.0 ms" in found.sentence


def test_more_clients_than_branches_are_reported_and_how_much_it_matters():
    crowded = sample_of(cell_of(scale=1), record=record_of(waits=dict(LOCK)))
    found = only(summarised(crowded), "lock_contention")
    assert found.severity == "warning"
    assert "lock waits took 80 % of the active clients' time" in found.sentence
    calm = sample_of(cell_of(scale=9), record=record_of(waits=dict(COMMIT)))
    assert only(summarised(calm), "lock_contention").severity == "note"


@pytest.mark.parametrize(
    "cell", [cell_of(scale=10), cell_of(scale=1, script="select-only")], ids=["enough", "reads"]
)
def test_who_updates_no_branch_of_others_does_not_wait_for_them(cell):
    assert "lock_contention" not in kinds_of(summarised(sample_of(cell)))


def test_the_scale_that_suffices_for_all_is_named_and_few_lock_waits_are_no_cause():
    few = {"Lock:tuple": 1, "IO:WALSync": 900, "CPU": 99}
    samples = [
        sample_of(cell_of(scale=4, clients=8), record=record_of(waits=few)),
        sample_of(cell_of(scale=4, clients=64), record=record_of(waits={"IO:WALSync": 1000})),
    ]
    found = only(summarised(*samples), "lock_contention")
    assert "scale of at least 64," in found.next
    assert "may wait for each other" in found.sentence


def reads(shared, cached, device):
    return {
        "reads_shared_buffers": shared,
        "reads_page_cache": cached,
        "reads_device": device,
    }


def test_reads_that_never_reach_the_device_are_reported_with_a_scale_that_would():
    before = {"machine": {"cpus_online": 2, "memory_bytes": 16 * GIB}}
    sample = sample_of(counters=reads(90_000, 9_500, 500))
    found = only(summarised(sample, before=before), "reads_from_cache")
    assert found.severity == "note"
    assert "at most 0.5 % of the blocks that queries read came from the device" in found.sentence
    assert "(database: 1.46 GiB, memory: 16 GiB)" in found.sentence
    # 100 is 1,500 MiB: twice the memory is 2,185.
    assert found.next == (
        "To test the device's reads, measure with a memory limit of 375 MiB for this database or a "
        "scale of about 2,200."
    )


def test_a_small_database_fits_into_any_limit():
    counters = reads(90_000, 9_500, 500)
    sample = sample_of(counters=counters, record=record_of(database_bytes=150 * MIB))
    assert "memory limit of" not in only(summarised(sample), "reads_from_cache").next
    larger = sample_of(counters=counters, record=record_of(database_bytes=400 * MIB))
    # 128 MiB of shared buffers, 32 MiB of the server, 2 MiB of each of 10 clients.
    assert "memory limit of 180 MiB" in only(summarised(larger), "reads_from_cache").next


def test_memory_is_that_of_the_limit_of_a_test():
    before = {"machine": {"cpus_online": 2, "memory_bytes": 16 * GIB}}
    counters = reads(90_000, 9_500, 500)

    def found(limit_bytes: int, megabytes: int):
        cell = cell_of(memory_limit_bytes=limit_bytes)
        record = record_of(database_bytes=megabytes * MIB)
        sample = sample_of(cell, counters=counters, record=record)
        return only(summarised(sample, before=before), "reads_from_cache")

    limited = found(1 * GIB, 1500)
    assert limited.evidence["memory_bytes"] == 1 * GIB
    assert "a scale of about 140" in limited.next  # 1,500 MiB is 100
    # What is read fits into the limit although the database does not.
    hot = found(256 * MIB, 1500)
    assert not re.search(r"memory limit|scale", hot.next)


def test_a_memory_limit_that_is_named_is_taken():
    """For the test that needs the most, and as no fraction of bytes, which is refused."""
    counters = reads(90_000, 9_500, 500)
    large = sample_of(cell_of(), counters=counters, record=record_of(database_bytes=400 * MIB))
    settings = {"shared_buffers": "16385kB"}
    record = record_of(database_bytes=300 * MIB, settings=settings)
    crowded = sample_of(cell_of(clients=100, scale=50), counters=counters, record=record)
    found = only(summarised(large, crowded), "reads_from_cache")
    limit = re.search(r"memory limit of (.*) for", found.next)[1]
    assert parse_size_bytes(limit) == 249 * MIB  # 32, 100 of 2, and a little more than 16


def test_a_hundredth_from_the_device_is_a_trial_of_its_reads():
    sample = sample_of(counters=reads(90_000, 9_000, 1_000))
    assert "reads_from_cache" not in kinds_of(summarised(sample))


def test_notes_are_reported_once_the_most_frequent_first():
    notes = [["No PSI."], ["No PSI.", "No device is visible."], []]
    samples = [
        sample_of(round=number, record=record_of(notes=each)) for number, each in enumerate(notes)
    ]
    found = only(summarised(*samples), "observer_missing")
    assert "in 2 samples of pgbench: 10 clients, scale 100: No PSI. No dev" in (found.sentence)
    assert found.evidence["notes"] == {"No PSI": 2, "No device is visible": 1}


def test_cells_of_io_have_none_of_these():
    sample = io_sample_of(io_cell_of(operation="write"))
    summary = summarised(sample)
    assert not OF_DATABASES & set(kinds_of(summary))
    assert database_of(summary) is None


def test_an_imported_log_has_cells_without_a_record():
    """No server, no settings, no readings: nothing is reported of them, and nothing fails."""
    sample = sample_of(has_series=False, counters={"observer_looks": 0.0})
    bare = type(sample)(
        **{name: getattr(sample, name) for name in sample.__struct_fields__}
        | {"database": None, "counters": {}}
    )
    summary = summarised(bare, before={})
    (part,) = database_of(summary).cells
    assert part.verdict.bound == "inconclusive"
    assert (part.server, part.waits, part.reads) == ("", {}, None)
    assert kinds_of(summary) == ["database_bound"]


def test_findings_of_blocks_and_files_do_not_fire_on_databases():
    """What a device serves by size and queue is not what a transaction needs."""
    cells = [cell_of(clients=clients, scale=100) for clients in (1, 2, 4, 8, 16, 32)]
    samples = [
        sample_of(cell, per_s=100.0 * (1 + 0.01 * number), round=number, counters={
            "device_read_bytes": 0.0, "device_write_bytes": 100.0 * MIB, "device_flushes": 5000.0,
        })
        for cell in cells
        for number in range(3)
    ]  # fmt: skip
    before = MACHINE | {
        "target": {"stack": [{"name": "sda", "kind": "disk", "write_cache": "write back"}]}
    }
    kinds = set(kinds_of(summarised(*samples, before=before)))
    assert kinds <= {"database_bound", "write_cache"}


def test_registered():
    names = set(kinds())
    assert names >= OF_DATABASES | {"flushes_not_durable"}


def test_a_sweep_over_a_cache_is_reported_with_what_it_predicts():
    rates_per_s = {"1512MB": 240.0, "3500MB": 288.0, "5500MB": 359.0}
    record = record_of(database_bytes=40 * GIB)
    samples = [
        sample
        for size, rate in rates_per_s.items()
        for sample in rounds_of(
            cell_of(settings={"shared_buffers": size}),
            [rate, 1.01 * rate, 0.99 * rate],
            record=record,
        )
    ]
    found = only(summarised(*samples), "cache_size")
    assert len(found.cells) == 3
    assert found.evidence["predicted_per_s"] == pytest.approx(426, rel=0.03)
    assert "10.7 GiB" in found.next


def test_a_cache_that_gains_nothing_is_reported_as_that():
    samples = [
        sample
        for size in ("64MB", "128MB", "256MB")
        for sample in rounds_of(
            cell_of(settings={"shared_buffers": size}),
            [900.0, 1000.0, 1100.0],
            record=record_of(database_bytes=40 * GIB),
        )
    ]
    found = only(summarised(*samples), "cache_size")
    assert found.sentence.startswith("A larger cache has no significant effect")
    assert found.evidence["predicted_per_s"] is None


def test_sweeps_from_two_starts_are_two_with_cells_and_names_of_their_own():
    samples = [
        sample
        for start in ("cold", "prewarmed")
        for size in ("64MB", "128MB")
        for sample in rounds_of(
            cell_of(settings={"shared_buffers": size}, start=start),
            [900.0, 1000.0, 1100.0],
            record=record_of(database_bytes=40 * GIB),
        )
    ]
    summary = summarised(*samples)
    first, second = (found for found in summary.findings if found.kind == "cache_size")
    assert len(first.cells) == len(second.cells) == 2
    assert not [cell for cell in first.cells if cell in second.cells]
    titles = [table.title for table in sweep_tables(summary)]
    assert titles[0].endswith("start cold")
    assert titles[1].endswith("start prewarmed")


def test_a_batch_that_fails_is_reported_in_its_own_words_and_not_the_kernels():
    batch = cell_of(workload="nightly", kind="batch", operation="batch", clients=1)
    failure = error_of("exit code 3", errno=0, offset_bytes=0)
    sample = sample_of(batch, per_s=0.0, errors=[failure], errors_count=1)
    summary = summarised(sample)
    failed = only(summary, "errors")
    assert "failed with exit code 3 in nightly" in failed.sentence
    assert "offset" not in failed.sentence
    blank = only(summary, "nothing_completed")
    assert not any("dmesg" in found.next for found in (failed, blank))
