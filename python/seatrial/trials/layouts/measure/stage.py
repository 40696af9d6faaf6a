"""The stage of a run with layouts: each is built for its cells, one at a time.

Layouts share their drives, so only one group of targets exists at a time. An ordinary stage
measures on the existing layout; ordinary targets have another that stays open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from seatrial.machine.file import TrialFolder
from seatrial.machine.fingerprint import target_fingerprint
from seatrial.machine.undo_result import Outcome
from seatrial.measure.background import Background
from seatrial.measure.engine import SampleContext
from seatrial.measure.progress import Watcher
from seatrial.measure.stage import Stage, StageRequest, TargetState
from seatrial.results.model import Sample
from seatrial.study.cell import Cell, SpecDocument
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.study.seeds import seed_of
from seatrial.topic import topic_of
from seatrial.trials.layouts.build.drives import OpenDrives
from seatrial.trials.layouts.build.registry import require
from seatrial.trials.layouts.measure.array import Array, not_removed
from seatrial.trials.layouts.measure.trial import Trial

PLAIN: Final = ""
"""The group of existing targets."""
SIDE: Final = "layouts"


class LayoutStage:
    """The stage for a plan with layouts; a context that removes everything.

    Args:
        request: The plan, what may be overwritten, and the state of the targets.
    """

    def __init__(self, request: StageRequest) -> None:
        plan, journal = request.plan, request.journal
        self.plan = plan
        self._request = request
        self._journal = journal
        self._reported: set[str] = set()
        self._built_count = 0
        self._specs = {t.group: t.layout for t in plan.targets if t.layout}
        # Variants skipped for lack of drives are not targets of the plan.
        needed = max((spec.members for spec in self._specs.values()), default=0)
        self._drives = OpenDrives(
            plan.study.drives, request.run_id, journal, request.destroy, needed
        )
        self._side = TrialFolder(journal.path.parent, request.run_id, journal)
        self._array: Array | None = None
        self._stage: Stage | None = None
        self._plain: Stage | None = None
        if PLAIN in plan.groups():
            self._plain = Stage(replace(request, plan=plan.of_group(PLAIN, {})))

    def open(self) -> Self:
        """Check everything that can be checked before a build, and open the drives.

        Arrays left by a killed run are undone first.

        Raises:
            RefusedError: when the guard refuses to let a drive or target be written.
            TargetError: when a drive, a program or a kernel feature is missing, or what was left
                cannot be undone.
            StudyError: when a backend does not support a layout.
            SpaceError: when the files of loop devices, or trial files, do not fit.
            UsageError: when a server cannot have the settings of a cell.
        """
        if self._request.target_state == "resumed":
            self._undo_leftovers()
        for group, spec in self._specs.items():
            require(spec)
            part = self.plan.of_group(group, {})
            for topic in dict.fromkeys(map(topic_of, part.cells)):
                if driver := topic.driver(part, self._journal, None):
                    driver.check()
        self._drives.open()
        self._side.open(0, direct=False)
        self._side.file(SIDE).mkdir(exist_ok=True)
        if self._plain:
            self._plain.open()
        return self

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.take_down()
        if self._plain:
            self._plain.__exit__(kind, error, trace)
        self._drives.close()
        self._side.remove()

    def prepare(self, watcher: Watcher) -> None:
        """Fill and load existing targets; layouts are filled when they are built.

        Raises:
            TargetError: when a file cannot be written completely, or a database cannot be loaded.
        """
        if self._plain:
            self._plain.prepare(watcher)
            gone = {cell.key for cell in self.plan.of_group(PLAIN, {}).cells} - {
                cell.key for cell in self._plain.plan.cells
            }
            self.plan = self.plan.without(
                gone, self._plain.plan.left_out[len(self.plan.left_out) :]
            )

    def bring_up(self, label: str, watcher: Watcher, *, fills: bool = False) -> None:
        """Make a target available, by removing the current array, building it and filling it.

        Args:
            label: The target.
            watcher: Receives the progress.
            fills: Whether its file is written next, so that it need not be filled before.

        Raises:
            SeatrialError: when it cannot be built, filled or loaded, or the current array cannot be
                    removed.
        """
        spec = self._specs.get(self.plan.target(label).group)
        if spec is None or self._stands(spec):
            return
        if self._array:
            watcher.step(f"Removing {self._array.built.spec.label}")
        self._end_array(is_blocking=True)
        self._built_count += 1
        self._array = Array.build(spec, self._drives, self._journal, self._built_count, watcher)
        try:
            self._open_on(self._array, watcher, filled_next=label if fills else "")
        except BaseException:
            self.take_down()
            raise

    def is_available(self, cell: Cell) -> bool:
        """Return that every cell can be measured."""
        del cell
        return True

    def take_down(self) -> None:
        """Remove the current array; what cannot be undone stays in the journal."""
        self._end_array(is_blocking=False)

    def path(self, label: str, name: str) -> Path:
        """Return the path of a file of the plan on an available target."""
        return self._on(label).path(label, name)

    def spec(self, cell: Cell, round_number: int) -> SpecDocument:
        """Return the engine's complete specification of a cell on an available target."""
        return self._on(cell.target).spec(cell, round_number)

    def discard(self, label: str) -> int:
        """Trim what the plan uses of an available device; return the bytes trimmed.

        Raises:
            TargetError: when the device refuses or fails.
        """
        return self._on(label).discard(label)

    def measure(self, cell: Cell, spec: Mapping[str, Any], sample_context: SampleContext) -> Sample:
        """Measure one cell once, with the I/O of its array and its faults.

        Args:
            cell: A cell on an available target.
            spec: As returned by ``spec``.
            sample_context: Round, position and watcher.

        Returns:
            The sample, not stored yet; ``interrupted`` in its status if the user ended it.

        Raises:
            KeyboardInterrupt: when the user ended it before any result.
            TargetError: when the target goes away.
            EngineError: when the engine refuses or fails.
        """
        stage = self._on(cell.target)
        target = self.plan.target(cell.target)

        def load(background: Background | None = None, spec: Mapping[str, Any] = spec) -> Sample:
            return stage.measure(cell, spec, replace(sample_context, background=background))

        if target.layout is None or self._array is None:
            return load()
        self._array.is_damaged |= bool(cell.parsed.fail)
        trial = Trial(
            self._array,
            self._array.record_of(target),
            cell,
            journal=self._journal,
            seed=_seed(self.plan.study.seed, cell.key, sample_context.round_number),
            watcher=sample_context.watcher,
        )
        return trial.measure(load, spec, lambda other: load(spec=other))

    def _stands(self, spec: LayoutSpec) -> bool:
        array = self._array
        return array is not None and array.built.spec == spec and not array.is_damaged

    def _on(self, label: str) -> Stage:
        """Return the stage of an available target."""
        is_layout = self.plan.target(label).group != PLAIN
        stage = self._stage if is_layout else self._plain
        if stage is None:
            raise RuntimeError(f"bring_up must be called before {label} is used")
        return stage

    def _open_on(self, array: Array, watcher: Watcher, *, filled_next: str) -> None:
        """Open a stage on an array, and fill and load what its cells need."""
        group = array.built.spec.label
        # The fills of a round come first; later, their data was removed with the previous array.
        is_first = group not in self._reported and self._request.target_state == "new"
        target_state: TargetState = "new" if is_first else "emptied"
        request = replace(
            self._request,
            plan=self.plan.of_group(group, array.paths),
            destroy=None,
            target_state=target_state,
        )
        self._stage = Stage(request, side=self._side.file(SIDE), filled_next=filled_next)
        self._stage.open()
        if group not in self._reported and self._request.report_target:
            for label, path in array.paths.items():
                self._request.report_target(label, target_fingerprint(Path(path)))
        self._reported.add(group)
        self._stage.prepare(watcher)

    def _end_array(self, *, is_blocking: bool) -> None:
        """Close the stage on the array, then remove the array.

        Raises:
            TargetError: when it cannot be removed and blocks the next one.
        """
        stage, array = self._stage, self._array
        self._stage = self._array = None
        if stage:
            stage.__exit__(None, None, None)
        left = array.remove() if array else []
        if left and array and is_blocking:
            raise not_removed(array.built.spec.label, left)

    def _undo_leftovers(self) -> None:
        """Undo everything that a killed run left: its drives cannot be used for a new array.

        Raises:
            TargetError: when something cannot be undone.
        """
        results = self._journal.undo_all()
        left = [each for each in results if each.outcome == Outcome.FAILED]
        if left:
            raise not_removed("A layout of the killed run", left)


def _seed(study_seed: int, key: str, round_number: int) -> int:
    """Return the seed for corruption in a sample, different in each round."""
    return seed_of(study_seed, key, round_number, "spoiled")
