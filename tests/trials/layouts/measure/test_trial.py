"""A sample on an array that breaks of its own accord."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest

from seatrial.measure.progress import SilentWatcher
from seatrial.results.model import LayoutRecord
from seatrial.stats.model import is_broken
from seatrial.trials.layouts.build.backend import ArrayState
from seatrial.trials.layouts.measure.trial import Trial
from stats.builders import cell_of, sample_of


@pytest.mark.parametrize("missing", [0, 1])
def test_a_drive_that_fails_of_itself_makes_its_sample_one_of_a_failure(missing):
    """Else the figures of an array that lacks a drive would pass for those of a whole one."""
    states = [ArrayState(), ArrayState(missing=missing)]
    built = SimpleNamespace(
        spec=SimpleNamespace(legs=1, label="r", has_cache_device=False, nfs=False), paths=()
    )
    backend = SimpleNamespace(name="made", state=lambda _built, _leg: states.pop(0))
    array = SimpleNamespace(backend=backend, built=built, is_damaged=False)
    cell = cell_of()
    cell = msgspec.structs.replace(cell, spec={"target": {"direct": True}})
    record = LayoutRecord(layout={}, device="/dev/md200", built_s=1.0)
    trial = Trial(array, record, cell, journal=None, seed=1, watcher=SilentWatcher())

    def load(background):
        with background:
            return sample_of(cell)

    sample = trial.measure(load, {}, None)
    assert is_broken(sample) is bool(missing)
    assert array.is_damaged is bool(missing)
    assert [event.what for event in sample.layout.events] == ["failed"] * missing
