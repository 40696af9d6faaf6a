"""What limits: buckets against what they hold, the cap that was planted, money wasted."""

from __future__ import annotations

import json
import random
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.command import Ended, seatrial
from report.json_schema import assert_published
from seatrial.catalogue.facts import Instance
from seatrial.catalogue.volumes import Bucket, parse_volume
from seatrial.findings.model import Summary
from seatrial.machine.fingerprint.tree import SystemTree
from seatrial.results.model import Sample, Slice, Stall, Timeline
from seatrial.stats.estimate import Estimate
from seatrial.trials.plan.analysis import caps
from seatrial.trials.plan.analysis.buckets import buckets_of, simulate, sustained_factors
from seatrial.trials.plan.analysis.candidates import _volume_limits
from seatrial.trials.plan.analysis.commits import allowances_of
from seatrial.trials.plan.analysis.demand import constant_demand, demand_of_recording
from seatrial.trials.plan.analysis.measured_caps import caps_of_run, throttled_stalls
from seatrial.trials.plan.commands.load_source import demands_of_samples, most_bytes
from seatrial.trials.plan.measure.recognise import recognise
from seatrial.trials.plan.report.caps_page import caps_figure
from seatrial.trials.plan.report.caps_text import loads_of, verdict_line
from seatrial.trials.watch.topic import WATCHED
from stats.builders import MS_NS, cell_of, run_of, sample_of, summary_of
from trials.loadline.report.loadline_hand import make_load_line
from trials.watch.recordings import FLUSH, WRITE, recording

from .made import demand, facts

GP2 = Bucket(base_per_s=1500, burst_per_s=3000, credits_max=5_400_000)


def test_a_bucket_runs_dry_when_arithmetic_says_so():
    outcome = simulate(np.full((1, 240), 2400.0), 60.0, buckets_of([(1500, GP2)]))
    assert outcome.dry_after_s[0] == pytest.approx(6000)  # 5.4 M credits at 900 a second
    # Then 1,500 of 2,400 are served: (14,400 - 6,000) s of 240 minutes.
    assert outcome.unserved_share[0] == pytest.approx(900 * 8400 / (2400 * 14400))


def test_credits_come_back_while_the_load_is_low():
    hour_on_hour_off = np.tile([2900.0] * 30 + [100.0] * 30, 24)[None, :]
    outcome = simulate(hour_on_hour_off, 60.0, buckets_of([(1500, GP2)]))
    assert outcome.unserved_share[0] == 0
    assert np.isinf(outcome.dry_after_s[0])
    daily = Bucket(base_per_s=1500, burst_per_s=3000, credits_max=2_700_000, refill_per_s=31.25)
    assert simulate(hour_on_hour_off, 60.0, buckets_of([(1500, daily)])).unserved_share[0] > 0.1


def test_a_short_load_is_played_in_fine_slots_and_for_a_day():
    """10 s of 5,000 and 10 of 100: no peak fits a burst of 3,000, and the mean empties credits."""
    load = demand([5000.0] * 100 + [100.0] * 100, slot_s=0.1)
    fine, day = load.for_simulation()
    assert (fine.slot_s, len(fine.reads_per_s)) == (0.1, 200)
    assert (day.slot_s, day.seconds) == (30.0, 86_400)
    assert day.reads_per_s[0] == pytest.approx(2550)
    assert len(demand([1.0] * 36_000, slot_s=0.1).for_simulation()[0].reads_per_s) == 3000
    provisioned = parse_volume("gp2:500GiB", facts())
    cap = caps.report_with_load(
        caps.caps_of_volume(provisioned, facts()), [load], provisioned, None, None
    )
    assert cap.binding[0].is_broken
    assert cap.binding[0].dry_after_s == 0
    hours = demand([1000.0, 2000.0, 3000.0, 400.0], slot_s=3600.0)
    assert hours.in_slots_of(7200).reads_per_s.tolist() == [1500.0, 1700.0]
    assert hours.for_simulation()[1].seconds == 86_400


