"""Findings of a comparison: what is worse, what is better, legs that are not equal."""

import msgspec
import pytest

from seatrial.findings.answer import in_one_line
from seatrial.findings.context import Context
from seatrial.findings.registry import (
    find_in_comparison,
)
from seatrial.stats.compare.comparison import compare
from seatrial.stats.compare.model import Difference
from seatrial.trials.layouts.findings.leg_imbalance import leg_imbalance
from stats.builders import cell_of, rounds_of, run_of, sample_of
from stats.compare.sides import cells_of, random_sides, side_of, side_with_rates

STEADY = [1000, 1010, 990, 1005, 995]
OTHER = [1.001, 0.999, 1.0, 1.002, 0.998]


def slower(factor):
    return [factor * rate * other for rate, other in zip(STEADY, OTHER, strict=True)]


def scaled(*factors):
    return [slower(factor) for factor in factors]


def found(a, b, **how):
    (reported,) = compare(a, [b], **how)
    return find_in_comparison(reported)


def sides(*factors):
    rows = [STEADY for _ in factors]
    return side_with_rates("A", rows, run_id="1"), side_with_rates(
        "B", scaled(*factors), run_id="1"
    )


def test_a_slower_side_is_a_regression_with_its_likely_reason():
    scheduler = Difference(
        path="target.stack[sda].scheduler",
        words="I/O scheduler of sda",
        a="none",
        b="bfq",
        weight="likely",
    )
    (finding,) = found(*sides(0.8, 0.79, 0.81), differences=[[scheduler]])
    assert (finding.kind, finding.severity) == ("regressed", "warning")
    assert finding.sentence.startswith("B is slower than A over 3 tests: IOPS 0.80")
    most = "largest change: IOPS 0.790x (0.788 to 0.792) in matrix: read 8 KiB, 2 threads"
    assert f"significant in 3 of 3 tests; {most}" in finding.sentence
    assert (
        finding.cause
        == "Likely reasons, from the two fingerprints: I/O scheduler of sda (none, bfq)."
    )
    assert len(finding.cells) == 3
    assert finding.evidence["likely_reasons"] == ["target.stack[sda].scheduler"]
    assert finding.evidence["ratio_by_figure"]["iops"] == pytest.approx(0.8, rel=0.01)


def test_a_faster_side_is_an_improvement():
    (finding,) = found(*sides(1.25))
    assert (finding.kind, finding.severity) == ("improved", "note")
    assert finding.sentence.startswith(
        "B is faster than A; significant in 1 of 1 test: IOPS 1.250x"
    )
    assert "no difference that usually matters" in finding.cause


def test_both_can_hold():
    assert [each.kind for each in found(*sides(0.7, 0.7, 1.5))] == ["regressed", "improved"]


def test_in_one_line_a_change_of_some_tests_keeps_their_number():
    worse, _ = found(*sides(0.4, 3.2))
    assert in_one_line(worse) == "B is slower than A in 1 of 2 tests"
    (only,) = found(*sides(0.8))
    assert in_one_line(only) == "B is slower than A"


def test_without_fingerprints_nothing_is_said_of_their_differences():
    a = side_with_rates("A", scaled(1.0), before={})
    b = side_with_rates("B", scaled(2.0), before={})
    (finding,) = found(a, b)
    assert "no difference" not in finding.cause


def test_a_small_regression_is_a_note():
    (finding,) = found(*sides(0.98, 0.98))
    assert (finding.kind, finding.severity) == ("regressed", "note")


def test_higher_latency_at_the_same_rate_is_a_regression():
    a, b = random_sides(3, cells=4, rounds=6, noise=0.005, paired=True)
    tails = [
        msgspec.structs.replace(
            sample,
            operations={
                "read": msgspec.structs.replace(
                    sample.operations["read"],
                    reported_ns=sample.operations["read"].reported_ns
                    | {"p99": 2 * sample.operations["read"].reported_ns["p99"]},
                )
            },
        )
        for sample in b.samples
    ]
    (finding,) = found(a, msgspec.structs.replace(b, samples=tails))
    assert finding.kind == "regressed"
    assert finding.sentence.startswith("B is higher in latency than A over 4 tests: read p99 2.0")
    (reported,) = compare(a, [msgspec.structs.replace(b, samples=tails)])
    assert "read p99 is 2.0" in reported.verdict


def test_nothing_certain_is_no_finding():
    assert found(*sides(1.0, 1.0)) == []
    a, b = random_sides(1, cells=5, rounds=3, noise=0.15, factor=1.02, paired=False)
    assert found(a, b) == []


def drive(name, *, model="Toshiba PM7", size_bytes=1 << 40, **path):
    return {"name": name, "model": model, "size_bytes": size_bytes, "children": []} | path


def pcie(address, width=4):
    return {"address": address, "speed_now_gt_s": 16.0, "width_now": width, "narrowest": None}


