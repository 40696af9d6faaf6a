"""A database's catalogue, for the engine to map ids and preserve the order of conflicts.

Its structure is that of ``crates/sqltext/src/catalog.rs``: objects are identified by their index in
lists.

Source: PostgreSQL's documentation, chapter "System Catalogs".

Source: PostgreSQL's documentation, "Date/Time Functions" (which tell the time) and
"Function Volatility Categories".

Source: PostgreSQL's documentation, "CREATE SEQUENCE" and "Sequence Manipulation Functions".
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, LiteralString

import msgspec

if TYPE_CHECKING:
    import psycopg


_VERSION_14: Final = 140000

SEARCH_PATH: Final = "SELECT unnest(current_schemas(false))::text"
ISOLATION: Final = "SELECT current_setting('default_transaction_isolation')"
TABLES: Final[LiteralString] = """
    SELECT c.oid, n.nspname, c.relname,
        (SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = c.oid ORDER BY i.inhseqno LIMIT 1)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'f')
        AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY n.nspname, c.relname
"""
# An identity column's sequence is a part of it; any other default is read from its expression.
COLUMNS: Final[LiteralString] = """
    SELECT a.attrelid, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod),
        NOT coalesce(o.collisdeterministic, true),
        CASE WHEN a.attidentity <> '' THEN (
            SELECT d.objid FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
            WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.deptype = 'i'
            LIMIT 1
        ) END,
        CASE WHEN a.attgenerated = '' AND a.attidentity = '' THEN coalesce(
            pg_get_expr(e.adbin, e.adrelid), pg_get_expr(t.typdefaultbin, 0)
        ) END
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum
    LEFT JOIN pg_collation o ON o.oid = a.attcollation
    WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'f')
        AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY a.attrelid, a.attnum
"""
# The server resolves sequence names in defaults, as it knows the search path.
SEQUENCES_NAMED: Final = "SELECT name, to_regclass(name)::oid FROM unnest(%s::text[]) AS name"
VOLATILE: Final = """
    SELECT DISTINCT proname::text FROM pg_proc WHERE provolatile = 'v' AND proname = ANY (%s)
"""
UNIQUE_KEYS: Final[LiteralString] = """
    SELECT i.indrelid, (i.indkey::int2[])[0:i.indnkeyatts - 1]
    FROM pg_index i
    JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
        AND NOT i.indisexclusion AND c.relkind IN ('r', 'p', 'f')
        AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY i.indrelid, i.indisprimary DESC, i.indexrelid
"""
# Other uniqueness: indexes of expressions or of some rows, those with NULLS NOT DISTINCT (15 and
# later), exclusion constraints, and indexes under construction. The columns that they depend on
# (for an exclusion constraint through the constraint, not the index), and the columns that are
# equal in conflicting rows.
OTHER_UNIQUENESS: Final[LiteralString] = """
    SELECT i.indrelid,
        ARRAY(
            SELECT d.refobjsubid FROM pg_depend d
            WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = i.indrelid
                AND d.refobjsubid > 0 AND (
                    d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                    OR d.classid = 'pg_constraint'::regclass AND d.objid = k.oid
                )
            UNION SELECT number FROM unnest(i.indkey::int2[]) AS number WHERE number > 0
            ORDER BY 1
        ),
        CASE WHEN i.indisexclusion THEN '{}' ELSE ARRAY(
            SELECT number FROM unnest((i.indkey::int2[])[0:i.indnkeyatts - 1]) AS number
            WHERE number > 0
        ) END
    FROM pg_index i
    JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x')
    WHERE (i.indisunique OR i.indisexclusion) AND i.indisready AND c.relkind IN ('r', 'p', 'f')
        AND (
            NOT i.indisvalid OR i.indpred IS NOT NULL OR i.indexprs IS NOT NULL
            OR i.indisexclusion OR (to_jsonb(i) ->> 'indnullsnotdistinct')::bool
        )
        AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY i.indrelid, i.indexrelid
"""
FOREIGN_KEYS: Final[LiteralString] = """
    SELECT k.conrelid, k.conkey, k.confrelid, k.confkey, k.condeferrable
    FROM pg_constraint k
    JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE k.contype = 'f'
        AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY n.nspname, c.relname, k.conname
"""
VIEWS: Final[LiteralString] = """
    SELECT c.oid, n.nspname, c.relname, pg_get_viewdef(c.oid)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('v', 'm')
        AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY n.nspname, c.relname
