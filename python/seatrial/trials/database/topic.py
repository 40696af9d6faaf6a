"""Databases as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from seatrial.topic import Topic

if TYPE_CHECKING:
    from pathlib import Path

    from seatrial.findings.model import Summary
    from seatrial.machine.undo import UndoJournal
    from seatrial.machine.undoer import Undoer
    from seatrial.measure.descriptors import DescriptorNeed
    from seatrial.measure.driver import Driver
    from seatrial.report.exports.csv_row import Field
    from seatrial.report.part import Detail, PagePart
    from seatrial.report.table import Table
    from seatrial.stats.model import CellSummary, Estimate
    from seatrial.study.cell import Cell, FactorValue
    from seatrial.study.files import Finder
    from seatrial.study.model import Plan, PlannedTarget, TargetInfo
    from seatrial.study.problems import ConstraintError
    from seatrial.study.sampled import Sampled
    from seatrial.study.schema import Study
    from seatrial.topic import Measured
    from seatrial.trials.database.analysis.model import DatabaseAnalysis

# ruff: noqa: PLC0415 - a topic is imported by every command, and most need nothing of it


class DatabaseTopic(Topic):
    """Databases: a server under a load, its limits, and what a crash leaves of it."""

    name = "database"
    comes_last = True
    has_server = True
    says_operation = False
    own_quantities = MappingProxyType(
        {
            "real": "Only a batch has a real time; others have p99_ms and the like",
            "tps": "Only a database has tps; others have iops",
        }
    )

    def workloads(self) -> tuple[type[Sampled], ...]:
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
        """Yield what does not hold between the keys of databases."""
        from seatrial.trials.database.study.check import check_databases

        return check_databases(study)

    def without_quantity(self, quantity: str, workload: Sampled) -> str:
        """Return what a batch, or a database, keeps to in place of a quantity."""
        if workload.kind == "batch":
            wanted = quantity in ("real", "stalls", "stall_max", "errors")
            return "" if wanted else "A batch keeps to real_s, or to errors"
        if quantity in ("iops", "bandwidth"):
            return "A database has tps, and response times such as p99_ms"
        if quantity == "real":
            return self.own_quantities["real"]
        return super().without_quantity(quantity, workload)

    def with_files(self, workload: Sampled, files: Finder) -> Sampled:
        """Return a workload with its scripts, traces and snapshots as paths from the root."""
        from seatrial.trials.database.study.files import with_database_files

        return with_database_files(workload, files)

    def obstacle(self, workload: Sampled, target: PlannedTarget) -> str:
        """Return why a workload cannot run on a target: a database lies in a directory."""
        del workload
        if target.kind not in ("directory", "database"):
            return f"a database needs a directory to lie in, and the target is a {target.kind}"
        return ""

    def cells(
        self, workload: Sampled, target: PlannedTarget, study: Study, *, prefix: str
    ) -> Iterator[Cell]:
        """Yield the cells of a workload: every combination of its factors' values."""
        from seatrial.trials.database.study.cells import database_cells_of
        from seatrial.trials.database.study.workloads import OnDatabase

        del study
        return database_cells_of(cast(OnDatabase, workload), target, prefix=prefix)

    def usual_factors(self, cell: Cell) -> dict[str, FactorValue]:
        """Return what a database's cell leaves out."""
        from seatrial.trials.database.study.cells import usual_factors_of

        return usual_factors_of(cell)

    def left_out(
        self,
        study: Study,
        target: PlannedTarget,
        info: TargetInfo,
        cells: Sequence[Cell],
        used_bytes: int,
    ) -> Iterator[tuple[Sampled, str]]:
        """Yield optional workloads for which there is no PostgreSQL, or no room."""
        from seatrial.trials.database.study.optional import databases_left_out

        return databases_left_out(study, target, info, cells, used_bytes)

    def notes(
        self, study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]
    ) -> Iterator[str]:
        """Yield what is worth knowing of durability, batches and replays."""
        from seatrial.trials.database.study.notes import notes_on_databases

        del targets
        return notes_on_databases(study, cells)

    def sample_s(self, cell: Cell) -> float:
        """Return what a sample takes, with starting the server and copying its data."""
        from seatrial.trials.database.study.cost import sample_s

        return sample_s(cell)

    def sample_write_bytes(self, cell: Cell) -> int:
        """Return what a sample is assumed to write: a server keeps no limit."""
        from seatrial.trials.database.study.cost import sample_write_bytes

        return sample_write_bytes(cell)

    def preparing_s(self, cells: Sequence[Cell]) -> float:
        """Return what loading the data takes, once (s)."""
        from seatrial.trials.database.study.cost import preparing_s

        return preparing_s(cells)

    def preparing_write_bytes(self, cells: Sequence[Cell]) -> int:
        """Return what loading the data writes, once."""
        from seatrial.trials.database.study.cost import preparing_write_bytes

        return preparing_write_bytes(cells)

    def space_bytes(self, cells: Sequence[Cell]) -> int:
        """Return what the databases of one target take there."""
        from seatrial.trials.database.study.cost import database_cells, space_bytes
        from seatrial.trials.database.study.workloads import spec_of

        return space_bytes([spec_of(cell.spec) for cell in database_cells(cells)])

    def worker_of(self, cell: Cell) -> str:
        """Return ``client``, or ``session`` of what was captured."""
        return "session" if cell.kind == "replay" else "client"

    def sample_words(self, cells: Sequence[Cell]) -> str:
        """Return how long a batch or a replay lasts."""
        from seatrial.trials.replay.study.render import replay_sample

        if cells[0].kind == "replay":
            return replay_sample(cells)
        lasts = {float(cell.spec["limit"]["duration_s"]) for cell in cells}
        return "until done" if cells[0].kind == "batch" and len(lasts) == 1 else ""

    def plan_words(self, cell: Cell) -> list[str]:
        """Return how much is in a trace, and the settings that all cells have in common."""
        from seatrial.trials.database.study.cells import fixed_settings
        from seatrial.trials.replay.study.render import trace_words

        return [*trace_words(cell), *fixed_settings(cell)]

    def assumed_words(self, cells: Sequence[Cell]) -> str:
        """Return what is assumed of a database's writes."""
        from seatrial.trials.database.study.cost import ASSUMED_WRITES, database_cells

        return ASSUMED_WRITES if database_cells(cells) else ""

    def names_plainly(self, cell: Cell, factor: str) -> bool:
        """Return whether a factor is a setting of the server."""
        from seatrial.trials.database.study.cells import OWN_FACTORS

        del cell
        return factor not in OWN_FACTORS

    def has_given_work(self, cell: Cell) -> bool:
        """Return whether a cell is a batch or plays a trace."""
        return cell.kind in ("batch", "replay")

    def driver(self, plan: Plan, journal: UndoJournal, side: Path | None) -> Driver:
        """Return what starts the servers of a plan."""
        from seatrial.trials.database.measure.stage import Databases

        return Databases(plan, journal, side)

    def descriptors(self, cell: Cell) -> DescriptorNeed:
        """Return the connections of the clients, and the files of a server."""
        from seatrial.trials.database.measure.descriptors import descriptors

        return descriptors(cell)

    def command_for(self, cell: Cell) -> str:
        """Return the command that measures one such cell alone: that of databases or of replays."""
        return "seatrial sql replay" if self.plays_trace(cell) else "seatrial db"

    def plays_trace(self, cell: Cell) -> bool:
        """Return whether a cell is a replay."""
        return cell.kind == "replay"

    def judges_rounds(self, cell: Cell) -> bool:
        """Return whether a cell is a crash trial, of which not the rate is asked."""
        return cell.kind == "crash"

    def undoers(self) -> Mapping[str, Undoer]:
        """Return how servers are ended, and their accounts and folders removed."""
        from seatrial.postgres.undoing import POSTGRES_UNDOERS

        return POSTGRES_UNDOERS

    def request_noun(self, cell: Cell) -> str:
        """Return ``transactions``, or ``statements`` of what was captured."""
        return "statements" if cell.kind == "replay" else "transactions"

    def tables(self, summary: Summary) -> list[Table]:
        """Return rates, times and crashes of a run's databases."""
        from seatrial.trials.database.report.tables import database_tables

        return list(database_tables(summary))

    def part(self, summary: Summary, detail: Detail) -> PagePart:
        """Return the section on a run's databases."""
        from seatrial.trials.database.report.section import database_part

        return database_part(summary, detail)

    def columns(self, summary: Summary) -> dict[str, dict[str, Field]]:
        """Return server, state, bound and the driver's own totals."""
        from seatrial.trials.database.report.csv import database_columns

        return database_columns(summary)

    def markdown(self, summary: Summary) -> list[str]:
        """Return what the time went into, and what a larger cache gives."""
        from seatrial.report.exports.markdown import sentences_part
        from seatrial.stats.wording import format_cell
        from seatrial.trials.database.analysis.model import database_of

        found = database_of(summary)
        if found is None:
            return []
        bounds = [f"{format_cell(each.cell)}: {each.verdict.sentence}" for each in found.cells]
        caches = [f"{each.target}, {each.workload}: {each.sentence}" for each in found.sweeps]
        return [
            *sentences_part("What the databases' time went into", bounds),
            *sentences_part("What a larger cache gives", caches),
        ]

    def analyse(self, measured: Measured) -> DatabaseAnalysis | None:
        """Return what is particular to a run's database cells; replays have been analysed."""
        from seatrial.trials.database.analysis.analyse import analyse

        replays = measured.analyses.get("replay", [])
        return analyse(measured.run, measured.cells, replays)

    def analysis_without(
        self, analysis: DatabaseAnalysis, keys: Collection[str]
    ) -> DatabaseAnalysis:
        """Return the analysis less some cells; what sizes of caches say stays."""
        import msgspec

        cells = [each for each in analysis.cells if each.cell.key not in keys]
        return msgspec.structs.replace(analysis, cells=cells)

    def figure(
        self, quantity: str, summary: CellSummary, analyses: Mapping[str, Any]
    ) -> Estimate | str | None:
        """Return transactions per second, or the real time of a batch."""
        from seatrial.trials.database.analysis.thresholds import database_figure

        del analyses
        return database_figure(quantity, summary)


TOPIC = DatabaseTopic()
