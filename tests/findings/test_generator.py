"""The generator's own limits, noise on the machine, schedules that were not kept."""

import msgspec
import pytest

from seatrial.findings.context import Context
from seatrial.findings.rules.generator_limited import generator_limited
from seatrial.findings.rules.noisy_machine import noisy_machine
from seatrial.findings.summary import summarise
from seatrial.trials.io.findings.late_requests import late_requests
from stats.builders import MS_NS, cell_of, rounds_of, run_of, sample_of, stall_of, summary_of


def context_of(*summaries, before=None):
    return Context(run_of(before=before), summaries)


@pytest.mark.parametrize(("rate", "is_limited"), [(699, False), (700, False), (701, True)])
def test_above_seven_tenths_of_the_null_limit(rate, is_limited):
    cell = rounds_of(cell_of(), [rate], counters={"null_limit_per_s": 1000.0})
    found = generator_limited(context_of(cell))
    assert bool(found) is is_limited
    if found:
        assert found[0].severity == "warning"
        assert "70 %" in found[0].sentence
        assert "lower bound" in found[0].sentence


@pytest.mark.parametrize("engine", ["null", "simulated"])
def test_the_engine_alone_is_not_limited_by_itself(engine):
    cell = rounds_of(cell_of(), [999], counters={"null_limit_per_s": 1000.0}, engine=engine)
    assert generator_limited(context_of(cell)) == []


def cpu_counters(user_s, system_s=0.0, **rest):
    return {"cpu_user_ns": user_s * 1e9, "cpu_system_ns": system_s * 1e9} | rest


@pytest.mark.parametrize(
    ("threads", "cpus", "counters", "is_limited"),
    [
        (1, 8, cpu_counters(0.50, 0.39), False),
        (1, 8, cpu_counters(0.50, 0.45), True),
        (10, 2, cpu_counters(1.0, 0.9), True),
        (10, 4, cpu_counters(1.0, 0.9), False),
        (1, 8, cpu_counters(1.0, 0.9, kernel_workers_max=3.0), False),
        (10, None, cpu_counters(1.0, 0.9), False),
        (1, 8, {}, False),
    ],
)
def test_out_of_processor(threads, cpus, counters, is_limited):
    cell = rounds_of(cell_of(threads=threads), [1000], counters=counters)
    before = {"machine": {"cpus_online": cpus}}
    found = [
        finding
        for finding in generator_limited(context_of(cell, before=before))
        if "cpu_share_max" in finding.evidence
    ]
    assert bool(found) is is_limited


def test_a_limit_of_the_group_counts_as_processors():
    cell = rounds_of(cell_of(threads=10), [1000], counters=cpu_counters(0.95))
    before = {"machine": {"cpus_online": 64, "cgroup": {"cpu_limit_cpus": 1.0}}}
    assert generator_limited(context_of(cell, before=before))


def test_polling_uses_a_processor_by_design():
    cell = rounds_of(cell_of(iopoll=True), [1000], counters=cpu_counters(0.99))
    assert generator_limited(context_of(cell)) == []


def test_kernel_workers_are_reported_and_cells_are_merged():
    cells = [
        rounds_of(cell_of(threads=n), [1000], counters={"kernel_workers_max": float(n)})
        for n in (1, 2, 12)
    ]
    (finding,) = generator_limited(context_of(*cells))
    assert finding.severity == "note"
    assert finding.sentence == (
        "io_uring handed requests to up to 12 kernel workers (io-wq) in 3 of 3 tests."
    )


@pytest.mark.parametrize(
    ("counters", "is_noisy"),
    [
        ({}, False),
        ({"steal_ns": 0.019e9}, False),  # one tick of 10 ms on each of two processors
        ({"steal_ns": 0.021e9}, True),
        ({"watchdog_lateness_ns_max": 50e6}, False),
        ({"watchdog_lateness_ns_max": 51e6}, True),
        ({"watchdog_lateness_ns_total": 99e6}, False),
        ({"watchdog_lateness_ns_total": 101e6}, True),
    ],
)
def test_noise(counters, is_noisy):
    found = noisy_machine(context_of(rounds_of(cell_of(), [1000], counters=counters)))
    assert bool(found) is is_noisy


