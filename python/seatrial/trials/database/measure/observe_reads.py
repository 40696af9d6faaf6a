"""Where the server's reads were answered: in its own buffers, the page cache, or the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

READ_BLOCK_BYTES: Final = 8192
"""The unit in which reads are told, whatever the server's own block is."""

_OTHERS_COUNT_TOO: Final = (
    "What the server itself read from the device may not be looked at here: what the device read "
    "for everybody stands for it"
)
_NO_DEVICE: Final = (
    "Which reads the page cache answered is not known: what the device read cannot be seen"
)


def reads(counters: Mapping[str, float], block_bytes: int) -> tuple[dict[str, float], list[str]]:
    """Return how many blocks of 8 KiB were found where, and what must be said of it.

    ``reads_shared_buffers``: the server found the block in its shared buffers. ``reads_device``: it
    asked the kernel, which fetched it from the device. ``reads_page_cache``: it asked the kernel,
    which had it. The three sum up to all blocks that were asked for. What cannot be known is
    absent.

    The device's part is what the server's processes caused to be fetched (``read_bytes`` of
    proc_pid_io(5), with those of backends that have ended), so other programs do not count. A
    control group of the server would tell the same, and only where it has one of its own. Where
    that account may not be read, it is what the device read for everybody.

    Read-ahead blurs the border: the kernel fetches more than it was asked for. What is asked for
    later is counted as the device's all the same, which is right; what never is makes the device's
    part too large. It never exceeds what the server asked the kernel for. Reads of the WAL and of
    other files that do not pass the shared buffers are taken to be few.

    Args:
        counters: Totals of a trial, by name.
        block_bytes: Size of the server's blocks.
    """
    if "shared_hits" not in counters or "shared_reads" not in counters:
        return {}, []
    in_unit = block_bytes / READ_BLOCK_BYTES
    session = counters["shared_reads"] * in_unit
    found = {"reads_shared_buffers": counters["shared_hits"] * in_unit}
    fetched_bytes = counters.get("server_read_bytes", counters.get("device_read_bytes"))
    if fetched_bytes is None:
        return found, [_NO_DEVICE]
    found["reads_device"] = min(session, fetched_bytes / READ_BLOCK_BYTES)
    found["reads_page_cache"] = session - found["reads_device"]
    return found, [] if "server_read_bytes" in counters else [_OTHERS_COUNT_TOO]
