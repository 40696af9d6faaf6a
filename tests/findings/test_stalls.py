"""Stalls, slow devices, blank cells: what stood still, for how long, and whose fault it was."""

import msgspec
import pytest

from seatrial._core import Histogram
from seatrial.findings.answer import in_one_line
from seatrial.findings.context import Context
from seatrial.findings.rules.cpu_quota import cpu_quota
from seatrial.findings.rules.noisy_machine import noisy_machine
from seatrial.findings.rules.nothing_completed import nothing_completed
from seatrial.findings.rules.slow_device import slow_device
from seatrial.findings.rules.stall import stall
from stats.builders import MS_NS, cell_of, error_of, run_of, sample_of, stall_of, summary_of


def context_of(*summaries):
    return Context(run_of(), summaries)


def one_cell(*stalls, latency_ns=MS_NS, duration_s=10.0, **rest):
    return summary_of(
        sample_of(stalls=stalls, latency_ns=latency_ns, duration_s=duration_s, **rest)
    )


@pytest.mark.parametrize(
    ("median_ms", "length_s", "is_stall"),
    [
        (1, 0.060, True),
        (10, 0.060, True),
        (20, 0.060, False),  # three of its own medians: the device's pace
        (14.9, 0.060, True),
        (15.2, 0.060, False),  # just below four medians
        (500, 3.0, True),
        (800, 3.0, False),
    ],
)
def test_a_stall_is_longer_than_four_medians(median_ms, length_s, is_stall):
    context = context_of(one_cell(stall_of(length_s), latency_ns=int(median_ms * MS_NS)))
    assert bool(stall(context)) is is_stall
    assert bool(slow_device(context)) is not is_stall


@pytest.mark.parametrize(
    ("waiting", "length_s", "is_stall"),
    [
        ({"sync": 1}, 0.060, False),  # every sync takes 50 ms
        ({"sync": 1, "write": 0}, 0.19, False),
        ({"sync": 1}, 0.21, True),
        ({"sync": 1, "write": 3}, 0.060, True),
        ({"read": 1, "sync": 1}, 0.060, True),  # of reads nothing is known
    ],
)
def test_a_slow_kind_of_request_has_a_pace_of_its_own(waiting, length_s, is_stall):
    gap = msgspec.structs.replace(stall_of(length_s), operations=waiting)
    sample = sample_of(cell_of(operation="write", sync_every=1), stalls=[gap], duration_s=10.0)
    (write,) = sample.operations.values()
    sync = msgspec.structs.replace(write, response=Histogram.of([50 * MS_NS] * 1000).encode())
    sample = msgspec.structs.replace(sample, operations={"write": write, "sync": sync})
    context = context_of(summary_of(sample))
    assert bool(stall(context)) is is_stall
    assert bool(slow_device(context)) is not is_stall
    if not is_stall:
        assert slow_device(context)[0].evidence["median_latency_s_max"] == pytest.approx(0.05, 0.01)


def test_no_stall_no_finding():
    assert stall(context_of(one_cell())) == []
    assert slow_device(context_of(one_cell())) == []


@pytest.mark.parametrize(
    ("cause", "length_s", "duration_s", "severity"),
    [
        ("device", 3.1, 10.0, "critical"),
        ("filesystem", 1.0, 10.0, "critical"),
        ("unknown", 1.0, 10.0, "critical"),
        ("generator", 9.0, 10.0, "warning"),
        ("device", 0.999, 10.0, "warning"),
        ("device", 0.2, 1000.0, "warning"),
        ("device", 0.199, 1000.0, "note"),
        ("device", 0.06, 5.0, "warning"),  # short, but more than a hundredth of all time
        ("generator", 0.06, 1000.0, "note"),
    ],
)
def test_severity_follows_length_and_cause(cause, length_s, duration_s, severity):
    (finding,) = stall(context_of(one_cell(stall_of(length_s, cause), duration_s=duration_s)))
    assert finding.severity == severity


@pytest.mark.parametrize(
    ("kind", "command"),
    [("matrix", "seatrial io"), ("pgbench", "seatrial db"), ("replay", "seatrial sql replay")],
)
def test_the_next_step_names_the_command_that_measures_such_a_cell(kind, command):
    cell = cell_of(kind=kind)
    for cause in ("unknown", "device"):
        (finding,) = stall(context_of(one_cell(stall_of(3.1, cause), cell=cell)))
        assert f"longer with '{command}'" in finding.next


