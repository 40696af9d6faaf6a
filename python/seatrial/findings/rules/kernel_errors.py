"""Finding ``kernel_errors``: the kernel or the drive reported errors during the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from seatrial.findings.context import Context, drives, smart_growth
from seatrial.findings.rule import from_samples
from seatrial.published import FLATTENED, HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText, is_breaking
from seatrial.stats.wording import format_count

LINES_SHOWN_MAX = 8
_NAMES = {
    "io_error": "I/O errors",
    "time_out": "timeouts",
    "reset": "resets",
    "link": "link errors",
    "hung_task": "hung tasks",
    "failure": "failures",
}
"""Kinds of kernel messages; the finding ``temperature`` reports the kind ``thermal``."""
_CRITICAL_KINDS = ("io_error", "time_out", "hung_task", "failure")
_COUNTERS = {
    "media_errors": "media errors",
    "reallocated_sectors": "reallocated sectors",
    "pending_sectors": "pending (unreadable) sectors",
    "uncorrectable_sectors": "uncorrectable sectors",
    "command_timeouts": "command timeouts",
    "link_crc_errors": "CRC errors on the link",
    "request_timeouts": "request timeouts",
    "pcie_corrected": "corrected PCIe errors",
    "pcie_not_fatal": "non-fatal PCIe errors",
    "pcie_fatal": "fatal PCIe errors",
    "errors": "errors",
    "read_errs": "read errors",
    "write_errs": "write errors",
    "flush_errs": "flush errors",
    "corruption_errs": "checksum errors",
    "generation_errs": "stale blocks",
}
"""Error counters, by their names in ``smart`` and ``error_counts`` of the fingerprint.

