"""Studies of layouts measured in this process, on real devices or on whatever a test provides."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from seatrial.machine.sysblock import node_by_name
from seatrial.measure.progress import SilentWatcher
from seatrial.measure.rounds import interleaved
from seatrial.measure.run import RunRequest, execute
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from seatrial.study.layouts.layout import planned_drives
from seatrial.study.load import parse_study
from seatrial.study.model import Plan
from seatrial.study.plan import make_plan


class Stages(SilentWatcher):
    """Records the reported stages and the started cells, in order."""

    def __init__(self) -> None:
        self.reported: list[str] = []

    def step(self, sentence: str) -> None:
        self.reported.append(sentence)

    def cell_started(self, cell, round_number, time_left) -> None:
        self.reported.append(f"cell {cell.key}")


def planned(study: str) -> Plan:
    """The plan of a study file's text."""
    parsed = parse_study(textwrap.dedent(study), "layouts")
    return make_plan(parsed, {}, planned_drives(parsed.drives))


def measured(
    folder: Path,
    study: str,
    *,
    destroy: Sequence[str] = (),
    watcher: Stages | None = None,
    resume: Run | None = None,
) -> tuple[Run, list[Sample]]:
    """Measure a study in the fewest rounds, on devices whose data may go; its run and samples."""
    words = ",".join(_destroy_word(device) for device in destroy)
    request = RunRequest(plan=planned(study), command="test", destroy=words, resume=resume)
    with ResultsFile.open(folder / "results.seatrial", create=True) as store:
        run, _ = execute(
            request,
            store,
            watcher=watcher or Stages(),
            strategy=interleaved(lambda _samples, _precision_share: True),
        )
        return run, store.samples(run.id)


def whats(sample: Sample) -> list[str]:
    """What happened to the array of a sample, in order of time."""
    assert sample.layout
    return [event.what for event in sample.layout.events]


def at_s(sample: Sample, what: str) -> float:
    """When something happened for the first time, in s from the sample's start."""
    assert sample.layout
    return next(event.at_s for event in sample.layout.events if event.what == what)


def _destroy_word(device: str) -> str:
    node = node_by_name(Path(device).name)
    return (node.serial() if node else "") or device
