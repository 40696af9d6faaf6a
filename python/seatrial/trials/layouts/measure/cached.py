"""A sample on an array with a cache device: cold start, prediction and counters."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from seatrial.errors import SeatrialError
from seatrial.machine.sysblock import device_size_bytes
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.recorder import INTERRUPTED
from seatrial.results.cache import CacheForecast, CacheRecord
from seatrial.results.model import Sample
from seatrial.study.cell import Cell, SpecDocument
from seatrial.trials.cache.analysis.layout_forecast import LayoutBaseline, forecast_of_layout
from seatrial.trials.cache.measure.arcstats import Sampler, series_of
from seatrial.trials.layouts.build.backend import Built, Step
from seatrial.trials.layouts.build.build import run_steps
from seatrial.trials.layouts.build.caching import (
    COUNTERS,
    GAUGES,
    INSERTED,
    CacheCounts,
    cache_of,
    cache_setup_of,
)

BASELINE_S: Final = 4.0
"""How long the load is measured without the cache device."""
CEILING_S: Final = 4.0
_LAST_SHARE: Final = 0.25
"""The last slices of the ceiling's sample, when the device has the blocks."""
_CEILING_BLOCKS: Final = 16
_CEILING_BYTES_MIN: Final = 512 << 10
NOTHING_PREDICTED: Final = (
    "Nothing was predicted: the load is not random reads of one size, or the device caches none."
)

Probe = Callable[[SpecDocument], Sample]
"""Measures the cell with another specification; the sample is not stored."""


