"""What the columns of a CSV table mean, told by their headings.

A heading is read without regard to case, and with blanks, dashes and brackets as underscores, so
that ``Block size (KiB)`` is ``block_size_kib``. A unit may stand at its end.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

_NAMES: Final = {
    "size": ("size", "block_size", "bs", "blocksize", "block", "request_size", "io_size"),
    "threads": (
        *("threads", "thread", "jobs", "numjobs", "num_jobs", "workers", "num_threads", "users"),
        *("clients", "concurrency", "connections", "sessions", "streams", "processes"),
    ),
    "depth": ("depth", "iodepth", "io_depth", "queue_depth", "queuedepth", "qd", "outstanding"),
    "iops": ("iops", "io_per_s", "ios_per_s", "completed_per_s", "requests_per_s"),
    "bandwidth": ("bandwidth", "bw", "throughput", "rate", "transferred"),
    "operation": ("operation", "rw", "op", "direction", "access"),
    "pattern": ("pattern",),
    "target": ("configuration", "config", "target", "device", "drive", "array"),
}
"""What is read, and the headings that mean it."""

_SIZE_UNITS_BYTES: Final = {"bytes": 1, "b": 1, "kib": 1 << 10, "k": 1 << 10, "mib": 1 << 20}
_RATE_UNITS_BYTES: Final = {
    "bytes": 1,
    "b": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
}
_TIME_UNITS_NS: Final = {"ns": 1.0, "us": 1e3, "usec": 1e3, "ms": 1e6, "msec": 1e6, "s": 1e9}
_RATE: Final = re.compile(r"(?P<name>\w+?)_(?P<unit>[a-z]+?)(?:_per_s|_per_sec|_s|_sec|ps)")
_LATENCY: Final = re.compile(
    r"(?:(?:lat|latency|clat|response|response_time)_)?(?P<name>mean|avg|max|min|p\d+(?:[_.]\d+)?)"
    r"(?:_(?:lat|latency|clat))?_(?P<unit>ns|us|usec|ms|msec|s)"
)
_PLAIN_LATENCY: Final = re.compile(r"(?:lat|latency|clat|response_time)_(?P<unit>ns|us|ms|s)")
_NAME_OF_TEST: Final = {"name", "test", "job", "jobname", "job_name", "workload", "type", "mode"}
_NAME_OF_ROUND: Final = re.compile(
    r"(?:round|run|iteration|iter|repetition|repeat|rep|pass|seed|id|no|nr|line|row)"
    r"(?:_id|_no|_nr)?"
    r"|(?:.*_)?(?:time|timestamp|date|started_at|ended_at)"
)
_MEASURE: Final = re.compile(
    r"(?:^|_)(?:lat|latency|clat|slat|cpu|util|utilization|temp|temperature|stddev|stdev|dev"
    r"|errors?|runtime|elapsed|duration|mean|avg|min|max|p\d+|power|watts|total|sum|count)(?:_|$)"
)


class Column(msgspec.Struct, frozen=True):
    """One column of a table.

    Attributes:
        heading: As the file has it.
        role: ``size``, ``threads``, ``depth``, ``iops``, ``bandwidth``, ``operation``,
            ``pattern``, ``target``, ``latency``; empty where the heading says nothing known.
        scale: What a figure of the column is multiplied by, to be bytes, bytes per second or ns.
        name: Of a latency, such as ``p99.9``; else empty.
        has_unit: Whether the heading states the unit.
    """

    heading: str
    role: str = ""
    scale: float = 1.0
    name: str = ""
    has_unit: bool = False


def names_test(heading: str) -> bool:
    """Tell whether a column may hold the names of tests, such as ``randread-4k``."""
    return _plain(heading) in _NAME_OF_TEST


def names_rounds(heading: str) -> bool:
    """Tell whether a column counts or dates the rounds of a test, and sets nothing."""
    return bool(_NAME_OF_ROUND.fullmatch(_plain(heading)))


def is_measure(heading: str) -> bool:
    """Tell whether a column is a figure that was measured, of a kind that is not read here."""
    return bool(_MEASURE.search(_plain(heading)))


def _plain(heading: str) -> str:
    return re.sub(r"[\s()\[\]/-]+", "_", heading.strip().lower()).strip("_")


def column_of(heading: str) -> Column:
    """Return what a column means."""
    plain = _plain(heading)
    for role, names in _NAMES.items():
        if plain in names:
            return Column(heading, role)
    for found in (_size_column(heading, plain), _rate_column(heading, plain)):
        if found:
            return found
    return _latency_column(heading, plain) or Column(heading)


def _size_column(heading: str, plain: str) -> Column | None:
    name, _, unit = plain.rpartition("_")
    if name in _NAMES["size"] and unit in _SIZE_UNITS_BYTES:
        return Column(heading, "size", _SIZE_UNITS_BYTES[unit], has_unit=True)
    return None


def _rate_column(heading: str, plain: str) -> Column | None:
    parts = _RATE.fullmatch(plain)
    if parts and parts["name"] in _NAMES["bandwidth"] and parts["unit"] in _RATE_UNITS_BYTES:
        return Column(heading, "bandwidth", _RATE_UNITS_BYTES[parts["unit"]], has_unit=True)
    return None


def _latency_column(heading: str, plain: str) -> Column | None:
    if parts := _LATENCY.fullmatch(plain):
        name = parts["name"].replace("avg", "mean").replace("_", ".")
        return Column(heading, "latency", _TIME_UNITS_NS[parts["unit"]], name, has_unit=True)
    if parts := _PLAIN_LATENCY.fullmatch(plain):
        return Column(heading, "latency", _TIME_UNITS_NS[parts["unit"]], "mean", has_unit=True)
    return None
