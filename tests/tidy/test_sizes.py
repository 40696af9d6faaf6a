"""Files, functions and lines stay small enough to be read in one sitting."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tidy import rust
from tidy.sources import Source, assert_kept, breach, ours

FILE_LINES_MAX = 900
FUNCTION_LINES_MAX = 70
LINE_COLUMNS_MAX = 100
PROSE_COLUMNS_MAX = 120
CODE = (".rs", ".py", ".pyi", ".js", ".mjs", ".css", ".sh", ".html")


def long_files(sources: list[Source]) -> Iterator[str]:
    for source in sources:
        if len(source.lines) > FILE_LINES_MAX:
            yield breach(source, FILE_LINES_MAX + 1, f"has {len(source.lines)} lines; divide it")


def long_functions(sources: list[Source]) -> Iterator[str]:
    for source in sources:
        spans = python_functions(source) if source.suffix == ".py" else rust_functions(source)
        for name, line, count in spans:
            if count > FUNCTION_LINES_MAX:
                yield breach(source, line, f"{name} has {count} lines; give its parts names")


def python_functions(source: Source) -> Iterator[tuple[str, int, int]]:
    """Name, first line and lines of each function; its docstring does not count."""
    for node in ast.walk(source.tree()):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                text = node.body[0]
                count -= (text.end_lineno or text.lineno) - text.lineno + 1
            yield node.name, node.lineno, count


def rust_functions(source: Source) -> Iterator[tuple[str, int, int]]:
    """Name, first line and lines of each function; rustdoc stands outside and does not count."""
    for each in rust.functions(source):
        yield each.name, each.first_line, each.last_line - each.first_line + 1


def long_lines(sources: list[Source]) -> Iterator[str]:
    for source in sources:
        for number, line in enumerate(source.lines, start=1):
            if len(line) > LINE_COLUMNS_MAX:
                yield breach(source, number, f"is {len(line)} columns wide")


def long_prose(sources: list[Source]) -> Iterator[str]:
    """Wide lines of documents, other than tables, code and headings."""
    for source in sources:
        is_fenced = False
        for number, line in enumerate(source.lines, start=1):
            is_fenced ^= line.lstrip().startswith("```")
            is_prose = not is_fenced and not line.startswith(("|", "#", "    "))
            if is_prose and len(line) > PROSE_COLUMNS_MAX:
                yield breach(source, number, f"is {len(line)} columns wide")


def test_files_are_short() -> None:
    assert_kept(long_files(ours(*CODE)))


def test_functions_are_short() -> None:
    assert_kept(long_functions(ours(".py", ".rs")))


def test_lines_are_narrow() -> None:
    assert_kept(long_lines(ours(*CODE)))


def test_prose_of_documents_is_narrow() -> None:
    written = [each for each in ours(".md") if each.path != "bench/RESULTS.md"]  # by the benches
    assert_kept(long_prose(written))


def test_long_file_is_seen() -> None:
    assert list(long_files([Source("a.rs", "x\n" * (FILE_LINES_MAX + 1))]))
    assert not list(long_files([Source("a.rs", "x\n" * FILE_LINES_MAX)]))


@pytest.mark.parametrize(
    ("path", "opening", "filler", "closing"),
    [
        ("a.py", "def f():\n", "    x = 1\n", ""),
        ("a.rs", "fn f() {\n", "    x();\n", "}\n"),
    ],
)
def test_long_function_is_seen(path: str, opening: str, filler: str, closing: str) -> None:
    room = FUNCTION_LINES_MAX - (opening + closing).count("\n")
    fits = Source(path, opening + filler * room + closing)
    too_long = Source(path, opening + filler * (room + 1) + closing)
    assert not list(long_functions([fits]))
    assert list(long_functions([too_long]))


def test_docstring_counts_nothing() -> None:
    text = 'def f():\n    """One.\n' + "\n" * 70 + '    """\n    return 1\n'
    assert not list(long_functions([Source("a.py", text)]))


def test_wide_line_is_seen() -> None:
    assert list(long_lines([Source("a.js", "x" * 101)]))
    assert not list(long_lines([Source("a.js", "x" * 100)]))


def test_wide_prose_is_seen() -> None:
    wide = "x" * 121
    assert list(long_prose([Source("a.md", wide)]))
    assert not list(long_prose([Source("a.md", f"| {wide}\n```\n{wide}\n```\n{wide[1:]}")]))
