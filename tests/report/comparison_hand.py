"""Comparisons made by hand: every answer, two fingerprints that differ, hostile names."""

from __future__ import annotations

from report.exports_hand import estimate, make_finding, make_run
from seatrial.stats.compare.model import Comparison, Difference, FigureComparison, Overall, Side
from seatrial.stats.model import Estimate
from seatrial.study.cell import FactorValue

SIZES_BYTES = [512 << power for power in range(0, 14)]
THREADS = (1, 10, 40)


def ratio(value: float, low: float | None, high: float | None, rounds: int = 5) -> Estimate:
    return Estimate(value=value, low=low, high=high, rounds=rounds, unit="ratio")


def make_comparand(
    figure: str = "iops",
    size_bytes: int = 4096,
    threads: int = 1,
    *,
    operation: str = "read",
    factor: float = 1.25,
    spread: float = 0.04,
    **changes,
) -> FigureComparison:
    """One figure of one cell: B is ``factor`` times A, within ``spread``."""
    identity: dict[str, FactorValue] = {
        "workload": "matrix",
        "operation": operation,
        "block_size_bytes": size_bytes,
        "threads": threads,
        "depth": 1,
        "pattern": "random",
    }
    unit = {"iops": "IOPS", "bandwidth": "B/s"}.get(figure, "ns")
    base = 60_000 * min(threads, 3) / (1 + size_bytes / 65_536)
    base = base if unit == "IOPS" else base * size_bytes if unit == "B/s" else 3e9 / base
    low, high = factor * (1 - spread), factor * (1 + spread)
    answer = "higher" if low > 1 else "lower" if high < 1 else "undecided"
    values = {
        "key": f"matrix/{operation}/{size_bytes}B/{threads}t/1d",
        "identity": identity,
        "figure": figure,
        "a": estimate((base, base * 0.98, base * 1.02), unit, 5),
        "b": estimate((base * factor, base * low, base * high), unit, 5),
        "ratio": ratio(factor, low, high),
        "p_value": 0.004,
        "p_adjusted": 0.02,
        "answer": answer,
    }
    return FigureComparison(**values | changes)


def matrix_comparands() -> list[FigureComparison]:
    """The article's matrix: B gains with small blocks, loses with large ones; every answer."""
    found = []
    for figure in ("iops", "bandwidth", "read p99", "write p99"):
        for operation in ("read", "write"):
            if figure.endswith("p99") and not figure.startswith(operation):
                continue
            for place, size_bytes in enumerate(SIZES_BYTES):
                for threads in THREADS:
                    factor = 1.32 - 0.04 * place
                    factor = 1 / factor if figure.endswith("p99") else factor
                    more: dict = {}
                    if place in (7, 8) and threads != 40:
                        more = {"factor": 1.002, "spread": 0.02,
                                "answer": "same", "within_share": 0.022}  # fmt: skip
                    elif threads == 40 and place in (7, 8, 9):
                        more = {"spread": 0.3, "rounds_more": 14}
                    found.append(
                        make_comparand(
                            figure, size_bytes, threads, operation=operation,
                            **{"factor": factor} | more,
                        )
                    )  # fmt: skip
    return found


def make_differences() -> list[Difference]:
    return [
        Difference(
            path="target.stack[sda].scheduler",
            words="I/O scheduler of sda",
            a="mq-deadline",
            b="none",
            weight="likely",
        ),
        Difference(
            path="target.stack[sda].firmware",
            words="firmware of sda",
            a="0.18R1H3",
            b=None,
            weight="likely",
        ),
        Difference(
            path="machine.memory_bytes",
            words="memory",
            a=64 << 30,
            b=32 << 30,
            weight="minor",
        ),
    ]


def make_comparison(comparands: list[FigureComparison] | None = None, **changes) -> Comparison:
    values = {
        "a": Side(name="before", run=make_run(label="before")),
        "b": Side(name="after", run=make_run(id="20261122-081500-77aa", label="after")),
        "differences": make_differences(),
        "comparands": [make_comparand()] if comparands is None else comparands,
        "overall": {"iops": ratio(1.12, 1.08, 1.17), "read p99": ratio(0.9, 0.84, 0.96)},
        "overall_answers": {
            "iops": Overall(cells=84, p_value=0.001, p_adjusted=0.004, answer="higher"),
            "read p99": Overall(cells=42, p_value=0.01, p_adjusted=0.02, answer="lower"),
        },
        "paired": True,
        "cells_count": 84,
        "only_a": [],
        "only_b": [],
        "noise_share": 0.021,
        "findings": [],
        "warnings": [],
        "verdict": "after does 1.12x the IOPS of before (1.08x to 1.17x) over all common cells.",
    }
    return Comparison(**values | changes)


def full_comparison(**changes) -> Comparison:
    """A whole matrix with findings, warnings and cells that one side lacks."""
    values = {
        "comparands": matrix_comparands(),
        "only_a": ["matrix/write/8192B/80t/1d"],
        "only_b": ["commit/commit/8192B/4t/1d/method=fdatasync"],
        "findings": [
            make_finding(
                kind="regressed",
                severity="warning",
                sentence="28 of 84 cells are slower, the worst by 20 %.",
                cause="The I/O scheduler of sda differs.",
                evidence={"ratio_min": 0.8},
                next="Measure again with the other scheduler: 'seatrial study ab.toml'.",
            )
        ],
        "warnings": ["The two were measured 25 h apart, so drift poses as an effect."],
    }
    return make_comparison(**values | changes)
