"""A study on up to four hosts, whose clocks are 3 s apart, against one throttled device."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from fleet.shared_lab import HOSTS, LIMIT_IOPS, ONE_ROUND, measured, study_of
from seatrial.findings.summary import summarise
from seatrial.results.store import ResultsFile
from seatrial.trials.fleet.analysis.scaling import fairness

pytestmark = [pytest.mark.ray, pytest.mark.root, pytest.mark.slow]


@pytest.fixture(scope="module")
def found(lab, target, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    return folder, *measured(folder, study_of(target, "[1, 2, 4]"), lab.address)


def test_every_number_of_hosts_shows_the_limit_of_the_target(found):
    _, run, end, samples = found
    assert (run.status, len(samples)) == ("complete", 9), end.reason
    rates = {}
    for sample in samples:
        rates.setdefault(sample.cell.factors["hosts"], []).append(sample.completed_per_s)
    one_client = statistics.median(rates[1])
    assert one_client == pytest.approx(LIMIT_IOPS, rel=0.05)
    for count in (2, 4):
        assert statistics.median(rates[count]) == pytest.approx(one_client, rel=0.03)


def test_sums_are_those_of_the_device(found):
    """Of the same samples, the kernel's count of reads; its first and last are the engine's."""
    for sample in found[3]:
        of_hosts = sum(host.completed for host in sample.fleet.hosts)
        assert sample.counters["device_reads"] == pytest.approx(of_hosts, abs=2)
        assert sample.outcome.completed + sample.fleet.outside_completed == of_hosts


def test_hosts_start_together_though_a_clock_is_ahead(found):
    skews_ns = sorted(s.fleet.skew_ns for s in found[3] if len(s.fleet.hosts) > 1)
    assert all(skew_ns < 100_000_000 for skew_ns in skews_ns)
    offsets = {host.name: host.clock_before.offset_ns for s in found[3] for host in s.fleet.hosts}
    assert offsets["host2"] - offsets["host1"] == pytest.approx(3_000_000_000, abs=50_000_000)


def test_each_host_has_its_line_and_a_fair_share(found):
    whole = [sample for sample in found[3] if len(sample.fleet.hosts) == HOSTS]
    shares = []
    for sample in whole:
        rates = [host.window_completed for host in sample.fleet.hosts]
        assert sum(rates) == sample.outcome.completed
        shares.append(fairness(rates))
        assert [host.name for host in sample.fleet.hosts] == [
            f"host{number}" for number in range(1, HOSTS + 1)
        ]
    # A busy machine keeps one of four hosts from the processor now and then.
    assert max(shares) > 0.9, shares
    used = {h.name for s in found[3] if len(s.fleet.hosts) == 1 for h in s.fleet.hosts}
    assert len(used) == 3, "each host has its turn where a test needs one"


def test_nobody_calls_a_host_while_it_measures(found):
    """Some 10 packets a second are Ray's own; 1,500 requests a second would be seen."""
    for sample in found[3]:
        for host in sample.fleet.hosts:
            assert host.received_bytes_per_s < 10_000
            assert host.sent_bytes_per_s < 10_000


def test_the_summary_says_that_the_target_is_the_limit(found):
    folder, run, _, samples = found
    with ResultsFile.open(folder / "results.seatrial", read_only=True) as store:
        assert store.samples(run.id)[0].fleet == samples[0].fleet
    summary = summarise(run, samples)
    (scaling,) = summary.analyses["fleet"]
    assert [step.hosts for step in scaling.steps] == [1, 2, 4]
    assert scaling.is_at_limit
    assert not [each for each in summary.findings if each.kind == "host_lost"]


def test_nothing_is_left_on_the_target(found, target: Path):
    assert [each.name for each in target.iterdir()] == ["lost+found"]


def test_own_files_are_made_on_every_host(lab, target, tmp_path):
    study = study_of(
        target, f"[{HOSTS}]", hosts='files = "own"', workload="threads = 1\nseconds = 1"
    ).replace(*ONE_ROUND)
    run, _, samples = measured(tmp_path, study, lab.address)
    assert (run.status, len(samples)) == ("complete", 1)
    assert [host.completed > 0 for host in samples[0].fleet.hosts] == [True] * HOSTS
    assert [each.name for each in target.iterdir()] == ["lost+found"]
