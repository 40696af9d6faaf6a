"""Reads the catalogue: what is shipped, and the user's own figures above it.

A table is read when it is first used. The user's file is TOML, a table per row:

    ["prices/aws/gp3/capacity/us-east-1"]
    mid = 0.07
    source = "our contract"
    as_of = "2026-11-01"
"""

from __future__ import annotations

import csv
import datetime
import difflib
import itertools
import os
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from seatrial.catalogue.facts import (
    Drive,
    Exchange,
    Fact,
    FieldFailures,
    Instance,
    LatencyPrior,
    LocalDisk,
    Price,
    Volume,
)
from seatrial.catalogue.units import Money
from seatrial.errors import UsageError
from seatrial.grouping import grouped
from seatrial.study.cell import FactorValue

TABLES: Final[Mapping[str, tuple[type[Fact], tuple[str, ...]]]] = {
    "volumes": (Volume, ("volumes.csv",)),
    "prices": (Price, ("prices.csv",)),
    "instances": (Instance, ("instances_aws.csv", "instances_other.csv")),
    "local_nvme": (LocalDisk, ("local_nvme_iops.csv",)),
    "latency": (LatencyPrior, ("latency_priors.csv",)),
    "drives": (Drive, ("drives.csv",)),
    "failures": (FieldFailures, ("drive_afr.csv",)),
    "rates": (Exchange, ()),
}
"""Each table, its structure and its files."""

ANY: Final = "any"
"""The region of what costs the same everywhere."""

FactType = TypeVar("FactType", bound=Fact)


