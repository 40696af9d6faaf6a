"""What bounds a figure. Pure data."""

from __future__ import annotations

from typing import Literal

import msgspec

BoundName = Literal["drive_links", "host_bus", "memory_copy"]
"""From the medium outwards: what is faster than one of them was answered on the near side of it."""


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The most that one part of the path carries one way.

    Attributes:
        name: Which part.
        bytes_per_s: What it carries after encoding.
        source: Where that is known from: ``fingerprint``, ``declared`` or ``measured``.
        words: The part and its verb before "at": ``the drives' links end``.
        detail: What it consists of, as a phrase: ``4 links, SATA 3 Gb/s``.
    """

    name: BoundName
    bytes_per_s: float
    source: str
    words: str
    detail: str


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """Memory below the page cache that may hold what is read and written.

    Attributes:
        size_bytes: What it holds, that of several added up.
        source: ``fingerprint`` or ``declared``.
        words: As a reader would name it: ``the controller's cache``.
    """

    size_bytes: int
    source: str
    words: str