@pytest.mark.parametrize(
    ("duration_s", "waited_s", "is_noisy"),
    [(10.0, 1.9, False), (10.0, 2.1, True), (0.5, 5.0, False)],  # updated every 2 s only
)
def test_pressure_is_reported_by_long_samples_only(duration_s, waited_s, is_noisy):
    counters = {"psi_cpu_some_ns": waited_s * 1e9}
    sample = sample_of(counters=counters, duration_s=duration_s)
    assert bool(noisy_machine(context_of(summary_of(sample)))) is is_noisy


def test_own_threads_beyond_the_processors_are_no_noise_of_others():
    counters = {"psi_cpu_some_ns": 9e9}
    cell = summary_of(sample_of(cell_of(threads=40), counters=counters, duration_s=10.0))
    assert noisy_machine(context_of(cell, before={"machine": {"cpus_online": 2}})) == []


@pytest.mark.parametrize(("threads", "share"), [(40, None), (1, 0.9)])
def test_a_pressure_that_is_not_judged_is_no_figure(threads, share):
    counters = {"psi_cpu_some_ns": 9e9, "steal_ns": 3e9}
    cell = summary_of(sample_of(cell_of(threads=threads), counters=counters, duration_s=10.0))
    (finding,) = noisy_machine(context_of(cell, before={"machine": {"cpus_online": 2}}))
    assert finding.evidence["cpu_pressure_share_max"] == share


@pytest.mark.parametrize(("late_s", "is_noisy"), [(0.39, False), (0.41, True)])
def test_the_delays_of_the_watchdogs_of_hosts_are_not_those_of_one(late_s, is_noisy):
    cell = cell_of(factors={"hosts": 4})
    late = rounds_of(cell, [1000], counters={"watchdog_lateness_ns_total": late_s * 1e9})
    assert bool(noisy_machine(context_of(late))) is is_noisy


def test_noise_in_few_samples_is_a_note():
    quiet = [rounds_of(cell_of(threads=n), [1000]) for n in range(1, 20)]
    noisy = rounds_of(cell_of(threads=99), [1000], counters={"steal_ns": 0.3e9})
    (finding,) = noisy_machine(context_of(noisy, *quiet))
    assert finding.severity == "note"
    assert "1 of 20 samples" in finding.sentence
    assert "30 %" in finding.sentence
    (finding,) = noisy_machine(context_of(noisy))
    assert finding.severity == "warning"


def scheduled(
    *,
    late_skipped=0,
    response_ns=None,
    service_ns=None,
    completed=1000,
    threads=1,
    of_engine="psync",
    duration_s=1.0,
    stalls=(),
    **cell,
):
    arrival = cell.pop("arrival", {"kind": "fixed", "rate_per_s": 1})
    cell = cell_of(threads=threads, arrival=arrival, **cell)
    sample = sample_of(
        cell,
        completed=completed,
        late_skipped=late_skipped,
        response_ns=response_ns or [MS_NS] * completed,
        service_ns=service_ns or [MS_NS] * completed,
        engine=of_engine,
        duration_s=duration_s,
        stalls=stalls,
    )
    return summary_of(sample)


@pytest.mark.parametrize(
    ("response_ms", "service_ms", "is_late"),
    [
        (1.0, 1.0, False),
        (2.5, 1.0, True),
        (1.9, 1.0, False),
        (0.9, 0.1, False),  # nine times, but less than a millisecond more
        (200.0, 150.0, False),
        (301.0, 150.0, True),
    ],
)
def test_waiting_for_the_start(response_ms, service_ms, is_late):
    cell = scheduled(
        response_ns=[int(response_ms * MS_NS)] * 1000, service_ns=[int(service_ms * MS_NS)] * 1000
    )
    found = late_requests(context_of(cell))
    assert bool(found) is is_late
    if found:
        assert found[0].severity == "warning"
        assert "from the intended start" in found[0].sentence


