"""A workload for the engine (docs/engine.md), and the slots of a thread's open files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from seatrial.trials.filebench.wml.evaluate import Amount
from seatrial.trials.filebench.wml.flowops import SLOTS, TRANSFERS, TYPES

_BY_SLOT: Final = ("deletefile", "statfile")


class FileSet(msgspec.Struct, frozen=True, kw_only=True):
    """A set of files.

    Attributes:
        name: Its name.
        single: Whether it is one file.
        entries: Number of files.
        leaf_folders: Number of empty folders.
        width_mean: Mean number of entries of a folder.
        width_gamma: Shape of their distribution; 0 for a fixed number.
        size: Size of a file in bytes.
        made_share: Share of the files that exist before the start.
        read_only: Whether its files are opened for reading only.
        write_only: Whether its files are opened for writing only.
        cold: Whether its files are dropped from the page cache before the start.
    """

    name: str
    single: bool
    entries: int
    leaf_folders: int
    width_mean: float
    width_gamma: float
    size: Amount
    made_share: float
    read_only: bool
    write_only: bool
    cold: bool


class Flowop(msgspec.Struct, eq=False, kw_only=True):
    """One operation of a thread; the engine has defaults for unset fields.

    Attributes:
        kind: Index of its name and type.
        verb: Its type.
        iters: Repetitions each time it is reached.
        set: Index of its set of files.
        io_bytes: Size of a transfer.
        working_set_bytes: Size of the part of a file that it accesses.
        index: Index of the file in the set.
        value: Weight of an event, or a delay in its unit.
        random: Whether offsets are random.
        direct: Whether it opens with O_DIRECT.
        dsync: Whether it opens with O_DSYNC.
        no_read_ahead: Whether the kernel is advised of random reads.
        blocking: Whether it waits for the threads that it wakes.
        high_water: Count of a semaphore.
        targets: Kinds that it wakes or posts.
        slot: Slot of its open file.
        rotates: Number of slots that it uses in turn.
        by_slot: Whether it uses the path of the file in its slot.
        source_slot: Slot of the open file that it copies from.
    """

    kind: int
    verb: str
    iters: Amount | UnsetType = UNSET
    set: int | UnsetType = UNSET
    io_bytes: Amount | UnsetType = UNSET
    working_set_bytes: Amount | UnsetType = UNSET
    index: Amount | UnsetType = UNSET
    value: Amount | UnsetType = UNSET
    random: bool | UnsetType = UNSET
    direct: bool | UnsetType = UNSET
    dsync: bool | UnsetType = UNSET
    no_read_ahead: bool | UnsetType = UNSET
    blocking: bool | UnsetType = UNSET
    high_water: int | UnsetType = UNSET
    targets: list[int] | UnsetType = UNSET
    slot: int = 0
    rotates: int | UnsetType = UNSET
    by_slot: bool | UnsetType = UNSET
    source_slot: int | UnsetType = UNSET


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that are repeated in order."""

    repeat: Amount
    steps: list[Flowop | Group]


Steps = list[Flowop | Group]


class Thread(msgspec.Struct, kw_only=True):
    """Identical threads; ``slots`` is the number of open-file slots of each."""

    name: str
    instances: int
    steps: Steps
    slots: int


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """Flowops that are counted together: their name and type."""

    name: str
    verb: str


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine runs, without folder, seeds and duration.

    Attributes:
        end: Condition for an early end.
        events_per_s: Rate of events that threads wait for; None without.
        sets: Sets of files.
        kinds: Names and types of flowops.
        threads: The threads.
    """

    end: str
    events_per_s: float | None
    sets: list[FileSet]
    kinds: list[Kind]
    threads: list[Thread]


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes of a flowop that the engine does not need.

    Attributes:
        line: Its line.
        fd: Number of the open file; 0 for none.
        source_fd: Descriptor of the file that it copies from; 0 for none.
        opens_next: Whether it uses another file of the set each time.
    """

    line: int
    fd: int
    source_fd: int
    opens_next: bool


Origins = Mapping[Flowop, Origin]


