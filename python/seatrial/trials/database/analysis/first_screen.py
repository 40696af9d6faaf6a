"""A database on the first screen of a run: figures, and the verdict in a few words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, Literal

from seatrial.findings.model import Summary
from seatrial.findings.tile import Tile
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import format_estimate, format_identity, format_plural, format_value
from seatrial.study.cell import FactorValue
from seatrial.trials.database.analysis.crashes import (
    crash_outcome,
    is_crash_trial,
    violations_text,
)
from seatrial.trials.database.analysis.headline import (
    cell_phrase,
    headline_cell,
    rate_per_s,
    tail_of,
)
from seatrial.trials.database.analysis.model import batch_length, database_of, specification
from seatrial.trials.replay.analysis.model import is_replay, replays_of

VARIANTS_MAX: Final = 4
"""The most settings of a server that are shown first."""


def database_tiles(cells: Sequence[CellSummary], analyses: Mapping[str, Any]) -> list[Tile]:
    """Return rate, tail latency, and the pace of a replay, of a target's representative test.

    Of the same load with several settings of the server, the rate of each.
    """
    best = headline_cell(cells, cells)
    if best is None or is_crash_trial(best.cell):
        return []
    if best.cell.operation == "batch":
        real = batch_length(best.samples, "real")
        return [_tile(best, "batch", real.scaled(1e9, "ns"), better="lower")] if real else []
    tail = tail_of(best)
    label = f"{tail.kind} {tail.percentile}" if tail else ""
    detail = f"{label} {format_value(tail.estimate)}" if tail else ""
    if variants := _variants(best, cells):
        tiles = [
            _tile(each, setting, rate_per_s(each)) for setting, each in variants[:VARIANTS_MAX]
        ]
    else:
        tiles = [_tile(best, _rate_name(best), rate_per_s(best), detail=detail)]
    if tail:
        bound = _bound(best, analyses)
        tiles.append(_tile(best, label, tail.estimate, better="lower", detail=bound))
    if is_replay(best.cell):
        ratio = next((e.ratio for e in analyses.get("replay", []) if e.cell == best.cell), None)
        tiles += [_tile(best, "of the captured rate", ratio)] if ratio else []
    return tiles


def _variants(best: CellSummary, cells: Sequence[CellSummary]) -> list[tuple[str, CellSummary]]:
    """Return the cells that differ in settings of the server only, by what differs.

    Empty without any other, or where the representative cell is not among the first.
    """
    if best.cell.operation == "batch" or is_crash_trial(best.cell):
        return []
    spec = specification(best.cell)
    names = {*spec.settings, "memory_limit_bytes"} if spec else set()
    own = best.cell.identity()
    alike = [
        each
        for each in cells
        if not each.blank and _without(each.cell.identity(), names) == _without(own, names)
    ]
    differing = dict.fromkeys(
        name
        for each in alike
        for name, value in each.cell.identity().items()
        if own.get(name) != value
    )
    found = [(_settings_text(each, differing), each) for each in alike]
    is_shown = any(each is best for _, each in found[:VARIANTS_MAX])
    return found if len(found) > 1 and is_shown else []


def _settings_text(summary: CellSummary, names: Iterable[str]) -> str:
    """Return settings as PostgreSQL's configuration file has them, a memory limit in words."""
    identity = summary.cell.identity()
    return ", ".join(
        format_identity({name: identity[name]})
        if name == "memory_limit_bytes"
        else f"{name}={identity[name]}"
        for name in names
        if name in identity
    )


def _without(identity: Mapping[str, FactorValue], names: Collection[str]) -> dict[str, FactorValue]:
    return {name: value for name, value in identity.items() if name not in names}


def _rate_name(summary: CellSummary) -> str:
    return "replay" if is_replay(summary.cell) else f"{summary.cell.kind} transactions"


def _bound(summary: CellSummary, analyses: Mapping[str, Any]) -> str:
    found = analyses.get("database")
    parts = found.cells if found else []
    bound = next((e.verdict.bound for e in parts if e.cell.key == summary.cell.key), "")
    return f"bound by: {bound}" if bound else ""


def _tile(
    summary: CellSummary,
    label: str,
    estimate: Estimate,
    *,
    detail: str = "",
    better: Literal["higher", "lower"] = "higher",
) -> Tile:
    return Tile(
        label=label,
        estimate=estimate,
        detail=detail,
        test=_test(summary),
        cell=summary.cell.key,
        better=better,
    )


def _test(summary: CellSummary) -> str:
    if is_replay(summary.cell):
        return PurePath(str(summary.cell.factors.get("trace", "trace"))).name
    return cell_phrase(summary).removeprefix("at ").removeprefix("with ")


def database_verdict(summary: Summary) -> str:
    """Return the answer of crash trials and replays, or the rate of a database alone."""
    crashes = [cell for cell in summary.cells if is_crash_trial(cell.cell)]
    if crashes:
        return _crash_verdict([s for each in crashes for s in each.samples])
    if replays := replays_of(summary):
        rate = max(replays, key=lambda replay: replay.answered_per_s.value)
        critical = {finding.kind for finding in summary.findings if finding.severity == "critical"}
        rows = "" if critical else ", no critical finding"
        pace = f", {format_value(rate.ratio)} the captured rate" if rate.ratio else ""
        return f"replayed at {format_estimate(rate.answered_per_s)}{pace}{rows}"
    has_lost_host = any(s.fleet and s.fleet.lost for each in summary.cells for s in each.samples)
    if has_lost_host or len({cell.cell.target for cell in summary.cells}) > 1:
        # Which host was lost comes first.
        return ""
    return _rate_verdict(summary)


def _rate_verdict(summary: Summary) -> str:
    """Return the rate with each setting of the server, or of a database alone."""
    best = headline_cell(summary.cells, summary.cells)
    if best and (variants := _variants(best, summary.cells)):
        return "; ".join(f"{format_value(rate_per_s(each))} with {text}" for text, each in variants)
    if not database_of(summary) or any(not _is_database(cell) for cell in summary.cells):
        return ""
    tiles = database_tiles(summary.cells, summary.analyses)
    return ", ".join(f"{format_estimate(t.estimate)}" for t in tiles[:1]) + (
        f" with {tiles[1].label} {format_value(tiles[1].estimate)}" if len(tiles) > 1 else ""
    )


def _is_database(summary: CellSummary) -> bool:
    return summary.cell.parsed.database is not None


def _crash_verdict(samples: Sequence[Any]) -> str:
    outcome = crash_outcome(samples)
    crashes = format_plural(outcome.crashes, "crash", "crashes")
    acknowledged = format_plural(outcome.acknowledged, "acknowledged transaction")
    if outcome.is_ok:
        return f"durable: {acknowledged} survived {crashes}"
    if outcome.lost:
        commits = format_plural(outcome.acknowledged, "acknowledged commit")
        return f"durability violated: {outcome.lost:,} of {commits} lost in {crashes}"
    return f"the database was damaged: {violations_text(outcome)} in {crashes}"
