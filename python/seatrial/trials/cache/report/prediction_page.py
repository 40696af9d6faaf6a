"""The HTML page of a prediction: what memory or an SSD in front would do."""

from __future__ import annotations

from seatrial.stats.wording import format_count, format_duration_s, moment
from seatrial.study.units import format_size
from seatrial.trials.cache.analysis.prediction import CachePrediction
from seatrial.trials.cache.report.prediction_figures import prediction_figures
from seatrial.trials.cache.report.prediction_text import prediction_tables
from seatrial.trials.cache.report.prediction_words import confidence, doubts, notable, verdict_line
from seatrial.trials.watch.recording import RecordingAbout
from seatrial.trials.watch.report.load_page import PageWords, page_of


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
    words = PageWords(
        verdict=verdict_line(found),
        notable=notable(found),
        doubts=doubts(found, about),
        confidence=confidence(found, about),
        next_step=next_step,
    )
    return page_of(
        f"caches for {name}", words, _particulars(about, found),
        prediction_figures(found), prediction_tables(found),
    )  # fmt: skip


def _particulars(about: RecordingAbout, found: CachePrediction) -> dict[str, str]:
    return {
        "Recorded": moment(about.began_at_s) if about.began_at_s > 0 else "unknown",
        "Length": format_duration_s(found.seconds),
        "Reads": f"{format_count(found.reads)} blocks of {format_size(found.block_bytes)}",
        "Different blocks": format_size(found.unique_bytes),
        "Memory keeps": found.policy,
        "SSD": found.device_kind if any(each.device_bytes for each in found.tiers) else "none",
    }
