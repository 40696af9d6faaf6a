"""Units as numbers: how many nanoseconds a second has, how many bytes a MiB."""

from __future__ import annotations

from typing import Final

NS_PER_US: Final = 1_000
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
US_PER_S: Final = 1_000_000
DAY_S: Final = 86_400.0

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
TIB: Final = 1 << 40
MB: Final = 1_000_000
GB: Final = 1_000_000_000
TB: Final = 1_000_000_000_000

SECTOR_BYTES: Final = 512
"""The unit in which Linux reports offsets and sizes of block devices, whatever a device's own."""
