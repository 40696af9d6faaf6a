"""The questions that a database's catalogue is asked, for versions 13 to 18.

Source: PostgreSQL's documentation, chapter "System Catalogs".
"""

from __future__ import annotations

from typing import Final, LiteralString

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
# An identity column's sequence is a part of it; any other default is told by its expression.
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
# Which sequence a default's name means is for the server to say: it knows the search path.
SEQUENCES_NAMED: Final = "SELECT name, to_regclass(name)::oid FROM unnest(%s::text[]) AS name"
VOLATILE: Final = """
    SELECT DISTINCT proname::text FROM pg_proc WHERE provolatile = 'v' AND proname = ANY (%s)
"""
UNIQUE_KEYS: Final[LiteralString] = """
    SELECT i.indrelid, (i.indkey::int2[])[0:i.indnkeyatts - 1]
    FROM pg_index i
    JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
        AND NOT i.indisexclusion
        AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY i.indrelid, i.indisprimary DESC, i.indexrelid
"""
# What else keeps rows apart: indexes of expressions or of some rows, those that take two NULLs for
# the same (15 and later), exclusion constraints, and indexes that are being made. Which columns
# they depend on (an exclusion constraint does so in place of its index), and those columns of which
# rows in each other's way have the same values.
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
    WHERE (i.indisunique OR i.indisexclusion) AND i.indisready
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
    SELECT p.oid, n.nspname, p.proname, l.lanname, p.provolatile = 'v',
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
# Expressions that rows of a table have to fulfil: its own, and those of its columns' types.
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
# Expressions that tell who may see and write which rows.
POLICIES: Final[LiteralString] = """
    SELECT p.polrelid, n.nspname, p.polname,
        concat_ws(', ', pg_get_expr(p.polqual, c.oid), pg_get_expr(p.polwithcheck, c.oid))
    FROM pg_policy p
    JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relrowsecurity AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY p.polrelid, p.polname
"""


def functions(version: int) -> LiteralString:
    """Return what asks for the functions of a server of that ``server_version_num``.

    A body in the form of the SQL standard (14 and later) is kept parsed, and has no source.
    """
    if version < _VERSION_14:
        return _FUNCTIONS + "p.prosrc" + _OF_FUNCTIONS
    return _FUNCTIONS + "coalesce(pg_get_function_sqlbody(p.oid), p.prosrc)" + _OF_FUNCTIONS
