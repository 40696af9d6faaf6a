"""Plans: determinism, order, files, bounds, and what is refused before anything is touched."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import AlignmentError, DirectError, SpaceError, StudyError
from seatrial.study.cost import (
    cell_time_s,
    cell_write_bytes,
    estimate,
    require_write_budget,
    target_write_bytes,
)
from seatrial.study.load import load_study
from seatrial.study.model import Plan, TargetInfo
from seatrial.study.override import override
from seatrial.study.plan import make_plan, order
from seatrial.units import GIB
from study.builders import plan_of, study_of

TWO_TARGETS = """
[[target]]
label = "a"
[[target]]
label = "b"
[[workload]]
kind = "matrix"
block_sizes = ["4k", "8k"]
[[workload]]
kind = "commit"
targets = ["b"]
[[workload]]
kind = "fill"
"""


def two_targets(seed: int = 1) -> Plan:
    return make_plan(study_of(f"seed = {seed}\n{TWO_TARGETS}"))


def keys(plan: Plan) -> list[str]:
    return [cell.key for cell in plan.cells]


# ---- determinism and order -------------------------------------------------------------------


def test_the_same_study_gives_the_same_plan() -> None:
    assert two_targets() == two_targets()


def test_several_targets_are_distinguished_by_key() -> None:
    plan = two_targets()
    assert len(set(keys(plan))) == len(keys(plan)) == 2 * (12 + 1) + 6
    assert all(cell.key.startswith(f"{cell.target}/") for cell in plan.cells)
    assert {cell.target for cell in plan.cells if cell.workload == "commit"} == {"b"}


@given(
    seed=st.integers(0, 2**63 - 1),
    round_number=st.integers(0, 1000),
    pending=st.sets(st.sampled_from(keys(two_targets()))),
)
def test_a_round_is_a_permutation_of_what_is_pending(
    seed: int, round_number: int, pending: set[str]
) -> None:
    ordered = [cell.key for cell in order(two_targets(seed), round_number, pending)]
    assert sorted(ordered) == sorted(pending)


@given(seed=st.integers(0, 2**63 - 1), round_number=st.integers(0, 50))
def test_fills_come_first(seed: int, round_number: int) -> None:
    plan = two_targets(seed)
    kinds = [cell.kind for cell in order(plan, round_number, keys(plan))]
    assert kinds[:2] == ["fill", "fill"]
    assert "fill" not in kinds[2:]


@given(seed=st.integers(0, 2**63 - 1), drawn=st.randoms(use_true_random=False))
def test_a_resumed_round_goes_on_in_its_old_order(seed: int, drawn: random.Random) -> None:
    plan = two_targets(seed)
    whole = order(plan, 3, keys(plan))
    left = whole[drawn.randrange(len(whole)) :]
    assert order(plan, 3, [cell.key for cell in left]) == left


def test_a_fill_that_is_done_once_is_in_the_first_round_only_and_counted_once() -> None:
    plan = plan_of(
        "rounds = { min = 2, max = 5 }\n"
        '[[workload]]\nkind = "fill"\nonce = true\n'
        '[[workload]]\nkind = "io"\noperations = "write"\nlimit_bytes = "1MiB"'
    )
    orders = [[cell.kind for cell in order(plan, number, keys(plan))] for number in range(3)]
    assert orders == [["fill", "io"], ["io"], ["io"]]
    size_bytes = plan.targets[0].size_bytes
    assert estimate(plan).write_bytes_max == size_bytes + 5 * (1 << 20)
    assert estimate(plan).time_s_max == pytest.approx(size_bytes / 250e6 + 5 * 1.0, rel=0.1)


def test_rounds_and_seeds_differ() -> None:
    plan, other = two_targets(1), two_targets(2)
    orders = [tuple(c.key for c in order(plan, number, keys(plan))) for number in range(20)]
    assert len(set(orders)) == 20
    assert order(plan, 0, keys(plan)) != order(other, 0, keys(other))
    assert order(plan, 0, keys(plan)) == order(two_targets(1), 0, keys(plan))


def test_targets_and_workloads_are_interleaved() -> None:
    plan = two_targets()
    runs = [
        len([*group])
        for number in range(30)
        for _, group in itertools.groupby(order(plan, number, keys(plan)), lambda c: c.target)
    ]
    assert max(runs) < 15  # of about 15 cells of each target


def test_unknown_pending_keys_are_ignored() -> None:
    assert order(two_targets(), 0, ["gone"]) == []


# ---- the hash --------------------------------------------------------------------------------


def test_the_hash_reports_what_a_resume_must_find_unchanged() -> None:
    study = load_study("quick")
    base = make_plan(study).plan_hash
    assert make_plan(override(study, rounds=9, budget_s=1000)).plan_hash == base
    assert make_plan(override(study, target_path="/elsewhere")).plan_hash == base
    changed = [
        override(study, size="2GiB"),
        override(study, seconds=1),
        override(study, seed=1),
        override(study, buffered=True),
        override(study, full=True),
    ]
    hashes = {make_plan(each).plan_hash for each in changed}
    assert len(hashes) == len(changed)
    assert base not in hashes


# ---- files -----------------------------------------------------------------------------------


def files(plan: Plan) -> list[tuple[str, int, bool]]:
    return [(file.name, file.size_bytes, file.prefill) for file in plan.files]


def test_a_fill_workload_fills_the_trial_file() -> None:
    assert files(plan_of('[[workload]]\nkind = "fill"\n[[workload]]\nkind = "io"')) == [
        ("trial.dat", GIB, False)
    ]


def test_without_a_fill_workload_the_trial_file_is_filled_before() -> None:
    for operation in ("read", "write"):
        plan = plan_of(f'[[workload]]\nkind = "io"\noperations = "{operation}"')
        assert files(plan) == [("trial.dat", GIB, True)]


def test_copy_and_log_have_files_of_their_own() -> None:
    plan = plan_of(
        '[[workload]]\nkind = "copy"\nshare = 0.5\n[[workload]]\nkind = "commit"\nlog_size = "1MiB"'
    )
    assert files(plan) == [
        ("trial.dat", GIB, True),
        ("copy.dat", GIB // 2, True),
        ("wal.dat", 1 << 20, True),
    ]
    by_name = {file.name: file for file in plan.files}
    for cell in plan.cells:
        target = cell.spec["target"]
        assert target["size_bytes"] == by_name[target["file"]].size_bytes
        assert target["copy_to"] in (None, "copy.dat")


def test_commits_alone_need_no_trial_file() -> None:
    assert [name for name, _, _ in files(plan_of('[[workload]]\nkind = "commit"'))] == ["wal.dat"]


def test_what_is_verified_is_filled_with_what_can_be() -> None:
    body = '[[workload]]\nkind = "io"\nverify = true\ndata = "verifiable"'
    assert plan_of(body).files[0].data == {"kind": "verifiable"}


@pytest.mark.parametrize("kind", ["device", "file"])
def test_a_device_that_is_only_read_is_never_filled(kind: str) -> None:
    plan = plan_of('[[workload]]\nkind = "io"', kind=kind, size_bytes=GIB)
    assert files(plan) == [("trial.dat", GIB, False)]
    assert any("only read" in note for note in plan.notes)
    written = plan_of('[[workload]]\nkind = "matrix"', kind=kind, size_bytes=GIB)
    assert files(written) == [("trial.dat", GIB, True)]


def test_a_device_holds_no_second_file() -> None:
    body = '[[workload]]\nkind = "copy"\n[[workload]]\nkind = "commit"'
    plan = plan_of(body, kind="device", size_bytes=GIB)
    assert {cell.kind for cell in plan.cells} == {"commit"}
    assert {cell.spec["target"]["file"] for cell in plan.cells} == {"trial.dat"}
    assert any("copy is skipped on trial" in note for note in plan.notes)
    with pytest.raises(StudyError, match="no tests"):
        plan_of('[[workload]]\nkind = "copy"', kind="device", size_bytes=GIB)


@pytest.mark.parametrize("kind", ["null", "simulated"])
def test_what_is_no_storage_needs_no_files_and_is_not_written(kind: str) -> None:
    model = "model = { channels = 2 }\n" if kind == "simulated" else ""
    plan = plan_of(
        f'[[target]]\nkind = "{kind}"\n{model}[[workload]]\nkind = "matrix"\n'
        '[[workload]]\nkind = "copy"\n[[workload]]\nkind = "commit"\n[[workload]]\nkind = "fill"'
    )
    assert plan.files == []
    assert estimate(plan).write_bytes_max == estimate(plan).file_bytes == 0
    assert {cell.spec["target"]["kind"] for cell in plan.cells} == {kind}
    assert {cell.spec["target"]["copy_to"] for cell in plan.cells} == {None}


# ---- sizes -----------------------------------------------------------------------------------


def test_a_whole_device_is_used_unless_a_size_is_given() -> None:
    misaligned_bytes = 10 * GIB + 512
    plan = plan_of('[[workload]]\nkind = "fill"', kind="device", size_bytes=misaligned_bytes)
    assert plan.targets[0].size_bytes == 10 * GIB
    plan = plan_of(
        '[[target]]\nsize = "2GiB"\n[[workload]]\nkind = "fill"',
        kind="device",
        size_bytes=misaligned_bytes,
    )
    assert plan.targets[0].size_bytes == 2 * GIB


def test_more_than_the_device_is_refused() -> None:
    with pytest.raises(SpaceError) as caught:
        plan_of(
            '[[target]]\nsize = "2GiB"\n[[workload]]\nkind = "io"', kind="device", size_bytes=GIB
        )
    assert caught.value.exit_code == 8
    assert f"--size {GIB}" in caught.value.next_step


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('[[target]]\nsize = 1000000\n[[workload]]\nkind = "io"', "1000000 bytes"),
        ('[[workload]]\nkind = "io"\nblock_sizes = 700', "700 bytes"),
        ('[[workload]]\nkind = "io"\nrange_start = "1k"\nblock_sizes = "4k"', "1024 bytes"),
        (
            '[[workload]]\nkind = "io"\npattern = "strided"\nstride = "9k"\nblock_sizes = "4k"',
            "1024 bytes",
        ),
        ('[[workload]]\nkind = "mix"\naccesses = "file-server"', "512 bytes"),
        ('[[target]]\nsize = "1536k"\n[[workload]]\nkind = "fill"', "--size 1048576"),
    ],
)
def test_outlier_sizes_are_refused(body: str, says: str) -> None:
    with pytest.raises(AlignmentError) as caught:
        plan_of(body, logical_block_bytes=4096)
    assert caught.value.exit_code == 9
    assert says in str(caught.value)


def test_outlier_sizes_pass_through_the_page_cache() -> None:
    assert plan_of(
        '[[workload]]\nkind = "io"\nblock_sizes = 700\ndirect = false', logical_block_bytes=4096
    ).cells


def test_outlier_cells_can_be_left_out_by_name() -> None:
    plan = plan_of('[[workload]]\nkind = "matrix"\nskip_unaligned = true', logical_block_bytes=4096)
    assert min(cell.block_size_bytes for cell in plan.cells) == 4096
    assert len(plan.cells) == 66
    assert plan.notes == [
        "18 tests of matrix are skipped on trial: direct I/O requires multiples of 4096 bytes"
    ]


def test_no_o_direct_is_refused() -> None:
    with pytest.raises(DirectError) as caught:
        plan_of('[[workload]]\nkind = "io"', direct=False)
    assert caught.value.exit_code == 10
    assert plan_of('[[workload]]\nkind = "commit"', direct=False).cells


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('[[target]]\nsize = "512k"\n[[workload]]\nkind = "matrix"', "do not fit"),
        ('[[workload]]\nkind = "sequential"\nfiles = { tiny = 0.001 }', "do not fit"),
        ('[[workload]]\nkind = "map"\nzones = 4096', "do not fit"),
        ('[[workload]]\nkind = "io"\nrange_start = "2GiB"', "do not fit"),
        ('[[workload]]\nkind = "io"\nrange_length = "2GiB"', "do not fit"),
        ('[[workload]]\nkind = "io"\nrange_start = "512"\nrange_length = "8k"', "do not fit"),
        (
            '[[workload]]\nkind = "io"\npattern = "strided"\nstride = "2GiB"',
            "do not fit",
        ),
        (
            '[[target]]\nsize = "64k"\n[[workload]]\nkind = "io"\nthreads = 9\ndata = "verifiable"',
            "do not fit",
        ),
        (
            '[[workload]]\nkind = "io"\noperations = "write"\nlimit_bytes = "4k"',
            "less than one block",
        ),
        (
            '[[workload]]\nkind = "map"\nzones = 4096\naccess_block = 512\nrate_block = 512\n'
            'operations = ["read", "write"]',
            "more than 10000 tests",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(body: str, says: str) -> None:
    with pytest.raises(StudyError, match=says):
        plan_of(body)


# ---- bounds ----------------------------------------------------------------------------------


def test_write_bounds_are_the_sum_of_limits_and_files() -> None:
    plan = plan_of(
        '[rounds]\nmin = 2\nmax = 5\n[[target]]\nsize = "1GiB"\n[[workload]]\nkind = "fill"\n'
        '[[workload]]\nkind = "io"\noperations = ["read", "write", "mixed"]\n'
        'limit_bytes = "10MiB"\n[[workload]]\nkind = "commit"\nlimit_bytes = "1MiB"'
    )
    round_bytes = GIB + 2 * (10 << 20) + 6 * (1 << 20)
    took = estimate(plan)
    assert took.write_bytes_min == (64 << 20) + 2 * round_bytes
    assert took.write_bytes_max == (64 << 20) + 5 * round_bytes
    assert target_write_bytes(plan, "trial", 5) == took.write_bytes_max
    assert took.file_bytes == GIB + (64 << 20)
    assert (took.rounds_min, took.rounds_max, took.cells) == (2, 5, 10)


def test_every_cell_that_writes_is_bounded() -> None:
    for name in ("quick", "one-dvd-per-second", "four-kib"):
        storage = [cell for cell in make_plan(load_study(name)).cells if cell.spec["accesses"]]
        for cell in storage:
            writing = any(access["operation"] != "read" for access in cell.spec["accesses"])
            assert writing == (cell_write_bytes(cell) > 0) == (cell.operation != "read")


def test_time_counts_rounds_overhead_and_fills() -> None:
    plan = plan_of(
        '[rounds]\nmin = 2\nmax = 4\n[[workload]]\nkind = "fill"\n'
        '[[workload]]\nkind = "io"\nseconds = 3\nthreads = [1, 2]'
    )
    fill, *reads = plan.cells
    assert cell_time_s(reads[0]) == pytest.approx(3.05)
    assert cell_time_s(fill) == pytest.approx(GIB / 250e6 + 0.05)
    took = estimate(plan)
    assert took.time_s_max == pytest.approx(2 * took.time_s_min)
    assert took.time_s_min == pytest.approx(2 * (2 * 3.05 + cell_time_s(fill)))


def test_the_budget_bounds_the_time() -> None:
    plan = plan_of('[budget]\ntime_s = 7\n[[workload]]\nkind = "io"\nseconds = 3')
    took = estimate(plan)
    assert (took.time_s_min, took.time_s_max) == (7, 7)


def test_info_of_other_targets_is_ignored() -> None:
    study = study_of('[[workload]]\nkind = "io"')
    assert make_plan(study, {"other": TargetInfo(direct=False)}) == make_plan(study)


def test_a_first_round_that_may_write_too_much_is_refused() -> None:
    body = (
        '[[target]]\nsize = "16MiB"\n[budget]\nwrite_bytes = "{}MiB"\n'
        '[[workload]]\nkind = "io"\noperations = ["read", "write"]\n'
    )
    require_write_budget(plan_of(body.format(32)))  # to fill the file, and to write it once
    with pytest.raises(
        StudyError, match=r"may write 32 MiB, more than the write budget of 31 MiB"
    ) as said:
        require_write_budget(plan_of(body.format(31)))
    assert f"--write-budget {32 << 20}" in said.value.next_step
    reading = plan_of('[budget]\nwrite_bytes = 1\n[[workload]]\nkind = "io"', kind="file")
    require_write_budget(reading)


@pytest.mark.parametrize(("files", "filled"), [("shared", 1), ("own", 4)])
def test_each_host_writes_up_to_the_limit(files: str, filled: int) -> None:
    plan = plan_of(
        f'[hosts]\ncounts = [2, 4]\nfiles = "{files}"\n[[target]]\npath = "/mnt"\n'
        'size = "16MiB"\n[rounds]\nmin = 1\n[[workload]]\nkind = "io"\noperations = "write"\n'
    )
    assert estimate(plan).write_bytes_min == (filled + 2 + 4) << 24


def test_a_simulated_device_takes_no_time() -> None:
    plan = plan_of('[[target]]\nkind = "simulated"\n[[workload]]\nkind = "io"\nseconds = 3600')
    assert estimate(plan).time_s_max < 1


@pytest.mark.parametrize("kind", ["device", "file"])
def test_what_is_read_as_it_is_cannot_be_verified(kind: str) -> None:
    verified = '[[workload]]\nkind = "io"\ndata = "verifiable"\nverify = true\n'
    with pytest.raises(StudyError, match="nothing is written to it"):
        plan_of(verified, kind=kind, size_bytes=GIB)
    assert plan_of(verified + 'operations = "mixed"\n', kind=kind, size_bytes=GIB).cells
    filled = '[[workload]]\nkind = "fill"\ndata = "verifiable"\n'
    assert plan_of(filled + verified, kind=kind, size_bytes=GIB).cells
    assert plan_of(verified, kind="directory").cells
