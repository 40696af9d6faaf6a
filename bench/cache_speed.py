"""Simulated caches against libCacheSim: accesses per second of processor time, paired.

    .venv/bin/python bench/cache_speed.py --contender VENV/bin/python   # writes RESULTS.md

``VENV`` is an environment with the wheel ``libcachesim``, which is GPL and therefore no dependency
of ours. Both read the same trace: 5 million accesses, Zipf 0.9 over a million blocks, a cache of a
tenth of the accessed blocks. Our time includes numbering the blocks, that of the wheel reading the
file, which it cannot skip. The exact and the sampled curve, which it lacks, have no ratio. Miss
ratios must be the same to five decimals, or nothing is written.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np
from paired import Bar, median_estimate, paired_ratio, reported
from results_page import RESULTS, machine_lines, table, write_section

from seatrial import _core
from seatrial.units import NS_PER_S

SECTION: Final = "cache-speed"
ACCESSES: Final = 5_000_000
BLOCKS: Final = 1_000_000
APART: Final = 1009
"""Distance between block numbers, so that ours need a hash table, too."""
THETA: Final = 0.9
CACHE_SHARE: Final = 0.1
SAMPLE_SHARE: Final = 0.01
BARS: Final = {"lru": 2.0, "sieve": 2.5, "s3-fifo": 2.0, "arc": 2.0}
THEIRS: Final = {"lru": "LRU", "sieve": "Sieve", "s3-fifo": "S3FIFO", "arc": "ARC"}
CURVE_BAR_PER_S: Final = 1.5e6
SAMPLE_BAR_PER_S: Final = 80e6
CONTENDER: Final = """
import sys, time, libcachesim as l
path, name, size_blocks = sys.argv[1], sys.argv[2], int(sys.argv[3])
reader = l.TraceReader(
    trace=path, trace_type=l.TraceType.ORACLE_GENERAL_TRACE,
    reader_init_params=l.ReaderInitParam(ignore_obj_size=True),
)
cache = getattr(l, name)(cache_size=size_blocks)
began = time.process_time()
missed, _ = cache.process_trace(reader)
print(time.process_time() - began, missed)
"""
"""Prints its processor time in s and the miss ratio."""


def trace() -> np.ndarray:
    """Return the blocks of the trace, shape (ACCESSES,)."""
    generator = np.random.default_rng(1)
    weights = np.arange(1, BLOCKS + 1) ** -THETA
    drawn = np.searchsorted(np.cumsum(weights) / weights.sum(), generator.random(ACCESSES))
    numbers = generator.permutation(BLOCKS).astype(np.uint64) * np.uint64(APART)
    return numbers[np.minimum(drawn, BLOCKS - 1)]


def write_oracle_general(path: Path, blocks: np.ndarray) -> None:
    """Write the format that libCacheSim reads fastest."""
    fields = [("s", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")]
    records = np.zeros(len(blocks), dtype=np.dtype(fields))
    records["s"], records["id"], records["size"] = 1, blocks + np.uint64(1), 1
    records["next"] = -1
    records.tofile(path)


def ours(blocks: np.ndarray, policy: str, size_blocks: int) -> tuple[float, float]:
    """Return our processor time in s, and the miss ratio."""
    began_s = time.process_time()
    accesses = _core.CacheAccesses(blocks)
    (hits,) = accesses.hits(policy, [size_blocks], 4096)
    return time.process_time() - began_s, 1 - hits / len(accesses)


def theirs(interpreter: str, path: Path, policy: str, size_blocks: int) -> tuple[float, float]:
    """Return the same for the wheel."""
    command = [interpreter, "-c", CONTENDER, str(path), THEIRS[policy], str(size_blocks)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    took_s, missed = done.stdout.split()
    return float(took_s), float(missed)


def alone(blocks: np.ndarray) -> tuple[float, float]:
    """Return the processor time of the exact curve, and of the sampled one, in s."""
    began_s = time.process_time()
    _core.CacheAccesses(blocks).lru_hit_ratios([1000])
    curve_s = time.process_time() - began_s
    began_s = time.process_time()
    chosen = np.frombuffer(_core.sampled_accesses(blocks, SAMPLE_SHARE, 1), dtype=np.bool_)
    sample = _core.CacheAccesses(blocks[chosen])
    sample.lru_hit_ratios([1000], share=SAMPLE_SHARE, all_reads=len(blocks))
    return curve_s, time.process_time() - began_s


def main() -> int:
    """Measure and write the section; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--contender", required=True, metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    blocks = trace()
    size_blocks = round(CACHE_SHARE * len(np.unique(blocks)))
    order = random.Random(1)
    own: dict[str, list[float]] = {policy: [] for policy in BARS}
    other: dict[str, list[float]] = {policy: [] for policy in BARS}
    curve_s, sample_s = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.bin"
        write_oracle_general(path, blocks)
        for _ in range(options.rounds):
            for policy in order.sample(list(BARS), len(BARS)):
                found = {
                    who: ours(blocks, policy, size_blocks)
                    if who == "own"
                    else theirs(options.contender, path, policy, size_blocks)
                    for who in order.sample(["own", "other"], 2)
                }
                if abs(found["own"][1] - found["other"][1]) > 5e-6:
                    sys.stderr.write(f"{policy}: misses differ from libCacheSim: {found}\n")
                    return 1
                own[policy].append(found["own"][0])
                other[policy].append(found["other"][0])
            exact_s, sampled_s = alone(blocks)
            curve_s.append(exact_s)
            sample_s.append(sampled_s)
    write_section(RESULTS, SECTION, section(own, other, curve_s, sample_s, options.rounds))
    return 0


