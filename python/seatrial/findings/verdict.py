"""One sentence for the top of a report and the end of a run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from seatrial.findings.context import addresses_of
from seatrial.findings.registry import rules
from seatrial.findings.rule import Rule
from seatrial.findings.tile import Tile
from seatrial.stats.fastest import Figure, Served, fastest, served_by_caches, settings_phrase
from seatrial.stats.model import CellSummary, Estimate, Finding, is_broken
from seatrial.stats.wording import (
    format_cell,
    format_estimate,
    format_interval,
    format_plural,
    format_size,
    format_value,
)
from seatrial.study.cell import Cell, FactorValue
from seatrial.topic import topic_of, topics, without_preparation

if TYPE_CHECKING:
    from seatrial.findings.model import Summary

BLOCK_SIZES_BYTES = (8192, 4096, 16384)
"""Page size of databases; the nearest measured size is reported."""
SEQUENTIAL_BYTES_MIN = 64 * 1024
"""Smaller requests, one at a time, do not show what a device transfers."""
LATENCIES_OF_COMMITS = ("p99", "p90", "p50")
"""The highest percentile that is known is reported."""


@dataclass(frozen=True)
class VerdictPart:
    """A part of the verdict and the cells whose figures it states."""

    words: str
    cells: tuple[CellSummary, ...]


@dataclass(frozen=True)
class Overview:
    """A topic's verdict on its cells on all targets together.

    Attributes:
        parts: Parts of the verdict.
        is_whole: Whether they cover the speed of the targets completely.
    """

    parts: list[VerdictPart]
    is_whole: bool


def verdict(
    cells: Sequence[CellSummary],
    findings: Sequence[Finding],
    analyses: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Return how fast the target is in a database's units, and the worst finding.

    A critical finding that puts the reported figures in doubt comes first. Several targets have one
    figure each: the tables compare the rest. The answers of topics come before everything else,
    followed by their overviews of all targets.

    Args:
        cells: Cells of the run.
        findings: Findings of the run, the most severe first.
        analyses: The topics' analyses of the run, by name.
    """
    if not cells:
        return "Nothing was measured."
    answers = {topic.name: found for topic in topics() if (found := topic.answers(analyses))}
    kinds_covered = {kind for topic in topics() for kind in topic.kinds_covered(analyses)}
    uncovered = [finding for finding in findings if finding.kind not in kinds_covered]
    if answers:
        answer = " ".join(each for topic in answers.values() for each in topic)
        others = [part for part in cells if topic_of(part.cell).name not in answers]
        if others:
            rest_of = {name: each for name, each in analyses.items() if name not in answers}
            return f"{answer} {verdict(others, findings, rest_of)}"
        worst = _worst(uncovered, []).lstrip("; .")
        return f"{answer} {worst[0].upper()}{worst[1:]}." if worst else answer
    served = served_by_caches(findings)
    overviews = [each for topic in topics() if (each := topic.overview(cells, analyses))]
    parts = [part for each in overviews for part in each.parts]
    shown_keys = {part.cell.key for each in parts for part in each.cells}
    is_whole = any(each.is_whole for each in overviews)
    rest = [] if is_whole else _sound(cells, shown_keys)
    if rest or not parts:
        parts = [*_speed_by_target(rest or cells, served, analyses), *parts]
    speed = "; ".join(part.words for part in parts)
    shown = [cell.cell.identity() for part in parts for cell in part.cells]
    doubts = _doubts(findings, shown)
    blank = [f for f in uncovered if f.kind == "nothing_completed" and not shown]
    sentence = f"{speed[0].upper()}{speed[1:]}{_worst(uncovered, [*doubts, *blank])}."
    if not doubts:
        return sentence
    reasons = " and ".join(dict.fromkeys(_rules_of_doubt()[each.kind].doubt for each in doubts))
    return f"Do not trust these numbers: {reasons}. {sentence}"


def _sound(cells: Sequence[CellSummary], shown_keys: Container[str]) -> list[CellSummary]:
    """Return the cells without injected faults that are not reported elsewhere."""
    return [
        each
        for each in cells
        if each.cell.key not in shown_keys and not any(is_broken(sample) for sample in each.samples)
    ]


def _rules_of_doubt() -> dict[str, Rule[Any]]:
    return {rule.kind: rule for rule in rules() if rule.doubt}


def doubts_of(summary: Summary) -> list[str]:
    """Return why the figures of a run are not to be trusted, the most severe reason first."""
    shown = [each.cell.identity() for each in summary.cells]
    doubts = [
        each
        for each in _doubts(summary.findings, shown)
        if _rules_of_doubt()[each.kind].doubts_all_cells or len(each.cells) in (0, len(shown))
    ]
    return list(dict.fromkeys(_rules_of_doubt()[each.kind].doubt for each in doubts))


