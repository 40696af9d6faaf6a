"""The HTML page of a recording: what kind of load it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seatrial.findings.answer import RunAnswer
from seatrial.report.document import chapters, page_document
from seatrial.report.first_screen import first_screen
from seatrial.report.markup import fill
from seatrial.report.part import charts_section, key_section, plain_table, tables_section
from seatrial.stats.wording import format_count, format_duration_s, moment
from seatrial.study.units import format_size
from seatrial.trials.watch.analysis.load.whole import Load
from seatrial.trials.watch.report.load_figures import load_figures
from seatrial.trials.watch.report.load_text import load_tables
from seatrial.trials.watch.report.load_words import confidence, doubts, kind_line, notable

if TYPE_CHECKING:
    from seatrial.trials.watch.recording import Recording

_KEY_FIGURES: int = 2


def render(name: str, recording: Recording, load: Load, next_step: str) -> str:
    """Return the page as a self-contained HTML document.

    Args:
        name: Of the recording, as the user named it.
        recording: Its requests.
        load: What kind of load they are.
        next_step: What to do next.

    Raises:
        AssetError: when the installation's ECharts is not the one that was pinned.
    """
    sentences = notable(load)
    answer = RunAnswer(
        verdict=kind_line(load),
        grade="unknown",
        tiles=[],
        worst=[],
        worst_lines=[],
        notes_count=len(sentences),
        confidence=confidence(load, recording.about),
        next_step=next_step,
        assessments=[],
    )
    figures = load_figures(load, recording)
    names = {"load": "What stands out"}
    names |= {"key": "Key charts"} if figures else {}
    names |= {"charts": "More charts"} if len(figures) > _KEY_FIGURES else {}
    body = fill(
        "report/templates/body.html",
        head=first_screen(
            f"recording {name}", answer, _particulars(recording, load), anchors=[],
            all_findings="load",
        ),
        chapters=chapters(names | {"tables": "Tables"}),
        parts=[
            fill(
                "trials/watch/report/load_section.html",
                sentences=sentences,
                doubts=doubts(load, recording.about),
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
                    for each in load_tables(load)
                ]
            ),
        ],
        skip=("load", "what stands out"),
    )  # fmt: skip
    return page_document(f"{name}: Seatrial recording", body, figures, f"Seatrial, {name}")


def _particulars(recording: Recording, load: Load) -> dict[str, str]:
    about = recording.about
    devices = ", ".join(
        each.name + (f" ({format_size(each.size_bytes)})" if each.size_bytes else "")
        for each in about.devices[:4]
    )
    more = f" and {len(about.devices) - 4} more" if len(about.devices) > 4 else ""
    return {
        "Devices": f"{devices}{more}" or "unknown",
        "Began": moment(about.began_at_s) if about.began_at_s > 0 else "unknown",
        "Length": format_duration_s(load.seconds) if load.arrivals else "unknown",
        "Requests": format_count(load.requests),
        "Source": about.source,
    }