The SCSI layer's ``request_errors`` is not included: it also counts rejected feature queries.
"""
_FILESYSTEM_KEYS = (
    "errors",
    "read_errs",
    "write_errs",
    "flush_errs",
    "corruption_errs",
    "generation_errs",
)
_REPAIRED = ("link_crc_errors", "pcie_corrected")


@from_samples(rank=150, section="Data and errors", sees_faults=True, sees_replays=True)
def kernel_errors(context: Context) -> list[Finding]:
    """Find kernel messages about the target's devices, and error counters that increased.

    Means:
        During the run the kernel logged errors, timeouts, resets, link problems or hung tasks of
        the target's devices, or the error counters of the drive or the file system increased.

    Decided:
        Messages in the kernel log between start and end that name a device of the target's stack
        (hung tasks always count, since the kernel names no device). Counters that increased: media
        errors, reallocated, pending and uncorrectable sectors, command timeouts, CRC errors on the
        link (SMART); timed-out requests (SCSI); PCIe errors (AER); errors of ext4 and btrfs.
        Critical; warning for resets, link messages and errors that the link corrected by resending.
        The SCSI layer's `ioerr_cnt` is ignored: it increases with every query that a drive does not
        support.

    Do:
        Read the whole log with `dmesg -T` or `journalctl --dmesg`; check cable, slot, power and
        firmware; then run `smartctl -x DEVICE`.
    """
    return _logged(context) + _counted(context)


_CAUSE = (
    "The drive, its link or its controller failed or was reset; each such event delays requests "
    "for seconds."
)
_INJECTED_FAULTS = (
    "Drive faults were injected in this run, and the kernel logs them like real ones. Only the "
    "messages show whether other errors occurred as well."
)


def _has_injected_faults(context: Context) -> bool:
    """Return whether faults were injected in the run."""
    return any(is_breaking(summary.cell) for summary in context.cells)


def _severity(context: Context, counts: dict[str, int]) -> str:
    if _has_injected_faults(context):
        return "note"
    return "critical" if any(kind in counts for kind in _CRITICAL_KINDS) else "warning"


class ErrorsLoggedFigures(Figures, frozen=True, kw_only=True, tag="kernel_errors"):
    """Figures of ``kernel_errors``: errors logged."""

    messages_count: int
    by_kind: dict[str, int]
    lines: list[str | None]
    is_meant: Annotated[bool, HIDDEN]

    def text(self) -> FindingText:
        text = ", ".join(
            f"{format_count(count)} {_NAMES[kind]}" for kind, count in self.by_kind.items()
        )
        first = f"; the first: {self.lines[0]}" if self.lines else "."
        return FindingText(
            sentence=(f"The kernel logged {text} for the target's devices during the run{first}"),
            cause=_INJECTED_FAULTS if self.is_meant else _CAUSE,
            next=(
                "Read all messages with 'dmesg -T' or 'journalctl --dmesg'; check cable, slot, "
                "power, firmware and 'smartctl -x DEVICE' before you use this storage."
            ),
        )


def _logged(context: Context) -> list[Finding]:
    kinds = context.after.kernel_log.by_kind
    counts = {kind: kinds[kind] for kind in _NAMES if kinds.get(kind)}
    if not counts:
        return []
    lines = [line.text for line in context.after.kernel_log.lines if line.kind in counts]
    figures = ErrorsLoggedFigures(
        messages_count=sum(counts.values()),
        by_kind=counts,
        lines=lines[:LINES_SHOWN_MAX],
        is_meant=_has_injected_faults(context),
    )
    return [Finding(severity=_severity(context, counts), cells=[], figures=figures)]


class ErrorsCountedFigures(Figures, frozen=True, kw_only=True, tag="kernel_errors"):
    """Figures of ``kernel_errors``: errors counted."""

    device: str
    others: Annotated[dict[str, int], FLATTENED]
    harmless: Annotated[bool, HIDDEN]
    grown: Annotated[dict[str, int], HIDDEN]

    def text(self) -> FindingText:
        texts = [f"{format_count(count)} {_COUNTERS[key]}" for key, count in self.grown.items()]
        return FindingText(
            sentence=f"{self.device} counted {', '.join(texts)} during the run.",
            cause=(
                "Data were corrupted on the link and sent again: this costs time, not data."
                if self.harmless
                else "The drive has unreadable or unwritable sectors or did not respond in time, "
                "or the file system found corrupted data."
            ),
            next=(
                f"Read 'smartctl -x /dev/{self.device}' and 'dmesg -T'. For link errors replace "
                "the cable or change the slot; for all others replace the drive."
            ),
        )


def _counted(context: Context) -> list[Finding]:
    found = []
    for name, grown in _grown(context).items():
        harmless = set(grown) <= set(_REPAIRED)
        figures = ErrorsCountedFigures(
            device=name,
            others={f"{key}_count": n for key, n in grown.items()},
            harmless=harmless,
            grown=grown,
        )
        found.append(
            Finding(severity="warning" if harmless else "critical", cells=[], figures=figures)
        )
    return found


def _grown(context: Context) -> dict[str, dict[str, int]]:
    """Return the growth of each counter by device: those of the drive and of the kernel."""
    after = context.after
    names = dict.fromkeys([*drives(context), *after.error_counts])
    grown = {name: _growths(context, name) for name in names}
    grown["The file system"] = _growth(
        after.filesystem_error_counts_before, after.filesystem_error_counts, _FILESYSTEM_KEYS
    )
    return {name: counts for name, counts in grown.items() if counts}


def _growths(context: Context, name: str) -> dict[str, int]:
    then, now = context.after.error_counts_before, context.after.error_counts
    kernel = _growth(then.get(name, {}), now.get(name, {}), tuple(_COUNTERS))
    own = {key: smart_growth(context, name, key) for key in _COUNTERS}
    return kernel | {key: growth for key, growth in own.items() if growth > 0}


def _growth(
    before: Mapping[str, int], after: Mapping[str, int], keys: Sequence[str]
) -> dict[str, int]:
    """Return by how much counters grew, for those that did."""
    known = [key for key in keys if key in before and key in after]
    return {key: after[key] - before[key] for key in known if after[key] > before[key]}
