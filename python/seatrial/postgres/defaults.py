"""What a column's default gives: a sequence's next value, something else each time, or the time.

Source: PostgreSQL's documentation, "Date/Time Functions" (which tell the time) and
"Function Volatility Categories".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final, Literal

Generated = Literal["random", "time"] | dict[str, int]
"""As ``crates/sqltext/src/catalog.rs`` has it: a sequence is told by its place in a list."""

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
    """Return the sequence that a default draws from, as the default names it.

    None where the default is anything else, such as a text around a sequence's value: the column's
    values are then not the sequence's.
    """
    found = _NEXTVAL.fullmatch(expression)
    return found["name"].replace("''", "'") if found else None


def called(expression: str) -> set[str]:
    """Return the names of the functions that a default calls, without their schemas."""
    bare = _TEXT.sub("''", expression)
    return {plain or quoted.replace('""', '"') for plain, quoted in _CALLED.findall(bare)}


def generated_by(
    expression: str, volatile: Collection[str], sequence_at: Callable[[str], int | None]
) -> Generated | None:
    """Return what a default gives; None where it is the same each time.

    Args:
        expression: The default, as ``pg_get_expr`` writes it.
        volatile: Names of functions that give something else at each call.
        sequence_at: Tells a sequence's place in the catalogue by a name that ``sequence_name``
            gave; None where there is none.
    """
    name = sequence_name(expression)
    place = sequence_at(name) if name is not None else None
    if place is not None:
        return {"sequence": place}
    functions = called(expression)
    if functions & (set(volatile) - _TIME_FUNCTIONS):
        return "random"
    words = set(_WORD.findall(_TEXT.sub("''", expression)))
    texts = set(_TEXT.findall(expression))
    tells_time = functions & _TIME_FUNCTIONS or words & _TIME_WORDS or texts & _TIME_TEXTS
    return "time" if tells_time else None
