"""Kernel messages about the devices under a target: errors, time-outs, resets.

Sources: the kernel's Documentation/ABI/testing/dev-kmsg; journalctl(1), systemd.journal-fields(7)
where ``/dev/kmsg`` may not be read.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections import Counter
from typing import Final, NamedTuple

from seatrial.fingerprint import Device, KernelLog, LogLine, LogMark
from seatrial.machine.fingerprint.tree import CommandMissingError, CommandTimeoutError, SystemTree
from seatrial.units import US_PER_S

LINES_MAX: Final = 50
"""At most this many lines are stored; all are counted."""

_KMSG: Final = "/dev/kmsg"
_JOURNAL_TIMEOUT_S: Final = 5.0
_JOURNAL_LINES_MAX: Final = 20_000
_LEVEL_MASK: Final = 7
_LEVELS: Final = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")

# Tried in this order; the first match decides.
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


FROM_THE_START: Final = LogMark(sequence=-1)
"""The mark before the first message since boot."""


class Record(NamedTuple):
    """One message of the kernel.

    Attributes:
        sequence: Its number since boot; -1 where it was read from the journal.
        at_s: Seconds since boot.
        level: 0 (emergency) to 7 (debug).
        text: The message.
        tags: Additional words that name the device.
    """

    sequence: int
    at_s: float
    level: int
    text: str
    tags: str


class LogUnreadableError(Exception):
    """The kernel log may not be read; the message says why, as a phrase."""


def mark(tree: SystemTree) -> LogMark:
    """Return the current end of the kernel log, to be passed to ``since``."""
    try:
        records = _from_kmsg(tree, after=-1)
    except LogUnreadableError as error:
        return LogMark(not_readable=str(error))
    last = max((record.sequence for record in records), default=-1)
    return LogMark(sequence=last)


def since(tree: SystemTree, stack: list[Device], *, start: LogMark, unix_s: float) -> KernelLog:
    """Return kernel messages about a stack's devices since ``start``, which ``mark`` returned.

    Hung tasks and CPU throttling count for any device: the kernel does not name one.
    """
    try:
        source, records = _records(tree, start, unix_s)
    except LogUnreadableError as error:
        return KernelLog(not_readable=str(error))
    pattern = name_pattern(stack)
    found = [(record, kind) for record in records if (kind := kind_of_record(record, pattern))]
    missed = 0
    if source == "kmsg" and records and start.sequence is not None:
        missed = max(0, records[0].sequence - start.sequence - 1)
    return KernelLog(
        count=len(found),
        by_kind=Counter(kind for _, kind in found),
        lines=[
            LogLine(at_s=record.at_s, level=_LEVELS[record.level], kind=kind, text=record.text)
            for record, kind in found[:LINES_MAX]
        ],
        missed=missed,
        source=source,
    )


def name_pattern(stack: list[Device]) -> re.Pattern[str] | None:
    """Return a pattern for the names of a stack's devices in a message; None without devices.

    A whole disk is also named by its partitions (``sda3``, ``nvme0n1p3``), an ATA port by its
    devices (``ata1.00``).
    """
    names = {
        f"{re.escape(name)}{'(?:p[0-9]+)?' if name[-1].isdigit() else '[0-9]*'}"
        for device in stack
        for name in device.kernel_names
    }
    # Device mapper names its paths by bare numbers; next to a colon they are an address.
    numbers = [device.major_minor for device in stack if device.major_minor]
    names |= {rf"(?<!:)b?{re.escape(number)}(?!:)" for number in numbers}
    if not names:
        return None
    return re.compile(rf"(?<![0-9A-Za-z_])(?:{'|'.join(sorted(names))})(?![0-9A-Za-z_])")


def kind_of_record(record: Record, pattern: re.Pattern[str] | None) -> str | None:
    """Return the kind of trouble that a message reports for a named device; else None."""
    text = _HARMLESS.sub("", record.text)
    kind = next((kind for kind, words in _KINDS if re.search(words, text, re.IGNORECASE)), None)
    if kind in _WHOLE_MACHINE or _CPU_THROTTLED.search(text):
        return kind
    named = pattern is not None and pattern.search(f"{record.text} {record.tags}")
    return kind if named else None


def _records(tree: SystemTree, start: LogMark, unix_s: float) -> tuple[str, list[Record]]:
    """Return the messages since the mark, from the kernel or else from the journal."""
    reason = start.not_readable
    if start.sequence is not None:
        try:
            return "kmsg", _from_kmsg(tree, after=start.sequence)
        except LogUnreadableError as error:
            reason = str(error)
    try:
        return "journal", _from_journal(tree, unix_s)
    except LogUnreadableError as error:
        raise LogUnreadableError(f"{reason}; {error}") from error


def _from_kmsg(tree: SystemTree, *, after: int) -> list[Record]:
    """Return messages from the kernel's buffer after a sequence number.

    A record is a line ``level,sequence,microseconds,flags;text``, followed by lines that begin with
    a blank and tag the device.
    """
    try:
        text = tree.records(_KMSG).decode(errors="replace")
    except OSError as error:
        raise LogUnreadableError(_why_closed(error)) from error
    parsed = [_parsed(chunk) for chunk in re.split(r"\n(?! )", text)]
    return [record for record in parsed if record is not None and record.sequence > after]


def _why_closed(error: OSError) -> str:
    if error.errno in {errno.EPERM, errno.EACCES}:
        return f"{_KMSG} requires root (sysctl kernel.dmesg_restrict)"
    if error.errno == errno.ENOENT:
        return f"{_KMSG} does not exist, as in containers"
    return f"{_KMSG}: {os.strerror(error.errno or 0)}"


def _parsed(chunk: str) -> Record | None:
    """Parse one record; None if it is not one."""
    line, _, rest = chunk.partition("\n")
    head, semicolon, text = line.partition(";")
    fields = head.split(",")
    if not semicolon or len(fields) < 3 or not all(field.isdigit() for field in fields[:3]):
        return None
    return Record(
        sequence=int(fields[1]),
        at_s=int(fields[2]) / US_PER_S,
        level=int(fields[0]) & _LEVEL_MASK,
        text=text,
        tags=" ".join(rest.split()),
    )


def _from_journal(tree: SystemTree, unix_s: float) -> list[Record]:
    """Return kernel messages since a time from the journal.

    Members of the groups adm and systemd-journal may read it where ``/dev/kmsg`` requires root. All
    messages since boot are requested: a journal without any of them is not evidence.
    """
    command = ["journalctl", "--dmesg", "--output=json", "--no-pager"]
    try:
        answer = tree.run([*command, f"--lines={_JOURNAL_LINES_MAX}"], _JOURNAL_TIMEOUT_S)
    except CommandMissingError as error:
        raise LogUnreadableError("journalctl is not installed") from error
    except CommandTimeoutError as error:
        raise LogUnreadableError("journalctl did not answer in time") from error
    if answer.status != 0 or answer.error_output.strip():
        raise LogUnreadableError("no permission to read the journal")
    entries = [entry for line in answer.output.splitlines() if (entry := _entry(line))]
    if not entries:
        raise LogUnreadableError("the journal contains no kernel messages")
    return [record for logged_unix_s, record in entries if logged_unix_s >= unix_s]


def _entry(line: str) -> tuple[float, Record] | None:
    """Read one entry of the journal and its Unix time; None where it has no text or time."""
    try:
        fields = json.loads(line)
        record = Record(
            sequence=-1,
            at_s=int(fields.get("_SOURCE_MONOTONIC_TIMESTAMP", 0)) / US_PER_S,
            level=int(fields.get("PRIORITY", _LEVELS.index("info"))) & _LEVEL_MASK,
            text=_message(fields["MESSAGE"]),
            tags=str(fields.get("_KERNEL_DEVICE", "")),
        )
        return int(fields["__REALTIME_TIMESTAMP"]) / US_PER_S, record
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _message(field: str | list[int]) -> str:
    """Return a message; the journal writes one that is not plain text as a list of bytes."""
    return field if isinstance(field, str) else bytes(field).decode(errors="replace")
