"""Written data is as requested, and only known data is verified."""

from __future__ import annotations

import os
import random
import signal
import time
import zlib
from pathlib import Path

import pytest

from seatrial.units import MIB

from .cells import access, cell, measure, outcome_of, require_uring, start_apart

BLOCK_BYTES = 8192


def kept_share(blocks: list[bytes]) -> float:
    """Return what a compressor leaves of blocks, each for itself."""
    return sum(len(zlib.compress(block, 1)) for block in blocks) / (len(blocks) * BLOCK_BYTES)


@pytest.mark.parametrize("engine", ["psync", "io_uring"])
def test_what_was_read_is_never_written(tmp_path, engine):
    """Zeros lie on the target; random data must not become zeros by reading some first."""
    if engine == "io_uring":
        require_uring()
    path = tmp_path / "zeros.dat"
    path.write_bytes(bytes(4 * MIB))
    accesses = [access("read", BLOCK_BYTES, 3), access("write", BLOCK_BYTES, 1)]
    spec = cell(path, accesses, engine=engine, depth=8, threads=1)
    measure(spec | {"limit": {"duration_s": 10, "operations": 2_000}})
    content = path.read_bytes()
    blocks = [content[at : at + BLOCK_BYTES] for at in range(0, len(content), BLOCK_BYTES)]
    written = [block for block in blocks if any(block)]
    assert len(written) > 200
    assert kept_share(written) > 0.99


def verifiable(path: Path, ledger: Path, operation: str, **others: object) -> dict[str, object]:
    data = {"data": {"kind": "verifiable"}, "ledger_path": str(ledger), "ledger_block_bytes": 4096}
    return cell(path, [access(operation)], verify=operation == "read", **data, **others)


def test_a_flipped_bit_is_found_and_a_whole_file_is_not_accused(tmp_path):
    path, ledger = tmp_path / "trial.dat", tmp_path / "trial.ledger"
    path.write_bytes(bytes(MIB))
    measure(verifiable(path, ledger, "write", sync_every=100))
    read = verifiable(path, ledger, "read")
    found = measure(read)["verification"]
    assert (found["checked_blocks"] > 256, found["corrupt_blocks"]) == (True, 0)
    content = bytearray(path.read_bytes())
    content[random.Random(3).randrange(len(content))] ^= 4
    path.write_bytes(content)
    found = measure(read)["verification"]
    assert found["corrupt_blocks"] > 0


def test_a_run_that_was_killed_leaves_no_false_evidence(tmp_path):
    """The ledger of before would take all that was written meanwhile for corrupt."""
    path, ledger = tmp_path / "trial.dat", tmp_path / "trial.ledger"
    path.write_bytes(bytes(MIB))
    measure(verifiable(path, ledger, "write"))
    assert ledger.exists()
    process = start_apart(verifiable(path, ledger, "write", limit={"duration_s": 30}))
    assert process.stderr is not None
    assert process.stderr.readline() == "started\n"
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    found = measure(verifiable(path, ledger, "read"))["verification"]
    assert found["corrupt_blocks"] == 0
    assert found["checked_blocks"] == 0, "nothing is known, so nothing was checked"


def test_the_null_target_keeps_no_data_that_could_be_corrupt(tmp_path):
    path = tmp_path / "trial.dat"
    path.write_bytes(bytes(MIB))
    accesses = [access("write"), access("read")]
    data = {"data": {"kind": "verifiable"}, "verify": True, "target": {"kind": "null"}}
    assert measure(cell(path, accesses, **data))["verification"] is None


def test_a_stopped_cell_saves_its_ledger(tmp_path):
    path, ledger = tmp_path / "trial.dat", tmp_path / "trial.ledger"
    path.write_bytes(bytes(MIB))
    spec = verifiable(path, ledger, "write", limit={"duration_s": 30})
    parts = outcome_of(start_apart(spec, {"STOP_AFTER_S": 0.2}))["parts"]
    assert parts["status"] == "interrupted"
    found = measure(verifiable(path, ledger, "read"))["verification"]
    assert (found["checked_blocks"] > 256, found["corrupt_blocks"]) == (True, 0)
    assert not ledger.with_name("trial.ledger.unfinished").exists()
