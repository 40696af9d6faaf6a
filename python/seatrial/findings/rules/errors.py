"""Finding ``errors``: requests failed; one finding per error name, cells merged."""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import dataclass
from typing import Annotated

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.model import ErrorSample
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText, is_breaking
from seatrial.stats.wording import format_count, format_share, format_size
from seatrial.topic import topic_of


@dataclass(frozen=True)
class ErrorAdvice:
    """What an error name means for storage, and what to do."""

    severity: str
    cause: str
    next: str


_LOOK_AT_THE_DRIVE = (
    "Read 'dmesg -T | tail -50' and 'smartctl -x DEVICE'; back up the data on this drive before "
    "any further test."
)
_FREE_SPACE = "Free space ('df -h'), or use a smaller trial file (option --size)."
_RECONNECT = "Read 'dmesg -T | tail -50' and 'lsblk'; check cable, slot, power and firmware."

ADVICE_BY_ERROR = {
    "EIO": ErrorAdvice(
        "critical",
        "The drive or a layer above it could not read or write these sectors (I/O error), after "
        "retries.",
        _LOOK_AT_THE_DRIVE,
    ),
    "ENODATA": ErrorAdvice(
        "critical",
        "The drive reported a medium error: the sectors are unreadable.",
        _LOOK_AT_THE_DRIVE,
    ),
    "EREMOTEIO": ErrorAdvice(
        "critical",
        "The drive or the array rejected the request as invalid or unsupported.",
        _LOOK_AT_THE_DRIVE,
    ),
    "EILSEQ": ErrorAdvice(
        "critical",
        "The protection information (checksum) of a block did not match its data.",
        _LOOK_AT_THE_DRIVE,
    ),
    "EUCLEAN": ErrorAdvice(
        "critical",
        "The file system found its metadata corrupted.",
        "Unmount and check the file system (fsck, xfs_repair -n) before any further trial.",
    ),
    "ETIMEDOUT": ErrorAdvice(
        "critical",
        "The drive did not respond within the kernel's timeout, and the request was aborted.",
        _RECONNECT,
    ),
    "ENODEV": ErrorAdvice(
        "critical",
        "The device disappeared: it was unplugged, reset, or dropped by its controller.",
        _RECONNECT,
    ),
    "ENXIO": ErrorAdvice(
        "critical",
        "The device disappeared or shrank: it was removed or resized.",
        _RECONNECT,
    ),
    "ENOLINK": ErrorAdvice(
        "critical", "The link to the device failed (transport error).", _RECONNECT
    ),
    "EROFS": ErrorAdvice(
        "critical",
        "The file system is read-only; it is remounted so after an error (errors=remount-ro).",
        "Find the first error with 'dmesg -T | grep -i -E \"remount|I/O error\"'.",
    ),
    "ENOSPC": ErrorAdvice(
        "warning",
        "The file system, a thin volume or its metadata was full.",
        _FREE_SPACE,
    ),
    "EDQUOT": ErrorAdvice(
        "warning", "The quota of this user or project is exhausted.", _FREE_SPACE
    ),
    "EFBIG": ErrorAdvice(
        "warning",
        "The file would exceed the maximum size of the file system or of 'ulimit -f'.",
        "Use a smaller trial file (option --size) or raise the limit.",
    ),
    "EINVAL": ErrorAdvice(
        "warning",
        "The request is misaligned: direct I/O requires offset, size and memory aligned to the "
        "logical block size.",
        "Compare the block sizes with the logical block size that 'seatrial check' shows.",
    ),
    "EAGAIN": ErrorAdvice(
        "warning",
        "The kernel could not queue the request at that moment (queue or memory full).",
        "Lower the queue depth, or raise the device's nr_requests.",
    ),
    "ENOMEM": ErrorAdvice(
        "warning",
        "The kernel had no memory for the request.",
        "Check 'free -m' and the memory limit of the cgroup or container.",
    ),
    "EPERM": ErrorAdvice(
        "warning",
        "The request was denied: an immutable or append-only file, or a security module.",
        "Check 'lsattr FILE' and the log of the security module.",
    ),
    "EOPNOTSUPP": ErrorAdvice(
        "warning",
        "The target does not support the request; with 'iopoll' it has no poll queue.",
        "Measure without 'iopoll'; polling requires a driver loaded with poll queues.",
    ),
    "short transfer": ErrorAdvice(
        "critical",
        "The kernel transferred fewer bytes than requested without an error: the file shrank, or "
        "the device stopped within the request.",
        "Compare the file's size with the plan ('ls -l') and read 'dmesg -T | tail -50'.",
    ),
}
_OTHER = ErrorAdvice(
    "critical",
    "The kernel rejected the requests or they failed with this error.",
    "Look up the name with 'man 3 errno' and read 'dmesg -T | tail -50'.",
)
_OF_DATABASE = ErrorAdvice(
    "critical",
    "The server, a script or a program failed with this message.",
    "Run the script or the program by hand, and fix the reported error.",
)


