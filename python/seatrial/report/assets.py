"""The page's own style and script, the vendored ECharts, and the policy that admits only them."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import resources

from seatrial.errors import SeatrialError
from seatrial.report.markup import Markup, element

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
"""The page's own script in the order in which its files stand; they share one module's scope."""

STYLES = ("page.css", "print.css")
"""The page's own style."""


class AssetError(SeatrialError):
    """A file that the page is made of is not the one that was pinned, or would break the page."""


class Inline:
    """One script or style that stands inside the page, with the hash that admits it.

    Attributes:
        markup: The element.
        source: The hash as a source of the policy.

    Raises:
        AssetError: When the text would end its own element.
    """

    def __init__(self, name: str, text: str, **attributes: str) -> None:
        if f"</{name}" in text.lower() or "<!--" in text:
            raise AssetError(
                seen=f"An asset of the report holds </{name} or <!--, which would end its element.",
                cause="The installation was changed.",
                next_step="Install seatrial again.",
            )
        self.markup: Markup = element(name, Markup(text), **attributes)
        digest = hashlib.sha256(text.encode()).digest()
        self.source = f"'sha256-{base64.b64encode(digest).decode()}'"


def read_asset(path: str) -> str:
    """Return the text of a file of this room, by its path inside it."""
    return resources.files("seatrial.report").joinpath(path).read_text(encoding="utf-8")


def echarts_script() -> str:
    """Return the vendored ECharts.

    Raises:
        AssetError: When its SHA-256 is not the one pinned beside it.
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


@cache
def scripts() -> tuple[Inline, Inline]:
    """Return ECharts and the page's own script, in the order in which they run.

    Raises:
        AssetError: When ECharts is not the pinned one.
    """
    own = "\n".join(read_asset(f"assets/{name}") for name in SCRIPTS)
    return Inline("script", echarts_script()), Inline("script", own, type="module")


def content_security_policy() -> str:
    """Return the policy of the page: nothing from anywhere but these scripts and this style.

    Source: W3C Content Security Policy Level 3, sections 6.1 and 8.3 (hashes of inline elements).
    """
    script_sources = " ".join(script.source for script in scripts())
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {script_sources}",
            f"style-src {styles().source}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def data_block(identifier: str, document: object) -> Markup:
    """Return a JSON document in a script element that it cannot end or break out of.

    ``<`` ``>`` and ``&`` are written as JSON escapes, so no ``</script>`` or ``<!--`` can occur
    in it, whatever the user's text is.
    """
    text = json.dumps(document, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return element("script", Markup(text), type="application/json", id=identifier)