def own_file() -> Path:
    """Return the user's own catalogue: ``$SEATRIAL_CATALOGUE``, else in the configuration folder.

    Source: the XDG Base Directory Specification, ``XDG_CONFIG_HOME``.
    """
    own = os.environ.get("SEATRIAL_CATALOGUE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "seatrial/catalogue.toml"


class SeveralRegionsError(UsageError):
    """Prices of several regions are known, and no region is named."""


class Catalogue:
    """Facts by table and key; a table is read at its first use.

    Attributes:
        today: From which the age of a fact counts.
    """

    def __init__(
        self, own: Mapping[str, Mapping[str, Any]], *, today: datetime.date, source_name: str = ""
    ) -> None:
        self.today = today
        self._own = own
        self._source_name = source_name
        self._read: dict[str, dict[str, Fact]] = {}

    def table(self, name: str) -> Mapping[str, Fact]:
        """Return the facts of a table by their keys.

        Raises:
            UsageError: when there is no such table, or a row is broken.
        """
        if name not in self._read:
            self._read[name] = self._facts(name)
        return self._read[name]

    @cached_property
    def volumes(self) -> Mapping[str, Volume]:
        """Network volumes, by provider and volume."""
        return self._of("volumes", Volume)

    @cached_property
    def prices(self) -> Mapping[str, Price]:
        """Prices, by provider, item, component and region."""
        return self._of("prices", Price)

    @cached_property
    def instances(self) -> Mapping[str, Instance]:
        """Virtual machines, by provider and instance."""
        return self._of("instances", Instance)

    def instance_of(self, provider: str, name: str) -> Instance | None:
        """Return an instance, also by a row for several types, such as ``c3-*-8``; else None."""
        found = self.instances.get(f"{provider}/{name}")
        for each in self.instances.values() if found is None else ():
            if each.provider == provider and fnmatchcase(name, each.instance):
                return msgspec.structs.replace(each, instance=name)
        return found

    @cached_property
    def local_disks(self) -> Mapping[str, LocalDisk]:
        """Local disks of families of instances."""
        return self._of("local_nvme", LocalDisk)

    @cached_property
    def latencies(self) -> Mapping[str, LatencyPrior]:
        """Latencies that are assumed until measured."""
        return self._of("latency", LatencyPrior)

    @cached_property
    def drives(self) -> Mapping[str, Drive]:
        """Data sheets."""
        return self._of("drives", Drive)

    @cached_property
    def failures(self) -> Mapping[str, FieldFailures]:
        """Failures in the field, by model."""
        return self._of("failures", FieldFailures)

    def find(self, table: str, key: str) -> Fact:
        """Return one fact by its key, or by the last part of it where that is unique.

        Raises:
            UsageError: when there is none, or several.
        """
        facts = self.table(table)
        if key in facts:
            return facts[key]
        ends = [each for each in facts if each.lower().endswith(f"/{key.lower()}")]
        ends = ends or [each for each in facts if each.lower() == key.lower()]
        if len(ends) == 1:
            return facts[ends[0]]
        if table == "instances" and not ends:
            providers = dict.fromkeys(each.provider for each in self.instances.values())
            name = key.rpartition("/")[2]
            for provider in providers:
                found = self.instance_of(provider, name)
                if found is not None and key in (name, f"{provider}/{name}"):
                    return found
        noun = table.removesuffix("s")
        if ends:
            raise UsageError(
                seen=f"{key!r} matches {len(ends)} {table} of the catalogue: {', '.join(ends)}",
                cause=f"The name of a {noun} is not unique without its provider",
                next_step=f"Write one of them in full, such as {ends[0]}",
            )
        names = [*facts, *(each.rpartition("/")[2] for each in facts)]
        near = difflib.get_close_matches(key, names, 1)
        raise UsageError(
            seen=f"The catalogue has no {noun} {key!r}",
            cause=f"Did you mean {near[0]!r}?" if near else "It may be new, or spelled differently",
            next_step=f"Add it: `seatrial catalogue set {table}/{key} FIELD=VALUE`"
            if not near
            else f"See what there is: `seatrial catalogue show {table}`",
        )

    def price(self, provider: str, item: str, component: str, region: str = "") -> Price | None:
        """Return a price; of a region, or where that is empty of the only region known.

        None where no price of it is known there.

        Raises:
            UsageError: when no region is named, and the provider's prices are of several.
        """
        found = [
            each
            for each in self._prices_by_item.get((provider, item, component), [])
            if not region or each.region in (region, ANY)
        ]
        if found:
            self.check_region(provider, region)
        return min(found, key=lambda each: (not each.typed, each.region == ANY), default=None)

    def check_region(self, provider: str, region: str) -> None:
        """Check that prices of a provider are of one region.

        Raises:
            SeveralRegionsError: when no region is named, and they are of several.
        """
        regions = self._regions.get(provider, [])
        if not region and len(regions) > 1:
            raise SeveralRegionsError(
                seen=f"Prices of {provider} are known for {' and '.join(regions)}",
                cause="Prices of different regions are not added into one bill",
                next_step=f"Name one with --region, such as --region {regions[0]} (as the price of "
                f"a cache: {provider}/VOLUME/{regions[0]})",
            )

    def in_currency(self, money: Money, currency: str) -> Money:
        """Return an amount in another currency, by the rate that the user typed.

        Raises:
            UsageError: when none was typed.
        """
        if currency in ("", money.currency):
            return money
        rates = self._of("rates", Exchange)
        there = rates.get(f"{money.currency}/{currency}")
        back = rates.get(f"{currency}/{money.currency}")
        if there is None and back is None:
            raise UsageError(
                seen=f"No exchange rate from {money.currency} to {currency} is known",
                cause="The catalogue has none on purpose: exchange rates change every day",
                next_step=f"Set one: `seatrial catalogue set rates/{money.currency}/{currency} "
                "ratio=0.92`",
            )
        ratio = there.ratio if there else 1 / back.ratio if back else 1.0
        same = money.times(ratio)
        return Money(same.low, same.mid, same.high, currency)

    @cached_property
    def _prices_by_item(self) -> dict[tuple[str, str, str], list[Price]]:
        """Prices of all regions; a plan needs thousands."""
        prices = self.prices.values()
        return grouped(prices, lambda each: (each.provider, each.item, each.component))

    @cached_property
    def _regions(self) -> dict[str, list[str]]:
        """Regions with a price, by provider."""
        found: dict[str, set[str]] = {}
        for each in self.prices.values():
            if each.region != ANY:
                found.setdefault(each.provider, set()).add(each.region)
        return {provider: sorted(regions) for provider, regions in found.items()}

    def _of(self, name: str, kind: type[FactType]) -> dict[str, FactType]:
        return {key: each for key, each in self.table(name).items() if isinstance(each, kind)}

    def _facts(self, name: str) -> dict[str, Fact]:
        if name not in TABLES:
            raise UsageError(
                seen=f"The catalogue has no table {name!r}",
                cause=f"Its tables are {', '.join(TABLES)}",
                next_step="Use one of them, such as `seatrial catalogue show prices`; a key begins "
                "with its table: `prices/aws/gp3/capacity/us-east-1`",
            )
        kind, files = TABLES[name]
        facts: dict[str, Fact] = {}
        own = {
            key.removeprefix(f"{name}/"): fields
            for key, fields in self._own.items()
            if key.startswith(f"{name}/")
        }
        for file in files:
            for line, row in enumerate(_rows(file), start=2):
                fact = _validated(kind, row, f"catalogue/{file}, line {line}")
                if fact.key in facts:
                    raise _invalid_row(
                        f"catalogue/{file}, line {line}", f"{fact.key} is there twice"
                    )
                if fact.key in own:
                    fact = self._overridden(kind, name, fact.key, row, own.pop(fact.key))
                facts[fact.key] = fact
        for key, fields in own.items():
            fact = self._overridden(kind, name, key, {}, fields)
            facts[fact.key] = fact
        return facts

    def _overridden(
        self,
        kind: type[Fact],
        table: str,
        key: str,
        row: Mapping[str, Any],
        fields: Mapping[str, Any],
    ) -> Fact:
        """Return a row with the user's fields above its own."""
        where = f"{self._source_name}, {table}/{key}"
        names = {each.encode_name for each in msgspec.structs.fields(kind)}
        for name in fields:
            if name not in names:
                near = difflib.get_close_matches(name, sorted(names), 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise _invalid_row(where, f"{table} have no field {name!r}{hint}")
        named_by = kind.NAMED_BY
        # Where the last name has a slash itself, it is the rest of the key.
        parts = dict(zip(named_by, key.split("/", len(named_by) - 1), strict=False))
        typed = {"source": "typed by the user", "as_of": str(self.today), "dated": "source"}
        # A figure that replaces the middle of an interval replaces its ends.
        mid = {
            name: fields[middle]
            for middle, ends in _MIDDLES.items()
            for name in ends
            if middle in fields
        }
        fresh = {"confidence": "high", "contradicted": "", "typed": True}
        return _validated(kind, {**parts, **row, **typed, **fresh, **mid, **fields}, where)


_MIDDLES: Final = {"mid": ("low", "high"), "mid_ms": ("low_ms", "high_ms")}


def _rows(file: str) -> list[dict[str, str]]:
    """Return the rows of a shipped file, with its empty fields left out."""
    text = resources.files("seatrial.catalogue").joinpath("data", file).read_text("utf-8")
    return [
        {name: value for name, value in row.items() if value not in ("", None)}
        for row in csv.DictReader(text.splitlines())
    ]


_WORDS: Final = {"yes": True, "no": False}
_TRUTHS: Final = ("mib_s_bought",)


def _validated(kind: type[FactType], row: Mapping[str, Any], where: str) -> FactType:
    """Return a row as a structure; raises UsageError in a sentence."""
    clean = {
        name: _WORDS.get(value, value) if name in _TRUTHS else value for name, value in row.items()
    }
    try:
        return msgspec.convert(clean, kind, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise _invalid_row(where, str(error)) from None


def _invalid_row(where: str, why: str) -> UsageError:
    return UsageError(
        seen=f"A row of the catalogue is invalid: {where}: {why}",
        cause="It was written by hand, or for another version",
        next_step=f"Correct it, or remove it from {own_file()}",
    )


def read_own(path: Path) -> dict[str, dict[str, FactorValue]]:
    """Return the user's own rows by table and key; none where there is no file.

    Raises:
        UsageError: when the file cannot be read or is invalid.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(
            seen=f"{path} cannot be read: {error}",
            cause="It is not a TOML file, or this user cannot read it",
            next_step=f"Correct it, or move it away: {path}",
        ) from None
    for key, fields in document.items():
        if not isinstance(fields, dict) or key.partition("/")[0] not in TABLES:
            raise _invalid_row(
                f"{path}, {key}", "it is not a row such as ['prices/aws/gp3/capacity/any']"
            )
    return document


@cache
def catalogue() -> Catalogue:
    """Return the catalogue with the user's own figures.

    Raises:
        UsageError: when the user's file is broken.
    """
    path = own_file()
    return Catalogue(read_own(path), today=datetime.date.today(), source_name=str(path))


def write_own(path: Path, own: Mapping[str, Mapping[str, Any]], key: str) -> None:
    """Write one of the user's own rows as a whole, or not at all.

    Comments and other rows remain as they are.

    Args:
        path: The file.
        own: All rows as they are to be.
        key: The row that differs; it is removed if ``own`` lacks it.

    Raises:
        UsageError: when the file cannot be written, or its rows are not in the usual form.
    """
    new = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        text = _changed_text(before, key, own.get(key))
        if not _holds(text, own):
            raise UsageError(
                seen=f"The row {key} of {path} is not in the form that Seatrial writes",
                cause="It was written by hand; anything else in it would be lost",
                next_step="Edit it by hand, with these lines: "
                + "; ".join(_row_text(key, own[key]).splitlines())
                if key in own
                else f"Remove {key} from it by hand",
            )
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise UsageError(
            seen=f"{path} cannot be written: {error}",
            cause="Its folder is not writable, or its disk is full",
            next_step="Name another file in SEATRIAL_CATALOGUE",
        ) from None


def _holds(text: str, own: Mapping[str, Mapping[str, Any]]) -> bool:
    try:
        return tomllib.loads(text) == own
    except tomllib.TOMLDecodeError:
        return False


def _changed_text(text: str, key: str, fields: Mapping[str, Any] | None) -> str:
    """Return a file with the fields of one row replaced; its comments and other rows remain."""
    lines = [f"{line}\n" for line in text.splitlines()]
    headers = [number for number, line in enumerate(lines) if line.lstrip().startswith("[")]
    for begin, end in itertools.pairwise([*headers, len(lines)]):
        if _first_key(lines[begin]) == key:
            return "".join([*lines[:begin], *_changed_row(lines[begin:end], fields), *lines[end:]])
    if fields is None:
        return text
    gap = "\n\n" if text.strip() else ""
    return f"{text.rstrip()}{gap}{_row_text(key, fields)}"


def _changed_row(lines: list[str], fields: Mapping[str, Any] | None) -> list[str]:
    """Return the lines of a row with other fields; lines of fields that remain are kept."""
    kept = [] if fields is None else lines[:1]
    missing = dict(fields or {})
    last = len(kept)
    for line in lines[1:]:
        name = _first_key(line)
        if not name:
            kept.append(line)
        elif name in missing:
            value = missing.pop(name)
            same = tomllib.loads(line) == {name: value}
            kept.append(line if same else f"{name} = {_value(value)}\n")
            last = len(kept)
    new = [f"{name} = {_value(value)}\n" for name, value in missing.items()]
    return [*kept[:last], *new, *kept[last:]]


def _first_key(line: str) -> str:
    """Return the key of a row's header, or the name of a field; empty of any other line."""
    try:
        return next(iter(tomllib.loads(line)), "")
    except tomllib.TOMLDecodeError:
        return ""


def _row_text(key: str, fields: Mapping[str, Any]) -> str:
    """Return a row as TOML."""
    lines = [f"[{_quoted(key)}]", *(f"{name} = {_value(value)}" for name, value in fields.items())]
    return "\n".join([*lines, ""])


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value!r}" if isinstance(value, int | float) else _quoted(str(value))


def _quoted(text: str) -> str:
    """Return a TOML basic string, which JSON's strings are, too."""
    return msgspec.json.encode(text).decode()
