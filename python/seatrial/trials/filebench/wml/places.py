"""Places of open files in a thread: which flowop uses which, and whether each is open when used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from seatrial.trials.filebench.wml.flowops import SLOTS, TRANSFERS, TYPES

Steps = list[dict[str, Any]]
"""Steps of a thread as the engine takes them, each with ``line`` and ``fd`` until ``placed``."""
_OWN_KEYS: Final = ("line", "fd", "srcfd", "opennext")
_BY_PLACE: Final = ("deletefile", "statfile")


def flowops_of(steps: Steps) -> Iterator[dict[str, Any]]:
    """Yield the flowops of steps, with those of groups."""
    for step in steps:
        if "steps" in step:
            yield from flowops_of(step["steps"])
        else:
            yield step


def placed(
    steps: Steps, entries: Sequence[int], refuse: Callable[[int, str, str], Exception]
) -> int:
    """Give each flowop of a thread its place, and return how many places the thread has.

    A flowop without ``fd`` that transfers data uses the file of its set that this thread opened
    first; with ``opennext`` it takes the next file each time, of as many as the set has, at most
    128, each of which stays open.

    Args:
        steps: Changed in place.
        entries: Number of files of each set.
        refuse: Makes the error of a line, with what was seen and its cause.

    Raises:
        WorkloadFileError: when a flowop closes, syncs or uses a file that is not open, or opens
            one where another is open.
    """
    own = list(flowops_of(steps))
    uses_first = any(TYPES[f["verb"]].opens and not f["fd"] for f in own)
    implicit: dict[tuple[int, bool], int] = {}
    count, last = SLOTS, -1
    for flowop in own:
        verb, fd, of_set = flowop["verb"], flowop["fd"], flowop.get("set")
        if fd >= SLOTS or (flowop["srcfd"] or 0) >= SLOTS:
            raise refuse(flowop["line"], f"fd {max(fd, flowop['srcfd'] or 0)}", "At most 127")
        if fd == 0 and verb in TRANSFERS and not (uses_first and not flowop["opennext"]):
            if of_set is None:
                raise refuse(flowop["line"], f"{verb} has neither fd nor file", "Add filesetname")
            key = (of_set, flowop["opennext"])
            rotates = min(max(entries[of_set], 1), SLOTS) if flowop["opennext"] else 1
            if key not in implicit:
                implicit[key] = count
                count += rotates
            flowop["slot"], flowop["rotates"] = implicit[key], rotates
            last = implicit[key]
        elif fd == 0 and verb == "fsync" and not uses_first:
            if last < 0:
                raise refuse(flowop["line"], "fsync has no open file", "Open one before, with fd")
            flowop["slot"] = last
        else:
            flowop["slot"] = fd
            flowop["by_slot"] = fd > 0 and verb in _BY_PLACE
        if flowop["srcfd"]:
            flowop["source_slot"] = flowop["srcfd"]
    _check(steps, refuse)
    for flowop in own:
        for name in _OWN_KEYS:
            flowop.pop(name, None)
    return count


def _check(steps: Steps, refuse: Callable[[int, str, str], Exception]) -> None:
    """Follow two loops of a thread: what one leaves open the next one finds open."""
    is_open: set[int] = set()
    known: set[int] = set()
    for flowop in [*_once(steps), *_once(steps)]:
        kind, slot, line = TYPES[flowop["verb"]], flowop["slot"], flowop["line"]
        what = f"{flowop['verb']} with fd {slot}"
        if slot >= SLOTS:
            is_open.add(slot)
            continue
        if kind.opens:
            if slot in is_open:
                raise refuse(line, what, "A file is open there already: close it before")
            is_open.add(slot)
            known.add(slot)
        elif kind.uses_open:
            if slot not in is_open:
                raise refuse(line, what, "No file is open there: open one before")
            if flowop["verb"] == "closefile":
                is_open.discard(slot)
        elif flowop["verb"] in TRANSFERS:
            if slot not in is_open and flowop.get("set") is None:
                raise refuse(line, what, "No file is open there: open one before")
            is_open.add(slot)
            known.add(slot)
        elif flowop.get("by_slot") and slot not in known and flowop.get("set") is None:
            raise refuse(line, what, "No file was opened there, and no fileset is given")
        source = flowop.get("source_slot")
        if source is not None and source not in known:
            raise refuse(line, f"srcfd {source}", "No file was opened there before")


def _once(steps: Steps) -> Iterator[dict[str, Any]]:
    """Yield flowops in their order; those that are repeated twice."""
    for step in steps:
        again = step["repeat"] if "steps" in step else step.get("iters", 1)
        times = 1 if again == 1 else 0 if again == 0 else 2
        for _ in range(times):
            if "steps" in step:
                yield from _once(step["steps"])
            else:
                yield step
