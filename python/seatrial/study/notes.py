"""What is worth knowing of a plan before it is measured, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from seatrial.study.cell import Cell
from seatrial.study.layouts.failure import Failure
from seatrial.study.model import PlannedTarget
from seatrial.study.schema import Study
from seatrial.study.units import format_seconds
from seatrial.study.values import many
from seatrial.trials.database.study.workloads import MAX, Batch, Replay, is_of_database, spec_of
from seatrial.trials.io.study.workloads import Loadline, Matrix
from seatrial.trials.loadline.study import SAMPLES_MAX
from seatrial.trials.replay.study.cells import ASSUMED_STATEMENTS_PER_S
from seatrial.trials.replay.study.trace_facts import trace_facts

OFF: Final = frozenset({"off", "false", "no", "0", "of", "f", "fa", "fal", "fals", "n"})
"""How PostgreSQL lets ``off`` be written, but for case."""

_COSTS: Final = {
    "fsync": "a power cut destroys the database, and the figures compare with no server that "
    "keeps what it acknowledged",
    "full_page_writes": "safe only where the file system never tears a page of 8 KiB",
    "synchronous_commit": "a commit is acknowledged before it is durable, and a crash loses the "
    "last of them",
}
"""What is given up where a setting is off."""


def notes_on(study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]) -> list[str]:
    """Return what is worth knowing of the cells of a study on its targets."""
    return [
        *_on_load_lines(study, cells),
        *_on_adaptive(study),
        *_on_durability(study, cells),
        *_on_batches(study, cells),
        *_on_replays(study, cells),
        *_on_failures(study, targets, cells),
    ]


def _on_load_lines(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a note on each load line, of which the plan knows the beginning only."""
    for cell in cells:
        for workload in study.workloads:
            if isinstance(workload, Loadline) and workload.label == cell.workload:
                yield (
                    f"{cell.key} is where a load line begins; it seeks the rate for "
                    f"{workload.percentile} <= {workload.limit} in at most {SAMPLES_MAX} samples "
                    f"and {format_seconds(workload.budget_s)}"
                )


def _on_adaptive(study: Study) -> Iterator[str]:
    """Yield a note on each matrix of which as few cells are measured as predict the others."""
    for each in study.workloads:
        if isinstance(each, Matrix) and each.adaptive:
            yield (
                f"{each.label} is adaptive: as few of its cells are measured as predict the others "
                f"within {100 * each.predicted_within:g} %"
            )


def _on_durability(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a note on each setting that lets a server acknowledge what it may lose."""
    for workload in study.workloads:
        own = [cell for cell in cells if cell.workload == workload.label]
        specs = [spec_of(cell.spec) for cell in own if is_of_database(cell)]
        for name, cost in _COSTS.items():
            off = [spec for spec in specs if _value(spec.settings, name) in OFF]
            if off:
                some = "" if len(off) == len(specs) else f"{len(off)} of {len(specs)} cells of "
                yield f"{name} is off in {some}{workload.label}: {cost}"


def _value(settings: dict[str, str], name: str) -> str:
    """Return the value of a setting in lower case; names and words have no case."""
    return next((value.lower() for key, value in settings.items() if key.lower() == name), "")


def _on_batches(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a note on each batch, whose time nobody knows beforehand."""
    for workload in study.workloads:
        if isinstance(workload, Batch) and any(c.workload == workload.label for c in cells):
            yield (
                f"{workload.label} takes as long as it takes; the plan counts the "
                f"{format_seconds(workload.duration_s)} after which it is ended"
            )


def _on_replays(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield notes on replays: how long nobody knows, and what their traces are not."""
    for workload in study.workloads:
        if not isinstance(workload, Replay) or not any(c.workload == workload.label for c in cells):
            continue
        facts = trace_facts(workload.trace)
        if facts is None:
            yield f"{workload.label}: the trace {workload.trace} is not there yet"
            continue
        if MAX in many(workload.speed):
            yield (
                f"{workload.label} lasts until the trace ends, however fast the server is; the "
                f"plan counts {ASSUMED_STATEMENTS_PER_S:,} statements a second"
            )
        if not facts.has_clock and set(many(workload.speed)) != {MAX}:
            yield (
                f"{workload.label}: the trace is of SQL without times, so that its statements are "
                "due at times that it was given"
            )
        if _is_played_again(study, workload, cells):
            yield (
                f"{workload.label} is played more than once to a database that stays as it "
                "becomes: each begins with what those before it wrote"
            )
        if _is_empty(workload, cells):
            yield (
                f"{workload.label} begins with an empty database, for nothing is loaded before: "
                "'prepare' names a dump of the captured one"
            )
        if facts.is_masked:
            yield (
                f"{workload.label}: the values in the trace are stand-ins, so that its statements "
                "find other rows than those in the capture, or none"
            )


def _is_empty(workload: Replay, cells: Sequence[Cell]) -> bool:
    """Tell whether a replay finds nothing where it is played: a database of ours, and no load."""
    own = (spec_of(cell.spec) for cell in cells if cell.workload == workload.label)
    return not workload.loads and any(not spec.is_standing for spec in own)


def _is_played_again(study: Study, workload: Replay, cells: Sequence[Cell]) -> bool:
    """Tell whether a replay that writes goes more than once to a database of somebody's."""
    own = [cell for cell in cells if cell.workload == workload.label]
    standing = [cell for cell in own if spec_of(cell.spec).is_standing]
    begins_anew = bool(workload.restore) or workload.clone == "template"
    is_again = len(standing) * study.rounds.max > 1
    return bool(standing) and is_again and not workload.read_only and not begins_anew


def _on_failures(
    study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]
) -> Iterator[str]:
    """Yield a note on each workload that breaks more of a layout than its level survives."""
    for workload in study.workloads:
        run_on = {cell.target for cell in cells if cell.workload == workload.label}
        for target in targets:
            if not (workload.failures and target.layout and target.label in run_on):
                continue
            layout = target.layout
            survived = layout.facts.losses_survived(layout.drives)
            failing = _most_failures(workload.failures)
            if failing <= survived:
                continue
            bound = f"{layout.level} on {layout.drives} drives survives {survived}"
            hope = " unless a rebuild is through by then" if survived else ""
            yield (
                f"{workload.label} on {target.label}: of a leg {failing} fail, and {bound}: "
                f"all its data are lost{hope}"
            )


def _most_failures(deeds: Sequence[Failure]) -> int:
    """Return how many drives of one leg fail, of that leg of which the most do."""
    failing = [deed.leg for deed in deeds if deed.deed == "fail"]
    return max(map(failing.count, failing), default=0)
