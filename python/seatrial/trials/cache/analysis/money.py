"""The cost of caches: price a month, price of each saved read, and wear."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from seatrial.catalogue.facts import DAYS_PER_YEAR, Drive, Price, rated_bytes
from seatrial.catalogue.store import Catalogue
from seatrial.catalogue.units import Money
from seatrial.errors import UsageError
from seatrial.published import Amount, Count
from seatrial.trials.cache.analysis.tiers import CacheTiers
from seatrial.units import GB, GIB, TB, TIB

_MONTHS_PER_YEAR: Final = 12
_AMOUNT: Final = re.compile(
    r"(?P<amount>\d+(?:\.\d+)?)\s*(?P<currency>[A-Z]{3})"
    r"(?:/(?P<unit>GiB|TiB|GB|TB|IOPS))?(?:/(?P<years>\d+(?:\.\d+)?)y)?"
)
_UNITS_BYTES: Final = {"GiB": GIB, "TiB": TIB, "GB": GB, "TB": TB}
_MEMORY, _DEVICE, _STORAGE = "ram", "ssd", "storage"
_EQUAL_SHARE: Final = 0.005
"""Shares of the reads that differ by less count as equal."""
PRICED: Final = (_MEMORY, _DEVICE, _STORAGE)
"""Priced units: a GiB of memory, a GiB of the cache device, an IOPS of the storage."""


class UnitPrice(msgspec.Struct, frozen=True, kw_only=True):
    """Price of a GiB, or of an IOPS of the storage, a month.

    Attributes:
        money: The price.
        origin: Its source: ``typed``, or the row of the catalogue and its date.
    """

    money: Money
    origin: str


class Endurance(msgspec.Struct, frozen=True, kw_only=True):
    """Endurance of a cache device: total bytes, or drive writes per day.

    Attributes:
        total_bytes: Total bytes; None if given per day.
        writes_per_day: Drive writes per day for five years; None if a total is given.
        origin: Its source.
    """

    total_bytes: float | None
    writes_per_day: float | None
    origin: str


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """Prices in one currency; None where unknown.

    Attributes:
        memory: A GiB of memory.
        device: A GiB of the cache device.
        storage: An IOPS of the storage.
        endurance: Endurance of the cache device.
    """

    memory: UnitPrice | None = None
    device: UnitPrice | None = None
    storage: UnitPrice | None = None
    endurance: Endurance | None = None


class CacheCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of caches of some sizes.

    Attributes:
        memory_bytes: Size of the memory.
        device_bytes: Size of the cache device.
        month: Their price a month.
        saved_reads_per_s: Reads per second of the recording that the storage no longer serves.
        saved_reads_per_s_low: Lower end of its 95 % interval over the samples.
        saved_reads_per_s_high: Upper end.
        month_per_read: Price of each of them a month; null if none is saved.
        storage_month: Price of the storage for as many; null if unknown.
        memory_alone_bytes: Smallest memory of the curve that serves as much of the last reads
            without a device; null if none does, or there is no device.
        memory_alone_month: Its price a month.
        worn_out_years: Time until the endurance of the device is used up; null if unknown.
    """

    memory_bytes: Count
    device_bytes: Count
    month: Money
    saved_reads_per_s: Amount
    saved_reads_per_s_low: Amount
    saved_reads_per_s_high: Amount
    month_per_read: Money | None
    storage_month: Money | None
    memory_alone_bytes: Count | None
    memory_alone_month: Money | None
    worn_out_years: Amount | None


def parse_price(text: str, facts: Catalogue) -> tuple[str, UnitPrice]:
    """Return a unit and its price: of ``ssd=0.08USD``, ``ssd=120EUR/TiB/5y``, ``ssd=aws/gp3``.

    An amount is the price of a GiB a month, or of an IOPS a month for the storage. With years it is
    a single payment.

    Raises:
        ValueError: when it is not a price.
        UsageError: when the catalogue has none for the volume.
    """
    what, _, price = text.partition("=")
    if what not in PRICED or not price:
        raise ValueError(f"{text!r} is not a price like ssd=0.08USD; {', '.join(PRICED)} have one")
    found = _AMOUNT.fullmatch(price)
    if found is None:
        return what, _catalogue_price(what, price, facts)
    unit = found["unit"] or ("IOPS" if what == _STORAGE else "GiB")
    if (unit == "IOPS") != (what == _STORAGE):
        raise ValueError(f"{text!r}: {what} has a price for each {_unit_of(what)}")
    amount = float(found["amount"])
    if what != _STORAGE:
        amount *= GIB / _UNITS_BYTES[unit]
    if found["years"]:
        if not float(found["years"]):
            raise ValueError(f"{text!r}: what was paid once is divided by years above 0")
        amount /= float(found["years"]) * _MONTHS_PER_YEAR
    return what, UnitPrice(money=Money.of(amount, found["currency"]), origin="typed")


def _unit_of(what: str) -> str:
    return "IOPS" if what == _STORAGE else "GiB"


def _catalogue_price(what: str, volume: str, facts: Catalogue) -> UnitPrice:
    """Return a price of the catalogue, such as that of ``aws/gp3`` or ``aws/gp3/us-east-1``."""
    provider, _, rest = volume.partition("/")
    item, _, region = rest.partition("/")
    component = "iops" if what == _STORAGE else "capacity"
    price: Price | None = facts.price(provider, item, component, region)
    if price is None or what == _MEMORY:
        raise UsageError(
            seen=f"The catalogue has no price for {what}={volume}",
            cause="It has the capacity and the IOPS of network volumes, not memory",
            next_step=f"Set one: `--price {what}=0.10USD`; what there is: "
            "`seatrial catalogue show prices`",
        )
    money = Money(price.low, price.mid, price.high, price.currency)
    return UnitPrice(money=money, origin=f"{price.key}: {price.origin(facts.today)}")


