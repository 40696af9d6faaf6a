"""Sizes where a person decides by them: rounded to be read, exact to be checked."""

from __future__ import annotations

from seatrial.study.units import format_size


def size_text(size_bytes: int) -> str:
    """Return a size such as ``1.5 GiB (1,610,612,736 bytes)``; below 1 KiB only its bytes."""
    exact = f"{size_bytes:,} bytes"
    return exact if size_bytes < 1024 else f"{format_size(size_bytes)} ({exact})"
