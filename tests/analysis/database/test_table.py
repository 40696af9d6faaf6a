"""The article's table as data: its own figures come out as it tells them."""

import csv
from pathlib import Path

import pytest

from seatrial.analysis.database.table import article_table

from .hand import cell_of, record_of, sample_of, summary_of

PUBLISHED = Path(__file__).parents[3] / "reference" / "pgbench-2010.csv"


def published():
    with PUBLISHED.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def summary_as_published(row):
    """A cell as our own run of the article's would be, two rounds that agree."""
    processes = int(row["client_machines"])
    per_s = float(row["tps_client_1"])
    told = {"tps": per_s}
    if processes == 2:
        told = {"tps_1": per_s, "tps_2": per_s + 2}
    cell = cell_of(target=row["device"], alone=False, scale=int(row["scale"]), processes=processes)
    whole = sum(told.values())
    samples = [
        sample_of(cell, per_s=whole, seconds=3, round=number, record=record_of(told=told))
        for number in range(2)
    ]
    return summary_of(*samples)


def test_the_articles_twelve_figures():
    rows = article_table([summary_as_published(row) for row in published()])
    assert len(rows) == 12
    found = {(r.target, r.scale, r.processes): r.tps_client_1.value for r in rows}
    for row in published():
        key = (row["device"], int(row["scale"]), int(row["client_machines"]))
        assert found[key] == pytest.approx(float(row["tps_client_1"]))


def test_two_processes_have_their_sum_beside_the_first():
    (row,) = article_table([summary_as_published(published()[-1])])
    assert row.tps.value == pytest.approx(122 + 124)
    assert [round(each.value) for each in row.tps_by_process] == [122, 124]


def test_rows_come_as_the_article_has_them():
    rows = article_table([summary_as_published(row) for row in published()])
    assert [(r.scale, r.processes) for r in rows] == (
        [(100, 1)] * 4 + [(1000, 1)] * 4 + [(1000, 2)] * 4
    )
    assert [r.target for r in rows[:4]] == [row["device"] for row in published()[:4]]


def test_a_run_that_does_not_tell_its_processes_has_their_sum_only():
    (row,) = article_table([summary_of(sample_of(cell_of(processes=2)))])
    assert row.tps_by_process == []
    with pytest.raises(LookupError, match="were not told"):
        _ = row.tps_client_1


def test_other_factors_stay_with_their_row():
    cell = cell_of(settings={"shared_buffers": "1GB"})
    (row,) = article_table([summary_of(sample_of(cell))])
    assert row.others == {"shared_buffers": "1GB"}