@pytest.mark.parametrize("slot_s", [12.0, 3.5])
@pytest.mark.parametrize("busy", [0, 9])
def test_a_day_has_the_mean_of_the_load_that_it_repeats(busy: int, slot_s: float):
    """Slots of 12 s do not divide a day's: what is left at the end counts for its time only."""
    rates = np.full(10, 200.0)
    rates[busy] = 2500.0
    _, day = demand(rates.tolist(), slot_s=slot_s).for_simulation()
    assert day.reads_per_s.mean() == pytest.approx(430)


def test_the_last_slot_of_a_recording_is_as_long_as_the_others():
    """Ten reads a second for 601 s: each slot has as many."""
    arrived_ns = (np.arange(6010) * 100_000_000).tolist()
    load = demand_of_recording(recording(seconds=601.0, arrived_ns=arrived_ns), "x")
    assert load.seconds == pytest.approx(601)
    assert load.reads_per_s == pytest.approx(10, rel=0.02)


@given(
    st.lists(st.floats(0, 5000), min_size=2, max_size=40),
    st.floats(100, 3000),
    st.floats(0, 1e6),
    st.floats(0, 2000),
    st.floats(1.0, 2.0),
)
def test_a_larger_limit_never_holds_less(load, base, held, burst, more):
    loads = np.array([load, load])
    small = Bucket(base_per_s=base, burst_per_s=base + burst + 1, credits_max=held)
    large = Bucket(
        base_per_s=base * more, burst_per_s=(base + burst + 1) * more, credits_max=held * more
    )
    factors = sustained_factors(loads, 60.0, buckets_of([(base, small), (base * more, large)]))
    assert factors[1] >= factors[0] * (1 - 1e-3)


@pytest.mark.parametrize("seed", range(20))
def test_the_planted_cap_is_named(seed: int):
    """A load that wants more than any limit, cut by the planted one as a device would cut it."""
    draw = random.Random(seed)
    size = draw.choice([4096, 16384, 65536])
    provisioned = parse_volume(
        f"gp3:2000GiB:{draw.randint(3000, 20000)}:{draw.randint(125, 700)}", facts()
    )
    names = ["r7i.large", "m7g.xlarge", "c7i.2xlarge", "r7i.8xlarge"]
    instance = facts().find("instances", draw.choice(names))
    assert isinstance(instance, Instance)
    found = [*caps.caps_of_volume(provisioned, facts()), *caps.caps_of_instance(instance, facts())]
    in_requests = [each.per_s / (size if each.quantity == "throughput" else 1) for each in found]
    planted = min(zip(in_requests, found, strict=True), key=lambda pair: pair[0])
    noise = 1 - 0.02 * np.random.default_rng(seed).random(60)
    load = demand(planted[0] * noise, size)
    named = caps.report_with_load(found, [load], provisioned, instance, None).binding[0]
    assert (named.subject, named.quantity) == (planted[1].subject, planted[1].quantity)


def test_the_published_comparison_paid_for_iops_that_its_instance_cannot_carry():
    instance = facts().instances["aws/r7i.2xlarge"]
    io2 = caps.wasted_of(parse_volume("io2:700GiB:16000", facts()), instance, facts())
    assert io2 is not None
    assert (io2.iops, round(io2.month.mid, 2)) == (4000, 260.0)
    gp3 = caps.wasted_of(parse_volume("gp3:700GiB:10000:500", facts()), instance, facts())
    assert gp3 is not None
    assert gp3.month.mid == pytest.approx(0.04 * (500 - 312.5e6 / 2**20))
    assert caps.wasted_of(parse_volume("gp3:700GiB", facts()), instance, facts()) is None


