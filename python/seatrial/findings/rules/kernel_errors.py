"""Finding ``kernel_errors``: the kernel or the drive counted errors during the run."""

from __future__ import annotations

from seatrial.findings.context import Context, drives, entries, lookup, number, smart_growth
from seatrial.findings.rule import from_samples
from seatrial.stats.broken import is_breaking
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count

LINES_TOLD_MAX = 8
_NAMES = {
    "io_error": "I/O errors",
    "time_out": "time-outs",
    "reset": "resets",
    "link": "link errors",
    "hung_task": "hung tasks",
    "failure": "failures",
}
"""Kinds of kernel messages; ``thermal`` is told by the finding ``temperature``."""
_GRAVE = ("io_error", "time_out", "hung_task", "failure")
_COUNTERS = {
    "media_errors": "media errors",
    "reallocated_sectors": "reallocated sectors",
    "pending_sectors": "sectors that could not be read",
    "uncorrectable_sectors": "uncorrectable sectors",
    "command_timeouts": "command time-outs",
    "link_crc_errors": "checksum errors on the link",
    "request_timeouts": "requests that timed out",
    "pcie_corrected": "corrected PCIe errors",
    "pcie_not_fatal": "PCIe errors",
    "pcie_fatal": "fatal PCIe errors",
    "errors": "errors",
    "read_errs": "read errors",
    "write_errs": "write errors",
    "flush_errs": "flush errors",
    "corruption_errs": "checksum errors",
    "generation_errs": "stale blocks",
}
"""Counters that should not grow, as ``smart`` and ``error_counts`` of the fingerprint name them.

The SCSI layer's ``request_errors`` is not among them: it counts refused queries of features too.
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
    """Find kernel messages about the target's devices, and counters of errors that grew.

    Means:
        During the run the kernel logged errors, time-outs, resets, link trouble or hung tasks of
        the target's devices, or the drive or the file system counted errors of its own.

    Decided:
        Messages of the kernel log between start and end that name a device of the target's stack
        (hung tasks count whatever they name: the kernel does not say). Counters that grew: media
        errors, reallocated, pending and uncorrectable sectors, command time-outs, checksum errors
        on the link (SMART); timed-out requests (SCSI); PCIe errors (AER); errors of ext4 and btrfs.
        Critical, but for resets, link messages, and errors that the link repaired by sending again:
        warning. The SCSI layer's `ioerr_cnt` does not count: it grows with every query that a drive
        does not know.

    Do:
        Read the whole log with `dmesg -T` or `journalctl --dmesg`; check cable, slot, power and
        firmware; then `smartctl -x DEVICE`.
    """
    return _logged(context) + _counted(context)


_CAUSE = (
    "The drive, its link or its controller failed or was reset meanwhile; each such event holds "
    "requests for seconds."
)
_MEANT = (
    "Drives were made to fail on purpose in this run, which the kernel tells as it would of any; "
    "whether it tells of anything else, too, only the messages say."
)


def _is_meant(context: Context) -> bool:
    """Tell whether something was broken on purpose in the run."""
    return any(is_breaking(summary.cell) for summary in context.cells)


def _severity(context: Context, counts: dict[str, int]) -> str:
    if _is_meant(context):
        return "note"
    return "critical" if any(kind in counts for kind in _GRAVE) else "warning"


def _logged(context: Context) -> list[Finding]:
    by_kind = lookup(context.after, "kernel_log", "by_kind")
    kinds = by_kind if isinstance(by_kind, dict) else {}
    counts = {kind: kinds[kind] for kind in _NAMES if kinds.get(kind)}
    if not counts:
        return []
    lines = [
        line for line in entries(context.after, "kernel_log", "lines") if line.get("kind") in counts
    ]
    reported = ", ".join(f"{format_count(count)} {_NAMES[kind]}" for kind, count in counts.items())
    first = f"; the first: {lines[0].get('text')}" if lines else "."
    return [
        Finding(
            kind="kernel_errors",
            severity=_severity(context, counts),
            cells=[],
            sentence=f"The kernel logged {reported} of the target's devices during the run{first}",
            cause=_MEANT if _is_meant(context) else _CAUSE,
            evidence={
                "messages_count": sum(counts.values()),
                "by_kind": counts,
                "lines": [line.get("text") for line in lines[:LINES_TOLD_MAX]],
            },
            next=(
                "Read them all with 'dmesg -T' or 'journalctl --dmesg'; check cable, slot, power, "
                "firmware and 'smartctl -x DEVICE' before you trust or use this storage."
            ),
        )
    ]


def _counted(context: Context) -> list[Finding]:
    found = []
    for name, grown in _grown(context).items():
        reported = [f"{format_count(count)} {_COUNTERS[key]}" for key, count in grown.items()]
        harmless = set(grown) <= set(_REPAIRED)
        found.append(
            Finding(
                kind="kernel_errors",
                severity="warning" if harmless else "critical",
                cells=[],
                sentence=f"{name} counted {', '.join(reported)} during the run.",
                cause=(
                    "The link garbled data, which were sent again: it costs time, not data."
                    if harmless
                    else "The drive met places that it cannot read or write, did not answer in "
                    "time, or the file system found what it should not."
                ),
                evidence={"device": name, **{f"{key}_count": n for key, n in grown.items()}},
                next=(
                    f"Read 'smartctl -x /dev/{name}' and 'dmesg -T'; for errors on the link "
                    "change cable or slot, for the others the drive."
                ),
            )
        )
    return found


def _grown(context: Context) -> dict[str, dict[str, int]]:
    """Return by how much which counter grew, by device: the drive's own and the kernel's."""
    kernel = lookup(context.after, "error_counts")
    names = dict.fromkeys([*drives(context), *(kernel if isinstance(kernel, dict) else {})])
    grown = {name: _growths(context, name) for name in names}
    grown["The file system"] = _positive(
        {key: _growth(context, "filesystem_error_counts", key) for key in _FILESYSTEM_KEYS}
    )
    return {name: counts for name, counts in grown.items() if counts}


def _growths(context: Context, name: str) -> dict[str, int]:
    own = {key: smart_growth(context, name, key) for key in _COUNTERS}
    kernel = {key: _growth(context, "error_counts", name, key) for key in _COUNTERS}
    return _positive({key: own[key] or kernel[key] for key in _COUNTERS})


def _growth(context: Context, group: str, *path: str) -> int:
    before = number(context.after, f"{group}_before", *path)
    after = number(context.after, group, *path)
    return int(after - before) if before is not None and after is not None else 0


def _positive(counts: dict[str, int]) -> dict[str, int]:
    return {key: count for key, count in counts.items() if count > 0}
