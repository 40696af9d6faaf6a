"""The protocol that every topic of trials implements, and the one list of all topics.

Read this file first to add a topic. A topic is a folder below ``trials/`` whose module ``topic``
holds a :class:`Topic` called ``TOPIC``; nothing outside that folder names it. Another distribution
adds a topic as an entry point of the group ``seatrial.topics``.

Every method has a default that does nothing. Methods import what they need when they are called,
so that no command loads a topic that it does not use.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType, ModuleType, UnionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path

    from seatrial.errors import UsageError
    from seatrial.findings.model import Summary
    from seatrial.findings.tile import Tile
    from seatrial.findings.verdict import Overview, VerdictPart
    from seatrial.machine.undo_journal import UndoJournal
    from seatrial.machine.undo_result import Undoer
    from seatrial.measure.descriptors import DescriptorNeed
    from seatrial.measure.engine import Driver, SampleContext
    from seatrial.measure.recorder import Strategy
    from seatrial.measure.stage import AnyStage, StageRequest
    from seatrial.report.exports.csv_table import Field
    from seatrial.report.figures.model import Figure
    from seatrial.report.part import Detail, PagePart
    from seatrial.report.table import Table
    from seatrial.results.model import Run, Sample
    from seatrial.stats.compare.model import SideSamples
    from seatrial.stats.compare.pairing import MatchedCells
    from seatrial.stats.model import CellSummary, Estimate
    from seatrial.study.cell import Cell, FactorValue
    from seatrial.study.files import FileLookup
    from seatrial.study.model import Plan, PlannedTarget, TargetInfo, TrialFile
    from seatrial.study.problems import ConstraintError
    from seatrial.study.sampled import SampledWorkload
    from seatrial.study.schema import Study

TOPICS: Final = (
    "loadline",
    "io",
    "layouts",
    "replay",
    "database",
    "audit",
    "watch",
    "cache",
    "plan",
    "filebench",
    "fleet",
)
"""Folders below ``trials/``, in the order in which a page shows them."""

ENTRY_POINTS: Final = "seatrial.topics"


class AnalysisInput(NamedTuple):
    """What a topic analyses.

    Attributes:
        run: The run, with the fingerprint of the machine.
        cells: All cells of the run, in the order of the plan.
        study: The run's study; None where it was imported, or written by another version.
        analyses: What earlier topics in the list returned from ``analyse``, by name.
    """

    run: Run
    cells: Sequence[CellSummary]
    study: Study | None
    analyses: Mapping[str, Any]


class Command(NamedTuple):
    """A command of the command line that a topic adds.

    Attributes:
        help: Its line in `seatrial --help`.
        where: Module and attribute of the click command, such as ``my.commands:command``; it is
            imported when the command is called.
        after: The command that it is listed after.
        section: Heading that it is listed under in `seatrial --help`; by default that of ``after``.
    """

    help: str
    where: str
    after: str = "study"
    section: str = ""


class DocumentPart(NamedTuple):
    """A topic's part of the document of a run.

    Attributes:
        name: Its key.
        type: Type of its value.
        meaning: Its description in the schema.
        value_of: Returns the value.
    """

    name: str
    type: Any
    meaning: str
    value_of: Callable[[Summary], Any]


class Topic:
    """A topic of trials: how its part of a study is parsed, measured, analysed and shown.

    A first topic needs ``name``, ``titles``, ``workloads``, ``cells``, and ``measure`` or
    ``driver``; everything else has a default.

    Attributes:
        name: The name of its folder.
        in_rounds: Whether its cells are measured in the rounds; otherwise each is measured on its
            own after the rounds.
        after_rounds_samples_max: The most samples of a cell that is measured after the rounds.
        comes_last: Whether its cells come last in a round, so that the write-back and cache
            contents that they leave do not affect short samples.
        loads_storage: Whether its cells put our own load on storage, so that other writers there
            disturb them.
        has_server: Whether a server answers its cells, in place of the target itself.
        shows_io: Whether the first screen shows its tests as block I/O.
        charts_first: Whether its charts come before those of other topics.
        has_named_operation: Whether its cells perform a named operation: read, write, commit and
            the like.
        rate_unit: Unit of its cells' rates, such as ``requests/s``; empty for ``IOPS``,
            ``commits/s`` and the like, depending on the operation.
        titles: Headings of the tables of its kinds of workload, in display order; a kind without
            one has only the tables that ``tables`` returns.
        recorded_kinds: Kinds of cells that hold recorded activity of other programs; no study
            declares them.
        own_quantities: Quantities of thresholds that only this topic's workloads have, each with
            the message for a workload that lacks it.
        space_phrase: What takes the space that its cells use, such as ``databases``.
        key_charts: Beginnings of the ids of its charts that matter most, most important first.
        commands: Its commands of the command line, by name.
        observer: Module that ``--live`` runs to show a run while it is measured; if several
            topics define one, the first is used. `seatrial.cli.live` describes it.
    """

    name: str = ""
    in_rounds: bool = True
    after_rounds_samples_max: int = 0
    comes_last: bool = False
    loads_storage: bool = False
    has_server: bool = False
    shows_io: bool = True
    charts_first: bool = False
    has_named_operation: bool = True
    rate_unit: str = ""
    titles: Mapping[str, str] = MappingProxyType({})
    recorded_kinds: tuple[str, ...] = ()
    own_quantities: Mapping[str, str] = MappingProxyType({})
    space_phrase: str = ""
    key_charts: tuple[str, ...] = ()
    commands: Mapping[str, Command] = MappingProxyType({})
    observer: str = ""

    # The study: its keys and its cells.

    def workloads(self) -> tuple[type[SampledWorkload], ...]:
        """Return the kinds of ``[[workload]]``, each a structure with the kind as its tag."""
        return ()

    def check(self, study: Study) -> Iterator[ConstraintError]:
        """Yield violated constraints between the keys of a study, with paths from its top."""
        yield from ()

    def substitute_for_quantity(self, quantity: str, workload: SampledWorkload) -> str:
        """Return what a workload has instead of a threshold's quantity; empty if it has it."""
        del workload
        others = (each.own_quantities.get(quantity, "") for each in topics() if each is not self)
        return next(filter(None, others), "")

    def with_files(self, workload: SampledWorkload, files: FileLookup) -> SampledWorkload:
        """Return a workload with the files that it names as absolute paths.

        Raises:
            ConstraintError: when a file does not exist or cannot be used.
        """
        del files
        return workload

    def obstacle(self, workload: SampledWorkload, target: PlannedTarget) -> str:
        """Return why a workload cannot run on a target; empty if it can."""
        del workload, target
        return ""

    def cells(
        self, workload: SampledWorkload, target: PlannedTarget, study: Study, *, prefix: str
    ) -> Iterator[Cell]:
        """Yield the cells of a workload on a target, in study order.

        Args:
            workload: One of the topic's.
            target: A target for which ``obstacle`` is empty.
            study: The whole study.
            prefix: The beginning of every key.
        """
        del workload, target, study, prefix
        yield from ()

    def is_possible(self, cell: Cell, workload: SampledWorkload, target: PlannedTarget) -> bool:
        """Return whether a target can run a cell; False where it may be left out, else raise."""
        del cell, workload, target
        return True

    def usual_factors(self, cell: Cell) -> dict[str, FactorValue]:
        """Return the usual values of factors; a cell with such a value does not name the factor."""
        del cell
        return {}

    def files(self, target: PlannedTarget, cells: Sequence[Cell]) -> Iterator[TrialFile]:
        """Yield the files that the cells of a target need there."""
        del target, cells
        yield from ()

    def check_plan(
        self, targets: Sequence[PlannedTarget], cells: Sequence[Cell], files: Sequence[TrialFile]
    ) -> None:
        """Raise if the cells of a plan as a whole are invalid."""

    def left_out(
        self,
        study: Study,
        target: PlannedTarget,
        info: TargetInfo,
        cells: Sequence[Cell],
        used_bytes: int,
    ) -> Iterator[tuple[SampledWorkload, str]]:
        """Yield optional workloads that a target cannot run, each with the reason.

        Args:
            study: The study.
            target: The target.
            info: What is known of the target.
            cells: Its cells.
            used_bytes: The size of its trial files.
        """
        del study, target, info, cells, used_bytes
        yield from ()

    def notes(
        self, study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]
    ) -> Iterator[str]:
        """Yield what a user should know about a plan before it is measured, as sentences."""
        del study, targets, cells
        yield from ()

    # The plan: time, space and bytes written.

    def has_fixed_work(self, cell: Cell) -> bool:
        """Return whether a sample does a fixed amount of work, however long it takes."""
        del cell
        return False

    def comes_first(self, cell: Cell) -> bool:
        """Return whether a cell comes first in a round, such as one that fills the target."""
        del cell
        return False

    def why_single_host(self, workload: SampledWorkload) -> str:
        """Return why a workload cannot be measured by several hosts; empty if it can."""
        del workload
        return "its load is made by one machine"

    def sample_s(self, cell: Cell) -> float:
        """Return the expected duration of one sample of a cell (s)."""
        return cell.parsed.duration_s

    def sample_write_bytes(self, cell: Cell) -> int:
        """Return the most bytes that one sample of a cell writes to storage."""
        del cell
        return 0

    def written_bytes(self, sample: Sample) -> int:
        """Return the bytes that a sample wrote; the most that it may write if not counted."""
        if not self.loads_storage:
            return self.sample_write_bytes(sample.cell)
        if sample.cell.parsed.target.kind in ("null", "simulated"):
            return 0
        parts = sample.operations.items()
        return sum(part.transferred_bytes for name, part in parts if name != "read")

    def after_rounds_s(self, plan: Plan, cell: Cell) -> float:
        """Return the most time that a cell measured after the rounds may take (s)."""
        del plan, cell
        return 0.0

    def preparation_s(self, cells: Sequence[Cell]) -> float:
        """Return the time to prepare these cells once before the first round (s)."""
        del cells
        return 0.0

    def preparation_write_bytes(self, cells: Sequence[Cell]) -> int:
        """Return the bytes written once before the first round of these cells."""
        del cells
        return 0

    def space_bytes(self, cells: Sequence[Cell]) -> int:
        """Return the space that the cells of one target use there, excluding trial files."""
        del cells
        return 0

    def worker_of(self, cell: Cell) -> str:
        """Return what a cell runs several of at once, such as ``thread``."""
        del cell
        return "thread"

    def sample_phrase(self, cells: Sequence[Cell]) -> str:
        """Return how long a sample of a workload lasts where that is not a number of seconds."""
        del cells
        return ""

    def plan_phrase(self, cell: Cell) -> list[str]:
        """Return what a plan prints for a workload after its factors, from its first cell."""
        del cell
        return []

    def assumed_phrase(self, cells: Sequence[Cell]) -> str:
        """Return what a plan assumes about the bytes that these cells write; empty for nothing."""
        del cells
        return ""

    def prints_factor_name(self, cell: Cell, factor: str) -> bool:
        """Return whether a plan prints a factor by its own name, as for settings of a server."""
        del cell, factor
        return False

    # Analysis and report of a run.

    def analyse(self, measured: AnalysisInput) -> object:
        """Return the topic's analysis of its cells, as plain data; None if it has none.

        It is stored in ``Summary.analyses`` by the topic's name, and printed by ``--json``.
        """
        del measured
        return None

    def analysis_without(self, analysis: Any, keys: Collection[str]) -> Any:  # noqa: ANN401
        """Return an analysis without the cells of some keys."""
        del keys
        return analysis

    def own_estimate(
        self, quantity: str, summary: CellSummary, analyses: Mapping[str, Any]
    ) -> Estimate | str | None:
        """Return a cell's figure of one of the topic's own quantities, or why there is none.

        None where the quantity or cell is not the topic's.
        """
        del quantity, summary, analyses
        return None

    def request_noun(self, cell: Cell) -> str:
        """Return the name of a cell's requests, such as ``transactions``."""
        del cell
        return "requests"

    def target_noun(self, summary: CellSummary) -> str:
        """Return what the target of a cell is called; empty for a plain target."""
        del summary
        return ""

    def answers(self, analyses: Mapping[str, Any]) -> list[str]:
        """Return the first sentences of a verdict, which cover all of the topic's cells."""
        del analyses
        return []

    def overview(
        self, cells: Sequence[CellSummary], analyses: Mapping[str, Any]
    ) -> Overview | None:
        """Return the verdict on the topic's cells of all targets together."""
        del cells, analyses
        return None

    def headline(
        self,
        cells: Sequence[CellSummary],
        everywhere: Sequence[CellSummary],
        analyses: Mapping[str, Any],
    ) -> VerdictPart | None:
        """Return the beginning of the verdict on one target, where it has cells of the topic.

        Args:
            cells: Cells of the target in which something completed.
            everywhere: Cells of all targets.
            analyses: The analyses of the run by topic.
        """
        del cells, everywhere, analyses
        return None

    def tiles(self, cells: Sequence[CellSummary], analyses: Mapping[str, Any]) -> list[Tile]:
        """Return the figures of one target on the first screen, most important first."""
        del cells, analyses
        return []

    def verdict_line(self, summary: Summary) -> str:
        """Return the topic's result in a few words, lower case, for the first line."""
        del summary
        return ""

    def next_step(self, summary: Summary) -> str:
        """Return the next step where no finding names one; empty for none."""
        del summary
        return ""

    def kinds_covered(self, analyses: Mapping[str, Any]) -> Collection[str]:
        """Return the kinds of findings whose content the topic's part of a verdict covers."""
        del analyses
        return ()

    def document_part(self) -> DocumentPart | None:
        """Return the topic's part of the document of a run; None if it has no type for it."""
        return None

    def own_table(self, summary: Summary, target: str, workload: str) -> Table | None:
        """Return a table that replaces the plain one of a workload on a target, or None."""
        del summary, target, workload
        return None

    def tables(self, summary: Summary) -> list[Table]:
        """Return the topic's own tables, for terminal, page and Markdown."""
        del summary
        return []

    def part(self, summary: Summary, detail: Detail) -> PagePart | None:
        """Return the topic's section on the page; None if it has none."""
        del summary, detail
        return None

    def charts(self, summary: Summary, detail: Detail) -> list[Figure]:
        """Return charts for the chapter of charts."""
        del summary, detail
        return []

    def best_targets(self, summary: Summary) -> list[str]:
        """Return the best targets, whose charts are kept on a large page."""
        del summary
        return []

    def compared_targets(self, summary: Summary) -> str:
        """Return what the targets of a run are called where the topic's analysis compares them.

        More than two of them are then not compared cell by cell at the end of the run. Empty where
        the topic does not compare them.
        """
        del summary
        return ""

    def exit_code(self, summary: Summary) -> int:
        """Return the topic's exit code for a run's command; the highest of all topics counts.

        A key of ``errors.EXIT_CODES``; 0 where all is well.
        """
        del summary
        return 0

    def columns(self, summary: Summary) -> dict[str, dict[str, Field]]:
        """Return the columns that only the topic's cells have in a CSV, by the cell's key."""
        del summary
        return {}

    def markdown(self, summary: Summary) -> list[str]:
        """Return the topic's parts of a Markdown export, each with its heading."""
        del summary
        return []

    # Comparison of two sides.

    def comparison_obstacles(
        self, a: SideSamples, b: SideSamples, matched: MatchedCells
    ) -> Iterator[UsageError]:
        """Yield why two sides did not run the same load, which rules out a comparison."""
        del a, b, matched
        yield from ()

    def comparison_caveats(
        self, a: SideSamples, b: SideSamples, matched: MatchedCells
    ) -> Iterator[str]:
        """Yield what weakens a comparison of two sides, most serious first."""
        del a, b, matched
        yield from ()

    # Measuring.

    def stage(self, request: StageRequest) -> AnyStage | None:
        """Return the stage on which a plan is measured, where the topic builds one; else None."""
        del request
        return None

    def driver(self, plan: Plan, journal: UndoJournal, side: Path | None) -> Driver | None:
        """Return the driver that prepares and measures the topic's cells; None where it needs none.

        Args:
            plan: What the run measures.
            journal: Records every change before it is made.
            side: The preferred folder for logs; the journal's folder by default.
        """
        del plan, journal, side
        return None

    def measure(self, cell: Cell, spec: Mapping[str, Any], sample_context: SampleContext) -> Sample:
        """Measure one cell once; called for topics without a driver.

        Args:
            cell: The cell.
            spec: The cell's specification with paths, seed and duration.
            sample_context: Round, position, watcher and background activity.

        Raises:
            TargetError: when the target goes away.
            EngineError: when the engine refuses or fails.
        """
        raise RuntimeError(
            f"the topic {self.name} has cells, but neither a driver nor a measure method"
        )

    def strategy(self, plan: Plan, before: Strategy) -> Strategy:
        """Return the strategy by which a plan is measured; ``before`` by default.

        Args:
            plan: What the run measures.
            before: Interleaved rounds, or the strategy of another topic. Topics that measure their
                    cells after the rounds come last.
        """
        del plan
        return before

    def descriptors(self, cell: Cell) -> DescriptorNeed:
        """Return the number of file descriptors that a cell needs at once."""
        from seatrial.measure.descriptors import DescriptorNeed  # noqa: PLC0415

        del cell
        return DescriptorNeed()

    # The machine.

    def undoers(self) -> Mapping[str, Undoer]:
        """Return the undoer of each kind of change that its trials make to the system."""
        return {}

    # Findings.

    def command_for(self, cell: Cell) -> str:
        """Return the command that measures one such cell alone."""
        del cell
        return "seatrial io"

    def plays_trace(self, cell: Cell) -> bool:
        """Return whether a cell's pace is that of a capture or of others, not of the target."""
        del cell
        return False

    def judges_rounds(self, cell: Cell) -> bool:
        """Return whether the topic itself assesses variance between a cell's rounds."""
        del cell
        return not self.in_rounds

    def rule_modules(self) -> Iterable[ModuleType]:
        """Return the modules that declare rules: this module and those of its ``findings/``."""
        own = sys.modules[type(self).__module__]
        folder = own.__name__.rpartition(".")[0]
        return [own, *(modules_below(f"{folder}.findings") if folder else [])]


