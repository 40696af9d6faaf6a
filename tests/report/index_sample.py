"""Repeated runs of one study whose rate drops at some point, for the tests of the index."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from findings.test_verdict import database_cells
from seatrial.fingerprint import Fingerprint, FingerprintAfter, Machine
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from stats.builders import run_of

DAY_S = 86_400.0
FIRST_S = 1_795_247_100.0
RATES = (1.0, 1.01, 0.99, 1.02, 1.0, 0.62, 0.61, 0.63, 0.62, 0.6)
"""Of each run, over those of the first: there is one change of level, before the sixth."""
CHANGED_AT = 5


def repeated_runs(rates=RATES) -> Iterator[tuple[Run, list[Sample]]]:
    """Runs a day apart, the oldest first, each with its samples."""
    machine = Machine(product="bench", cpus_online=8)
    for number, rate in enumerate(rates):
        run_id = f"202611{number + 1:02}-074500-{number:04x}"
        started_at = FIRST_S + number * DAY_S
        run = msgspec.structs.replace(
            run_of(),
            id=run_id,
            label="" if number % 3 else f"night {number + 1}",
            study_name="quick",
            study={"target": [{"label": "ssd", "path": "/mnt/ssd"}]},
            status="complete",
            started_at=started_at,
            ended_at=started_at + 120,
            fingerprint_before=Fingerprint(machine=machine),
        )
        samples = [
            msgspec.structs.replace(sample, run_id=run_id, duration_s=sample.duration_s / rate)
            for cell in database_cells()
            for sample in cell.samples
        ]
        yield run, samples


def store_runs(file: ResultsFile, rates=RATES) -> list[str]:
    """Store the runs; return their ids, the oldest first."""
    ids = []
    for run, samples in repeated_runs(rates):
        file.add_run(run, samples)
        file.finish_run(run.id, "complete", run.ended_at or 0.0, FingerprintAfter())
        ids.append(run.id)
    return ids
