"""The bench of the observer: what its page says of made-up figures, and a short real run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import observe
import pytest
from results_page import RESULTS

from seatrial.errors import TargetError
from seatrial.postgres.binaries import find_binaries

ROOT = Path(__file__).resolve().parents[2]


def has_postgres() -> bool:
    try:
        return bool(find_binaries())
    except TargetError:
        return False


def page(observed_tps: float, observed_cpu_ns: float, rounds: int = 10) -> str:
    drift = [1.0, 2.0, 1.5, 0.7, 1.1] * (rounds // 5)

    def rows(alone: float, observed: float) -> dict[str, list[float]]:
        figures = {observe.ALONE: alone, observe.AGAIN: alone, observe.OBSERVED: observed}
        return {name: [figure * each for each in drift] for name, figure in figures.items()}

    return observe.section(
        observe.BenchResult(
            conditions=["- a machine"],
            tps=rows(1000, observed_tps),
            cpu_ns=rows(400_000, observed_cpu_ns),
            observer_shares=[0.01] * rounds,
            own_shares=[0.011] * rounds,
            around_ns=[28e6] * rounds,
            idle_share=0.004,
            seconds=4,
            seed=1,
            loads=[0.5] * rounds,
        )
    )


def test_a_cheap_observer_meets_its_bar_whatever_the_drift():
    text = page(observed_tps=990, observed_cpu_ns=402_000)
    assert (
        "| time per transaction, observed / alone | 1.02 | 1.010 (1.010 to 1.010) | met |" in text
    )
    assert "processor time per transaction, observed / alone | 1.02 | 1.005" in text
    own = (
        "| processor time, Seatrial / server and pgbench | 0.02 | 0.0110 (0.0110 to 0.0110) | met |"
    )
    assert own in text
    assert "| time per transaction, alone again / alone |  | 1.000 (1.000 to 1.000) |" in text


def test_what_no_transaction_waits_for_is_a_figure_of_its_own():
    text = page(observed_tps=990, observed_cpu_ns=402_000)
    assert (
        "- processor time of its begin and end, before and behind the load: 28 (28 to 28) ms"
        in text
    )


def test_a_dear_observer_misses_it():
    text = page(observed_tps=900, observed_cpu_ns=500_000)
    assert (
        "| time per transaction, observed / alone | 1.02 | 1.111 (1.111 to 1.111) | missed" in text
    )
    assert "observed / alone | 1.02 | 1.250 (1.250 to 1.250) | missed |" in text


@pytest.mark.slow
@pytest.mark.skipif(not has_postgres(), reason="needs PostgreSQL: apt-get install postgresql")
def test_a_quick_bench_runs_and_leaves_the_published_page_alone(tmp_path):
    published = RESULTS.read_bytes()
    command = [sys.executable, "bench/observe.py", "--quick", "--results", str(tmp_path / "R.md")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "| observed |" in (tmp_path / "R.md").read_text()
    assert RESULTS.read_bytes() == published
