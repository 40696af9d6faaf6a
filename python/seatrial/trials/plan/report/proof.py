"""The study that would prove a plan: the chosen storage at the need's rate and objective."""

from __future__ import annotations

from typing import Final

from seatrial.catalogue.units import HOURS_PER_MONTH
from seatrial.trials.plan.analysis.answer import StoragePlan
from seatrial.trials.plan.report.risk_text import years_phrase

BUDGET_S: Final = 600
FILL_BYTES: Final = 8 << 30
BLOCK_BYTES_MIN: Final = 4096
_PERCENTILES: Final = ("p50", "p90", "p99", "p99.9")
RENTED_H_MIN: Final = 1.0
"""Hours billed at least, with time for set-up."""


def study_text(plan: StoragePlan, reads_share: float, size_bytes: float) -> str:
    """Return the study as TOML; behind a cache, for the requests that it does not serve.

    Args:
        plan: A plan with a choice.
        reads_share: Share of reads in the need's requests.
        size_bytes: Mean size of the need's requests.
    """
    first = plan.choices[0]
    objective = plan.objective
    percentile = objective.percentile if objective else "p99"
    limit_ms = objective.limit_ms if objective else 10.0
    left = 1 - reads_share * (1 - first.disk_share)
    reads_share = reads_share * first.disk_share / left if left else 0.0
    busiest_per_s = plan.busiest_per_s * left
    mixed = 0.02 < reads_share < 0.98
    operation = "mixed" if mixed else "read" if reads_share >= 0.98 else "write"
    share = f"read_share = {reads_share:.2f}\n" if mixed else ""
    bad_day_per_s = busiest_per_s * plan.other_day.high * (1 + plan.growth.mid) ** plan.years
    unproved = (
        "# Its writes are not synced, so it does not prove the objective of commits. To measure\n"
        "# commits, add a workload of kind 'commit'.\n"
        if objective and objective.operation == "commit"
        else ""
    )
    return (
        f"# Proves a plan: {first.name} has to sustain {busiest_per_s:,.0f} requests per\n"
        f"# second, and {bad_day_per_s:,.0f} on a bad day after {years_phrase(plan.years)}.\n"
        f"{unproved}"
        "\n"
        'name = "plan-proof"\n'
        "\n"
        "[[target]]\n"
        'label = "trial"\n'
        f"size = {FILL_BYTES}\n"
        "\n"
        "[[workload]]\n"
        'kind = "fill"\n'
        "once = true\n"
        "\n"
        "[[workload]]\n"
        'kind = "loadline"\n'
        f'operations = "{operation}"\n'
        f"{share}"
        f"block_sizes = {block_bytes(size_bytes)}\n"
        f'percentile = "{percentile if percentile in _PERCENTILES else "p99"}"\n'
        f'limit = "{limit_ms:g}ms"\n'
        f"budget_seconds = {BUDGET_S}\n"
        "\n"
        "[thresholds]\n"
        f'"loadline.sustained_per_s" = "> {busiest_per_s:.0f}"\n'
    )


def block_bytes(size_bytes: float) -> int:
    """Return the power of two that is nearest to a mean size, from 4 KiB on."""
    power = BLOCK_BYTES_MIN
    while power * 1.41 < size_bytes and power < 1 << 20:
        power *= 2
    return power


def proof_sentence(plan: StoragePlan, study_path: str = "") -> str:
    """Return the cost of the proof in minutes and money, and its command.

    Args:
        plan: The plan.
        study_path: The study file of the proof; empty where none was written.
    """
    first = plan.choices[0]
    minutes = BUDGET_S // 60 + 5
    money = first.month.mid / HOURS_PER_MONTH * RENTED_H_MIN
    cost = (
        f"; renting {first.name} for an hour costs about {money:,.2f} {first.month.currency}"
        if first.kind != "own"
        else " on drives that you own or borrow"
    )
    how = f"`seatrial study {study_path or 'proof.toml'} --target DIR`"
    if not study_path:
        how = f"add `--study proof.toml` to the command, then {how}"
    of_commits = plan.objective is not None and plan.objective.operation == "commit"
    left = " Its writes are not synced: it does not prove commits." if of_commits else ""
    return f"The proof takes about {minutes} minutes{cost}: {how}.{left}"
