"""Which cells first, which next, and which again."""

import numpy as np
import pytest

from seatrial.trials.audit.analysis.guide import first_cells, guide, next_cells, outlier_keys
from seatrial.trials.audit.analysis.tables import observations_of
from seatrial.trials.audit.queueing.fit import choose
from stats.builders import cell_of, run_of, sample_of
from trials.audit.analysis.synthetic import COUNTS, READ_VALUES, SIZES, rates, table_from

ALL = [(f"matrix/read/{s}B/{c}t/1d", s, c, 1) for s in SIZES for c in COUNTS]


def measured(keys, by_place, **how):
    return table_from({p[1:3]: by_place[p[1:3]] for p in ALL if p[0] in keys}, **how)


@pytest.mark.parametrize("answering_count", [0, 1, 2])
def test_cells_that_complete_nothing_do_not_end_the_guidance(answering_count):
    cells = [cell_of(block_size_bytes=size, threads=count) for size in SIZES for count in COUNTS]
    by_key = {cell.key: cell for cell in cells}
    samples = [
        sample_of(by_key[key], completed=1000 if position < answering_count else 0)
        for position, key in enumerate(guide(run_of(), cells, [], 0.1).keys)
    ]
    keys = guide(run_of(), cells, samples, 0.1).keys
    assert keys
    assert set(keys) <= by_key.keys() - {sample.cell.key for sample in samples}


@pytest.mark.parametrize("count", [1, 5, 7, 10, 42, 100])
def test_as_many_different_cells_as_there_are(count):
    keys = first_cells(ALL, count)
    assert len(keys) == len(set(keys)) == min(count, len(ALL))
    assert set(keys) <= {point[0] for point in ALL}


def test_the_corners_are_among_the_first():
    places = {point[1:3] for point in ALL if point[0] in first_cells(ALL)}
    assert {(4096, 40), (4 << 20, 1), (4 << 20, 40), (8192, 1)} <= places


@pytest.mark.parametrize(
    "points",
    [
        [],
        [("a", 4096, 1, 1)],
        [("a", 4096, 1, 1), ("b", 4096, 8, 4)],
        [(str(s), s, 1, 1) for s in (512, 1024, 2048)],
        [(f"{s}/{d}", s, 4, d) for s in (4096, 1 << 20) for d in (1, 32)],
    ],
)
def test_small_and_outlier_grids_are_taken_as_they_are(points):
    assert sorted(first_cells(points, 7)) == sorted(point[0] for point in points)


def test_next_cells_are_new_and_as_many_as_requested():
    by_place = rates("read", READ_VALUES)
    keys = first_cells(ALL)
    more = next_cells(measured(keys, by_place), ALL, 5)
    assert len(more) == len(set(more)) == 5
    assert not set(more) & set(keys)
    everything = next_cells(measured(keys, by_place), ALL, 1000)
    assert sorted(everything + keys) == sorted(point[0] for point in ALL)
    assert next_cells(measured([p[0] for p in ALL], by_place), ALL, 5) == []


def test_next_cells_of_too_few_are_spread():
    by_place = rates("read", READ_VALUES)
    keys = first_cells(ALL, 2)
    assert len(next_cells(measured(keys, by_place), ALL, 3)) == 3


def test_next_cells_teach_more_than_any_others():
    """Parameters are better known after the chosen cells than after cells drawn by lot."""
    by_place = rates("read", READ_VALUES)
    keys = first_cells(ALL, 10)
    chosen = keys + next_cells(measured(keys, by_place), ALL, 6)

    def error(subset, seed):
        table = measured(subset, by_place, noise_log=0.05, seed=seed)
        fitted = choose(observations_of(table)).fit
        every = observations_of(table_from(by_place))
        predicted = fitted.predicted_per_s(every.size_bytes, every.concurrency)
        return np.quantile(np.abs(np.log(predicted / every.rate_per_s)), 0.9)

    random = np.random.default_rng(5)
    left = [point[0] for point in ALL if point[0] not in keys]
    lots = [keys + list(random.choice(left, 6, replace=False)) for _ in range(5)]
    ours = np.median([error(chosen, seed) for seed in range(5)])
    theirs = np.median([error(lot, seed) for seed, lot in enumerate(lots)])
    assert ours <= theirs


def test_next_cells_look_next_to_an_outlier():
    by_place = rates("read", READ_VALUES)
    by_place[65536, 10] /= 8
    keys = [p[0] for p in ALL if p[2] != 40] + [p[0] for p in ALL if p[1] in (512, 4 << 20)]
    (first,) = next_cells(measured(set(keys), by_place), ALL, 1)
    assert first == "matrix/read/65536B/40t/1d"


def samples_of(by_place, rounds=(1.0,), outlier=()):
    made = []
    for round_number, factor in enumerate(rounds):
        for position, ((size, count), rate) in enumerate(by_place.items()):
            if round_number and (size, count) not in outlier:
                continue
            cell = cell_of(
                operation="read", block_size_bytes=size, threads=count, kind="matrix",
                factors={"pattern": "random"},
            )  # fmt: skip
            made.append(
                sample_of(
                    cell, completed=round(rate * factor), round=round_number, response_ns=[],
                    position=len(by_place) - position,
                )
            )  # fmt: skip
    return made


def test_outlier_cells_are_named_until_they_have_been_measured_twice():
    by_place = rates("read", READ_VALUES)
    outlier = {(16384, 10), (1 << 20, 1)}
    slowed = {p: rate / (5 if p in outlier else 1) for p, rate in by_place.items()}
    keys = outlier_keys(run_of(), samples_of(slowed))
    assert {key.split("/")[2] for key in keys} == {"16384B", "1048576B"}
    again = outlier_keys(run_of(), samples_of(slowed, rounds=(1.0, 1.1), outlier=outlier))
    assert again == []
    assert outlier_keys(run_of(), samples_of(by_place)) == []


def test_nobody_measures_an_imported_table_again():
    by_place = rates("read", READ_VALUES)
    by_place[16384, 10] /= 5
    imported = {"format": "csv", "file": "a.csv", "tool": ""}
    run = run_of(study={"name": "imported", "imported": imported})
    assert outlier_keys(run, samples_of(by_place)) == []