def prices_of(texts: Iterable[str], endurance: str | None, facts: Catalogue) -> Prices:
    """Return prices and endurance as the user gave them.

    Raises:
        ValueError: when one is not a price, or there are two currencies.
        UsageError: when the catalogue does not know a volume or drive.
    """
    prices = dict(parse_price(each, facts) for each in texts)
    currencies = sorted({each.money.currency for each in prices.values()})
    if len(currencies) > 1:
        raise ValueError(f"prices are in {' and '.join(currencies)}; give all in one currency")
    return Prices(
        memory=prices.get(_MEMORY),
        device=prices.get(_DEVICE),
        storage=prices.get(_STORAGE),
        endurance=parse_endurance(endurance, facts) if endurance else None,
    )


def parse_endurance(text: str, facts: Catalogue) -> Endurance:
    """Return an endurance, from ``3504TB``, ``1DWPD`` or a drive of the catalogue.

    Raises:
        ValueError: when a drive's data sheet does not say it.
        UsageError: when the catalogue has no such drive.
    """
    amount = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(TB|PB|DWPD)", text)
    if amount and float(amount[1]) > 0:
        by_day = amount[2] == "DWPD"
        scale = {"TB": TB, "PB": 1000 * TB, "DWPD": 1}[amount[2]]
        total = float(amount[1]) * scale
        return Endurance(
            total_bytes=None if by_day else total,
            writes_per_day=total if by_day else None,
            origin="typed",
        )
    drive = facts.find("drives", text)
    assert isinstance(drive, Drive)  # noqa: S101 - the table has no other
    if drive.tbw_tb is None and drive.dwpd_low is None:
        raise ValueError(
            f"the data sheet of {text} does not state its endurance; give 3504TB or 1DWPD"
        )
    return Endurance(
        total_bytes=drive.tbw_tb * TB if drive.tbw_tb is not None else None,
        writes_per_day=drive.dwpd_low if drive.tbw_tb is None else None,
        origin=f"{drive.key}: {drive.origin(facts.today)}",
    )


def costs_of(
    tiers: Iterable[CacheTiers], memory_only: MemoryOnlyCache, reads_per_s: float, prices: Prices
) -> list[CacheCost]:
    """Return the cost of the caches whose price is known.

    Args:
        tiers: The caches.
        memory_only: What memory without a device serves, of the same policy.
        reads_per_s: Read requests of the recording.
        prices: Prices.
    """
    return [
        _cost(each, month, memory_only, reads_per_s, prices)
        for each in tiers
        if (month := _monthly_cost(each.memory_bytes, each.device_bytes, prices)) is not None
    ]


class MemoryOnlyCache:
    """Share of the last reads that memory without a device serves, simulated on demand.

    Args:
        sizes_bytes: Sizes of memory, the smallest first.
        disk_share: Returns the share that the storage serves with a size of memory.
    """

    def __init__(self, sizes_bytes: Sequence[int], disk_share: Callable[[int], float]) -> None:
        self._sizes = sizes_bytes
        self._leaves = disk_share

    def size_bytes(self, disk_share: float) -> int | None:
        """Return the smallest size that leaves about that share to the storage; None if none does.

        More memory is assumed to serve at least as much.
        """
        most = disk_share + _EQUAL_SHARE
        found = bisect.bisect_left(self._sizes, True, key=lambda each: self._leaves(each) <= most)
        return self._sizes[found] if found < len(self._sizes) else None


def _cost(
    tiers: CacheTiers,
    month: Money,
    memory_only: MemoryOnlyCache,
    reads_per_s: float,
    prices: Prices,
) -> CacheCost:
    saved = reads_per_s * (1 - tiers.disk_share)
    is_compared = tiers.device_bytes and prices.memory is not None
    alone_bytes = memory_only.size_bytes(tiers.disk_share) if is_compared else None
    return CacheCost(
        memory_bytes=tiers.memory_bytes,
        device_bytes=tiers.device_bytes,
        month=month,
        saved_reads_per_s=saved,
        saved_reads_per_s_low=reads_per_s * (1 - tiers.disk_share_high),
        saved_reads_per_s_high=reads_per_s * (1 - tiers.disk_share_low),
        month_per_read=month.times(1 / saved) if saved else None,
        storage_month=prices.storage.money.times(saved) if prices.storage else None,
        memory_alone_bytes=alone_bytes,
        memory_alone_month=_monthly_cost(alone_bytes, 0, prices)
        if alone_bytes is not None
        else None,
        worn_out_years=_worn_out_years(tiers, prices.endurance),
    )


def _monthly_cost(memory_bytes: int, device_bytes: int, prices: Prices) -> Money | None:
    """Return the price of caches a month; None of a size without a price, or without caches."""
    parts = [
        (prices.memory, memory_bytes),
        (prices.device, device_bytes),
    ]
    used = [(price, size) for price, size in parts if size]
    if not used:
        return None
    total: Money | None = None
    for price, size in used:
        if price is None:
            return None
        part = price.money.times(size / GIB)
        total = part if total is None else total + part
    return total


def _worn_out_years(tiers: CacheTiers, endurance: Endurance | None) -> float | None:
    per_day = tiers.device_written_bytes_per_day
    if endurance is None or not tiers.device_bytes or not per_day:
        return None
    total = endurance.total_bytes
    if total is None:
        total = rated_bytes(endurance.writes_per_day or 0.0, tiers.device_bytes)
    return total / per_day / DAYS_PER_YEAR
