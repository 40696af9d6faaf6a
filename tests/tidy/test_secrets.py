"""A password stays in its wrapping, ``postgres.connection.Secret``, wherever it goes.

Whoever takes it out could put it into an argument of a child, a message, a log or a results file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tidy.sources import PRODUCT, Source, assert_kept, breach, ours

MAY_REVEAL = {
    "postgres/connection.py": "into a child's environment, to libpq, and to our driver",
    "cli/options.py": "out of an address, into the environment of this process",
}
"""Files of the product that take a password out, and what for."""


def revealed_elsewhere(sources: list[Source]) -> Iterator[str]:
    for source in sources:
        if source.path.removeprefix(PRODUCT) in MAY_REVEAL:
            continue
        for node in ast.walk(source.tree()):
            if isinstance(node, ast.Attribute) and node.attr in ("reveal", "_value"):
                yield breach(source, node.lineno, "takes a password out of its wrapping")


def test_passwords_stay_wrapped() -> None:
    assert_kept(revealed_elsewhere(ours(".py", under=PRODUCT)))


def test_every_exception_is_needed() -> None:
    for path in MAY_REVEAL:
        (source,) = [each for each in ours(".py", under=PRODUCT) if each.path == PRODUCT + path]
        assert list(revealed_elsewhere([Source(PRODUCT + "other.py", source.text)])), path


@pytest.mark.parametrize("text", ["run(['psql', secret.reveal()])", "print(secret._value)"])
def test_a_password_taken_out_is_seen(text: str) -> None:
    assert list(revealed_elsewhere([Source(PRODUCT + "measure/a.py", text)]))