def modules_below(package: str) -> list[ModuleType]:
    """Import and return every module of a package; empty if it does not exist."""
    import importlib.util  # noqa: PLC0415 - not for --help
    import pkgutil  # noqa: PLC0415 - likewise

    if importlib.util.find_spec(package) is None:
        return []
    paths = importlib.import_module(package).__path__
    return [
        importlib.import_module(f"{package}.{each.name}") for each in pkgutil.iter_modules(paths)
    ]


@functools.cache
def topics() -> tuple[Topic, ...]:
    """Return every topic: our own first, then those of other distributions."""
    return (*own_topics(), *installed_topics())


@functools.cache
def own_topics() -> tuple[Topic, ...]:
    """Return the topics of this product."""
    return tuple(importlib.import_module(f"seatrial.trials.{name}.topic").TOPIC for name in TOPICS)


@functools.cache
def installed_topics() -> tuple[Topic, ...]:
    """Return the topics of other distributions.

    Raises:
        UsageError: when one cannot be loaded.
    """
    if not any(map(_may_have_topics, sys.path)):
        return ()
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes 50 ms

    return tuple(map(_loaded, entry_points(group=ENTRY_POINTS)))


def _loaded(entry: EntryPoint) -> Topic:
    try:
        topic: Topic = entry.load()
    except Exception as error:
        from seatrial.errors import UsageError  # noqa: PLC0415 - only where one is broken

        brought_by = entry.dist.name if entry.dist else entry.value
        raise UsageError(
            seen=f"The topic {entry.name!r} cannot be loaded: {type(error).__name__}: {error}.",
            cause=f"The package {brought_by} is broken, or was written for another version.",
            next_step=f"Update or remove it: pip uninstall {brought_by}",
        ) from error
    return topic


