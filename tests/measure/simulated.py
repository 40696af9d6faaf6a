"""Studies of simulated devices, measured in this process by the real engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seatrial.cli.study_command import plan_of
from seatrial.measure.progress import SilentWatcher
from seatrial.measure.recorder import RoundsResult, Strategy
from seatrial.measure.run import RunRequest, execute
from seatrial.measure.stage import Stage
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile

ModelChanges = Callable[[str, int], dict[str, Any]]


def run_study(
    folder: Path,
    study: str,
    strategy: Strategy,
    *,
    resume: Run | None = None,
    model_changes: ModelChanges | None = None,
    monkeypatch: pytest.MonkeyPatch | None = None,
) -> tuple[Run, RoundsResult, list[Sample]]:
    """Measure a study; ``model_changes`` has the changes of the device by key and round."""
    path = folder / "study.toml"
    path.write_text(study)
    if model_changes and monkeypatch:
        _change_models(monkeypatch, model_changes)
    request = RunRequest(plan=plan_of(str(path)), command="seatrial study", resume=resume)
    with ResultsFile.open(folder / "results.seatrial", create=True) as store:
        run, end = execute(request, store, watcher=SilentWatcher(), strategy=strategy)
        return run, end, store.samples(run.id)


def _change_models(monkeypatch: pytest.MonkeyPatch, changes: ModelChanges) -> None:
    plain = Stage.spec

    def spec(self, cell, round_number):
        found = plain(self, cell, round_number)
        model = {**found["target"].get("model", {}), **changes(cell.key, round_number)}
        return {**found, "target": {**found["target"], "model": model}}

    monkeypatch.setattr(Stage, "spec", spec)


def measured_in(samples: list[Sample]) -> dict[int, int]:
    """How many cells each round has."""
    return dict(Counter(sample.round for sample in samples))
