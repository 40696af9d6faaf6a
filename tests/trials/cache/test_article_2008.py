"""The article of 2008, recalculated: each figure against the published one, misses included."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trials.cache.article_2008 import (
    PublishedRow,
    RecalculatedRow,
    recalculated,
    served_by_ssd_share,
)
from trials.cache.warming_model import WarmingModel

ROOT = Path(__file__).parents[3]


def published() -> list[PublishedRow]:
    with (ROOT / "reference/l2arc-2008.csv").open(encoding="utf-8") as file:
        rows = [{**row, "direct_io": row["direct_io"] == "yes"} for row in csv.DictReader(file)]
    return [msgspec.convert(row, PublishedRow, strict=False) for row in rows]


def error(figure: float | None, of: float) -> str:
    if figure is None:
        return "\N{EN DASH}"
    return f"{figure:,.1f} ({figure / of - 1:+.1%})".replace("%", " %")


def line(row: RecalculatedRow) -> str:
    own = row.published
    clients = "direct" if own.direct_io else "cached"
    cells = [
        f"{own.record_size_kib} KiB, {own.layout}, {clients}",
        f"{own.without_ssd_mb_s:g}",
        error(row.without_ssd_mb_s, own.without_ssd_mb_s),
        f"{own.with_ssd_mb_s:g}",
        error(row.with_ssd_mb_s, own.with_ssd_mb_s),
        f"{own.warmup_hours:g}",
        f"{row.warmup_hours:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def test_the_documentation_has_the_recalculated_table():
    text = (ROOT / "docs/cache.md").read_text(encoding="utf-8")
    missing = [each for row in recalculated(published()) if (each := line(row)) not in text]
    assert not missing, "\n".join(missing)
    assert f"{served_by_ssd_share():.1%}".replace("%", " %") in text


def test_what_fits_and_what_does_not():
    striped, raid_z_8, raid_z_32, cached = recalculated(published())
    assert raid_z_8.without_ssd_mb_s == pytest.approx(7.4, rel=0.03)
    assert raid_z_8.with_ssd_mb_s == pytest.approx(41.3, rel=0.02)
    assert raid_z_32.with_ssd_mb_s == pytest.approx(282.4, rel=0.02)
    # The row that does not fit: four times the record at nearly twice the rate of records.
    assert raid_z_32.without_ssd_mb_s == pytest.approx(51.4 * 0.59, rel=0.01)
    # Published in whole hours.
    for row in (raid_z_8, raid_z_32, cached):
        assert abs(row.warmup_hours - row.published.warmup_hours) <= 0.5
    assert striped.warmup_hours == pytest.approx(3.2, abs=0.05)
    assert served_by_ssd_share() == pytest.approx(0.547, abs=0.02)


def test_rows_of_another_article_are_refused():
    with pytest.raises(ValueError, match="one striped row"):
        recalculated(published()[1:])


LAWS = st.builds(
    WarmingModel,
    working_set_bytes=st.floats(1e6, 1e13),
    storage_bytes_per_s=st.floats(1e5, 1e8),
    path_bytes_per_s=st.floats(1e8, 1e10),
    feed_bytes_per_s=st.floats(1e5, 1e9),
)


@given(LAWS, st.floats(1e-4, 0.5))
def test_the_law_is_the_solution_of_its_equation(model: WarmingModel, cold_share: float):
    """dC/dt = min(F, X (1 - c)), in small steps of the cold share."""
    steps = 4000
    seconds = 0.0
    for step in range(steps):
        high = cold_share ** (step / steps)
        low = cold_share ** ((step + 1) / steps)
        cold = math.sqrt(high * low)
        rate = min(model.feed_bytes_per_s, model.bytes_per_s(1 - cold) * cold)
        seconds += model.working_set_bytes * (high - low) / rate
    assert model.warm_s(cold_share) == pytest.approx(seconds, rel=0.01)


@given(LAWS, st.floats(0, 1), st.floats(0, 1))
def test_more_on_the_device_never_gives_less(model: WarmingModel, one: float, other: float):
    low, high = sorted((one, other))
    assert model.bytes_per_s(low) <= model.bytes_per_s(high) <= model.path_bytes_per_s
