"""The article of 2010 on this machine: a hard disk's requests per second against none such limit.

    bench/drives.py                the section `drives` of bench/RESULTS.md: about five minutes
    bench/drives.py --rounds 1     one round, printed and not written: does it run?

Two files of the same disk become loop devices with a file system each; one of them is throttled,
by the control group of all processes, to what a drive of 7,200 revolutions a minute does. Then
`seatrial db hdd=... ssd=...` measures both, as a user would. Only the shape is claimed (how many
times faster, and what bounds which), not the speed of any drive: a throttle has no seeks.
It needs root.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from paired import paired_ratio, reported
from results_page import RESULTS, ROOT, machine_lines, table, write_section
from throttled import mounted, obstacle, throttled

from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.results.store import ResultsFile
from seatrial.stats.model import CellSummary
from seatrial.trials.database.analysis.model import database_of

SECTION: Final = "drives"
DISK_REQUESTS_PER_S: Final = 120  # one a revolution, of 7,200 a minute
DISK_BYTES_PER_S: Final = 100_000_000  # what the article measured of its 1.5 TB drive, about
FILE_BYTES: Final = 6 << 30
ARTICLE: Final = ROOT / "python/seatrial/report/articles/pgbench-2010.csv"


def main(words: Sequence[str]) -> int:
    """Measure both targets, print the section and, with enough rounds, write it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--scale", default="10")
    rounds, scale = (requested := parser.parse_args(words)).rounds, requested.scale
    if reason := obstacle():
        print(f"bench/drives.py: {reason}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        summary = measured(Path(folder), rounds, scale)
    text = page(summary, rounds)
    print(text)
    if rounds >= 10:
        write_section(RESULTS, SECTION, text)
    return 0


def measured(folder: Path, rounds: int, scale: str) -> Summary:
    """Return the summary of `seatrial db` on the two targets."""
    results = folder / "results.seatrial"
    with ExitStack() as stack:
        hdd, ssd = (
            stack.enter_context(mounted(folder, name, FILE_BYTES)) for name in ("hdd", "ssd")
        )
        limits = {"requests_per_s": DISK_REQUESTS_PER_S, "bytes_per_s": DISK_BYTES_PER_S}
        stack.enter_context(throttled(hdd, **limits))
        command = [ROOT / ".venv/bin/seatrial", "db", f"hdd={hdd}", f"ssd={ssd}", "--no-aa"]
        options = ["--rounds", rounds, "--scale", scale, "--clients", 10, "--results", results]
        subprocess.run([str(word) for word in (*command, *options)], check=True, cwd=folder)
    with ResultsFile.open(results, read_only=True) as store:
        run = store.run("last")
        return summarise(run, store.samples(run.id))


def page(summary: Summary, rounds: int) -> str:
    """Return the section as Markdown."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    return "\n\n".join(
        [
            "## drives: the article of 2010, on a throttled loop device",
            f"Written by `bench/drives.py` on {day} (UTC), {rounds} rounds. `hdd` is a loop device "
            f"limited to {DISK_REQUESTS_PER_S} requests and {DISK_BYTES_PER_S / 1e6:.0f} MB a "
            "second, each way; `ssd` is another one on the same disk, without a limit. Both "
            "begin cold in each round, with 256 MiB of memory for the server and the page cache "
            "of its files. Figures are means of the rounds with 95 % intervals; the ratio is the "
            "median of those inside each round.",
            "\n".join(machine_lines()),
            table(
                ["target, scale", "transactions per second", "p50, ms", "bound by"], rows(summary)
            ),
            table(["scale", "ssd / hdd here", "in the article"], ratios(summary)),
        ]
    )


def rows(summary: Summary) -> list[list[str]]:
    """Return a row for each cell of pgbench: its rate, its latency, what bounds it."""
    verdicts = {cell.cell.key: cell.verdict for cell in database_of(summary).cells}
    return [
        [
            f"{each.cell.target}, {each.cell.factors['scale']}",
            _reported(each),
            f"{each.latency['transaction']['p50'].value / 1e6:.0f}",
            verdicts[each.cell.key].bound,
        ]
        for each in _pgbench(summary)
    ]


def ratios(summary: Summary) -> list[list[str]]:
    """Return a row for each scale: the ratio here, by rounds, and in the article."""
    found = {(each.cell.target, each.cell.factors["scale"]): each for each in _pgbench(summary)}
    article = " to ".join(f"{ratio:.1f}" for ratio in _published())
    return [
        [
            str(scale),
            reported(
                paired_ratio(_rates_per_s(found["ssd", scale]), _rates_per_s(found["hdd", scale])),
                1,
            ),
            f"{article}, by scale and drive",
        ]
        for scale in sorted({scale for _, scale in found})
    ]


def _rates_per_s(each: CellSummary) -> list[float]:
    """Return the transactions per second of each round."""
    return [sample.completed_per_s for sample in each.samples]


def _published() -> tuple[float, float]:
    """Return the lowest and highest published ratio of an SSD to the disk, with one client."""
    by_scale: dict[str, dict[str, float]] = {}
    with ARTICLE.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["client_machines"] == "1":
                own = by_scale.setdefault(row["scale"], {})
                own[row["device"]] = float(row["tps_client_1"])
    ratios = [
        tps / own["hdd-1.5tb-7200rpm"]
        for own in by_scale.values()
        for device, tps in own.items()
        if device.startswith("ssd")
    ]
    return min(ratios), max(ratios)


def _pgbench(summary: Summary) -> list[CellSummary]:
    return [each for each in summary.cells if each.cell.kind == "pgbench"]


def _reported(each: CellSummary) -> str:
    rate = each.iops
    doubt = "" if rate.low is None else f" ({rate.low:.0f} to {rate.high:.0f})"
    return f"{rate.value:.0f}{doubt}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