"""
_FUNCTIONS: Final[LiteralString] = """
    SELECT p.oid, n.nspname, p.proname, l.lanname,
"""
_OF_FUNCTIONS: Final[LiteralString] = """
    FROM pg_proc p
    JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
    WHERE p.prokind <> 'a'
        AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY n.nspname, p.proname, p.oid
"""
TRIGGERS: Final[LiteralString] = """
    SELECT DISTINCT t.tgrelid, t.tgfoid
    FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE NOT t.tgisinternal AND t.tgenabled <> 'D'
        AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY t.tgrelid, t.tgfoid
"""
RULES: Final[LiteralString] = """
    SELECT r.ev_class, n.nspname, r.rulename, pg_get_ruledef(r.oid)
    FROM pg_rewrite r
    JOIN pg_class c ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v') AND r.ev_enabled <> 'D' AND r.rulename <> '_RETURN'
        AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY r.ev_class, r.rulename
"""
# Expressions that rows of a table must satisfy: its own, and those of its columns' types.
CHECKS: Final[LiteralString] = """
    SELECT c.oid, n.nspname, k.conname, pg_get_expr(k.conbin, k.conrelid)
    FROM pg_constraint k
    JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE k.contype = 'c' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    UNION
    SELECT c.oid, n.nspname, k.conname, pg_get_expr(k.conbin, 0)
    FROM pg_constraint k JOIN pg_attribute a ON a.atttypid = k.contypid
    JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE k.contype = 'c' AND k.contypid <> 0 AND NOT a.attisdropped
        AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY 1, 3, 4
"""
# Expressions that determine who may see and write which rows.
POLICIES: Final[LiteralString] = """
    SELECT p.polrelid, n.nspname, p.polname,
        concat_ws(', ', pg_get_expr(p.polqual, c.oid), pg_get_expr(p.polwithcheck, c.oid))
    FROM pg_policy p
    JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relrowsecurity AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY p.polrelid, p.polname
"""


def functions(version: int) -> LiteralString:
    """Return the query for the functions of a server of that ``server_version_num``.

    A body in SQL-standard form (14 and later) is stored parsed, and has no source text.
    """
    if version < _VERSION_14:
        return _FUNCTIONS + "p.prosrc" + _OF_FUNCTIONS
    return _FUNCTIONS + "coalesce(pg_get_function_sqlbody(p.oid), p.prosrc)" + _OF_FUNCTIONS


Generated = Literal["random", "time"] | dict[str, int]
"""As in ``crates/sqltext/src/catalog.rs``: a sequence is identified by its index in a list."""

_NEXTVAL: Final = re.compile(
    r"\(*nextval\(\(*'(?P<name>(?:[^']|'')+)'(?:::text)?\)*(?:::regclass)?\)+"
    r"(?:::[a-z ]+)?\)*"
)
_TEXT: Final = re.compile(r"'(?:[^']|'')*'")
_CALLED: Final = re.compile(r'(?:(\w+)|"((?:[^"]|"")+)")\(')
_WORD: Final = re.compile(r"\w+")
_TIME_FUNCTIONS: Final = frozenset(
    {"now", "transaction_timestamp", "statement_timestamp", "clock_timestamp", "timeofday"}
)
_TIME_WORDS: Final = frozenset(
    {"CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIMESTAMP", "LOCALTIME"}
)
_TIME_TEXTS: Final = frozenset({"'now'", "'today'", "'tomorrow'", "'yesterday'"})


def sequence_name(expression: str) -> str | None:
    """Return the sequence that a default draws from, as named in the default.

    None where the default is anything else, such as an expression of a sequence's value: the
    column's values then differ from the sequence's.
    """
    found = _NEXTVAL.fullmatch(expression)
    return found["name"].replace("''", "'") if found else None


def called_functions(expression: str) -> set[str]:
    """Return the names of the functions that a default calls, without their schemas."""
    bare = _TEXT.sub("''", expression)
    return {plain or quoted.replace('""', '"') for plain, quoted in _CALLED.findall(bare)}


def generated_by(
    expression: str, volatile: Collection[str], sequence_at: Callable[[str], int | None]
) -> Generated | None:
    """Return the generator of a default; None where it is a constant.

    Args:
        expression: The default, as returned by ``pg_get_expr``.
        volatile: Names of volatile functions.
        sequence_at: Returns a sequence's index in the catalogue by a name from ``sequence_name``;
            None if absent.
    """
    name = sequence_name(expression)
    index = sequence_at(name) if name is not None else None
    if index is not None:
        return {"sequence": index}
    functions = called_functions(expression)
    if functions & (set(volatile) - _TIME_FUNCTIONS):
        return "random"
    words = set(_WORD.findall(_TEXT.sub("''", expression)))
    texts = set(_TEXT.findall(expression))
    is_time = functions & _TIME_FUNCTIONS or words & _TIME_WORDS or texts & _TIME_TEXTS
    return "time" if is_time else None


# Unlogged sequences cannot be read on a standby.
_SEQUENCES: Final = """
    SELECT c.oid, n.nspname, c.relname, s.seqincrement, s.seqcache, s.seqmin, s.seqmax, s.seqcycle,
        has_schema_privilege(n.oid, 'USAGE') AND has_sequence_privilege(c.oid, 'SELECT')
            AND NOT (pg_is_in_recovery() AND c.relpersistence = 'u')
    FROM pg_sequence s
    JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY n.nspname, c.relname
