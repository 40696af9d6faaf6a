"""The options of a fio job: their units, and their meaning for a cell.

Names, units and defaults are those of fio 3.33 (fio's HOWTO, and options.c and parse.c of its
source): ``k`` is 1,024 while ``KiB`` is 1,000 unless ``kb_base=1000`` swaps both; a plain time is
in seconds, a plain ``thinktime`` in microseconds; missing options have fio's defaults, including
I/O through the page cache.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from seatrial.study.cell import FactorValue

Options = Mapping[str, str]

ALIASES: Final = {
    "readwrite": "rw",
    "blocksize": "bs",
    "blocksize_range": "bsrange",
    "blocksize_unaligned": "bs_unaligned",
    "blockalign": "ba",
    "disable_bw": "disable_bw_measurement",
    "fileoffset": "offset",
    "fill_fs": "fill_device",
    "io_limit": "io_size",
    "iodepth_batch_submit": "iodepth_batch",
    "iodepth_batch_complete": "iodepth_batch_complete_min",
    "iomem": "mem",
    "mem_align": "iomem_align",
    "nr_files": "nrfiles",
    "ratecycle": "rate_cycle",
    "ratemin": "rate_min",
    "ss": "steadystate",
    "ss_dur": "steadystate_duration",
    "ss_ramp": "steadystate_ramp_time",
    "wait_for_previous": "stonewall",
}
FIO_ZIPF_THETA: Final = 1.1
"""fio's theta of ``random_distribution=zipf`` without one."""
_THETA: Final = re.compile(r"\d+\.?\d*|\.\d+")
BLOCK_BYTES: Final = 4096
SYNCHRONOUS: Final = {"psync", "sync", "vsync", "pvsync", "pvsync2", "mmap"}
"""Engines with one request in flight, regardless of ``iodepth``."""
DEFAULT_ENGINE: Final = "psync"
DSYNC: Final = {"1", "sync", "dsync"}
LIMITS: Final = ("rate", "rate_iops", "thinktime", "latency_target")
"""Options with which a job is slower than its target, by a rate that they do not always give."""
NOT_FACTORS: Final = {
    *("name", "description", "rw", "bs", "bsrange", "bssplit", "numjobs", "iodepth", "rwmixread"),
    *("rwmixwrite", "direct", "buffered", "fsync", "fdatasync", "rate", "rate_iops", "sync"),
    *("thinktime", "latency_target", "percentage_random", "rate_process", "random_distribution"),
    *("filename", "directory"),
    *("io_size", "runtime", "timeout", "time_based", "ramp_time", "startdelay", "offset"),
    *("group_reporting", "new_group", "stonewall", "wait_for", "thread", "write_bw_log"),
    *("write_iops_log", "write_lat_log", "write_hist_log", "log_avg_msec", "log_hist_msec"),
    *("log_hist_coarseness", "log_offset", "log_max_value", "log_unix_epoch", "per_job_logs"),
    *("percentile_list", "lat_percentiles", "clat_percentiles", "slat_percentiles", "randseed"),
    *("log_window_value", "filename_format", "unlink", "create_only", "kb_base", "unit_base"),
    *("status_interval", "eta", "disk_util", "exec_prerun"),
}  # fmt: skip
"""Options that are read here, or that do not affect the measurement: they are not factors."""

_NUMBER: Final = re.compile(r"(0x[0-9a-f]+|\d+(?:\.\d+)?)\s*([a-z%]*)", re.ASCII)
_STEPS: Final = "bkmgtp"
_TIMES_S: Final = {
    "d": 86400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "": 1.0,
    "ms": 1e-3,
    "msec": 1e-3,
    "us": 1e-6,
    "usec": 1e-6,
    "sec": 1.0,
}


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """A job's access, by its options.

    Attributes:
        operation: ``read``, ``write`` or ``mixed``; empty for unsupported ones (trim).
        block_size_bytes: Size of one request; 0 where there are several.
        threads: ``numjobs``.
        depth: Requests in flight of each.
        direct: Whether the page cache is bypassed.
        dsync: Whether each write is durable before it completes.
        factors: Pattern and everything else that Seatrial has a factor for.
        arrival: As in an engine's specification (docs/engine.md).
        sync_every: Number of writes per sync; 0 for never.
        sync_kind: ``fsync`` or ``fdatasync``.
    """

    operation: str
    block_size_bytes: int
    threads: int
    depth: int
    direct: bool
    dsync: bool
    factors: dict[str, FactorValue]
    arrival: dict[str, FactorValue]
    sync_every: int
    sync_kind: str


