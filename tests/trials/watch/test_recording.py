"""Recordings in memory: columns that fit each other, in the order of arrival."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest

from seatrial import _core
from seatrial.trials.watch.recording import (
    ADDRESS,
    COLUMN_TYPES,
    Losses,
    RecordedDevice,
    Recording,
    RecordingMetadata,
    read_about,
)

ABOUT = RecordingMetadata(
    version=1, began_at_s=1.8e9, seconds=1.0, source="test", devices=(RecordedDevice(name="sda"),)
)
THREE = {"operation": [0, 1, 2], "offset_bytes": [0, 4096, 0], "length_bytes": [512, 4096, 0]}


def test_columns_are_sorted_by_arrival_and_what_is_left_out_is_unknown():
    recording = Recording.of(ABOUT, arrived_ns=[30, 10, 20], device_ns=[3, 1, 2], **THREE)
    assert recording.requests == 3
    assert recording.arrived_ns.tolist() == [10, 20, 30]
    assert recording.device_ns.tolist() == [1, 2, 3]
    assert recording.operation.tolist() == [1, 2, 0]
    assert recording.queue_ns.tolist() == recording.relation.tolist() == [-1, -1, -1]
    assert recording.is_sync.tolist() == [-1, -1, -1]
    assert recording.device.tolist() == [0, 0, 0]
    assert not recording.failed.any()
    assert {name: getattr(recording, name).dtype for name in COLUMN_TYPES} == {
        name: np.dtype(kind) for name, kind in COLUMN_TYPES.items()
    }


def test_columns_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="device_ns has another length"):
        Recording.of(ABOUT, arrived_ns=[1, 2, 3], device_ns=[1], **THREE)
    with pytest.raises(TypeError, match="no column devices"):
        Recording.of(ABOUT, arrived_ns=[1, 2, 3], devices=[1, 1, 1], **THREE)
    sorted_ones = Recording.of(ABOUT, arrived_ns=[1, 2, 3], **THREE)
    columns = {name: getattr(sorted_ones, name) for name in COLUMN_TYPES}
    with pytest.raises(ValueError, match="sorted by arrival"):
        Recording(ABOUT, **{**columns, "arrived_ns": columns["arrived_ns"][::-1]})


def test_a_synthetic_address_is_known_by_its_former_name(tmp_path):
    knows = dict.fromkeys(
        ("arrival", "sync", "failures", "queue", "device", "process", "relations"), True
    )
    about = {"began_at_ns": 1, "source": "fio", "knows": knows, "made_up": ["time", "place"]}
    path = tmp_path / "old.rec"
    writer = _core.RecordingWriter(path, json.dumps(about), began_ns=0, rotate_bytes=1 << 20)
    writer.finish(1, msgspec.json.encode(Losses()).decode())
    assert read_about(path).made_up == ("time", ADDRESS)
