"""fio's JSON of every version from 2.1 on, rewritten in the layout of fio 3.18 and later.

fio changed keys and units without a number for its layout; the keys tell which one a document
has. By stat.c and client.c of the tags fio-2.1 to fio-3.42:

======  ==========================================================================================
since   what is new
======  ==========================================================================================
2.1.14  ``total_ios``; before it, whole IOPS (rounded down) and the run time are all that there is
2.2.13  ``bins`` (JSON+), by the number of the bucket, with ``FIO_IO_U_PLAT_BITS`` among them
2.20    ``bins`` by the middle of the bucket
2.21    ``io_bytes`` in bytes, with ``io_kbytes`` beside it; before, in KiB, rounded down
2.99    ``slat_ns``, ``clat_ns``, ``lat_ns``; before, ``slat``, ``clat``, ``lat`` in microseconds
3.18    ``N``, how many requests a latency rests on; before, all of a direction have one
3.39    of several servers, ``global options`` is a list with an entry for each
======  ==========================================================================================

What is not of the expected type stays as it is: the typed reader refuses it with its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeGuard

NS_PER_US: Final = 1000
KIB: Final = 1024
DIRECTIONS: Final = ("read", "write", "trim", "mixed")
LATENCIES: Final = ("slat", "clat", "lat")
BLOCK_BYTES_MIN: Final = 512
BLOCK_BYTES_MAX: Final = 64 << 20
COUNT_MAX: Final = 2**62
BITS_KEY: Final = "FIO_IO_U_PLAT_BITS"
PLAT_BITS: Final = 6
_SERVER: Final = ("hostname", "port")

Content = dict[str, Any]


def in_latest_layout(content: Content) -> Content:
    """Return a document of fio with the keys and units of the latest layout."""
    found = dict(content)
    shared = content.get("global options")
    by_server: dict[tuple[str, str], Content] = {}
    if isinstance(shared, list):
        by_server = {_server(each): each for each in shared if isinstance(each, dict)}
        found["global options"] = {}
    for name in ("jobs", "client_stats"):
        if isinstance(content.get(name), list):
            found[name] = [_job(each, by_server) for each in content[name]]
    return found


def _server(content: Mapping[str, Any]) -> tuple[str, str]:
    """Return host and port of an entry, as texts, for either may be damaged."""
    host, port = (str(content.get(name)) for name in _SERVER)
    return host, port


def _job(content: object, by_server: Mapping[tuple[str, str], Content]) -> object:
    if not isinstance(content, dict):
        return content
    found = dict(content)
    for name in DIRECTIONS:
        if isinstance(content.get(name), dict):
            found[name] = _direction(content[name])
    if isinstance(content.get("sync"), dict):
        found["sync"] = _counted(content["sync"])
    if shared := by_server.get(_server(content)):
        own = content.get("job options")
        options = {name: value for name, value in shared.items() if name not in _SERVER}
        found["job options"] = options | (own if isinstance(own, dict) else {})
    return found


def _direction(content: Content) -> Content:
    found = dict(content)
    is_in_us = any(name in content for name in LATENCIES)
    if is_in_us:
        for name in LATENCIES:
            if isinstance(content.get(name), dict):
                found[f"{name}_ns"] = _latency_in_ns(content[name])
        if "io_kbytes" not in content and _is_count(content.get("io_bytes")):
            found["io_bytes"] = content["io_bytes"] * KIB
            _restore_rounded_down(found)
    return _counted(found)


def _restore_rounded_down(found: Content) -> None:
    """Put in requests and bytes what fio's rounding to whole IOPS and KiB took away.

    Requests of one size of a power of two give both exactly; where none fits, requests follow
    from the rate, and bytes stay as they are.
    """
    low_bytes = found["io_bytes"]
    fitting = dict(_fitting(found, low_bytes))
    if len(fitting) == 1:
        ((block_bytes, requests),) = fitting.items()
        found |= {"total_ios": requests, "io_bytes": requests * block_bytes}
    elif "total_ios" not in found and (span := _requests_span(found)):
        found["total_ios"] = round(sum(span) / 2)


def _fitting(found: Content, low_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield each block size with the number of requests that agrees with all that was printed."""
    span = _requests_span(found)
    block_bytes = BLOCK_BYTES_MIN
    while span and low_bytes and block_bytes <= BLOCK_BYTES_MAX:
        requests = -(-low_bytes // block_bytes)
        if requests * block_bytes < low_bytes + KIB and span[0] <= requests <= span[1]:
            yield block_bytes, requests
        block_bytes *= 2


def _requests_span(found: Content) -> tuple[float, float] | None:
    """Return the fewest and the most requests that agree with what was printed."""
    requests, iops, runtime_ms = (found.get(name) for name in ("total_ios", "iops", "runtime"))
    if _is_count(requests):
        return requests, requests
    if "total_ios" in found or not _is_count(iops) or not _is_count(runtime_ms):
        return None
    return iops * runtime_ms / 1000, (iops + 1) * runtime_ms / 1000


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX


def _is_figure(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _latency_in_ns(content: Content) -> Content:
    """Return a latency in microseconds in nanoseconds; its bins by the middle of their bucket."""
    found = dict(content)
    for name in ("min", "max", "mean", "stddev"):
        if _is_figure(content.get(name)):
            found[name] = content[name] * NS_PER_US
    if isinstance(content.get("percentile"), dict):
        # fio 2.x fills its list up with percentiles named 0.00.
        found["percentile"] = {
            percent: value * NS_PER_US if _is_figure(value) else value
            for percent, value in content["percentile"].items()
            if percent != "0.00"
        }
    if isinstance(content.get("bins"), dict):
        found["bins"] = _bins_in_ns(content["bins"])
    return found


def _bins_in_ns(bins: Content) -> Content:
    is_by_number = bins.get(BITS_KEY) == PLAT_BITS
    found: Content = {}
    for place, count in bins.items():
        if not place.isascii() or not place.isdecimal():
            continue
        if count:
            middle_us = _bucket_middle(int(place)) if is_by_number else int(place)
            found[str(round(middle_us * NS_PER_US))] = count
    return found


def _bucket_middle(number: int) -> float:
    """Return the middle of a bucket of fio's histogram (``plat_idx_to_val`` in its stat.c)."""
    values = 1 << PLAT_BITS
    if number < 2 * values:
        return number
    error_bits = min((number >> PLAT_BITS) - 1, 64)
    return float((1 << (error_bits + PLAT_BITS)) + (number % values + 0.5) * (1 << error_bits))


def _counted(content: Content) -> Content:
    """Return a direction with the number of requests that each of its latencies rests on."""
    found = dict(content)
    for name in LATENCIES:
        latency = content.get(f"{name}_ns")
        if isinstance(latency, dict) and "N" not in latency:
            found[f"{name}_ns"] = latency | {"N": _requests_behind(latency, found)}
    return found


def _requests_behind(latency: Content, direction: Content) -> int:
    is_measured = any(
        _is_figure(latency.get(name)) and latency[name] > 0 for name in ("max", "mean")
    )
    requests = direction.get("total_ios")
    if not is_measured:
        return 0
    if requests and _is_count(requests):
        return int(requests)
    bins = latency.get("bins")
    counts = list(bins.values()) if isinstance(bins, dict) else []
    return sum(counts) if all(map(_is_count, counts)) else 0
