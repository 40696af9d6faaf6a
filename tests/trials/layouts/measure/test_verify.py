"""All data read in the end: what is wrong is known to 4 KiB, and counted once."""

from __future__ import annotations

import random

import pytest

from seatrial.measure.engine import EngineResult, measure_spec
from seatrial.measure.progress import SilentWatcher
from seatrial.trials.layouts.measure import verify
from seatrial.trials.layouts.measure.verify import check_all
from seatrial.units import GIB

SIZE_BYTES = 8 << 20
BLOCK_BYTES = 4096


@pytest.mark.parametrize("ledger_block_bytes", [4096, 8192, 65_536])
def test_each_wrong_block_is_counted_once_whatever_the_load_wrote_at_a_time(
    tmp_path, ledger_block_bytes
):
    """Reads of a part of what was written at once must leave nothing out and take nothing twice."""
    path = tmp_path / "trial.dat"
    spec = {
        "seed": 5,
        "target": {"kind": "file", "path": str(path), "size_bytes": SIZE_BYTES, "direct": False,
                   "create": True},
        "data": {"kind": "verifiable"},
        "ledger_path": str(tmp_path / "ledger"),
        "ledger_block_bytes": ledger_block_bytes,
    }  # fmt: skip
    access = {
        "operation": "write",
        "sizes": [{"bytes": ledger_block_bytes, "weight": 1}],
        "align_bytes": ledger_block_bytes,
        "address": {"kind": "sequential"},
    }
    filling = {
        "range": {"start_bytes": 0, "length_bytes": SIZE_BYTES},
        "accesses": [access],
        "threads": 1,
        "depth": 1,
        "limit": {"duration_s": 60, "bytes": SIZE_BYTES},
    }
    measure_spec(spec | filling, SilentWatcher())
    whole = check_all(spec, SilentWatcher())
    assert (whole.checked_bytes, whole.wrong_bytes, whole.unreadable_bytes) == (SIZE_BYTES, 0, 0)
    wrong = random.Random(3).sample(range(SIZE_BYTES // BLOCK_BYTES), 40)
    with path.open("r+b") as file:
        for block in wrong:
            file.seek(block * BLOCK_BYTES)
            content = file.read(BLOCK_BYTES)
            file.seek(block * BLOCK_BYTES)
            file.write(bytes(byte ^ 0xFF for byte in content))
    for is_lost in (False, True):
        found = check_all(spec, SilentWatcher(), is_lost=is_lost)
        assert found.checked_bytes == SIZE_BYTES
        assert found.wrong_bytes == 40 * BLOCK_BYTES
        assert found.verification.corrupt_blocks == 40
        assert found.unreadable_bytes == 0


def test_what_is_behind_a_gap_of_a_lost_array_is_read(monkeypatch):
    """The engine gives up after 1,000 errors in a row: here it meets 1,536 in 1.5 GiB."""
    size_bytes, gap_bytes = 3 * GIB + BLOCK_BYTES, 3 * GIB // 2

    def measured(reading, _watcher):
        block_bytes = reading["accesses"][0]["sizes"][0]["bytes"]
        start_bytes, length_bytes = reading["range"].values()
        read_bytes = failed = 0
        for at_bytes in range(start_bytes, start_bytes + length_bytes, block_bytes):
            failed = failed + 1 if at_bytes < gap_bytes else 0
            read_bytes += 0 if failed else block_bytes
            if failed == 1000:
                break
        checked = {"checked_blocks": read_bytes // block_bytes, "corrupt_blocks": 0}
        parts = {
            "operations": {"read": {"transferred_bytes": read_bytes}},
            "verification": checked | {"corruptions": []},
        }
        return EngineResult(parts=parts, interrupted=False)

    monkeypatch.setattr(verify, "measure_spec", measured)
    target = {"path": "/none", "size_bytes": size_bytes, "direct": True}
    spec = {"seed": 1, "target": target, "data": {}, "ledger_path": "", "ledger_block_bytes": 4096}
    found = check_all(spec, SilentWatcher(), is_lost=True)
    assert (found.checked_bytes, found.unreadable_bytes) == (size_bytes - gap_bytes, gap_bytes)
