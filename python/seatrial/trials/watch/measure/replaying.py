"""Sends the requests of a recording to a target."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.trials.io.measure.io import measure_cell
from seatrial.trials.watch.study.listing import listing_of
from seatrial.trials.watch.study.recorded import replay_of
from seatrial.trials.watch.study.workload import RECORDING

if TYPE_CHECKING:
    from seatrial.measure.engine import SampleContext
    from seatrial.results.model import Sample
    from seatrial.study.cell import Cell


def measure_recording(cell: Cell, spec: Mapping[str, Any], sample_context: SampleContext) -> Sample:
    """Send the requests of a recording once.

    Args:
        cell: A cell of the kind ``recording``.
        spec: Its specification with paths, seed and duration.
        sample_context: Round, position, watcher and background activity.

    Raises:
        SeatrialError: when the recording cannot be read any more.
        TargetError: when the target cannot be opened.
        EngineError: when the engine refuses or fails.
    """
    replay = replay_of(cell)
    records = listing_of(Path(replay.path), replay.rules).records
    with tempfile.TemporaryDirectory(prefix="seatrial-") as folder:
        path = Path(folder, "requests")
        path.write_bytes(records.tobytes())
        own = {key: value for key, value in spec.items() if key != RECORDING}
        return measure_cell(cell, {**own, "list": {"path": str(path)}}, sample_context)
