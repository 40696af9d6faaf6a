"""The page of a watch: live from its server, or saved as one file that needs no network.

Both are the same script over the same data; it shares charts, colours and words with the report.
"""

from __future__ import annotations

import base64
import gzip
import time
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec
from markupsafe import Markup

from seatrial import _core
from seatrial.report.document import (
    GENERATOR,
    LOADER,
    Inline,
    echarts_script,
    packed_text,
    read_asset,
)
from seatrial.report.markup import fill
from seatrial.report.part import plain_table
from seatrial.stats.wording import moment
from seatrial.trials.watch.analysis.activity import Interval
from seatrial.trials.watch.analysis.history import Event
from seatrial.trials.watch.report.terminal import headline, lost_lines, summary_tables

_SHARED: Final = ("theme.js", "format.js", "panels.js", "heatmap.js", "save.js")
"""Scripts of the report that the page uses, too."""
_OWN: Final = ("model.js", "columns.js", "plots.js", "heat.js", "lines.js", "breakdown.js",
               "worksheet.js", "run.js", "watch.js")  # fmt: skip
_GZIP_LEVEL: Final = 6
_STYLES: Final = ("page.css", "print.css")


class Startup(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a watch that the page has from its start.

    Attributes:
        watched: The disks or the database, as in a heading.
        run: The run that is shown while it is measured, likewise; empty for a watch alone.
        has_disks: Whether requests of any disk are watched.
        without_line: Which disks have no load line, as a sentence; empty where all have one.
        level: Number of the level.
        sees: What it shows.
        lacks: What it cannot see.
        cost: What it costs.
        reason: Why the level is not higher; empty where none was requested or possible.
        started_at: Unix time in seconds.
        every_s: Length of an interval.
        has_server: Whether a database server's own statistics are read.
        has_group: Whether the control group of the process or server is counted.
        history_s: How long events are stored.
        history_bytes_max: Limit of their size.
        rows_per_doubling: Rows of the latencies.
        version: Version of Seatrial.
    """

    watched: str
    run: str = ""
    has_disks: bool = True
    without_line: str = ""
    level: int
    sees: str
    lacks: str
    cost: str
    reason: str
    started_at: float
    every_s: float
    has_server: bool
    has_group: bool = False
    history_s: float
    history_bytes_max: int
    rows_per_doubling: int
    version: str


@cache
def _script() -> Inline:
    texts = [*(read_asset(f"assets/{name}") for name in _SHARED), *map(_asset, _OWN)]
    return Inline("script", "\n".join(texts))


@cache
def _style() -> Inline:
    texts = [*(read_asset(f"assets/{name}") for name in _STYLES), _asset("watch.css")]
    return Inline("style", "\n".join(texts))


def _asset(name: str) -> str:
    folder = resources.files("seatrial.trials.watch.report")
    return folder.joinpath(f"assets/{name}").read_text(encoding="utf-8")


def live_page(startup: Startup) -> str:
    """Return the page that gets its events from the server."""
    body = fill("trials/watch/report/templates/live.html", startup=startup, saved="", tables=())
    return _document(_title(startup), body, b'{"mode":"live"}', is_live=True)


def saved_page(
    startup: Startup, events: Iterable[Event], total: Interval | None, worksheet: Mapping[str, Any]
) -> str:
    """Return a page of its own with the whole history, drawn according to a worksheet.

    Args:
        startup: The watch.
        events: The history.
        total: All intervals as one; its tables need no script. None before the end of the first
            interval.
        worksheet: Charts, filters and the time shown, as the page describes them.
    """
    saved = moment(time.time())
    tables = [plain_table(each) for each in summary_tables(total)] if total else []
    body = fill(
        "trials/watch/report/templates/live.html",
        startup=startup,
        saved=saved,
        headline=headline(total) if total else "No block requests.",
        tables=tables,
        lost=lost_lines(total) if total else [],
    )
    about = {"mode": "saved", "saved": saved, "startup": startup, "worksheet": worksheet}
    # The events are JSON already, and many.
    kept = b",".join(b'["%s",%s]' % (each.kind.encode(), each.data) for each in events)
    data = b'%s,"events":[%s]}' % (msgspec.json.encode(about)[:-1], kept)
    return _document(f"{_title(startup)}, {saved}", body, data, is_live=False)


def _title(startup: Startup) -> str:
    return f"Seatrial: {startup.run}" if startup.run else f"Seatrial watch: {startup.watched}"


def _document(title: str, body: Markup, data: bytes, *, is_live: bool) -> str:
    packed = gzip.compress(data, _GZIP_LEVEL, mtime=0)
    charts = Inline("script", echarts_script())
    loader = Inline("script", read_asset(f"assets/{LOADER}"))
    sources = " ".join(each.source for each in (loader, charts, _script()))
    policy = [
        "default-src 'none'",
        f"script-src {sources}",
        f"style-src {_style().source}",
        "img-src data: blob:",
        *(["connect-src 'self'"] if is_live else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    content = fill(
        "report/templates/page.html",
        title=title,
        body=body,
        generator=f"{GENERATOR} {_core.__version__}",
        policy="; ".join(policy),
        style=_style().text,
        loader=loader.text,
        packed=(packed_text(charts.text), packed_text(_script().text)),
        data=base64.b64encode(packed).decode(),
    )
    return f"<!DOCTYPE html>\n{content}\n"
