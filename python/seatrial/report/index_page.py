"""The index of a results file: all its runs, and their key figures over time.

The page is complete without scripts and asks no network for anything. The same page is written as
a file (links lead to files next to it) and served on loopback (then runs can be edited).
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
"""Figures of a group that are drawn at once; the others are folded away."""


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What the index shows of one run.

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
        """What was measured: paths and addresses; of an imported run the name of its file."""
        if (origin := origin_of(self.run)) is not None:
            return origin.file
        named = (
            str(each.get("path") or each.get("url") or each.get("label") or each.get("kind") or "")
            for each in entries(self.run.study, "target")
        )
        return ", ".join(filter(None, named)) or "no target"

    @property
    def host(self) -> str:
        """The machine, by its make: no host names are stored."""
        parts = [host_of(self.run), "lab" if lab_notice(self.run) else ""]
        return ", ".join(filter(None, parts)) or "unknown host"

    @property
    def place(self) -> tuple[str, str, str]:
        """What runs must have in common to be repetitions: study, target and host."""
        return self.run.study_name, self.target, self.host


class TrendGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Repeated runs of one study on one target and host.

    Attributes:
        study: Name of the study.
        target: What was measured.
        host: The machine.
        runs_count: How many runs.
        trends: Figures that are shown at once.
        more: Further figures.
    """

    study: str
    target: str
    host: str
    runs_count: int
    trends: list[Trend]
    more: list[Trend]


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """Where the links of the index lead.

    Attributes:
        page: Returns the address of a run's page by the run's id.
        comparison: Returns that of the comparison of two runs, the older first.
    """

    page: Callable[[str], str]
    comparison: Callable[[str, str], str]


class Editing(msgspec.Struct, frozen=True, kw_only=True):
    """What the page needs to change runs.

    Attributes:
        token: Proves that a form is of this page (against cross-site requests).
        notice: What the last change did, or why it failed; empty for none.
    """

    token: str
    notice: str = ""


def entry_of(run: Run, samples: Sequence[Sample], profile: str = "") -> IndexEntry:
    """Return what the index shows of a run.

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
            if (previous := last.get(entry.place)) is not None:
                found[entry.run.id] = previous
            last[entry.place] = entry
    return found


def trend_groups(entries_: Sequence[IndexEntry]) -> list[TrendGroup]:
    """Return groups of repeated runs with their figures over time, the newest group first."""
    by_place: dict[tuple[str, str, str], list[IndexEntry]] = {}
    for entry in sorted(entries_, key=lambda each: each.run.started_at, reverse=True):
        if entry.tiles and entry.run.status == "complete":
            by_place.setdefault(entry.place, []).append(entry)
    found = []
    for (study, target, host), group in by_place.items():
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
    """Return the style of the index: that of every page, and its own."""
    names = [name for name in STYLES if name != "print.css"]
    return Inline(
        "style", "\n".join(read_asset(f"assets/{name}") for name in [*names, "index.css"])
    )


def index_policy(*, editable: bool) -> str:
    """Return the page's policy: its own style, no script, no request, forms only where served."""
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
        links: Where its links lead.
        editing: What is needed to change runs; None for a page that only shows them.
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
        text: What it says.
        refresh: Address that the browser goes on to at once; empty for none.
        link: Text of the link to that address, else to the first page; empty for none.
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
