"""The article of 2008 on this machine: lines per second of one log, by disk, cache and schema.

    bench/next_xraid.py                the section `next-xraid` of bench/RESULTS.md: an hour or two
    bench/next_xraid.py --rounds 1 --customers 40000 --transactions 3000   a small one, not written

A shop's snapshot and log are made by tools/next-xraid/make.py. Two files of the same disk become
loop devices with a file system each; one of them is throttled to what fourteen drives of 7,200
revolutions a minute do together, as many as an XRaid holds (the article measured one drive).
Then `seatrial study next-xraid` measures both, as a user would. It needs root.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from paired import reported
from results_page import RESULTS, ROOT, machine_lines, table, write_section
from throttled import mounted, obstacle, throttled

from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.results.store import ResultsFile
from seatrial.stats.cell_estimates import estimate_of_rounds
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import format_count, format_share, format_size
from seatrial.study.load import find_study
from seatrial.trials.database.analysis.model import database_of
from seatrial.trials.replay.analysis.model import schema_errors
from seatrial.trials.replay.report.caches import cache_sizes, cache_tables, sweep_sentences

SECTION: Final = "next-xraid"
CUSTOMERS: Final = 200_000
TRANSACTIONS: Final = 28_000
DRIVES: Final = 14
REQUESTS_PER_S: Final = DRIVES * 120
BYTES_PER_S: Final = 200_000_000
FILE_BYTES: Final = 24 << 30
ARTICLE_RATIO: Final = "8,198 / 407 = 20"


def main(words: Sequence[str]) -> int:
    """Make the log, measure both targets, print the section and, of the full size, write it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--customers", type=int, default=CUSTOMERS)
    parser.add_argument("--transactions", type=int, default=TRANSACTIONS)
    parser.add_argument("--study", default="next-xraid", help="another study of these targets")
    parser.add_argument("--folder", type=Path, help="what is made and measured stays here")
    requested = parser.parse_args(words)
    if reason := obstacle():
        print(f"bench/next_xraid.py: {reason}", file=sys.stderr)
        return 1
    with ExitStack() as stack:
        if folder := requested.folder:
            folder.mkdir(parents=True)
        else:
            made = tempfile.TemporaryDirectory(prefix="next-xraid-")
            folder = Path(stack.enter_context(made))
        text = page(measured(folder, requested), requested.rounds)
    print(text)
    if (requested.customers, requested.transactions, requested.study) == (
        *(CUSTOMERS, TRANSACTIONS),
        SECTION,
    ):
        write_section(RESULTS, SECTION, text)
    return 0


def measured(folder: Path, requested: argparse.Namespace) -> Summary:
    """Return what `seatrial study next-xraid` made of the two targets."""
    folder.chmod(0o755)
    results, study = folder / "results.seatrial", find_study(requested.study).absolute()
    made = ["--customers", requested.customers, "--transactions", requested.transactions]
    _run(sys.executable, ROOT / "tools/next-xraid/make.py", folder, *made)
    with ExitStack() as stack:
        disk, ssd = (
            stack.enter_context(mounted(folder, name, FILE_BYTES)) for name in ("disk", "ssd")
        )
        limits = {"requests_per_s": REQUESTS_PER_S, "bytes_per_s": BYTES_PER_S}
        stack.enter_context(throttled(disk, **limits))
        targets = ["--target", f"disk={disk}", "--target", f"ssd={ssd}"]
        options = ["--rounds", requested.rounds, "--results", results]
        command = [ROOT / ".venv/bin/seatrial", "study", study, *targets, *options]
        _run(*command, cwd=folder)
    with ResultsFile.open(results, read_only=True) as store:
        run = store.run("last")
        return summarise(run, store.samples(run.id))


def page(summary: Summary, rounds: int) -> str:
    """Return the section as Markdown."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    statements = _statements(summary)
    figures = [
        table(found.headers, [[str(cell) for cell in row] for row in found.rows])
        for found in cache_tables(summary)
    ]
    sentences = [reported for sizes in cache_sizes(summary) for reported in sweep_sentences(sizes)]
    return "\n\n".join(
        [
            "## next-xraid: the article of 2008, on a throttled loop device",
            f"Written by `bench/next_xraid.py` on {day} (UTC), {rounds} rounds. A log of "
            f"{format_count(statements)} statements of eight sessions is replayed as fast as it "
            f"goes, on a snapshot of {_sizes(summary)}, restored for each sample. `disk` is a "
            f"loop device limited to {REQUESTS_PER_S:,} requests and {BYTES_PER_S / 1e6:.0f} MB a "
            f"second, each way, as {DRIVES} drives do; `ssd` is another one on the same disk, "
            "without a limit. The cache is the memory of the server and the page cache of its "
            "files; all begin cold. Rates, and ratios inside each round, are means of the rounds "
            "with 95 % intervals; a rank is only as certain as its interval.",
            "\n".join(machine_lines()),
            *figures,
            "\n".join(f"- {reported}" for reported in sentences),
            table(
                ["schema, cache", "ssd / disk here", "in the article, one drive"], ratios(summary)
            ),
            fits(summary),
        ]
    )


def ratios(summary: Summary) -> list[list[str]]:
    """Return how many times faster the one is than the other, round by round, for each cache."""
    by_target: dict[str, dict[str, CellSummary]] = {}
    for each in summary.cells:
        by_target.setdefault(each.cell.target, {})[each.cell.key_without_target] = each
    rows = []
    for key, disk in by_target["disk"].items():
        factors = disk.cell.factors
        size = format_size(int(factors["memory_limit_bytes"]))
        pairs = zip(_rates_per_s(by_target["ssd"][key]), _rates_per_s(disk), strict=True)
        # Three rounds have no interval by order statistics.
        ratio = estimate_of_rounds([ssd / slow for ssd, slow in pairs], "ratio")
        rows.append([f"{factors['schema']}, {size}", reported(ratio, 1), ARTICLE_RATIO])
    return rows


def fits(summary: Summary) -> str:
    """Return which statements no longer fit a schema, and whether all began alike."""
    found = {each.schema: each for cell in summary.cells if (each := schema_errors(cell))}
    lines = [
        f"- schema {name}: {format_count(each.statements)} of {format_count(each.sent)} statements "
        f"({format_share(each.statements / each.sent)}) did not fit"
        for name, each in found.items()
        if each.sent
    ]
    differ = [each for each in summary.findings if each.kind == "replay_starts_differ"]
    reported_starts = differ[0].sentence if differ else "all samples of a schema began alike"
    return "\n".join([*lines, f"- rows, sequences and checkpoints at the start: {reported_starts}"])


def _statements(summary: Summary) -> int:
    totals = (sample.replay.total for cell in summary.cells for sample in cell.samples
              if sample.replay)  # fmt: skip
    return max(total.captured for total in totals)


def _sizes(summary: Summary) -> str:
    sizes = {}
    for cell in database_of(summary).cells if database_of(summary) else []:
        sizes[str(cell.cell.factors["schema"])] = cell.database_bytes
    return " and ".join(f"{format_size(size)} (schema {name})" for name, size in sizes.items())


def _rates_per_s(each: CellSummary) -> list[float]:
    """Return the statements per second of each round."""
    return [sample.completed_per_s for sample in each.samples]


def _run(*words: object, cwd: Path | None = None) -> None:
    subprocess.run([str(word) for word in words], check=True, cwd=cwd)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