def _may_have_topics(folder: str) -> bool:
    """Return whether a distribution in a folder of ``sys.path`` may bring a topic.

    False only where it is certain: an archive or an egg is for importlib.metadata to open.
    """
    try:
        names = os.listdir(folder or ".")  # noqa: PTH208 - pathlib takes 10 ms
    except NotADirectoryError:
        return True
    except OSError:
        return False
    return any(
        name.endswith(".egg") or _names_topics(f"{folder or '.'}/{name}/entry_points.txt")
        for name in names
        if name.endswith((".dist-info", ".egg-info", ".egg"))
    )


def _names_topics(path: str) -> bool:
    try:
        with open(path, encoding="utf-8") as entries:  # noqa: PTH123 - pathlib takes 10 ms
            return f"[{ENTRY_POINTS}]" in entries.read()
    except OSError:
        return False


@functools.cache
def _topics_by_kind() -> Mapping[str, Topic]:
    kinds = [(kind, each) for each in topics() for kind in each.workloads()]
    recorded = {kind: each for each in topics() for kind in each.recorded_kinds}
    return {str(kind.__struct_config__.tag): each for kind, each in kinds} | recorded


def titles() -> dict[str, str]:
    """Return the heading of the tables of each kind of workload, in the order of the topics."""
    return {kind: title for each in topics() for kind, title in each.titles.items()}


def topic_of(what: Cell | SampledWorkload) -> Topic:
    """Return the topic of a cell or a workload, by its kind; the default topic if unknown.

    Imported cells may be of a kind that no study has.
    """
    return _topics_by_kind().get(what.kind, _UNKNOWN)


_Measured = TypeVar("_Measured", "CellSummary", "Sample")


def without_preparation(measured: Sequence[_Measured]) -> list[_Measured]:
    """Return what was not only measured to prepare others, such as a fill, if there is anything."""
    own = [each for each in measured if not topic_of(each.cell).comes_first(each.cell)]
    return own or list(measured)


def is_kind(kind: str) -> bool:
    """Return whether some topic has cells of this kind."""
    return kind in _topics_by_kind()


def kinds_of_workload() -> UnionType:
    """Return the union of every kind of workload, for parsing study files."""
    kinds: list[Any] = [kind for each in topics() for kind in each.workloads()]
    union: UnionType = functools.reduce(lambda one, other: one | other, kinds)
    return union


_UNKNOWN: Final = Topic()
