"""One sentence for the top of a report and the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from seatrial.findings.context import entries, lookup
from seatrial.stats.broken import is_broken
from seatrial.stats.fastest import Figure, Served, fastest, served_by_caches, settings_words
from seatrial.stats.model import CellSummary, Estimate, Finding
from seatrial.stats.wording import (
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
from seatrial.study.cell import Cell, FactorValue
from seatrial.trials.database.analysis.headline import headline, headline_cell
from seatrial.trials.database.analysis.model import DatabaseAnalysis
from seatrial.trials.database.study.workloads import is_of_database
from seatrial.trials.layouts.analysis.model import LayoutAnalysis
from seatrial.trials.layouts.analysis.narrative import best_words, recovery_words
from seatrial.trials.loadline.analysis.model import LoadLine
from seatrial.trials.loadline.study import LOADLINE

BLOCK_SIZES_BYTES = (8192, 4096, 16384)
"""What a database asks for: pages of 8 KiB, else the nearest that was measured."""
SEQUENTIAL_BYTES_MIN = 64 * 1024
"""Smaller requests, one at a time, do not show what a device transfers."""
LATENCIES_OF_COMMITS = ("p99", "p90", "p50")
"""The highest percentile that is known is told."""
UNTRUSTED = {
    "corruption": "data came back wrong",
    "errors": "requests failed",
    "device_cache_served": "a cache in place of the device answered",
    "late_requests": "the target could not keep the schedule",
    "replay_under_delivered": "not all that was captured was played",
    "replay_wrong_database": "the database is not the captured one",
    "replay_rolled_back": "transactions of the capture were rolled back",
    "replay_new_errors": "statements failed that had succeeded",
}
"""Kinds that, when critical, put the figures told in doubt, and how to say so in short."""
UNTRUSTED_EVERYWHERE = ("corruption", "errors")
"""Of these, those that put every figure in doubt, not only those of their own cells."""
FOLLOW_FROM_WRONG_DATABASE = ("replay_rolled_back", "replay_new_errors")
"""Of these, those that are told as no doubt of their own beside ``replay_wrong_database``."""


TOLD_OF_FAILURES = ("data_lost", "rebuild_dips", "redundancy_window")
"""Kinds that say of a failure what is told of it anyhow."""


@dataclass(frozen=True)
class Part:
    """A part of the verdict and the cells whose figures it tells."""

    words: str
    cells: tuple[CellSummary, ...]


def verdict(
    cells: Sequence[CellSummary],
    findings: Sequence[Finding],
    analyses: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Return how fast the target is in a database's units, and the worst that was found.

    Where a critical finding puts the figures told in doubt, that comes first. Of several targets
    each has its own figures, and only the first of them: the tables compare the rest; of several
    layouts it is told which is best for what, and what failures did. What is sustained within a
    limit is told as the load line tells it.

    Args:
        cells: Of the run.
        findings: Of the run, the gravest first.
        analyses: What the topics make of the run, by name.
    """
    load_lines: Sequence[LoadLine] = analyses.get("loadline", ())
    layouts: LayoutAnalysis | None = analyses.get("layouts")
    database: DatabaseAnalysis | None = analyses.get("database")
    bounds = {part.cell.key: part.verdict.bound for part in database.cells} if database else {}
    if not cells:
        return "Nothing was measured."
    others = [part for part in cells if part.cell.kind != LOADLINE]
    if load_lines:
        answers = " ".join(_answer(line, load_lines) for line in load_lines)
        if others:
            rest_of = {name: each for name, each in analyses.items() if name != "loadline"}
            return f"{answers} {verdict(others, findings, rest_of)}"
        worst = _worst([each for each in findings if each.kind != "knee"], []).lstrip("; .")
        return f"{answers} {worst[0].upper()}{worst[1:]}." if worst else answers
    served = served_by_caches(findings)
    reported = _of_layouts(cells, layouts) if layouts else []
    shown_keys = {part.cell.key for each in reported for part in each.cells}
    rest = [] if layouts and layouts.best else _sound(cells, shown_keys)
    if rest or not reported:
        reported = [*_speed_by_target(rest or cells, served, bounds), *reported]
    speed = "; ".join(part.words for part in reported)
    shown = [cell.cell.identity() for part in reported for cell in part.cells]
    doubts = _first_causes([finding for finding in findings if _is_doubt(finding, shown)])
    if layouts and layouts.recoveries:
        findings = [finding for finding in findings if finding.kind not in TOLD_OF_FAILURES]
    blank = [f for f in findings if f.kind == "nothing_completed" and not shown]
    sentence = f"{speed[0].upper()}{speed[1:]}{_worst(findings, [*doubts, *blank])}."
    if not doubts:
        return sentence
    reasons = " and ".join(dict.fromkeys(UNTRUSTED[finding.kind] for finding in doubts))
    return f"Do not trust these numbers: {reasons}. {sentence}"


