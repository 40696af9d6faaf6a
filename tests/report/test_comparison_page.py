"""The page of a comparison as a file: its order, its safety, its bounds."""

from __future__ import annotations

import pytest

from report.comparison_hand import full_comparison, make_comparand, make_comparison
from report.exports_hand import make_run
from report.page_reader import read
from report.sample_run import HOSTILE
from seatrial.fingerprint import Fingerprint, Machine
from seatrial.report.comparison_page import render
from seatrial.stats.compare.model import Side

BYTES_MAX = 1_000_000


def test_the_parts_stand_in_the_order_in_which_they_are_requested():
    page = render([full_comparison()])
    marks = [
        "<h1>after is 1.12x",
        'class="tiles"',
        'class="worst"',
        "after does 1.12x the IOPS of before",
        'id="key"',
        'id="pair-1-differences"',
        'id="pair-1-warnings"',
        'id="pair-1-findings"',
        'id="tables"',
        'id="machine"',
        'id="study"',
    ]
    places = [page.index(mark) for mark in marks]
    assert places == sorted(places)


def test_likely_reasons_come_first_and_every_figure_is_in_a_table():
    document = read(render([full_comparison()]))
    rows = document.one(id="pair-1-differences").one("tbody").all("tr")
    assert [row.all("td") or row.all("th")[-1].text for row in rows] == [
        "likely reason",
        "likely reason",
        "minor",
    ]
    numbers = document.one(id="table-pair-1")
    assert len(numbers.all("table")[1].one("tbody").all("tr")) == 4 * 84 - 84
    assert "1 test that after lacks" in numbers.text
    assert "matrix/write/8192B/80t/1d" in numbers.text


def test_nothing_differs_is_said_and_so_is_what_is_not_known():
    page = render([make_comparison(differences=[])])
    assert "No fingerprint was taken of before." in page
    assert "What differs between the two is not known." in page
    known = make_run(fingerprint_before=Fingerprint(machine=Machine(kernel="6.12")))
    sides = {"a": Side(name="x", run=known), "b": Side(name="y", run=known)}
    page = render([make_comparison(differences=[], **sides)])
    assert "The two fingerprints do not differ." in page


def test_sides_of_one_run_show_its_machine_once():
    run = make_run()
    sides = {
        "a": Side(name="ssd", run=run, target="ssd"),
        "b": Side(name="hdd", run=run, target="hdd"),
    }
    document = read(render([make_comparison(**sides)]))
    assert [part.text for part in document.one(id="machine").all("summary")[1:]] == ["ssd, hdd"]
    assert "target hdd, run 20261121-074500-3fa2" in document.one("header").text


def test_several_are_each_compared_with_the_first():
    third = Side(name="third", run=make_run(id="20261123-000000-0001"))
    document = read(render([make_comparison(), make_comparison(b=third)]))
    assert document.one(id="pair-2-differences").one("h2").text == (
        "What differs between before and third"
    )
    assert "C: third" in document.one("header").text
    assert len(document.one(id="machine").all("details")) == 3


def test_no_text_of_a_user_becomes_markup():
    comparison = make_comparison(
        a=Side(name=HOSTILE, run=make_run()),
        warnings=[HOSTILE],
        verdict=HOSTILE,
        only_a=[HOSTILE],
    )
    page = render([comparison])
    assert "<script>alert" not in page
    assert HOSTILE in read(page).one("details", class_="words").text


def test_a_comparison_of_very_many_cells_stays_within_its_bound_and_says_so():
    many = [
        make_comparand(figure, 512 * place, threads)
        for figure in ("iops", "bandwidth", "read p99")
        for place in range(1, 51)
        for threads in range(1, 33)
    ]
    page = render([make_comparison(many)])
    assert len(page.encode()) <= BYTES_MAX
    assert "more would make this page too large" in page


def test_a_page_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        render([])
