"""Runs grouped by a fact: the run is the unit, and nothing is claimed of a single one."""

from __future__ import annotations

import math
import random
import statistics

import msgspec
import pytest
from scipy import stats as scipy_stats

from seatrial.fingerprint import Device, Fingerprint, Machine, Target
from seatrial.report.by_fact import fact_sentences, fact_table
from seatrial.stats.compare.by_fact import Grouping
from seatrial.stats.compare.model import Difference, Side, SideSamples
from stats.builders import cell_of, rounds_of, run_of

ROUNDS = (0.99, 1.0, 1.01)


def fingerprint(kernel="6.1", model="A", firmware="1", cpu="Xeon"):
    device = Device(name="sda", kind="disk", model=model, firmware=firmware)
    return Fingerprint(
        machine=Machine(kernel=kernel, cpu_model=cpu, cpus_online=8),
        target=Target(path="/mnt/ssd", kind="directory", stack=[device]),
    )


def one_side(number, rates_per_s, before, target="ssd"):
    run = msgspec.structs.replace(run_of(before=before), id=f"run-{number}")
    rates = [round(rates_per_s * each) for each in ROUNDS]
    samples = rounds_of(cell_of(target=target), rates).samples
    return SideSamples(side=Side(name=run.id, run=run, target=target), samples=samples)


def grouped(fact, *runs, differences=()):
    grouping = Grouping(fact, ["iops"])
    for number, (rate_per_s, before) in enumerate(runs):
        found = differences[number] if differences else []
        grouping.add(one_side(number, rate_per_s, before), found)
    return grouping.result()


def row_of(found):
    (row,) = [row for row in found.rows if row.figure == "iops"]
    return row


def kernels(*pairs):
    return [(rate_per_s, fingerprint(kernel=kernel)) for kernel, rate_per_s in pairs]


def test_intervals_are_over_runs_not_over_rounds():
    found = grouped("kernel", *kernels(("6.1", 1000), ("6.1", 1100), ("6.1", 1200), ("6.12", 900)))
    assert [(each.value, len(each.run_ids)) for each in found.groups] == [("6.1", 3), ("6.12", 1)]
    several, once = row_of(found).values
    logs = [math.log(rate) for rate in (1000, 1100, 1200)]
    assert several.value == pytest.approx(math.exp(statistics.fmean(logs)), rel=1e-3)
    half = scipy_stats.t.ppf(0.975, 2) * statistics.stdev(logs) / math.sqrt(3)
    assert math.log(several.high / several.value) == pytest.approx(half, rel=0.05)
    assert (once.low, once.high, once.rounds) == (None, None, 1)


def test_no_difference_from_a_single_run_is_called_significant():
    found = grouped("kernel", *kernels(("6.1", 1000), ("6.1", 1001), ("6.12", 10)))
    assert row_of(found).differs == [None, None]
    text = " ".join(fact_sentences(found))
    assert "No difference of 6.12 is called significant" in text
    assert "* differs" not in text
    assert "*" not in " ".join(fact_table(found, 9).rows[0])


def test_a_difference_over_runs_is_marked():
    runs = kernels(("6.1", 1000), ("6.1", 1010), ("6.1", 990), ("6.12", 2000), ("6.12", 2010))
    found = grouped("kernel", *runs, *kernels(("6.13", 1001), ("6.13", 998)))
    assert row_of(found).differs == [None, True, False]
    table = fact_table(found, 9)
    assert table.headers[2:] == ["6.1 (3 runs)", "6.12 (2 runs)", "6.13 (2 runs)"]
    assert [cell.endswith("*") for cell in table.rows[0][2:]] == [False, True, False]
    assert "6.1: 1 of 2 comparisons" in " ".join(fact_sentences(found))


def test_more_questions_need_stronger_evidence():
    """Where none differs, a difference is called in at most about 5 % of whole tables."""
    draw = random.Random(7)
    wrong = 0
    for _ in range(60):
        rates = [1000 * math.exp(draw.gauss(0, 0.05)) for _ in range(15)]
        runs = [(str(number % 5), rate) for number, rate in enumerate(rates)]
        wrong += any(row_of(grouped("kernel", *kernels(*runs))).differs)
    assert wrong <= 9  # of 60 at 5 %, more than 9 come by chance once in 1,000


@pytest.mark.parametrize(
    ("fact", "values"),
    [
        ("host", ["Xeon, 8 CPUs", "EPYC, 8 CPUs"]),
        ("drive", ["A", "B"]),
        ("firmware", ["1", "2"]),
        ("kernel", ["6.1", "unknown"]),
    ],
)
def test_every_fact_is_of_the_fingerprint(fact, values):
    first, second = fingerprint(), fingerprint(None, "B", "2", "EPYC")
    found = grouped(fact, (1000, first), (900, second))
    assert [each.value for each in found.groups] == values