def _doubts(findings: Sequence[Finding], shown: Sequence[dict[str, FactorValue]]) -> list[Finding]:
    """Return the findings that put the figures of the shown cells in doubt.

    Findings that another of them implies are left out: on a wrong database much fails.
    """
    by_kind = _rules_of_doubt()
    doubts = [
        finding
        for finding in findings
        if finding.severity == "critical"
        and (rule := by_kind.get(finding.kind))
        and (
            rule.doubts_all_cells
            or not finding.cells
            or any(cell in shown for cell in finding.cells)
        )
    ]
    kinds = {finding.kind for finding in doubts}
    return [each for each in doubts if by_kind[each.kind].follows_from not in kinds]


def _speed_by_target(
    cells: Sequence[CellSummary],
    served: Served,
    analyses: Mapping[str, Any],
) -> list[VerdictPart]:
    """Return the parts of the first sentence; of several targets one each, with its name."""
    speeds = {}
    for label in dict.fromkeys(c.cell.target for c in cells):
        own = without_preparation([c for c in cells if c.cell.target == label and not c.blank])
        headlines = _headlines(own, cells, analyses)
        speeds[label] = headlines + _speed(own, served, has_headline=bool(headlines))
    if len(speeds) == 1:
        return next(iter(speeds.values()))
    return [
        VerdictPart(f"on {label}, {parts[0].words}", parts[0].cells)
        for label, parts in speeds.items()
    ]


def _headlines(
    cells: Sequence[CellSummary], everywhere: Sequence[CellSummary], analyses: Mapping[str, Any]
) -> list[VerdictPart]:
    """Return the headlines of the topics on one target."""
    return [part for each in topics() if (part := each.headline(cells, everywhere, analyses))]


def _speed(
    cells: Sequence[CellSummary], served: Served, *, has_headline: bool
) -> list[VerdictPart]:
    """Return the parts of the first sentence about I/O; at least one if there is any."""
    usual = (
        _random(cells, served),
        _sequential(cells, served, has_headline),
        _commits(cells, served),
    )
    found = [part for part in usual if part]
    if found or has_headline:
        return found
    return [_any(cells, served)]


def _random(cells: Sequence[CellSummary], served: Served) -> VerdictPart | None:
    """Return ``reads 8 KiB at random at 74k IOPS (± 3 %) and writes at 40k IOPS (± 5 %) ...``."""
    for size_bytes in BLOCK_SIZES_BYTES:
        fitting = [
            c
            for c in cells
            if c.cell.block_size_bytes == size_bytes
            and addresses_of(c) == {"random"}
            and c.cell.kind != _MAP
        ]
        found = _fastest_of_both(fitting, _rate, served)
        if found:
            words = [f"{c.cell.operation}s at {format_estimate(c.iops)}" for c in found]
            words[0] = words[0].replace(" at ", f" {format_size(size_bytes)} at random at ", 1)
            where = [_where(c, cells, reported=("block_size_bytes",)) for c in found]
            return VerdictPart(_joined(words, where), tuple(found))
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
    """Return the fastest of the reads and the fastest of the writes, if there are any."""
    best = [fastest(_of(cells, operation), figure, served) for operation in _BOTH]
    return [cell for cell in best if cell]


def io_tiles(cells: Sequence[CellSummary], served: Served, *, has_headline: bool) -> list[Tile]:
    """Return the figures of block I/O on one target: random, sequential, commits and mixed.

    Args:
        cells: Cells of the target.
        served: Cells that a cache served, by identity.
        has_headline: Whether a topic has figures of its own.
    """
    known = without_preparation(
        [each for each in cells if not each.blank and topic_of(each.cell).shows_io]
    )
    tiles = []
    if random := _random(known, served):
        tiles += [_tile(each, f"random {each.cell.operation}", each.iops) for each in random.cells]
    if sequential := _sequential(known, served, has_headline):
        tiles += [
            _tile(each, f"sequential {each.cell.operation}", each.bandwidth)
            for each in sequential.cells
        ]
    if commits := _commits(known, served):
        tiles += [_tile(each, "commits", each.iops, size=False) for each in commits.cells]
    if mixed := fastest(_of(known, "mixed"), _rate, served):
        tiles.append(_tile(mixed, "mixed I/O", mixed.iops))
    if not tiles and (most := fastest(known, _bandwidth, served)):
        tiles.append(_tile(most, most.cell.operation, most.iops))
    return tiles


