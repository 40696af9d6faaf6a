"""What the rows of a database are, as hashes of their values: enough to tell whether two are alike.

Each value is hashed by the server, so that neither a large table nor anybody's data leave it. Of a
text the numbers and UUIDs are hashed on their own, with the word before each: they may be ids,
which another server gives otherwise. Which columns hold ids, and whose, the catalogue says.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from seatrial.postgres.catalogue import Catalogue, Column, read_catalogue

if TYPE_CHECKING:
    import numpy
    import psycopg
    from psycopg import sql

BYTES_MAX: Final = 256 << 20
"""Tables are read, the smallest first, until so much of them was."""
READ_S_MAX: Final = 60.0
"""Reading ends by then; what was not read is named."""
MENTIONS_MAX: Final = 6
"""Numbers of a text that are told apart; further ones are one value."""
FIELDS_MAX: Final = 1_600
"""A query gives 1,664 columns at most. Of a table that would give more, texts are read whole."""

VALUES: Final = "values"
TEXT: Final = "text"
CLOCK: Final = "clock"
CHANCE: Final = "chance"
ID: Final = "id"

_NUMBER: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9]+"
_MENTION: Final = rf"([[:alpha:]_]*)[^[:alnum:]]*0*({_NUMBER})"
_TEXTS: Final = ("text", "character", "json", "xml", "hstore", "citext", '"char"', "name")
_CLOCKS: Final = ("timestamp", "date", "time")
_TABLES: Final = """
    SELECT n.nspname, c.relname, c.relkind = 'p',
        CASE WHEN c.relkind = 'p'
            THEN (SELECT coalesce(sum(pg_table_size(relid)), 0) FROM pg_partition_tree(c.oid))
            ELSE pg_table_size(c.oid) END::bigint AS size_bytes,
        has_table_privilege(c.oid, 'SELECT')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
        AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY size_bytes, 1, 2
"""
_WORDING: Final = """
    SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO'; SET LOCAL intervalstyle = 'iso_8601';
    SET LOCAL bytea_output = 'hex'; SET LOCAL extra_float_digits = 1
"""
_HASHED: Final = 'coalesce(hashtextextended({value}::text COLLATE "C", 0), 0)'
_WORDS: Final = """
    SELECT word, hashtextextended(word COLLATE "C", 0) FROM unnest(%s::text[]) AS word
"""


class ContentColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column.

    Attributes:
        name: Its name.
        kind: ``values``, ``text``, ``clock`` (it tells a time), ``chance`` (its default draws by
            chance) or ``id`` (the server gives its values, or they are those of such a column).
        owner: Of an id, or of numbers that are named like one: the table that gives it, by schema
            and name; else empty.
        is_key: Whether it is of a unique key.
    """

    name: str
    kind: str
    owner: str = ""
    is_key: bool = False


class TableContent(msgspec.Struct, kw_only=True):
    """The rows of a table.

    Attributes:
        name: By schema and name.
        columns: In order.
        id_column: The one whose values the server gives; empty for none.
        words: Hashes of words that numbers of this table's ids may stand behind.
        fields: Hashes by field, one of each row: ``v:COLUMN`` of values; of a text ``s:COLUMN`` of
            what is no number, ``n1:COLUMN`` and ``w1:COLUMN`` of its first number and the word
            before it, and so on, and ``r:COLUMN`` of numbers beyond those.
        count: How many rows.
    """

    name: str
    columns: list[ContentColumn]
    id_column: str = ""
    words: list[int] = []
    fields: dict[str, numpy.ndarray] = {}
    count: int = 0


class Content(msgspec.Struct, kw_only=True):
    """The rows of a database.

    Attributes:
        tables: Those that were read, by schema and name.
        unread: The others, each with the reason.
        taken_at: When they were read, as Unix time in s.
        database: Its name.
        server: As it calls itself.
    """

    tables: dict[str, TableContent]
    unread: dict[str, str]
    taken_at: float
    database: str = ""
    server: str = ""