def _sound(cells: Sequence[CellSummary], shown_keys: Container[str]) -> list[CellSummary]:
    """Return the cells in which nothing was broken, and that are not told of otherwise."""
    return [
        each
        for each in cells
        if each.cell.key not in shown_keys and not any(is_broken(sample) for sample in each.samples)
    ]


def _of_layouts(cells: Sequence[CellSummary], layouts: LayoutAnalysis) -> list[Part]:
    """Tell which of a run's layouts is best for what, and what its failures did."""
    best = {each.target for each in layouts.best}
    broken = {each.cell.key for each in layouts.recoveries}
    reported = [
        Part(words, tuple(c for c in cells if c.cell.target in best and c.cell.key not in broken))
        for words in best_words(layouts)
    ]
    return reported + [
        Part(words, tuple(c for c in cells if c.cell.key in broken))
        for words in recovery_words(layouts.recoveries)
    ]


def _answer(line: LoadLine, load_lines: Sequence[LoadLine]) -> str:
    """Return what a load line found; with its name where there are several."""
    several = len(load_lines) > 1
    sentence = f"{line.workload}, {line.target}: {line.sentence}" if several else line.sentence
    return f"{sentence} {line.generator}." if line.generator else sentence


def _first_causes(doubts: list[Finding]) -> list[Finding]:
    """Return the doubts without what follows from another: on a wrong database much fails."""
    if all(finding.kind != "replay_wrong_database" for finding in doubts):
        return doubts
    return [finding for finding in doubts if finding.kind not in FOLLOW_FROM_WRONG_DATABASE]


def _is_doubt(finding: Finding, shown: Sequence[dict[str, FactorValue]]) -> bool:
    """Tell whether a finding puts the figures of the shown cells in doubt."""
    if finding.severity != "critical" or finding.kind not in UNTRUSTED:
        return False
    concerns_shown = not finding.cells or any(cell in shown for cell in finding.cells)
    return concerns_shown or finding.kind in UNTRUSTED_EVERYWHERE


def _speed_by_target(
    cells: Sequence[CellSummary],
    served: Served,
    bounds: Mapping[str, str],
) -> list[Part]:
    """Return the parts of the first sentence; of several targets one each, with its name."""
    reported = {}
    for label in dict.fromkeys(c.cell.target for c in cells):
        own = [c for c in cells if c.cell.target == label and not c.blank]
        reported[label] = _database(own, cells, bounds) + _speed(own, served)
    if len(reported) == 1:
        return next(iter(reported.values()))
    return [
        Part(f"on {label}, {parts[0].words}", parts[0].cells) for label, parts in reported.items()
    ]


def _speed(cells: Sequence[CellSummary], served: Served) -> list[Part]:
    """Return the parts of the first sentence that tell of I/O; at least one if there is any."""
    usual = (_random(cells, served), _sequential(cells, served), _commits(cells, served))
    found = [part for part in usual if part]
    if found or any(is_of_database(each.cell) for each in cells):
        return found
    return [_any(cells, served)]


def _database(
    cells: Sequence[CellSummary], everywhere: Sequence[CellSummary], bounds: Mapping[str, str]
) -> list[Part]:
    """Tell what a database did there, where one was measured and did anything."""
    best = headline_cell(cells, everywhere)
    return [Part(headline(best, bounds, cells), (best,))] if best else []


def _addresses(summary: CellSummary) -> set[object]:
    """Return the kinds of address of a cell: ``random``, ``sequential`` ...

    What an imported cell says of them is its pattern: it had no specification.
    """
    accesses = entries(summary.cell.spec, "accesses")
    reported = {lookup(access, "address", "kind") for access in accesses}
    return reported or {summary.cell.factors.get("pattern")}


