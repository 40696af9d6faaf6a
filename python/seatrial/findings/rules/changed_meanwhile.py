"""Finding ``changed_meanwhile``: the machine or the target changed during the run."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import Context, is_of_lab
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText

PATHS_SHOWN_MAX = 3
OF_EACH_GUEST: Final = frozenset({"machine.memory_bytes"})
"""Values that differ between equal guests of the lab; a resumed run starts a new guest."""


class ChangedMeanwhileFigures(Figures, frozen=True, kw_only=True, tag="changed_meanwhile"):
    changed_values: dict[str, tuple[object, object]]
    restarted: bool
    values_count: Annotated[int, HIDDEN]

    def text(self) -> FindingText:
        texts = ["the machine was restarted"] if self.restarted else []
        texts += [
            _difference(path, pair)
            for path, pair in list(self.changed_values.items())[:PATHS_SHOWN_MAX]
        ]
        if self.values_count > PATHS_SHOWN_MAX:
            texts.append(f"and {self.values_count - PATHS_SHOWN_MAX} more settings changed")
        return FindingText(
            sentence=(f"The machine or the target changed during the run: {'; '.join(texts)}."),
            cause=(
                "A setting was changed, a device was added or removed, or the run was resumed on a "
                "different machine. Rounds before and after the change are not comparable."
            ),
            next=("Revert the change or keep it, and repeat all rounds with the same settings."),
        )


@from_samples(rank=310, section="Validity of the figures", sees_faults=True, sees_replays=True)
def changed_meanwhile(context: Context) -> list[Finding]:
    """Find settings that differ between the fingerprints before and after the run.

    Means:
        A setting, a device or a link changed during the run, or the machine was restarted. The
        rounds are not comparable.

    Decided:
        Any difference between the fingerprints, except for volatile values (load, free space,
        counters) and for boot time and memory of a new lab guest, which every resumed lab run has.
        Warning.

    Do:
        Revert the change or keep it, and repeat all rounds with the same settings.
    """
    values = dict(context.after.changed_values)
    restarted = context.after.restarted is True
    if restarted and is_of_lab(context.run):
        values = {path: pair for path, pair in values.items() if path not in OF_EACH_GUEST}
        restarted = False
    if not values and not restarted:
        return []
    figures = ChangedMeanwhileFigures(
        changed_values=values, restarted=restarted, values_count=len(values)
    )
    return [Finding(severity="warning", cells=[], figures=figures)]


def _difference(path: str, pair: tuple[object, object]) -> str:
    """Return a setting's old and new value; for a whole section, only that it changed."""
    was, now = pair
    if isinstance(was, dict | list) or isinstance(now, dict | list):
        return f"{path} {'added' if was is None else 'removed' if now is None else 'changed'}"
    return f"{path} changed from {was} to {now}"
