"""What a topic of trials implements, and the one list that all of them are entered in.

Read this file first to add a topic. A topic is a folder below ``trials/`` whose module ``topic``
holds a :class:`Topic` called ``TOPIC``; nothing outside of that folder names it. A distribution of
somebody else's brings one along as an entry point of the group ``seatrial.topics``.

Every method has a default that does nothing, and imports what it needs when it is called, so that
no command loads a topic that it has no use for.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, ModuleType, UnionType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

    from seatrial.errors import UsageError
    from seatrial.findings.model import Summary
    from seatrial.machine.undo import UndoJournal
    from seatrial.machine.undoer import Undoer
    from seatrial.measure.descriptors import DescriptorNeed
    from seatrial.measure.driver import Driver, Occasion
    from seatrial.measure.stage import AnyStage, StageRequest
    from seatrial.report.exports.csv_row import Field
    from seatrial.report.figures.model import Figure
    from seatrial.report.part import Detail, PagePart
    from seatrial.report.table import Table
    from seatrial.results.model import Run, Sample
    from seatrial.stats.compare.model import Entrant
    from seatrial.stats.compare.pairing import Matched
    from seatrial.stats.model import CellSummary, Estimate
    from seatrial.study.cell import Cell, FactorValue
    from seatrial.study.files import Finder
    from seatrial.study.model import Plan, PlannedTarget, TargetInfo, TrialFile
    from seatrial.study.problems import ConstraintError
    from seatrial.study.sampled import Sampled
    from seatrial.study.schema import Study

TOPICS: Final = ("loadline", "io", "layouts", "replay", "database", "audit")
"""Folders below ``trials/``, in the order in which a page shows them."""

ENTRY_POINTS: Final = "seatrial.topics"


@dataclass(frozen=True)
class Measured:
    """What a topic analyses.

    Attributes:
        run: The run; its fingerprint says what the machine is.
        cells: All cells of the run, in the order of the plan.
        study: The run's study; None where it was imported, or written by another version.
        analyses: What the topics before this one made of the run, by name.
    """

    run: Run
    cells: Sequence[CellSummary]
    study: Study | None
    analyses: Mapping[str, Any]


class Topic:
    """A topic of trials: how its part of a study is read, measured, analysed and shown.

    Attributes:
        name: That of its folder.
        in_rounds: Whether its cells are measured in the rounds; else each goes its own way after.
        apart_samples_max: Of a cell that goes its own way, the most samples.
        comes_last: Whether its cells come after all others in a round, for what they leave behind
            in caches and write-back is not to fall into short samples.
        loads_storage: Whether its cells are loads of ours on storage, so that what others write
            there meanwhile disturbs them.
        has_server: Whether a server answers its cells, in place of the target itself.
        says_operation: Whether what a cell does is one of read, write, commit and the like.
        rate_unit: Unit of its cells' rates, such as ``requests/s``; empty for ``IOPS``,
            ``commits/s`` and the like, by what the cell does.
        titles: Headings of the tables of its kinds of workload, in the order in which they are
            shown; a kind without one has only the tables that ``tables`` gives.
        own_quantities: Quantities of thresholds that workloads of no other topic have, each with
            what is said where one of those is held to it.
    """

    name: str = ""
    in_rounds: bool = True
    apart_samples_max: int = 0
    comes_last: bool = False
    loads_storage: bool = False
    has_server: bool = False
    says_operation: bool = True
    rate_unit: str = ""
    titles: Mapping[str, str] = MappingProxyType({})
    own_quantities: Mapping[str, str] = MappingProxyType({})

    # The study: what may be written in its file, and the cells that come of it.

    def workloads(self) -> tuple[type[Sampled], ...]:
        """Return the kinds of ``[[workload]]``, each a structure with the kind as its tag."""
        return ()

    def check(self, study: Study) -> Iterator[ConstraintError]:
        """Yield what does not hold between the keys of a study, with paths from its top."""
        yield from ()

    def without_quantity(self, quantity: str, workload: Sampled) -> str:
        """Return what a workload has in place of a threshold's quantity; empty where it has it."""
        del workload
        others = (each.own_quantities.get(quantity, "") for each in topics() if each is not self)
        return next(filter(None, others), "")

    def with_files(self, workload: Sampled, files: Finder) -> Sampled:
        """Return a workload with the files that it names as paths from the root.

        Raises:
            ConstraintError: when a file is not there or cannot be used.
        """
        del files
        return workload

    def obstacle(self, workload: Sampled, target: PlannedTarget) -> str:
        """Return why a workload cannot run on a target; empty where it can."""
        del workload, target
        return ""

    def cells(
        self, workload: Sampled, target: PlannedTarget, study: Study, *, prefix: str
    ) -> Iterator[Cell]:
        """Yield the cells of a workload on a target, in the order of the study.

        Args:
            workload: One of the topic's.
            target: A target on which nothing stands in its way.
            study: The whole study.
            prefix: What every key begins with.
        """
        del workload, target, study, prefix
        yield from ()

    def is_possible(self, cell: Cell, workload: Sampled, target: PlannedTarget) -> bool:
        """Return whether a target can do a cell; False where it may be left out, else raise."""
        del cell, workload, target
        return True

    def usual_factors(self, cell: Cell) -> dict[str, FactorValue]:
        """Return the factors that a cell leaves out where they have these values."""
        del cell
        return {}

    def files(self, target: PlannedTarget, cells: Sequence[Cell]) -> Iterator[TrialFile]:
        """Yield the files that the cells of a target need there."""
        del target, cells
        yield from ()

    def check_plan(
        self, targets: Sequence[PlannedTarget], cells: Sequence[Cell], files: Sequence[TrialFile]
    ) -> None:
        """Raise what is wrong with the cells of a plan as a whole."""

    def left_out(
        self,
        study: Study,
        target: PlannedTarget,
        info: TargetInfo,
        cells: Sequence[Cell],
        used_bytes: int,
    ) -> Iterator[tuple[Sampled, str]]:
        """Yield optional workloads that a target cannot do, each with the reason.

        Args:
            study: The study.
            target: The target.
            info: What is known of it.
            cells: Those of the target.
            used_bytes: What trial files take there.
        """
        del study, target, info, cells, used_bytes
        yield from ()

    def notes(
        self, study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]
    ) -> Iterator[str]:
        """Yield what is worth knowing of a plan before it is measured, as sentences."""
        del study, targets, cells
        yield from ()

    # The plan: what the cells take.

    def has_given_work(self, cell: Cell) -> bool:
        """Return whether a sample is shorter on a faster target, as its work is given."""
        del cell
        return False

    def comes_first(self, cell: Cell) -> bool:
        """Return whether a cell comes before the others of a round, as one that fills does."""
        del cell
        return False

    def sample_s(self, cell: Cell) -> float:
        """Return the seconds that one sample of a cell is expected to take."""
        return float(cell.spec["limit"]["duration_s"])

    def sample_write_bytes(self, cell: Cell) -> int:
        """Return the most bytes that one sample of a cell writes to storage."""
        del cell
        return 0

    def apart_s(self, plan: Plan, cell: Cell) -> float:
        """Return what a cell that goes its own way after the rounds may take (s)."""
        del plan, cell
        return 0.0

    def preparing_s(self, cells: Sequence[Cell]) -> float:
        """Return what is done once before the first round of these cells (s)."""
        del cells
        return 0.0

    def preparing_write_bytes(self, cells: Sequence[Cell]) -> int:
        """Return what is written once before the first round of these cells."""
        del cells
        return 0

    def space_bytes(self, cells: Sequence[Cell]) -> int:
        """Return what the cells of one target keep there, beside trial files."""
        del cells
        return 0

    def worker_of(self, cell: Cell) -> str:
        """Return what a cell has several of at once."""
        del cell
        return "thread"

    def sample_words(self, cells: Sequence[Cell]) -> str:
        """Return how long a sample of a workload lasts, where that is no number of seconds."""
        del cells
        return ""

    def plan_words(self, cell: Cell) -> list[str]:
        """Return what a plan says of a workload beside its factors, by its first cell."""
        del cell
        return []

    def assumed_words(self, cells: Sequence[Cell]) -> str:
        """Return what a plan assumes of the bytes that these cells write; empty for nothing."""
        del cells
        return ""

    def names_plainly(self, cell: Cell, factor: str) -> bool:
        """Return whether a plan writes a factor as it is called, as settings of a server are."""
        del cell, factor
        return False

    # Analysis and report of a run.

    def analyse(self, measured: Measured) -> object:
        """Return what the topic makes of its cells, as plain data; None where it has none.

        It stands in ``Summary.analyses`` by the topic's name, and so in ``--json``.
        """
        del measured
        return None

    def analysis_without(self, analysis: Any, keys: Collection[str]) -> Any:  # noqa: ANN401
        """Return what ``analyse`` gave, less the cells of some keys."""
        del keys
        return analysis

    def figure(
        self, quantity: str, summary: CellSummary, analyses: Mapping[str, Any]
    ) -> Estimate | str | None:
        """Return a cell's figure of one of the topic's own quantities, or why there is none.

        None where the topic has nothing to say of the cell.
        """
        del quantity, summary, analyses
        return None

    def request_noun(self, cell: Cell) -> str:
        """Return what a cell's requests are called, such as ``transactions``."""
        del cell
        return "requests"

    def target_noun(self, summary: CellSummary) -> str:
        """Return what the target of a cell is called where it is no plain target."""
        del summary
        return ""

    def own_table(self, summary: Summary, target: str, workload: str) -> Table | None:
        """Return a table of a workload on a target in place of the plain one; None for that."""
        del summary, target, workload
        return None

    def tables(self, summary: Summary) -> list[Table]:
        """Return the topic's own tables, for terminal, page and Markdown."""
        del summary
        return []

    def part(self, summary: Summary, detail: Detail) -> PagePart | None:
        """Return the topic's section on the page; None where it has none at all."""
        del summary, detail
        return None

    def figures(self, summary: Summary, detail: Detail) -> list[Figure]:
        """Return charts for the chapter of charts."""
        del summary, detail
        return []

    def best_targets(self, summary: Summary) -> list[str]:
        """Return the targets that are best at something: they keep their charts on a large page."""
        del summary
        return []

    def columns(self, summary: Summary) -> dict[str, dict[str, Field]]:
        """Return what only the topic's cells have in a CSV, by the cell's key."""
        del summary
        return {}

    def markdown(self, summary: Summary) -> list[str]:
        """Return the topic's parts of a Markdown export, each with its heading."""
        del summary
        return []

    # Comparison of two sides.

    def unlike(self, a: Entrant, b: Entrant, matched: Matched) -> Iterator[UsageError]:
        """Yield why two sides are not one load, which forbids to compare them."""
        del a, b, matched
        yield from ()

    def weakened(self, a: Entrant, b: Entrant, matched: Matched) -> Iterator[str]:
        """Yield what weakens a comparison of two sides, the gravest first."""
        del a, b, matched
        yield from ()

    # Measuring.

    def stage(self, request: StageRequest) -> AnyStage | None:
        """Return where the cells of a plan go, where the topic builds that; else None."""
        del request
        return None

    def driver(self, plan: Plan, journal: UndoJournal, side: Path | None) -> Driver | None:
        """Return what makes ready and measures the topic's cells; None where each is for itself.

        Args:
            plan: What the run measures.
            journal: Where everything is recorded before it is made.
            side: The first choice of a place for logs; the journal's folder unless given.
        """
        del plan, journal, side
        return None

    def measure(self, cell: Cell, spec: Mapping[str, Any], occasion: Occasion) -> Sample:
        """Measure one cell once; of topics without a driver.

        Args:
            cell: What the sample is of.
            spec: The cell's specification with paths, seed and duration.
            occasion: Round and position, who watches, and what goes on meanwhile.

        Raises:
            TargetError: when the target goes away.
            EngineError: when the engine refuses or fails.
        """
        raise RuntimeError(
            f"the topic {self.name} has cells, but neither a driver nor a way to measure"
        )

    def descriptors(self, cell: Cell) -> DescriptorNeed:
        """Return what file descriptors a cell takes at once."""
        from seatrial.measure.descriptors import DescriptorNeed  # noqa: PLC0415

        del cell
        return DescriptorNeed()

    # The machine.

    def undoers(self) -> Mapping[str, Undoer]:
        """Return how each kind of change that its trials make to the system is undone."""
        return {}

    # What is found.

    def command_for(self, cell: Cell) -> str:
        """Return the command that measures one such cell alone."""
        del cell
        return "seatrial io"

    def plays_trace(self, cell: Cell) -> bool:
        """Return whether a cell plays a trace, so that its pace is the capture's."""
        del cell
        return False

    def judges_rounds(self, cell: Cell) -> bool:
        """Return whether the topic judges a cell's rounds, which then need not agree."""
        del cell
        return not self.in_rounds

    def rule_modules(self) -> Iterable[ModuleType]:
        """Return the modules that declare its rules: its own, and those of its ``findings/``."""
        own = sys.modules[type(self).__module__]
        folder = own.__name__.rpartition(".")[0]
        return [own, *(modules_below(f"{folder}.findings") if folder else [])]


