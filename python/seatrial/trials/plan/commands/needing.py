"""What a user names as a load: a recording, a run, or typed figures."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from seatrial.cli.files import is_trace
from seatrial.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from seatrial.results.model import Run, Sample
    from seatrial.trials.plan.analysis.demand import Demand

_TYPED: Final = re.compile(r"([a-z_]+)=([^,]+)(?:,|$)")
_FIELDS: Final = ("reads", "writes", "size")
_SERIES: Final = (
    "device_read_per_s",
    "device_write_per_s",
    "device_read_bytes_per_s",
    "device_write_bytes_per_s",
)
NS_PER_S: Final = 1e9


def is_typed(text: str) -> bool:
    """Return whether a load is typed, such as ``reads=3000,writes=500,size=8KiB``."""
    return bool(_TYPED.match(text)) and not Path(text).exists()


def typed_demand(text: str) -> Demand:
    """Return a load that was typed.

    Raises:
        UsageError: when a figure is missing, unknown or no figure.
    """
    from seatrial.study.units import parse_size_bytes  # noqa: PLC0415 - not for --help
    from seatrial.trials.plan.analysis.demand import constant_demand  # noqa: PLC0415 - likewise

    found = dict(_TYPED.findall(text))
    unknown = [name for name in found if name not in _FIELDS]
    missing = [name for name in _FIELDS if name not in found]
    if unknown or missing:
        wrong = f"{unknown[0]} is no figure of a load" if unknown else f"it has no {missing[0]}"
        raise UsageError(
            seen=f"{text!r} is no load: {wrong}",
            cause="A load has reads and writes per second, and their size",
            next_step="Such as reads=3000,writes=500,size=8KiB",
        )
    try:
        reads, writes = (_rate_per_s(found[name]) for name in ("reads", "writes"))
        size = parse_size_bytes(found["size"])
    except ValueError as error:
        raise UsageError(
            seen=f"{text!r} is no load: {error}",
            cause="A figure is not a number, or not above 0",
            next_step="Such as reads=3000,writes=500,size=8KiB",
        ) from None
    return constant_demand("typed", reads, writes, size)


def _rate_per_s(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(f"{text} is not a rate")
    return value


def demand_of(reference: str, results: Path) -> Demand:
    """Return the load that a user names.

    Args:
        reference: A recording, a run, or typed figures.
        results: The results file that runs are sought in.

    Raises:
        UsageError: when it is none of these, or has no reads and writes.
    """
    from seatrial.cli.sources import load_source  # noqa: PLC0415 - not for --help
    from seatrial.trials.plan.analysis.demand import demand_of_recording  # noqa: PLC0415
    from seatrial.trials.watch.recording import read  # noqa: PLC0415 - likewise

    if is_typed(reference):
        return typed_demand(reference)
    if is_trace(Path(reference)):
        return demand_of_recording(read(Path(reference)), reference)
    source = load_source(reference, results)
    return demand_of_samples(source.run, source.samples)


def demand_of_samples(run: Run, samples: Sequence[Sample]) -> Demand:
    """Return the load of a run: what its disks did, or else its own reads and writes.

    Of several tests, the one that asks most of the storage counts.

    Raises:
        UsageError: when no sample has any.
    """
    found = [each for each in map(_of_sample, samples) if each is not None]
    if not found:
        raise UsageError(
            seen=f"The run {run.id} has no reads and writes of a disk",
            cause="Nothing of it says what it asked of storage over time",
            next_step="Record the load: `seatrial watch --record FILE`",
        )
    return max(found, key=lambda demand: float(demand.bytes_per_s.max()))


def _of_sample(sample: Sample) -> Demand | None:
    from seatrial.trials.plan.analysis.demand import Demand  # noqa: PLC0415 - not for --help

    origin = f"measured, run {sample.run_id}, {sample.cell.target}, {sample.cell.workload}"
    columns = _series_of(sample) or _timeline_of(sample)
    if columns is None or not columns[0][:2].sum():
        return None
    values, slot_s = columns
    return Demand(
        origin=origin,
        slot_s=slot_s,
        reads_per_s=values[0],
        writes_per_s=values[1],
        read_bytes_per_s=values[2],
        write_bytes_per_s=values[3],
    )


def _timeline_of(sample: Sample) -> tuple[NDArray[np.float64], float] | None:
    """Return what was read and written by slice; None where nothing was."""
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    slice_s = sample.timeline.slice_ns / NS_PER_S
    slots = max((each.index for each in sample.timeline.slices), default=-1) + 1
    if slots <= 0 or not {"read", "write"} & set(sample.operations):
        return None
    found = np.zeros((4, slots))
    for each in sample.timeline.slices:
        if each.operation in ("read", "write"):
            row = 0 if each.operation == "read" else 1
            found[row, each.index] += each.completed / slice_s
            found[row + 2, each.index] += each.transferred_bytes / slice_s
    return found, slice_s


def _series_of(sample: Sample) -> tuple[NDArray[np.float64], float] | None:
    """Return what the disks did by reading; None where that was not read."""
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    series = sample.series
    if series is None or not all(name in series.columns for name in _SERIES):
        return None
    values = np.nan_to_num(
        np.array([[each or 0.0 for each in series.columns[name]] for name in _SERIES], dtype=float)
    )
    return (values, series.period_s) if values.size else None
