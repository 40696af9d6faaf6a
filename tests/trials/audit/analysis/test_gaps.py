"""Gaps: injected slowdowns, classes, statuses, and none where there is only noise."""

import msgspec
import numpy as np
import pytest

from seatrial.findings.summary import summarise_cell
from seatrial.stats.cell_estimates import estimate_of_rounds
from seatrial.trials.audit.analysis.audit import audit_table, fill_of, implied_drain
from seatrial.trials.audit.analysis.gaps import find_gaps
from trials.audit.analysis import articles
from trials.audit.analysis.articles import RAID0, RAID5
from trials.audit.analysis.synthetic import READ_VALUES, rates, table_from, table_of

REPEATS = 18
RECALL_MIN = 0.95
FALSE_SHARE_MAX = 0.01
CLEANED = [(RAID0, "read"), (RAID5, "read"), (RAID0, "write")]


def cleaned(configuration, operation):
    """A table of the article with its gaps replaced by what the model says of them."""
    audit = articles.audit(configuration, operation)
    outlier = {key for gap in audit.gaps for key in gap.keys}
    return {
        (p.block_size_bytes, p.threads): audit.predictions[p.key].iops
        if p.key in outlier
        else p.iops.value
        for p in audit.table.points
    }


def misaligned_places(audit):
    return {articles.place(key) for gap in audit.gaps for key in gap.keys}


@pytest.mark.parametrize(("configuration", "operation"), CLEANED)
def test_injected_slowdowns_by_half_are_found(configuration, operation):
    clean = cleaned(configuration, operation)
    places, random = list(clean), np.random.default_rng(2009)
    found = slowed_count = false = sound_count = 0
    for repeat in range(REPEATS):
        count = 1 + repeat % 6
        slowed = {places[i] for i in random.choice(len(places), count, replace=False)}
        table = table_from(
            {place: rate / 2 if place in slowed else rate for place, rate in clean.items()},
            operation=operation,
        )
        reported = misaligned_places(audit_table(table))
        found += len(reported & slowed)
        slowed_count += count
        false += len(reported - slowed)
        sound_count += len(places) - count
    assert found / slowed_count >= RECALL_MIN
    assert false / sound_count <= FALSE_SHARE_MAX


@pytest.mark.parametrize("noise_log", [0.0, 0.02, 0.08, 0.15])
@pytest.mark.parametrize("rounds", [1, 3])
def test_noise_alone_is_no_gap(noise_log, rounds):
    """A shared virtual disk scatters by 11 to 14 %: no wall of false gaps."""
    reported = [
        len(
            misaligned_places(
                audit_table(
                    table_of("read", READ_VALUES, noise_log=noise_log, rounds=rounds, seed=seed)
                )
            )
        )
        for seed in range(4)
    ]
    assert sum(reported) <= FALSE_SHARE_MAX * 4 * 42


def test_a_table_without_gaps_has_none():
    audit = audit_table(table_of("read", READ_VALUES))
    assert audit.holds
    assert audit.gaps == []


def with_rounds(table, changed):
    """The table with the rounds of some cells as given, relative to what they are."""
    points = []
    for point in table.points:
        factors = changed.get((point.block_size_bytes, point.threads), [1.0, 1.0, 1.0])
        rounds = [point.rounds_per_s[0] * factor for factor in factors]
        iops = estimate_of_rounds(rounds, "IOPS")
        points.append(msgspec.structs.replace(point, rounds_per_s=rounds, iops=iops))
    return msgspec.structs.replace(table, points=points)


@pytest.mark.parametrize(
    ("factors", "status"),
    [
        ([0.2, 0.25, 0.18], "persistent"),
        ([0.2], "seen_once"),
        ([0.1, 0.15], "persistent"),
        ([1.0, 0.98, 0.1], "transient"),
        ([1.0, 0.9, 0.6], None),
        ([0.62, 0.5, 0.75], None),
        ([1.0, 1.01, 0.99], None),
        ([1.9, 2.0, 2.1], "persistent"),
        ([1.5, 2.0, 1.1], None),
        ([4.0], "seen_once"),
        ([1.0, 1.1, 4.0], "transient"),
    ],
)
def test_status_by_rounds(factors, status):
    table = with_rounds(table_of("read", READ_VALUES), {(16384, 10): factors})
    gaps = audit_table(table).gaps
    assert [gap.status for gap in gaps] == ([status] if status else [])
    if gaps:
        is_fast = max(factors) > 1.5
        assert gaps[0].kind == ("too_fast" if is_fast else "noise")
        farthest = max(factors) if is_fast else min(factors)
        assert gaps[0].ratio == pytest.approx(farthest, rel=0.1), "not the median, which is normal"
        named = f"in its {'fastest' if is_fast else 'slowest'} round"
        assert (named in gaps[0].sentence) == (len(factors) > 1)
        assert articles.place(gaps[0].keys[0]) == (16384, 10)


@pytest.mark.parametrize(
    ("factors", "statuses"),
    [
        ([0.05, 3.2], {"too_fast": "transient", "noise": "transient"}),
        ([0.0, 0.1], {"noise": "persistent"}),
    ],
)
def test_slow_rounds_and_fast_rounds_are_not_counted_together(factors, statuses):
    table = with_rounds(table_of("read", READ_VALUES), {(16384, 10): factors})
    assert {gap.kind: gap.status for gap in audit_table(table).gaps} == statuses


