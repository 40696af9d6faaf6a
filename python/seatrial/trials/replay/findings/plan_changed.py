"""Finding ``plan_changed``: the planner answers queries in another way than before."""

from __future__ import annotations

from seatrial.findings.rule import from_before_after
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count
from seatrial.trials.replay.compare.model import BeforeAfter
from seatrial.trials.replay.compare.verdict import change_words, once_of
from seatrial.trials.replay.findings.replaying import query_words


@from_before_after(rank=720, section="Against another run or target")
def plan_changed(found: BeforeAfter) -> list[Finding]:
    """Find queries whose plan has another shape after than before.

    Means:
        The server answers a query in another way: another index, another join, another order.

    Decided:
        By the shape of the plan (nodes, tables and indexes, without costs) that EXPLAIN tells on
        each side. Only what both sides know is compared; of several rounds the plans of after must
        all be other than those of before. Warning where such a query became significantly
        slower; else note.

    Do:
        ANALYZE on both sides; then compare settings and indexes.
    """
    table = found.queries
    changed = [each for each in table.changes if each.plan_changed] if table else []
    if table is None or not changed:
        return []
    slower = [each for each in changed if each.answer == "slower"]
    known = sum(each.plan_changed is not None for each in table.changes)
    reported = min(slower or changed, key=lambda each: each.speed_up.value)
    how = change_words(reported, once=once_of(table))
    return [
        Finding(
            kind="plan_changed",
            severity="warning" if slower else "note",
            cells=[],
            sentence=(
                f"The plan of {format_count(len(changed))} of {format_count(known)} queries is "
                f"another than before, {format_count(len(slower))} of them significantly slower; "
                f"{query_words(reported.text)}: {reported.plan_before} before, "
                f"{reported.plan_after} after, {how}."
            ),
            cause=(
                "The planner estimated otherwise: statistics that were not taken since the data "
                "were loaded (ANALYZE), other settings of cost or memory, an index that one side "
                "lacks, or another version of the server."
            ),
            evidence={
                "changed_count": len(changed),
                "known_count": known,
                "slower_count": len(slower),
                "faster_count": sum(each.answer == "faster" for each in changed),
            },
            next=(
                "Run ANALYZE on both sides and compare again; if the plan stays another, compare "
                "the settings of both (random_page_cost, work_mem, effective_cache_size)."
            ),
        )
    ]