def test_the_null_target_is_not_blamed_for_a_late_load_generator():
    found = {
        engine: late_requests(context_of(scheduled(late_skipped=500, of_engine=engine)))
        for engine in ("null", "simulated")
    }
    assert found["null"] == []
    assert found["simulated"]


@pytest.mark.parametrize(("skipped", "severity"), [(10, "warning"), (11, "critical")])
def test_skipped_requests(skipped, severity):
    (finding,) = late_requests(
        context_of(scheduled(late_skipped=skipped, completed=1000 - skipped))
    )
    assert finding.severity == severity
    assert finding.sentence.startswith(
        "The target could not keep up with the schedule in matrix: read 8 KiB, 1 thread"
    )
    assert finding.evidence["late_skipped_count"] == skipped


def test_syncs_are_not_due_by_the_schedule():
    """17 of 1,000 writes were skipped; each other one had a sync."""
    cell = scheduled(late_skipped=17, completed=983, operation="write", sync_every=1)
    (sample,) = cell.samples
    outcome = msgspec.structs.replace(sample.outcome, completed=2 * 983, offered=1000 + 983)
    operations = sample.operations | {"sync": sample.operations["write"]}
    sample = msgspec.structs.replace(sample, outcome=outcome, operations=operations)
    (finding,) = late_requests(context_of(summary_of(sample)))
    assert finding.severity == "critical"
    assert finding.evidence["offered_count"] == 1000
    assert finding.evidence["late_skipped_share_max"] == 0.017


def test_late_cells_are_merged_and_the_worst_is_named():
    cells = [
        scheduled(late_skipped=n, completed=1000, threads=n, duration_s=1 / n) for n in (1, 7, 300)
    ]
    (finding,) = late_requests(context_of(*cells))
    assert finding.sentence.startswith(
        "The target could not keep up with the schedule in 3 of 3 tests"
    )
    assert "300 threads" in finding.sentence
    assert "23 % of the requests were skipped" in finding.sentence


@pytest.mark.parametrize(
    ("kind", "burst", "response_ms", "is_late"),
    [
        ("bursts", 64, 8.0, False),  # eight requests follow each other in each of eight slots
        ("bursts", 64, 9.1, True),
        ("bursts", 8, 2.1, True),
        ("batches", 16, 10.0, False),  # 1 % have more than 4.6 times the mean before them
        ("batches", 16, 11.2, True),
    ],
)
def test_requests_of_a_burst_wait_for_each_other(kind, burst, response_ms, is_late):
    arrival = {"kind": kind, "rate_per_s": 640, "burst": burst}
    times = [int(response_ms * MS_NS)] * 1000
    cell = scheduled(response_ns=times, depth=8, arrival=arrival)
    assert bool(late_requests(context_of(cell))) is is_late


@pytest.mark.parametrize(("depth", "is_of_target"), [(1, False), (16, False), (18, True)])
def test_a_target_is_not_blamed_where_all_slots_were_needed(depth, is_of_target):
    arrival = {"kind": "fixed", "rate_per_s": 12_000}
    cell = scheduled(late_skipped=500, arrival=arrival, depth=depth, duration_s=0.1)
    (finding,) = late_requests(context_of(cell))
    assert finding.sentence.startswith("The target could not keep up") is is_of_target
    assert ("--depth" in finding.next) is not is_of_target
    if depth == 1:
        assert "1,000 requests/s" in finding.cause


SPACED = {"requests": 64, "spacing_s": 0.001}


@pytest.mark.parametrize(
    ("arrival", "response_ms", "is_late"),
    [
        ({"kind": "batches", "burst": 16}, 10.0, False),
        ({"kind": "batches", "burst": 16}, 11.2, True),
        ({"kind": "poisson_bursts", "bursts": [{"groups": [{"requests": 64}]}]}, 8.9, False),
        ({"kind": "poisson_bursts", "bursts": [{"groups": [{"requests": 64}]}]}, 9.1, True),
        ({"kind": "poisson_bursts", "bursts": [{"groups": [{"requests": 32}] * 2}]}, 8.9, False),
        ({"kind": "poisson_bursts", "bursts": [{"groups": [SPACED]}]}, 2.1, True),
    ],
)
def test_requests_of_a_burst_of_a_stream_wait_for_each_other(arrival, response_ms, is_late):
    streams = [
        {"arrival": {"kind": "closed"}},
        {"depth": 8, "arrival": {"rate_per_s": 9} | arrival},
    ]
    times = [int(response_ms * MS_NS)] * 1000
    cell = scheduled(response_ns=times, arrival={"kind": "streams"}, streams=streams)
    assert bool(late_requests(context_of(cell))) is is_late


