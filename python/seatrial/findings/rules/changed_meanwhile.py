"""Finding ``changed_meanwhile``: machine or target were not the same at the end of the run."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, is_of_lab, lookup
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding

PATHS_TOLD_MAX = 3
OF_EACH_GUEST: Final = frozenset({"machine.memory_bytes"})
"""What differs between two guests of the lab that are alike: a resumed run has a new one."""


@from_samples(rank=310, section="Whose number is it?", sees_faults=True, sees_replays=True)
def changed_meanwhile(context: Context) -> list[Finding]:
    """Find settings that differ between the fingerprints before and after the run.

    Means:
        A setting, a device or a link was not the same after the run as before, or the machine was
        restarted: the rounds are not of one kind.

    Decided:
        Any difference between the fingerprints, but for what moves by itself (load, free space,
        counters), and for the start and the memory of a new guest of the lab, which every resumed
        run of it has. Warning.

    Do:
        Put it back, or keep it, and measure all rounds under one setting.
    """
    changed = lookup(context.after, "changed_values")
    values = changed if isinstance(changed, dict) else {}
    restarted = lookup(context.after, "restarted") is True
    if restarted and is_of_lab(context.run):
        values = {path: pair for path, pair in values.items() if path not in OF_EACH_GUEST}
        restarted = False
    if not values and not restarted:
        return []
    reported = ["the machine was started again"] if restarted else []
    reported += [_difference(path, pair) for path, pair in list(values.items())[:PATHS_TOLD_MAX]]
    if len(values) > PATHS_TOLD_MAX:
        reported.append(f"and {len(values) - PATHS_TOLD_MAX} more settings differ")
    return [
        Finding(
            kind="changed_meanwhile",
            severity="warning",
            cells=[],
            sentence=f"The machine or the target changed during the run: {'; '.join(reported)}.",
            cause=(
                "Somebody or something changed a setting, a device came or went, or the run was "
                "resumed on a machine that is no longer the same: rounds before and after are not "
                "of one kind."
            ),
            evidence={"changed_values": values, "restarted": restarted},
            next="Put it back, or keep it, and measure all rounds again under one setting.",
        )
    ]


def _difference(path: str, pair: object) -> str:
    """Return what a setting was and is; of a whole part that came or went, only that."""
    if not isinstance(pair, list) or len(pair) != 2:
        return f"{path} differs"
    was, now = pair
    if isinstance(was, dict | list) or isinstance(now, dict | list):
        return f"{path} {'came' if was is None else 'went' if now is None else 'differs'}"
    return f"{path} was {was}, is {now}"