def flowops_of(steps: Steps) -> Iterator[Flowop]:
    """Yield the flowops of steps, with those of groups."""
    for step in steps:
        if isinstance(step, Group):
            yield from flowops_of(step.steps)
        else:
            yield step


def assign_slots(
    steps: Steps,
    origins: Origins,
    entries: Sequence[int],
    error_at: Callable[[int, str, str], Exception],
) -> int:
    """Assign a slot to each flowop of a thread; return the number of slots.

    A flowop without ``fd`` that transfers data uses the file of its set that this thread opened
    first; with ``opennext`` it uses the next file of the set each time, and up to 128 of them stay
    open.

    Args:
        steps: Changed in place.
        origins: Origins of each flowop.
        entries: Number of files of each set.
        error_at: Returns the error for a line, from what was seen and its cause.

    Raises:
        WorkloadFileError: when a flowop closes, syncs or uses a file that is not open, or opens
            one where another is open.
    """
    attributes = [(flowop, origins[flowop]) for flowop in flowops_of(steps)]
    uses_first = any(TYPES[flowop.verb].opens and not origin.fd for flowop, origin in attributes)
    implicit: dict[tuple[int, bool], int] = {}
    count, last = SLOTS, -1
    for flowop, origin in attributes:
        verb, fd, line = flowop.verb, origin.fd, origin.line
        if max(fd, origin.source_fd) >= SLOTS:
            raise error_at(line, f"fd {max(fd, origin.source_fd)}", "At most 127")
        if fd == 0 and verb in TRANSFERS and not (uses_first and not origin.opens_next):
            if flowop.set is UNSET:
                raise error_at(line, f"{verb} has neither fd nor file", "Add filesetname")
            key = (flowop.set, origin.opens_next)
            rotates = min(max(entries[flowop.set], 1), SLOTS) if origin.opens_next else 1
            if key not in implicit:
                implicit[key] = count
                count += rotates
            flowop.slot, flowop.rotates = implicit[key], rotates
            last = implicit[key]
        elif fd == 0 and verb == "fsync" and not uses_first:
            if last < 0:
                raise error_at(line, "fsync has no open file", "Open one before, with fd")
            flowop.slot = last
        else:
            flowop.slot = fd
            flowop.by_slot = fd > 0 and verb in _BY_SLOT
        if origin.source_fd:
            flowop.source_slot = origin.source_fd
    _check(steps, origins, error_at)
    return count


def _check(steps: Steps, origins: Origins, error_at: Callable[[int, str, str], Exception]) -> None:
    """Simulate two loops of a thread: files that one leaves open are open in the next."""
    is_open: set[int] = set()
    known: set[int] = set()
    for flowop in [*_once(steps), *_once(steps)]:
        kind, slot, line = TYPES[flowop.verb], flowop.slot, origins[flowop].line
        what = f"{flowop.verb} with fd {slot}"
        if slot >= SLOTS:
            is_open.add(slot)
            continue
        if kind.opens:
            if slot in is_open:
                raise error_at(line, what, "A file is open there already: close it before")
            is_open.add(slot)
            known.add(slot)
        elif kind.uses_open:
            if slot not in is_open:
                raise error_at(line, what, "No file is open there: open one before")
            if flowop.verb == "closefile":
                is_open.discard(slot)
        elif flowop.verb in TRANSFERS:
            if slot not in is_open and flowop.set is UNSET:
                raise error_at(line, what, "No file is open there: open one before")
            is_open.add(slot)
            known.add(slot)
        elif flowop.by_slot is True and slot not in known and flowop.set is UNSET:
            raise error_at(line, what, "No file was opened there, and no fileset is given")
        source = flowop.source_slot
        if source is not UNSET and source not in known:
            raise error_at(line, f"srcfd {source}", "No file was opened there before")


def _once(steps: Steps) -> Iterator[Flowop]:
    """Yield flowops in order, repeated ones twice."""
    for step in steps:
        again = step.repeat if isinstance(step, Group) else step.iters
        times = 1 if again is UNSET or again == 1 else 0 if again == 0 else 2
        for _ in range(times):
            if isinstance(step, Group):
                yield from _once(step.steps)
            else:
                yield step
