"""Which reader a file is for, told by its content and never by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from seatrial.errors import UsageError
from seatrial.importers import bm_flash, csv_table, pgbench_log
from seatrial.importers.document import Document, open_document, unknown_format
from seatrial.importers.fio import logs as fio_logs
from seatrial.importers.fio import results as fio_json
from seatrial.importers.fio import text as fio_text
from seatrial.importers.fio.job_file import is_job_file
from seatrial.importers.fio.jobs import JobStudy, study_of
from seatrial.importers.model import Imported

Reader = Callable[[Document], Imported]

READERS: Final[tuple[tuple[Callable[[str], bool], Reader], ...]] = (
    (fio_text.is_fio, fio_json.read),
    (bm_flash.is_bm_flash, bm_flash.read),
    (fio_logs.is_log, fio_logs.read),
    (csv_table.is_table, csv_table.read),
)
"""What tells each format by its text, and what reads it; the surest first."""


def read_results(path: Path, *further: Path) -> Imported:
    """Return the run of a foreign result.

    Args:
        path: The file; beside a JSON of fio, its logs are read as well, and beside a log of
            pgbench those of its other threads.
        further: More files of the same result: other processes' logs of pgbench.

    Raises:
        UsageError: It cannot be read, is in no known format, is cut off, or holds a text where a
            figure should be; or several are named that do not belong together.
    """
    # Of millions of lines, and so never read as a text.
    if any(pgbench_log.is_log(each) for each in (path, *further)):
        return pgbench_log.read([path, *further])
    if further:
        raise _several(path, further)
    document = open_document(path)
    for is_it, read in READERS:
        if is_it(document.text):
            return read(document)
    if is_job_file(document.text):
        raise UsageError(
            seen=f"{path} is a job file of fio, which holds no result",
            cause="It says what to measure; fio, or Seatrial, has yet to do it",
            next_step=f"Measure it with `seatrial study {path}`, or name what fio printed",
        )
    raise unknown_format(document)


def _several(path: Path, further: Sequence[Path]) -> UsageError:
    return UsageError(
        seen=f"{1 + len(further)} files are named, and {path} is no log of pgbench",
        cause="Only the logs of several processes of pgbench are one result in several files",
        next_step="Import the files one by one",
    )


def read_jobs(path: Path) -> JobStudy | None:
    """Return the study of a job file of fio; None where the file is anything else.

    Raises:
        UsageError: It is one, and malformed.
    """
    if pgbench_log.is_log(path):
        return None
    try:
        document = open_document(path)
    except UsageError:
        return None
    return study_of(document) if is_job_file(document.text) else None
