"""What the kernel logged of the devices under a target: errors, time-outs, resets.

Sources: the kernel's Documentation/ABI/testing/dev-kmsg; journalctl(1), systemd.journal-fields(7)
where ``/dev/kmsg`` may not be read.
"""

from __future__ import annotations

import errno
import json
import os
import re
from typing import Any, Final, NamedTuple

from seatrial.machine.fingerprint.tree import CommandMissingError, CommandTimeoutError, SystemTree

LINES_MAX: Final = 50
"""So many lines are kept; all are counted."""

_KMSG: Final = "/dev/kmsg"
_JOURNAL_TIMEOUT_S: Final = 5.0
_JOURNAL_LINES_MAX: Final = 20_000
_LEVEL_MASK: Final = 7
_LEVELS: Final = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
_US_PER_S: Final = 1e6

# In the order in which they are tried; a line is of the first kind whose words it has.
_KINDS: Final = (
    ("hung_task", r"blocked for more than \d+ seconds"),
    ("thermal", r"temperature above threshold|thermal|throttl|overheat"),
    ("time_out", r"time(?:d)?[ -]?out|not responding|no response"),
    (
        "io_error",
        r"i/o error|medium error|critical \w+ error|\bunc\b|read error|write error"
        r"|remount.* read-only|shutting down filesystem|corrupt|checksum",
    ),
    ("reset", r"\breset|abort|hard resetting|link is slow|controller is down"),
    (
        "link",
        r"link (?:is )?(?:up|down)|\baer:|pcie bus error|limiting .*speed|bandwidth, limited by",
    ),
    ("rebuild", r"(?:resync|recovery|reshape|data-check) of RAID"),
    ("failure", r"fail|offline|degraded|exception|remov|kicking|error|\bbad\b"),
)
_WHOLE_MACHINE: Final = frozenset({"hung_task"})
_CPU_THROTTLED: Final = re.compile(r"CPU\d+: .*temperature above threshold")
_HARMLESS: Final = re.compile(
    r"errors=[\w-]+|(?:error|fail\w*)s?\s*[=:]\s*(?:none|0\b)", re.IGNORECASE
)


FROM_THE_START: Final[dict[str, Any]] = {"sequence": -1, "not_readable": ""}
"""The mark before the first message of this start of the machine."""


class Record(NamedTuple):
    """One message of the kernel.

    Attributes:
        sequence: Its number since the machine started; -1 where it was read from the journal.
        at_s: When, in seconds since the machine started.
        level: 0 (emergency) to 7 (debug).
        text: The message.
        tags: Further words that name the device it is about.
    """

    sequence: int
    at_s: float
    level: int
    text: str
    tags: str


class LogUnreadableError(Exception):
    """The kernel log may not be read; the message says why, as a phrase."""


def mark(tree: SystemTree) -> dict[str, Any]:
    """Return where the kernel log ends now, so that ``since`` can go on from here.

    Keys: ``sequence`` of the last message, None where the log may not be read; ``not_readable``,
    why not, else empty.
    """
    try:
        records = _from_kmsg(tree, after=-1)
    except LogUnreadableError as error:
        return {"sequence": None, "not_readable": str(error)}
    last = max((record.sequence for record in records), default=-1)
    return {"sequence": last, "not_readable": ""}


def since(
    tree: SystemTree, stack: list[dict[str, Any]], *, start: dict[str, Any], unix_s: float
) -> dict[str, Any]:
    """Return what the kernel logged of a stack's devices since ``start``, which ``mark`` returned.

    Keys: ``count`` of such lines; ``by_kind``: ``io_error``, ``time_out``, ``reset``, ``link``,
    ``thermal``, ``hung_task``, ``rebuild``, ``failure``; ``lines``: the first 50, each ``at_s``
    (since the start of the machine), ``level``, ``kind``, ``text``; ``missed``: messages that the
    kernel dropped before we read them; ``source``: ``kmsg``, ``journal`` or None;
    ``not_readable``: why not, else empty. Hung tasks and a throttled processor count whatever
    device they are about: the kernel does not say.
    """
    try:
        source, records = _records(tree, start, unix_s)
    except LogUnreadableError as error:
        return _summary([], source=None, missed=0, reason=str(error))
    pattern = name_pattern(stack)
    found = [(record, kind) for record in records if (kind := kind_of_record(record, pattern))]
    missed = 0
    if source == "kmsg" and records:
        missed = max(0, records[0].sequence - start["sequence"] - 1)
    return _summary(found, source=source, missed=missed, reason="")


def name_pattern(stack: list[dict[str, Any]]) -> re.Pattern[str] | None:
    """Return what matches the name of any device of a stack in a message; None without devices.

    A whole disk is also named by its partitions (``sda3``, ``nvme0n1p3``), an ATA port by its
    devices (``ata1.00``).
    """
    names = {
        f"{re.escape(name)}{'(?:p[0-9]+)?' if name[-1].isdigit() else '[0-9]*'}"
        for node in stack
        for name in node["kernel_names"]
    }
    # Device mapper names its paths by bare numbers; with a colon beside them they are an address.
    names |= {rf"(?<!:)b?{re.escape(node['major_minor'])}(?!:)" for node in stack}
    if not names:
        return None
    return re.compile(rf"(?<![0-9A-Za-z_])(?:{'|'.join(sorted(names))})(?![0-9A-Za-z_])")