def test_a_cell_measured_once_whose_own_doubt_reaches_the_limit_is_not_called():
    table = with_rounds(table_of("read", READ_VALUES), {(16384, 10): [0.4]})
    unsure = [
        msgspec.structs.replace(
            point,
            iops=msgspec.structs.replace(
                point.iops, low=0.5 * point.iops.value, high=2 * point.iops.value
            ),
        )
        if (point.block_size_bytes, point.threads) == (16384, 10)
        else point
        for point in table.points
    ]
    assert len(audit_table(table).gaps) == 1
    assert audit_table(msgspec.structs.replace(table, points=unsure)).gaps == []


def in_printed_order(by_place):
    table = table_from(by_place)
    points = [
        msgspec.structs.replace(point, position=place) for place, point in enumerate(table.points)
    ]
    return msgspec.structs.replace(table, points=points)


def test_the_same_cells_are_a_start_only_if_they_were_measured_first():
    by_place = rates("read", READ_VALUES)
    by_place[512, 1] /= 20
    by_place[512, 10] /= 3
    (first,) = audit_table(in_printed_order(by_place)).gaps
    assert (first.kind, len(first.keys)) == ("start_transient", 2)
    (later,) = audit_table(table_from(by_place)).gaps
    assert (later.kind, len(later.keys)) == ("noise", 2)


def test_what_is_slow_in_every_round_is_no_start():
    by_place = rates("read", READ_VALUES)
    by_place[512, 1] /= 5
    table = with_rounds(in_printed_order(by_place), {})
    (found,) = audit_table(table).gaps
    assert (found.kind, found.status) == ("noise", "persistent")


def test_a_drain_is_that_of_the_first_round():
    """Later rounds fill the file again, and their first test is normal."""
    clean = in_printed_order(rates("read", READ_VALUES))
    table = with_rounds(clean, {(512, 1): [0.1, 1.0, 1.0]})
    (start,) = audit_table(table).gaps
    assert (start.kind, start.status) == ("start_transient", "transient")
    filled = articles.cell("write", 1 << 20, 1, kind="fill")
    per_s = articles.FILL_BYTES / (1 << 20) / articles.FILL_S
    fills = [articles.sample(filled, per_s, 0, n, articles.FILL_S) for n in range(3)]
    fill = fill_of([summarise_cell(fills)], filled.target)
    expected = {point.key: point.iops.value for point in clean.points}
    drain = implied_drain(table, start, expected, fill, cell_s=10.0)
    assert drain.waited_s == pytest.approx(9.0)
    assert drain.mib_per_s == pytest.approx(4096 / (articles.FILL_S + 9.0), rel=0.01)
    (key,) = start.keys
    blank = [
        msgspec.structs.replace(point, iops=None, rounds_per_s=[]) if point.key == key else point
        for point in table.points
    ]
    table = msgspec.structs.replace(table, points=blank)
    drain = implied_drain(table, start, expected, fill, cell_s=10.0)
    assert drain.waited_s == pytest.approx(10.0), "nothing completed in it"


def test_contiguous_sizes_are_one_collapse_and_others_are_not():
    by_place = rates("read", READ_VALUES)
    for size in (65536, 131072, 262144):
        by_place[size, 40] /= 5
    by_place[2 << 20, 1] /= 4
    gaps = audit_table(table_from(by_place)).gaps
    assert [(gap.kind, len(gap.keys)) for gap in gaps] == [("collapse", 3), ("noise", 1)]
    assert gaps[0].ratio == pytest.approx(0.2, rel=0.05)


@pytest.mark.parametrize(
    ("others", "status", "cause"),
    [
        ([0.2], "persistent", "Specific to these block sizes"),
        ([1.0], "transient", "Other rounds of the same"),
        ([1.0, 1.0], "transient", "Other rounds of the same"),
    ],
)
def test_a_collapse_that_passed_is_not_blamed_on_the_sizes(others, status, cause):
    factors = {(size, 40): [0.2, *others] for size in (65536, 131072, 262144)}
    (gap,) = audit_table(with_rounds(table_from(rates("read", READ_VALUES)), factors)).gaps
    assert (gap.kind, gap.status, len(gap.keys)) == ("collapse", status, 3)
    assert gap.ratio == pytest.approx(0.2, rel=0.1)
    assert "reached 20 %" in gap.sentence
    assert gap.cause.startswith(cause)


def test_a_cell_that_completed_nothing_is_absent_whatever_the_model():
    by_place = rates("read", READ_VALUES)
    by_place[1 << 20, 10] = 0.0
    (absent,) = audit_table(table_from(by_place)).gaps
    assert (absent.kind, absent.ratio) == ("absent", 0.0)
    assert "No request completed" in absent.cause


def test_a_bound_that_is_passed_in_is_judged():
    table = table_of("read", READ_VALUES)
    (broken,) = audit_table(table, bound_bytes_per_s=1200e6).gaps
    assert broken.kind == "bound_broken"
    assert broken.ratio == pytest.approx(1700 * (1 << 20) / 1200e6, rel=0.01)
    assert "but its limit is 1,200 MB/s" in broken.sentence
    assert audit_table(table, bound_bytes_per_s=2000e6).gaps == []


def test_cells_without_a_prediction_are_not_judged():
    table = table_of("read", READ_VALUES)
    assert find_gaps(table, {}, 0.01) == []
