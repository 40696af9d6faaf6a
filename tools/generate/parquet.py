"""Write the tables of docs/parquet.md from their declaration: `make generate`.

    python tools/generate/parquet.py            # writes the page
    python tools/generate/parquet.py --check    # reports a difference instead: `make lint`

What is above the first table in parquet.md.template is the introduction of the page.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from schemas import documentation

from seatrial.report.exports.parquet.tables import TABLES, Row, columns_of

PROSE_COLUMNS: Final = 120
PAGE: Final = Path(__file__).parents[2] / "docs" / "parquet.md"
TEMPLATE: Final = Path(__file__).with_suffix(".md.template")
TYPES: Final = {
    "text": "`text`",
    "integer": "`bigint`",
    "real": "`double`",
    "boolean": "`boolean`",
    "moment": "`timestamptz`",
}
"""Names of the types in SQL."""


def section(name: str, table: type[Row]) -> Iterator[str]:
    """Yield the section of a table.

    Raises:
        ValueError: when a column has no documentation.
    """
    about, meanings = documentation(table)
    paragraphs = about.replace("`null`", "NULL").split("\n\n")
    text = "\n\n".join(textwrap.fill(each, PROSE_COLUMNS) for each in paragraphs)
    yield f"## `{name}`\n\n{text}\n"
    yield "| column | type | meaning |\n|---|---|---|"
    for column in columns_of(table):
        if not meanings.get(column.name):
            raise ValueError(f"The column {column.name} of {table.__name__} is not explained.")
        null = ", NULL" if column.is_optional else ""
        yield f"| `{column.name}` | {TYPES[column.type]}{null} | {meanings[column.name]} |"


def page(template: str) -> str:
    """Return the page: the template, and a section for each table."""
    sections = ("\n".join(section(name, table)) for name, table in TABLES.items())
    return "\n\n".join([template.rstrip("\n"), *sections]) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the page, or report that it differs."""
    new = page(TEMPLATE.read_text(encoding="utf-8"))
    if "--check" not in arguments:
        PAGE.write_text(new, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != new:
        sys.stderr.write("docs/parquet.md differs from its tables. Run: make generate\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
