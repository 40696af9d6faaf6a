"""The output of a shell's ``time`` for a batch: ``real`` and ``user``, once or many times.

Supported are bash's ``real 348m6.451s`` (with a decimal comma in some locales), POSIX's ``time -p``
(``real 20886.45``), GNU time's own line (``0.80system 5:48:06elapsed``) and its ``-v`` (``Elapsed
(wall clock) time``), zsh's ``cpu 5:48:06.45 total``; and ``real`` typed as a value, such as
``348m6.451s`` or ``30:34.7``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from seatrial.errors import UsageError

TEXT_BYTES_MAX: Final = 16 << 20

_NUMBER: Final = r"\d+(?:[.,]\d+)?"
_SPAN: Final = rf"(?:(?:\d+h)?(?:\d+m)?{_NUMBER}s|(?:\d+:)?\d+:{_NUMBER}|{_NUMBER})"
_LINE: Final = re.compile(
    rf"(?m)^\s*(?P<key>real|user)[ \t]+(?P<span>{_SPAN})[ \t]*$"
    rf"|Elapsed \(wall clock\) time \([^)]*\): (?P<elapsed>{_SPAN})"
    rf"|User time \(seconds\): (?P<user>{_NUMBER})"
    rf"|(?P<gnu_user>{_NUMBER})user {_NUMBER}system (?P<gnu>{_SPAN})elapsed"
    rf"|(?P<zsh_user>{_NUMBER})s user {_NUMBER}s system \d+% cpu (?P<zsh>{_SPAN}) total"
    r"|Exit status: (?P<status>\d+)|Command exited with non-zero status (?P<failed>\d+)"
)
_VALUE: Final = re.compile(rf"(?:\d+h)?(?:\d+m)?{_NUMBER}s|(?:\d+:)?\d+:{_NUMBER}")


class BatchTime(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a batch.

    Attributes:
        real_s: From start to end.
        user_s: Its own CPU time in user mode; None where it was not printed.
        failed: Whether its exit code is reported as other than 0.
    """

    real_s: float
    user_s: float | None = None
    failed: bool = False


def read_times(reported: str) -> list[BatchTime]:
    """Return every run in a file, or the one typed as a value.

    Args:
        reported: Name of a file with the output of ``time``, or a time such as ``348m6.451s``.

    Raises:
        UsageError: when it is neither, or the file cannot be read or contains no such time.
    """
    path = Path(reported)
    if not path.exists() and _VALUE.fullmatch(reported):
        return [BatchTime(real_s=span_s(reported))]
    try:
        with path.open("rb") as file:
            text = file.read(TEXT_BYTES_MAX).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(
            seen=f"{reported} cannot be read: {error.strerror}",
            cause="It does not exist, or is not a time such as 348m6.451s or 5:48:06",
            next_step="Specify a file with the output of `time`, or the time itself",
        ) from None
    found = [each for each in times_of(text) if each.real_s > 0]
    if not found:
        raise UsageError(
            seen=f"{reported} contains no time above 0 as printed by `time`",
            cause="It has no line such as 'real 348m6.451s'",
            next_step="Run the batch as `(time ./batch.sh) 2> batch.time`",
        )
    return found


def times_of(text: str) -> list[BatchTime]:
    """Return every run in a text, in its order."""
    found: list[BatchTime] = []
    user_s: float | None = None
    failed = False
    for matched in _LINE.finditer(text):
        times = {name: value for name, value in matched.groupdict().items() if value is not None}
        if times.get("key") == "real":
            found.append(BatchTime(real_s=span_s(times["span"]), failed=failed))
            failed = False
        elif times.get("key") == "user":
            _put_user(found, span_s(times["span"]))
        elif span := times.get("gnu") or times.get("zsh"):
            own = span_s(times.get("gnu_user") or times["zsh_user"])
            found.append(BatchTime(real_s=span_s(span), user_s=own, failed=failed))
            failed = False
        elif "user" in times:  # GNU time -v prints it before the elapsed time
            user_s = span_s(times["user"])
        elif "elapsed" in times:
            found.append(BatchTime(real_s=span_s(times["elapsed"]), user_s=user_s, failed=failed))
            user_s, failed = None, False
        elif "failed" in times:
            failed = times["failed"] != "0"
        elif found and times.get("status", "0") != "0":
            found[-1] = msgspec.structs.replace(found[-1], failed=True)
    return found


def span_s(text: str) -> float:
    """Return ``348m6.451s``, ``5:48:06.4`` or ``20886.45`` in seconds; a comma is a point.

    Raises:
        ValueError: when it is not a duration.
    """
    plain = text.replace(",", ".")
    if ":" in plain:
        total_s = 0.0
        for part in plain.split(":"):
            total_s = 60 * total_s + float(part)
        return total_s
    matched = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?([\d.]+)s?", plain)
    if matched is None:
        raise ValueError(f"{text!r} is not a duration")
    hours, minutes, seconds = matched.groups()
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds)


def _put_user(found: list[BatchTime], user_s: float) -> None:
    if found and found[-1].user_s is None:
        found[-1] = msgspec.structs.replace(found[-1], user_s=user_s)
