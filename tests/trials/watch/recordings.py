"""Recordings for tests, made of a few columns."""

from __future__ import annotations

from typing import Any

from seatrial.trials.watch.recording import RecordedDevice, Recording, RecordingMetadata

READ, WRITE, FLUSH, DISCARD = 0, 1, 2, 3


def recording(
    *, seconds: float = 10.0, processes: tuple[str, ...] = (), **columns: Any
) -> Recording:
    """A recording of one device; reads of 4 KiB at 0 unless columns say otherwise."""
    count = len(columns["arrived_ns"])
    about = RecordingMetadata(
        version=1,
        began_at_s=1.8e9,
        seconds=seconds,
        source="test",
        devices=(RecordedDevice(name="sda"), RecordedDevice(name="sdb")),
        processes=processes,
    )
    filling = {
        "operation": [READ] * count,
        "offset_bytes": [0] * count,
        "length_bytes": [4096] * count,
    }
    return Recording.of(about, **{**filling, **columns})
