"""One sentence for the top of a report and the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from seatrial.analysis.findings.context import entries, lookup
from seatrial.analysis.model import CellSummary, Finding
from seatrial.analysis.wording import (
    format_cell,
    format_count,
    format_duration_s,
    format_estimate,
    format_interval,
    format_plural,
    format_share,
    format_size,
    format_value,
)
from seatrial.study.cell import FactorValue

BLOCK_SIZES_BYTES = (8192, 4096, 16384)
"""What a database asks for: pages of 8 KiB, else the nearest that was measured."""
NOT_THE_DEVICES = ("page_cache_served", "device_cache_served")
UNTRUSTED = {
    "corruption": "data came back wrong",
    "errors": "requests failed",
    "device_cache_served": "a cache in place of the device answered",
    "nothing_completed": "nothing completed in some cells",
    "late_requests": "the target could not keep the schedule",
}
"""Kinds that, when critical, put the numbers themselves in doubt, and how to say so in short."""


def verdict(cells: Sequence[CellSummary], findings: Sequence[Finding]) -> str:
    """Return how fast the target is in a database's units, and the worst that was found.

    Where a critical finding puts the numbers in doubt, that comes first.
    """
    if not cells:
        return "Nothing was measured."
    tainted = [c for finding in findings if finding.kind in NOT_THE_DEVICES for c in finding.cells]
    speed = _speed([c for c in cells if not c.blank], tainted)
    doubts = [f for f in findings if f.severity == "critical" and f.kind in UNTRUSTED]
    if doubts:
        reasons = " and ".join(dict.fromkeys(UNTRUSTED[f.kind] for f in doubts))
        return f"Do not trust these numbers: {reasons}. {speed}{_worst(findings, doubts)}."
    return f"{speed}{_worst(findings, doubts)}."


def _speed(cells: Sequence[CellSummary], tainted: Sequence[dict[str, FactorValue]]) -> str:
    """Return the figures as one sentence without its end."""
    told = [
        part
        for part in (
            _random(cells, tainted),
            _sequential(cells, tainted),
            _commits(cells, tainted),
        )
        if part
    ]
    if not told:
        told = [_any(cells)]
    sentence = "; ".join(told)
    return sentence[0].upper() + sentence[1:]


def _best(
    cells: Iterable[CellSummary],
    tainted: Sequence[dict[str, FactorValue]],
    figure: Callable[[CellSummary], float],
) -> CellSummary | None:
    """Return the fastest cell, of those that a cache did not serve where there are any."""
    candidates = list(cells)
    clean = [c for c in candidates if c.cell.identity() not in tainted]
    return max(clean or candidates, key=figure, default=None)


def _addresses(summary: CellSummary) -> set[object]:
    """Return the kinds of address of a cell: ``random``, ``sequential`` ..."""
    accesses = entries(summary.cell.spec, "accesses")
    return {lookup(access, "address", "kind") for access in accesses}


def _random(cells: Sequence[CellSummary], tainted: Sequence[dict[str, FactorValue]]) -> str:
    """Return ``reads 8 KiB at random at 74k IOPS (± 3 %), writes at 40k IOPS (± 5 %)``."""
    for size_bytes in BLOCK_SIZES_BYTES:
        told: list[str] = []
        for operation in ("read", "write"):
            fitting = (
                c
                for c in cells
                if (c.cell.operation, c.cell.block_size_bytes) == (operation, size_bytes)
                and _addresses(c) == {"random"}
            )
            best = _best(fitting, tainted, lambda c: c.iops.value)
            if best:
                what = f" {format_size(size_bytes)} at random" if not told else ""
                told.append(f"{operation}s{what} at {format_estimate(best.iops)}")
        if told:
            return " and ".join(told)
    return ""


def _sequential(cells: Sequence[CellSummary], tainted: Sequence[dict[str, FactorValue]]) -> str:
    """Return ``reads 1,200 MB/s (± 2 %) and writes 810 MB/s (± 4 %) in sequence``."""
    told = []
    for operation in ("read", "write"):
        fitting = (
            c
            for c in cells
            if c.cell.operation == operation
            and c.cell.kind not in ("commit", "map")
            and _addresses(c) == {"sequential"}
        )
        best = _best(fitting, tainted, lambda c: c.bandwidth.value)
        if best:
            told.append(f"{operation}s {format_estimate(best.bandwidth)}")
    return f"{' and '.join(told)} in sequence" if told else ""


def _commits(cells: Sequence[CellSummary], tainted: Sequence[dict[str, FactorValue]]) -> str:
    """Return ``commits 1,240/s (± 4 %) with p99 2.1 ms (± 9 %) at 1 committer``.

    The fewest committers that were measured: a single session waits for each of its commits.
    """
    commits = [c for c in cells if c.cell.operation == "commit"]
    fewest = min((c.cell.threads for c in commits), default=0)
    best = _best((c for c in commits if c.cell.threads == fewest), tainted, lambda c: c.iops.value)
    if best is None:
        return ""
    rate = f"commits {format_value(best.iops).replace(' commits/s', '/s')}"
    p99 = best.latency.get("commit", {}).get("p99")
    tail = f" with p99 {format_estimate(p99)}" if p99 else ""
    at = format_plural(best.cell.threads, "committer")
    return f"{rate} ({format_interval(best.iops)}){tail} at {at}"


def _any(cells: Sequence[CellSummary]) -> str:
    """Return the fastest cell of a run that has none of the usual ones."""
    best = max(cells, key=lambda c: c.bandwidth.value, default=None)
    if best is None:
        return "nothing completed in any cell"
    fastest = "" if len(cells) == 1 else f"fastest of {len(cells)} cells: "
    return (
        f"{fastest}{format_cell(best.cell)}: {format_estimate(best.iops)}, "
        f"{format_value(best.bandwidth)}"
    )


def _worst(findings: Sequence[Finding], already_told: Sequence[Finding]) -> str:
    """Return the worst finding in a few words, after a semicolon; empty when there is none."""
    for finding in findings:
        if finding.severity != "note" and finding not in already_told:
            return f"; {_in_words(finding)}"
    return ""


def _in_words(finding: Finding) -> str:
    """Return a finding in a few words, by its kind; else its own sentence."""
    words = _WORDS.get(finding.kind)
    return words(finding) if words else finding.sentence.rstrip(".")


def _froze(finding: Finding) -> str:
    count = finding.evidence["stalls_count"]
    longest = format_duration_s(finding.evidence["longest_s"])
    cause = finding.evidence["cause"]
    if count == 1:
        return f"froze for {longest} once ({cause})"
    return f"froze {format_count(count)} times, for up to {longest} ({cause})"


def _cells(finding: Finding) -> str:
    return format_plural(len(finding.cells), "cell")


_WORDS: dict[str, Callable[[Finding], str]] = {
    "stall": _froze,
    "slow_device": lambda f: f"is slow in {_cells(f)}",
    "generator_limited": lambda f: f"in {_cells(f)} the generator, not the device, was the limit",
    "page_cache_served": lambda f: f"memory, not the device, served {_cells(f)}",
    "device_cache_served": lambda f: f"a cache below the file system served {_cells(f)}",
    "link_narrower": lambda f: f"its link loses {format_share(f.evidence['lost_share'])}",
    "not_repeatable": lambda f: f"the rounds of {_cells(f)} do not agree",
    "noisy_machine": lambda _: "the machine was not quiet meanwhile",
    "interrupted": lambda _: "the result is partial",
}