def test_a_limit_of_one_direction_counts_that_one_alone():
    group = caps.Cap(
        subject="control group",
        name="reads of sda",
        quantity="IOPS",
        operation="read",
        per_s=1000,
        origin="limit of the control group",
    )
    writes = constant_demand("typed", 0, 2000, 8192)
    (read,) = caps.report_with_load([group], [writes], None, None, None).caps
    assert (read.load_per_s, read.is_broken) == (0, False)
    # pd-standard has 0.75 reads and 1.5 writes per second for each GiB.
    provisioned = parse_volume("pd-standard:1000GiB", facts())
    volume = caps.caps_of_volume(provisioned, facts())
    load = constant_demand("typed", 700, 1400, 8192)
    found = caps.report_with_load(volume, [load], provisioned, None, None)
    assert {each.limited: each.share for each in found.caps if each.quantity == "IOPS"} == {
        "read IOPS": pytest.approx(700 / 750),
        "write IOPS": pytest.approx(1400 / 1500),
    }
    assert not any(each.is_broken for each in found.caps)
    assert {each.limited for each in caps.report_without_load(volume, None).binding} == {
        "read IOPS", "write IOPS", "throughput",
    }  # fmt: skip


@pytest.mark.parametrize(("step_bytes", "share"), [(8192, 1 / 128), (1 << 30, 1.0)])
def test_a_volume_that_merges_counts_a_random_request_as_a_unit(step_bytes: int, share: float):
    """40 requests of 8 KiB a second on sc1: 1 MiB each if they are random."""
    times_ns = (np.arange(2400) * 25_000_000).tolist()
    recorded = recording(
        seconds=60.0,
        arrived_ns=times_ns,
        offset_bytes=np.arange(2400) * step_bytes,
        length_bytes=[8192] * 2400,
    )
    provisioned = parse_volume("sc1:240GiB", facts())
    volume = caps.caps_of_volume(provisioned, facts())
    load = demand_of_recording(recorded, "x")
    (bytes_cap,) = (
        each
        for each in caps.report_with_load(volume, [load], provisioned, None, None).caps
        if each.quantity == "throughput"
    )
    assert bytes_cap.load_per_s == pytest.approx(40 * 2**20 * share, rel=0.1)
    assert bytes_cap.is_broken == (share == 1)
    allowance = allowances_of(_volume_limits(provisioned))[-1]
    assert (allowance.is_of_bytes, allowance.least_bytes) == (True, 1 << 20)


def test_a_limit_that_others_make_unreachable_does_not_bind():
    def cap(per_s: float, operation: str = "") -> caps.Cap:
        return caps.Cap(
            subject="volume",
            name=str(per_s),
            quantity="IOPS",
            operation=operation,
            per_s=per_s,
            origin="typed",
        )

    def lowest(*given: caps.Cap) -> list[float]:
        return [each.per_s for each in caps.lowest_of_each(given)]

    # pd-standard:500GiB at an instance of 50,000.
    assert lowest(cap(375, "read"), cap(750, "write"), cap(50_000)) == [375, 750]
    assert lowest(cap(375, "read"), cap(750, "write"), cap(1000)) == [375, 750, 1000]
    assert lowest(cap(3000), cap(20_000, "read"), cap(4000)) == [3000]
    assert lowest(cap(3000), cap(2000, "read")) == [3000, 2000]


def test_an_instance_that_the_catalogue_lacks_weakens_the_verdict():
    provisioned = parse_volume("gp3:1TiB:16000:1000", facts())
    found = caps.report_with_load(
        caps.caps_of_volume(provisioned, facts()), [demand([100.0])], provisioned, None, None
    )
    assert "within every limit" in verdict_line(found)
    weak = verdict_line(msgspec.structs.replace(found, not_judged="m5.large"))
    assert "within every known limit" in weak
    assert weak.endswith("m5.large is not in the catalogue, so its limits were not judged.")


def test_a_run_that_its_control_group_stalled_is_not_within_every_limit():
    """Half of the requests are flushes, which the group counts and the load lacks."""
    stall = Stall(
        start_s=1.0, length_s=0.1, cause="cgroup_throttle", operations={"write": 1}, depth=1
    )
    stalled = msgspec.structs.replace(sample_of(cell_of()), stalls=[stall] * 47)
    assert throttled_stalls([stalled]) == 47
    group = caps.Cap(
        subject="control group", name="writes of loop0", quantity="IOPS", operation="write",
        per_s=600, origin="limit of the control group",
    )  # fmt: skip
    load = constant_demand("measured", 0, 325, 8192)
    found = caps.report_with_load([group], [load], None, None, None)
    assert "within every limit" in verdict_line(found)
    line = verdict_line(msgspec.structs.replace(found, throttled=47))
    assert "within" not in line
    assert "47 times" in line


