"""The page of bench/before_after.py: false verdicts and what was found, counted as they are."""

from __future__ import annotations

import before_after
import pytest

from seatrial.trials.replay.compare.model import CallFigures, Unit

KEYS = [before_after._core.fingerprint_sql(text.format(n=1))[0] for text in before_after.TEXTS]


def units(rounds: int, slower: dict[int, float], place: int) -> list[Unit]:
    """Rounds in turns; a wobble of one part in a thousand, another for each database."""
    return [
        Unit(
            number=number,
            measured={
                key: CallFigures(
                    calls=50.0,
                    total_s=0.05 * slower.get(kind, 1.0) * (1 + 1e-3 * ((number + place) % 3)),
                )
                for kind, key in enumerate(KEYS)
            },
            begin_s=10.0 * number + place,
            covered_s=1.0,
        )
        for number in range(rounds)
    ]


@pytest.fixture
def section() -> str:
    options = before_after.options_of(["--comparisons", "2", "--rounds", "8"])
    reported = before_after.BenchResult(rounds=8, factor=1.1, play_s=0.2)
    slower = {before_after.SLOW_KIND: 1.1}
    played = {
        before_after.LEFT: units(16, {}, 0),
        before_after.RIGHT: units(8, {}, 1),
        before_after.ALL: units(8, dict.fromkeys(range(before_after.KINDS), 1.1), 2),
        before_after.ONE: units(16, slower, 3),
    }
    for _ in range(2):
        for what, table in before_after.compared_all(played, 8):
            reported.tables.setdefault(what, []).append(table)
    return before_after.section(options, reported, ["- a machine"])


def row(section: str, what: str) -> list[str]:
    (line,) = [line for line in section.splitlines() if line.startswith(f"| {what} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_what_is_alike_is_not_called_different(section):
    for what in ("alike", "one after the other", "once each"):
        assert row(section, what)[2:5] == ["0", "0", "0"]


def test_what_is_slower_is_found_and_nothing_else(section):
    assert row(section, "all slower")[2:5] == ["2", "2", "2"]
    assert row(section, "one slower")[4:6] == ["2", "2 (others: 0)"]


def test_a_comparison_with_both_false_verdicts_is_counted_once(section):
    assert row(section, "all slower")[2:5] == ["2", "2", "2"]
    assert float(row(section, "all slower")[6].removesuffix("%")) == pytest.approx(10, abs=1)


def test_every_kind_of_query_has_a_fingerprint_of_its_own():
    assert len(set(KEYS)) == before_after.KINDS


def test_each_kind_does_its_own_work():
    for kind, text in enumerate(before_after.TEXTS):
        assert text.count(f"spin{kind}()") == 1
