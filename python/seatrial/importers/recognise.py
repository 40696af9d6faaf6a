"""Selects the reader of a file by its content, never by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from seatrial.errors import UsageError
from seatrial.importers import bm_flash, csv_table, iometer, pgbench_log
from seatrial.importers.document import Document, Imported, open_document, unknown_format
from seatrial.importers.fio import document as fio_text
from seatrial.importers.fio import logs as fio_logs
from seatrial.importers.fio import results as fio_json
from seatrial.importers.fio.jobs import JobStudy, is_job_file, study_of

Reader = Callable[[Document], Imported]

READERS: Final[tuple[tuple[Callable[[str], bool], Reader], ...]] = (
    (fio_text.is_fio, fio_json.read),
    (bm_flash.is_bm_flash, bm_flash.read),
    (fio_logs.is_log, fio_logs.read),
    (csv_table.is_table, csv_table.read),
)
"""Detection and reader of each format, the most specific first."""


def read_results(path: Path, *further: Path) -> Imported:
    """Return the run of a result file of another tool.

    Args:
        path: The file; the logs of a fio JSON, and the logs of pgbench's other threads, are read
            from the same directory.
        further: More files of the same result: pgbench logs of other processes.

    Raises:
        UsageError: It cannot be read, has an unknown format, is truncated, or has text instead of a
            number; or the files do not belong together.
    """
    # Millions of lines, and so never read as a text.
    if any(pgbench_log.is_log(each) for each in (path, *further)):
        return pgbench_log.read([path, *further])
    if further:
        raise _several(path, further)
    document = open_document(path)
    for is_format, read in READERS:
        if is_format(document.text):
            return read(document)
    if is_job_file(document.text):
        raise UsageError(
            seen=f"{path} is a fio job file, not a result",
            cause="A job file specifies what to measure; fio or Seatrial has to run it",
            next_step=f"Measure it with `seatrial study {path}`, or specify the output of fio",
        )
    raise unknown_format(document)


def _several(path: Path, further: Sequence[Path]) -> UsageError:
    return UsageError(
        seen=f"{1 + len(further)} files are specified, but {path} is not a pgbench log",
        cause="Only logs of several pgbench processes form one result in several files",
        next_step="Import the files one by one",
    )


def read_jobs(path: Path) -> JobStudy | None:
    """Return the study of a fio job file or an IOmeter configuration; None for anything else.

    Raises:
        UsageError: It is malformed.
    """
    # A pipe can be read only once, for its results.
    if not path.is_file() or pgbench_log.is_log(path):
        return None
    try:
        document = open_document(path)
    except UsageError:
        return None
    if iometer.is_configuration(document.text):
        return iometer.study_of(document)
    return study_of(document) if is_job_file(document.text) else None