@pytest.mark.parametrize(("depth", "is_of_target"), [(1, False), (18, True)])
def test_a_target_is_not_blamed_where_a_stream_needed_all_its_slots(depth, is_of_target):
    fixed = {"depth": depth, "arrival": {"kind": "fixed", "rate_per_s": 12_000}}
    streams = [{"threads": 99, "arrival": {"kind": "closed"}}, fixed]
    cell = scheduled(late_skipped=500, threads=100, arrival={"kind": "streams"}, streams=streams)
    (finding,) = late_requests(context_of(cell))
    assert finding.sentence.startswith("The target could not keep up") is is_of_target
    if not is_of_target:
        assert "1 thread at depth 1 complete 1,000 requests/s" in finding.cause
        assert "12k requests/s that were due" in finding.cause


@pytest.mark.parametrize(("kind", "is_late"), [("think", False), ("fixed", True)])
def test_streams_have_a_schedule_if_one_of_them_has(kind, is_late):
    streams = [{"arrival": {"kind": "closed"}}, {"arrival": {"kind": kind}}]
    cell = scheduled(arrival={"kind": "streams"}, streams=streams, late_skipped=9)
    assert bool(late_requests(context_of(cell))) is is_late


def queued_cell(busy_us, stalls=(), kind="fixed"):
    """A tenth of 1,000 requests within 1 s started 30 ms late, on four threads."""
    response_ns = [busy_us * 1000] * 900 + [30 * MS_NS] * 100
    arrival = {"kind": kind, "rate_per_s": 1000, "burst": 4}
    times = {"response_ns": response_ns, "service_ns": [busy_us * 1000] * 1000}
    return scheduled(threads=4, arrival=arrival, stalls=stalls, **times)


@pytest.mark.parametrize(
    ("busy_us", "stalls", "kind", "is_of_target"),
    [
        (30, [], "fixed", False),  # the slots were in use for 0.75 % of the time
        (30, [], "poisson", False),
        (30, [], "bursts", True),  # those of a burst may wait for a single slow request
        (300, [], "fixed", True),  # 7.5 %: a slow phase may be the cause
        (30, [stall_of(0.08)], "fixed", True),
        (30, [stall_of(0.08, "generator")], "bursts", False),
        (30, [stall_of(0.08, "cpu_quota")], "bursts", False),
        (30, [stall_of(0.02, "generator")], "bursts", True),
        (300, [stall_of(0.08, "generator")], "fixed", False),
    ],
)
def test_a_target_is_not_blamed_for_a_late_load_generator(busy_us, stalls, kind, is_of_target):
    (finding,) = late_requests(context_of(queued_cell(busy_us, stalls, kind)))
    assert finding.sentence.startswith("The target could not keep up") is is_of_target
    assert ("lower the rate" in finding.next) is is_of_target
    assert ("the load generator" in finding.figures.in_short(1)) is not is_of_target


def test_a_closed_loop_is_never_late():
    cell = summary_of(sample_of(late_skipped=0, response_ns=[MS_NS] * 1000))
    assert late_requests(context_of(cell)) == []


@pytest.mark.parametrize(("engine", "is_reported"), [("psync", True), ("simulated", False)])
def test_what_this_machine_is_like_does_not_touch_a_simulated_device(engine, is_reported):
    counters = {"watchdog_lateness_ns_max": 500_000_000}
    samples = [sample_of(engine=engine, counters=counters)]
    before = {"machine": {"load_average_1m": 50.0, "cpus_online": 2}}
    kinds = {finding.kind for finding in summarise(run_of(before=before), samples).findings}
    assert ({"noisy_machine", "machine_busy"} <= kinds) is is_reported