def kind_of_record(record: Record, pattern: re.Pattern[str] | None) -> str | None:
    """Return the kind of trouble that a message tells of a named device; None for any other."""
    text = _HARMLESS.sub("", record.text)
    kind = next((kind for kind, words in _KINDS if re.search(words, text, re.IGNORECASE)), None)
    if kind in _WHOLE_MACHINE or _CPU_THROTTLED.search(text):
        return kind
    named = pattern is not None and pattern.search(f"{record.text} {record.tags}")
    return kind if named else None


def _summary(
    found: list[tuple[Record, str]], *, source: str | None, missed: int, reason: str
) -> dict[str, Any]:
    """Count the lines by kind and keep the first."""
    by_kind: dict[str, int] = {}
    for _, kind in found:
        by_kind[kind] = by_kind.get(kind, 0) + 1
    lines = [
        {
            "at_s": record.at_s,
            "level": _LEVELS[record.level],
            "kind": kind,
            "text": record.text,
        }
        for record, kind in found[:LINES_MAX]
    ]
    return {
        "count": len(found),
        "by_kind": by_kind,
        "lines": lines,
        "missed": missed,
        "source": source,
        "not_readable": reason,
    }


def _records(tree: SystemTree, start: dict[str, Any], unix_s: float) -> tuple[str, list[Record]]:
    """Return the messages since the mark, from the kernel itself or else from the journal."""
    reason = start["not_readable"]
    if start["sequence"] is not None:
        try:
            return "kmsg", _from_kmsg(tree, after=start["sequence"])
        except LogUnreadableError as error:
            reason = str(error)
    try:
        return "journal", _from_journal(tree, unix_s)
    except LogUnreadableError as error:
        raise LogUnreadableError(f"{reason}; {error}") from error


def _from_kmsg(tree: SystemTree, *, after: int) -> list[Record]:
    """Return the messages in the kernel's own buffer that are younger than a sequence number.

    A record is a line ``level,sequence,microseconds,flags;text``, and lines that begin with a
    blank and tag the device.
    """
    try:
        text = tree.records(_KMSG).decode(errors="replace")
    except OSError as error:
        raise LogUnreadableError(_why_closed(error)) from error
    parsed = [_parsed(chunk) for chunk in re.split(r"\n(?! )", text)]
    return [record for record in parsed if record is not None and record.sequence > after]


def _why_closed(error: OSError) -> str:
    """Say why the kernel's buffer cannot be read."""
    if error.errno in {errno.EPERM, errno.EACCES}:
        return f"{_KMSG} needs root (sysctl kernel.dmesg_restrict)"
    if error.errno == errno.ENOENT:
        return f"{_KMSG} is not there, as in a container"
    return f"{_KMSG}: {os.strerror(error.errno or 0)}"


def _parsed(chunk: str) -> Record | None:
    """Read one record; None where it is not one."""
    line, _, rest = chunk.partition("\n")
    head, semicolon, text = line.partition(";")
    fields = head.split(",")
    if not semicolon or len(fields) < 3 or not all(field.isdigit() for field in fields[:3]):
        return None
    return Record(
        sequence=int(fields[1]),
        at_s=int(fields[2]) / _US_PER_S,
        level=int(fields[0]) & _LEVEL_MASK,
        text=text,
        tags=" ".join(rest.split()),
    )


def _from_journal(tree: SystemTree, unix_s: float) -> list[Record]:
    """Return the kernel's messages since a time as the journal kept them.

    Members of the groups adm and systemd-journal may read it where ``/dev/kmsg`` is for root. All
    messages of this start are asked for: a journal that holds none of them is no witness.
    """
    command = ["journalctl", "--dmesg", "--output=json", "--no-pager"]
    try:
        answer = tree.run([*command, f"--lines={_JOURNAL_LINES_MAX}"], _JOURNAL_TIMEOUT_S)
    except CommandMissingError as error:
        raise LogUnreadableError("journalctl is not installed") from error
    except CommandTimeoutError as error:
        raise LogUnreadableError("journalctl did not answer in time") from error
    if answer.status != 0 or answer.complaint.strip():
        raise LogUnreadableError("the journal may not be read")
    entries = [entry for line in answer.output.splitlines() if (entry := _entry(line))]
    if not entries:
        raise LogUnreadableError("the journal holds no message of the kernel")
    return [record for logged_unix_s, record in entries if logged_unix_s >= unix_s]


def _entry(line: str) -> tuple[float, Record] | None:
    """Read one entry of the journal and its Unix time; None where it has no text or time."""
    try:
        fields = json.loads(line)
        record = Record(
            sequence=-1,
            at_s=int(fields.get("_SOURCE_MONOTONIC_TIMESTAMP", 0)) / _US_PER_S,
            level=int(fields.get("PRIORITY", _LEVELS.index("info"))) & _LEVEL_MASK,
            text=_message(fields["MESSAGE"]),
            tags=str(fields.get("_KERNEL_DEVICE", "")),
        )
        return int(fields["__REALTIME_TIMESTAMP"]) / _US_PER_S, record
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _message(field: str | list[int]) -> str:
    """Return a message; the journal writes one that is not plain text as a list of bytes."""
    return field if isinstance(field, str) else bytes(field).decode(errors="replace")