def test_one_stall_is_reported_with_length_depth_and_cell():
    (finding,) = stall(context_of(one_cell(stall_of(3.1, depth=10))))
    assert finding.sentence == (
        "One 3.1 s I/O stall with 10 requests outstanding in matrix: read 8 KiB, 1 thread; "
        "requests were pending at the device."
    )
    assert finding.cells == [cell_of().identity()]
    assert finding.evidence["longest_s"] == 3.1
    assert finding.evidence["examples"][0]["start_s"] == 0.1


@pytest.mark.parametrize(
    ("busy_share", "length_s", "is_idle"),
    [
        (0.0, 10.1, True),
        (0.1, 3.0, True),
        (0.11, 10.1, False),
        (0.0, 2.9, False),
        (None, 10.1, False),
    ],
)
def test_a_long_stall_of_unknown_cause_with_an_idle_device(busy_share, length_s, is_idle):
    evidence = {} if busy_share is None else {"device_busy_share_max": busy_share}
    (finding,) = stall(context_of(one_cell(stall_of(length_s, "unknown", evidence=evidence))))
    assert finding.evidence["cause"] == "unknown"
    assert ("the device was idle" in finding.sentence) is is_idle
    assert ("cannot be read" in finding.cause) is not is_idle
    assert ("as root" in finding.next) is not is_idle
    assert ("the device was idle" in in_one_line(finding)) is is_idle


@pytest.mark.parametrize(
    ("busy", "is_above"), [((0, 0), True), ((0, 3), False), ((None, 0), False)]
)
def test_a_stall_with_an_idle_device_is_not_put_on_the_drive(busy, is_above):
    stalls = [
        stall_of(0.1, evidence={"looks": 16} | ({} if n is None else {"looks_device_busy": n}))
        for n in busy
    ]
    (finding,) = stall(context_of(one_cell(*stalls)))
    assert finding.evidence["cause"] == "device"
    assert ("smartctl" in finding.next, "flash" in finding.cause) == (not is_above,) * 2
    assert ("blkio.throttle" in finding.next) is is_above
    assert ("above the device" in in_one_line(finding)) is is_above


def test_a_frozen_file_system_is_not_looked_for_in_the_log_of_hung_tasks():
    """The kernel names what is blocked after 120 s only."""
    (finding,) = stall(context_of(one_cell(stall_of(10.1, "filesystem"))))
    assert "dmesg" not in finding.next
    assert "grep ^D" in finding.next


def test_a_stall_of_the_generator_is_not_the_drives():
    (finding,) = stall(context_of(one_cell(stall_of(0.5, "generator"))))
    assert "caused by CPU contention on the host, not by the drive" in finding.sentence
    assert "I/O stall" not in finding.sentence


@pytest.mark.parametrize(
    ("evidence", "is_stopped"),
    [
        ({"run_delay_ns": 764_203, "steal_ns": 0}, True),
        ({"run_delay_ns": 1_000_000_000, "steal_ns": 600_000_000}, False),
        ({"device_busy_share_max": 0.11}, True),
        ({"cpu_steal_share_max": 0.6}, False),
        ({}, False),
    ],
)
def test_a_load_generator_that_did_not_wait_for_a_cpu_was_stopped(evidence, is_stopped):
    cell = one_cell(
        stall_of(3.0, "generator", evidence=evidence),
        counters={"watchdog_lateness_ns_total": 3.01e9, "watchdog_lateness_ns_max": 3e9},
    )
    (finding,) = stall(context_of(cell))
    assert finding.severity == "warning"
    assert ("CPU contention" in finding.sentence) is not is_stopped
    assert in_one_line(finding).startswith("The load generator was stopped") is is_stopped
    assert ("other processes" in finding.next) is not is_stopped
    assert bool(noisy_machine(context_of(cell))) is not is_stopped


def test_stalls_of_a_cause_are_merged_over_cells():
    cells = [
        one_cell(stall_of(0.1), stall_of(0.2 + i), cell=cell_of(threads=i + 1)) for i in range(4)
    ]
    clean = [one_cell(cell=cell_of(workload="mix", threads=i + 1)) for i in range(26)]
    generator = one_cell(stall_of(0.4, "generator"), cell=cell_of(threads=90))
    found = stall(context_of(*cells, *clean, generator))
    assert [finding.evidence["cause"] for finding in found] == ["device", "generator"]
    assert "8 I/O stalls" in found[0].sentence
    assert "in 4 of 31 tests" in found[0].sentence
    assert found[0].evidence["total_s"] == pytest.approx(0.4 + 0.2 + 1.2 + 2.2 + 3.2)
    assert len(found[0].cells) == 4


def test_stalls_beyond_the_bound_are_counted():
    (finding,) = stall(context_of(one_cell(stall_of(0.3), stalls_dropped=7)))
    assert finding.evidence["stalls_dropped_count"] == 7
    assert "7 more that were not stored" in finding.sentence


