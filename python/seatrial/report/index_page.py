"""The index of a results file: all its runs, and their key figures over time.

The page is complete without scripts and makes no network requests. The same page is written as a
file (with links to files next to it) and served on loopback (then runs can be edited).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Final

import msgspec

from seatrial import _core
from seatrial.findings.answer import answer
from seatrial.findings.context import entries
from seatrial.findings.summary import summarise
from seatrial.findings.tile import Tile
from seatrial.report.document import GENERATOR, STYLES, Inline, read_asset
from seatrial.report.lab import lab_notice
from seatrial.report.markup import fill
from seatrial.report.trend import Trend, trends
from seatrial.results.model import Run, Sample, origin_of
from seatrial.stats.set_up import host_of
from seatrial.stats.wording import format_plural, moment

TRENDS_MAX: Final = 6
"""Figures of a group that are shown; the others are collapsed."""


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The entry of one run.

    Attributes:
        run: The run.
        verdict: One line.
        grade: ``good``, ``marginal``, ``poor`` or ``unknown``.
        tiles: Its key figures.
    """

    run: Run
    verdict: str
    grade: str
    tiles: list[Tile]

    @property
    def name(self) -> str:
        """The run's label, else the name of its study."""
        return self.run.label or self.run.study_name

    @property
    def when(self) -> str:
        """When it began."""
        return moment(self.run.started_at)

    @property
    def target(self) -> str:
        """The paths and addresses that were measured; for an imported run, its file's name."""
        if (origin := origin_of(self.run)) is not None:
            return origin.file
        named = (
            str(each.get("path") or each.get("url") or each.get("label") or each.get("kind") or "")
            for each in entries(self.run.study, "target")
        )
        return ", ".join(filter(None, named)) or "no target"

    @property
    def host(self) -> str:
        """The make of the machine; host names are not stored."""
        parts = [host_of(self.run), "lab" if lab_notice(self.run) else ""]
        return ", ".join(filter(None, parts)) or "unknown host"

    @property
    def series_key(self) -> tuple[str, str, str]:
        """The key that repetitions of a run share: study, target and host."""
        return self.run.study_name, self.target, self.host


class TrendGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Repeated runs of one study on one target and host.

    Attributes:
        study: Name of the study.
        target: What was measured.
        host: The machine.
        runs_count: How many runs.
        trends: Figures that are shown.
        more: Collapsed figures.
    """

    study: str
    target: str
    host: str
    runs_count: int
    trends: list[Trend]
    more: list[Trend]


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """Targets of the links of the index.

    Attributes:
        page: Returns the address of a run's page by the run's id.
        comparison: Returns the address of the comparison of two runs, the older first.
    """

    page: Callable[[str], str]
    comparison: Callable[[str, str], str]


class Editing(msgspec.Struct, frozen=True, kw_only=True):
    """State of a page on which runs can be changed.

    Attributes:
        token: Proves that a form comes from this page (against cross-site requests).
        notice: The result of the last change; empty for none.
    """

    token: str
    notice: str = ""


def entry_of(run: Run, samples: Sequence[Sample], profile: str = "") -> IndexEntry:
    """Return the entry of a run.

    Args:
        run: The run.
        samples: All of its samples.
        profile: Name or file of the profile that grades it; empty for none.

    Raises:
        UsageError: when there is no such profile.
    """
    found = answer(summarise(run, samples), profile)
    return IndexEntry(run=run, verdict=found.verdict, grade=found.grade, tiles=found.tiles)


def neighbours(entries_: Iterable[IndexEntry]) -> dict[str, IndexEntry]:
    """Return the previous run of the same study, target and host, by the id of the later run."""
    last: dict[tuple[str, str, str], IndexEntry] = {}
    found = {}
    for entry in sorted(entries_, key=lambda each: each.run.started_at):
        if entry.tiles:
            if (previous := last.get(entry.series_key)) is not None:
                found[entry.run.id] = previous
            last[entry.series_key] = entry
    return found


def trend_groups(entries_: Sequence[IndexEntry]) -> list[TrendGroup]:
    """Return groups of repeated runs with their figures over time, the newest group first."""
    by_series_key: dict[tuple[str, str, str], list[IndexEntry]] = {}
    for entry in sorted(entries_, key=lambda each: each.run.started_at, reverse=True):
        if entry.tiles and entry.run.status == "complete":
            by_series_key.setdefault(entry.series_key, []).append(entry)
    found = []
    for (study, target, host), group in by_series_key.items():
        drawn = trends([(each.run, each.tiles) for each in reversed(group)])
        if drawn:
            found.append(
                TrendGroup(
                    study=study,
                    target=target,
                    host=host,
                    runs_count=len(group),
                    trends=drawn[:TRENDS_MAX],
                    more=drawn[TRENDS_MAX:],
                )
            )
    return found


@cache
def index_style() -> Inline:
    """Return the style of the index: the common one and its own."""
    names = [name for name in STYLES if name != "print.css"]
    return Inline(
        "style", "\n".join(read_asset(f"assets/{name}") for name in [*names, "index.css"])
    )


def index_policy(*, editable: bool) -> str:
    """Return the page's policy: its own style, no scripts or requests; forms only if served."""
    return "; ".join(
        [
            "default-src 'none'",
            f"style-src {index_style().source}",
            "base-uri 'none'",
            "form-action 'self'" if editable else "form-action 'none'",
        ]
    )


def render_index(
    entries_: Sequence[IndexEntry], source: str, links: Links, editing: Editing | None = None
) -> str:
    """Return the index as an HTML document.

    Args:
        entries_: The newest run first.
        source: Name of the results file.
        links: Targets of its links.
        editing: State for changing runs; None for a page that only shows them.
    """
    body = fill(
        "report/templates/index.html",
        source=source,
        entries=entries_,
        previous=neighbours(entries_),
        groups=trend_groups(entries_),
        links=links,
        editing=editing,
        count=format_plural(len(entries_), "run"),
        statuses={"running": "running", "interrupted": "interrupted", "failed": "failed"},
    )
    content = fill(
        "report/templates/index_document.html",
        title=f"{source}: runs",
        body=body,
        generator=f"{GENERATOR} {_core.__version__}",
        policy=index_policy(editable=editing is not None),
        style=index_style().text,
        refresh="",
    )
    return f"<!DOCTYPE html>\n{content}\n"


def message_page(title: str, text: str, refresh: str = "", link: str = "All runs") -> str:
    """Return a small page with one message.

    Args:
        title: Its heading.
        text: The message.
        refresh: Address that the browser loads next; empty for none.
        link: Text of the link to that address or the first page; empty for none.
    """
    body = fill(
        "report/templates/index_message.html", title=title, text=text, refresh=refresh, link=link
    )
    content = fill(
        "report/templates/index_document.html",
        title=title,
        body=body,
        generator=f"{GENERATOR} {_core.__version__}",
        policy=index_policy(editable=False),
        style=index_style().text,
        refresh=refresh,
    )
    return f"<!DOCTYPE html>\n{content}\n"
