"""Cells of a database measured in this process, one at a time."""

from __future__ import annotations

import secrets
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seatrial.cli.study_command import plan_of
from seatrial.machine.file import TrialFolder
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.engine import SampleContext
from seatrial.measure.progress import SilentWatcher, Watcher
from seatrial.results.model import Sample
from seatrial.study.cell import Cell
from seatrial.study.model import Plan
from seatrial.trials.database.measure.stage import Databases


class Trial:
    """The open databases of a plan.

    Attributes:
        folder: The trial folder of its one directory; None where it has none.
    """

    def __init__(self, plan: Plan, databases: Databases, folder: TrialFolder | None) -> None:
        self.plan = plan
        self.folder = folder
        self._databases = databases

    def measure(
        self, workload: str, round_number: int = 0, watcher: Watcher | None = None, **requested: str
    ) -> Sample:
        """Measure the one cell of a workload whose specification ends in what is requested."""
        (cell,) = (
            cell
            for cell in self.plan.cells
            if cell.workload == workload
            and all(cell.spec["database"][name].endswith(end) for name, end in requested.items())
        )
        return self.measure_cell(cell, round_number, watcher)

    def measure_cell(
        self, cell: Cell, round_number: int = 0, watcher: Watcher | None = None
    ) -> Sample:
        """Measure a cell."""
        return self._databases.measure(
            cell, SampleContext(round_number, 0, watcher or SilentWatcher())
        )


def plan_of_text(folder: Path, study: str) -> Plan:
    path = folder / "study.toml"
    path.write_text(textwrap.dedent(study))
    return plan_of(str(path))


@contextmanager
def trial(folder: Path, study: str) -> Iterator[Trial]:
    """Open the databases of a study and load them; all is put away in the end."""
    plan = plan_of_text(folder, study)
    # The logs may go to a folder that all runs of this machine share.
    with UndoJournal(f"trial-{secrets.token_hex(4)}", folder / "state") as journal:
        databases = Databases(plan, journal)
        try:
            yield loaded(plan, databases, journal)
        finally:
            databases.close()


def loaded(plan: Plan, databases: Databases, journal: UndoJournal) -> Trial:
    databases.open()
    (target,) = plan.targets
    opened = None
    if target.holds_files:
        opened = TrialFolder(target.path, journal.run_id, journal)
        opened.open(databases.needed_bytes(target.label), direct=False)
        databases.use(target.label, opened)
    databases.prepare(SilentWatcher())
    return Trial(plan, databases, opened)