_OF_FAILURE = ErrorAdvice(
    "warning",
    "A fault was injected, and the array could not mask it from the application.",
    "Read the findings on that array: what failed, for how long, and whether data were lost.",
)
"""For cells with injected faults."""


@from_samples(
    rank=120,
    section="Data and errors",
    sees_faults=True,
    doubt="requests failed",
    doubts_all_cells=True,
)
def errors(context: Context) -> list[Finding]:
    """Find failed requests by error name, most frequent first; cells with injected faults apart.

    Means:
        Requests failed. Each error has its own finding, which explains it for storage: `EIO`,
        `ENODATA`, `EREMOTEIO`, `EILSEQ` (medium or drive), `ETIMEDOUT`, `ENODEV`, `ENXIO`,
        `ENOLINK` (device or link lost), `EUCLEAN`, `EROFS` (file system failed), `short transfer`
        (fewer bytes than requested, without an error), `ENOSPC`, `EDQUOT`, `EFBIG` (out of space),
        `EINVAL` (alignment), `EOPNOTSUPP` (polling not supported), `EAGAIN`, `ENOMEM`, `EPERM`.

    Decided:
        One failed request is enough. All failures are counted; 32 of each sample are stored with
        offset and name. If those 32 have several names, the total is divided in the same
        proportions and reported as "About". Critical for errors of the medium, the link or the
        file system; warning for lack of space, misalignment or missing permissions.

    Do:
        Follow the advice for each error. For medium errors, back up the data on the drive first.
    """
    sound = {c.cell.key for c in context.without_faults.cells}
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
    """Return the error's name; for rare errors the engine reports the number instead."""
    rare = example.name.startswith("errno ")
    return errno.errorcode.get(example.errno, example.name) if rare else example.name


class ErrorsFigures(Figures, frozen=True, kw_only=True, tag="errors"):
    errno_name: str
    failed_count: int
    failed_count_is_exact: bool
    offered_count: int
    first_offset_bytes: int | None
    first_operation: str | None
    cells_count: int
    concerned: Annotated[AffectedCells, HIDDEN]
    has_offset: Annotated[bool, HIDDEN]
    first: Annotated[ErrorSample | None, HIDDEN]
    explained: Annotated[ErrorAdvice, HIDDEN]

    def text(self) -> FindingText:
        share = self.failed_count / self.offered_count if self.offered_count else 1.0
        return FindingText(
            sentence=(
                f"{'' if self.failed_count_is_exact else 'About '}"
                f"{format_count(self.failed_count)} of {format_count(self.offered_count)} "
                f"requests ({format_share(share)}) failed"
                f"{f' with {self.errno_name}' if self.errno_name else ''} in "
                f"{self.concerned}{_where(self.first) if self.has_offset else ''}."
            ),
            cause=self.explained.cause,
            next=self.explained.next,
        )


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
    explained = ADVICE_BY_ERROR.get(name, _OF_DATABASE if are_databases else _OTHER)
    if any(is_breaking(c.cell) for c in concerned):
        explained = _OF_FAILURE
    has_offset = not are_databases
    figures = ErrorsFigures(
        errno_name=name,
        failed_count=count,
        failed_count_is_exact=exact,
        offered_count=offered,
        first_offset_bytes=first.offset_bytes if first else None,
        first_operation=first.operation if first else None,
        cells_count=len(concerned),
        concerned=context.affected_cells(concerned),
        has_offset=has_offset,
        first=first,
        explained=explained,
    )
    return Finding(severity=explained.severity, cells=identities(concerned), figures=figures)


def _examples(summary: CellSummary) -> list[ErrorSample]:
    return [example for sample in summary.samples for example in sample.errors]


def _count(concerned: list[CellSummary], name: str) -> tuple[int, bool]:
    """Return how many requests failed with this error, and whether the count is exact.

    All failures are counted, but only 32 of a sample are stored with their name. If those have
    several names, the total is divided in the same proportions.
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
