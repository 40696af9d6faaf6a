"""The frame of every page: its policy, its style, its data and its script, around any content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from seatrial import _core
from seatrial.report import assets
from seatrial.report.figures.model import Figure
from seatrial.report.markup import Markup, element, join, unbroken
from seatrial.report.own_files import GENERATOR

BYTES_MAX = 1_500_000
"""How large a page may be, so that it can be sent as a mail and opens at once."""

_LARGE_LETTERS_MAX = 160


def page_document(
    title: str, body: Iterable[Markup | str], figures: Sequence[Figure], source: str
) -> str:
    """Return a self-contained HTML document.

    Args:
        title: Of the window.
        body: What the page shows, in order.
        figures: What its script draws.
        source: Where the figures come from, as a saved picture says it.

    Raises:
        AssetError: When the installation's ECharts is not the one that was pinned.
    """
    data = {"source": source, "figures": msgspec.to_builtins(figures)}
    content = element(
        "body",
        *body,
        assets.data_block("report-data", data),
        *(script.markup for script in assets.scripts()),
    )
    return f"<!DOCTYPE html>\n{element('html', _document_head(title), content, lang='en')}\n"


def page_head(
    name: str, verdict: str, particulars: Mapping[str, str], status: str = "", notice: str = ""
) -> Markup:
    """Return the top of a page: masthead, the verdict in large type, and what it is about.

    Args:
        name: What the page is of.
        verdict: The answer, in one sentence.
        particulars: By term, such as ``Started``.
        status: What must be known before the verdict is believed; empty where nothing must.
        notice: What holds for all figures of the page; empty where nothing does.
    """
    pairs = (
        element("div", element("dt", term), element("dd", text))
        for term, text in particulars.items()
    )
    return element(
        "header",
        element(
            "p",
            element("strong", "Seatrial"),
            element("span", name),
            element("button", "Dark page", id="theme", type="button", hidden=True),
            class_="masthead",
        ),
        element("p", notice, class_="notice", role="note") if notice else "",
        element("h1", unbroken(verdict), class_=_size_of(verdict)),
        element("p", element("strong", status), class_="status") if status else "",
        element("dl", *pairs, class_="particulars"),
    )


def chapters(names: Mapping[str, str]) -> Markup:
    """Return links to the parts of a page, by their identifiers."""
    links = (element("a", name, href=f"#{identifier}") for identifier, name in names.items())
    return element("nav", join(links, " "), aria_label="Parts of the report")


def _size_of(verdict: str) -> str | None:
    """Return the class of a verdict too long for the largest letters."""
    return "long" if len(verdict) > _LARGE_LETTERS_MAX else None


def _document_head(title: str) -> Markup:
    policy = element(
        "meta", http_equiv="Content-Security-Policy", content=assets.content_security_policy()
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="generator", content=f"{GENERATOR} {_core.__version__}"),
        policy,
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        assets.styles().markup,
    )
