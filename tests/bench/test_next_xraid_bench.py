"""The bench of the article of 2008: what its page says of made-up replays."""

from __future__ import annotations

import copy

import msgspec
import next_xraid

from seatrial.findings.summary import summarise
from stats.builders import run_of
from trials.database.analysis.hand import MACHINE
from trials.replay.analysis.hand import Play, rounds_of

CACHES = (128 << 20, 192 << 20, 256 << 20, 384 << 20)


def samples(target: str, schema: str, cache_bytes: int, per_s: float):
    """Three rounds of a replay with so large a cache."""
    factors = {"schema": schema, "memory_limit_bytes": cache_bytes}
    play = Play(target=target, factors=factors, capacity_per_s=per_s, alone=False)
    for sample in rounds_of(play):
        spec = copy.deepcopy(sample.cell.spec)
        spec.setdefault("database", {}).setdefault("replay", {})["schema"] = schema
        database = msgspec.structs.replace(sample.database, database_bytes=2 << 30)
        cell = msgspec.structs.replace(sample.cell, spec=spec)
        yield msgspec.structs.replace(sample, cell=cell, database=database)


def test_the_page_has_rates_ratios_predictions_and_what_did_not_fit():
    made = [
        sample
        for target, faster in (("disk", 1.0), ("ssd", 5.0))
        for schema, better in (("old", 1.0), ("new", 1.3))
        for cache_bytes in CACHES
        for sample in samples(
            target, schema, cache_bytes, 200 * faster * better * (cache_bytes / CACHES[0]) ** 0.5
        )
    ]
    text = next_xraid.page(summarise(run_of(before=MACHINE), made), rounds=3)
    assert "11,760 statements" in text or "12,000 statements" in text
    assert f"{next_xraid.REQUESTS_PER_S:,} requests" in text
    for schema in ("old", "new"):
        for size in ("128 MiB", "192 MiB", "256 MiB", "384 MiB"):
            assert f"| {schema}, {size} | 5" in text
        assert f"disk, schema {schema}: A cache of 768 MiB, twice the largest, would give" in text
    assert "| disk, schema old | 768 MiB |" in text
    assert "schema new: 0 of" in text
    assert "all samples of a schema began alike" in text
