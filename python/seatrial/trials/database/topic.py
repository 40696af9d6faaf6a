"""Databases as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from seatrial.topic import Command, DocumentPart, Topic

if TYPE_CHECKING:
    from pathlib import Path

    from seatrial.findings.model import Summary
    from seatrial.findings.tile import Tile
    from seatrial.findings.verdict import VerdictPart
    from seatrial.machine.undo_journal import UndoJournal
    from seatrial.machine.undo_result import Undoer
    from seatrial.measure.descriptors import DescriptorNeed
    from seatrial.measure.engine import Driver
    from seatrial.measure.stage import AnyStage, StageRequest
    from seatrial.report.exports.csv_table import Field
    from seatrial.report.part import Detail, PagePart
    from seatrial.report.table import Table
    from seatrial.stats.model import CellSummary, Estimate
    from seatrial.study.cell import Cell, FactorValue
    from seatrial.study.files import FileLookup
    from seatrial.study.model import Plan, PlannedTarget, TargetInfo
    from seatrial.study.problems import ConstraintError
    from seatrial.study.sampled import SampledWorkload
    from seatrial.study.schema import Study
    from seatrial.topic import AnalysisInput
    from seatrial.trials.database.analysis.model import DatabaseAnalysis

# ruff: noqa: PLC0415 - a topic is imported by every command, and most need nothing of it


class DatabaseTopic(Topic):
    """Databases: a server under load, its bottleneck, and durability after a crash."""

    name = "database"
    comes_last = True
    has_server = True
    space_phrase = "databases"
    shows_io = False
    has_named_operation = False
    own_quantities = MappingProxyType(
        {
            "real": "Only batches have real_s; use p99_ms or another percentile",
            "tps": "Only databases have tps; use iops",
        }
    )
    key_charts = (
        "timeline-",
        "database-time",
        "database-latency",
        "database-tps",
        "database-sweep",
    )
    commands = MappingProxyType(
        {
            "db": Command(
                "Measure PostgreSQL on storage: transactions, their limits, crash trials.",
                "seatrial.trials.database.commands:command",
                section="Databases",
            ),
        }
    )

    def workloads(self) -> tuple[type[SampledWorkload], ...]:
        """Return ``pgbench``, ``telemetry``, ``batch``, ``crash`` and ``replay``."""
        from seatrial.trials.database.study.workloads import (
            Batch,
            Crash,
            Pgbench,
            Replay,
            Telemetry,
        )

        return (Pgbench, Telemetry, Batch, Crash, Replay)

    def check(self, study: Study) -> Iterator[ConstraintError]:
        """Yield violated constraints between the keys of databases."""
        from seatrial.trials.database.study.check import check_databases

        return check_databases(study)

    def substitute_for_quantity(self, quantity: str, workload: SampledWorkload) -> str:
        """Return what a batch or a database offers in place of a quantity."""
        if workload.kind == "batch":
            wanted = quantity in ("real", "stalls", "stall_max", "errors")
            return "" if wanted else "Thresholds of a batch are real_s and errors"
        if quantity in ("iops", "bandwidth"):
            return "Thresholds of a database are tps and response times such as p99_ms"
        if quantity == "real":
            return self.own_quantities["real"]
        return super().substitute_for_quantity(quantity, workload)

    def why_single_host(self, workload: SampledWorkload) -> str:
        """Return why several hosts cannot measure a workload: only pgbench runs on many."""
        if workload.kind in ("pgbench", "telemetry"):
            return ""
        if workload.kind == "replay":
            return "sessions of a trace are divided by `seatrial sql replay --ray`"
        return f"a {workload.kind} is that of one machine"

    def stage(self, request: StageRequest) -> AnyStage | None:
        """Return a stage of several hosts, for servers of a study that has some; else None."""
        hosts = request.plan.study.hosts
        if not hosts or not any(
            cell.kind in ("pgbench", "telemetry") for cell in request.plan.cells
        ):
            return None
        from seatrial.trials.database.measure.hosts import stage_of_host_load

        return stage_of_host_load(request, hosts)

    def with_files(self, workload: SampledWorkload, files: FileLookup) -> SampledWorkload:
        """Return a workload with its scripts, traces and snapshots as paths from the root."""
        from seatrial.trials.database.study.files import with_database_files

        return with_database_files(workload, files)

    def obstacle(self, workload: SampledWorkload, target: PlannedTarget) -> str:
        """Return why a workload cannot run on a target: a database needs a directory."""
        del workload
        if target.kind not in ("directory", "database"):
            return f"a database needs a directory, but the target is a {target.kind}"
        return ""

    def cells(
        self, workload: SampledWorkload, target: PlannedTarget, study: Study, *, prefix: str
    ) -> Iterator[Cell]:
        """Yield the cells of a workload: every combination of its factors' values."""
        from seatrial.trials.database.study.cells import database_cells_of
        from seatrial.trials.database.study.workloads import OnDatabase

        del study
        return database_cells_of(cast(OnDatabase, workload), target, prefix=prefix)

    def usual_factors(self, cell: Cell) -> dict[str, FactorValue]:
        """Return what a database cell leaves out."""
        from seatrial.trials.database.study.cells import usual_factors_of

        return usual_factors_of(cell)

    def left_out(
        self,
        study: Study,
        target: PlannedTarget,
        info: TargetInfo,
        cells: Sequence[Cell],
        used_bytes: int,
    ) -> Iterator[tuple[SampledWorkload, str]]:
        """Yield optional workloads for which PostgreSQL or free space is missing."""
        from seatrial.trials.database.study.cells import databases_left_out

        return databases_left_out(study, target, info, cells, used_bytes)

    def notes(
        self, study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]
    ) -> Iterator[str]:
        """Yield notes on durability, batches and replays."""
        from seatrial.trials.database.study.cost import notes_on_databases

        del targets
        return notes_on_databases(study, cells)

    def sample_s(self, cell: Cell) -> float:
        """Return the time of a sample, including server start and data copy."""
        from seatrial.trials.database.study.cost import sample_s

        return sample_s(cell)

    def sample_write_bytes(self, cell: Cell) -> int:
        """Return what a sample is assumed to write; a server has no write limit."""
        from seatrial.trials.database.study.cost import sample_write_bytes

        return sample_write_bytes(cell)

    def preparation_s(self, cells: Sequence[Cell]) -> float:
        """Return the time to load the data once (s)."""
        from seatrial.trials.database.study.cost import preparation_s

        return preparation_s(cells)

    def preparation_write_bytes(self, cells: Sequence[Cell]) -> int:
        """Return what loading the data once writes."""
        from seatrial.trials.database.study.cost import preparation_write_bytes

        return preparation_write_bytes(cells)

    def space_bytes(self, cells: Sequence[Cell]) -> int:
        """Return the space that the databases of one target need."""
        from seatrial.trials.database.study.cost import database_cells, space_bytes
        from seatrial.trials.database.study.workloads import spec_of

        return space_bytes([spec_of(cell.spec) for cell in database_cells(cells)])

    def worker_of(self, cell: Cell) -> str:
        """Return ``client``, or ``session`` for a replay."""
        return "session" if cell.kind == "replay" else "client"

    def sample_phrase(self, cells: Sequence[Cell]) -> str:
        """Return the duration of a batch or a replay in words."""
        from seatrial.trials.replay.study.cells import replay_sample

        if cells[0].kind == "replay":
            return replay_sample(cells)
        lasts = {cell.parsed.duration_s for cell in cells}
        return "until done" if cells[0].kind == "batch" and len(lasts) == 1 else ""

    def plan_phrase(self, cell: Cell) -> list[str]:
        """Return the size of a trace, and the settings that all cells have in common."""
        from seatrial.trials.database.study.cells import fixed_settings
        from seatrial.trials.replay.study.cells import trace_text

        return [*trace_text(cell), *fixed_settings(cell)]

    def assumed_phrase(self, cells: Sequence[Cell]) -> str:
        """Return the assumption on a database's writes."""
        from seatrial.trials.database.study.cost import ASSUMED_WRITES, database_cells

        return ASSUMED_WRITES if database_cells(cells) else ""

    def prints_factor_name(self, cell: Cell, factor: str) -> bool:
        """Return whether a factor is a setting of the server."""
        from seatrial.trials.database.study.cells import OWN_FACTORS

        del cell
        return factor not in OWN_FACTORS

    def has_fixed_work(self, cell: Cell) -> bool:
        """Return whether a cell is a batch or replays a trace."""
        return cell.kind in ("batch", "replay")

    def driver(self, plan: Plan, journal: UndoJournal, side: Path | None) -> Driver:
        """Return what starts the servers of a plan."""
        from seatrial.trials.database.measure.stage import Databases

        return Databases(plan, journal, side)

    def descriptors(self, cell: Cell) -> DescriptorNeed:
        """Return the descriptors for client connections and server files."""
        from seatrial.trials.database.measure.descriptors import descriptors

        return descriptors(cell)

    def command_for(self, cell: Cell) -> str:
        """Return the command that measures one such cell: for databases or for replays."""
        return "seatrial sql replay" if self.plays_trace(cell) else "seatrial db"

    def plays_trace(self, cell: Cell) -> bool:
        """Return whether a cell is a replay."""
        return cell.kind == "replay"

    def judges_rounds(self, cell: Cell) -> bool:
        """Return whether a cell is a crash trial, whose rate is of no interest."""
        return cell.kind == "crash"

    def undoers(self) -> Mapping[str, Undoer]:
        """Return how servers are stopped, and their accounts and folders removed."""
        from seatrial.postgres.undoing import POSTGRES_UNDOERS

        return POSTGRES_UNDOERS

    def request_noun(self, cell: Cell) -> str:
        """Return ``transactions``, or ``statements`` for a replay."""
        return "statements" if cell.kind == "replay" else "transactions"

    def tables(self, summary: Summary) -> list[Table]:
        """Return the tables of a run's databases."""
        from seatrial.trials.database.report.tables import database_tables

        return list(database_tables(summary))

    def part(self, summary: Summary, detail: Detail) -> PagePart:
        """Return the section on a run's databases."""
        from seatrial.trials.database.report.section import database_part

        return database_part(summary, detail)

    def columns(self, summary: Summary) -> dict[str, dict[str, Field]]:
        """Return server, start state, bound and the driver's totals."""
        from seatrial.trials.database.report.section import database_columns

        return database_columns(summary)

    def markdown(self, summary: Summary) -> list[str]:
        """Return where the time goes, and the gain of a larger cache."""
        from seatrial.report.exports.markdown import sentences_part
        from seatrial.stats.wording import format_cell
        from seatrial.trials.database.analysis.model import database_of

        found = database_of(summary)
        if found is None:
            return []
        bounds = [f"{format_cell(cell.cell)}: {cell.verdict.sentence}" for cell in found.cells]
        caches = [f"{sweep.target}, {sweep.workload}: {sweep.sentence}" for sweep in found.sweeps]
        return [
            *sentences_part("Where the databases' time goes", bounds),
            *sentences_part("Gain of a larger cache", caches),
        ]

    def tiles(self, cells: Sequence[CellSummary], analyses: Mapping[str, Any]) -> list[Tile]:
        """Return rate and tail latency of the representative test of a target."""
        from seatrial.trials.database.analysis.first_screen import database_tiles

        return database_tiles(cells, analyses)

    def verdict_line(self, summary: Summary) -> str:
        """Return the verdict of crash trials and replays, or the rate of a database alone."""
        from seatrial.trials.database.analysis.first_screen import database_verdict

        return database_verdict(summary)

    def headline(
        self,
        cells: Sequence[CellSummary],
        everywhere: Sequence[CellSummary],
        analyses: Mapping[str, Any],
    ) -> VerdictPart | None:
        """Return the headline of a target's database; None if nothing completed."""
        from seatrial.findings.verdict import VerdictPart
        from seatrial.trials.database.analysis.headline import headline, headline_cell

        best = headline_cell(cells, everywhere)
        found: DatabaseAnalysis | None = analyses.get(self.name)
        bounds = {part.cell.key: part.verdict.bound for part in found.cells} if found else {}
        return VerdictPart(headline(best, bounds, cells), (best,)) if best else None

    def exit_code(self, summary: Summary) -> int:
        """Return 12 if transactions were lost, 4 if a batch failed in a round."""
        from seatrial.errors import EXIT_PARTIAL, EXIT_TRANSACTIONS_LOST

        if any(finding.kind == "transactions_lost" for finding in summary.findings):
            return EXIT_TRANSACTIONS_LOST
        failed = any(cell.cell.operation == "batch" and cell.failed for cell in summary.cells)
        return EXIT_PARTIAL if failed else 0

    def document_part(self) -> DocumentPart:
        """Return the topic's part of documents."""
        from seatrial.trials.database.analysis.model import DatabaseAnalysis, database_of

        return DocumentPart(
            "database",
            DatabaseAnalysis | None,
            "Analysis of the run's database cells; None if there are none.",
            database_of,
        )

    def analyse(self, measured: AnalysisInput) -> DatabaseAnalysis | None:
        """Return the analysis of a run's database cells; replays are analysed before."""
        from seatrial.trials.database.analysis.cells import analyse

        replays = measured.analyses.get("replay", [])
        return analyse(measured.run, measured.cells, replays)

    def analysis_without(
        self, analysis: DatabaseAnalysis, keys: Collection[str]
    ) -> DatabaseAnalysis:
        """Return the analysis without some cells; cache size sweeps stay."""
        import msgspec

        cells = [cell for cell in analysis.cells if cell.cell.key not in keys]
        return msgspec.structs.replace(analysis, cells=cells)

    def own_estimate(
        self, quantity: str, summary: CellSummary, analyses: Mapping[str, Any]
    ) -> Estimate | str | None:
        """Return transactions per second, or the elapsed time of a batch."""
        from seatrial.trials.database.analysis.headline import database_figure

        del analyses
        return database_figure(quantity, summary)


TOPIC = DatabaseTopic()
