"""What a terminal says of where an imported run comes from."""

from __future__ import annotations

import click

from seatrial.results.model import Run
from seatrial.results.origin import origin_of

WIDTH = 100


def origin_text(run: Run) -> str:
    """Return the source of an imported run and what could not be taken over; else nothing."""
    origin = origin_of(run)
    if origin is None:
        return ""
    lines = [f"Imported from {origin.file} ({origin.format}, {origin.tool})."]
    if origin.blank_cells:
        lines.append(f"{len(origin.blank_cells)} of its cells are blank.")
    lines += [
        click.wrap_text(note, width=WIDTH, initial_indent="   ", subsequent_indent="   ")
        for note in origin.notes
    ]
    return "\n".join(lines) + "\n"
