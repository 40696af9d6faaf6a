"""The HTML page of a recording: its kind of load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from seatrial.findings.answer import RunAnswer
from seatrial.report.document import chapters, page_document
from seatrial.report.first_screen import first_screen
from seatrial.report.markup import fill
from seatrial.report.part import charts_section, key_section, plain_table, tables_section
from seatrial.stats.wording import (
    format_count,
    format_duration_s,
    format_first,
    format_plural,
    moment,
)
from seatrial.study.units import format_size
from seatrial.trials.watch.analysis.load.profile import LoadProfile
from seatrial.trials.watch.report.load_figures import load_figures
from seatrial.trials.watch.report.load_phrases import confidence, doubts, kind_line, notable
from seatrial.trials.watch.report.load_text import load_tables

if TYPE_CHECKING:
    from seatrial.report.figures.model import Figure
    from seatrial.report.table import Table
    from seatrial.trials.watch.recording import Recording

_KEY_FIGURES: int = 2


class PageWords(NamedTuple):
    """The sentences of a page.

    Attributes:
        verdict: The answer, in one line.
        notable: Notable properties, in a sentence each.
        doubts: Limits of the answer, in a sentence each.
        confidence: How certain it is, as one paragraph.
        next_step: The next step.
        warnings: How many of the notable properties are warnings.
    """

    verdict: str
    notable: Sequence[str]
    doubts: Sequence[str]
    confidence: str
    next_step: str
    warnings: int = 0


def render(name: str, recording: Recording, load: LoadProfile, next_step: str) -> str:
    """Return the page as a self-contained HTML document.

    Raises:
        AssetError: when the installation's ECharts is not the one that was pinned.
    """
    about = recording.about
    words = PageWords(
        verdict=kind_line(load),
        notable=notable(load),
        doubts=doubts(load, about),
        confidence=confidence(load, about),
        next_step=next_step,
    )
    figures = load_figures(load, recording)
    particulars = _particulars(recording, load)
    return page_of(
        f"recording {name}", words, particulars, figures,
        load_tables(load),
    )  # fmt: skip


def page_of(
    subject: str,
    words: PageWords,
    particulars: Mapping[str, str],
    figures: Sequence[Figure],
    tables: Sequence[Table],
) -> str:
    """Return a page on a recording: words first, then charts, then tables.

    Args:
        subject: Its subject, for the title.
        words: Its sentences.
        particulars: Facts of the recording, by name.
        figures: The most important first.
        tables: None of them empty.

    Raises:
        AssetError: when the installation's ECharts is not the one that was pinned.
    """
    answer = RunAnswer(
        verdict=words.verdict,
        grade="unknown",
        tiles=[],
        worst=[],
        worst_lines=[],
        notes_count=len(words.notable) - words.warnings,
        confidence=words.confidence,
        next_step=words.next_step,
        assessments=[],
    )
    figures = list(figures)
    names = {"load": "What stands out"}
    names |= {"key": "Key charts"} if figures else {}
    names |= {"charts": "More charts"} if len(figures) > _KEY_FIGURES else {}
    body = fill(
        "report/templates/body.html",
        head=first_screen(
            subject,
            answer,
            dict(particulars),
            anchors=[],
            all_findings="load",
            warnings=(f"{format_plural(words.warnings, 'warning')} about the run", "load")
            if words.warnings
            else None,
            has_severities=False,
        ),
        chapters=chapters(names | {"tables": "Tables"}),
        parts=[
            fill(
                "trials/watch/report/load_section.html",
                sentences=words.notable,
                doubts=words.doubts,
            ),
            key_section(figures[:_KEY_FIGURES]) if figures else "",
            charts_section(figures[_KEY_FIGURES:], heading="More charts"),
            tables_section(
                [
                    fill(
                        "trials/watch/report/load_table.html",
                        id=each.id,
                        title=each.title,
                        table=plain_table(each, captioned=False),
                    )
                    for each in tables
                ]
            ),
        ],
        skip=("load", "what stands out"),
    )
    title = f"Seatrial, {subject}"
    return page_document(title, body, figures, title)


def _particulars(recording: Recording, load: LoadProfile) -> dict[str, str]:
    about = recording.about
    devices = [
        each.name + (f" ({format_size(each.size_bytes)})" if each.size_bytes else "")
        for each in about.devices
    ]
    return {
        "Devices": format_first(devices, 4) or "unknown",
        "Began": moment(about.began_at_s) if about.began_at_s > 0 else "unknown",
        "Length": format_duration_s(load.seconds) if load.arrivals else "unknown",
        "Requests": format_count(load.requests),
        "Source": about.source,
    }
