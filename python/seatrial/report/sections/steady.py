"""Steady state in tables: the phases of what changed, and what every rule says."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.report.markup import Markup, element
from seatrial.report.sections.tables import plain_table
from seatrial.report.steady_tables import informative, rules_table, steady_table
from seatrial.stats.model import CellSummary
from seatrial.stats.steady.model import SteadyState
from seatrial.stats.wording import format_plural

_RULES_SHOWN_MAX = 60


def steady_section(states: Sequence[SteadyState], cells: Sequence[CellSummary]) -> list[Markup]:
    """Return the part of the tables on steady state; nothing where no state was told.

    What every rule says is shown of the timelines that change; of all others only how many there
    are, as nothing happens in them.
    """
    if not states:
        return []
    changed = informative(states)
    still = len(states) - len(changed)
    reported = []
    if changed:
        reported.append(plain_table(steady_table(changed, cells)))
        rules = plain_table(rules_table(changed[:_RULES_SHOWN_MAX], cells), captioned=False)
        heading = element("summary", "What the rules of SNIA and fio say of them")
        reported.append(element("details", heading, rules))
    if still:
        timelines = format_plural(still, "timeline")
        reported.append(element("p", f"{timelines} over time or rounds: steady from start to end."))
    return [element("section", element("h3", "Steady state"), *reported, id="table-steady")]
