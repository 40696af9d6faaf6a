"""Where cells contradict each other by order: which of them are odd, and what is not claimed."""

import math

import msgspec
import numpy as np
import pytest

from seatrial.trials.audit.analysis.audit import audit_table
from seatrial.trials.audit.analysis.gaps import contradictions_log
from seatrial.trials.audit.analysis.tables import known_points
from trials.audit.analysis import articles
from trials.audit.analysis.synthetic import READ_VALUES, SIZES, rates, table_from, table_of

GRIDS = [
    (SIZES, [1, 10, 40]),
    ([512, 4096, 8192, 65536, 1 << 20], [1, 10, 40]),
    ([4096 << shift for shift in range(7)], [1, 2, 4, 8, 16, 32]),
    ([4096, 8192, 16384, 65536], [1, 4, 16, 64]),
]
TABLES_A_GRID = 3
FOUND_SHARE_MIN = 0.97
FALSE_SHARE_MAX = 0.005


def drawn(random):
    """Parameters of a device, drawn."""
    values = {
        "setup_us": random.uniform(10, 300),
        "host_service_us": math.exp(random.uniform(math.log(5), math.log(60))),
        "link_mib_per_s": math.exp(random.uniform(math.log(400), math.log(4000))),
    }
    if random.random() < 0.4:
        values["store_forward_us_per_mib"] = random.uniform(100, 400)
        values["store_forward_kib"] = random.uniform(100, 1000)
    if random.random() < 0.4:
        values["admitted_count"] = random.uniform(6, 30)
    return values


def planted():
    """For each of some tables its source of randomness, its rates, and what they were made of."""
    for number, (sizes, counts) in enumerate(GRIDS):
        for seed in range(TABLES_A_GRID):
            random = np.random.default_rng(100 * number + seed)
            values = drawn(random)
            how = {"noise_log": (0.0, 0.02, 0.05)[seed % 3], "rounds": 1 + seed, "seed": seed}
            yield random, rates("read", values, sizes, counts), values, how


def places(audit, kinds):
    return {articles.place(key) for gap in audit.gaps if gap.kind in kinds for key in gap.keys}


SLOW = {"collapse", "noise", "start_transient"}


def most_of_the_plateau(random, by_place, values):
    """Block sizes that follow each other and make up 55 to 85 % of what the host limits."""
    limit_per_s = 1e6 / values["host_service_us"]
    plateau = [place for place, rate in by_place.items() if rate >= 0.8 * limit_per_s]
    counts = [count for _, count in plateau]
    cells = [(size, count) for size, count in plateau if counts.count(count) >= 2]
    sizes = sorted({size for size, _ in cells})
    if len(sizes) < 2:
        return set()
    subset = max(1, min(len(sizes) - 1, round(random.uniform(0.55, 0.85) * len(sizes))))
    first = random.integers(0, len(sizes) - subset + 1)
    return {(size, count) for size, count in cells if size in sizes[first : first + subset]}


def test_a_collapse_of_most_of_a_plateau_is_not_taken_for_the_rule():
    collapsed = found = called = sound = 0
    for random, by_place, values, how in planted():
        slow = most_of_the_plateau(random, by_place, values)
        factor = random.uniform(3, 10)
        table = table_from(
            {p: rate / factor if p in slow else rate for p, rate in by_place.items()}, **how
        )
        if contradictions_log(known_points(table)).max() < math.log(2):
            continue  # all that is left are smaller blocks, which may well do more
        audit = audit_table(table)
        reported = places(audit, SLOW)
        collapsed, found = collapsed + len(slow), found + len(reported & slow)
        called += len(places(audit, SLOW | {"too_fast"}) - slow)
        sound += len(by_place) - len(slow)
        for parameter in audit.parameters:
            if parameter.name == "host_service_us" and parameter.sentence:
                assert parameter.value == pytest.approx(values["host_service_us"], rel=0.3)
    assert collapsed > 40
    assert found >= FOUND_SHARE_MIN * collapsed
    assert called <= FALSE_SHARE_MAX * sound


