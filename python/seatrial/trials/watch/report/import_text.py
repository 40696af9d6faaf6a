"""The result of an import, as text."""

from __future__ import annotations

from seatrial.report.terminal import wrapped
from seatrial.stats.wording import format_duration_s, format_plural
from seatrial.study.units import format_size
from seatrial.trials.watch.recording import TIME, RecordingMetadata
from seatrial.trials.watch.report.load_phrases import left_out_lines, unknown_lines


def import_text(
    found: str, requests: int, total_bytes: int, files: int, about: RecordingMetadata
) -> str:
    """Return the requests of a recording, and what is unknown or left out.

    Args:
        found: The format.
        requests: How many requests there are.
        total_bytes: Size of the recording.
        files: How many files the trace has.
        about: The metadata of the recording.
    """
    length = f" in {format_duration_s(about.seconds)}" if TIME not in about.made_up else ""
    devices = format_plural(len(about.devices), "device")
    several = f" from {files} files" if files > 1 else ""
    first = (
        f"{found}: {format_plural(requests, 'request')} to {devices}{length}{several}; "
        f"{format_size(total_bytes)}, {total_bytes / max(1, requests):.1f} bytes a request."
    )
    return "\n".join(map(wrapped, [first, *left_out_lines(about), *unknown_lines(about)]))
