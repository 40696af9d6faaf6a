"""What a database's catalogue says, for the engine that maps ids and keeps the order of conflicts.

Its shape is that of ``crates/sqltext/src/catalog.rs``: objects are told by their place in lists.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from seatrial.postgres import catalogue_sql as asked
from seatrial.postgres.defaults import Generated, called, generated_by, sequence_name
from seatrial.postgres.sequences import SequenceState, read_sequences

if TYPE_CHECKING:
    import psycopg

RULE: Final = "rule"
"""Language of a rewrite rule, which is told as a function that a trigger calls."""
READ_COMMITTED: Final = "read committed"

_OF_SEQUENCES: Final = frozenset({"nextval", "setval"})

_Rows = list[tuple[Any, ...]]
_Places = Mapping[int, int]
"""Places in a list by the catalogue's number (oid)."""


class Column(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A column.

    Attributes:
        name: Its name.
        type_name: Its type, as ``format_type`` writes it.
        generated: What its default gives, where that is another value each time.
        has_default: Whether it has another default than NULL that is the same each time.
        default_function: The function that stands for its default, where that does more than
            ``generated`` tells: it calls functions, or draws from a sequence.
        is_nondeterministic: Whether texts of its collation may be the same whose bytes are not.
    """

    name: str
    type_name: str
    generated: Generated | None = None
    has_default: bool = False
    default_function: int | None = None
    is_nondeterministic: bool = False


class Uniqueness(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps rows apart besides keys: a unique index of expressions or of some rows, EXCLUDE.

    Attributes:
        columns: Those that it depends on; none where it may be all.
        equal: Those of which rows that are in each other's way have the same values.
    """

    columns: list[int]
    equal: list[int]


class Table(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table, partition or foreign table.

    Attributes:
        schema: Its schema.
        name: Its name.
        columns: In order, those that were dropped left out; keys name them by their place here.
        unique_keys: Columns of which no two rows have the same; the primary key first.
        parent: The table of which it is a partition or child.
        trigger_functions: Functions that its triggers call, and its rules.
        other_uniqueness: What keeps rows apart besides the unique keys.
        check_functions: Functions that stand for its CHECK constraints, where these call any.
        policy_functions: Functions that stand for its row security policies.
    """

    schema: str
    name: str
    columns: list[Column]
    unique_keys: list[list[int]]
    parent: int | None
    trigger_functions: list[int]
    other_uniqueness: list[Uniqueness] = []
    check_functions: list[int] = []
    policy_functions: list[int] = []


class KnownSequence(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence.

    Attributes:
        schema: Its schema.
        name: Its name.
        increment: From value to value.
        cache: Values that a session takes at once.
        cycles: Whether it begins again at its end.
        next_value: The next one if it is known.
    """

    schema: str
    name: str
    increment: int
    cache: int
    cycles: bool
    next_value: int | None


class ForeignKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table's columns that refer to a parent's, in the same order.

    It may be checked only when the transaction ends where it ``is_deferrable``.
    """

    table: int
    columns: list[int]
    parent: int
    parent_columns: list[int]
    is_deferrable: bool = False


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A view, plain or materialized, its query, and what its triggers call and its rules."""

    schema: str
    name: str
    definition: str
    trigger_functions: list[int]


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A function or procedure, and what it does; or a rule, default, check or policy as one."""

    schema: str
    name: str
    language: str
    is_volatile: bool
    body: str


class Catalogue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The catalogue of a database, without the system's schemas.

    Attributes:
        search_path: Schemas in which a name without one is looked for, in order.
        tables: Tables, partitions and foreign tables.
        sequences: Sequences.
        foreign_keys: Keys that refer to others.
        views: Views.
        functions: Functions and procedures, those of extensions included; behind them rules of
            tables and views, and expressions of defaults, checks and policies.
        isolation: The isolation level of transactions that ask for none.
    """

    search_path: list[str]
    tables: list[Table]
    sequences: list[KnownSequence]
    foreign_keys: list[ForeignKey]
    views: list[View]
    functions: list[Function]
    isolation: str = READ_COMMITTED

    def as_json(self) -> str:
        """Return it as the engine takes it."""
        return msgspec.json.encode(self).decode()

    def unread_sequences(self) -> list[str]:
        """Return the sequences whose next value may not be read, by schema and name."""
        return [f"{each.schema}.{each.name}" for each in self.sequences if each.next_value is None]


def read_catalogue(connection: psycopg.Connection) -> Catalogue:
    """Return the catalogue of the database that a connection is to, as of one moment.

    Sequences are no part of a snapshot: what others draw meanwhile may be seen or not.

    Raises:
        psycopg.Error: when the server refuses.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return _Reader(connection).catalogue()


class _Reader:
    """Asks, and puts places in lists for the catalogue's numbers."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._table_rows = self._ask(asked.TABLES)
        self._tables = _places(oid for oid, *_ in self._table_rows)
        self._sequences = read_sequences(connection)
        self._sequence_places = _places(each.oid for each in self._sequences)
        self._columns: dict[int, list[Column]] = defaultdict(list)
        self._numbers: dict[int, dict[int, int]] = defaultdict(dict)
        self._functions: list[Function] = []
        self._names: frozenset[str] = frozenset()
        self._expressions: dict[str, int] = {}
        self._called_by: dict[int, list[int]] = defaultdict(list)
        self._checked_by: dict[int, list[int]] = defaultdict(list)
        self._guarded_by: dict[int, list[int]] = defaultdict(list)

    def catalogue(self) -> Catalogue:
        self._read_functions()
        self._read_columns()
        ((isolation,),) = self._ask(asked.ISOLATION)
        return Catalogue(
            search_path=[str(schema) for (schema,) in self._ask(asked.SEARCH_PATH)],
            tables=self._read_tables(),
            sequences=[_known(each) for each in self._sequences],
            foreign_keys=self._read_foreign_keys(),
            views=[
                View(
                    schema=schema,
                    name=name,
                    definition=definition or "",
                    trigger_functions=self._called_by[oid],
                )
                for oid, schema, name, definition in self._ask(asked.VIEWS)
            ],
            functions=self._functions,
            isolation=isolation,
        )

    def _ask(self, query: str, *given: Any) -> _Rows:  # noqa: ANN401 - what psycopg can send
        return self._connection.execute(query.encode(), given or None).fetchall()

    def _read_columns(self) -> None:
        rows = self._ask(asked.COLUMNS)
        defaults = {default for *_, default in rows if default is not None}
        names = {name for name in map(sequence_name, defaults) if name is not None}
        meant: dict[str, int | None] = dict(self._ask(asked.SEQUENCES_NAMED, [*names]))
        functions = sorted({name for default in defaults for name in called(default)})
        volatile = {str(name) for (name,) in self._ask(asked.VOLATILE, functions)}
        generated = {
            default: generated_by(
                default, volatile, lambda name: self._sequence_places.get(meant.get(name) or 0)
            )
            for default in defaults
        }
        for table, number, name, type_name, is_nondeterministic, identity, default in rows:
            own: Generated | None = generated.get(default)
            if identity is not None and identity in self._sequence_places:
                own = {"sequence": self._sequence_places[identity]}
            self._numbers[table][number] = len(self._columns[table])
            self._columns[table].append(
                Column(
                    name=name,
                    type_name=type_name,
                    generated=own,
                    has_default=default is not None and own is None,
                    default_function=self._default_function(default, own),
                    is_nondeterministic=is_nondeterministic,
                )
            )

    def _default_function(self, default: str | None, generated: Generated | None) -> int | None:
        """Return the function that stands for a default; None where `generated` tells all."""
        if default is None or isinstance(generated, dict):
            return None
        return self._expression("default", default, _OF_SEQUENCES)

    def _expression(self, name: str, expression: str, besides: frozenset[str]) -> int | None:
        """Return a function that stands for an expression; None where it calls nothing of note."""
        if not called(expression) & (self._names | besides):
            return None
        if expression not in self._expressions:
            body = f"SELECT {expression}"
            place = self._add_function("", name, "sql", body, is_volatile=True)
            self._expressions[expression] = place
        return self._expressions[expression]

    def _read_functions(self) -> None:
        """Read functions, and rules behind them, and whose triggers and rules they are."""
        places = {}
        query = asked.functions(self._connection.info.server_version)
        for oid, schema, name, language, is_volatile, body in self._ask(query):
            places[oid] = self._add_function(schema, name, language, body, is_volatile=is_volatile)
        for table, function in self._ask(asked.TRIGGERS):
            if function in places:
                self._called_by[table].append(places[function])
        self._names = frozenset(each.name for each in self._functions)
        for table, schema, name, definition in self._ask(asked.RULES):
            place = self._add_function(schema, name, RULE, definition, is_volatile=True)
            self._called_by[table].append(place)
        for table, _, name, expression in self._ask(asked.CHECKS):
            check = self._expression(name, expression, frozenset())
            if check is not None:
                self._checked_by[table].append(check)
        for table, schema, name, expressions in self._ask(asked.POLICIES):
            body = f"SELECT {expressions}"
            place = self._add_function(schema, name, "sql", body, is_volatile=True)
            self._guarded_by[table].append(place)

    def _add_function(
        self, schema: str, name: str, language: str, body: str | None, *, is_volatile: bool
    ) -> int:
        self._functions.append(
            Function(
                schema=schema,
                name=name,
                language=language,
                is_volatile=is_volatile,
                body=body or "",
            )
        )
        return len(self._functions) - 1

    def _read_tables(self) -> list[Table]:
        keys = defaultdict(list)
        for table, numbers in self._ask(asked.UNIQUE_KEYS):
            keys[table].append(self._columns_at(table, numbers))
        others = defaultdict(list)
        for table, columns, equal in self._ask(asked.OTHER_UNIQUENESS):
            others[table].append(
                Uniqueness(
                    columns=self._columns_at(table, columns), equal=self._columns_at(table, equal)
                )
            )
        return [
            Table(
                schema=schema,
                name=name,
                columns=self._columns[oid],
                unique_keys=keys[oid],
                parent=self._tables.get(parent),
                trigger_functions=self._called_by[oid],
                other_uniqueness=others[oid],
                check_functions=self._checked_by[oid],
                policy_functions=self._guarded_by[oid],
            )
            for oid, schema, name, parent in self._table_rows
        ]

    def _read_foreign_keys(self) -> list[ForeignKey]:
        return [
            ForeignKey(
                table=self._tables[table],
                columns=self._columns_at(table, columns),
                parent=self._tables[parent],
                parent_columns=self._columns_at(parent, parent_columns),
                is_deferrable=is_deferrable,
            )
            for table, columns, parent, parent_columns, is_deferrable in self._ask(
                asked.FOREIGN_KEYS
            )
            if table in self._tables and parent in self._tables
        ]

    def _columns_at(self, table: int, numbers: Iterable[int]) -> list[int]:
        return [self._numbers[table][number] for number in numbers]


def _places(oids: Iterable[int]) -> dict[int, int]:
    return {oid: place for place, oid in enumerate(oids)}


def _known(sequence: SequenceState) -> KnownSequence:
    return KnownSequence(
        schema=sequence.schema,
        name=sequence.name,
        increment=sequence.increment,
        cache=sequence.cache,
        cycles=sequence.cycles,
        next_value=sequence.next_value,
    )
