"""Types of the catalogue's figures, so that one unit cannot be taken for another.

Sizes are bytes, throughput is bytes per second, whatever a row is written in; an amount of money
has a currency, and two currencies are never added.
"""

from __future__ import annotations

from typing import Final, NewType

import msgspec

from seatrial.errors import UsageError
from seatrial.units import GIB, MB, MIB

Iops = NewType("Iops", float)
"""Requests per second."""
SizeBytes = NewType("SizeBytes", int)
"""A size in bytes."""
BytesPerS = NewType("BytesPerS", float)
"""Bytes per second."""

HOURS_PER_MONTH: Final = 730
"""As AWS and Azure bill a month."""


def gib(size_bytes: SizeBytes) -> float:
    """Return a size in GiB."""
    return size_bytes / GIB


def throughput(amount: float, unit: str) -> BytesPerS:
    """Return a throughput given in ``MB/s`` or ``MiB/s``.

    Raises:
        ValueError: of any other unit.
    """
    scales = {"MB/s": MB, "MiB/s": MIB}
    if unit not in scales:
        raise ValueError(f"{unit!r} is not a unit of throughput")
    return BytesPerS(amount * scales[unit])


class Money(msgspec.Struct, frozen=True):
    """An amount with its uncertainty.

    Attributes:
        low: The least that it may be.
        mid: The most likely.
        high: The most that it may be.
        currency: Such as ``USD``.
    """

    low: float
    mid: float
    high: float
    currency: str

    @classmethod
    def of(cls, amount: float, currency: str) -> Money:
        """Return an exact amount."""
        return cls(amount, amount, amount, currency)

    def __add__(self, other: Money) -> Money:
        """Return the sum; raises UsageError of two currencies."""
        if other.currency != self.currency:
            raise UsageError(
                seen=f"{self.currency} and {other.currency} cannot be added",
                cause="The catalogue has no exchange rate between them",
                next_step=f"Set one: `seatrial catalogue set rates/{other.currency}/"
                f"{self.currency} ratio=1.08`",
            )
        return Money(
            self.low + other.low, self.mid + other.mid, self.high + other.high, self.currency
        )

    def times(self, factor: float) -> Money:
        """Return a multiple of the amount."""
        return Money(self.low * factor, self.mid * factor, self.high * factor, self.currency)

    @property
    def is_exact(self) -> bool:
        """Whether it is one figure."""
        return self.low == self.high


def format_money(money: Money) -> str:
    """Return an amount to the cent, such as ``492.32 USD`` or ``70 (60 to 100) USD``."""
    if money.is_exact:
        return f"{money.mid:,.2f} {money.currency}"
    return f"{money.mid:,.2f} ({money.low:,.2f} to {money.high:,.2f}) {money.currency}"
