"""``seatrial watch --record``: the file of a recording, and its result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from seatrial.cli.files import RECORDING, Output, is_parquet, writable_path, writable_trace_path
from seatrial.errors import RefusedError, UsageError
from seatrial.study.units import SIZE_EXPECTED, format_size, parse_size_bytes

if TYPE_CHECKING:
    from seatrial.trials.watch.measure.recorder import RecordingResult, RecordingTarget

ROTATE: Final = "1GiB"
_ROTATE_BYTES_MIN: Final = 1 << 16


def read_size_bytes(_context: click.Context, _parameter: click.Parameter, written: str) -> int:
    """Return a size of files (bytes).

    Raises:
        click.BadParameter: if it is invalid, or too small.
    """
    try:
        size_bytes = parse_size_bytes(written)
    except ValueError as error:
        raise click.BadParameter(f"{error}; give {SIZE_EXPECTED}") from None
    if size_bytes is None or size_bytes < _ROTATE_BYTES_MIN:
        raise click.BadParameter(f"{written} is less than 64 KiB")
    return size_bytes


def record_to(output: Output, rotate_bytes: int) -> RecordingTarget | None:
    """Return where a recording can be written without a loss; None where none is wanted.

    Raises:
        RefusedError: if something is there that must not be replaced.
        UsageError: if it cannot be written there.
    """
    if output.stream is not None:
        raise UsageError(
            seen="A recording cannot go to standard output",
            cause="It is a Parquet file, whose parts are not written in order",
            next_step="Name a file with --record FILE",
        )
    if output.path is None:
        return None
    from seatrial.trials.watch.measure.recorder import RecordingTarget  # noqa: PLC0415

    path = writable_trace_path(output.path, force=output.force, kind=RECORDING)
    _require_no_others(path, force=output.force)
    return RecordingTarget(path, rotate_bytes)


def _require_no_others(path: Path, *, force: bool) -> None:
    """Remove further files of a recording that is replaced, and one that was cut off.

    Raises:
        RefusedError: if there are some, and they are not to be replaced.
    """
    others = sorted(
        each
        for each in path.parent.iterdir()
        if each.name.startswith(f"{path.name}.")
        and each.name.removeprefix(f"{path.name}.").split(".")[0].isdigit()
    )
    cut_off = Path(f"{path}.part.end")
    if cut_off.exists() and not force:
        raise RefusedError(
            seen=f"A recording to {path} was cut off, but can be read",
            cause="Its recorder was killed, or its machine went down",
            next_step=f"See it with `seatrial trace show {path}`, which completes it, or replace "
            "it with --force",
        )
    for each in others:
        writable_path(each, force=force, kind=RECORDING)
    for each in (*others, cut_off) if force else ():
        each.unlink(missing_ok=True)


def store(recording: Path, results: Path, *, label: str = "") -> str:
    """Store a recording as a run of a results file; return the result and the next step.

    Args:
        recording: Its first file.
        results: The results file.
        label: The user's name for the run.

    Raises:
        ResultsFileError: if the results file cannot be used; the recording is not affected.
        UsageError: if the recording has no latencies, or cannot be read.
    """
    from seatrial.cli.options import next_command  # noqa: PLC0415 - not for --help
    from seatrial.results.store import ResultsFile  # noqa: PLC0415
    from seatrial.trials.watch.stored import run_of  # noqa: PLC0415

    run, samples = run_of(recording, label=label)
    if not samples:
        return "Not stored as a run: it has no requests."
    with ResultsFile.open(results, create=True) as stored:
        is_new = all(each.id != run.id for each in stored.runs())
        if is_new:
            stored.add_run(run, samples)
    return (
        f"Stored {'as' if is_new else 'already, as'} run {run.id}\n"
        f"Next:  {next_command('show', run.id, results=results)}, or compare it with another"
    )


def recording_of(reference: str, results: Path) -> Path:
    """Return the first file of the recording that a user names: a file, or a run that is one.

    The recording of a run is searched for in the folder of its results file and in the current
    folder; its metadata must match the run.

    Args:
        reference: A path, or a run as ``load_source`` takes it.
        results: The results file to search for runs.

    Raises:
        ResultsFileError: when a results file cannot be read.
        UsageError: if nothing fits the reference, it is not a recording, or its file is missing.
    """
    from seatrial.cli.sources import is_results_file, load_source  # noqa: PLC0415 - not for --help
    from seatrial.results.model import origin_of  # noqa: PLC0415
    from seatrial.trials.watch.stored import FORMAT, is_recording_of  # noqa: PLC0415

    path = Path(reference)
    if is_parquet(path) or (path.is_file() and not is_results_file(path)):
        return path
    run = load_source(reference, results).run
    origin = origin_of(run)
    if origin is None or origin.format != FORMAT:
        raise UsageError(
            seen=f"The run {reference} is not a recording",
            cause="Only recorded requests can be simulated; a run of a test has none",
            next_step="Name a recording: `seatrial watch --record FILE` makes one",
        )
    file, _, _run = reference.rpartition(":")
    named = next((each for each in (path, Path(file)) if is_results_file(each)), results)
    folders = list(dict.fromkeys(each.resolve() for each in (named.parent, Path())))
    for folder in folders:
        found = folder / origin.file
        if found.is_file() and is_recording_of(found, run):
            return found
    raise UsageError(
        seen=f"The recording {origin.file} of the run {reference} is not in "
        + " or ".join(map(str, folders)),
        cause="A results file holds the latencies of a recording, not its requests",
        next_step=f"Name the file instead of the run: PATH/{origin.file}",
    )


def recorded_text(recorded: RecordingResult) -> str:
    """Return the result of a recording, as a sentence or two."""
    from seatrial.stats.wording import format_plural  # noqa: PLC0415 - after a recording only
    from seatrial.trials.watch.report.terminal import loss_sentences  # noqa: PLC0415 - likewise

    files = "" if recorded.files == 1 else f" in {recorded.files} files"
    size = format_size(recorded.total_bytes)
    requests = format_plural(recorded.requests, "request")
    text = f"Recorded {requests} to {recorded.path}{files}: {size}"
    if recorded.requests:
        text += f", {recorded.total_bytes / recorded.requests:.1f} bytes per request"
    lost = list(loss_sentences(recorded.lost))
    return "\n".join([f"{text}.", *lost, *(["The recording states this, too."] if lost else [])])
