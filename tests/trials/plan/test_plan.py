"""Plans: what always holds of them, what they refuse, and what they say."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import click
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.command import Ended, seatrial
from report.json_schema import assert_published
from seatrial.catalogue.units import Money
from seatrial.catalogue.volumes import Item
from seatrial.errors import UsageError
from seatrial.results.store import ResultsFile
from seatrial.trials.plan.analysis.answer import Choice, StoragePlan, plan_of
from seatrial.trials.plan.analysis.array import Array
from seatrial.trials.plan.analysis.candidates import (
    Candidate,
    OwnDrive,
    RequestTimes,
    SearchBounds,
    arrays_of,
    own_arrays,
    own_drive,
    rented,
)
from seatrial.trials.plan.analysis.demand import Limit, constant_demand
from seatrial.trials.plan.analysis.figure import Figure, exact
from seatrial.trials.plan.analysis.need import StorageNeed, busiest_gaps, parse_objective
from seatrial.trials.plan.analysis.queueing import log_normal
from seatrial.trials.plan.analysis.ranking import pareto
from seatrial.trials.plan.analysis.scenarios import Scenarios, evaluate
from seatrial.trials.plan.commands.plan import _capacity
from seatrial.trials.plan.report.plan_page import plan_figures, render
from seatrial.trials.plan.report.plan_text import notes, refusal_reason, times_phrase
from seatrial.units import GIB

from .made import demand, facts

SERVICE = log_normal(0.5)
FEW = 400


def candidate(name: str, money: float, iops: float, mean_ms: float = 1.0, **more) -> Candidate:
    """Storage of a rate, a time and a price."""
    times = RequestTimes(
        kind=more.pop("times_kind", name),
        mean_ms=more.pop("times", exact(mean_ms, "typed")),
        service=SERVICE,
        origin="typed",
    )
    price = Money.of(money, "USD")
    return Candidate(
        name=name,
        kind="volume",
        capacity_bytes=more.pop("capacity_bytes", 1000.0 * GIB),
        caps=(Limit(subject=f"volume {name}", quantity="IOPS", per_s=iops),),
        reads=times,
        writes=times,
        bill=(Item(what=name, amount=1, unit="month", money=price, origin="typed"),),
        month=price,
        lost_per_year=exact(more.pop("lost", 0.001), "typed"),
        **more,
    )


def need(per_s: float = 1000.0, objective: str = "read.p99_ms=20", **more) -> StorageNeed:
    """A constant load of reads and writes."""
    return StorageNeed(
        demand=more.pop("demand", constant_demand("typed", per_s * 0.7, per_s * 0.3, 8192)),
        other_day=more.pop("other_day", Figure(low=0.8, mid=1, high=1.6, origin="assumed")),
        capacity=exact(100.0 * GIB, "typed"),
        growth=exact(0.0, "typed"),
        years=1.0,
        objective=parse_objective(objective) if objective else None,
        **more,
    )


def named(plan: StoragePlan) -> list[str]:
    return [each.name for each in plan.choices]


prices = st.floats(1, 1000)
rates = st.floats(200, 20_000)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(prices, rates, st.floats(0.1, 5)), min_size=1, max_size=6), st.randoms())
def test_the_order_of_candidates_does_not_matter(rows, shuffler: random.Random):
    made = [candidate(f"c{number}", *row) for number, row in enumerate(rows)]
    plan = plan_of(made, need(), scenarios=Scenarios(FEW))
    shuffled = list(made)
    shuffler.shuffle(shuffled)
    assert plan_of(shuffled, need(), scenarios=Scenarios(FEW)) == plan
    assert all(each.month.mid >= 0 and (each.regret or 0) >= 0 for each in plan.choices)
    assert len(plan.choices) + plan.dominated + plan.refused_count == len(made)


@settings(max_examples=30, deadline=None)
@given(prices, rates, st.floats(0.1, 5), st.floats(1.01, 3), st.floats(1.01, 3))
def test_cheaper_and_better_always_dominates(money, iops, mean_ms, cheaper, faster):
    worse = candidate("worse", money, iops, mean_ms)
    better = candidate("better", money / cheaper, iops * faster, mean_ms / faster)
    evaluation = evaluate([worse, better], need(), Scenarios(FEW))
    assert evaluation[1].fit_share >= evaluation[0].fit_share
    assert (evaluation[1].response_ms <= evaluation[0].response_ms * 1.02).all()
    if evaluation[1].fit_share >= 0.5:
        assert [each.candidate.name for each in pareto(evaluation)] == ["better"]
        assert named(plan_of([worse, better], need(), scenarios=Scenarios(FEW))) == ["better"]


@settings(max_examples=20, deadline=None)
@given(rates, st.floats(100, 5000), st.floats(1.0, 4))
def test_more_need_never_fits_better(iops, per_s, more):
    scenarios = Scenarios(FEW)
    one = candidate("one", 10, iops)
    (low,), (high,) = (evaluate([one], need(x), scenarios) for x in (per_s, per_s * more))
    assert high.fit_share <= low.fit_share
    assert (high.response_ms >= low.response_ms * (1 - 1e-6)).all()


def test_cheapest_that_fits_is_first_and_excuses_say_why_the_others_are_not():
    plan = plan_of(
        [
            candidate("small", 10, 500),
            candidate("right", 50, 5000),
            candidate("large", 500, 50_000, 0.9),
            candidate("slow", 5, 50_000, 30.0),
            candidate("full", 6, 50_000, capacity_bytes=10.0 * GIB),
        ],
        need(),
        scenarios=Scenarios(FEW),
    )
    assert plan.choices[0].name == "right"
    assert {each.name: each.miss for each in plan.refused} == {
        "small": "load",
        "slow": "objective",
        "full": "capacity",
    }
    dear = plan_of([candidate("right", 50, 5000)], need(), budget=49, scenarios=Scenarios(FEW))
    assert [(each.name, each.miss) for each in dear.refused] == [("right", "budget")]
    risky = plan_of(
        [candidate("right", 50, 5000, lost=0.02)], need(), lost_max=0.01, scenarios=Scenarios(FEW)
    )
    assert [(each.name, each.miss) for each in risky.refused] == [("right", "risk")]


def test_twice_the_load_leaves_what_is_stored():
    """100 GiB are stored: a disk of 110 GiB has no room for twice as much."""
    plan = plan_of(
        [candidate("a", 10, 50_000, capacity_bytes=110.0 * GIB)], need(), scenarios=Scenarios(FEW)
    )
    assert plan.twice_fit_share == 1
    (said,) = (each for each in notes(plan) if "twice" in each)
    assert "the load" in said


def test_the_nearest_of_those_that_never_fit_is_not_the_cheapest():
    plan = plan_of(
        [
            candidate("small", 1, 100),
            candidate("full", 2, 5000, capacity_bytes=30.0 * GIB),
            candidate("slower", 3, 50_000, 90.0),
            candidate("near", 60, 400),
            candidate("slow", 50, 50_000, 40.0),
        ],
        need(),
        scenarios=Scenarios(FEW),
    )
    order = ["slow", "slower", "near", "full", "small"]
    assert [each.name for each in plan.refused] == order


def test_what_overlaps_is_not_ranked_and_one_measurement_is_named():
    """A is cheap and may be too slow, which only its times decide; B is dear and is not."""
    doubtful = Figure(low=0.5, mid=4.0, high=32.0, origin="assumed")
    made = [
        candidate("a", 40, 20_000, times=doubtful, times_kind="a's"),
        candidate("b", 100, 20_000, 0.3, times_kind="b's"),
    ]
    known = need(other_day=exact(1.0, "typed"))
    plan = plan_of(made, known, scenarios=Scenarios(4000))
    assert len(plan.overlapping) == 2
    assert plan.measurement is not None
    assert plan.measurement.name == "times of a's"
    assert plan.measurement.worth > 1
    # Once it is measured, nothing overlaps: the cheap one is right, or is refused.
    for mean_ms, first in ((1.0, "a"), (30.0, "b")):
        made[0] = candidate("a", 40, 20_000, mean_ms, times_kind="a's")
        plan = plan_of(made, known, scenarios=Scenarios(4000))
        assert plan.choices[0].name == first
        assert plan.measurement is None
        assert len(plan.overlapping) == 1


def test_worlds_are_common_and_follow_from_names():
    one, other = Scenarios(100), Scenarios(100)
    other.of("first drawn")
    assert (one.of("growth") == other.of("growth")).all()
    assert abs(np.corrcoef(Scenarios(10_000).of("a"), Scenarios(10_000).of("b"))[0, 1]) < 0.05


def test_instances_cap_volumes_in_a_searched_plan():
    bounds = SearchBounds(
        iops=14_000,
        bytes_per_s=14_000 * 8192,
        capacity_bytes=700.0 * GIB,
        instances=("r7i.2xlarge", "r7i.4xlarge"),
        volumes=("gp3", "io2"),
    )
    found = rented(bounds, facts(), {})
    assert len(found) > 50
    calm = need(14_000, "", other_day=exact(1.0, "typed"))
    evaluation = {each.candidate.name: each for each in evaluate(found, calm, Scenarios(10))}
    for name, each in evaluation.items():
        assert each.candidate.month.mid > 0
        if name.startswith("r7i.2xlarge"):
            assert each.holds < 1, "it carries 12,000 IOPS, and its bucket does not last a day"
    assert any(
        each.holds > 1 for name, each in evaluation.items() if name.startswith("r7i.4xlarge")
    )


def test_a_volume_of_its_least_size_is_listed_once():
    bounds = SearchBounds(
        iops=2000,
        bytes_per_s=2000 * 8192,
        capacity_bytes=45.0 * GIB,
        instances=("r7i.large",),
        volumes=("st1",),
    )
    assert [each.capacity_bytes / GIB for each in rented(bounds, facts(), {})] == [125]


def test_hard_disks_are_refused_for_small_random_requests():
    """Its rate and a full bucket over a day; 40 requests a second count as 40 MiB/s."""
    bounds = SearchBounds(
        iops=40,
        bytes_per_s=40 * 8192,
        capacity_bytes=240.0 * GIB,
        instances=("r7i.large",),
        volumes=("sc1", "gp3"),
    )
    known = constant_demand("typed", 30, 10, 8192)
    plan = plan_of(rented(bounds, facts(), {}), need(0, "", demand=known), scenarios=Scenarios(FEW))
    assert not any("sc1" in name for name in named(plan))
    (least,) = (each for each in plan.refused if "sc1:240GiB" in each.name)
    assert least.holds == pytest.approx((2.8125 + 240 * 1024 / 86_400) / 40, rel=0.05)
    assert "as whole units" in refusal_reason(least, plan)


def test_requests_that_a_volume_charges_are_on_the_bill(tmp_path: Path):
    words = ("reads=30,writes=10,size=8KiB", "--capacity", "500GiB", "--volume", "standard")
    fixed = ("--instance", "r7i.large", "--growth", "0", "--other-day", "1", "--json")
    plan = called(tmp_path, *words, *fixed).document["plan"]
    (disk, requests, _) = plan["choices"][0]["bill"]
    assert disk["money"]["mid"] == pytest.approx(0.05 * disk["amount"])
    assert requests["money"]["mid"] == pytest.approx(5.256, rel=1e-3)


def test_a_named_kind_of_volume_leaves_local_disks_out():
    bounds = SearchBounds(
        iops=100, bytes_per_s=1e6, capacity_bytes=10.0 * GIB, instances=("i7i.xlarge",),
        volumes=("gp3",),
    )  # fmt: skip
    assert {each.kind for each in rented(bounds, facts(), {})} == {"volume"}


def test_the_bytes_of_local_disks_count():
    """Their throughput is unknown, so a large request is several of 4 KiB."""
    bounds = SearchBounds(
        iops=100, bytes_per_s=100e9, capacity_bytes=100.0 * GIB, instances=("i7i.2xlarge",)
    )
    (local,) = (each for each in rented(bounds, facts(), {}) if each.kind == "local")
    known = constant_demand("typed", 100_000, 0, 1 << 20)
    assert known.counted_by(local.caps[0]).max() == 100_000 * 256
    (found,) = evaluate([local], need(other_day=exact(1.0, "typed"), demand=known), Scenarios(10))
    assert found.holds < 0.1
    plan = plan_of([local], need(demand=known), scenarios=Scenarios(FEW))
    assert plan.refused[0].binding_load_per_s == 100_000 * 256


def test_objectives_and_gaps_are_read():
    found = parse_objective("commit.p99_ms=5")
    assert (found.operation, found.is_of_writes, found.limit_ms) == ("commit", True, 5)
    assert parse_objective("p99.9_ms=2").operation == "read"
    assert parse_objective("p99_ms=.5").limit_ms == 0.5
    assert _capacity("400GiB..500GiB..2000GiB").mid == 500 * GIB
    for wrong in (
        "p98_ms=5",
        "p99_ms=5..",
        "p99_ms=5.5.5",
        "commit.p99=5",
        "p99_ms=0",
        "flush.p99_ms=1",
    ):
        with pytest.raises(UsageError, match="is not an objective"):
            parse_objective(wrong)
    arrived = np.concatenate([np.arange(1000) * 60_000_000, 120e9 + np.arange(5000) * 1e6])
    gaps = busiest_gaps(arrived.astype(np.int64), 60.0)
    assert gaps is not None
    assert gaps.mean() == pytest.approx(1)
    assert busiest_gaps(arrived[:10].astype(np.int64), 60.0) is None


def own(level: str, drives: int, write_bytes: float = 4096) -> Candidate:
    """Drives of 1,000 reads and 500 writes a second, 100 and 50 MB/s, in an array."""
    drive = OwnDrive(
        name="d",
        drive_bytes=1e12,
        read_iops=1000,
        write_iops=500,
        read_bytes_per_s=100e6,
        write_bytes_per_s=50e6,
        price=Money.of(100, "USD"),
        power_w=5,
        reads=candidate("d", 1, 1).reads,
        writes=candidate("d", 1, 1).writes,
        limits_share=exact(1.0, "typed"),
    )
    array = Array(level=level, drives=drives, drive_bytes=1e12)
    lost = exact(0.01, "typed")
    (found,) = own_arrays([(array, lost)], drive, months=12, kwh=None, write_bytes=write_bytes)
    return found


@pytest.mark.parametrize(
    ("level", "drives", "reads", "writes"),
    [
        ("raid0", 1, 0, 1), ("raid0", 4, 0, 1), ("raid1", 2, 0, 2), ("raid10", 4, 0, 2),
        ("raid5", 3, 1, 2), ("raid5", 4, 2, 2), ("raid6", 8, 3, 3),
    ],
)  # fmt: skip
def test_an_own_array_costs_what_md_writes(level: str, drives: int, reads: int, writes: int):
    """A write of a drive takes as long as two reads; so does a byte."""
    made = own(level, drives)
    iops, throughput = made.caps
    assert (iops.per_s, throughput.per_s) == (1000 * drives, 100e6 * drives)
    assert iops.writes_cost == throughput.writes_cost == reads + 2 * writes
    assert made.is_redundant is (level != "raid0")


def test_bytes_limit_an_array_that_writes_them_several_times():
    """Full stripes of RAID5 write n / (n - 1) of the bytes and read none."""
    assert own("raid5", 5, 4 * 512 * 1024).caps[1].writes_cost < own("raid5", 5).caps[1].writes_cost
    large = StorageNeed(
        demand=constant_demand("typed", 0, 100, 1 << 20),
        other_day=exact(1.0, "typed"),
        capacity=exact(1e12, "typed"),
        growth=exact(0.0, "typed"),
        years=1.0,
        objective=None,
    )
    made = [own("raid0", 4, 1 << 20), own("raid10", 4, 1 << 20)]
    striped, mirrored = evaluate(made, large, Scenarios(10))
    assert (striped.narrowest.quantity, mirrored.narrowest.quantity) == ("throughput",) * 2
    # Four drives write 200 MB/s, in mirrors 100 MB/s; the load is 104.9 MB/s.
    assert striped.holds == pytest.approx(200e6 / (100 << 20), rel=0.01)
    assert mirrored.holds == pytest.approx(100e6 / (100 << 20), rel=0.01)
    assert (striped.fit_share, mirrored.fit_share) == (1, 0)


def test_bytes_count_where_a_data_sheet_states_no_throughput():
    bounds = SearchBounds(iops=100, bytes_per_s=1e9, capacity_bytes=1e11)
    sheet = next(each for each in facts().drives.values() if each.model == "SN850X")
    drive = own_drive(sheet, 1e12, Money.of(100, "USD"), facts())
    (alone, *_) = arrays_of(bounds, drive)
    (found,) = own_arrays([(alone, exact(0.01, "typed"))], drive, months=12, kwh=None)
    load = constant_demand("typed", 1000, 0, 1 << 20)
    assert load.counted_by(found.caps[0]).max() == 256_000


NEED = ("reads=6000,writes=2000,size=8KiB", "--capacity", "500GiB")


def called(folder: Path, *words: str) -> Ended:
    return seatrial(
        "plan", *words, folder=folder, env={"SEATRIAL_CATALOGUE": str(folder / "own.toml")}
    )


def test_the_answer_its_page_its_document_and_its_proof(tmp_path: Path):
    words = (*NEED, "--objective", "read.p99_ms=10", "--loss-max", "1%", "--volume", "gp3")
    done = called(tmp_path, *words, "--explain", "--study", "p.toml", "-o", "p.html")
    assert (done.code, done.err) == (0, "")
    text = " ".join(done.out.split())
    assert "One measurement would separate" in text
    assert "local NVMe" not in text
    assert "Another day: 1 times that (0.8 to 1.6; assumed" in text
    study = tomllib.loads((tmp_path / "p.toml").read_text())
    assert study["workload"][1]["read_share"] == 0.75
    planned = seatrial("study", "p.toml", "--plan", "--target", tmp_path, folder=tmp_path)
    assert planned.code == 0, planned
    page = (tmp_path / "p.html").read_text()
    assert "table-choices" in page
    document = called(tmp_path, *words, "--json").document
    assert_published(document)
    assert "`seatrial study p.toml --target DIR`" in text
    assert "add `--study proof.toml` to the command, then" in document["notes"][-1]
    assert document["plan"]["load_s"] == 86_400
    assert "repeated" not in text
    assert document["plan"]["worlds"] == 10_000
    assert document["verdict"].split()[0] in ("Not", "r7i.4xlarge")


def test_own_drives_have_a_price_that_is_typed(tmp_path: Path):
    words = (
        "reads=600,writes=200,size=8KiB", "--capacity", "500GiB", "--drive", "DC600M=180USD",
        "--kwh", "0.30USD", "--volume", "gp3", "--json",
    )  # fmt: skip
    done = called(tmp_path, *words)
    assert done.code == 0, done
    own = [each for each in done.document["plan"]["choices"] if each["kind"] == "own"]
    assert [each["name"] for each in own[:3]] == [
        "1 DC600M", "raid0 of 2 DC600M", "raid1 of 2 DC600M",
    ]  # fmt: skip
    assert own[2]["month"]["mid"] == pytest.approx(2 * 180 / 12 + 3.6 * 2 * 0.73 * 0.30)
    assert "Own drives are priced without the server that holds them." in done.document["notes"]
    # Any drive that fails takes a stripe with it: twice as likely of two, unlikely of a mirror.
    assert [each["is_redundant"] for each in own[:3]] == [False, False, True]
    lost = [each["lost_per_year"]["mid"] for each in own[:3]]
    assert lost[1] == pytest.approx(2 * lost[0], rel=0.15)
    assert lost[2] < lost[0] / 10
    assert "loses its data with" in done.document["verdict"]
    assert "Without redundancy: 1 DC600M, raid0 of 2 DC600M. " in " ".join(done.document["notes"])
    careful = called(tmp_path, *words, "--loss-max", "1%").document["plan"]
    assert careful["choices"][0]["name"] == "raid1 of 2 DC600M"
    assert {each["name"]: each["miss"] for each in careful["refused"]}["1 DC600M"] == "risk"


def test_a_run_measures_the_times_of_a_kind(tmp_path: Path):
    (tmp_path / "m.toml").write_text(
        "channels = 8\nnoise_share = 0.3\nread = { base_us = 500.0, per_kib_us = 0.0 }\n"
    )
    assert (
        seatrial("io", "simulated", "--model", "m.toml", "--seconds", "5", folder=tmp_path).code
        == 0
    )
    words = (*NEED, "--volume", "gp3", "--loss-max", "1%", "--measured", "gp3=last", "--json")
    done = called(tmp_path, *words)
    assert done.code == 0, done
    first = done.document["plan"]["choices"][0]
    assert first["reads_origin"].startswith("measured, run ")
    assert 1.0 < first["response_ms_mid"] < 5
    assert first["stalls"].startswith("none in 5 s, so up to ")
    assert any(each.startswith("Stalls: none in 5 s") for each in done.document["steps"])
    other = called(tmp_path, *NEED, "--volume", "gp3", "--measured", "DC600M=last")
    assert other.code == 2
    assert "--measured DC600M: no candidate is of this kind" in " ".join(other.err.split())


@pytest.mark.parametrize("slow_bytes", [0, 40 << 20])
def test_an_own_drive_is_as_slow_as_the_run_that_is_named(tmp_path: Path, slow_bytes: int):
    slow = f"gaps = [{{ from_bytes = 0, to_bytes = {slow_bytes}, slowdown_factor = 10.0 }}]\n"
    (tmp_path / "m.toml").write_text(
        "channels = 8\nnoise_share = 0.3\nread = { base_us = 500.0, per_kib_us = 0.0 }\n"
        + slow * bool(slow_bytes)
    )
    run = seatrial("io", "simulated", "--model", "m.toml", "--seconds", "20", folder=tmp_path)
    assert run.code == 0, run
    with ResultsFile.open(tmp_path / "results.seatrial", read_only=True) as file:
        (sample,) = file.samples(file.run("last").id)
    truth_ms = sample.operations["read"].response_histogram().percentile_ns(99) / 1e6
    words = (
        "reads=60,writes=20,size=8KiB", "--capacity", "500GiB", "--objective", "read.p99_ms=50",
        "--drive", "DC600M=180USD", "--volume", "gp3", "--other-day", "1", "--growth", "0",
        "--json",
    )  # fmt: skip
    like, sheet = (
        next(
            each
            for each in called(tmp_path, *words, *more).document["plan"]["choices"]
            if each["name"] == "1 DC600M"
        )
        for more in (("--measured", "DC600M=last"), ())
    )
    assert (truth_ms > 4) == bool(slow_bytes), "slow requests decide p99 where they are planted"
    assert like["reads_origin"].startswith("measured, run ")
    assert "data sheet" in sheet["reads_origin"]
    assert like["response_ms_mid"] == pytest.approx(truth_ms, rel=0.05)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*NEED, "--drive-like", "last"), "--drive-like is now called --measured"),
        (("reads=6000,size=8KiB", "--capacity", "1GiB"), "it has no writes"),
        ((*NEED, "--instance", "r7i.3xlarge"), "no instance 'r7i.3xlarge'"),
        ((*NEED, "--instance", "m7g.large"), "no price for aws/m7g.large, instance"),
        ((*NEED, "--instance", "m7g.large"), "mid=PRICE currency=USD unit=month"),
        ((*NEED, "--loss-max", "5"), "--loss-max 5 is 500 %"),
        ((*NEED, "--loss-max", "200%"), "--loss-max 200% is 200 %"),
        ((*NEED, "--other-day", "0"), "--other-day 0 is"),
        ((*NEED, "--growth", "40"), "--growth 40 is 4000 %"),
        ((*NEED, "--currency", "EUR"), "No exchange rate from USD to EUR"),
        ((*NEED, "--budget", "800EUR"), "No exchange rate from EUR to USD"),
        ((*NEED, "--budget", "much"), "'much' is not an amount"),
        ((*NEED, "--growth", "fast"), "is not a valid --growth"),
        ((*NEED, "--objective", "p99=5"), "is not an objective"),
        ((*NEED, "--provider", "nowhere"), "has no provider 'nowhere'"),
        ((*NEED, "--provider", "gcp"), "no price of an instance of gcp"),
        ((*NEED, "--region", "eu-central-1"), "no prices of aws in eu-central-1"),
        ((*NEED, "--memory-min", "abc"), "--memory-min abc"),
        ((*NEED, "--memory-min", "1GiB", "--instance", "r7i.large"), "exclude each other"),
        ((*NEED, "--volume", "gp3:9999GiB"), "--volume gp3:9999GiB has a size"),
        (("reads=0,writes=0,size=8KiB", "--capacity", "1GiB"), "nothing is read or written"),
        ((*NEED, "--drive", "DC600M"), "has no price"),
        ((*NEED, "--drive", "Micron=100"), "drives of the catalogue"),
        ((*NEED, "--drive", "PM9A3=100"), "has no capacity for"),
        (("reads=1,writes=1,size=8KiB", "--capacity", "500GB"), "is not a capacity"),
        (("nothing", "--capacity", "500GiB"), "nothing"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, words: tuple[str, ...], said: str):
    done = called(tmp_path, *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def test_a_broken_row_of_the_own_catalogue_stops_a_plan(tmp_path: Path):
    (tmp_path / "own.toml").write_text('["prices/aws/gp3/capacity/us-east-1"]\nmid = -1\n')
    done = called(tmp_path, *NEED)
    assert (done.code, "own.toml, prices/aws/gp3" in done.err) == (2, True)


def test_a_recording_is_a_need_with_its_own_gaps(tmp_path: Path):
    draw = np.random.default_rng(5)
    times = np.cumsum(draw.exponential(20_000, 6000)).astype(int) + 128166372003061629
    rows = [
        f"{at},hm,0,{'Write' if number % 5 == 0 else 'Read'},{number * 8192},8192,5000\n"
        for number, at in enumerate(times)
    ]
    (tmp_path / "day.csv").write_text("".join(rows))
    imported = seatrial("trace", "import", "day.csv", "-o", "day.rec", folder=tmp_path)
    assert imported.code == 0, imported
    words = ("day.rec", "--capacity", "50GiB", "--objective", "read.p99_ms=10", "--json")
    plan = called(tmp_path, *words).document["plan"]
    assert plan["load"] == "recorded, day.rec"
    assert plan["busiest_per_s"] == pytest.approx(500, rel=0.2)
    assert plan["choices"][0]["fit_share"] > 0.5


def hot_recording(folder: Path) -> str:
    """A second of 6,400 reads of 2,048 blocks and 1,600 writes elsewhere, for 6 s."""
    draw = np.random.default_rng(5)
    times = np.cumsum(draw.exponential(1250, 48_000)).astype(int) + 128166372003061629
    blocks = draw.integers(0, 2048, len(times))
    rows = [
        f"{at},hm,0,Write,{(10_000 + number) * 8192},8192,5000\n"
        if number % 5 == 0
        else f"{at},hm,0,Read,{block * 8192},8192,5000\n"
        for number, (at, block) in enumerate(zip(times, blocks, strict=True))
    ]
    (folder / "hot.csv").write_text("".join(rows))
    imported = seatrial("trace", "import", "hot.csv", "-o", "hot.rec", folder=folder)
    assert imported.code == 0, imported
    return "hot.rec"


def test_memory_and_a_small_volume_compete_with_a_large_one(tmp_path: Path):
    words = (
        hot_recording(tmp_path), "--capacity", "100GiB", "--instance", "r7i.4xlarge", "--volume",
        "gp3", "--growth", "0",
    )  # fmt: skip
    plain = called(tmp_path, *words, "--json").document["plan"]["choices"][0]
    assert plain["disk_share"] == 1
    for option in ("--ram-price", "--ssd-price"):
        plan = called(tmp_path, *words, option, "5USD", "--json").document["plan"]
        first = plan["choices"][0]
        assert first["name"].endswith("of memory" if option == "--ram-price" else "of SSD cache")
        # 16 MiB of reads and writes that are never read: two policies, nearly the same.
        assert first["disk_share"] < 0.1
        assert first["month"]["mid"] < plain["month"]["mid"] - 10
        line = first["bill"][-1]
        assert line["money"]["mid"] == pytest.approx(line["amount"] * 5)
        assert line["origin"] == "typed"
        dear = called(tmp_path, *words, option, "9000USD", "--json").document["plan"]
        assert dear["choices"][0]["name"] == plain["name"]
    done = called(tmp_path, *words, "--ram-price", "5USD", "--explain", "--study", "p.toml")
    assert " of the reads: " in " ".join(done.out.split())
    study = tomllib.loads((tmp_path / "p.toml").read_text())
    reached = float(study["thresholds"]["loadline.sustained_per_s"].removeprefix("> "))
    assert reached == pytest.approx(1600 + 6400 * 0.05, rel=0.3), "what memory leaves"


def test_a_cache_that_serves_nothing_changes_nothing():
    from dataclasses import replace

    one = candidate("one", 10, 2000)
    cap = one.caps[0]
    shares = (1.0, 0.5, 0.0)
    cached = [replace(one, caps=(replace(cap, reads_share=share),)) for share in shares]
    full, half, none = evaluate(cached, need(other_day=exact(1.0, "typed")), Scenarios(FEW))
    # 700 reads and 300 writes a second.
    assert full.holds == pytest.approx(2000 / 1000, rel=0.01)
    assert half.holds == pytest.approx(2000 / 650, rel=0.01)
    assert none.holds == pytest.approx(2000 / 300, rel=0.01)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*NEED, "--ram-price", "5USD"), "is not a recording"),
        (("hot.rec", "--capacity", "1GiB", "--ssd-price", "cheap"), "no price for ssd=cheap"),
        (("hot.rec", "--capacity", "1GiB", "--ram-price", "5USD/IOPS"), "has a price for each GiB"),
        (
            ("hot.rec", "--capacity", "1GiB", "--ram-price", "5EUR"),
            "No exchange rate from EUR to USD",
        ),
    ],
)
def test_a_cache_without_a_recording_or_price_is_refused(
    tmp_path: Path, words: tuple[str, ...], said: str
):
    if words[0] == "hot.rec":
        hot_recording(tmp_path)
    done = called(tmp_path, *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_every_option_says_what_it_does_in_one_line():
    from seatrial.trials.plan.commands.plan import command

    context = click.Context(command, info_name="plan")
    lines = command.get_help(context).splitlines()
    shared = {"output", "results", "as_json", "force"}
    for option in command.params:
        if isinstance(option, click.Option) and not (option.hidden or option.name in shared):
            record = option.get_help_record(context)
            assert record is not None
            assert option.help, option.name
            assert any(line.split() == " ".join(record).split() for line in lines), record


def test_a_load_of_less_than_a_day_is_said_to_be_repeated():
    hour = plan_of([candidate("one", 10, 5000)], need(demand=demand([900.0] * 60)))
    assert hour.load_s == 3600
    assert "load of 1 h is repeated" in notes(hour)[0]
    assert not any(
        "repeated" in each for each in notes(plan_of([candidate("one", 10, 5000)], need()))
    )


def test_candidates_that_may_be_overloaded_have_no_bar_and_a_note():
    plan = plan_of([candidate("one", 10, 5000)], need())
    (calm,) = plan_figures(plan)
    assert calm.views[0].notes == []
    (choice,) = plan.choices
    open_end = msgspec.structs.replace(choice, response_ms_high=None)
    (figure,) = plan_figures(msgspec.structs.replace(plan, choices=[open_end]))
    assert "5 %" in figure.views[0].notes[0]


def test_the_next_step_of_a_page_is_a_command_that_can_be_run():
    page = render(plan_of([candidate("one", 10, 5000)], need()), "day.rec", "p.toml")
    assert "seatrial study p.toml --target DIR" in page
    assert "seatrial plan NEED" not in page


def test_the_end_that_a_candidate_does_not_serve_is_an_overload():
    ends = SimpleNamespace(response_ms_low=4.0, response_ms_mid=6.3, response_ms_high=None)
    assert times_phrase(cast(Choice, ends)) == "6.3 ms (4 ms to overload)"
