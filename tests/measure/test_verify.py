"""Real files damaged from outside after they were written: each kind found, named and located."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli.command import ended, seatrial, start
from measure.studies import wait_until
from seatrial import _core

BLOCK_BYTES = 8192
HALF_BYTES = BLOCK_BYTES // 2
FILE_BYTES = 1 << 20
BLOCKS = FILE_BYTES // BLOCK_BYTES
HIT = 37
"""The block that is damaged."""
AT_BYTES = HIT * BLOCK_BYTES
OTHER = 90
OTHER_AT_BYTES = OTHER * BLOCK_BYTES


@dataclass
class Stock:
    """A verifiable file with its ledger, and what it held before it was written again."""

    path: Path
    ledger: Path
    older: bytes

    def pass_over(self, operation: str, **more: Any) -> dict[str, Any]:
        """Read or write the whole file once, block by block, and return the sample."""
        access = {
            "operation": operation,
            "sizes": [{"bytes": BLOCK_BYTES, "weight": 1}],
            "align_bytes": BLOCK_BYTES,
            "address": {"kind": "sequential"},
        }
        target = {
            "kind": "file",
            "path": str(self.path),
            "size_bytes": FILE_BYTES,
            "create": operation == "write",
        }
        spec = {
            "seed": 3,
            "target": target,
            "range": {"start_bytes": 0, "length_bytes": FILE_BYTES},
            "accesses": [access],
            "data": {"kind": "verifiable"},
            "ledger_path": str(self.ledger),
            "limit": {"duration_s": 30, "bytes": FILE_BYTES},
        }
        running = _core.start(json.dumps(spec | more))
        assert running.wait(30)
        sample = running.result()
        assert sample["errors_count"] == 0
        assert sample["outcome"]["completed"] == BLOCKS
        return sample

    def check(self, **more: Any) -> dict[str, Any]:
        """Read the file back and return what was found wrong in it."""
        return self.pass_over("read", verify=True, **more)["verification"]

    def put(self, at_bytes: int, data: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(at_bytes)
            file.write(data)

    def take(self, at_bytes: int, length_bytes: int = BLOCK_BYTES) -> bytes:
        with self.path.open("rb") as file:
            file.seek(at_bytes)
            return file.read(length_bytes)


@pytest.fixture
def stock(tmp_path) -> Stock:
    """Every block written twice, so that there is an older generation to put back."""
    stock = Stock(tmp_path / "stock.dat", tmp_path / "stock.ledger", b"")
    stock.pass_over("write")
    stock.older = stock.path.read_bytes()
    stock.pass_over("write")
    assert stock.path.read_bytes() != stock.older
    return stock


def flip(stock: Stock) -> None:
    byte = stock.take(AT_BYTES + 1000, 1)[0]
    stock.put(AT_BYTES + 1000, bytes([byte ^ 0x10]))


def tear(stock: Stock) -> None:
    stock.put(AT_BYTES + HALF_BYTES, stock.older[AT_BYTES + HALF_BYTES : AT_BYTES + BLOCK_BYTES])


def lose_a_write(stock: Stock) -> None:
    stock.put(AT_BYTES, stock.older[AT_BYTES : AT_BYTES + BLOCK_BYTES])


def swap(stock: Stock) -> None:
    here, there = stock.take(AT_BYTES), stock.take(OTHER_AT_BYTES)
    stock.put(AT_BYTES, there)
    stock.put(OTHER_AT_BYTES, here)


def discard(stock: Stock) -> None:
    stock.put(AT_BYTES, bytes(BLOCK_BYTES))


def overwrite(stock: Stock) -> None:
    stock.put(AT_BYTES, os.urandom(BLOCK_BYTES))


@dataclass
class Damage:
    """A change of a file, and how it must be reported."""

    do: Callable[[Stock], None]
    kind: str
    at_bytes: list[int]
    detail: str


DAMAGES = [
    Damage(flip, "flipped_bit", [AT_BYTES], f"bit 4 of byte {AT_BYTES + 1000} is flipped"),
    Damage(tear, "torn_write", [AT_BYTES], "8 of 16 sectors"),
    Damage(lose_a_write, "stale", [AT_BYTES], "holds generation 1, but 2 was written"),
    Damage(swap, "misplaced", [AT_BYTES, OTHER_AT_BYTES], f"belongs at byte {OTHER_AT_BYTES}"),
    Damage(discard, "foreign", [AT_BYTES], "it holds zeros"),
    Damage(overwrite, "foreign", [AT_BYTES], "no run of Seatrial wrote"),
]


@pytest.mark.parametrize("engine", ["psync", "io_uring"])
def test_an_undamaged_file_is_found_whole(stock, engine):
    found = stock.check(engine=engine)
    assert found == {"checked_blocks": BLOCKS, "corrupt_blocks": 0, "corruptions": []}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.do.__name__)
def test_each_kind_of_damage_is_found_named_and_located(stock, damage):
    damage.do(stock)
    found = stock.check()
    assert found["checked_blocks"] == BLOCKS
    assert found["corrupt_blocks"] == len(damage.at_bytes)
    reported = [(each["kind"], each["offset_bytes"]) for each in found["corruptions"]]
    assert reported == [(damage.kind, at_bytes) for at_bytes in damage.at_bytes]
    assert damage.detail in found["corruptions"][0]["detail"]


def test_several_damages_are_distinguished(stock):
    stock.put(0, bytes(512))
    stock.put(5 * BLOCK_BYTES, stock.older[5 * BLOCK_BYTES : 6 * BLOCK_BYTES])
    flip(stock)
    found = stock.check(depth=4, engine="io_uring")
    assert found["corrupt_blocks"] == 3
    reported = {each["offset_bytes"]: each["kind"] for each in found["corruptions"]}
    assert reported == {0: "foreign", 5 * BLOCK_BYTES: "stale", AT_BYTES: "flipped_bit"}


def test_more_damage_than_is_listed_is_counted(stock):
    stock.path.write_bytes(bytes(FILE_BYTES))
    found = stock.check()
    assert found["corrupt_blocks"] == BLOCKS
    assert len(found["corruptions"]) == 32


def test_a_write_after_the_ledger_was_saved_is_newer_not_lost(stock):
    saved = stock.ledger.read_bytes()
    stock.pass_over("write")
    stock.ledger.write_bytes(saved)
    found = stock.check()
    assert {each["kind"] for each in found["corruptions"]} == {"newer"}


def test_a_damaged_ledger_proves_nothing_and_says_so(stock):
    content = bytearray(stock.ledger.read_bytes())
    content[200] ^= 1
    stock.ledger.write_bytes(content)
    with pytest.raises(_core.NativeUsageError, match="ledger is damaged"):
        stock.check()


def test_the_command_says_how_many_blocks_it_checked(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    command = ["io", place, "--operation", "mixed", "--verify", "--size", "4MiB", "--seconds", "1"]
    reported = seatrial(*command, folder=tmp_path)
    assert reported.code == 0, reported
    shown = seatrial("show", "--json", folder=tmp_path).document
    (sample,) = shown["samples"]
    found = sample["verification"]
    assert found["corrupt_blocks"] == 0
    assert 0 < found["checked_blocks"] == sample["operations"]["read"]["completed"]
    line = f"{found['checked_blocks']:,} blocks verified, none corrupt"
    assert line in " ".join(reported.out.split())
    assert [finding for finding in shown["findings"] if finding["kind"] == "corruption"] == []
    assert list(place.iterdir()) == []


def test_damage_during_a_run_is_a_critical_finding_of_the_command(tmp_path):
    """Another program writes to the trial file while it is measured."""
    place = tmp_path / "place"
    place.mkdir()
    size_bytes = 4 << 20
    command = ["io", place, "--verify", "--size", str(size_bytes), "--seconds", "2", "--json"]
    process = start(*command, folder=tmp_path)
    wait_until(lambda: filled(place, size_bytes), "the filled trial file")
    (trial_file,) = place.glob(".seatrial-*/trial.dat")
    with trial_file.open("r+b") as file:
        file.seek(AT_BYTES)
        file.write(bytes(BLOCK_BYTES))
    document = ended(process).document
    (finding,) = (each for each in document["findings"] if each["kind"] == "corruption")
    assert finding["severity"] == "critical"
    assert set(finding["evidence"]["kinds"]) == {"foreign"}
    assert {each["offset_bytes"] for each in finding["evidence"]["examples"]} == {AT_BYTES}
    assert "failed verification" in document["verdict"] + finding["sentence"]


def filled(place: Path, size_bytes: int) -> bool:
    """Whether the fill is over: it saves its ledger as it ends."""
    whole = any(file.stat().st_size == size_bytes for file in place.glob(".seatrial-*/trial.dat"))
    return whole and bool(list(place.glob(".seatrial-*/trial.dat.ledger")))
