"""Runs of made-up replays, as the pages, tables and exports of a report are given them."""

from __future__ import annotations

import functools
import itertools

import msgspec

from report.exports_hand import make_run
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.fingerprint import Fingerprint
from seatrial.units import MIB
from trials.database.analysis.hand import MACHINE
from trials.replay.analysis.hand import Play, rounds_of

TROUBLED = Play(
    failed=30, new=20, rolled_back=5, rows_different=40, skipped={"cut_off": 50, "writes": 3}
)
PACED = Play(speed=5.0, order="commit", released_by_lock=9, released_by_patience=2)


def summary_of(*plays: Play, rounds: int = 3) -> Summary:
    """A run of these replays, on the machine of the databases' tests."""
    run = msgspec.structs.replace(
        make_run(), fingerprint_before=msgspec.convert(MACHINE, Fingerprint)
    )
    return summarise(run, [sample for play in plays for sample in rounds_of(play, rounds)])


@functools.cache
def troubled() -> Summary:
    """One replay at maximum speed in which a little of everything went wrong."""
    return summary_of(TROUBLED)


@functools.cache
def paced() -> Summary:
    """One replay under a pace that the server does not keep."""
    return summary_of(PACED)


@functools.cache
def several() -> Summary:
    """Two drives at three speeds."""
    return summary_of(
        *(
            Play(target=target, speed=speed, alone=False)
            for target in ("hdd", "ssd")
            for speed in (None, 1.0, 2.5)
        )
    )


SIZES_MIB = (32, 64, 128, 256)
SCHEMA_GAIN = 1.2


@functools.cache
def sweep() -> Summary:
    """Two disks, two schemas, four sizes of a cache: on the first its size matters."""
    return summary_of(
        *(
            Play(
                target=target,
                alone=False,
                captured_s=20.0,
                capacity_per_s=rate_per_s * (SCHEMA_GAIN if schema == "new" else 1.0),
                factors={"schema": schema, "memory_limit_bytes": size_mib * MIB},
            )
            for target, schema in itertools.product(("hdd", "ssd"), ("old", "new"))
            for size_mib in SIZES_MIB
            for rate_per_s in [_lines_per_s(target, size_mib)]
        )
    )


def _lines_per_s(target: str, size_mib: int) -> float:
    if target == "ssd":
        return 4_000.0
    return 1 / (1 / 4_000.0 + 0.0125 * (size_mib / 32) ** -0.4)
