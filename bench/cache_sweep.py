"""Predictions for every size of shared buffers from one replay, against sizes really run.

    bench/cache_sweep.py                 the section `cache-sweep` of bench/RESULTS.md: 15 minutes
    bench/cache_sweep.py --load tpcb     one of tpcb, select, shop; not written

Three loads on data of 150 to 400 MB: pgbench's TPC-B, reads of accounts that are skewed (Zipf), and
the shop's log of tools/next-xraid. Each is swept by `seatrial cache sweep`, as a user would, on a
file system on a loop device over a file in memory that is throttled as a disk is, so that other
load of this machine matters little. It needs root.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from results_page import RESULTS, ROOT, machine_lines, table, write_section
from throttled import mounted, obstacle, throttled

SECTION: Final = "cache-sweep"
MEMORY: Final = Path("/dev/shm")
FILE_BYTES: Final = 4 << 30
READS_PER_S: Final = 600
WRITES_PER_S: Final = 8000
BYTES_PER_S: Final = 200_000_000
NICENESS: Final = -15
SKEWED: Final = """\
\\set rows 100000 * :scale
\\set aid 1 + permute(random_zipfian(1, :rows, 1.07) - 1, :rows, 42)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
"""
"""Reads of accounts, the popular ones spread over the table."""
CUSTOMERS: Final = 20_000
SHOP_TRANSACTIONS: Final = 12_000
LOADS: Final = ("tpcb", "select", "shop")


def main(words: Sequence[str]) -> int:
    """Sweep the loads, print the section and, if it has all of them, write it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--load", choices=LOADS)
    parser.add_argument("--rounds", type=int, default=1, help="sweeps of each load")
    requested = parser.parse_args(words)
    if reason := obstacle():
        print(f"bench/cache_sweep.py: {reason}", file=sys.stderr)
        return 1
    os.nice(NICENESS)
    names = [requested.load] if requested.load else LOADS
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sweep-")))
        folder.chmod(0o755)
        found = [(name, swept(name, folder)) for name in names for _ in range(requested.rounds)]
    text = page(found)
    print(text)
    if not requested.load:
        write_section(RESULTS, SECTION, text)
    return 0


def swept(name: str, folder: Path) -> dict[str, Any]:
    """Return the document of a sweep."""
    with ExitStack() as stack:
        memory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=MEMORY)))
        memory.chmod(0o755)
        disk = stack.enter_context(mounted(memory, "disk", FILE_BYTES))
        limits = {"requests_per_s": READS_PER_S, "bytes_per_s": BYTES_PER_S}
        options = load_of(name, folder)
        stack.enter_context(throttled(disk, **limits, writes_per_s=WRITES_PER_S))
        command = [ROOT / ".venv/bin/seatrial", "cache", "sweep", disk, "--json", *options]
        done = subprocess.run(
            [str(word) for word in command], check=False, stdout=subprocess.PIPE, cwd=folder
        )
        if done.returncode != 0:
            raise RuntimeError(f"the sweep of {name} failed: {done.stdout.decode()}")
    found: dict[str, Any] = msgspec.json.decode(done.stdout)
    return found


def load_of(name: str, folder: Path) -> list[object]:
    """Return the options of a load; its files are created in the folder."""
    if name == "tpcb":
        return ["--pgbench", "tpcb-like", "--scale", 10, "--transactions", 24_000]
    if name == "select":
        script = folder / "skewed.sql"
        script.write_text(SKEWED)
        return ["--pgbench", script, "--scale", 20, "--transactions", 60_000]
    trace = folder / "next-xraid.trace"
    if not trace.exists():
        made = ["--customers", CUSTOMERS, "--transactions", SHOP_TRANSACTIONS]
        words = [sys.executable, ROOT / "tools/next-xraid/make.py", folder, *made]
        subprocess.run([str(word) for word in words], check=True)
    return ["--log", trace, "--prepare", folder / "next-xraid.dump", "--database", "shop"]


def page(found: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Return the section as Markdown."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    rows = []
    for name, document in found:
        sweep = document["sweep"]
        rows += [_row(name, sweep, check) for check in sweep["checks"]]
    close = sum("is off" not in each for _, document in found for each in document["notable"]
                if each.startswith("Measured"))  # fmt: skip
    return "\n\n".join(
        [
            "## cache-sweep: every size of shared buffers from one replay, and sizes really run",
            f"Written by `bench/cache_sweep.py` on {day} (UTC). Each load was recorded once with "
            "the smallest buffers, and two sizes in the steep part were run afterwards. The disk "
            f"is a loop device over memory limited to {READS_PER_S} reads and {WRITES_PER_S} "
            f"writes a second, processes at niceness {NICENESS}, as the machine has other load. "
            f"Within 2 points and 15 %: {close} of {len(rows)}.",
            "\n".join(machine_lines()),
            table(
                ["load, shared buffers", "data MB", "hit ratio predicted", "measured", "points",
                 "reads each predicted", "measured", "rate/s predicted (95 %)",
                 "measured (95 %)", "error"],
                rows,
            ),
        ]
    )  # fmt: skip


def _row(name: str, sweep: dict[str, Any], check: dict[str, Any]) -> list[str]:
    def rate(kind: str) -> str:
        value, low, high = (check[f"{kind}_{end}"] for end in ("per_s", "low", "high"))
        return f"{value:.0f} ({low:.0f} to {high:.0f})" if low is not None else f"{value:.0f}"

    return [
        f"{name}, {check['buffers_bytes'] / (1 << 20):.4g} MiB",
        f"{sweep['data_bytes'] / 1e6:.0f}",
        f"{100 * check['predicted_hit_share']:.2f} %",
        f"{100 * check['measured_hit_share']:.2f} %",
        f"{check['hit_error_points']:+.2f}",
        f"{check['predicted_reads_per_operation']:.3f}",
        f"{check['measured_reads_per_operation']:.3f}",
        rate("predicted"),
        rate("measured"),
        f"{100 * check['rate_error_share']:+.1f} %",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
