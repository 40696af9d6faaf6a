"""Seatrial: sea trials for database storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from seatrial.notebook import Results

__all__ = ["open"]


def open(path: str | os.PathLike[str]) -> Results:  # noqa: A001 - read as seatrial.open
    """Open a results file for reading, in a notebook or a script.

    Args:
        path: The results file.

    Returns:
        Its runs, samples and findings as typed objects; buckets and timelines as arrays.

    Raises:
        seatrial.errors.ResultsFileError: It is missing, not ours, damaged or of a newer schema.
    """
    from seatrial.notebook import Results  # noqa: PLC0415 - import seatrial stays light

    return Results(path)
