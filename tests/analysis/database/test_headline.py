"""The first words on a database: its transactions and commits, and no toy figure beside."""

from analysis.builders import cell_of as io_cell_of
from analysis.builders import sample_of as io_sample_of
from analysis.database.hand import cell_of, rounds_of, summarised

COMMIT = io_cell_of(workload="commit-truth", kind="commit", operation="commit")
WRITE = io_cell_of(
    workload="write-without-flush", kind="io", operation="write", address="sequential"
)


def test_the_single_writes_beside_the_commits_are_no_rate_in_sequence():
    own = [io_sample_of(cell, round=number) for cell in (COMMIT, WRITE) for number in range(3)]
    told = summarised(*rounds_of(cell_of(), [100.0, 101.0, 99.0]), *own).verdict
    assert told.startswith("100 tps")
    assert "commits 1,000/s" in told
    assert "in sequence" not in told


def test_large_writes_beside_a_database_are_told():
    large = io_cell_of(
        workload="sequential", operation="write", address="sequential", block_size_bytes=1 << 20
    )
    own = [io_sample_of(large, round=number) for number in range(3)]
    told = summarised(*rounds_of(cell_of(), [100.0, 101.0, 99.0]), *own).verdict
    assert "in sequence" in told