def test_flushes_of_a_recording_are_said_to_be_left_out():
    found = demand_of_recording(
        recording(seconds=10.0, arrived_ns=[0] * 60, operation=[WRITE, FLUSH] * 30), "x"
    )
    assert found.writes_per_s.mean() == 3
    assert "without 3 flushes per second" in found.origin


def test_one_subject_that_limits_both_is_named_once():
    limits = [
        caps.Cap(subject="instance", name="m5", quantity=quantity, per_s=per_s, origin="")
        for quantity, per_s in (("IOPS", 12_000), ("throughput", 312e6))
    ]
    found = caps.report_without_load(limits, None)
    assert verdict_line(found) == "The instance limits both: 12,000 IOPS and 312 MB/s."
    one_way = [
        msgspec.structs.replace(each, operation=operation)
        for each, operation in zip(limits, ("read", "write"), strict=True)
    ]
    line = verdict_line(caps.report_without_load(one_way, None))
    assert "read IOPS by the instance, 12,000 IOPS" in line
    assert "write throughput by the instance, 312 MB/s" in line
    found = caps.report_with_load(limits, [demand([30_000.0])], None, None, None)
    assert "peaks at 30,000 IOPS, the limit is 12,000 IOPS" in verdict_line(found)


def test_limits_of_commits_are_not_compared_with_a_load():
    commits = caps.Cap(subject="commit", name="o_dsync", quantity="commits", per_s=500, origin="")
    found = caps.report_with_load([commits], [demand([100.0])], None, None, None)
    assert verdict_line(found) == "What limits: commits by the commit, 500 commits/s."
    device = msgspec.structs.replace(commits, subject="device", quantity="IOPS")
    found = caps.report_with_load([commits, device], [demand([100.0])], None, None, None)
    assert found.binding[0].subject == "device"
    assert "within every limit of IOPS and throughput" in verdict_line(found)


def called(folder: Path, *words: str) -> Ended:
    env = {"SEATRIAL_CATALOGUE": str(folder / "own.toml")}
    return seatrial("caps", *words, folder=folder, env=env)


def test_the_answer_comes_first_and_the_document_has_it(tmp_path: Path):
    words = ("reads=900,writes=1500,size=8KiB", "--instance", "r7i.2xlarge")
    done = called(tmp_path, *words, "--volume", "gp2:500GiB")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(
        "The load exceeds the volume's IOPS: credits run out after 1 h 40 min"
    )
    above = called(tmp_path, "reads=5000,writes=0,size=8KiB", "--volume", "gp2:500GiB").out
    assert "peaks at 5,000 IOPS, the burst is 3,000 IOPS" in " ".join(above.split())
    assert "0 ns" not in above
    document = called(tmp_path, *words, "--volume", "gp2:500GiB", "--json").document
    assert_published(document)
    assert document["found"]["caps"][0]["dry_after_s"] == pytest.approx(6000)
    done = called(tmp_path, "--instance", "r7i.2xlarge", "--volume", "io2:700GiB:16000")
    assert "260.00 USD per month" in " ".join(done.out.split())


