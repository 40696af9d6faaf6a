"""``seatrial catalogue``: the dated facts that plans and limits are computed from."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Literal

import click
import msgspec

from seatrial.cli.options import json_option
from seatrial.errors import UsageError
from seatrial.published import FLATTENED, Count
from seatrial.report.exports.json_document import Document
from seatrial.report.table import Table
from seatrial.report.terminal import table_text, wrapped

if TYPE_CHECKING:
    from seatrial.catalogue.facts import Fact
    from seatrial.catalogue.store import Catalogue
    from seatrial.report.table import Table

EPILOG = """\b
Examples:
  seatrial catalogue check
  seatrial catalogue show volumes/aws/gp3
  seatrial catalogue show r7i
  seatrial catalogue set prices/aws/gp3/capacity/us-east-1 mid=0.07 "source=our contract"
  seatrial catalogue set prices/aws/r7i.4xlarge/instance/any mid=700 currency=USD unit=month
  seatrial catalogue set rates/USD/EUR ratio=0.92
  seatrial catalogue set prices/aws/gp3/capacity/us-east-1 --remove

\b
Your own figures are in catalogue.toml in the folder seatrial of $XDG_CONFIG_HOME (~/.config), or in
the file that $SEATRIAL_CATALOGUE names; they replace the shipped ones, field by field.
"""

FACTS_MAX = 40
"""The most rows that are shown as text."""
_FIELD = re.compile(r"([a-z_0-9]+)=(.*)", re.DOTALL)
_HIDDEN = {"source", "as_of", "dated", "confidence", "contradicted", "note", "typed"}


class FactRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the catalogue.

    Attributes:
        table: Its table.
        key: Its name there.
        origin: Its source, in a few words.
        is_old: Whether it may be older than a year.
        fields: Its figures, source and date.
    """

    table: str
    key: str
    origin: str
    is_old: bool
    fields: Annotated[dict[str, str | float | bool], FLATTENED]


class TableCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows a table has.

    Attributes:
        table: Its name.
        rows: All.
        old: Those that may be older than a year.
        contradicted: Those that another source contradicts.
        low_confidence: Those of low confidence.
        typed: Those with figures of the user.
    """

    table: str
    rows: Count
    old: Count
    contradicted: Count
    low_confidence: Count
    typed: Count


class CatalogueDocument(Document, frozen=True, kw_only=True):
    """Facts of the catalogue.

    ``seatrial catalogue check``, ``show`` and ``set``.

    Attributes:
        own_file: Where the user's own figures are, whether it exists or not.
        tables: Every table.
        facts: The requested rows; of ``check`` those that are contradicted or typed.
    """

    kind: Literal["catalogue"] = "catalogue"
    own_file: str
    tables: list[TableCount]
    facts: list[FactRow]


@click.group("catalogue", epilog=EPILOG)
def command() -> None:
    """Limits, prices and failure rates: their age and sources, and your own figures."""


@command.command("check", epilog=EPILOG)
@json_option
def check(as_json: bool) -> int:
    """Check every row; count those old, contradicted or your own.

    Raises:
        UsageError: when a row is broken.
    """
    from seatrial.catalogue.store import TABLES, catalogue  # noqa: PLC0415 - not for --help

    facts = catalogue()
    notable = [
        (name, each)
        for name in TABLES
        for each in facts.table(name).values()
        if each.contradicted or each.typed
    ]
    if as_json:
        _echo_document(facts, notable)
        return 0
    from seatrial.catalogue.store import own_file  # noqa: PLC0415 - likewise

    counts = counts_of(facts)
    rows, old = sum(each.rows for each in counts), sum(each.old for each in counts)
    click.echo(wrapped(f"All {rows:,} rows are well-formed; {old:,} may be older than a year."))
    click.echo()
    click.echo(table_text(_table_of(counts)))
    for name, each in notable:
        note = f"another source says {each.contradicted}" if each.contradicted else "yours"
        click.echo(wrapped(f"{name}/{each.key}: {note}", " - "))
    click.echo(wrapped(f"Your own figures are read from {own_file()}."))
    return 0


@command.command("show", epilog=EPILOG)
@click.argument("what", default="", metavar="[TABLE|KEY|WORD]")
@json_option
def show(what: str, as_json: bool) -> int:
    """Show rows with all their figures: a table, one key, or every row with a word in its key.

    Raises:
        UsageError: when there is no such row.
    """
    from seatrial.catalogue.store import catalogue  # noqa: PLC0415 - not for --help

    facts = catalogue()
    found = _found(facts, what)
    if as_json:
        _echo_document(facts, found)
        return 0
    for name, each in found[:FACTS_MAX]:
        row = _row(facts, name, each)
        figures = ", ".join(
            f"{field} {value:g}" if isinstance(value, float) else f"{field} {value}"
            for field, value in row.fields.items()
            if field not in _HIDDEN
        )
        click.echo(f"{name}/{each.key} ({row.origin})")
        click.echo(wrapped(figures, "   "))
        if each.contradicted:
            click.echo(wrapped(f"another source says {each.contradicted}", "   ! "))
        if each.note:
            click.echo(wrapped(each.note, "   note: "))
        click.echo(wrapped(each.source, "   source: "))
    if len(found) > FACTS_MAX:
        click.echo(f"{len(found) - FACTS_MAX:,} more rows are not shown; --json has all of them.")
    return 0


@command.command("set", epilog=EPILOG)
@click.argument("key", metavar="TABLE/KEY")
@click.argument("fields", nargs=-1, metavar="FIELD=VALUE...")
@click.option("--remove", is_flag=True, help="Remove your figures for this row.")
@json_option
def set_own(key: str, fields: tuple[str, ...], remove: bool, as_json: bool) -> int:
    """Override figures of a row with your own, or add a row.

    Other figures remain as shipped; the date is today unless as_of is given.

    Raises:
        UsageError: when the row would be broken; nothing is written then.
    """
    import datetime  # noqa: PLC0415 - not for --help

    from seatrial.catalogue.store import (  # noqa: PLC0415 - likewise
        Catalogue,
        own_file,
        read_own,
        write_own,
    )

    path, today = own_file(), datetime.date.today()
    own = dict(read_own(path))
    table, _, name = key.partition("/")
    given = dict(map(_field, fields))
    shipped = Catalogue({}, today=today)
    name = _full_key(shipped, table, name)
    key = f"{table}/{name}"
    if remove:
        if own.pop(key, None) is None:
            raise UsageError(
                seen=f"{key} has no figure of your own",
                cause=f"{path} has no such row",
                next_step="See which rows it has: `seatrial catalogue check`",
            )
    elif given:
        own[key] = {**own.get(key, {}), "as_of": str(today), **given}
    else:
        raise UsageError(
            seen=f"No figure of {key} was given",
            cause="No FIELD=VALUE was given",
            next_step=f"See its fields: `seatrial catalogue show {key}`",
        )
    changed = Catalogue(own, today=today, source_name=str(path))
    found = [(table, changed.table(table)[name])] if name in changed.table(table) else []
    write_own(path, own, key)
    if as_json:
        _echo_document(changed, found)
    else:
        done = "removed from" if remove else "written to"
        click.echo(f"{key} {done} {path}")
    return 0


def _full_key(shipped: Catalogue, table: str, name: str) -> str:
    """Return the full key of the row whose key ends so; the key itself if there is none."""
    if name in shipped.table(table):
        return name
    ends = [each for each in shipped.table(table) if each.endswith(f"/{name}")]
    return ends[0] if len(ends) == 1 else name


def _field(text: str) -> tuple[str, str | float]:
    found = _FIELD.fullmatch(text)
    if not found:
        raise UsageError(
            seen=f"{text!r} is not a figure",
            cause="A figure is written FIELD=VALUE, without spaces around the equals sign",
            next_step="For example: mid=0.07 or 'source=our contract'",
        )
    name, value = found[1], found[2]
    if name in ("as_of", "source", "note"):
        return name, value
    try:
        return name, float(value)
    except ValueError:
        return name, value


def _found(facts: Catalogue, what: str) -> list[tuple[str, Fact]]:
    """Return the rows of a table, one row by its key, or those with a word in their key."""
    from seatrial.catalogue.store import TABLES  # noqa: PLC0415 - not for --help

    table, slash, key = what.partition("/")
    if what in TABLES or not what:
        names = [what] if what else list(TABLES)
        return [(name, each) for name in names for each in facts.table(name).values()]
    if slash and table in TABLES and key in facts.table(table):
        return [(table, facts.table(table)[key])]
    found = [
        (name, each)
        for name in TABLES
        for each in facts.table(name).values()
        if what.lower() in f"{name}/{each.key}".lower()
    ]
    if not found:
        keys = {
            name
            for table in TABLES
            for each in facts.table(table).values()
            for name in (each.key, each.key.rpartition("/")[2])
        }
        near = difflib.get_close_matches(what, sorted(keys), 1)
        raise UsageError(
            seen=f"No row of the catalogue has {what!r} in its key",
            cause=f"Did you mean {near[0]!r}?" if near else "It is not shipped",
            next_step="`seatrial catalogue show volumes` lists a table with its keys; add a row "
            "with `seatrial catalogue set TABLE/KEY FIELD=VALUE`",
        )
    return found


def counts_of(facts: Catalogue) -> list[TableCount]:
    """Return how many rows each table has, and how many of them are old or doubtful."""
    from seatrial.catalogue.store import TABLES  # noqa: PLC0415 - not for --help

    found = []
    for name in TABLES:
        rows = facts.table(name).values()
        count: Counter[str] = Counter()
        for each in rows:
            count["old"] += each.is_old(facts.today)
            count["contradicted"] += bool(each.contradicted)
            count["low"] += each.confidence == "low"
            count["typed"] += each.typed
        found.append(
            TableCount(
                table=name,
                rows=len(rows),
                old=count["old"],
                contradicted=count["contradicted"],
                low_confidence=count["low"],
                typed=count["typed"],
            )
        )
    return found


def _table_of(counts: list[TableCount]) -> Table:
    return Table(
        id="catalogue",
        title="Facts by table",
        labels=1,
        headers=["Table", "Rows", "Old", "Contradicted", "Low confidence", "Yours"],
        rows=[
            [
                each.table,
                *(f"{number:,}" for number in (each.rows, each.old, each.contradicted)),
                *(f"{number:,}" for number in (each.low_confidence, each.typed)),
            ]
            for each in counts
        ],
    )


def _row(facts: Catalogue, table: str, fact: Fact) -> FactRow:
    return FactRow(
        table=table,
        key=fact.key,
        origin=fact.origin(facts.today),
        is_old=fact.is_old(facts.today),
        fields=msgspec.to_builtins(fact),
    )


def _echo_document(facts: Catalogue, found: list[tuple[str, Fact]]) -> None:
    from seatrial.catalogue.store import own_file  # noqa: PLC0415 - not for --help

    document = CatalogueDocument(
        own_file=str(own_file()),
        tables=counts_of(facts),
        facts=[_row(facts, name, each) for name, each in found],
    )
    click.echo(document.as_text(), nl=False)
