"""Finding ``errors``: requests failed; one finding for each error name, cells merged."""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import dataclass

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.results.model import ErrorSample
from seatrial.stats.broken import is_breaking
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import format_count, format_share, format_size
from seatrial.topic import topic_of


@dataclass(frozen=True)
class Explained:
    """What an error name means on storage, and what to do."""

    severity: str
    cause: str
    next: str


_LOOK_AT_THE_DRIVE = (
    "Look at 'dmesg -T | tail -50' and 'smartctl -x DEVICE'; copy what matters off this drive "
    "before any further trial."
)
_FREE_SPACE = "Free space ('df -h'), or make the trial's file smaller (option --size)."
_RECONNECT = "Look at 'dmesg -T | tail -50' and 'lsblk'; check cable, slot, power and firmware."

EXPLAINED = {
    "EIO": Explained(
        "critical",
        "The drive or a layer above it could not read or write the place (I/O error), after its "
        "own retries.",
        _LOOK_AT_THE_DRIVE,
    ),
    "ENODATA": Explained(
        "critical",
        "The drive reported a medium error: the place cannot be read any more.",
        _LOOK_AT_THE_DRIVE,
    ),
    "EREMOTEIO": Explained(
        "critical",
        "The drive or the array refused the request as one that it cannot carry out.",
        _LOOK_AT_THE_DRIVE,
    ),
    "EILSEQ": Explained(
        "critical",
        "The protection information (checksum) of a block did not match its data.",
        _LOOK_AT_THE_DRIVE,
    ),
    "EUCLEAN": Explained(
        "critical",
        "The file system found its own structures damaged.",
        "Unmount and check the file system (fsck, xfs_repair -n) before any further trial.",
    ),
    "ETIMEDOUT": Explained(
        "critical",
        "The drive did not answer within the kernel's time limit and the request was given up.",
        _RECONNECT,
    ),
    "ENODEV": Explained(
        "critical",
        "The device vanished: unplugged, reset, or dropped by its controller.",
        _RECONNECT,
    ),
    "ENXIO": Explained(
        "critical",
        "The device vanished, or its end was reached: it became smaller or was taken away.",
        _RECONNECT,
    ),
    "ENOLINK": Explained(
        "critical", "The link to the device failed (transport error).", _RECONNECT
    ),
    "EROFS": Explained(
        "critical",
        "The file system is read-only; it becomes so by itself after an error (errors=remount-ro).",
        "Look for the first error in 'dmesg -T | grep -i -E \"remount|I/O error\"'.",
    ),
    "ENOSPC": Explained(
        "warning",
        "The file system, a thin volume or its metadata was full.",
        _FREE_SPACE,
    ),
    "EDQUOT": Explained("warning", "The quota of this user or project was used up.", _FREE_SPACE),
    "EFBIG": Explained(
        "warning",
        "The file would have become larger than the file system or 'ulimit -f' allows.",
        "Make the trial's file smaller (option --size) or raise the limit.",
    ),
    "EINVAL": Explained(
        "warning",
        "The request does not fit the device: direct I/O needs offset, size and memory aligned "
        "to the logical block.",
        "Compare the block sizes with the logical block that 'seatrial check' shows.",
    ),
    "EAGAIN": Explained(
        "warning",
        "The kernel had no room for the request at that moment (its queue or memory was full).",
        "Lower the depth, or raise the device's nr_requests.",
    ),
    "ENOMEM": Explained(
        "warning",
        "The kernel had no memory for the request.",
        "Look at 'free -m' and at the memory limit of the cgroup or container.",
    ),
    "EPERM": Explained(
        "warning",
        "The request was forbidden: an immutable or append-only file, or a security module.",
        "Look at 'lsattr FILE' and at the security module's log.",
    ),
    "EOPNOTSUPP": Explained(
        "warning",
        "The target cannot do what was asked; with 'iopoll' it has no queue that can be polled.",
        "Measure without 'iopoll'; a device polls only where its driver was loaded with poll "
        "queues.",
    ),
    "short transfer": Explained(
        "critical",
        "The kernel moved fewer bytes than asked for without an error: the end of a file that "
        "shrank, or a device that gave up in the middle.",
        "Compare the file's size with the plan ('ls -l') and look at 'dmesg -T | tail -50'.",
    ),
}
_OTHER = Explained(
    "critical",
    "The kernel refused or failed the requests with this error.",
    "Look up the name with 'man 3 errno' and look at 'dmesg -T | tail -50'.",
)
_OF_DATABASE = Explained(
    "critical",
    "The server, a script or a program ended what was asked of it with this message.",
    "Run the script or the program by hand, and mend what the message names.",
)