def test_a_first_cell_that_is_too_fast_is_a_class_of_its_own():
    found = called = sound = count = 0
    for random, by_place, _values, how in planted():
        place = list(by_place)[random.integers(len(by_place))]
        by_place[place] *= random.uniform(2, 8)
        table = table_from(by_place, **how)
        points = [
            msgspec.structs.replace(
                point,
                position=-1 if (point.block_size_bytes, point.threads) == place else point.position,
            )
            for point in table.points
        ]
        audit = audit_table(msgspec.structs.replace(table, points=points))
        found += place in places(audit, {"too_fast"})
        called += len(places(audit, SLOW | {"too_fast"}) - {place})
        sound, count = sound + len(by_place) - 1, count + 1
    assert found >= FOUND_SHARE_MIN * count
    assert called <= FALSE_SHARE_MAX * sound


def test_sound_tables_have_no_outlier_cells():
    called = sound = 0
    for _random, by_place, _values, how in planted():
        audit = audit_table(table_from(by_place, **how | {"noise_log": 2 * how["noise_log"]}))
        assert audit.holds
        called += len(places(audit, SLOW | {"too_fast"}))
        sound += len(by_place)
    assert called <= FALSE_SHARE_MAX * sound


def test_what_is_too_fast_has_its_causes():
    by_place = rates("read", READ_VALUES)
    by_place[8192, 10] *= 4
    (found,) = audit_table(table_from(by_place)).gaps
    assert (found.kind, found.status) == ("too_fast", "seen_once")
    assert found.ratio == pytest.approx(4, rel=0.02)
    assert "4.0 times the rate expected from the rest of the table" in found.sentence
    for cause in ("cache", "never been written", "burst credit"):
        assert cause in found.cause
    assert "measured first" not in found.cause
    by_place = rates("read", READ_VALUES)
    by_place[list(by_place)[-1]] *= 4  # the place that is measured first
    (first,) = audit_table(table_from(by_place)).gaps
    assert "It was measured first" in first.cause


@pytest.mark.parametrize("is_collapse", [True, False])
def test_one_cell_over_a_plateau_leaves_both_readings_open(is_collapse):
    """Five of six cells collapsed, or one of six too fast: the table is the same."""
    sizes, counts = GRIDS[1]
    values = {"setup_us": 60.0, "host_service_us": 15.0, "link_mib_per_s": 1500.0}
    by_place = rates("read", values, sizes, counts)
    high = (4096, 40)
    for size, count in by_place if is_collapse else [high]:
        if is_collapse and count > 1 and size <= 8192 and (size, count) != high:
            by_place[size, count] /= 4
    by_place[high] *= 1 if is_collapse else 4
    (found,) = audit_table(table_from(by_place)).gaps
    assert "this table alone cannot show which" in found.cause
    if found.kind == "too_fast":
        assert "Or it is correct, and 5 tests are too slow" in found.cause
    else:
        assert "Or they are correct, and 4 KiB at 40 threads is too fast" in found.cause


def test_a_model_that_order_contradicts_is_not_said_to_hold():
    """Half of the cells are slowed, in stripes: whatever a fit does, order contradicts it."""
    for seed in range(3):
        random = np.random.default_rng(seed)
        by_place = rates("read", READ_VALUES)
        for place in by_place:
            by_place[place] /= random.choice([1.0, 1.0, 2.5, 7.0])
        audit = audit_table(table_from(by_place))
        sound = [p for p in known_points(audit.table) if p.key in audit.rests_on]
        outlier = {key for gap in audit.gaps for key in gap.keys}
        left = [point for point in sound if point.key not in outlier]
        assert not audit.holds or contradictions_log(left).max() <= math.log(2.5)


def test_scatter_of_rounds_contradicts_nothing():
    table = table_of("read", READ_VALUES, noise_log=0.3, rounds=3)
    once = table_of("read", READ_VALUES, noise_log=0.3)
    several, single = (contradictions_log(known_points(each)).max() for each in (table, once))
    assert several < single


def test_order_knows_threads_and_depth_apart():
    """One thread with 16 in flight demands nothing of four threads with four each."""
    points = known_points(
        table_from({(4096, 1, 16): 900.0, (4096, 4, 4): 100.0, (4096, 4, 16): 400.0})
    )
    short = contradictions_log(points)
    assert short[1].max() == -math.inf
    assert short[2, 0] == pytest.approx(math.log(900 / 400))
