"""I/O cells: each is turned into one sample, with the readings of its surroundings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from seatrial.measure.background import Nothing
from seatrial.measure.driver import Occasion
from seatrial.measure.engine import measure_spec
from seatrial.measure.surroundings import Surroundings
from seatrial.results.model import Sample
from seatrial.study.cell import Cell


def measure_cell(cell: Cell, spec: Mapping[str, Any], occasion: Occasion) -> Sample:
    """Measure one cell once.

    Args:
        cell: What the sample is of.
        spec: The engine's whole specification (docs/engine.md), with paths, seed and duration.
        occasion: Round and position, who watches, and what goes on meanwhile.

    Returns:
        The sample, not stored yet; ``interrupted`` in its status if the user ended it.

    Raises:
        TargetError: when the target cannot be opened.
        EngineError: when the engine refuses or fails.
    """
    path = spec["target"].get("path")
    place = Path(path) if path else None
    with occasion.background or Nothing():
        surroundings = Surroundings(place)
        measured = measure_spec(spec, occasion.watcher, occasion.opened)
        grown = surroundings.grown()
    parts = measured.parts
    return msgspec.convert(
        {
            "cell": cell,
            "round": occasion.round_number,
            "position": occasion.position,
            "started_at": parts["started_unix_s"],
            "duration_s": parts["duration_s"],
            "status": "interrupted" if measured.interrupted else parts["status"],
            "engine": parts["engine"],
            "engine_reason": parts["engine_reason"],
            "outcome": parts["outcome"],
            "operations": parts["operations"],
            "timeline": parts["timeline"],
            "stalls": parts["stalls"],
            "stalls_dropped": parts["stalls_dropped"],
            "oldest_in_flight_ns": parts["oldest_in_flight_ns"],
            "errors_count": parts["errors_count"],
            "errors": parts["errors"],
            "counters": grown | parts["counters"],
            "verification": parts["verification"],
        },
        Sample,
        from_attributes=True,
    )