def test_stalls_beyond_the_bound_are_counted_once():
    stalls = [stall_of(0.3), stall_of(0.4, "generator"), stall_of(0.5)]
    found = stall(context_of(one_cell(*stalls, stalls_dropped=7)))
    assert [finding.evidence["stalls_dropped_count"] for finding in found] == [7, 0]
    assert "not stored" not in found[1].sentence


def test_queued_requests_do_not_raise_the_bar():
    """Under a schedule most responses wait behind the stall; the service times do not."""
    sample = sample_of(
        completed=100,
        response_ns=[2000 * MS_NS] * 60 + [MS_NS] * 40,
        service_ns=[3000 * MS_NS] + [MS_NS] * 99,
        stalls=[stall_of(3.0)],
        duration_s=10.0,
    )
    assert stall(context_of(summary_of(sample)))


def test_the_pace_is_that_of_all_rounds():
    frozen = sample_of(completed=0, round=0, stalls=[stall_of(1.0)], oldest_in_flight_ns=10**9)
    usual = sample_of(completed=500, round=1)
    assert stall(context_of(summary_of(frozen, usual)))


def test_a_slow_device_is_reported_by_its_latency():
    (finding,) = slow_device(context_of(one_cell(stall_of(0.12), latency_ns=80 * MS_NS)))
    assert finding.severity == "warning"
    assert finding.sentence.startswith("Median latency was 80 ms in matrix: read 8 KiB")
    assert "intervals of up to 120 ms" in finding.sentence


def blank_cell(**rest):
    return summary_of(sample_of(completed=0, **rest))


def test_a_cell_without_completions_is_reported():
    blank = blank_cell(oldest_in_flight_ns=4_200_000_000, in_flight=1, stalls=[stall_of(1.0)])
    context = context_of(blank, one_cell(cell=cell_of(threads=4)))
    (finding,) = nothing_completed(context)
    assert finding.severity == "critical"
    assert "0 completed, oldest in flight 4.2 s" in finding.sentence
    assert finding.evidence["oldest_in_flight_s"] == pytest.approx(4.2)
    assert finding.evidence["stall_causes"] == ["device"]
    assert stall(context) == []  # without any completion there is no pace to judge a stall by


def test_failed_requests_explain_a_blank_cell():
    (finding,) = nothing_completed(context_of(blank_cell(failed=3, errors=[error_of()])))
    assert "3 failed (EIO)" in finding.sentence
    assert "errors" in finding.cause


def test_a_cell_with_completions_is_not_blank():
    assert nothing_completed(context_of(one_cell())) == []


def quota_context(*stopped_s, late_s=0.0, duration_s=10.0):
    """Samples on two processors, in each of which a quota stopped threads for so long in sum."""
    counters = [
        {"cpu_quota_ns": each * 1e9, "watchdog_lateness_ns_total": late_s * 1e9}
        for each in stopped_s
    ]
    samples = [
        sample_of(duration_s=duration_s, counters=each, round=number)
        for number, each in enumerate(counters)
    ]
    return Context(run_of(before={"machine": {"cpus_online": 2}}), (summary_of(*samples),))


@pytest.mark.parametrize(
    ("stopped_s", "severity"), [(0.1, None), (0.3, "note"), (2.0, "warning"), (40.0, "warning")]
)
def test_a_quota_is_a_finding_by_its_share_of_each_processor(stopped_s, severity):
    found = cpu_quota(quota_context(0.0, stopped_s))
    assert [finding.severity for finding in found] == ([severity] if severity else [])
    for finding in found:
        assert finding.evidence["samples_count"] == 1
        assert finding.evidence["stopped_share_max"] == min(1.0, stopped_s / 20)


def test_a_watchdog_that_the_quota_stopped_is_no_noisy_machine():
    assert noisy_machine(quota_context(0.0, late_s=3.0)) != []
    assert noisy_machine(quota_context(5.0, late_s=3.0)) == []


@pytest.mark.parametrize("cause", ["cgroup_throttle", "cpu_quota"])
def test_a_stall_by_a_control_group_names_it_and_its_setting(cause):
    evidence = {"cgroup": "/sys/fs/cgroup/db", "cgroup_setting": "io.max 8:0 wbps=1"}
    (finding,) = stall(context_of(one_cell(stall_of(3.1, cause, evidence=evidence))))
    assert "/sys/fs/cgroup/db" in finding.sentence
    assert "io.max 8:0 wbps=1" in finding.sentence
    assert finding.evidence["cgroup_settings"] == ["/sys/fs/cgroup/db/io.max 8:0 wbps=1"]
    assert finding.severity == ("critical" if cause == "cgroup_throttle" else "warning")
