"""One results file with a run of each kind, for tests of what commands print of stored runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from report.sample_run import Maker, make_run, matrix_drafts, other_drafts
from seatrial.fingerprint import FingerprintAfter
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from trials.database.report.database_hand import database_summary
from trials.layouts.report.layout_hand import SPECS, broken_samples, cells_of, plain_samples
from trials.layouts.report.layout_hand import make_run as layout_run
from trials.loadline.analysis.virtual import Device, Search, exponential
from trials.replay.report.replay_hand import paced, several, sweep, troubled

SIZES_BYTES = (4096, 8192, 65_536)
LIMIT_MS = 5
LONG_LABEL = "the same drive after the update of its firmware"


def quick(seed: int, threads: tuple[int, ...] = (1, 10, 40)) -> list[Sample]:
    """The quick trial of a drive; one cell stalls, one fails, one completes nothing."""
    maker = Maker(seed)
    drafts = [*matrix_drafts(SIZES_BYTES, threads, 3), *other_drafts()]
    return [sample for draft in drafts for sample in maker.samples(draft)]


def two_targets() -> list[Sample]:
    """The same tests on two drives, interleaved."""
    return [
        msgspec.structs.replace(
            each,
            cell=msgspec.structs.replace(each.cell, target=label, key=f"{label}/{each.cell.key}"),
        )
        for label, seed in (("ssd", 7), ("a-much-slower-hdd", 8))
        for each in quick(seed, threads=(1, 10))
    ]


def two_layouts() -> list[Sample]:
    """Two arrays of the lab, of which one lost a drive."""
    shown = [each for each in SPECS if each.label in ("raid0-2", "raid5-4")]
    plain = [each for of in shown for cell in cells_of(of) for each in plain_samples(of, cell)]
    return plain + broken_samples()


def load_line() -> tuple[Run, list[Sample]]:
    """The search for the highest rate within a limit."""
    device = Device(LIMIT_MS, exponential(20_000))
    study = {
        "target": [{"label": "trial", "path": "/mnt/ssd"}],
        "workload": [{"kind": "loadline", "limit": f"{LIMIT_MS}ms"}],
    }
    return layout_run(study_name="loadline", study=study), Search(device, 3, budget_s=40).samples


def runs() -> Iterator[tuple[str, Run, list[Sample]]]:
    """Yield label, run and samples of each kind."""
    yield "quick", make_run(), quick(7)
    yield LONG_LABEL, make_run(), quick(11)
    yield "targets", make_run(), two_targets()
    for label, summary in (
        ("database", database_summary()),
        ("replay", troubled()),
        ("paced", paced()),
        ("several", several()),
        ("sweep", sweep()),
    ):
        yield label, summary.run, [sample for cell in summary.cells for sample in cell.samples]
    lab = layout_run()
    machine = msgspec.structs.replace(lab.fingerprint_before.machine, lab="user-mode Linux")
    before = msgspec.structs.replace(lab.fingerprint_before, machine=machine)
    yield "lab", msgspec.structs.replace(lab, fingerprint_before=before), two_layouts()
    yield "loadline", *load_line()


def store_runs(path: Path) -> list[str]:
    """Store a run of each kind; return their labels, the oldest first."""
    labels = []
    with ResultsFile.open(path, create=True) as store:
        for number, (label, run, samples) in enumerate(runs()):
            run_id = f"20261121-0745{number:02}-3fa{number:x}"
            store.add_run(
                msgspec.structs.replace(run, id=run_id, label=label, status="running"),
                [
                    msgspec.structs.replace(each, run_id=run_id, position=position)
                    for position, each in enumerate(samples)
                ],
            )
            store.finish_run(run_id, "complete", run.ended_at or 1.0, FingerprintAfter())
            labels.append(label)
    return labels
