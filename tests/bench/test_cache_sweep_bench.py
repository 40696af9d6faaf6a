"""The bench of sweeps: what its page says of made-up ones, and that its loads are what they say."""

from __future__ import annotations

from pathlib import Path

import cache_sweep


def document(verb: str, error_share: float) -> dict[str, object]:
    check = {
        "buffers_bytes": 32 << 20,
        "predicted_hit_share": 0.91,
        "measured_hit_share": 0.9,
        "hit_error_points": 1.0,
        "predicted_reads_per_operation": 1.25,
        "measured_reads_per_operation": 1.2,
        "predicted_per_s": 440.0,
        "predicted_low": 430.0,
        "predicted_high": 450.0,
        "measured_per_s": 400.0,
        "measured_low": None,
        "measured_high": None,
        "rate_error_share": error_share,
    }
    return {
        "notable": [f"Measured, 32 MiB {verb}: hit ratio 90 %"],
        "sweep": {"data_bytes": 167_000_000, "checks": [check]},
    }


def test_the_page_has_a_row_for_each_check_and_counts_those_within_bounds():
    found = [("tpcb", document("agrees", 0.1)), ("shop", document("is off", 0.3))]
    text = cache_sweep.page(found)
    assert "Within 2 points and 15 %: 1 of 2." in text
    row = "| tpcb, 32 MiB | 167 | 91.00 % | 90.00 % | +1.00 | 1.250 | 1.200 |"
    assert f"{row} 440 (430 to 450) | 400 | +10.0 % |" in text
    assert "+30.0 %" in text


def test_popular_accounts_are_the_same_in_both_halves(tmp_path: Path):
    options = cache_sweep.load_of("select", tmp_path)
    script = Path(str(options[1])).read_text()
    # Without a seed of its own, permute takes that of the run, which differs between the halves.
    assert "permute(random_zipfian(1, :rows, 1.07) - 1, :rows, 42)" in script
    assert script.splitlines()[0] == r"\set rows 100000 * :scale"
