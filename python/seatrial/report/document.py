"""The frame of every page: content security policy, style, data and script."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from markupsafe import Markup

from seatrial import _core
from seatrial.errors import SeatrialError
from seatrial.report.figures.model import Figure
from seatrial.report.markup import fill

SCRIPTS = (
    "theme.js",
    "format.js",
    "panels.js",
    "overlay.js",
    "lines.js",
    "ladder.js",
    "bars.js",
    "scatter.js",
    "heatmap.js",
    "timeline.js",
    "save.js",
    "figure.js",
    "page.js",
)
"""The files of the page's own script in order; they share one module's scope."""

LOADER = "loader.js"
"""The script that unpacks the others."""

STYLES = ("page.css", "print.css")
"""The page's own style."""


class AssetError(SeatrialError):
    """A file of the page is not the pinned one, or would break the page."""


class Inline:
    """An inline script or style, with the hash that admits it.

    Attributes:
        text: The content of its element.
        source: The hash as a source of the policy.

    Raises:
        AssetError: When the text would end its own element.
    """

    def __init__(self, name: str, text: str) -> None:
        if f"</{name}" in text.lower() or "<!--" in text:
            raise AssetError(
                seen=f"An asset of the report holds </{name} or <!--, which would end its element.",
                cause="The installation was changed.",
                next_step="Install seatrial again.",
            )
        self.text = Markup(text)  # noqa: S704 - ours, and admitted by its hash
        digest = hashlib.sha256(text.encode()).digest()
        self.source = f"'sha256-{base64.b64encode(digest).decode()}'"


def read_asset(path: str) -> str:
    """Return the text of a file of this room, by its path inside it."""
    return resources.files("seatrial.report").joinpath(path).read_text(encoding="utf-8")


def echarts_script() -> str:
    """Return the vendored ECharts.

    Raises:
        AssetError: When its SHA-256 is not the pinned one.
    """
    script = read_asset("vendor/echarts.min.js")
    pinned = read_asset("vendor/echarts.sha256").split()[0]
    found = hashlib.sha256(script.encode()).hexdigest()
    if found != pinned:
        raise AssetError(
            seen=f"The report's echarts.min.js has the SHA-256 {found[:16]}…, not {pinned[:16]}….",
            cause="The installation was changed or damaged.",
            next_step="Install seatrial again, or build the file with 'npm ci && npm run build' in "
            "tools/vendor-echarts.",
        )
    return script


@cache
def styles() -> Inline:
    """Return the page's style."""
    return Inline("style", "\n".join(read_asset(f"assets/{name}") for name in STYLES))


class Scripts(NamedTuple):
    """The scripts of a page, in the order in which they run; the last two are kept packed.

    Attributes:
        loader: Unpacks the others and the data.
        charts: ECharts.
        own: The page's own.
        packed: ``charts`` and ``own`` as the page holds them.
    """

    loader: Inline
    charts: Inline
    own: Inline
    packed: tuple[str, str]

    @property
    def sources(self) -> str:
        """The hashes of all three, as sources of the policy."""
        return " ".join(each.source for each in (self.loader, self.charts, self.own))


@cache
def scripts() -> Scripts:
    """Return the scripts of a page.

    Raises:
        AssetError: When ECharts is not the pinned one.
    """
    charts = Inline("script", echarts_script())
    own = Inline("script", "\n".join(read_asset(f"assets/{name}") for name in SCRIPTS))
    packed = (packed_text(charts.text), packed_text(own.text))
    return Scripts(Inline("script", read_asset(f"assets/{LOADER}")), charts, own, packed)


def packed_text(text: str) -> str:
    """Return a text as gzip in base64, which is the same whenever it is made."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def content_security_policy() -> str:
    """Return the policy of the page: nothing from anywhere but these scripts and this style.

    Source: W3C Content Security Policy Level 3, sections 6.1 and 8.3 (hashes of inline elements).
    """
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {scripts().sources}",
            f"style-src {styles().source}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def data_text(document: object) -> str:
    """Return a JSON document packed: base64, of which no character ends a script element."""
    text = json.dumps(document, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return packed_text(text)


GENERATOR: Final = "Seatrial"
"""Content of the ``generator`` of a page, before the version."""
CSV_COLUMNS: Final = ("run_id", "cell_key", "kind")
"""The first columns of a run as CSV."""
BEGINNING_BYTES_MAX: Final = 16 << 10

_BEGINNINGS: Final = (
    re.compile(
        r'<!DOCTYPE html>\s*<html[^>]*>\s*<head>\s*<meta charset="utf-8">\s*'
        rf'<meta name="generator" content="{GENERATOR} '
    ),
    re.compile(r'\{\s*"seatrial":\s*"'),
    re.compile(r'\{\s*"fio version":\s*"seatrial-'),
    re.compile(re.escape(",".join(CSV_COLUMNS)) + ","),
    re.compile(
        r"# [^\n]*\n.*?\n- Run: \S+\n- Study: [^\n]*\n- Status: \w+\n- Started: [^\n]*\n"
        r"- Seatrial: ",
        re.DOTALL,
    ),
    re.compile(r"# HELP seatrial_run(?:_info)? "),
    re.compile(r'<\?xml version="1.0" encoding="UTF-8"\?>\n<testsuites>\n +<testsuite name='),
    re.compile(r"\*\*[^\n]*\*\*\n.*\nRun \S+, seatrial ", re.DOTALL),
    re.compile(r"; The (?:cells|tests) of [^\n]*, written by seatrial \S+\.\n"),
)


def is_own(path: Path) -> bool:
    """Return whether a file is a page or an export of a run, which can be made again; or empty.

    Our files are recognised by a mark: a ``generator`` in a page, a key in a JSON document, a
    comment or the columns of a table. A table as bm-flash prints it has none, so one of ours is
    not distinguished from one of bm-flash.

    Raises:
        OSError: when it cannot be read.
    """
    with path.open("rb") as file:
        beginning = file.read(BEGINNING_BYTES_MAX).decode("utf-8", "replace")
    # A run without cells is an empty line as CSV.
    return beginning in ("", "\n") or any(each.match(beginning) for each in _BEGINNINGS)


BYTES_MAX = 1_000_000
"""How large a page may be, so that it can be sent as a mail and opens at once."""


def page_document(title: str, body: Markup, figures: Sequence[Figure], source: str) -> str:
    """Return a self-contained HTML document.

    Args:
        title: Title of the window.
        body: What the page shows.
        figures: What its script draws.
        source: Where the figures come from, as a saved picture says it.

    Raises:
        AssetError: When the installation's ECharts is not the one that was pinned.
    """
    content = fill(
        "report/templates/page.html",
        title=title,
        body=body,
        generator=f"{GENERATOR} {_core.__version__}",
        policy=content_security_policy(),
        style=styles().text,
        loader=scripts().loader.text,
        packed=scripts().packed,
        data=data_text({"source": source, "figures": msgspec.to_builtins(figures)}),
    )
    return f"<!DOCTYPE html>\n{content}\n"


def chapters(names: Mapping[str, str]) -> Markup:
    """Return links to the parts of a page, by their identifiers."""
    return fill("report/templates/chapters.html", names=names)
