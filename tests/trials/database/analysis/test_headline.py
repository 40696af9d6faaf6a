"""The first words on a database: its transactions and commits, and no toy figure with it."""

from seatrial.findings.answer import answer
from stats.builders import cell_of as io_cell_of
from stats.builders import sample_of as io_sample_of
from trials.database.analysis.hand import cell_of, record_of, rounds_of, sample_of, summarised

COMMIT = io_cell_of(workload="commit-truth", kind="commit", operation="commit")
WRITE = io_cell_of(
    workload="write-without-flush", kind="io", operation="write", address="sequential"
)


def test_the_single_writes_next_to_the_commits_are_no_rate_in_sequence():
    own = [io_sample_of(cell, round=number) for cell in (COMMIT, WRITE) for number in range(3)]
    reported = summarised(*rounds_of(cell_of(), [100.0, 101.0, 99.0]), *own).verdict
    assert reported.startswith("100 tps")
    assert "commits 1,000/s" in reported
    assert "in sequence" not in reported


def test_large_writes_next_to_a_database_are_reported():
    large = io_cell_of(
        workload="sequential", operation="write", address="sequential", block_size_bytes=1 << 20
    )
    own = [io_sample_of(large, round=number) for number in range(3)]
    reported = summarised(*rounds_of(cell_of(), [100.0, 101.0, 99.0]), *own).verdict
    assert "in sequence" in reported


def test_a_cell_that_others_would_be_taken_for_is_distinguished():
    reads = cell_of(script="select-only", workload="reads", kind="pgbench")
    rates_per_s = [90_000.0, 90_100.0, 89_900.0]
    alone = summarised(*rounds_of(cell_of(), [100.0, 101.0, 99.0]))
    assert alone.verdict.startswith("100 tps (± 3 %) with p99")
    assert "(pgbench" not in alone.verdict
    alongside = summarised(
        *rounds_of(cell_of(), [100.0, 101.0, 99.0]), *rounds_of(reads, rates_per_s)
    )
    assert "at scale 100 with 10 clients (pgbench)" in alongside.verdict


def test_settings_distinguishes_cells_of_one_scale():
    small, large = (cell_of(settings={"shared_buffers": size}) for size in ("32MB", "512MB"))
    reported = summarised(
        *rounds_of(small, [100.0, 101.0, 99.0]), *rounds_of(large, [300.0, 303.0, 297.0])
    ).verdict
    assert "300 tps" in reported
    assert "with 10 clients (shared_buffers 512MB)" in reported


def test_a_batch_has_one_length_with_its_doubt():
    cell = cell_of(
        workload="nightly", kind="batch", operation="batch", clients=1, file="nightly.sql"
    )
    samples = [
        sample_of(cell, per_s=1.0, round=number, record=record_of(batch_s={"real": length_s}))
        for number, length_s in enumerate((10.0, 11.0, 48.0))
    ]
    reported = summarised(*samples).verdict
    assert "Runs nightly.sql in 11 s (median of 3 rounds: 10 s to 48 s)" in reported


def test_each_setting_of_a_server_has_its_rate_on_the_first_screen():
    rates_per_s = {"fdatasync": 100.0, "open_datasync": 200.0}
    samples = [
        sample
        for method, rate in rates_per_s.items()
        for sample in rounds_of(cell_of(settings={"wal_sync_method": method}), [rate, rate + 1])
    ]
    own = [io_sample_of(cell, round=number) for cell in (COMMIT, WRITE) for number in range(2)]
    found = answer(summarised(*samples, *own))
    assert [tile.label for tile in found.tiles] == [
        *(f"wal_sync_method={method}" for method in rates_per_s),
        "commits",
        "transaction p99",
    ]
    rates = "; ".join(f"{rate:.0f} tps with wal_sync_method={m}" for m, rate in rates_per_s.items())
    assert found.verdict.startswith(rates)