_OF_FAILURE = Explained(
    "warning",
    "Something was broken on purpose meanwhile, and the array could not hide it from the "
    "application.",
    "Look at the findings on that array: what failed, for how long, and whether data were lost.",
)
"""Of samples in which something was broken."""


@from_samples(rank=120, section="Data and errors", sees_faults=True)
def errors(context: Context) -> list[Finding]:
    """Find failed requests by error name, the most frequent first; those of failures apart.

    Means:
        Requests failed. Each error has its own finding with what it means on storage: `EIO`,
        `ENODATA`, `EREMOTEIO`, `EILSEQ` (the medium or the drive), `ETIMEDOUT`, `ENODEV`, `ENXIO`,
        `ENOLINK` (the device or its link went away), `EUCLEAN`, `EROFS` (the file system gave up),
        `short transfer` (fewer bytes than asked, without an error), `ENOSPC`, `EDQUOT`, `EFBIG` (no
        room), `EINVAL` (alignment), `EOPNOTSUPP` (polling where none is), `EAGAIN`, `ENOMEM`,
        `EPERM`.

    Decided:
        One failed request is enough. All failures are counted; 32 of each sample are kept with
        offset and name. Where those 32 have several names, the count of each is shared out as they
        are and said to be "about". Critical for what the medium, the link or the file system did;
        warning for lack of room, alignment or rights.

    Do:
        As the finding says for each error; for the medium: copy what matters off the drive first.
    """
    sound = {c.cell.key for c in context.sound.cells}
    own = [c for c in context.cells if c.cell.key in sound]
    broken = [c for c in context.cells if c.cell.key not in sound]
    return [*_by_name(context, own), *_by_name(context, broken)]


def _by_name(context: Context, cells: list[CellSummary]) -> list[Finding]:
    failing = [c for c in cells if any(s.errors_count for s in c.samples)]
    names = Counter(name_of(e) for c in failing for s in c.samples for e in s.errors)
    found = [_of_name(context, failing, name) for name, _ in names.most_common()]
    unnamed = [c for c in failing if not any(s.errors for s in c.samples)]
    return found + ([_of_name(context, unnamed, "")] if unnamed else [])


def name_of(example: ErrorSample) -> str:
    """Return the error's name; the engine gives the number in place of a name that is rare."""
    rare = example.name.startswith("errno ")
    return errno.errorcode.get(example.errno, example.name) if rare else example.name


def _of_name(context: Context, failing: list[CellSummary], name: str) -> Finding:
    concerned = [c for c in failing if not name or any(name_of(e) == name for e in _examples(c))]
    count, exact = _count(concerned, name)
    offered = sum(sample.outcome.offered for c in concerned for sample in c.samples)
    first = min(
        (e for c in concerned for e in _examples(c) if name_of(e) == name),
        key=lambda example: example.offset_bytes,
        default=None,
    )
    are_databases = all(topic_of(c.cell).has_server for c in concerned)
    explained = EXPLAINED.get(name, _OF_DATABASE if are_databases else _OTHER)
    if any(is_breaking(c.cell) for c in concerned):
        explained = _OF_FAILURE
    where = "" if are_databases else _where(first)
    return Finding(
        kind="errors",
        severity=explained.severity,
        cells=identities(concerned),
        sentence=(
            f"{'' if exact else 'About '}{format_count(count)} of {format_count(offered)} "
            f"requests ({format_share(count / offered if offered else 1.0)}) failed"
            f"{f' with {name}' if name else ''} in {context.of_cells(concerned)}{where}."
        ),
        cause=explained.cause,
        evidence={
            "errno_name": name,
            "failed_count": count,
            "failed_count_is_exact": exact,
            "offered_count": offered,
            "first_offset_bytes": first.offset_bytes if first else None,
            "first_operation": first.operation if first else None,
            "cells_count": len(concerned),
        },
        next=explained.next,
    )


def _examples(summary: CellSummary) -> list[ErrorSample]:
    return [example for sample in summary.samples for example in sample.errors]


def _count(concerned: list[CellSummary], name: str) -> tuple[int, bool]:
    """Return how many requests failed by this name, and whether that is exact.

    All failures are counted but only 32 of a sample are kept with their name; where those bear
    several names the count is shared out as they are.
    """
    count, exact = 0.0, True
    for sample in (sample for summary in concerned for sample in summary.samples):
        named = sum(1 for example in sample.errors if name_of(example) == name)
        if sample.errors:
            count += sample.errors_count * named / len(sample.errors)
            one_name = named in (0, len(sample.errors))
            exact = exact and (one_name or len(sample.errors) == sample.errors_count)
        elif not name:
            count += sample.errors_count
    return round(count), exact


def _where(first: ErrorSample | None) -> str:
    if first is None:
        return ""
    return f"; lowest offset {format_count(first.offset_bytes)} ({format_size(first.offset_bytes)})"
