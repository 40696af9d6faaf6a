"""Rounds that disagree, slopes over the addresses, partial results, a machine that changed."""

import pytest

from seatrial.findings.context import Context
from seatrial.findings.rules.changed_meanwhile import changed_meanwhile
from seatrial.findings.rules.interrupted import interrupted
from seatrial.findings.rules.not_repeatable import not_repeatable
from seatrial.findings.rules.slower_at_end import slower_at_end
from seatrial.stats.wording import format_cell

from .builders import cell_of, rounds_of, run_of, sample_of, summary_of


def context_of(*summaries, **run):
    return Context(run_of(**run), summaries)


@pytest.mark.parametrize(
    ("rates", "severity"),
    [
        ([1000], None),
        ([1000, 1010, 990], None),
        ([1000, 1050, 1100], "note"),  # wider than 5 %, but not wildly
        ([1000, 1490], "note"),
        ([1000, 1510], "warning"),
        ([0, 1000, 1000], "warning"),
        ([0, 0], None),
    ],
)
def test_rounds_that_disagree(rates, severity):
    found = not_repeatable(context_of(rounds_of(cell_of(), rates)))
    assert [finding.severity for finding in found] == ([severity] if severity else [])


def test_the_worst_cell_and_its_rounds_are_reported():
    cells = [rounds_of(cell_of(threads=n), [1000, 1000 + 300 * n]) for n in (1, 2, 3)]
    (wide,) = not_repeatable(context_of(cells[0]))
    assert wide.severity == "note"
    (finding,) = not_repeatable(context_of(*cells[1:]))
    assert "the largest spread is 1,000 to 1,900 requests/s over 2 rounds" in (finding.sentence)
    assert finding.evidence["spread_ratio_max"] == pytest.approx(1.9)
    assert len(finding.cells) == 2
    assert "what the test before left behind" in finding.cause
    assert f"the most variable test ({format_cell(cells[2].cell)}) alone" in finding.next


def test_a_round_that_completed_nothing_has_no_ratio():
    (finding,) = not_repeatable(context_of(rounds_of(cell_of(), [0, 1000])))
    assert "0 to 1,000 requests/s" in finding.sentence
    assert finding.sentence.count(format_cell(cell_of())) == 1, "one test is named once"
    assert finding.evidence["spread_ratio_max"] is None


def test_wide_intervals_say_how_many_rounds_would_do():
    study = {"rounds": {"precision": 0.10}}
    cell = rounds_of(cell_of(), [1000, 1050, 1150])
    (finding,) = not_repeatable(context_of(cell, study=study))
    assert finding.evidence["precision_share_requested"] == 0.10
    assert 3 < finding.evidence["rounds_needed_max"] < 20
    assert "requested ± 10 %" in finding.sentence
    assert f"about {finding.evidence['rounds_needed_max']} rounds" in finding.sentence
    assert not_repeatable(context_of(cell, study={"rounds": {"precision": 0.5}})) == []


def map_of(rates_by_zone, *, kind="map", operation="read"):
    """A map whose zones have these rates, each a list of rounds."""
    zones = len(rates_by_zone)
    return [
        rounds_of(
            cell_of(
                workload="map",
                kind=kind,
                operation=operation,
                factors={"pattern": "sequential", "zone": zone, "zones": zones},
            ),
            rates,
        )
        for zone, rates in enumerate(rates_by_zone)
    ]


def slope(start, end, zones=8, rounds=3, wobble=(1.0, 1.01, 0.99)):
    steps = [start + (end - start) * zone / (zones - 1) for zone in range(zones)]
    return [[round(step * wobble[r]) for r in range(rounds)] for step in steps]


@pytest.mark.parametrize(
    ("rates", "is_slower"),
    [
        (slope(2000, 1000), True),
        (slope(2000, 1700), True),
        (slope(2000, 1850), False),
        (slope(1000, 2000), False),
        (slope(2000, 1000, zones=3), False),  # three zones show no trend
        (slope(2000, 1000, rounds=1), True),
        (slope(2000, 1700, rounds=1), False),  # measured once takes a fifth
        ([[2000]] * 7 + [[1500]], False),  # one slow zone is not a slow end
        ([[2000, 2000, 2000], [2000, 3600, 1100], [2000, 1500, 2500], [1200, 2600, 900]], False),
    ],
)
def test_the_end_against_the_start(rates, is_slower):
    assert bool(slower_at_end(context_of(*map_of(rates)))) is is_slower