"""
_SEQUENCE_STATE: Final = "SELECT {number} AS number, last_value, is_called FROM {sequence}"
_SEQUENCES_PER_QUERY_MAX: Final = 200
"""Maximum number of sequences in one query: it locks each of them."""


class CatalogueSequence(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence for the engine.

    Attributes:
        schema: Its schema.
        name: Its name.
        increment: Difference of successive values.
        cache: Number of values that a session takes at once.
        cycles: Whether it restarts at its end.
        next_value: The next value for a new session; None where it may not be read, or where it is
            exhausted.
    """

    schema: str
    name: str
    increment: int
    cache: int
    cycles: bool
    next_value: int | None

    @property
    def label(self) -> str:
        """Its schema and name, such as ``public.orders_id_seq``."""
        return f"{self.schema}.{self.name}"


class SequenceState(CatalogueSequence, frozen=True, kw_only=True):
    """A sequence and its state.

    Attributes:
        oid: Its number in the catalogue.
        is_readable: Whether it may be read.
    """

    oid: int
    is_readable: bool


def read_sequences(connection: psycopg.Connection) -> list[SequenceState]:
    """Return the sequences of a database without those of the system, by schema and name.

    The sequence itself is read: ``pg_sequences`` does not show the effect of ``setval(...,
    false)``.

    Raises:
        psycopg.Error: when the server refuses.
    """
    rows = connection.execute(_SEQUENCES).fetchall()
    readable = [(int(oid), str(schema), str(name)) for oid, schema, name, *_, may in rows if may]
    last_values = _last_values(connection, readable)
    return [
        SequenceState(
            oid=oid,
            schema=schema,
            name=name,
            increment=increment,
            cache=cache,
            cycles=bool(cycles),
            next_value=_next(last_values[oid], increment, low, high, cycles=cycles)
            if may
            else None,
            is_readable=may,
        )
        for oid, schema, name, increment, cache, low, high, cycles, may in rows
    ]


def _last_values(
    connection: psycopg.Connection, sequences: list[tuple[int, str, str]]
) -> dict[int, tuple[int, bool]]:
    """Return each sequence's last value and whether it was returned, by the sequence's oid."""
    from psycopg import sql  # noqa: PLC0415 - heavy, and only where there is a server

    one: LiteralString = _SEQUENCE_STATE
    found = {}
    for first in range(0, len(sequences), _SEQUENCES_PER_QUERY_MAX):
        query = sql.SQL(" UNION ALL ").join(
            sql.SQL(one).format(number=sql.Literal(oid), sequence=sql.Identifier(schema, name))
            for oid, schema, name in sequences[first : first + _SEQUENCES_PER_QUERY_MAX]
        )
        for oid, last_value, is_called in connection.execute(query):
            found[int(oid)] = (int(last_value), bool(is_called))
    return found


def _next(
    state: tuple[int, bool], increment: int, low: int, high: int, *, cycles: bool
) -> int | None:
    last_value, is_called = state
    if not is_called:
        return last_value
    following = last_value + increment
    if low <= following <= high:
        return following
    if not cycles:
        return None
    return low if increment > 0 else high


RULE: Final = "rule"
"""Language of a rewrite rule, which is represented as a function that a trigger calls."""
READ_COMMITTED: Final = "read committed"

_OF_SEQUENCES: Final = frozenset({"nextval", "setval"})

