"""Text for a terminal: its width, and a finding as sentence, cause and next step."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Iterable
from typing import Final

import click

from seatrial.report.table import Table, as_text
from seatrial.stats.model import Finding
from seatrial.study.wrapping import wrap

WIDTH: Final = 100
"""Default width without a terminal, as in a pipe."""
WIDTH_MIN: Final = 60
WIDTH_MAX: Final = 200
SEVERITY_MARKS: Final = {"critical": "!!", "warning": " !", "note": "  "}
SEVERITY_COLOURS: Final = {"critical": "red", "warning": "yellow"}


def text_width(otherwise: int = WIDTH) -> int:
    """Return the width of text: the terminal's, or $COLUMNS, 60 to 200 characters.

    Args:
        otherwise: Width if standard output is not a terminal.
    """
    if not os.environ.get("COLUMNS") and not sys.stdout.isatty():
        return otherwise
    columns = shutil.get_terminal_size((otherwise, 24)).columns
    return min(max(columns, WIDTH_MIN), WIDTH_MAX)


_BARS: Final = "▁▂▃▄▅▆▇█"
_NOTHING: Final = " "


def bars(values: Collection[float]) -> str:
    """Return one bar character per value, scaled to the largest; blank for zero."""
    highest = max(values, default=0)
    return "".join(_bar(value / highest) if value > 0 else _NOTHING for value in values)


def _bar(share: float) -> str:
    return _BARS[min(len(_BARS) - 1, int(share * len(_BARS)))]


def is_coloured() -> bool:
    """Return whether text may have colours: on a terminal, unless $NO_COLOR is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def wrapped(text: str, initial: str = "", subsequent: str | None = None) -> str:
    """Return a text wrapped at the terminal's width, without breaks inside figures.

    Args:
        text: One paragraph.
        initial: Prefix of the first line.
        subsequent: Prefix of the others; blanks as wide as ``initial`` by default.
    """
    lines = wrap(text, text_width(), initial=initial, subsequent=subsequent)
    return "\n".join(lines) or initial.rstrip()


def table_text(table: Table) -> str:
    """Return a table that fits the terminal's width."""
    return as_text(table, text_width())


def analysis_text(
    verdict: str, notable: Iterable[str], confidence: str, next_step: str, tables: Iterable[Table]
) -> str:
    """Return an answer as lines: verdict, notable properties, confidence, next step, tables."""
    remarks = [wrapped(each, "- ") for each in notable]
    first = [
        wrapped(verdict),
        "",
        *([*remarks, ""] if remarks else []),
        wrapped(confidence, "Confidence: ", "  "),
        wrapped(next_step, "Next: ", "  "),
    ]
    return "\n\n".join(["\n".join(first), *(table_text(each).rstrip() for each in tables)])


def finding_text(finding: Finding) -> str:
    """Return a finding as sentence, cause and next step, each wrapped below its mark."""
    lines = [_marked(finding)]
    for label, text in (("why", finding.cause), ("try", finding.next)):
        if text:
            indent = f"   {label}: "
            lines.append(wrapped(text, indent))
    return "\n".join(lines)


def _marked(finding: Finding) -> str:
    mark = SEVERITY_MARKS.get(finding.severity, "  ")
    text = wrapped(finding.sentence, f"{mark} ")
    colour = SEVERITY_COLOURS.get(finding.severity)
    return click.style(text, fg=colour) if colour and is_coloured() else text