def plain_name(name: str) -> str:
    """Return the canonical name of an option."""
    lower = name.strip().lower()
    return ALIASES.get(lower, lower)


def size_bytes(text: str, kb_base: str = "1024") -> int:
    """Parse a size as fio does.

    Raises:
        ValueError: It is not a size in bytes, such as a share in percent.
    """
    parts = _NUMBER.fullmatch(text.strip().lower())
    if parts is None:
        raise ValueError(f"{text!r} is not a size")
    amount, unit = parts[1], parts[2]
    is_long = len(unit) == 3 and unit.endswith("ib")
    if unit and (unit[0] not in _STEPS or not (is_long or unit[1:] in ("", "b", "i"))):
        raise ValueError(f"{text!r} is not a size in bytes")
    power = _STEPS.index(unit[0]) if unit else 0
    base = 1000 if is_long == (kb_base != "1000") else 1024
    number = int(amount, 16) if amount.startswith("0x") else float(amount)
    value_bytes = int(number * base**power)
    if not 0 <= value_bytes < 1 << 63:
        raise ValueError(f"{text!r} exceeds 8 EiB")
    return value_bytes


def time_s(text: str) -> float:
    """Parse a time in seconds as fio does; raises ValueError when invalid."""
    parts = _NUMBER.fullmatch(text.strip().lower())
    if parts is None or parts[2] not in _TIMES_S or parts[1].startswith("0x"):
        raise ValueError(f"{text!r} is not a time")
    return float(parts[1]) * _TIMES_S[parts[2]]


def number(options: Options, name: str, default: int, kb_base: str = "1024") -> int:
    """Return an option's integer, the first of several; the default if invalid."""
    try:
        return size_bytes(options.get(name, "").split(",")[0], kb_base)
    except ValueError:
        return default


def is_set(options: Options, name: str) -> bool:
    """Return whether a flag is on: given without a value, or with a value other than 0."""
    return name in options and options[name].strip().lower() not in ("0", "false", "none")


def access_of(options: Options) -> Access:
    """Return a job's access; missing options have fio's defaults."""
    rw = options.get("rw", "read").partition(":")[0].lower()
    plain = rw.removeprefix("rand")
    operation = {"read": "read", "write": "write", "rw": "mixed", "readwrite": "mixed"}.get(
        plain, ""
    )
    direct = is_set(options, "direct") or options.get("buffered", "1") == "0"
    threads = max(1, number(options, "numjobs", 1))
    arrival, driving = _arrival(options, operation, threads)
    sync_kind = "fdatasync" if is_set(options, "fdatasync") else "fsync"
    sync_every = number(options, sync_kind, 0) if operation != "read" else 0
    factors: dict[str, FactorValue] = _pattern(options, is_random=rw.startswith("rand"))
    if operation == "mixed":
        factors["read_share"] = _read_share(options)
    size = block_bytes(options, operation)
    if not size:
        factors["bs"] = options.get("bssplit") or options.get("bsrange") or options.get("bs", "")
    if ":" in options.get("rw", ""):
        factors["rw"] = options["rw"]
    if options.get("offset", "0") != "0":
        factors["offset"] = options["offset"]
    if not direct:
        factors["direct"] = False
    factors.update(driving)
    if sync_every:
        factors["sync_every"] = sync_every
    sync = options.get("sync", "0").lower()
    if sync in DSYNC and operation != "read":
        factors["method"] = "o_dsync" if sync == "dsync" else "o_sync"
    return Access(
        operation=operation,
        block_size_bytes=size,
        threads=threads,
        depth=_depth(options),
        direct=direct,
        dsync=sync in DSYNC,
        factors=factors,
        arrival=arrival,
        sync_every=sync_every,
        sync_kind=sync_kind,
    )


def part_of(text: str, operation: str) -> str:
    """Return the part of an option (``reads,writes,trims``) that applies to an operation.

    A single part applies to all; mixed jobs get the part of reads.
    """
    parts = text.split(",")
    return parts[1] if operation == "write" and len(parts) > 1 else parts[0]


def block_bytes(options: Options, operation: str) -> int:
    """Return the size of one request; 0 where there are several."""
    if options.get("bssplit") or options.get("bsrange"):
        return 0
    written = options.get("bs", str(BLOCK_BYTES))
    # Only reads and writes count; a blank part has fio's default.
    parts = written.split(",")[:2] if operation == "mixed" else [part_of(written, operation)]
    try:
        kb_base = options.get("kb_base", "1024")
        sizes = {size_bytes(part or str(BLOCK_BYTES), kb_base) for part in parts}
    except ValueError:
        return 0
    return sizes.pop() if len(sizes) == 1 else 0


