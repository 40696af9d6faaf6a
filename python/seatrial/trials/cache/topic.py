"""Caches as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from seatrial.topic import Command, Topic

if TYPE_CHECKING:
    from pathlib import Path

    from seatrial.machine.undo import UndoJournal
    from seatrial.machine.undoer import Undoer
    from seatrial.measure.engine import Driver
    from seatrial.study.cell import Cell, FactorValue
    from seatrial.study.model import Plan, PlannedTarget
    from seatrial.study.problems import ConstraintError
    from seatrial.study.sampled import Sampled
    from seatrial.study.schema import Study

# ruff: noqa: PLC0415 - every command imports all topics, and most commands use none of this


class CacheTopic(Topic):
    """Caches in front of storage: what they would serve of a recorded load, and what they serve."""

    name = "cache"
    charts_first = True
    shows_io = False
    titles = MappingProxyType({"l2arc": "Reads through a cache device"})
    commands = MappingProxyType(
        {
            "cache": Command(
                "What more memory or an SSD in front would do, from a recording.",
                "seatrial.trials.cache.commands.cache:command",
                after="trace",
            ),
        }
    )

    def workloads(self) -> tuple[type[Sampled], ...]:
        """Return ``l2arc``."""
        from seatrial.trials.cache.study.workload import L2arc

        return (L2arc,)

    def check(self, study: Study) -> Iterator[ConstraintError]:
        """Yield what no pool can be built with."""
        from seatrial.trials.cache.study.cells import check_l2arc

        return check_l2arc(study)

    def obstacle(self, workload: Sampled, target: PlannedTarget) -> str:
        """Return why a workload cannot run on a target: images of disks need a directory."""
        del workload
        if target.layout:
            return "its pool has disks of its own"
        if target.kind != "directory":
            return f"the images of its disks need a directory, but the target is a {target.kind}"
        return ""

    def cells(
        self, workload: Sampled, target: PlannedTarget, study: Study, *, prefix: str
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

    def plan_words(self, cell: Cell) -> list[str]:
        """Return disks, file, ARC and cache device of a pool."""
        from seatrial.trials.cache.study.cells import plan_words

        return plan_words(cell)

    def driver(self, plan: Plan, journal: UndoJournal, side: Path | None) -> Driver:
        """Return what builds the pools of a plan."""
        from seatrial.trials.cache.measure.trial import CacheRig

        del side
        return CacheRig(plan, journal)

    def undoers(self) -> Mapping[str, Undoer]:
        """Return how the daemon of a pool is ended."""
        from seatrial.trials.cache.measure.undoing import RIG_UNDOERS

        return RIG_UNDOERS

    def command_for(self, cell: Cell) -> str:
        """Return the command that measures one such cell alone."""
        del cell
        return "seatrial study l2arc"


TOPIC = CacheTopic()
