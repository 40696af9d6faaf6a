"""A cache device that is emptied before a sample."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from seatrial.trials.layouts.measure import cached
from seatrial.trials.layouts.measure.cached import CachedSample

SPEC = {
    "accesses": [{"sizes": [{"bytes": 4096}], "address": {"kind": "random"}, "operation": "read"}],
    "limit": {"duration_s": 60.0},
    "arrival": {"kind": "closed"},
    "threads": 1,
    "range": {"start_bytes": 0, "length_bytes": 1 << 30},
}


@pytest.mark.parametrize("finished", [0, 1])
def test_an_interrupt_while_it_is_emptied_ends_the_sample(monkeypatch, finished):
    """Else what was measured until then would pass for a whole measurement."""
    kind = SimpleNamespace(
        remove_steps=lambda _setup: [], add_steps=lambda _setup: [], granule_bytes=lambda _setup: 1
    )
    monkeypatch.setattr(cached, "cache_of", lambda _spec: kind)
    monkeypatch.setattr(cached, "cache_setup_of", lambda _built: SimpleNamespace(device=""))
    monkeypatch.setattr(cached, "device_size_bytes", lambda _device: 1 << 31)
    statuses = ["complete"] * finished + ["interrupted"]
    sample = CachedSample(SimpleNamespace(spec=None), None, None, 1)
    monkeypatch.setattr(sample, "_run", lambda _steps: None)
    with pytest.raises(KeyboardInterrupt):
        sample.make_cold(
            SPEC, lambda _spec: SimpleNamespace(status=statuses.pop(0), completed_per_s=1.0)
        )
    assert statuses == []