_Rows = list[tuple[Any, ...]]


class Column(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A column.

    Attributes:
        name: Its name.
        type_name: Its type, as returned by ``format_type``.
        generated: What its default generates, where that is a different value each time.
        has_default: Whether it has a constant default other than NULL.
        default_function: The function that represents its default, where that does more than
            ``generated`` describes: it calls functions, or draws from a sequence.
        is_nondeterministic: Whether its collation is nondeterministic, so that different strings
            may be equal.
    """

    name: str
    type_name: str
    generated: Generated | None = None
    has_default: bool = False
    default_function: int | None = None
    is_nondeterministic: bool = False


class Uniqueness(msgspec.Struct, frozen=True, kw_only=True):
    """Uniqueness other than by keys: a unique index of expressions or of some rows, EXCLUDE.

    Attributes:
        columns: The columns that it depends on; empty where it may be all.
        equal: The columns that are equal in conflicting rows.
    """

    columns: list[int]
    equal: list[int]


class Table(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table, partition or foreign table.

    Attributes:
        schema: Its schema.
        name: Its name.
        columns: In order, without dropped ones; keys refer to them by index.
        unique_keys: Unique sets of columns; the primary key first.
        parent: The table of which it is a partition or child.
        trigger_functions: Functions that its triggers call, and its rules.
        other_uniqueness: Uniqueness other than by these keys.
        check_functions: Functions that represent its CHECK constraints, where these call any.
        policy_functions: Functions that represent its row security policies.
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


class ForeignKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table's columns that refer to a parent's, in the same order.

    If it ``is_deferrable``, it may be checked only at the end of the transaction.
    """

    table: int
    columns: list[int]
    parent: int
    parent_columns: list[int]
    is_deferrable: bool = False


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A view, plain or materialized: its query, trigger functions and rules."""

    schema: str
    name: str
    definition: str
    trigger_functions: list[int]


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A function or procedure; or a rule, default, check or policy represented as one."""

    schema: str
    name: str
    language: str
    body: str


class Catalogue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The catalogue of a database, without the system's schemas.

    Attributes:
        search_path: Schemas in which unqualified names are looked up, in order.
        tables: Tables, partitions and foreign tables.
        sequences: Sequences.
        foreign_keys: Keys that refer to others.
        views: Views.
        functions: Functions and procedures, including those of extensions; then rules of tables and
            views, and expressions of defaults, checks and policies.
        isolation: The default isolation level of transactions.
    """

    search_path: list[str]
    tables: list[Table]
    sequences: list[CatalogueSequence]
    foreign_keys: list[ForeignKey]
    views: list[View]
    functions: list[Function]
    isolation: str = READ_COMMITTED

    def as_json(self) -> str:
        """Return it as JSON for the engine."""
        return msgspec.json.encode(self).decode()


def read_catalogue(connection: psycopg.Connection) -> Catalogue:
    """Return the catalogue of a connection's database, as of one moment.

    Sequences are not part of a snapshot: concurrent draws may be visible or not.

    Raises:
        psycopg.Error: when the server refuses.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return _Reader(connection).catalogue()


class _Reader:
    """Reads the catalogue, and converts object ids to indexes in lists."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._table_rows = self._query(TABLES)
        self._tables = _indexes(oid for oid, *_ in self._table_rows)
        self._sequences = read_sequences(connection)
        self._sequence_indexes = _indexes(sequence.oid for sequence in self._sequences)
        self._columns: dict[int, list[Column]] = defaultdict(list)
        self._column_indexes: dict[int, dict[int, int]] = defaultdict(dict)
        self._functions: list[Function] = []
        self._function_names: frozenset[str] = frozenset()
        self._expressions: dict[str, int] = {}
        self._trigger_functions: dict[int, list[int]] = defaultdict(list)
        self._check_functions: dict[int, list[int]] = defaultdict(list)
        self._policy_functions: dict[int, list[int]] = defaultdict(list)

    def catalogue(self) -> Catalogue:
        self._read_functions()
        self._read_columns()
        ((isolation,),) = self._query(ISOLATION)
        return Catalogue(
            search_path=[str(schema) for (schema,) in self._query(SEARCH_PATH)],
            tables=self._read_tables(),
            sequences=msgspec.convert(
                self._sequences, list[CatalogueSequence], from_attributes=True
            ),
            foreign_keys=self._read_foreign_keys(),
            views=[
                View(
                    schema=schema,
                    name=name,
                    definition=definition or "",
                    trigger_functions=self._trigger_functions[oid],
                )
                for oid, schema, name, definition in self._query(VIEWS)
            ],
            functions=self._functions,
            isolation=isolation,
        )

    def _query(self, query: str, *parameters: Any) -> _Rows:  # noqa: ANN401 - what psycopg can send
        return self._connection.execute(query.encode(), parameters or None).fetchall()

    def _read_columns(self) -> None:
        rows = self._query(COLUMNS)
        defaults = {default for *_, default in rows if default is not None}
        names = {name for name in map(sequence_name, defaults) if name is not None}
        oids_by_name: dict[str, int | None] = dict(self._query(SEQUENCES_NAMED, [*names]))
        functions = sorted({name for default in defaults for name in called_functions(default)})
        volatile = {str(name) for (name,) in self._query(VOLATILE, functions)}
        generated = {
            default: generated_by(
                default,
                volatile,
                lambda name: self._sequence_indexes.get(oids_by_name.get(name) or 0),
            )
            for default in defaults
        }
        for table, number, name, type_name, is_nondeterministic, identity, default in rows:
            generator: Generated | None = generated.get(default)
            if identity is not None and identity in self._sequence_indexes:
                generator = {"sequence": self._sequence_indexes[identity]}
            self._column_indexes[table][number] = len(self._columns[table])
            self._columns[table].append(
                Column(
                    name=name,
                    type_name=type_name,
                    generated=generator,
                    has_default=default is not None and generator is None,
                    default_function=self._default_function(default, generator),
                    is_nondeterministic=is_nondeterministic,
                )
            )

    def _default_function(self, default: str | None, generated: Generated | None) -> int | None:
        """Return the function that represents a default; None where ``generated`` is sufficient."""
        if default is None or isinstance(generated, dict):
            return None
        return self._expression("default", default, _OF_SEQUENCES)

    def _expression(self, name: str, expression: str, others: frozenset[str]) -> int | None:
        """Return a function that represents an expression; None if it calls no relevant one."""
        if not called_functions(expression) & (self._function_names | others):
            return None
        if expression not in self._expressions:
            body = f"SELECT {expression}"
            self._expressions[expression] = self._add_function("", name, "sql", body)
        return self._expressions[expression]

    def _read_functions(self) -> None:
        """Read functions and rules, and assign triggers and rules to tables."""
        indexes = {}
        query = functions(self._connection.info.server_version)
        for oid, schema, name, language, body in self._query(query):
            indexes[oid] = self._add_function(schema, name, language, body)
        for table, function in self._query(TRIGGERS):
            if function in indexes:
                self._trigger_functions[table].append(indexes[function])
        self._function_names = frozenset(each.name for each in self._functions)
        for table, schema, name, definition in self._query(RULES):
            index = self._add_function(schema, name, RULE, definition)
            self._trigger_functions[table].append(index)
        for table, _, name, expression in self._query(CHECKS):
            check = self._expression(name, expression, frozenset())
            if check is not None:
                self._check_functions[table].append(check)
        for table, schema, name, expressions in self._query(POLICIES):
            body = f"SELECT {expressions}"
            index = self._add_function(schema, name, "sql", body)
            self._policy_functions[table].append(index)

    def _add_function(self, schema: str, name: str, language: str, body: str | None) -> int:
        self._functions.append(
            Function(schema=schema, name=name, language=language, body=body or "")
        )
        return len(self._functions) - 1

    def _read_tables(self) -> list[Table]:
        keys = defaultdict(list)
        for table, numbers in self._query(UNIQUE_KEYS):
            keys[table].append(self._columns_at(table, numbers))
        others = defaultdict(list)
        for table, columns, equal in self._query(OTHER_UNIQUENESS):
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
                trigger_functions=self._trigger_functions[oid],
                other_uniqueness=others[oid],
                check_functions=self._check_functions[oid],
                policy_functions=self._policy_functions[oid],
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
            for table, columns, parent, parent_columns, is_deferrable in self._query(FOREIGN_KEYS)
            if table in self._tables and parent in self._tables
        ]

    def _columns_at(self, table: int, numbers: Iterable[int]) -> list[int]:
        return [self._column_indexes[table][number] for number in numbers]


def _indexes(oids: Iterable[int]) -> dict[int, int]:
    return {oid: index for index, oid in enumerate(oids)}
