"""Caches as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from seatrial.topic import Command, DocumentPart, Topic

if TYPE_CHECKING:
    from pathlib import Path

    from seatrial.findings.model import Summary
    from seatrial.machine.undo_journal import UndoJournal
    from seatrial.machine.undo_result import Undoer
    from seatrial.measure.engine import Driver
    from seatrial.report.exports.csv_table import Field
    from seatrial.report.part import Detail, PagePart
    from seatrial.report.table import Table
    from seatrial.study.cell import Cell, FactorValue
    from seatrial.study.model import Plan, PlannedTarget
    from seatrial.study.problems import ConstraintError
    from seatrial.study.sampled import SampledWorkload
    from seatrial.study.schema import Study
    from seatrial.topic import AnalysisInput
    from seatrial.trials.cache.analysis.warm_up import CacheAnalysis

# ruff: noqa: PLC0415 - every command imports all topics, and most commands use none of this


class CacheTopic(Topic):
    """Caches in front of storage: predicted for a recorded load, and measured."""

    name = "cache"
    charts_first = True
    space_phrase = "files of the pool's disks"
    shows_io = False
    key_charts = ("cache-warm-up", "cache-tiers", "cache-memory")
    commands = MappingProxyType(
        {
            "cache": Command(
                "Predict the effect of more memory or an SSD cache.",
                "seatrial.trials.cache.commands.cache:command",
                after="trace",
            ),
        }
    )

    def workloads(self) -> tuple[type[SampledWorkload], ...]:
        """Return ``l2arc``."""
        from seatrial.trials.cache.study.workload import L2arc

        return (L2arc,)

    def check(self, study: Study) -> Iterator[ConstraintError]:
        """Yield what no pool can be built with."""
        from seatrial.trials.cache.study.cells import check_l2arc

        return check_l2arc(study)

    def obstacle(self, workload: SampledWorkload, target: PlannedTarget) -> str:
        """Return why a workload cannot run on a target: images of disks need a directory."""
        del workload
        if target.layout:
            return "its pool has disks of its own"
        if target.kind != "directory":
            return f"the images of its disks need a directory, but the target is a {target.kind}"
        return ""

    def cells(
        self, workload: SampledWorkload, target: PlannedTarget, study: Study, *, prefix: str
    ) -> Iterator[Cell]:
        """Yield the cells of a workload: every combination of its factors' values."""
        from seatrial.trials.cache.study.cells import cells_of_l2arc
        from seatrial.trials.cache.study.workload import L2arc

        del study
        return cells_of_l2arc(cast(L2arc, workload), target, prefix=prefix)

    def usual_factors(self, cell: Cell) -> dict[str, FactorValue]:
        """Return the factors that a cell leaves out."""
        from seatrial.trials.cache.study.cells import USUAL

        del cell
        return dict(USUAL)

    def notes(
        self, study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]
    ) -> Iterator[str]:
        """Yield what a pool changes on this machine, and why it cannot be built here."""
        from seatrial.trials.cache.study.cells import notes_on_pools

        del study, targets
        return notes_on_pools(cells)

    def sample_s(self, cell: Cell) -> float:
        """Return the time of a sample, including its pool."""
        from seatrial.trials.cache.study.cells import sample_s

        return sample_s(cell)

    def sample_write_bytes(self, cell: Cell) -> int:
        """Return what a sample writes: the file, and what is cached."""
        from seatrial.trials.cache.study.cells import sample_write_bytes

        return sample_write_bytes(cell)

    def space_bytes(self, cells: Sequence[Cell]) -> int:
        """Return the space of the images of one pool."""
        from seatrial.trials.cache.study.cells import space_bytes

        return space_bytes(cells)

    def worker_of(self, cell: Cell) -> str:
        """Return ``client``."""
        del cell
        return "client"

    def plan_phrase(self, cell: Cell) -> list[str]:
        """Return disks, file, ARC and cache device of a pool."""
        from seatrial.trials.cache.study.cells import plan_phrase

        return plan_phrase(cell)

    def driver(self, plan: Plan, journal: UndoJournal, side: Path | None) -> Driver:
        """Return what builds the pools of a plan."""
        from seatrial.trials.cache.measure.trial import PoolDriver

        del side
        return PoolDriver(plan, journal)

    def undoers(self) -> Mapping[str, Undoer]:
        """Return how the daemon of a pool is ended."""
        from seatrial.trials.cache.measure.undoing import POOL_UNDOERS

        return POOL_UNDOERS

    def command_for(self, cell: Cell) -> str:
        """Return the command that measures one such cell alone."""
        del cell
        return "seatrial study l2arc"

    def analyse(self, measured: AnalysisInput) -> CacheAnalysis | None:
        """Return the warm-up of each pool and how good its prediction was."""
        from seatrial.trials.cache.analysis.warm_up import analyse_caches

        return analyse_caches(measured.cells)

    def analysis_without(self, analysis: CacheAnalysis, keys: Collection[str]) -> CacheAnalysis:
        """Return the analysis without some cells; the table of rows stays."""
        import msgspec

        cells = [each for each in analysis.cells if each.cell.key not in keys]
        return msgspec.structs.replace(analysis, cells=cells)

    def document_part(self) -> DocumentPart:
        """Return the topic's part of documents."""
        from seatrial.trials.cache.analysis.warm_up import CacheAnalysis, cache_analysis_of

        return DocumentPart(
            "cache_devices",
            CacheAnalysis | None,
            "Warm-up of the run's cache devices with its prediction; None if it has none.",
            cache_analysis_of,
        )

    def tables(self, summary: Summary) -> list[Table]:
        """Return the table with and without a cache device, and those of the predictions."""
        from seatrial.trials.cache.analysis.warm_up import cache_analysis_of
        from seatrial.trials.cache.report.pool_tables import pool_tables

        found = cache_analysis_of(summary)
        return pool_tables(found) if found else []

    def part(self, summary: Summary, detail: Detail) -> PagePart:
        """Return the section on a run's cache devices."""
        from seatrial.trials.cache.report.pool_section import pool_part

        return pool_part(summary, detail)

    def columns(self, summary: Summary) -> dict[str, dict[str, Field]]:
        """Return warm-up times, measured and predicted."""
        from seatrial.trials.cache.report.pool_section import pool_columns

        return pool_columns(summary)

    def markdown(self, summary: Summary) -> list[str]:
        """Return how good the predictions were."""
        from seatrial.report.exports.markdown import sentences_part
        from seatrial.trials.cache.analysis.warm_up import cache_analysis_of
        from seatrial.trials.cache.report.pool_phrases import misses_of_bounds, sentences

        found = cache_analysis_of(summary)
        return (
            sentences_part("Cache device", [*sentences(found), *misses_of_bounds(found)])
            if found
            else []
        )

    def answers(self, analyses: Mapping[str, Any]) -> list[str]:
        """Return what the cache device gives, and how good the prediction was."""
        from seatrial.stats.wording import capitalized
        from seatrial.trials.cache.report.pool_phrases import sentences, verdict_phrase

        found: CacheAnalysis | None = analyses.get(self.name)
        return [f"{capitalized(verdict_phrase(found))}.", *sentences(found)] if found else []

    def verdict_line(self, summary: Summary) -> str:
        """Return what the cache device gives."""
        from seatrial.trials.cache.analysis.warm_up import cache_analysis_of
        from seatrial.trials.cache.report.pool_phrases import verdict_phrase

        found = cache_analysis_of(summary)
        return verdict_phrase(found) if found else ""


TOPIC = CacheTopic()