def fingerprint(first, *others):
    reported = {f"leg{place}": {"stack": [node]} for place, node in enumerate(others, start=1)}
    return {"target": {"stack": [first]}, "other_targets": reported}


def legs_context(before, rates_by_target):
    cells = [
        rounds_of(
            cell_of(target=target, threads=threads), [round(threads * each) for each in rates]
        )
        for target, rates in rates_by_target.items()
        for threads in (1, 2)
    ]
    return Context(run_of(before=before), cells)


SLOT_A = {"serial_hash": "aa", "pcie": pcie("0000:01:00.0"), "numa_node": 0}
SLOT_B = {"serial_hash": "bb", "pcie": pcie("0000:81:00.0", width=2), "numa_node": 1}


def test_legs_that_should_be_equal_and_are_not():
    before = fingerprint(drive("nvme0n1", **SLOT_A), drive("nvme1n1", **SLOT_B))
    slow = slower(0.8)
    (finding,) = leg_imbalance(legs_context(before, {"leg0": STEADY, "leg1": slow}))
    assert (finding.kind, finding.severity) == ("leg_imbalance", "warning")
    assert finding.sentence.startswith(
        "leg1 is slower than leg0, although both are one Toshiba PM7 of 1 TiB: the rate of leg1 "
        "is 0.80"
    )
    assert finding.evidence["slower_target"] == "leg1"
    assert finding.evidence["path_of_leg1"][0]["pcie_address"] == "0000:81:00.0"
    assert "pcie address 0000:01:00.0 and 0000:81:00.0" in finding.cause
    assert "pcie width lanes 4 and 2" in finding.cause
    assert "numa node 0 and 1" in finding.cause
    (turned,) = leg_imbalance(legs_context(before, {"leg0": slow, "leg1": STEADY}))
    assert turned.evidence["slower_target"] == "leg0"


def test_equal_paths_leave_the_drive():
    before = fingerprint(drive("sda", serial_hash="aa"), drive("sdb", serial_hash="bb"))
    slow = slower(0.8)
    (finding,) = leg_imbalance(legs_context(before, {"leg0": STEADY, "leg1": slow}))
    assert finding.cause.startswith("The paths to both show no difference")


@pytest.mark.parametrize(
    ("first", "second", "factor"),
    [
        (drive("sda", serial_hash="a"), drive("sdb", serial_hash="b"), 1.0),
        (drive("sda", serial_hash="a"), drive("sdb", serial_hash="b"), 0.97),
        (drive("sda", serial_hash="a"), drive("sdb", serial_hash="b", model="Other"), 0.5),
        (drive("sda", serial_hash="a"), drive("sdb", serial_hash="b", size_bytes=1 << 41), 0.5),
        (drive("sda", serial_hash="a"), drive("sda", serial_hash="a"), 0.5),
        (drive("vda", model=None), drive("vdb", model=None), 0.5),
    ],
    ids=["equal", "nearly", "another model", "another size", "the same drive", "no model"],
)
def test_what_is_no_imbalance(first, second, factor):
    other = slower(factor)
    context = legs_context(fingerprint(first, second), {"leg0": STEADY, "leg1": other})
    assert leg_imbalance(context) == []


def test_an_imbalance_takes_the_place_of_faster_and_slower():
    before = fingerprint(drive("nvme0n1", **SLOT_A), drive("nvme1n1", **SLOT_B))
    rows = {"leg0": [STEADY, STEADY], "leg1": scaled(0.8, 0.8)}
    a, b = (
        side_with_rates(label, own, run_id="one", target=label, before=before)
        for label, own in rows.items()
    )
    assert [each.kind for each in found(a, b)] == ["leg_imbalance"]
    apart = side_of("leg1", b.samples, run_id="another", before=before)
    assert [each.kind for each in found(a, apart)] == ["regressed"]


def test_targets_without_a_common_cell_are_not_compared():
    before = fingerprint(drive("nvme0n1", **SLOT_A), drive("nvme1n1", **SLOT_B))
    cells = [
        rounds_of(cell_of(target="leg0", threads=1), STEADY),
        rounds_of(cell_of(target="leg1", threads=2), STEADY),
    ]
    assert leg_imbalance(Context(run_of(before=before), cells)) == []


def test_each_overall_ratio_names_its_own_number_of_tests():
    rows = [[2000 * number for number in slower(1.0)]] * 2 + [[900] * 5] * 3
    parts = [
        side_of(
            name,
            [
                sample_of(
                    cell, completed=round(rate / factor), round=n, latency_ns=round(1e6 * factor)
                )
                for cell, row in zip(cells_of(5), rows, strict=True)
                for n, rate in enumerate(row)
            ],
            run_id="1",
        )
        for name, factor in (("A", 1.0), ("B", 1.25))
    ]
    (finding,) = found(*parts)
    assert "over 5 tests: IOPS" in finding.sentence
    assert "over 2 tests: read p99" in finding.sentence
