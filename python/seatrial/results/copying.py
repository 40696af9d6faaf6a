"""Copies a run with all its samples from one results file to another."""

from __future__ import annotations

import msgspec

from seatrial.results.model import Run
from seatrial.results.store import ResultsFile


def copy_run(source: ResultsFile, run_id: str, destination: ResultsFile) -> Run:
    """Copy a run: all of it is stored, or nothing; return it as it is stored.

    A run that its own file still calls running was killed, for nobody measures what is copied:
    its copy is marked as interrupted.

    Args:
        source: Where it is.
        run_id: Its full id.
        destination: Where it goes.

    Raises:
        UsageError: The source holds no such run.
        ResultsFileError: The destination holds it already, or one of the files cannot be used.
    """
    run = source.run(run_id)
    if run.status == "running":
        run = msgspec.structs.replace(run, status="interrupted")
    destination.add_run(run, source.samples(run.id))
    return destination.run(run.id)