def engine_name(options: Options) -> str:
    """Return the I/O engine; by default fio's default on Linux."""
    return options.get("ioengine", DEFAULT_ENGINE)


def _depth(options: Options) -> int:
    if engine_name(options) in SYNCHRONOUS:
        return 1
    return max(1, number(options, "iodepth", 1))


def _read_share(options: Options) -> float:
    """Return the share of reads; with a rate, fio limits each direction, which sets the share."""
    read_per_s, write_per_s = _rates_per_s(options)
    if read_per_s and write_per_s:
        return read_per_s / (read_per_s + write_per_s)
    if "rwmixread" in options:
        return number(options, "rwmixread", 50) / 100
    if "rwmixwrite" in options:
        return 1 - number(options, "rwmixwrite", 50) / 100
    return 0.5


def _pattern(options: Options, *, is_random: bool) -> dict[str, FactorValue]:
    """Return pattern and skew; a distribution that Seatrial lacks keeps fio's name."""
    if not is_random:
        return {"pattern": "sequential"}
    kind, _, detail = options.get("random_distribution", "random").partition(":")
    if kind == "zipf":
        # fio reads the number at the beginning: a centre or a part for writes may follow.
        theta = _THETA.match(detail or str(FIO_ZIPF_THETA))
        return {"pattern": "zipf"} | ({"theta": float(theta[0])} if theta else {})
    percent = number(options, "percentage_random", 100)
    if kind == "random" and percent < 100:  # only random jobs heed it
        return {"pattern": "partly_random", "percentage_random": percent}
    if kind == "random":
        return {"pattern": "random"}
    return {"pattern": options["random_distribution"]}


def _rates_per_s(options: Options) -> tuple[float, float]:
    """Return the rates of reads and of writes of one thread; 0 where unlimited or unknown.

    As in fio, a bandwidth goes before IOPS.
    """
    kb_base = options.get("kb_base", "1024")
    read_per_s, write_per_s = (
        of_bytes / size if of_bytes and (size := block_bytes(options, operation)) else of_requests
        for operation, of_bytes, of_requests in zip(
            ("read", "write"),
            _limits(options.get("rate", ""), kb_base),
            _limits(options.get("rate_iops", ""), kb_base),
            strict=True,
        )
    )
    return read_per_s, write_per_s


def _limits(text: str, kb_base: str) -> tuple[int, int]:
    """Return the limits of reads and of writes; 0 where there is none."""
    parts = text.split(",")
    # A blank part sets no limit: only a single part applies to both.
    read, write = (
        number({"": part}, "", 0, kb_base)
        for part in (parts[0], parts[1] if len(parts) > 1 else parts[0])
    )
    return read, write


def _unknown_limits(options: Options, operation: str) -> dict[str, FactorValue]:
    """Return the options that limit an operation's rate without giving the rate."""
    directions = {"read": (True, False), "write": (False, True)}.get(operation, (True, True))
    found: dict[str, FactorValue] = {}
    for name in ("rate", "rate_iops"):
        limits = _limits(options.get(name, ""), "1024")
        if any(limit and counts for limit, counts in zip(limits, directions, strict=True)):
            found[name] = options[name]
    return found | _pauses(options)


def _pauses(options: Options) -> dict[str, FactorValue]:
    """Return the options with which a job waits, or keeps fewer requests in flight."""
    return {name: options[name] for name in LIMITS[2:] if options.get(name, "0") != "0"}


def _arrival(
    options: Options, operation: str, threads: int
) -> tuple[dict[str, FactorValue], dict[str, FactorValue]]:
    """Return how requests arrive, for the engine and as factors; rates are of all threads."""
    read_per_s, write_per_s = _rates_per_s(options)
    of_one = {"read": read_per_s, "write": write_per_s}.get(operation, read_per_s + write_per_s)
    is_partial = operation == "mixed" and not (read_per_s and write_per_s)
    rate_per_s = 0.0 if is_partial else float(of_one * threads)
    if not rate_per_s:
        return {"kind": "closed"}, _unknown_limits(options, operation)
    kind = "poisson" if options.get("rate_process") == "poisson" else "fixed"
    driving: dict[str, FactorValue] = {"arrival": kind, "rate": rate_per_s}
    return {"kind": kind, "rate_per_s": rate_per_s}, driving | _pauses(options)
