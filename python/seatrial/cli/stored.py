"""A run read back from the results file."""

from __future__ import annotations

from pathlib import Path

from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.results.store import ResultsFile


def stored_summary(results: Path, reference: str) -> Summary:
    """Return the summary of a stored run.

    Raises:
        ResultsFileError: when the file cannot be read.
        UsageError: when no run, or more than one, fits the reference.
    """
    with ResultsFile.open(results, read_only=True) as store:
        run = store.run(reference)
        return summarise(run, store.samples(run.id))
