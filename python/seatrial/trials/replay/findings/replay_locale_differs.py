"""Finding ``replay_locale_differs``: the database has another locale than the captured one."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.model import DatabaseRecord
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.trials.database.analysis.model import records_of


class ReplayLocaleDiffersFigures(Figures, frozen=True, kw_only=True, tag="replay_locale_differs"):
    locale: str
    locale_captured: str
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        captured = self.locale_captured or "an unknown one"
        return FindingText(
            sentence=(
                f"{self.concerned}: the database has locale {self.locale}, the captured one "
                f"{captured}. Plans and results of LIKE, lower() and ORDER BY on text may differ."
            ),
            cause=(
                "The server refused the captured locale, because its build or machine lacks it, "
                "or the database existed before. A prefix search with LIKE, for example, can use "
                "an ordinary index only in locale C."
                if self.locale_captured
                else "Plain SQL does not contain the locale, so the data have the server's own."
            ),
            next=(
                "Install the captured locale where the server runs, or replay to a database that "
                "was created with it."
                if self.locale_captured
                else "Load an archive (pg_dump -Fc): it contains the locale. Or replay to a "
                "database that was created with the captured locale."
            ),
        )


@from_samples(rank=85, section="Replays", sees_replays=True)
def replay_locale_differs(context: Context) -> list[Finding]:
    """Find replays to a database with another locale than the captured one.

    Means:
        The database's locale differs from the captured one's, or the latter is unknown. Plans and
        results of `LIKE`, `lower()` and `ORDER BY` on text may differ, and with them times and
        rows: a prefix search with `LIKE` can use an ordinary index only in locale C.

    Decided:
        The locale and encoding in the archive of `--prepare` are compared with those of the
        database that it was loaded into. Warning if they differ: the server refused them, or the
        database existed before. Note if they are unknown: data from plain SQL, or none.

    Do:
        Install the captured locale where the server runs; prepare from an archive (`pg_dump -Fc`),
        which contains the locale, rather than from plain SQL.
    """
    found = {
        cell.cell.key: record
        for cell in context.cells
        for record in records_of(cell.samples)
        if cell.cell.kind == "replay" and _is_other(record)
    }
    if not found:
        return []
    cells = [cell for cell in context.cells if cell.cell.key in found]
    first = max(found.values(), key=lambda record: bool(record.locale_captured))
    return [
        Finding(
            severity="warning" if first.locale_captured else "note",
            cells=identities(cells),
            figures=ReplayLocaleDiffersFigures(
                locale=first.locale,
                locale_captured=first.locale_captured,
                concerned=context.affected_cells(cells),
            ),
        )
    ]


def _is_other(record: DatabaseRecord) -> bool:
    return bool(record.locale) and _folded(record.locale) != _folded(record.locale_captured)


def _folded(locale: str) -> str:
    """Return one spelling of a locale: C.UTF-8 and C.utf8 are the same."""
    return locale.casefold().replace("-", "")