def test_a_hard_disk_has_its_shape():
    disk = {"target": {"stack": [{"name": "sda", "rotational": True, "kind": "disk"}]}}
    (finding,) = slower_at_end(context_of(*map_of(slope(2000, 1000)), before=disk))
    assert finding.severity == "note"
    assert "hard disk" in finding.cause
    assert finding.evidence["hard_disk_shape"] is True
    assert finding.evidence["last_over_first_zone_ratio"] == pytest.approx(0.5, rel=0.01)
    assert finding.evidence["trend_ratio"] == pytest.approx(0.5, abs=0.02)


def test_a_virtual_disk_is_no_hard_disk_though_it_may_say_so():
    virtual = {"target": {"stack": [{"name": "vda", "rotational": True, "kind": "virtio"}]}}
    (finding,) = slower_at_end(context_of(*map_of(slope(2000, 1000)), before=virtual))
    assert finding.severity == "warning"


def test_flash_has_no_such_shape():
    (finding,) = slower_at_end(context_of(*map_of(slope(2000, 1000))))
    assert finding.severity == "warning"
    assert "8 zones" in finding.sentence
    assert "Not typical of a single hard disk" in finding.cause


def test_maps_are_judged_apart_and_zones_in_order():
    falling = map_of(slope(2000, 1000))
    flat = map_of(slope(2000, 2000), operation="write")
    (finding,) = slower_at_end(context_of(*reversed(falling), *flat))
    assert [cell["zone"] for cell in finding.cells] == [0, 7]
    assert {cell["operation"] for cell in finding.cells} == {"read"}


def test_only_maps_have_zones_of_a_map():
    assert slower_at_end(context_of(*map_of(slope(2000, 1000), kind="io"))) == []


def test_more_than_nine_zones_are_in_order_of_number():
    (finding,) = slower_at_end(context_of(*map_of(slope(2000, 1000, zones=12))))
    assert finding.cells[-1]["zone"] == 11


@pytest.mark.parametrize(
    ("run_status", "sample_status", "is_found"),
    [
        ("complete", "complete", False),
        ("complete", "interrupted", True),
        ("interrupted", "complete", True),
        ("running", "complete", True),
        ("failed", "complete", True),
    ],
)
def test_partial_results(run_status, sample_status, is_found):
    cell = summary_of(sample_of(status=sample_status))
    found = interrupted(context_of(cell, status=run_status))
    assert bool(found) is is_found
    if found:
        assert "--resume" in found[0].next
        assert found[0].evidence["samples_cut_short_count"] == (sample_status != "complete")


@pytest.mark.parametrize(
    ("after", "reported"),
    [
        ({}, None),
        ({"changed_values": {}, "restarted": False}, None),
        (
            {"changed_values": {"machine.cpu_governor": ["powersave", "performance"]}},
            "machine.cpu_governor changed from powersave to performance",
        ),
        ({"restarted": True}, "the machine was restarted"),
        (
            {"changed_values": {"target.stack[sdb]": [{"name": "sdb"}, None]}},
            "target.stack[sdb] removed",
        ),
        ({"changed_values": {f"k{i}": [1, 2] for i in range(5)}}, "and 2 more settings changed"),
    ],
)
def test_what_changed_meanwhile(after, reported):
    found = changed_meanwhile(context_of(after=after))
    assert bool(found) is (reported is not None)
    if reported:
        assert reported in found[0].sentence


@pytest.mark.parametrize(
    ("values", "reported"),
    [
        ({}, None),
        ({"machine.memory_bytes": [1_031_454_720, 1_030_144_000]}, None),
        (
            {"machine.kernel": ["6.1.176", "6.1.180"]},
            "machine.kernel changed from 6.1.176 to 6.1.180",
        ),
    ],
)
def test_a_new_guest_of_the_lab_is_no_change_but_another_kernel_is(values, reported):
    lab = {"machine": {"lab": "user-mode Linux 6.1.176"}}
    after = {"restarted": True, "changed_values": values}
    found = changed_meanwhile(context_of(after=after, before=lab))
    assert bool(found) is (reported is not None)
    if reported:
        assert found[0].sentence == f"The machine or the target changed during the run: {reported}."