def read_content(connection: psycopg.Connection, *, bytes_max: int = BYTES_MAX) -> Content:
    """Return what the rows of a database are, as of one moment.

    Args:
        connection: To it, in autocommit mode.
        bytes_max: Of tables that are read; larger ones are named.

    Raises:
        psycopg.Error: when the server is lost, or refuses to tell of its tables.
    """
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    catalogue = read_catalogue(connection)
    content = Content(
        tables={},
        unread={},
        taken_at=time.time(),
        database=connection.info.dbname,
        server=f"PostgreSQL {connection.info.server_version // 10_000}",
    )
    until_s = time.monotonic() + READ_S_MAX
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute(_WORDING)
        known = {each.name: each for each in _tables(connection, catalogue)}
        read_bytes = 0
        for schema, table, is_parent, size_bytes, may in connection.execute(_TABLES).fetchall():
            name = f"{schema}.{table}"
            read_bytes += size_bytes
            left_ms = round(1000 * (until_s - time.monotonic()))
            if name not in known:
                content.unread[name] = "its catalogue changed meanwhile"
            elif not may:
                content.unread[name] = "the user may not read it"
            elif read_bytes > bytes_max:
                content.unread[name] = f"beyond {bytes_max >> 20} MiB of tables"
            elif left_ms <= 0:
                content.unread[name] = f"not read within {READ_S_MAX:.0f} s"
            else:
                try:
                    with connection.transaction():
                        _fill(connection, known[name], (schema, table), left_ms, only=not is_parent)
                except psycopg.errors.QueryCanceled:
                    content.unread[name] = f"not read within {READ_S_MAX:.0f} s"
                except psycopg.DatabaseError as error:
                    content.unread[name] = f"the server refused: {' '.join(str(error).split())}"
                else:
                    content.tables[name] = known[name]
    return content


def _tables(connection: psycopg.Connection, catalogue: Catalogue) -> Iterator[TableContent]:
    """Yield what the catalogue says of every table and its columns, without rows."""
    owners = _owners(catalogue)
    words = _words(catalogue, owners)
    every = sorted({word for each in words.values() for word in each})
    hashes: dict[str, int] = dict(connection.execute(_WORDS, [every]).fetchall())
    by_word = {word: owner for owner, own in words.items() for word in own}
    for place, table in enumerate(catalogue.tables):
        name = f"{table.schema}.{table.name}"
        keys = {number for key in table.unique_keys for number in key}
        columns = [
            ContentColumn(
                name=column.name,
                kind=ID if (place, number) in owners else _kind(column),
                owner=owners.get((place, number)) or _named_owner(column, by_word, name),
                is_key=number in keys,
            )
            for number, column in enumerate(table.columns)
        ]
        own = [
            column.name
            for number, column in enumerate(table.columns)
            if owners.get((place, number)) == name and column.generated is not None
        ]
        yield TableContent(
            name=name,
            columns=columns,
            id_column=own[0] if own else "",
            words=[hashes[word] for word in words.get(name, [])],
        )


def _owners(catalogue: Catalogue) -> dict[tuple[int, int], str]:
    """Return the columns that hold ids, by table and place, and the table that gives these."""
    owners: dict[tuple[int, int], str] = {}
    referred = {
        (key.parent, number) for key in catalogue.foreign_keys for number in key.parent_columns
    }
    for place, table in enumerate(catalogue.tables):
        alone = {key[0] for key in table.unique_keys if len(key) == 1}
        for number, column in enumerate(table.columns):
            is_told_apart = number in alone or (place, number) in referred
            is_random_id = column.generated == "random" and is_told_apart
            if isinstance(column.generated, dict) or is_random_id:
                owners[place, number] = f"{table.schema}.{table.name}"
    found = True
    while found:
        found = False
        for key in catalogue.foreign_keys:
            for own, parent in zip(key.columns, key.parent_columns, strict=True):
                owner = owners.get((key.parent, parent))
                if owner is not None and (key.table, own) not in owners:
                    owners[key.table, own] = owner
                    found = True
    return owners


def _words(catalogue: Catalogue, owners: Mapping[tuple[int, int], str]) -> dict[str, list[str]]:
    """Return the words that ids may stand behind, by the table that gives these.

    They are its name, in singular too, alone and with that of the column, and the names of columns
    that refer to it.
    """
    found: dict[str, set[str]] = {}
    for (place, number), owner in owners.items():
        table = catalogue.tables[place]
        column = table.columns[number].name.lower()
        own = found.setdefault(owner, set())
        if f"{table.schema}.{table.name}" != owner:
            own.add(column)
            continue
        name = table.name.lower()
        for each in {name, name.removesuffix("s"), name.removesuffix("es")}:
            own |= {each, f"{each}_{column}", f"{each}{column}"}
    counted: dict[str, int] = {}
    for own in found.values():
        for word in own:
            counted[word] = counted.get(word, 0) + 1
    # What names two tables names none.
    return {
        owner: sorted(word for word in own if counted[word] == 1) for owner, own in found.items()
    }


def _named_owner(column: Column, by_word: Mapping[str, str], table: str) -> str:
    """Return the table whose ids a column may hold by its name; empty for none."""
    if not column.type_name.startswith(("smallint", "integer", "bigint", "numeric", "uuid")):
        return ""
    owner = by_word.get(column.name.lower(), "")
    return "" if owner == table else owner


