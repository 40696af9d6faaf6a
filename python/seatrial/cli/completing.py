"""What a shell completes for a run and for a study: names that are there, then files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from seatrial.errors import SeatrialError

RUNS_MAX: Final = 50
"""The newest ones: a longer list helps nobody to choose."""


def complete_runs(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return ``last``, labels and identifiers of the newest runs that begin so; else files."""
    from seatrial.results.store import ResultsFile  # noqa: PLC0415 - not for --help

    results = context.params.get("results") or os.environ.get("SEATRIAL_RESULTS")
    names = {"last": "the newest run"}
    try:
        with ResultsFile.open(Path(results or "results.seatrial")) as store:
            newest = sorted(store.runs(), key=lambda run: run.started_at, reverse=True)
    except (SeatrialError, OSError):
        newest = []
    for run in newest[:RUNS_MAX]:
        started = datetime.fromtimestamp(run.started_at).astimezone().strftime("%Y-%m-%d %H:%M")
        if run.label:
            names.setdefault(run.label, f"{run.study_name}, {started}")
        names[run.id] = f"{run.label or run.study_name}, {started}"
    return _beginning(names.items(), incomplete)


def complete_studies(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the shipped studies that begin so; else files."""
    from seatrial.study.load import shipped_studies  # noqa: PLC0415 - not for --help

    return _beginning(((name, "shipped study") for name in shipped_studies()), incomplete)


def _beginning(names: Iterable[tuple[str, str]], incomplete: str) -> list[CompletionItem]:
    found = [
        CompletionItem(name, help=about) for name, about in names if name.startswith(incomplete)
    ]
    return found or [CompletionItem(incomplete, type="file")]
