"""Output that documents quote is what the program prints: headings, and words of sentences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tidy.sources import PRODUCT, Source, assert_kept, breach, ours

FENCE = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
COLUMNS = re.compile(r" {2,}")
HEADING = re.compile(r"[A-Z±][A-Za-z/± -]*|p[\d.]+|tps|max|IOPS|MB/s")
CLAUSE = re.compile(r"[^.:;!,()'`|\[\]\d]+")
WORD = re.compile(r"[A-Za-z]+")
TRIPLES_MIN = 4
FACTORS = {"Method"}
"""What a workload varies heads a column by its own name."""
KNOWN_SHARE_MIN = 0.5
"""Sentences are put together from parts, and words at a seam stand together nowhere else."""


@cache
def texts_of_product() -> tuple[frozenset[str], frozenset[tuple[str, ...]]]:
    """Every string of the product, and every three words that follow each other in one."""
    strings = set()
    triples = set()
    for source in ours(".py", under=PRODUCT):
        for node in ast.walk(source.tree()):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.add(node.value)
                triples.update(triples_of(node.value))
    return frozenset(strings), frozenset(triples)


def triples_of(text: str) -> Iterator[tuple[str, ...]]:
    words = WORD.findall(text.lower())
    yield from zip(words, words[1:], words[2:], strict=False)


def quotes(source: Source) -> Iterator[tuple[int, str]]:
    """Every quoted output of a document, with the line where it begins."""
    for found in FENCE.finditer(source.text):
        yield source.text.count("\n", 0, found.start(1)) + 1, found[1]


def headings(quote: str) -> Iterator[str]:
    """The headings of tables: lines of three or more columns without a figure."""
    for line in quote.splitlines():
        cells = COLUMNS.split(line.strip())
        if len(cells) > 2 and line[0].isupper() and all(map(HEADING.fullmatch, cells)):
            yield from cells


def is_said(line: str) -> bool:
    """Whether a line belongs to a sentence: not to a table, and no command that is typed."""
    return not line.startswith("$ ") and not COLUMNS.search(line[4:])


def stale(sources: list[Source]) -> Iterator[str]:
    strings, triples = texts_of_product()
    for source in sources:
        for line, quote in quotes(source):
            for heading in headings(quote):
                if heading not in strings | FACTORS:
                    yield breach(source, line, f"no table has a column {heading!r}")
            said = " ".join(filter(is_said, quote.splitlines()))
            for clause in CLAUSE.findall(said):
                own = list(triples_of(clause))
                known = sum(each in triples for each in own)
                if len(own) >= TRIPLES_MIN and known < KNOWN_SHARE_MIN * len(own):
                    yield breach(source, line, f"nothing prints {clause.strip()!r}")


def test_quoted_output_is_what_the_program_prints() -> None:
    sources = ours(".md")
    assert sum(1 for source in sources for _ in quotes(source)) > 8
    assert_kept(stale(sources))


def test_a_column_and_a_sentence_that_nothing_prints_are_seen() -> None:
    table = "```text\nTarget  Midway     Half\ntrial   0.94x      0\n```\n"
    assert len(list(stale([Source("a.md", table)]))) == 2
    said = "```text\n ! One I/O costs the host 15.9 us: its limit.\n```\n"
    assert list(stale([Source("a.md", said)]))
    table = "Target  Workload  Before\nraid5   a         1\n"
    said = "29,380 blocks checked against what was\nwritten, none found wrong.\n"
    assert not list(stale([Source("a.md", f"```text\n{table}\n{said}```\n")]))