def modules_below(package: str) -> list[ModuleType]:
    """Import and return every module of a package; none where there is no such package."""
    if importlib.util.find_spec(package) is None:
        return []
    paths = importlib.import_module(package).__path__
    return [
        importlib.import_module(f"{package}.{each.name}") for each in pkgutil.iter_modules(paths)
    ]


@functools.cache
def topics() -> tuple[Topic, ...]:
    """Return every topic: those of this product, then those of other distributions."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes a while

    own = [importlib.import_module(f"seatrial.trials.{name}.topic").TOPIC for name in TOPICS]
    return (*own, *(each.load() for each in entry_points(group=ENTRY_POINTS)))


@functools.cache
def _topics_by_kind() -> Mapping[str, Topic]:
    kinds = [(kind, each) for each in topics() for kind in each.workloads()]
    return {str(kind.__struct_config__.tag): each for kind, each in kinds}


def titles() -> dict[str, str]:
    """Return the heading of the tables of each kind of workload, in the order of the topics."""
    return {kind: title for each in topics() for kind, title in each.titles.items()}


def topic_of(what: Cell | Sampled) -> Topic:
    """Return the topic of a cell or a workload, by its kind; one that does nothing if unknown.

    What was imported may be of a kind that no study has.
    """
    return _topics_by_kind().get(what.kind, _UNKNOWN)


def kinds_of_workload() -> UnionType:
    """Return the union of every kind of workload, for the reader of study files."""
    kinds: list[Any] = [kind for each in topics() for kind in each.workloads()]
    union: UnionType = functools.reduce(lambda one, other: one | other, kinds)
    return union


_UNKNOWN: Final = Topic()
