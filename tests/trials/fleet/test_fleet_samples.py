"""A sample of several hosts, what is concluded of it, and what is found."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial._core import Histogram
from seatrial.errors import TargetError
from seatrial.findings.context import Context
from seatrial.findings.registry import rules
from seatrial.findings.summary import summarise
from seatrial.findings.thresholds import figure_of
from seatrial.fleet import host
from seatrial.fleet.group import Group, HostLost
from seatrial.fleet.host import HostActor
from seatrial.machine.file import TrialFolder
from seatrial.results.fleet import LostHost
from seatrial.results.model import Run
from seatrial.stats.cell_estimates import rate_estimate
from seatrial.stats.model import CellSummary
from seatrial.study.hosts import Hosts
from seatrial.trials.database.measure.hosts import HostLoadGenerator
from seatrial.trials.fleet.analysis.scaling import analyse, fairness, fit, usl_rate_per_s
from seatrial.trials.fleet.measure.stage import PREPARE_S, FleetStage
from seatrial.trials.fleet.report.section import USL_NAME, hosts_part
from seatrial.trials.fleet.report.tables import hosts_tables, scaling_sentence, scaling_tables

from .fleet_sample import SLICE_NS, answer, cell_of, clock, sample_of

RUN = Run(
    id="r",
    command="seatrial study",
    study_name="fleet",
    study={},
    plan_hash="",
    seed=0,
    status="complete",
    started_at=0.0,
    seatrial_version="0.1.0",
)


def summary_of(samples):
    rate = rate_estimate(samples)
    return CellSummary(
        cell=samples[0].cell,
        iops=rate,
        bandwidth=rate.scaled(4096.0, "B/s"),
        latency={},
        completed=sum(sample.outcome.completed for sample in samples),
        failed=0,
        samples=samples,
    )


def found(kind, *cells):
    (rule,) = [each for each in rules() if each.kind == kind]
    return rule(Context(run=RUN, cells=list(cells)))


def test_only_the_window_counts_and_all_else_is_accounted_for():
    sample = sample_of([answer("a", 1000), answer("b", 3000)])
    record = sample.fleet
    # 20 whole slices of each host; the slice after the planned end is outside.
    assert sample.duration_s == 2.0
    assert sample.outcome.completed == 2000 + 6000
    assert record.outside_completed == 100 + 300
    outcome = sample.outcome
    assert outcome.offered == outcome.completed + outcome.failed
    assert [host.window_completed for host in record.hosts] == [2000, 6000]
    assert sample.operations["read"].response_histogram().count == 8000
    assert [host.cpu_share for host in record.hosts] == pytest.approx([0.1, 0.1])
    assert sample.counters["device_reads"] == 7.0


def test_starts_and_their_skew():
    sample = sample_of([answer("a", 1000, late_ns=100), answer("b", 1000, late_ns=6_000_100)])
    assert [host.started_ns for host in sample.fleet.hosts] == [0, 6_000_000]
    assert sample.fleet.skew_ns == 6_000_000
    (finding,) = found("hosts_started_apart", summary_of([sample]))
    assert "up to 6.0 ms apart" in finding.sentence
    assert "b started last" in finding.sentence
    near = sample_of([answer("a", 1000), answer("b", 1000, late_ns=5_000_000)])
    assert found("hosts_started_apart", summary_of([near])) == []


def test_a_lost_host_is_another_cell_and_a_critical_finding():
    lost = LostHost(name="b", how="died", noticed_s=3.2, detail="its node ended")
    sample = sample_of([answer("a", 1000)], lost=[lost], round_number=1)
    assert sample.cell.key == "io/read/2hosts/1lost"
    assert sample.fleet.ends_run
    assert not sample_of([answer("a", 1000)], lost=[lost], on_loss="continue").fleet.ends_run
    cell = summary_of([sample])
    (finding,) = found("host_lost", cell)
    assert finding.severity == "critical"
    assert finding.sentence.startswith("b died (its node ended) in round 2 of io: random read")
    assert "noticed 3.2 s after the start; the sample is the sum of 1 of 2 hosts" in (
        finding.sentence
    )
    assert analyse([cell]) == []


def test_a_clock_that_changed_during_a_sample():
    def with_change(change_ns):
        after = clock(offset_ns=change_ns, read_at_ns=2_000_000_000)
        return summary_of([sample_of([answer("a", 1000, after=after), answer("b", 1000)])])

    # Both bounds are 50 us each, and 2 s may drift by 1 ms.
    assert found("host_clock_changed", with_change(1_100_000)) == []
    (finding,) = found("host_clock_changed", with_change(-1_100_001))
    assert finding.severity == "critical"
    assert "The monotonic clock of a went back by 1.1 ms relative to" in finding.sentence


def test_a_time_of_day_that_is_set_by_three_seconds_is_named_and_nothing_else():
    def with_set(set_ns, change_ns=0):
        after = clock(change_ns, read_at_ns=2_000_000_000, wall_offset_ns=set_ns)
        return summary_of([sample_of([answer("a", 1000, after=after), answer("b", 1000)])])

    assert found("host_clock_changed", with_set(1_000_000)) == []
    (finding,) = found("host_clock_changed", with_set(3_000_000_000))
    assert finding.severity == "warning"
    assert "The time of day of a was set ahead by 3.0 s relative to" in finding.sentence
    (finding,) = found("host_clock_changed", with_set(-3_000_000_000))
    assert "set back by 3.0 s" in finding.sentence
    # A monotonic clock that moved, too, is the graver of the two.
    (finding,) = found("host_clock_changed", with_set(3_000_000_000, 3_000_000_000))
    assert finding.severity == "critical"


def test_a_host_that_does_less_in_every_round():
    def rounds(per_s, *, count=2, cpu_share=0.1):
        return summary_of(
            [
                sample_of(
                    [
                        answer("a", 1000),
                        answer("b", 1000),
                        answer("c", per_s, cpu_share=cpu_share),
                    ],
                    round_number=number,
                )
                for number in range(count)
            ]
        )

    assert found("host_slower", rounds(800)) == []
    assert found("host_slower", rounds(700, count=1)) == []
    (finding,) = found("host_slower", rounds(700))
    assert finding.sentence.startswith("c reached 70 % of the rate of the median host")
    (finding,) = found("host_slower", rounds(700, cpu_share=0.95))
    assert "Its processors are at their limit (95 % busy)" in finding.cause


def test_the_load_generators_of_hosts_have_the_limit_of_one_each():
    def figures(*, cpu_share, null_limit_per_s, threads=4):
        answers = [answer(f"h{n}", 1000, cpu_share=cpu_share) for n in range(8)]
        sample = sample_of(answers)
        counters = sample.counters | {"null_limit_per_s": null_limit_per_s}
        cell = msgspec.structs.replace(sample.cell, threads=threads)
        sample = msgspec.structs.replace(sample, counters=counters, cell=cell)
        found_here = found("generator_limited", summary_of([sample]))
        return [finding.evidence for finding in found_here]

    # Each host is 12.5 % busy, and reaches half of what a generator can.
    assert figures(cpu_share=0.125, null_limit_per_s=2000.0) == []
    (near,) = figures(cpu_share=0.125, null_limit_per_s=1250.0)
    assert near["null_limit_share_max"] == pytest.approx(0.8)
    (busy,) = figures(cpu_share=0.95, null_limit_per_s=2000.0)
    assert busy["cpu_share_max"] == pytest.approx(0.95)
    # Its only thread is busy; one of its two processors is idle.
    (busy,) = figures(cpu_share=0.475, null_limit_per_s=2000.0, threads=1)
    assert busy["cpu_share_max"] == pytest.approx(0.95, rel=0.05)


def test_stalls_of_hosts_are_unknown_and_their_errors_are_kept():
    sample = sample_of([answer("a", 1000), answer("b", 1000, late_ns=200_000_000)])
    for quantity in ("stalls", "stall_max"):
        assert str(figure_of(summary_of([sample]), quantity)).startswith("stalls unknown")
    assert [(each.name, each.at_s) for each in sample.errors] == [("EIO", 0.3), ("EIO", 0.5)]


def with_timeline(given, slices, **parts):
    timeline = {"slice_ns": SLICE_NS, "slices": slices}
    return msgspec.structs.replace(given, parts={**given.parts, "timeline": timeline, **parts})


def test_syncs_of_a_host_are_no_requests():
    fast = Histogram.of([1_000] * 100).encode()
    slow = Histogram.of([9_000_000] * 100).encode()
    slices = [
        (index, operation, 100, moved, response)
        for index in range(20)
        for operation, moved, response in (("sync", 0, slow), ("write", 409_600, fast))
    ]
    host = with_timeline(answer("a", 2000), slices)
    sample = sample_of([host], sync_every=1)
    (record,) = sample.fleet.hosts
    assert (sample.completed_per_s, record.window_completed) == (1000.0, 2000)
    assert (record.completed_per_slice, [*record.responses]) == ([100] * 20, ["write"])
    assert sample.fleet.outside_completed == record.completed - 4000


def test_a_common_window_of_less_than_a_slice_is_an_error():
    whole = (0, "read", 8192, 1 << 26, Histogram.of([10_000] * 8192).encode())
    hosts = [with_timeline(answer(name, 1000), [whole], duration_s=0.06) for name in "ab"]
    with pytest.raises(TargetError, match="less than one slice"):
        sample_of(hosts)
    lost = LostHost(name="c", how="died", noticed_s=0.1)
    assert sample_of(hosts, lost=[lost]).outcome.completed == 0


def test_a_target_at_its_limit_is_said():
    def cell(hosts, per_s, spread=0.0):
        samples = []
        for number in range(3):
            of_round = per_s / hosts * (1 + spread * (number - 1))
            parts = [answer(f"h{n}", of_round) for n in range(hosts)]
            samples.append(sample_of(parts, round_number=number))
        return summary_of(samples)

    (limited,) = analyse([cell(1, 1200), cell(2, 1200), cell(4, 1200)])
    assert limited.is_at_limit
    assert [step.hosts for step in limited.steps] == [1, 2, 4]
    assert limited.limit.value == pytest.approx(1200, rel=0.01)
    assert "in the lab their common processors" in scaling_sentence(limited)
    (noisy,) = analyse([cell(2, 1200, 0.3), cell(4, 1290, -0.3)])
    assert not noisy.is_at_limit, "the gain's interval reaches far above a tenth"
    (growing,) = analyse([cell(1, 1200), cell(2, 2400), cell(4, 4800)])
    assert not growing.is_at_limit
    assert growing.best_hosts == 4
    assert growing.serial_share.value == pytest.approx(0.0, abs=1e-6)
    (table,) = scaling_tables([growing])
    assert [row[3] for row in table.rows] == ["1.00x", "2.00x", "4.00x"]
    (hosts,) = hosts_tables([cell(2, 2000)])
    assert [row[:3] for row in hosts.rows] == [["h0", "1,000", "50 %"], ["h1", "1,000", "50 %"]]


def test_a_sample_cut_short_is_no_point_of_the_scaling():
    def samples(hosts, *rates_per_s):
        return [
            sample_of([answer(f"h{n}", per_s / hosts) for n in range(hosts)], round_number=number)
            for number, per_s in enumerate(rates_per_s)
        ]

    last = samples(4, 1200, 1200, 300)
    last[2] = msgspec.structs.replace(last[2], status="interrupted")
    cells = [summary_of(samples(hosts, 1200, 1200, 1200)) for hosts in (1, 2)]
    (scaling,) = analyse([*cells, summary_of(last)])
    assert scaling.is_at_limit
    assert scaling.limit.value == pytest.approx(1200, rel=0.01)


def test_files_that_hosts_did_not_remove_are_named():
    stage = FleetStage.__new__(FleetStage)
    stage._shared, stage._stack = False, ExitStack()
    asked = {}

    class Failing:
        def remaining(self):
            return []

        def ask(self, method, **options):
            asked[method] = options["timeout_s"]
            failed = HostLost(host="host3", how="failed", noticed_s=1.0, detail="file: busy")
            return {"host1": None, "host3": failed}

    stage._group = Failing()
    with pytest.raises(TargetError, match=r"host3 \(file: busy\).*`seatrial clean` on host3"):
        stage.__exit__(None, None, None)
    assert asked == {"close_own": PREPARE_S}
    pending = RuntimeError("x")
    stage.__exit__(type(pending), pending, None)
    assert "host3" in pending.__notes__[0]


@pytest.mark.parametrize(("on_loss", "left"), [("continue", 2), ("stop", 3)])
def test_a_host_that_died_between_samples_leaves_the_tests_of_fewer_hosts(
    on_loss, left, monkeypatch
):
    group = Group.__new__(Group)
    group.hosts, group.lost = [SimpleNamespace(name=name) for name in ("a", "b", "c")], set()

    def clocks(hosts):
        lost = HostLost(host="b", how="silent", noticed_s=5.0, detail="")
        return {each.name: lost if each.name == "b" else clock() for each in hosts}

    monkeypatch.setattr(group, "clocks", clocks)
    stage = FleetStage.__new__(FleetStage)
    stage._group, stage._hosts = group, Hosts(on_loss=on_loss)
    assert [stage.is_available(cell_of(count)) for count in (2, 3)] == [True, left == 3]
    load = HostLoadGenerator.__new__(HostLoadGenerator)
    load._group, load._hosts = group, Hosts(on_loss=on_loss)
    assert load.count_remaining() == left


def test_what_a_host_made_before_it_failed_is_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "state"))

    class Failing:
        def __init__(self, request):
            self.folder = TrialFolder(tmp_path, request.run_id, request.journal)

        def __enter__(self):
            self.folder.open(0, direct=False)
            raise TargetError(seen="x", cause="x", next_step="x")

        def __exit__(self, *_exception):
            self.folder.remove()

    monkeypatch.setattr(host, "Stage", Failing)
    actor = HostActor.__new__(HostActor)
    actor._own = None
    with pytest.raises(TargetError):
        actor.open_own(None, "run-host1", "new")
    actor.close_own()
    assert [each.name for each in tmp_path.iterdir()] == ["state"]
    assert list((tmp_path / "state").glob("run-host1*")) == []


@given(
    st.floats(10, 1e6),
    st.floats(0, 0.9),
    st.floats(0, 0.05),
    st.sampled_from([(1, 2, 4), (1, 3, 5, 8)]),
)
def test_the_law_is_recovered_from_its_own_rates(one, serial, pairs, counts):
    rates = {n: usl_rate_per_s(n, one, serial, pairs) for n in counts}
    assert fit(rates) == pytest.approx((one, serial, pairs), rel=1e-6, abs=1e-6)


def test_two_numbers_of_hosts_are_too_few_for_the_law():
    assert fit({1: 100.0, 2: 150.0}) is None
    assert fit({1: 100.0, 2: 150.0, 4: 0.0}) is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=10))
def test_fairness_is_between_one_over_n_and_one(per_s):
    index = fairness(per_s)
    assert 1 / len(per_s) - 1e-9 <= index <= 1 + 1e-9
    assert fairness([7.0] * len(per_s)) == pytest.approx(1.0)


def test_a_sample_survives_the_results_file():
    record = sample_of([answer("a", 1000), answer("b", 1000)]).fleet
    assert msgspec.json.decode(msgspec.json.encode(record), type=type(record)) == record


def test_the_page_has_a_chart_and_a_row_for_each_host():
    samples = [
        sample_of([answer(f"h{n}", 1200 / hosts) for n in range(hosts)], round_number=number)
        for hosts in (1, 2, 4)
        for number in range(3)
    ]
    part = hosts_part(summarise(RUN, samples))
    (figure,) = part.figures
    assert [line.name for line in figure.views[0].panels[0].lines] == ["measured", USL_NAME]
    assert figure.views[0].panels[0].guides[0].label.startswith("limit 1")
    assert f'id="{figure.table}"' in part.section
    assert part.section.count("<td>h3</td>") + part.section.count(">h3<") >= 1
    assert hosts_part(summarise(RUN, [])).section == ""


def test_the_share_of_a_host_is_that_of_its_own_samples():
    turns = [("a", "b"), ("b", "c")]
    samples = [
        sample_of([answer(host, 1000) for host in hosts], round_number=number)
        for number, hosts in enumerate(turns)
    ]
    (table,) = hosts_tables([summary_of(samples)])
    assert [(row[0], row[2]) for row in table.rows] == [("a", "50 %"), ("b", "50 %"), ("c", "50 %")]
