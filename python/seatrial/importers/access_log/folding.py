"""URL patterns: what is the same page, whatever its ids."""

from __future__ import annotations

import re
from typing import Final

STATIC: Final = frozenset(
    {
        *("css", "js", "mjs", "map", "png", "jpg", "jpeg", "gif", "svg", "ico", "webp", "avif"),
        *("woff", "woff2", "ttf", "otf", "eot", "mp4", "webm", "mp3", "wasm"),
    }
)
SEGMENT_CHARACTERS_MAX: Final = 64
SEGMENTS_MAX: Final = 12

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_HEX: Final = re.compile(
    r"(?<![0-9A-Za-z])(?=[a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{8,}(?![0-9A-Za-z])"
)
_TOKEN: Final = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[0-9A-Za-z_-]{20,}={0,2}")
_VERSION: Final = re.compile(r"v\d{1,2}(?:\.\d{1,2})?")
_NUMBER: Final = re.compile(r"\d+")
_HOST: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*")


def fold(target: str) -> str:
    """Return the pattern of a request's target: ``/order/17?tab=2`` is ``/order/:n``.

    Without query string, fragment and host. Numbers are ``:n``, whatever stands around them
    (``/report-2024.pdf`` is ``/report-:n.pdf``), UUIDs ``:uuid``, hexadecimal ids ``:hex``, long
    mixed tokens ``:id``; an API's version such as ``v2`` stays, for it is no id.
    """
    path = target.partition("?")[0].partition("#")[0].partition(";")[0]
    if not path.startswith("/"):
        path = _HOST.sub("", path, count=1)
    segments = path.split("/")
    folded = [_segment(each) for each in segments[: SEGMENTS_MAX + 1]]
    if len(segments) > SEGMENTS_MAX + 1:
        folded.append("...")
    return "/".join(folded) or "/"


def is_static(pattern: str) -> bool:
    """Tell whether a pattern is of a file that a web server has ready."""
    _, dot, ending = pattern.rpartition("/")[2].rpartition(".")
    return bool(dot) and ending.lower() in STATIC


def _segment(segment: str) -> str:
    if segment.isdecimal():
        return ":n"
    if not _NUMBER.search(segment):
        return segment if len(segment) <= SEGMENT_CHARACTERS_MAX else ":id"
    if _VERSION.fullmatch(segment):
        return segment
    folded = _UUID.sub(":uuid", segment)
    folded = _HEX.sub(":hex", folded)
    if _TOKEN.fullmatch(folded):
        return ":id"
    folded = _NUMBER.sub(":n", folded)
    return folded if len(folded) <= SEGMENT_CHARACTERS_MAX else ":id"