def section(
    own: dict[str, list[float]],
    other: dict[str, list[float]],
    curve_s: list[float],
    sample_s: list[float],
    rounds: int,
) -> str:
    """Return the section of the page."""
    rows = []
    for policy, times in BARS.items():
        bar = Bar(what=policy, most=1 / times, estimate=paired_ratio(own[policy], other[policy]))
        figures = (per_access(own[policy]), per_access(other[policy]), f"{bar.most:g}")
        rows.append([policy, *figures, reported(bar.estimate, 2), bar.verdict])
    alone_rows = []
    for name, taken_s, per_s in (
        ("exact LRU curve of all sizes", curve_s, CURVE_BAR_PER_S),
        (f"LRU curve of a sample of {SAMPLE_SHARE:.0%} of the blocks", sample_s, SAMPLE_BAR_PER_S),
    ):
        estimate = median_estimate([each / ACCESSES * NS_PER_S for each in taken_s], "ns")
        bar = Bar(what=name, most=NS_PER_S / per_s, estimate=estimate)
        alone_rows.append([name, per_access(taken_s), f"{bar.most:.4g}", bar.verdict])
    return "\n\n".join(
        [
            "## Simulated caches against libCacheSim",
            f"Written by `bench/cache_speed.py`, {rounds} rounds, order from seed 1. {ACCESSES:,} "
            f"accesses, Zipf {THETA} over {BLOCKS:,} blocks, a cache of a tenth of those accessed. "
            "Figures are ns of processor time per access. Miss ratios are the same to five "
            "decimals. Intervals are of at least 95 %, by order statistics over rounds.",
            "\n".join(machine_lines()),
            table(
                ["policy", "Seatrial", "libCacheSim", "bar", "Seatrial / libCacheSim", "verdict"],
                rows,
            ),
            table(["alone", "Seatrial", "bar", "verdict"], alone_rows),
        ]
    )


def per_access(taken_s: list[float]) -> str:
    """Return ns per access with their interval."""
    return reported(median_estimate([each / ACCESSES * NS_PER_S for each in taken_s], "ns"), 0)


if __name__ == "__main__":
    sys.exit(main())
