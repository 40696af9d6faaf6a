"""What a plan tells the engine, the engine takes: every kind of workload, on small targets."""

from __future__ import annotations

import copy
import json
import os
import time
from pathlib import Path

import pytest

from seatrial.study.cell import Cell
from seatrial.study.model import Plan
from seatrial.study.plan import order
from seatrial.study.schema import DeviceModel
from study.builders import plan_of

core = pytest.importorskip("seatrial._core", reason="the engine is not built; run 'make setup'")

TARGETS = {
    "file": '[[target]]\nsize = "2MiB"\n',
    "null": '[[target]]\nkind = "null"\nsize = "2MiB"\n',
    "simulated": '[[target]]\nkind = "simulated"\nsize = "2MiB"\nmodel = { channels = 4 }\n',
}
CAN_SYNC = {"file", "simulated"}
EVERYTHING = """
[[workload]]
kind = "fill"
block_sizes = "64k"
direct = false
[[workload]]
name = "at-random"
kind = "fill"
block_sizes = "8k"
pattern = "one_pass"
direct = false
[[workload]]
kind = "matrix"
block_sizes = ["4k", "64k"]
threads = [1, 3]
seconds = 0.004
direct = false
[[workload]]
kind = "sequential"
block_sizes = ["8k"]
seconds = 0.004
direct = false
[[workload]]
kind = "copy"
seconds = 0.004
direct = false
[[workload]]
kind = "map"
zones = 3
rate_block = "64k"
seconds = 0.004
direct = false
[[workload]]
kind = "commit"
log_size = "256k"
committers = [1, 2]
seconds = 0.004
[[workload]]
kind = "four"
seconds = 0.004
direct = false
[[workload]]
kind = "mix"
accesses = ["database", "file-server", "web-server", "workstation"]
seconds = 0.004
direct = false
[[workload]]
kind = "io"
operations = ["read", "write", "mixed"]
depths = [1, 4]
pattern = ["random", "sequential", "strided", "zipf", "hot_cold"]
stride = "16k"
range_start = "64k"
range_length = "1MiB"
seconds = 0.004
direct = false
[[workload]]
name = "driven"
kind = "io"
operations = "write"
arrival = ["fixed", "poisson", "bursts", "batches"]
rate = 2000
burst = 4
data = ["random", "compressible", "verifiable"]
sync_every = [0, 8]
seconds = 0.004
direct = false
"""


def measured(cell: Cell, folder: Path) -> dict[str, object]:
    """What the engine gives back for a cell whose files lie in a folder."""
    spec = copy.deepcopy(cell.spec)
    target = spec["target"]
    target["path"] = str(folder / target.pop("file"))
    if target["copy_to"] is not None:
        target["copy_to"] = str(folder / target["copy_to"])
    running = core.start(json.dumps(spec))
    deadline_s = time.monotonic() + 20
    while not running.wait(0.2):
        assert time.monotonic() < deadline_s, f"{cell.key} never ended"
    result: dict[str, object] = running.result()
    return result


def prepare(plan: Plan, folder: Path) -> None:
    """Make and fill the files as the measuring room does."""
    for file in plan.files:
        (folder / file.name).touch()
        if file.prefill:
            (folder / file.name).write_bytes(b"\x5a" * file.size_bytes)


@pytest.mark.parametrize("kind", sorted(TARGETS))
def test_every_cell_is_taken_and_keeps_its_limit(kind: str, tmp_path: Path) -> None:
    body = TARGETS[kind] + EVERYTHING
    if kind != "file":  # keeps no data
        body = body.replace(', "verifiable"]', "]")
    plan = plan_of(body)
    prepare(plan, tmp_path)
    completed = 0  # of all cells: on a busy machine one may end before its threads have begun
    for cell in order(plan, 0, [cell.key for cell in plan.cells]):
        if kind not in CAN_SYNC and (cell.kind == "commit" or cell.spec["sync_every"]):
            continue
        result = measured(cell, tmp_path)
        outcome = result["outcome"]
        assert outcome["failed"] == 0, (cell.key, result["errors"])
        completed += outcome["completed"]
        limit_bytes = cell.spec["limit"]["bytes"]
        moved_bytes = sum(part["transferred_bytes"] for part in result["operations"].values())
        assert limit_bytes is None or moved_bytes <= limit_bytes, cell.key
    assert completed > len(plan.cells)
    if kind == "file":
        sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
        assert sizes == {file.name: file.size_bytes for file in plan.files}


def test_a_fill_leaves_no_holes(tmp_path: Path) -> None:
    plan = plan_of('[[target]]\nsize = "2MiB"\n[[workload]]\nkind = "fill"\ndirect = false')
    measured(plan.cells[0], tmp_path)
    data = (tmp_path / "trial.dat").read_bytes()
    assert len(data) == 2 << 20
    assert all(any(data[at : at + 512]) for at in range(0, len(data), 512))


@pytest.mark.parametrize("threads", [1, 4])
def test_a_one_pass_fill_leaves_no_holes_and_stops(threads: int, tmp_path: Path) -> None:
    plan = plan_of(
        '[[target]]\nsize = "8MiB"\n[[workload]]\nkind = "fill"\nblock_sizes = "4k"\n'
        f'pattern = "one_pass"\nthreads = {threads}\ndepths = 3\ndirect = false'
    )
    (cell,) = plan.cells
    place = tmp_path / "trial.dat"
    place.touch()
    os.truncate(place, 8 << 20)
    result = measured(cell, tmp_path)
    assert result["status"] == "complete"
    assert result["operations"]["write"]["transferred_bytes"] == cell.spec["limit"]["bytes"]
    data = place.read_bytes()
    assert len(data) == 8 << 20
    assert all(any(data[at : at + 512]) for at in range(0, len(data), 512))


WHOLE_MODEL = """
[[target]]
kind = "simulated"
size = "2MiB"
[target.model]
channels = 2
read = { base_us = 50, per_kib_us = 1 }
write = { base_us = 60 }
sync_us = 70
noise_share = 0.5
write_cache = { size_bytes = 65536, hit_us = 5, drain_bytes_per_s = 1e6 }
burst = { credit_operations = 10, refill_per_s = 100 }
freezes = [{ start_s = 0.001, length_s = 0.001 }]
generator_pauses = [{ start_s = 0.002, length_s = 0.001 }]
gaps = [{ from_bytes = 4096, to_bytes = 8192, slowdown_factor = 2 }]
error_share = 0.5
errno = 28
vanishes_at_s = 0.05
lasting = true
ftl = { over_provisioning_share = 0.28, pages_per_block = 16, program_us = 30 }
[[workload]]
kind = "io"
seconds = 0.1
"""


def test_the_engine_knows_every_key_of_a_model(tmp_path: Path) -> None:
    (cell,) = plan_of(WHOLE_MODEL).cells
    assert set(cell.spec["target"]["model"]) == set(DeviceModel.__struct_encode_fields__)
    names = {error["name"] for error in measured(cell, tmp_path)["errors"]}
    assert "ENOSPC" in names