def test_a_run_is_a_load_with_limits_of_its_own(tmp_path: Path):
    assert seatrial("io", "null", "--seconds", "0.5", folder=tmp_path).code == 0
    assert "- Load: measured, run " in called(tmp_path, "last", "--volume", "gp3:100GiB").out
    done = called(tmp_path, "last", "--volume", "gp3:100GiB", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.document["found"]["load"].startswith("measured, run ")
    assert done.document["found"]["binding"][0]["subject"] == "volume"
    assert done.document["verdict"].startswith("The load exceeds the volume's")


def test_a_stored_recording_is_one_load_of_all_its_operations_and_devices():
    def part(target: str, operation: str, indices: range) -> Sample:
        cell = cell_of(target=target, operation=operation, kind=WATCHED)
        slices = [
            Slice(
                index=each,
                operation=operation,
                completed=50,
                transferred_bytes=500,
                response=b"",
            )
            for each in indices
        ]
        timeline = Timeline(slice_ns=100 * MS_NS, slices=slices)
        return msgspec.structs.replace(sample_of(cell, duration_s=1.25), timeline=timeline)

    parts = [
        part("sda", "read", range(10)),
        part("sda", "write", range(5, 10)),
        part("sdb", "read", range(10)),
        part("sda", "discard", range(10)),
    ]
    (found,) = demands_of_samples(run_of(), parts)
    assert found.reads_per_s == pytest.approx([1000 * 10 / 12]), "limits are of a second"
    assert found.writes_per_s == pytest.approx([500 * 5 / 12])
    assert found.bytes_per_s == pytest.approx([(10_000 * 10 + 5000 * 5) / 12])
    assert "sda, sdb" in found.origin


def steady_test(size_bytes: int, per_s: int, kind: str | None = None) -> Sample:
    cell = cell_of(block_size_bytes=size_bytes, threads=8, kind=kind)
    slices = [
        Slice(
            index=each,
            operation="read",
            completed=per_s // 10,
            transferred_bytes=per_s // 10 * size_bytes,
            response=b"",
        )
        for each in range(40)
    ]
    timeline = Timeline(slice_ns=100 * MS_NS, slices=slices)
    return msgspec.structs.replace(sample_of(cell, duration_s=4), timeline=timeline)


def test_what_prepares_others_is_a_load_only_if_nothing_else_is():
    fill, test = steady_test(1 << 20, 900, "fill"), steady_test(8 << 10, 500)
    for samples in ([fill, test], [fill]):
        (load,) = demands_of_samples(run_of(), samples)
        assert load.requests_per_s == pytest.approx(500 if test in samples else 900)


def test_a_load_of_one_slot_is_drawn_from_end_to_end():
    volume = parse_volume("gp3:100GiB", facts())
    demands = [demand(500, 4096)]
    found = caps.report_with_load(caps.caps_of_volume(volume, facts()), demands, volume, None, None)
    (view,) = caps_figure(found, demands).views
    for panel, per_s in zip(view.panels, (500, 500 * 4096), strict=True):
        points = [(point.x, point.y) for point in panel.lines[0].points]
        assert points == [(0, pytest.approx(per_s)), (panel.x.high, pytest.approx(per_s))]


def test_each_limit_counts_the_test_that_loads_it_most():
    """1,000 IOPS of 8 KiB and 50 of 1 MiB: neither has most requests and most bytes."""
    tests = [steady_test(8 << 10, 1000), steady_test(1 << 20, 50)]
    demands = demands_of_samples(run_of(), tests)
    provisioned = parse_volume("gp3:100GiB", facts())
    group = caps.Cap(
        subject="control group", name="sda", quantity="IOPS", per_s=500, origin="typed"
    )
    found = caps.report_with_load(
        [*caps.caps_of_volume(provisioned, facts()), group], demands, provisioned, None, None
    )
    by_subject = {(each.subject, each.quantity): each for each in found.caps}
    assert by_subject["control group", "IOPS"].load_per_s == pytest.approx(1000)
    assert by_subject["volume", "throughput"].load_per_s == pytest.approx(50 << 20)
    assert found.binding[0].subject == "control group"
    assert "8 KiB, 8 threads" in found.load
    assert ["1 MiB" in load for load in loads_of(found).values()] == [False, True]
    probe = sample_of(cell_of(kind="loadline"), completed=30_000, latency_ns=MS_NS)
    assert len(demands_of_samples(run_of(), [*tests, probe])) == 2, "a load line tries rates"
    assert "1,000 IOPS" in most_bytes(demands)[1]
    assert not most_bytes(demands[:1])[1]


def test_one_session_commits_at_its_mean_time_not_its_median():
    cell = cell_of(workload="commit", operation="commit", factors={"method": "o_dsync"})
    times_ns = [MS_NS] * 9 + [11 * MS_NS]
    part = summary_of(sample_of(cell, completed=10, response_ns=times_ns))
    run = Summary(run=run_of(), cells=[part], findings=[], verdict="")
    (cap,) = caps_of_run(run)
    assert cap.per_s == pytest.approx(500, rel=0.02)
    assert cap.name.endswith("o_dsync")


@pytest.mark.parametrize(("low", "high", "caps_count"), [(900, 1100, 1), (1000, None, 0)])
def test_a_rate_that_is_only_a_lower_bound_is_no_limit(low, high, caps_count):
    rate = Estimate(value=1000, low=low, high=high, rounds=3, unit="IOPS")
    analyses = {"loadline": [make_load_line(sustained=rate)]}
    run = Summary(run=run_of(), cells=[], findings=[], verdict="", analyses=analyses)
    assert len(caps_of_run(run)) == caps_count


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "No limit is known for this storage"),
        (("--instance", "r7i.3xlarge"), "no instance 'r7i.3xlarge'"),
        (("--volume", "gp3:5GiB:9000"), "3,000 to 3,000"),
        (("reads=5,size=8KiB", "--volume", "gp3:5GiB"), "it has no writes"),
        (("reads=5,writes=x,size=8KiB", "--volume", "gp3:5GiB"), "could not convert"),
        (("reads=5,writes=-1,size=8KiB", "--volume", "gp3:5GiB"), "not a rate"),
        (("reads=3,000,writes=500,size=8KiB", "--volume", "gp3:5GiB"), "'000' has no equals"),
        (("reads=5,writes=1,size=8KiB,reads=9", "--volume", "gp3:5GiB"), "reads is there twice"),
        (("reads=5,writes=1,size=8KiB,depth=3", "--volume", "gp3:5GiB"), "depth is not a figure"),
        (("nothing", "--volume", "gp3:5GiB"), "nothing"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, words: tuple[str, ...], said: str):
    done = called(tmp_path, *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def put(root: Path, path: str, text: str) -> None:
    source_name = root / path.lstrip("/")
    source_name.parent.mkdir(parents=True, exist_ok=True)
    source_name.write_text(text)


def test_a_rented_machine_is_recognised_without_a_network(tmp_path: Path):
    aws = tmp_path / "aws"
    put(aws, "/sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
    put(aws, "/sys/class/dmi/id/product_name", "r7i.2xlarge\n")
    put(aws, "/sys/block/nvme1n1/device/model", "Amazon Elastic Block Store              \n")
    put(aws, "/sys/block/nvme1n1/size", f"{700 * 2**21}\n")
    put(aws, "/sys/block/nvme2n1/device/model", "Amazon EC2 NVMe Instance Storage\n")
    put(aws, "/sys/block/nvme2n1/size", "1000\n")
    put(aws, "/run/cloud-init/instance-data.json", json.dumps(
        {"v1": {"cloud_name": "aws", "region": "us-east-1"}, "ds": {}}
    ))  # fmt: skip
    found = recognise(SystemTree(aws))
    assert (found.provider, found.instance, found.region) == ("aws", "r7i.2xlarge", "us-east-1")
    assert [(each.kind, each.size_bytes >> 30) for each in found.disks] == [
        ("volume", 700),
        ("local", 0),
    ]
    azure = tmp_path / "azure"
    put(azure, "/sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n")
    put(azure, "/sys/class/dmi/id/product_name", "Virtual Machine\n")
    compute = {"vmSize": "Standard_E8ds_v5"}
    put(azure, "/run/cloud-init/instance-data.json", json.dumps(
        {"v1": {"cloud_name": "azure", "region": "eastus"},
         "ds": {"meta_data": {"imds": {"compute": compute}}}}
    ))  # fmt: skip
    found = recognise(SystemTree(azure))
    assert (found.provider, found.instance) == ("azure", "E8ds_v5")
    assert f"azure/{found.instance}" in facts().instances
    put(azure, "/run/cloud-init/instance-data.json", "{")
    assert recognise(SystemTree(azure)).instance == ""
    assert recognise(SystemTree(tmp_path / "none")).provider == ""
