"""The HTML page of a prediction: what memory or an SSD in front would do."""

from __future__ import annotations

from seatrial.findings.answer import RunAnswer
from seatrial.report.document import chapters, page_document
from seatrial.report.first_screen import first_screen
from seatrial.report.markup import fill
from seatrial.report.part import key_section, plain_table, tables_section
from seatrial.stats.wording import format_count, format_duration_s, moment
from seatrial.study.units import format_size
from seatrial.trials.cache.analysis.prediction import CachePrediction
from seatrial.trials.cache.report.prediction_figures import prediction_figures
from seatrial.trials.cache.report.prediction_text import prediction_tables
from seatrial.trials.cache.report.prediction_words import confidence, doubts, notable, verdict_line
from seatrial.trials.watch.recording import RecordingAbout


def render(name: str, about: RecordingAbout, found: CachePrediction, next_step: str) -> str:
    """Return the page as a self-contained HTML document.

    Args:
        name: Of the recording, as the user named it.
        about: What the recording says of itself.
        found: The prediction.
        next_step: What to do next.

    Raises:
        AssetError: when the installation's ECharts is not the one that was pinned.
    """
    sentences = notable(found)
    answer = RunAnswer(
        verdict=verdict_line(found),
        grade="unknown",
        tiles=[],
        worst=[],
        worst_lines=[],
        notes_count=len(sentences),
        confidence=confidence(found, about),
        next_step=next_step,
        assessments=[],
    )
    figures = prediction_figures(found)
    names = {"load": "What stands out", "key": "Key charts", "tables": "Tables"}
    body = fill(
        "report/templates/body.html",
        head=first_screen(
            f"caches for {name}", answer, _particulars(about, found), anchors=[],
            all_findings="load",
        ),
        chapters=chapters(names),
        parts=[
            fill(
                "trials/watch/report/load_section.html",
                sentences=sentences,
                doubts=doubts(found, about),
            ),
            key_section(figures),
            tables_section(
                [
                    fill(
                        "trials/watch/report/load_table.html",
                        id=each.id,
                        title=each.title,
                        table=plain_table(each, captioned=False),
                    )
                    for each in prediction_tables(found)
                ]
            ),
        ],
        skip=("load", "what stands out"),
    )  # fmt: skip
    return page_document(f"{name}: Seatrial caches", body, figures, f"Seatrial, {name}")


def _particulars(about: RecordingAbout, found: CachePrediction) -> dict[str, str]:
    return {
        "Recorded": moment(about.began_at_s) if about.began_at_s > 0 else "unknown",
        "Length": format_duration_s(found.seconds),
        "Reads": f"{format_count(found.reads)} blocks of {format_size(found.block_bytes)}",
        "Different blocks": format_size(found.unique_bytes),
        "Memory keeps": found.policy,
        "SSD": found.device_kind if any(each.device_bytes for each in found.tiers) else "none",
    }