def _tile(summary: CellSummary, name: str, estimate: Estimate, *, size: bool = True) -> Tile:
    cell = summary.cell
    kinds = {"": cell.operation} | ({"sync ": "sync"} if cell.parsed.has_syncs else {})
    times = [
        (latency[percentile].value, f"{prefix}{percentile} {format_value(latency[percentile])}")
        for prefix, kind in kinds.items()
        if (latency := summary.latency.get(kind, {}))
        if (percentile := next((each for each in LATENCIES_OF_COMMITS if each in latency), ""))
    ]
    size_phrase = f"{format_size(cell.block_size_bytes)} " if size and cell.block_size_bytes else ""
    left_out = ("block_size_bytes",)
    return Tile(
        label=f"{size_phrase}{name}",
        estimate=estimate,
        detail=max(times, default=(0.0, ""))[1],  # a write is done when its sync is
        test=", ".join(filter(None, [cell.workload, settings_phrase(summary, leave_out=left_out)])),
        cell=cell.key,
    )


def _where(
    summary: CellSummary, among: Sequence[CellSummary], *, reported: Sequence[str] = ()
) -> str:
    """Return which cell it is: ``with 10 threads (workload matrix)``; the workload among several.

    Args:
        summary: The cell.
        among: The cells of its target.
        reported: Factors that were already reported.
    """
    several = len({each.cell.workload for each in among}) > 1
    name = f" (workload {summary.cell.workload})" if several else ""
    settings = settings_phrase(summary, leave_out=reported)
    return f"with {settings}{name}" if settings else name.strip()


def _joined(words: Sequence[str], where: Sequence[str], ending: str = "") -> str:
    """Return one or two figures with their cells, which are named once if they are the same."""
    if len(words) > 1 and len(set(where)) == 1:
        return f"{' and '.join(words)}{ending}, both {where[0]}"
    first, *others = zip(words, where, strict=True)
    return " and ".join([f"{first[0]}{ending} {first[1]}", *(" ".join(each) for each in others)])


def _sequential_cells(cells: Sequence[CellSummary]) -> list[CellSummary]:
    """Return the cells of sequential I/O, those of sequential workloads if there are any."""
    fitting = [c for c in cells if addresses_of(c) == {"sequential"} and c.cell.kind != _MAP]
    return [c for c in fitting if c.cell.kind == _SEQUENTIAL] or fitting


def _sequential(
    cells: Sequence[CellSummary], served: Served, has_headline: bool
) -> VerdictPart | None:
    """Return ``reads 1,200 MB/s (± 2 %) and writes 810 MB/s (± 4 %) in sequence ...``."""
    found = _fastest_of_both(_sequential_cells(cells), _bandwidth, served)
    # One small request at a time measures latency: with a database it is there for its commits.
    if not found or (has_headline and all(_is_small(c.cell) for c in found)):
        return None
    words = [f"{c.cell.operation}s {format_estimate(c.bandwidth)}" for c in found]
    return VerdictPart(
        _joined(words, [_where(c, cells) for c in found], " in sequence"), tuple(found)
    )


def _is_small(cell: Cell) -> bool:
    return cell.block_size_bytes < SEQUENTIAL_BYTES_MIN and cell.threads * cell.depth == 1


def _commits(cells: Sequence[CellSummary], served: Served) -> VerdictPart | None:
    """Return ``commits 1,240/s (± 4 %) with p99 2.1 ms (± 9 %) at 1 committer``.

    The fewest committers measured: a single session waits for each of its commits.
    """
    commits = list(_of(cells, "commit"))
    fewest = min((c.cell.threads for c in commits), default=0)
    best = fastest((c for c in commits if c.cell.threads == fewest), _rate, served)
    if best is None:
        return None
    rate = f"commits {format_value(best.iops).replace(' commits/s', '/s')}"
    at = format_plural(best.cell.threads, "committer")
    names = ("block_size_bytes", "threads")
    method = settings_phrase(best, leave_out=names)
    at += f", {method}" if method else ""
    words = f"{rate} ({format_interval(best.iops)}){_tail_of_commits(best)} at {at}"
    return VerdictPart(words, (best,))


def _tail_of_commits(best: CellSummary) -> str:
    known = best.latency.get("commit", {})
    name = next((name for name in LATENCIES_OF_COMMITS if name in known), None)
    return f" with {name} {format_estimate(known[name])}" if name else ""


def _any(cells: Sequence[CellSummary], served: Served) -> VerdictPart:
    """Return the cell with the highest bandwidth of a run without any of the usual cells."""
    best = fastest(cells, _bandwidth, served)
    if best is None:
        return VerdictPart("nothing completed in any test", ())
    most = "" if len(cells) == 1 else f", the highest bandwidth of {len(cells)} tests"
    figures = f"{format_estimate(best.iops)}, {format_value(best.bandwidth)}"
    return VerdictPart(f"{figures} in {format_cell(best.cell)}{most}", (best,))


def _worst(findings: Sequence[Finding], already_reported: Sequence[Finding]) -> str:
    """Return the worst finding in a few words, or as a sentence of its own; empty without one."""
    for finding in findings:
        if finding.severity != "note" and finding not in already_reported:
            words = finding.figures.in_short(len(finding.cells))
            return f"; {words}" if words else f". {finding.sentence.rstrip('.')}"
    return ""