class CachedSample:
    """The cache device of an array during one sample, as a context around its load.

    Args:
        built: The array.
        cell: The cell.
        journal: Records every change before it is made.
        seed: Seed of the addresses that simulated clients read.
    """

    def __init__(self, built: Built, cell: Cell, journal: UndoJournal, seed: int) -> None:
        kind = cache_of(built.spec)
        if kind is None:
            raise ValueError(f"{built.name} has no cache device")
        self._kind = kind
        self._setup = cache_setup_of(built)
        self._built = built
        self._cell = cell
        self._journal = journal
        self._seed = seed
        self._sampler = Sampler(self)
        self._cold: CacheCounts = {}
        self._ceiling_per_s = 0.0
        self._forecast: CacheForecast | None = None
        self._made_unix_s = 0.0
        self._notes: list[str] = []

    def read(self) -> CacheCounts:
        """Return the current counters.

        Raises:
            OSError: when they cannot be read.
        """
        try:
            found = self._kind.read(self._setup)
        except SeatrialError as error:
            raise OSError(str(error)) from error
        if self._built.spec.cold_cache and INSERTED in found and self._cold:
            # Open buckets count as filled: the inserted bytes are more accurate.
            inserted_bytes = found[INSERTED] - self._cold[INSERTED]
            found["fill_bytes"] = min(found.get("fill_bytes", 0.0), inserted_bytes)
        return found

    def make_cold(self, spec: Mapping[str, Any], probe: Probe) -> None:
        """Empty the cache, and predict how it will warm up.

        Raises:
            KeyboardInterrupt: when the user ended it.
            SeatrialError: when the device cannot be removed or added, or the load fails.
        """
        self._run(self._kind.remove_steps(self._setup))
        before = self._before(spec, probe)
        if before is None:
            self._run(self._kind.add_steps(self._setup))
        else:
            # With a few blocks, all in the cache, the path to the device is the only limit.
            self._run(self._kind.add_steps(self._setup))
            few = _whole(probe(_over_few(spec, self._block_bytes(spec))))
            self._ceiling_per_s = _last_per_s(few)
            self._run(self._kind.remove_steps(self._setup))
            self._run(self._kind.add_steps(self._setup))
            before = msgspec.structs.replace(
                before,
                cache_bytes=self._kind.capacity_bytes(self._setup),
                granule_bytes=self._kind.granule_bytes(self._setup),
                ceiling_per_s=self._ceiling_per_s,
            )
            self._forecast = forecast_of_layout(self._kind.name, before, 0.0, self._seed)
        self._made_unix_s = time.time()
        if self._forecast is None:
            self._notes.append(NOTHING_PREDICTED)

    def __enter__(self) -> CachedSample:
        self._cold = self.read()
        self._sampler.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._sampler.__exit__(*exception)

    def recorded(self, sample: Sample) -> Sample:
        """Return the sample with the device's counters and the prediction."""
        found = self.read()
        if totals := getattr(self._kind, "totals", None):
            found = found | totals(self._setup)
        series = series_of(
            self._sampler.readings,
            sample.started_at,
            sample.duration_s,
            counters=COUNTERS,
            gauges=GAUGES,
        )
        forecast = self._forecast and msgspec.structs.replace(
            self._forecast, made_at_s=self._made_unix_s - sample.started_at
        )
        spec = self._built.spec
        mode = "" if spec.cache == "dm-writecache" else f" {spec.cache_mode}"
        record = CacheRecord(
            zfs=f"{spec.cache}{mode}",
            working_set_bytes=int(self._cell.spec["range"]["length_bytes"]),
            arc_bytes=0,
            cache_bytes=self._kind.capacity_bytes(self._setup),
            added_at_s=0.0 if spec.cold_cache else None,
            cold=self._cold,
            ended=found,
            settings=self._kind.facts(self._setup),
            ceiling_per_s=self._ceiling_per_s,
            forecast=forecast or None,
            notes=self._notes,
        )
        return msgspec.structs.replace(sample, series=sample.series or series, cache=record)

    def _before(self, spec: Mapping[str, Any], probe: Probe) -> LayoutBaseline | None:
        """Return the measurement without the device; None for a load that is not predicted."""
        sizes = [size["bytes"] for access in spec["accesses"] for size in access["sizes"]]
        kinds = {access["address"]["kind"] for access in spec["accesses"]}
        operations = {access["operation"] for access in spec["accesses"]}
        length_s = spec["limit"].get("duration_s")
        is_plain = len(set(sizes)) == 1 and kinds == {"random"} and operations == {"read"}
        if not is_plain or not length_s or spec["arrival"]["kind"] != "closed":
            return None
        alone = _whole(probe({**spec, "limit": {**spec["limit"], "duration_s": BASELINE_S}}))
        return LayoutBaseline(
            threads=spec["threads"] * spec.get("depth", 1),
            record_bytes=sizes[0],
            granule_bytes=1,
            working_set_bytes=spec["range"]["length_bytes"],
            cache_bytes=0,
            array_bytes=device_size_bytes(self._setup.device),
            reads_per_s=alone.completed_per_s,
            ceiling_per_s=0.0,
            length_s=length_s,
        )

    def _block_bytes(self, spec: Mapping[str, Any]) -> int:
        size_bytes = int(spec["accesses"][0]["sizes"][0]["bytes"])
        return max(size_bytes, self._kind.granule_bytes(self._setup))

    def _run(self, steps: list[Step]) -> None:
        run_steps(self._built, steps, self._journal)


def _whole(sample: Sample) -> Sample:
    """Return a probe's sample.

    Raises:
        KeyboardInterrupt: when the user ended it.
    """
    if sample.status == INTERRUPTED:
        raise KeyboardInterrupt
    return sample


def _over_few(spec: Mapping[str, Any], block_bytes: int) -> SpecDocument:
    """Return the specification of a load on a few blocks."""
    few_bytes = max(_CEILING_BLOCKS * block_bytes, _CEILING_BYTES_MIN)
    length_bytes = min(spec["range"]["length_bytes"], few_bytes)
    return {
        **spec,
        "range": {**spec["range"], "length_bytes": length_bytes},
        "limit": {**spec["limit"], "duration_s": CEILING_S},
    }


def _last_per_s(sample: Sample) -> float:
    """Return the rate at the end of a sample."""
    slice_s = sample.timeline.slice_ns / 1e9
    whole = int(sample.duration_s / slice_s)
    counted = {each.index: each.completed for each in sample.timeline.slices if each.index < whole}
    last = range(int(whole * (1 - _LAST_SHARE)), whole)
    return sum(counted.get(index, 0) for index in last) / (max(1, len(last)) * slice_s)
