"""A device, a file system, a process and a processor frozen for real: each found, timed, named."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kernel import injections
from kernel.injections import Injected, Thief
from kernel.trial import Trial, injected_into

pytestmark = pytest.mark.root

EDGE_S = 0.020
SHARP_EDGE_S = 0.010
FREEZE_S = 0.5
STEAL_S = 0.4
SECONDS = 1.4
LAST_S = 0.9
COMMITTERS = 8
QUOTA_AFTER_S = 0.15
ATTEMPTS = 3

PSYNC, IO_URING = 1, 32
BOTH_ENGINES = pytest.mark.parametrize("depth", [PSYNC, IO_URING], ids=["psync", "io_uring"])


@pytest.fixture(scope="module")
def thief() -> Iterator[Thief]:
    """Takes the last processor."""
    with Thief(max(os.sched_getaffinity(0))) as ready:
        yield ready


def trials(place: Path, *, seconds: float = SECONDS, **cell: Any) -> Callable[[Path], Trial]:
    """What starts a trial of a cell in a folder of its own."""
    return lambda folder: Trial(place, folder, seconds=seconds, **cell)


def overlap_s(sample: dict[str, Any], stall: dict[str, Any], injected: Injected) -> float:
    start_s = sample["started_at"] + stall["start_s"]
    end_s = start_s + stall["length_s"]
    return min(end_s, injected.ended.before_s) - max(start_s, injected.began.after_s)


def the_stall(sample: dict[str, Any], injected: Injected) -> dict[str, Any]:
    """The stall that covers most of the injection."""
    assert sample["stalls"], f"no stall was found at all: {injected} in {sample}"
    return max(sample["stalls"], key=lambda stall: overlap_s(sample, stall, injected))


def assert_found(
    document: dict[str, Any], injected: Injected, cause: str, depth: int, edge_s: float = EDGE_S
) -> None:
    """The stall is where it was injected, and both the sample and a finding name its cause."""
    (sample,) = document["samples"]
    assert sample["engine"] == ("psync" if depth == PSYNC else "io_uring")
    stall = the_stall(sample, injected)
    start_s = sample["started_at"] + stall["start_s"]
    reported = f"{stall} in a sample from {sample['started_at']}, injected {injected}"
    assert injected.began.distance_s(start_s) <= edge_s, f"start: {reported}"
    assert injected.ended.distance_s(start_s + stall["length_s"]) <= edge_s, f"end: {reported}"
    assert stall["cause"] == cause, reported
    assert stall["depth"] == depth, reported
    findings = [finding for finding in document["findings"] if finding["kind"] == "stall"]
    assert cause in [finding["evidence"]["cause"] for finding in findings]


def assert_names_the_group(document: dict[str, Any], *settings: str) -> None:
    """The finding says which group it was, and how it was set, in one of some ways."""
    findings = [finding for finding in document["findings"] if finding["kind"] == "stall"]
    named = [each for one in findings for each in one["evidence"].get("cgroup_settings", [])]
    named += [one["sentence"] for one in findings]
    assert any(
        "/seatrial-test-" in each and setting in each for each in named for setting in settings
    ), findings


@pytest.mark.parametrize(
    ("kind", "operation"), [("xfs", "read"), ("ext4", "write")], ids=["xfs-read", "ext4-write"]
)
@BOTH_ENGINES
def test_requests_held_by_a_throttle_are_the_control_groups_fault(
    file_system, tmp_path, kind, operation, depth
):
    place = file_system(kind)
    document, injected = injected_into(
        trials(place.folder, operation=operation, depth=depth),
        lambda trial: injections.throttle(trial.pid, place.device, FREEZE_S),
        tmp_path,
    )
    assert_found(document, injected, "cgroup_throttle", depth)
    assert_names_the_group(document, "blkio.throttle.")


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
@pytest.mark.parametrize("method", ["fdatasync", "o_dsync"])
def test_commits_held_by_a_throttle_are_the_control_groups_fault(
    file_system, tmp_path, kind, method
):
    """Eight committers wait for the journal, not for the block layer: above an idle device."""
    place = file_system(kind)
    document, injected = injected_into(
        trials(place.folder, commits=method, committers=COMMITTERS),
        lambda trial: injections.throttle(trial.pid, place.device, FREEZE_S),
        tmp_path,
    )
    (sample,) = document["samples"]
    stall = the_stall(sample, injected)
    assert stall["cause"] == "cgroup_throttle", f"{stall}, injected {injected}"
    assert_names_the_group(document, "blkio.throttle.")


def test_a_limit_that_the_load_never_reaches_is_not_blamed_for_a_frozen_file_system(
    file_system, tmp_path, group
):
    place = file_system("ext4")
    group.limit(place.device, 10_000_000_000, "bps")

    def freeze_in_group(trial: Trial) -> Injected:
        (group.path / "cgroup.procs").write_text(str(trial.pid))
        return injections.freeze(place.folder, FREEZE_S)

    document, injected = injected_into(
        trials(place.folder, operation="write", depth=PSYNC), freeze_in_group, tmp_path
    )
    assert_found(document, injected, "filesystem", PSYNC)


@BOTH_ENGINES
def test_a_quota_of_processor_time_is_named(memory, tmp_path, depth):
    """The process is stopped once it has used its 20 ms of a second: not at once, nor once only."""

    def stop(trial: Trial) -> Injected:
        group = injections.CpuGroup(trial.pid)
        groups.enter_context(group)
        time.sleep(QUOTA_AFTER_S)
        return group.stop(FREEZE_S, quota_us=20_000, period_us=1_000_000)

    with ExitStack() as groups:
        document, _ = injected_into(
            trials(memory, operation="read", depth=depth, direct=False), stop, tmp_path
        )
    (sample,) = document["samples"]
    longest = max(sample["stalls"], key=lambda stall: stall["length_s"])
    assert longest["cause"] == "cpu_quota", sample["stalls"]
    # Who looks is stopped as well: it may come to look only when the quota has been lifted.
    assert_names_the_group(document, "cpu.cfs_quota_us 20000", "lifted before it was read")
    assert any(finding["kind"] == "cpu_quota" for finding in document["findings"])


def test_one_request_a_second_is_a_stall_for_each_second(file_system, tmp_path):
    """A throttle that still lets something through: no single freeze, and yet nothing moves."""
    place = file_system("xfs")
    document, injected = injected_into(
        trials(place.folder, operation="read", depth=PSYNC, seconds=2.8),
        lambda trial: injections.throttle(trial.pid, place.device, 1.9, unit="iops"),
        tmp_path,
    )
    (sample,) = document["samples"]
    inside = [stall for stall in sample["stalls"] if overlap_s(sample, stall, injected) > EDGE_S]
    assert len(inside) >= 2
    assert {stall["cause"] for stall in inside} == {"cgroup_throttle"}
    first_s = sample["started_at"] + inside[0]["start_s"]
    last_s = sample["started_at"] + inside[-1]["start_s"] + inside[-1]["length_s"]
    assert injected.began.distance_s(first_s) <= EDGE_S
    assert injected.ended.distance_s(last_s) <= EDGE_S
    assert sum(stall["length_s"] for stall in inside) >= 0.98 * (last_s - first_s)


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
@BOTH_ENGINES
def test_a_frozen_file_system_is_the_file_systems_fault(file_system, tmp_path, kind, depth):
    place = file_system(kind)
    document, injected = injected_into(
        trials(place.folder, operation="write", depth=depth),
        lambda _trial: injections.freeze(place.folder, FREEZE_S),
        tmp_path,
    )
    assert_found(document, injected, "filesystem", depth)


@BOTH_ENGINES
def test_a_stopped_process_is_the_generators_fault(file_system, tmp_path, depth):
    place = file_system("xfs").folder
    for attempt in range(ATTEMPTS):
        folder = tmp_path / f"trial-{attempt}"
        folder.mkdir()
        document, injected = injected_into(
            trials(place, operation="read", depth=depth),
            lambda trial: injections.stop(trial.pid, FREEZE_S),
            folder,
        )
        if not stood_still_before(document, injected):
            break
    assert_found(document, injected, "generator", depth, SHARP_EDGE_S)


def stood_still_before(document: dict[str, Any], injected: Injected) -> bool:
    """Whether the machine itself stood still right before the injection, so that both are one."""
    (sample,) = document["samples"]
    start_s = sample["started_at"] + the_stall(sample, injected)["start_s"]
    return start_s < injected.began.after_s - SHARP_EDGE_S


@pytest.mark.parametrize("whose", ["", "worker-"], ids=["whole-process", "worker-alone"])
@BOTH_ENGINES
def test_a_stolen_processor_is_the_generators_fault(memory, thief, tmp_path, whose, depth):
    """With the worker alone on the stolen processor, the watchdog wakes on time and looks on.

    On memory, for the kernel thread of a loop device may be on that processor too: then it is the
    device that stands still.
    """
    if whose and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs a second processor for the watchdog")
    document, injected = injected_into(
        trials(memory, operation="read", depth=depth, direct=False),
        lambda trial: thief.steal(trial.threads(whose), STEAL_S),
        tmp_path,
    )
    assert_found(document, injected, "generator", depth, SHARP_EDGE_S)


def test_a_stall_that_ends_with_the_sample_keeps_its_cause(memory, thief, tmp_path):
    """The worker's thread ends before anybody can ask how long it waited for a processor."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs a second processor for the watchdog")
    document, injected = injected_into(
        trials(memory, operation="read", depth=PSYNC, seconds=LAST_S, direct=False),
        lambda trial: thief.steal(trial.threads("worker-"), LAST_S - 0.1),
        tmp_path,
        ends_inside=False,
    )
    (sample,) = document["samples"]
    assert sample["started_at"] + sample["duration_s"] <= injected.ended.before_s + EDGE_S
    stall = the_stall(sample, injected)
    assert stall["cause"] == "generator", stall
    assert stall["evidence"]["run_delay_ns"] >= 0.9e9 * stall["length_s"]