def _kind(column: Column) -> str:
    if column.type_name.startswith(_CLOCKS) or column.generated == "time":
        return CLOCK
    if column.generated == "random":
        return CHANCE
    is_text = column.type_name.startswith(_TEXTS) or column.type_name.endswith("[]")
    return TEXT if is_text else VALUES


def _fill(
    connection: psycopg.Connection,
    table: TableContent,
    named: tuple[str, str],
    time_ms: int,
    *,
    only: bool,
) -> None:
    """Read the rows of a table."""
    from psycopg import sql  # noqa: PLC0415 - heavy, and only where there is a server

    if len(dict(_asked(table))) > FIELDS_MAX:
        whole = [
            msgspec.structs.replace(each, kind=VALUES if each.kind == TEXT else each.kind)
            for each in table.columns
        ]
        table.columns = whole
    asked = dict(_asked(table))
    texts = [each.name for each in table.columns if each.kind == TEXT]
    from_ = sql.SQL("FROM {only} {table} AS t {found}").format(
        only=sql.SQL("ONLY" if only else ""),
        table=sql.Identifier(*named),
        found=_found(texts),
    )
    query = sql.SQL("COPY (SELECT {fields} {from_}) TO STDOUT (FORMAT binary)").format(
        fields=sql.SQL(", ").join([*asked.values(), sql.SQL("0::bigint")]), from_=from_
    )
    connection.execute(f"SET LOCAL statement_timeout = {time_ms}".encode())
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        data = b"".join(bytes(block) for block in copy)
    table.fields, table.count = _unpacked(data, [*asked])


def _asked(table: TableContent) -> Iterator[tuple[str, sql.Composable]]:
    """Yield the fields of a table with what the server is asked for."""
    from psycopg import sql  # noqa: PLC0415 - heavy, and only where there is a server

    def hashed(value: str, **names: sql.Composable) -> sql.Composable:
        return sql.SQL(_HASHED.replace("{value}", value)).format(**names)

    place = 0
    for column in table.columns:
        own = sql.Identifier("t", column.name)
        if column.kind != TEXT:
            yield f"v:{column.name}", hashed("{own}", own=own)
            continue
        found = sql.Identifier("x", f"m{place}")
        place += 1
        pattern = sql.Literal(_NUMBER)
        yield (
            f"s:{column.name}",
            hashed(
                "regexp_replace(lower({own}::text), {pattern}, '#', 'g')", own=own, pattern=pattern
            ),
        )
        for nth in range(1, MENTIONS_MAX + 1):
            at = sql.SQL(str(nth))
            yield f"w{nth}:{column.name}", hashed("{found}[{at}][1]", found=found, at=at)
            yield f"n{nth}:{column.name}", hashed("{found}[{at}][2]", found=found, at=at)
        beyond = sql.SQL(str(MENTIONS_MAX + 1))
        yield f"r:{column.name}", hashed("{found}[{beyond}:]", found=found, beyond=beyond)


def _found(texts: list[str]) -> sql.Composable:
    """Return what finds the numbers of texts, with the word before each, once for each row."""
    from psycopg import sql  # noqa: PLC0415 - heavy, and only where there is a server

    if not texts:
        return sql.SQL("")
    each = [
        sql.SQL(
            "(SELECT array_agg(m) FROM regexp_matches(lower({own}::text), {pattern}, 'g') AS m) "
            "AS {name}"
        ).format(
            own=sql.Identifier("t", column),
            pattern=sql.Literal(_MENTION),
            name=sql.Identifier(f"m{place}"),
        )
        for place, column in enumerate(texts)
    ]
    found = sql.SQL(", ").join(each)
    return sql.SQL("CROSS JOIN LATERAL (SELECT {found} OFFSET 0) AS x").format(found=found)


def _unpacked(data: bytes, names: list[str]) -> tuple[dict[str, Any], int]:
    """Return the columns of a binary COPY of numbers of 64 bits without NULL, and its rows.

    Source: PostgreSQL's documentation, COPY, "Binary Format".
    """
    import numpy as np  # noqa: PLC0415 - heavy

    shape: list[tuple[str, str]] = [("fields", ">i2")]
    for place in range(len(names) + 1):
        shape += [(f"length{place}", ">i4"), (f"value{place}", ">i8")]
    record = np.dtype(shape)
    begin = 19 + int.from_bytes(data[15:19], "big")
    count = (len(data) - begin - 2) // record.itemsize
    rows = np.frombuffer(data, dtype=record, count=count, offset=begin)
    return (
        {
            name: rows[f"value{place}"].astype(np.int64).view(np.uint64)
            for place, name in enumerate(names)
        },
        count,
    )
