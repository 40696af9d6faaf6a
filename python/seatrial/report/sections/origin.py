"""Where the figures of an imported run come from, in place of a machine and a study."""

from __future__ import annotations

from typing import Final

from seatrial.report.markup import Markup, element
from seatrial.results.origin import Origin
from seatrial.stats.wording import format_plural, format_size

_FORMATS: Final = {
    "fio-json": "JSON of fio",
    "fio-json+": "JSON+ of fio, with histograms",
    "fio-log": "logs of fio",
    "bm-flash": "printed tables of bm-flash",
    "csv": "a table of comma-separated values",
}


def origin_section(origin: Origin) -> Markup:
    """Return the source, its format, and what of it could not be taken over."""
    facts = {
        "File": origin.file,
        "Written by": origin.tool,
        "Format": _FORMATS.get(origin.format, origin.format),
        "Size under test": format_size(origin.file_bytes) if origin.file_bytes else "not reported",
        "Absent in it": _blank_text(len(origin.blank_cells)),
    }
    pairs = [part for term, text in facts.items() for part in
             (element("dt", term), element("dd", text))]  # fmt: skip
    notes = element("ul", *(element("li", note) for note in origin.notes), class_="notes")
    return element(
        "section",
        element("h2", "Where the figures come from"),
        element("p", "Another tool measured this. Its machine and its target are not known here."),
        element("dl", *pairs, class_="facts"),
        notes if origin.notes else "",
        id="origin",
        aria_label="Where the figures come from",
    )


def _blank_text(count: int) -> str:
    if not count:
        return "nothing"
    return f"{format_plural(count, 'cell')} named without a figure, which {_stay(count)} absent"


def _stay(count: int) -> str:
    return "stays" if count == 1 else "stay"