def _random(cells: Sequence[CellSummary], served: Served) -> Part | None:
    """Tell ``reads 8 KiB at random at 74k IOPS (± 3 %) and writes at 40k IOPS (± 5 %) ...``."""
    for size_bytes in BLOCK_SIZES_BYTES:
        fitting = [
            c
            for c in cells
            if c.cell.block_size_bytes == size_bytes
            and _addresses(c) == {"random"}
            and c.cell.kind != _MAP
        ]
        found = _fastest_of_both(fitting, _rate, served)
        if found:
            words = [f"{c.cell.operation}s at {format_estimate(c.iops)}" for c in found]
            words[0] = words[0].replace(" at ", f" {format_size(size_bytes)} at random at ", 1)
            where = [_where(c, cells, reported=("block_size_bytes",)) for c in found]
            return Part(_joined(words, where), tuple(found))
    return None


_BOTH = ("read", "write")
_MAP, _SEQUENTIAL = "map", "sequential"


def _rate(summary: CellSummary) -> Estimate:
    return summary.iops


def _bandwidth(summary: CellSummary) -> Estimate:
    return summary.bandwidth


def _of(cells: Iterable[CellSummary], operation: str) -> Iterable[CellSummary]:
    return (c for c in cells if c.cell.operation == operation)


def _fastest_of_both(
    cells: Sequence[CellSummary], figure: Figure, served: Served
) -> list[CellSummary]:
    """Return the fastest of the reads and the fastest of the writes, of those that there are."""
    best = [fastest(_of(cells, operation), figure, served) for operation in _BOTH]
    return [cell for cell in best if cell]


def _where(
    summary: CellSummary, among: Sequence[CellSummary], *, reported: Sequence[str] = ()
) -> str:
    """Return which cell it is: ``with 10 threads (workload matrix)``; the workload among several.

    Args:
        summary: The cell.
        among: The cells of its target.
        reported: Factors that were told already.
    """
    several = len({each.cell.workload for each in among}) > 1
    name = f" (workload {summary.cell.workload})" if several else ""
    return f"with {settings_words(summary, leave_out=reported)}{name}"


def _joined(words: Sequence[str], where: Sequence[str], ending: str = "") -> str:
    """Return one or two figures with their cells, which are told once where they are the same."""
    if len(words) > 1 and len(set(where)) == 1:
        return f"{' and '.join(words)}{ending}, both {where[0]}"
    first, *others = zip(words, where, strict=True)
    return " and ".join([f"{first[0]}{ending} {first[1]}", *(" ".join(each) for each in others)])


def sequential_cells(cells: Sequence[CellSummary]) -> list[CellSummary]:
    """Return the cells that tell what goes in sequence: those made for it, where there are any."""
    fitting = [c for c in cells if _addresses(c) == {"sequential"} and c.cell.kind != _MAP]
    return [c for c in fitting if c.cell.kind == _SEQUENTIAL] or fitting


def _sequential(cells: Sequence[CellSummary], served: Served) -> Part | None:
    """Tell ``reads 1,200 MB/s (± 2 %) and writes 810 MB/s (± 4 %) in sequence, both with ...``."""
    found = _fastest_of_both(sequential_cells(cells), _bandwidth, served)
    # One small request at a time tells of latency: beside a database it is there for its commits.
    of_database = any(is_of_database(c.cell) for c in cells)
    if not found or (of_database and all(_is_small(c.cell) for c in found)):
        return None
    words = [f"{c.cell.operation}s {format_estimate(c.bandwidth)}" for c in found]
    return Part(_joined(words, [_where(c, cells) for c in found], " in sequence"), tuple(found))


def _is_small(cell: Cell) -> bool:
    return cell.block_size_bytes < SEQUENTIAL_BYTES_MIN and cell.threads * cell.depth == 1


def _commits(cells: Sequence[CellSummary], served: Served) -> Part | None:
    """Tell ``commits 1,240/s (± 4 %) with p99 2.1 ms (± 9 %) at 1 committer``.

    The fewest committers that were measured: a single session waits for each of its commits.
    """
    commits = list(_of(cells, "commit"))
    fewest = min((c.cell.threads for c in commits), default=0)
    best = fastest((c for c in commits if c.cell.threads == fewest), _rate, served)
    if best is None:
        return None
    rate = f"commits {format_value(best.iops).replace(' commits/s', '/s')}"
    at = format_plural(best.cell.threads, "committer")
    names = ("block_size_bytes", "threads")
    method = settings_words(best, leave_out=names)
    at += f", {method}" if method else ""
    words = f"{rate} ({format_interval(best.iops)}){_tail_of_commits(best)} at {at}"
    return Part(words, (best,))


