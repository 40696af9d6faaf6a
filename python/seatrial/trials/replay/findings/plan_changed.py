"""Finding ``plan_changed``: queries have another plan than before."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.rule import from_before_after
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_count
from seatrial.trials.replay.compare.model import BeforeAfter, Change
from seatrial.trials.replay.compare.verdict import change_phrase, once_of
from seatrial.trials.replay.findings.replaying import query_text


class PlanChangedFigures(Figures, frozen=True, kw_only=True, tag="plan_changed"):
    changed_count: int
    known_count: int
    slower_count: int
    faster_count: int
    example: Annotated[Change, HIDDEN]
    once: Annotated[str, HIDDEN]

    def text(self) -> FindingText:
        how = change_phrase(self.example, once=self.once)
        return FindingText(
            sentence=(
                f"The plans of {format_count(self.changed_count)} of "
                f"{format_count(self.known_count)} queries changed; "
                f"{format_count(self.slower_count)} of them are significantly slower. Example: "
                f"{query_text(self.example.text)}: {self.example.plan_before} before, "
                f"{self.example.plan_after} after, {how}."
            ),
            cause=(
                "The planner's estimates changed: statistics are out of date (no ANALYZE since the "
                "data were loaded), cost or memory settings differ, one side lacks an index, or "
                "the server version differs."
            ),
            next=(
                "Run ANALYZE on both sides and compare again. If the plans still differ, compare "
                "the settings of both (random_page_cost, work_mem, effective_cache_size)."
            ),
        )


@from_before_after(rank=720, section="Comparisons")
def plan_changed(found: BeforeAfter) -> list[Finding]:
    """Find queries whose plan has another shape than before.

    Means:
        The server executes a query with another plan: another index, join or join order.

    Decided:
        By the shape of the plan (nodes, tables and indexes, without costs) from EXPLAIN on each
        side. Only queries with a plan on both sides are compared; with several rounds, all plans
        after must differ from those before. Warning if such a query became significantly slower,
        otherwise note.

    Do:
        Run ANALYZE on both sides, then compare settings and indexes.
    """
    table = found.queries
    changed = [change for change in table.changes if change.plan_changed] if table else []
    if table is None or not changed:
        return []
    slower = [change for change in changed if change.answer == "slower"]
    known = sum(change.plan_changed is not None for change in table.changes)
    example = min(slower or changed, key=lambda change: change.speed_up.value)
    return [
        Finding(
            severity="warning" if slower else "note",
            cells=[],
            figures=PlanChangedFigures(
                changed_count=len(changed),
                known_count=known,
                slower_count=len(slower),
                faster_count=sum(change.answer == "faster" for change in changed),
                example=example,
                once=once_of(table),
            ),
        )
    ]
