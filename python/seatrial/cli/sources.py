"""What a user names as a result: a run of the results file, a target of one, or a foreign file."""

from __future__ import annotations

from pathlib import Path

import msgspec

from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A result that was named.

    Attributes:
        name: As the user named it.
        run: The run.
        samples: In the order in which they were measured; of the named target only, if one was.
        target: The target that was named with the run; else empty.
    """

    name: str
    run: Run
    samples: list[Sample]
    target: str = ""


def load_source(reference: str, results: Path) -> Source:
    """Return what a user names.

    Args:
        reference: A run (``last``, id, beginning of an id, label) of the results file.
        results: The results file that runs are sought in.

    Raises:
        ResultsFileError: when the results file cannot be read.
        UsageError: when nothing, or more than one thing, fits the reference.
    """
    with ResultsFile.open(results, read_only=True) as store:
        run = store.run(reference)
        return Source(name=reference, run=run, samples=store.samples(run.id))