def _tail_of_commits(best: CellSummary) -> str:
    known = best.latency.get("commit", {})
    name = next((name for name in LATENCIES_OF_COMMITS if name in known), None)
    return f" with {name} {format_estimate(known[name])}" if name else ""


def _any(cells: Sequence[CellSummary], served: Served) -> Part:
    """Tell the cell that moves most of a run that has none of the usual ones."""
    best = fastest(cells, _bandwidth, served)
    if best is None:
        return Part("nothing completed in any cell", ())
    most = "" if len(cells) == 1 else f", the highest bandwidth of {len(cells)} cells"
    figures = f"{format_estimate(best.iops)}, {format_value(best.bandwidth)}"
    return Part(f"{figures} in {format_cell(best.cell)}{most}", (best,))


def _worst(findings: Sequence[Finding], already_told: Sequence[Finding]) -> str:
    """Return the worst finding in a few words, or as its own sentence; empty when there is none."""
    for finding in findings:
        if finding.severity != "note" and finding not in already_told:
            words = _WORDS.get(finding.kind)
            return f"; {words(finding)}" if words else f". {finding.sentence.rstrip('.')}"
    return ""


_OF_MACHINE = {
    "generator": "this machine kept the generator waiting",
    "cpu_quota": "a CPU quota stopped the generator",
}
_CAUSE_WORDS = {"cgroup_throttle": "throttled by a control group"}


def _froze(finding: Finding) -> str:
    count, cause = finding.evidence["stalls_count"], finding.evidence["cause"]
    longest = format_duration_s(finding.evidence["longest_s"])
    whose = _OF_MACHINE.get(cause, "froze")
    reported = f" ({_CAUSE_WORDS.get(cause, cause)})" if cause not in _OF_MACHINE else ""
    if count == 1:
        return f"{whose} for {longest} once{reported}"
    return f"{whose} {format_count(count)} times, for up to {longest}{reported}"


def _errors_of(finding: Finding) -> int:
    names = ("new_count", "other_code_count", "unanswered_count")
    return sum(int(finding.evidence[name]) for name in names)


def _cells(finding: Finding) -> str:
    return format_plural(len(finding.cells), "cell")


_WORDS: dict[str, Callable[[Finding], str]] = {
    "replay_rolled_back": lambda f: (
        f"{format_plural(f.evidence['lost_count'], 'transaction')} of the capture did not commit"
    ),
    "replay_new_errors": lambda f: (
        f"{format_plural(_errors_of(f), 'statement')} failed that had succeeded"
    ),
    "replay_late": lambda f: (
        f"{format_share(1 - f.evidence['within_1ms_share'])} of the statements were sent late"
    ),
    "replay_client_bound": lambda _: "the client, not the database, was the limit",
    "replay_rows_differ": lambda f: (
        f"{format_share(f.evidence['different_share'])} of what was compared had other rows"
    ),
    "replay_content_differs": lambda f: (
        f"{format_plural(f.evidence['rows_different_count'], 'row')} differ from the capture's"
    ),
    "replay_order_released": lambda _: "the order had to be broken",
    "replay_skipped": lambda f: (
        f"{format_share(f.evidence['skipped_share'])} of the capture could not be sent"
    ),
    "transactions_lost": lambda f: (
        f"of {format_count(f.evidence['acknowledged_count'])} acknowledged transactions "
        f"{f.evidence['wrong']}"
    ),
    "stall": _froze,
    "slow_device": lambda f: f"is slow in {_cells(f)}",
    "nothing_completed": lambda f: f"nothing completed in {_cells(f)}",
    "late_requests": lambda f: f"could not keep the schedule in {_cells(f)}",
    "generator_limited": lambda f: f"in {_cells(f)} the generator, not the device, was the limit",
    "page_cache_served": lambda f: f"memory, not the device, served {_cells(f)}",
    "device_cache_served": lambda f: f"a cache below the file system served {_cells(f)}",
    "link_narrower": lambda f: f"its link loses {format_share(f.evidence['lost_share'])}",
    "not_repeatable": lambda f: f"the rounds of {_cells(f)} do not agree",
    "noisy_machine": lambda _: "the machine was not quiet meanwhile",
    "interrupted": lambda _: "the result is partial",
}
