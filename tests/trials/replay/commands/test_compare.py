"""``seatrial sql compare`` on files: output, refusals, and exit codes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cli.command import Ended, seatrial
from report import json_schema

PAGES = ("/", "/order/{}", "/search", "/login")
SECONDS = 900


def access_log(place: Path, *, times: float = 1.0, seed: int = 1) -> Path:
    """Write a log of 15 minutes with four requests a second."""
    rng = random.Random(seed)
    lines = []
    for second in range(SECONDS):
        for number, page in enumerate(PAGES):
            took_s = times * rng.lognormvariate(-3 + number / 2, 0.3)
            lines.append(
                f"10.0.0.1 - - [21/Nov/2026:08:{second // 60:02}:{second % 60:02} +0000] "
                f'"GET {page.format(second)} HTTP/1.1" 200 {second} "-" "x" {took_s:.4f}\n'
            )
    place.write_text("".join(lines))
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    access_log(folder / "before.log")
    access_log(folder / "after.log", times=1 / 4, seed=2)
    access_log(folder / "again.log", seed=3)
    for name, real in (("old.time", "348m6.451s"), ("new.time", "30m34.747s")):
        (folder / name).write_text(f"\nreal\t{real}\nuser\t0m4.912s\nsys\t0m0.808s\n")
    return folder


def compare(folder: Path, *arguments: str) -> Ended:
    return seatrial("sql", "compare", *arguments, "--tables", folder=folder)


def test_pages_and_the_nightly_batch_in_the_words_of_the_article(folder):
    reported = compare(
        folder, "before.log", "after.log", "--batch", "nightly batch", "old.time", "new.time"
    )
    assert reported.code == 0, reported.err
    assert "Nightly batch 11.4x faster (measured once each)." in reported.out
    verdict, *_ = [line for line in reported.out.splitlines() if line.startswith("Pages ")]
    assert float(verdict.split()[1].rstrip("x")) == pytest.approx(4, rel=0.05)
    assert "GET /order/:n" in reported.out
    assert "there is no significance test" in reported.out


def test_the_document_is_as_its_schema_has_it(folder):
    reported = compare(
        folder, "before.log", "after.log", "--aa", "again.log", "--batch", "b", "1h2m3s", "9m0.5s",
        "--json",
    )  # fmt: skip
    json_schema.assert_published(reported.document)
    assert reported.document["kind"] == "before_after"
    pages = reported.document["pages"]
    assert reported.document["queries"] is None
    assert pages["floor"]["source"] == "pair"
    assert pages["level"] == pytest.approx(0.95)
    assert pages["overall"]["faster"] == len(PAGES)
    assert pages["overall"]["speed_up"]["over"] == "timeline"
    saved_s = sum(each["saved_s"] for each in pages["changes"])
    overall = pages["overall"]
    assert saved_s == pytest.approx(overall["before_s"] - overall["after_s"])


def test_slower_is_exit_code_3_only_where_it_is_requested(folder):
    slower = ("after.log", "before.log", "--fail-if-slower", "100")
    reported = compare(folder, *slower)
    assert reported.code == 3
    assert "Slower by more than 100 %: average page" in reported.out
    assert compare(folder, "after.log", "before.log").code == 0
    assert compare(folder, "before.log", "again.log", "--fail-if-slower", "5").code == 0
    batch = ("--batch", "b", "new.time", "old.time", "--fail-if-slower", "5")
    assert compare(folder, *batch).code == 3


def test_a_limit_below_the_margin_is_refused_and_may_be_lowered_with_it(folder):
    reported = compare(folder, "before.log", "again.log", "--fail-if-slower", "2")
    assert reported.code == 2
    assert "--fail-if-slower 2 is below --margin 5" in reported.err
    lower = ("before.log", "again.log", "--fail-if-slower", "2", "--margin", "2")
    assert compare(folder, *lower).code == 0


def test_a_report_that_was_logged_once_each_is_not_called_slower(tmp_path):
    for name, ms in (("hot.log", 40), ("cold.log", 90)):
        (tmp_path / name).write_text(
            f"2026-11-21 08:00:00.000 UTC [7] app@x LOG:  duration: {ms}.000 ms  statement: "
            "SELECT count(*) FROM t\n"
        )
    reported = compare(tmp_path, "hot.log", "cold.log", "--fail-if-slower", "10")
    assert reported.code == 0, reported.err
    assert "Undecided: average query" in reported.out
    assert "Undecided whether slower by more than 10 %: average query" in reported.out
    assert "urely" not in reported.out


def test_a_limit_of_sides_with_nothing_in_common_does_not_seem_to_hold(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.log").write_text(
            "2026-11-21 08:00:00.000 UTC [7] app@x LOG:  duration: 4.000 ms  statement: "
            f"SELECT {name} FROM {name}\n"
        )
    reported = compare(tmp_path, "a.log", "b.log", "--fail-if-slower", "10").out
    assert "Undecided whether slower by more than 10 %: no query" in reported
    assert "Nothing: no regression" not in reported


def test_both_speed_ups_are_reported(folder):
    reported = compare(folder, "before.log", "after.log", "--json").document
    assert "; geometric mean over pages: " in reported["verdict"][0]


def test_two_logs_of_the_same_are_not_called_different(folder):
    reported = compare(folder, "before.log", "again.log")
    assert "Undecided: average page" in reported.out
    assert "faster (" not in reported.out


def test_a_batch_that_is_timed_several_times_is_one(folder):
    reported = compare(
        folder, "--batch", "b", "10m0s", "1m0s", "--batch", "b", "10m6s", "1m1s", "--json"
    )
    (batch,) = reported.document["batches"]
    assert batch["before_s"] == [600.0, 606.0]
    assert batch["answer"] == "faster"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "0 sides were named"),
        (("before.log",), "before.log is one side"),
        (("before.log", "after.log", "x"), "3 sides were named"),
        (("before.log", "nothing-there"), "nothing-there"),
        (("old.time", "before.log"), "old.time"),
        (("before.log", "after.log", "--pages", "before.log", "after.log"), "twice"),
        (("--snapshot", "postgresql://nowhere/x"), "-o"),
        (("before.log", "after.log", "-o", "x.csv"), "--snapshot"),
        (("--batch", "b", "x.time", "1s"), "x.time cannot be read"),
        (("before.log", "after.log", "--client-offset", "80"), "not a time with a unit"),
    ],
)
def test_what_cannot_be_compared_is_a_sentence_and_exit_code_2(folder, arguments, words):
    reported = compare(folder, *arguments)
    assert reported.code == 2
    assert words in reported.err
    assert "Traceback" not in reported.err + reported.out


def test_a_page_is_written(folder, tmp_path):
    place = tmp_path / "page.html"
    reported = compare(folder, "before.log", "after.log", "--report", str(place))
    assert f"Report: {place}" in reported.out
    assert "GET /order/:n" in place.read_text()


def test_the_column_of_the_time_can_be_stated(folder, tmp_path):
    for name in ("before.log", "after.log"):
        lines = (folder / name).read_text().splitlines()
        whole = [
            f"{line.rpartition(' ')[0]} {512 + n % 9} {900 + n} {7 * n}000\n"
            for n, line in enumerate(lines)
        ]
        (tmp_path / name).write_text("".join(whole))
    refused = compare(tmp_path, "before.log", "after.log")
    assert refused.code == 2
    assert "--time-column 5" in refused.err
    reported = compare(tmp_path, "before.log", "after.log", "--time-column", "5")
    assert reported.code == 0, reported.err
    assert "column 5 after the bytes, in µs" in " ".join(reported.out.split())


def test_what_is_left_out_of_an_access_log_is_reported(folder, tmp_path):
    line = '10.0.0.1 - - [21/Nov/2026:08:00:00 +0000] "GET /app.js HTTP/1.1" 200 9 "-" "x" 0.0010\n'
    (tmp_path / "static.log").write_text((folder / "before.log").read_text() + 7 * line)
    reported = compare(folder, "before.log", str(tmp_path / "static.log"))
    assert "7 requests of static files left out" in " ".join(reported.out.split())
