"""What all columns of the CSV share: the type of a field, and an estimate as three of them."""

from __future__ import annotations

from seatrial.stats.model import Estimate

Field = str | int | float | bool | None


def interval_columns(name: str, estimate: Estimate) -> dict[str, Field]:
    """Return a figure and its ends in columns of their own.

    Of rounds that scatter the ends are the range, which one more column says: ``<name>_over``.
    """
    shown = estimate.shown
    columns: dict[str, Field] = {
        name: shown.value,
        f"{name}_low": shown.low,
        f"{name}_high": shown.high,
    }
    return columns | ({f"{name}_over": shown.over} if shown.over == "range" else {})
