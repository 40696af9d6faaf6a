"""The grammar of thresholds, and what they select."""

from __future__ import annotations

import pytest

from seatrial.errors import StudyError
from seatrial.study.cell import Cell
from seatrial.study.thresholds import QUANTITIES, parse_threshold
from study.builders import plan_of, study_of


@pytest.mark.parametrize(
    ("name", "condition", "means"),
    [
        ("commit.p99_ms", "< 5", ("p99", "ms", 5e6, "ns")),
        ("commit.p99.9_us", "<=250.5", ("p99.9", "us", 250_500.0, "ns")),
        ("commit.max_s", "< 1", ("max", "s", 1e9, "ns")),
        ("matrix.iops", "> 20000", ("iops", "IOPS", 20000.0, "IOPS")),
        ("commit.commits_per_s", ">= 500", ("iops", "commits/s", 500.0, "IOPS")),
        ("sequential.mb_per_s", "> 1.5", ("bandwidth", "MB/s", 1.5e6, "B/s")),
        ("sequential.gib_per_s", "> 3", ("bandwidth", "GiB/s", 3 * 2.0**30, "B/s")),
        ("matrix.stalls", "<= 0", ("stalls", "count", 0.0, "count")),
        ("matrix.stall_max_ms", "< 100", ("stall_max", "ms", 1e8, "ns")),
        ("matrix.errors", "< 1", ("errors", "count", 1.0, "count")),
    ],
)
def test_thresholds_are_read(name: str, condition: str, means: tuple[str, str, float, str]) -> None:
    threshold = parse_threshold(name, condition)
    assert threshold.workload == name.partition(".")[0]
    read = (threshold.quantity, threshold.unit, threshold.base_value, threshold.base_unit)
    assert read == means
    assert (threshold.name, threshold.condition) == (name, condition)


@pytest.mark.parametrize(
    ("name", "condition"),
    [
        ("commit", "< 5"),
        ("commit.", "< 5"),
        (".p99_ms", "< 5"),
        ("commit.p99", "< 5"),
        ("commit.p99_min", "< 5"),
        ("commit.p98_ms", "< 5"),
        ("commit.p99_ms", "= 5"),
        ("commit.p99_ms", "< five"),
        ("commit.p99_ms", "< -5"),
        ("commit.p99_ms", "< 5 ms"),
        ("commit.p99_ms", "5 >"),
        ("commit.p99_ms", ""),
        ("commit[threads].p99_ms", "< 5"),
        ("commit[threads=1, threads=4].p99_ms", "< 5"),
        ("commit[block_size=big].p99_ms", "< 5"),
    ],
)
def test_what_is_no_threshold_is_refused(name: str, condition: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_threshold(name, condition)


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_every_quantity_can_be_written(quantity: str) -> None:
    assert parse_threshold(f"w.{quantity}", "< 1").workload == "w"


@pytest.mark.parametrize(
    ("comparison", "kept"), [("<", [1]), ("<=", [1, 2]), (">", [3]), (">=", [2, 3])]
)
def test_comparisons(comparison: str, kept: list[int]) -> None:
    threshold = parse_threshold("w.iops", f"{comparison} 2")
    assert [value for value in (1, 2, 3) if threshold.holds(value)] == kept


@pytest.mark.parametrize(
    ("brackets", "selected"),
    [
        ("", True),
        ("[threads=10]", True),
        ("[threads=1]", False),
        ("[block_size=8KiB]", True),
        ("[block_size=8192, operation=read]", True),
        ("[block_size=4k]", False),
        ("[pattern=random]", True),
        ("[direct=false]", True),
        ("[theta=0.99]", True),
        ("[nothing=1]", False),
    ],
)
def test_selection(brackets: str, selected: bool) -> None:
    cell = Cell(
        key="k",
        target="trial",
        workload="w",
        kind="matrix",
        operation="read",
        block_size_bytes=8192,
        threads=10,
        factors={"pattern": "random", "direct": False, "theta": 0.99},
    )
    assert parse_threshold(f"w{brackets}.iops", "> 1").selects(cell) is selected
    assert not parse_threshold(f"v{brackets}.iops", "> 1").selects(cell)


def test_both_spellings_of_the_table_mean_the_same() -> None:
    body = '[[workload]]\nkind = "commit"\n[thresholds]\n'
    nested = study_of(body + 'commit.p99.9_ms = "< 5"').thresholds
    quoted = study_of(body + '"commit.p99.9_ms" = "< 5"').thresholds
    assert nested == quoted
    assert nested[0].quantity == "p99.9"


def test_a_threshold_that_selects_nothing_is_refused() -> None:
    body = '[[workload]]\nkind = "commit"\n[thresholds]\n'
    with pytest.raises(StudyError, match="Did you mean 'threads'"):
        plan_of(body + '"commit[thread=16].p99_ms" = "< 5"')
    with pytest.raises(StudyError, match="matches no test"):
        plan_of(body + '"commit[threads=17].p99_ms" = "< 5"')
    assert plan_of(body + '"commit[threads=16].p99_ms" = "< 5"').cells
