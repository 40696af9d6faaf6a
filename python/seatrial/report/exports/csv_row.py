"""What all columns of the CSV share: the type of a field, and an estimate as three of them."""

from __future__ import annotations

from seatrial.analysis.model import Estimate

Field = str | int | float | bool | None


def interval_columns(name: str, estimate: Estimate) -> dict[str, Field]:
    """Return a figure and the ends of its interval, by the name of their columns."""
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