def test_drives_of_one_run_are_groups_of_their_own():
    before = fingerprint()
    other = fingerprint(model="B").target
    before = msgspec.structs.replace(before, other_targets={"hdd": other})
    grouping = Grouping("drive", ["iops"])
    grouping.add(one_side(0, 1000, before), [])
    grouping.add(one_side(0, 100, before, target="hdd"), [])
    found = grouping.result()
    assert [each.value for each in found.groups] == ["A", "B"]
    assert [round(value.value) for value in row_of(found).values] == [1000, 100]


def test_targets_of_one_run_are_rows_of_their_own():
    """Two hosts with equal SSDs do not differ because one of them has an HDD too."""
    grouping = Grouping("host", ["iops"])
    for number, before in enumerate([fingerprint()] * 2 + [fingerprint(cpu="EPYC")] * 2):
        grouping.add(one_side(number, 1000 + number % 2, before), [])
        if number > 1:
            grouping.add(one_side(number, 10 + number % 2, before, target="hdd"), [])
    ssd, hdd = grouping.result().rows
    assert (ssd.test["target"], hdd.test["target"]) == ("ssd", "hdd")
    assert [round(value.value) for value in ssd.values] == [1000, 1000]
    assert ssd.differs == [None, False]
    assert (hdd.values[0], round(hdd.values[1].value)) == (None, 10)


def test_a_target_that_each_run_calls_otherwise_is_one_row():
    grouping = Grouping("kernel", ["iops"])
    for number, target in enumerate(("ssd", "disk")):
        grouping.add(one_side(number, 1000, fingerprint(), target=target), [])
    (value,) = row_of(grouping.result()).values
    assert (value.rounds, "target" in row_of(grouping.result()).test) == (2, False)


def difference(path, words, a, b):
    return [Difference(path=path, words=words, a=a, b=b, weight="likely")]


def test_what_differs_besides_the_fact_is_named():
    runs = kernels(("6.1", 1000), ("6.1", 1001), ("6.12", 900), ("6.12", 905))
    scheduler = difference("target.stack[sda].scheduler", "I/O scheduler of sda", "none", "bfq")
    kernel = difference("machine.kernel", "kernel", "6.1", "6.12")
    found = grouped("kernel", *runs, differences=[[], [], scheduler + kernel, scheduler + kernel])
    assert [(each.words, each.values) for each in found.others] == [
        ("I/O scheduler of sda", ["none", "bfq"])
    ]
    text = " ".join(fact_sentences(found))
    assert "I/O scheduler of sda (none | bfq)" in text
    assert "each may be the cause" in text


def test_what_varies_alike_in_all_groups_is_not_named():
    runs = kernels(("6.1", 1000), ("6.1", 1001), ("6.12", 900), ("6.12", 905))
    other = difference("target.stack[sda].scheduler", "I/O scheduler of sda", "none", "bfq")
    found = grouped("kernel", *runs, differences=[[], other, [], other])
    assert found.others == []
    assert "No other usual cause" in " ".join(fact_sentences(found))


def test_a_run_that_measured_nothing_is_not_judged():
    found = grouped("kernel", *kernels(("6.1", 1000), ("6.1", 1001), ("6.12", 0), ("6.12", 0)))
    assert row_of(found).differs == [None, None]


def test_long_values_are_named_below_the_table():
    long = [fingerprint(cpu=f"AMD EPYC 7543P number {number}") for number in (1, 2)]
    found = grouped("host", *((1000 + number, long[number % 2]) for number in range(4)))
    assert fact_table(found, 9).headers[2:] == ["host 1 (2 runs)", "host 2 (2 runs)"]
    sentences = fact_sentences(found)
    assert sentences[1] == "host 2: AMD EPYC 7543P number 2, 8 CPUs."
    assert "significantly from host 1: 0 of 1" in " ".join(sentences)


def test_the_unit_of_a_figure_is_the_run():
    found = grouped("kernel", *kernels(("6.1", 1000), ("6.1", 9000), ("6.12", 900)))
    several, once = fact_table(found, 9).rows[0][2:]
    assert ("of 2 runs" in several, "1 run" in once) == (True, True)


def test_what_is_unknown_of_all_runs_is_not_called_the_same():
    found = grouped("kernel", *kernels((None, 1000), (None, 1001)))
    assert "is unknown" in fact_sentences(found)[0]


def test_one_value_is_no_comparison():
    found = grouped("kernel", *kernels(("6.1", 1000), ("6.1", 1001)))
    assert fact_sentences(found) == ["All runs have the same kernel: there is nothing to compare."]
